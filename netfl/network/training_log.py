"""Record of the trainings of users: kept only where a learner asks for those that were in vain."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Set

from netfl.network.periods import after_rounding


class TrainingLog:
    """The trainings of each user that have ended, since that of its last delivered update."""

    def __init__(self) -> None:
        self._of_user: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
        self._count_of: Counter[int] = Counter()  # trainings of all users, by base

    def add(self, users: Iterable[int], trained_s: Iterable[float], bases: Iterable[int]) -> None:
        """Add trainings of *users* that ended at *trained_s*, each after the others of its user."""
        for user, ended_s, base in zip(users, trained_s, bases, strict=True):
            self._of_user[user].append((ended_s, base))
            self._count_of[base] += 1

    def take_before(self, user: int, base: int, sent_s: float) -> tuple[int, ...]:
        """Return the bases of the trainings of *user* before that of an update, and forget all of them.

        The update is that from *base* whose first attempt began at *sent_s*.  One that a younger update has overtaken
        has no trainings before it.
        """
        trainings = self._of_user[user]
        by_s = after_rounding(sent_s)
        places = [place for place, (ended_s, of) in enumerate(trainings) if of == base and ended_s <= by_s]
        if not places:
            return ()
        last = places[-1]
        self._of_user[user] = trainings[last + 1 :]
        for _, of in trainings[: last + 1]:
            self._count_of[of] -= 1
            if not self._count_of[of]:
                del self._count_of[of]
        return tuple(of for _, of in trainings[:last])

    def bases(self) -> Set[int]:
        """Return the bases of all trainings in the record; each round asks for them."""
        return self._count_of.keys()
