"""From which version each user starts, as a learner sees it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from netfl.types import Ints

if TYPE_CHECKING:
    from netfl.learning.cohort import Cohort
    from netfl.learning.device_store import DeviceStore


class BaseRule:
    """Users start from the version that they have received: the base that the trace states.

    A derived class chooses other bases, in all lanes or in some.  It is given in Python alone, in
    `netfl.learning.learner.LearningTask`; scenarios have no key for it yet.

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


def by_member(numbers: Ints, members: int) -> list[Ints]:
    """Return the *numbers* of `BaseRule` for each member, ``[users]`` each."""
    return [*numbers.T] * (members // numbers.shape[1])
