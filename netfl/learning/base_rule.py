"""From which version each user starts, as a learner sees it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from netfl.types import Ints

if TYPE_CHECKING:
    from netfl.learning.cohort import Cohort
    from netfl.learning.device_store import DeviceStore, UserRows

_LAST = "base.last"
"""Name of the rows with the versions of users' last participations."""


class BaseRule:
    """Users start from the version that they have received: the base that the trace states.

    A derived class chooses other bases, in all lanes or in some: `LastParticipation` in those whose learner asks for
    it, or one of your own, which is given in Python, in `netfl.learning.learner.LearningTask`.  Models of the devices'
    own, ``base: own``, are no versions: see `netfl.learning.device_rules`.

    Models, messages and `Updates.base_rounds` are those of the base chosen here.  The base of the trace remains the key
    of mini-batches and of other draws, so that learners are compared in pairs; the clock of schedules, as it says when
    the user has started; and the age of an update in results.  The network knows nothing of this rule.

    Args:
        store: for numbers of users that the rule has to remember; they are then in checkpoints.
        lanes: learner and replica of each lane.
    """

    def __init__(self, store: DeviceStore, lanes: Sequence[tuple[str, int]]) -> None:
        self.store = store
        self.lanes = lanes

    def numbers(self, cohort: Cohort, lanes: Ints) -> Ints:
        """Return the number of the version from which each user starts, ``[users, members]``.

        It is ``[users, 1]`` if all lanes start from the same version.  A version has to be one of the trace's, or one
        that `needed` has named.

        Args:
            cohort: the users.
            lanes: of each user and member, ``[users, members]``.
        """
        return cohort.bases[:, None]

    def close(self, cohort: Cohort, index: int) -> None:
        """Note that the updates of *cohort* have made version *index*, after all `numbers` of the round."""

    def needed(self) -> Collection[int]:
        """Return the versions from which updates may start, beside those that the trace needs."""
        return ()


class LastParticipation(BaseRule):
    """Users start from the version that their last delivered update helped to make, version 0 before, in some lanes.

    Args:
        store: as of `BaseRule`.
        lanes: as of `BaseRule`.
        asking: the numbers of the lanes with these bases; the others have those of the trace.
    """

    def __init__(self, store: DeviceStore, lanes: Sequence[tuple[str, int]], asking: Collection[int]) -> None:
        super().__init__(store, lanes)
        self._asking = frozenset(asking)
        self._replicas = len({replica for _, replica in lanes})

    def numbers(self, cohort: Cohort, lanes: Ints) -> Ints:
        if self._asking.isdisjoint(lanes.ravel().tolist()):
            return super().numbers(cohort, lanes)
        numbers = np.repeat(cohort.bases[:, None], lanes.shape[1], axis=1)
        for part in cohort.parts:
            users = cohort.users[part].tolist()
            for member, lane in enumerate(lanes[part.start].tolist()):
                if lane not in self._asking:
                    continue
                rows = self._rows(lane)
                places = [rows.places.of_user(user) for user in users]
                numbers[part, member] = rows.table[places, 0].numpy()
        return numbers

    def close(self, cohort: Cohort, index: int) -> None:
        for part in cohort.parts:
            users = cohort.users[part].tolist()
            replica = int(cohort.replicas[part.start])
            lanes_of_replica = range(replica, len(self.lanes), self._replicas)
            for lane in lanes_of_replica:
                if lane not in self._asking:
                    continue
                rows = self._rows(lane)
                places = [rows.places.add(user) for user in users]
                rows.table[places] = index

    def needed(self) -> Collection[int]:
        numbers = {0}
        for lane in self._asking:
            rows = self._rows(lane)
            numbers.update(rows.table[1 : rows.places.end, 0].tolist())
        return numbers

    def _rows(self, lane: int) -> UserRows:
        """Return the number of each user's last version in a lane, on the host."""
        import torch

        return self.store.rows(_LAST, lane, torch.zeros(1, dtype=torch.int64))


def by_member(numbers: Ints, members: int) -> list[Ints]:
    """Return the *numbers* of `BaseRule` for each member, ``[users]`` each."""
    return [*numbers.T] * (members // numbers.shape[1])
