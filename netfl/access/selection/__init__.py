'''The selection family: the users that the server allows to take part in a round.

Users that are not selected do not train, do not send and are not delivered.  Which of the selected users are delivered
is up to the access.

To write a selection, add a file to this package, or a class to a package of your own, that derives from `Selection`.

- `Selection.open` is called once for each replica.  It gets a `UserInfo` and returns a `Selector`.
- `Selector.choose` is called as each round opens.  It gets a `RoundInfo` and returns the selected users.  Draws come
  from ``population.streams`` only, indexed by the round: ``streams.field("turn").uniform(users, moment.round)``.
- `Selector.queries` returns what the selector needs to know of the learners before it chooses for a round.  A selection
  that asks closes the loop between learning and network; its `Selection.needs_learner_metrics` is true.
- A selection that cannot work for a population raises a `netfl.errors.ScenarioError` in `Selection.open`, with keys
  relative to the selection.  Errors that are known before that come from ``faults``.

A complete selection, in which users take part in shifts::

    class Shifts(Selection):
        """Round r selects the users whose number is congruent to r modulo n.

        Example::

            kind: mylab.shifts:Shifts
            n: 2
        """

        n: Annotated[int, Field(ge=1)]
        """Number of shifts."""

        def open(self, population):
            return _Shifts(self.n, population.size)

        def max_selected(self, users):
            return -(-users // self.n)

        def laws(self):
            return (Law.none("draws nothing"),)

    class _Shifts(Selector):
        def __init__(self, n, users):
            self._n = n
            self._users = np.arange(users)

        def choose(self, moment):
            return self._users[self._users % self._n == moment.round % self._n]
'''

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from netfl.registry import Spec, exported_models
from netfl.streams import Streams
from netfl.types import Floats, Ints, Users


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Properties of the users that do not change during a run.

    Args:
        size: number of users.
        streams: this replica's random streams for the selection.
        sample_counts: training examples of each user, ``[size]``; ``None`` without data.
        airtime_s: expected airtime of one update of each user, including faded attempts, ``[size]``; ``None`` without
            a network, or if the selection does not need it.
    """

    size: int
    streams: Streams
    sample_counts: Floats | None = None
    airtime_s: Floats | None = None


@dataclass(frozen=True, slots=True)
class RoundInfo:
    """State of the users as a round opens.

    Args:
        round: the round that opens, from 1.
        age: rounds since each user was last delivered, ``[users]``: 1 for users delivered in the previous round,
            ``round`` for users never delivered.
        loss: mean training loss of each user under the version that is about to be sent, ``[users]``; NaN for users
            that were not asked, and for all users before round 2.
    """

    round: int
    age: Ints
    loss: Floats


class Selector(ABC):
    """A selection in one replica."""

    @abstractmethod
    def choose(self, moment: RoundInfo) -> Users:
        """Return the users selected for a round: distinct and ascending, possibly none."""

    def queries(self, round: int, delivered: Users) -> Mapping[str, Users]:
        """Return the questions to the learners before `choose` for *round* (2 or later): ``{"loss": users}`` or none.

        Args:
            round: the round to choose for.
            delivered: the users delivered in the round before, ascending.
        """
        return {}


class Selection(Spec):
    """The contract of a selection."""

    @abstractmethod
    def open(self, population: UserInfo) -> Selector:
        """Return the selector of one replica.

        Raises:
            netfl.errors.ScenarioError: the selection cannot work for this population; keys relative to the selection.
        """

    def max_selected(self, users: int) -> int:
        """Return the largest number of *users* that one round selects."""
        return users

    @property
    def needs_learner_metrics(self) -> bool:
        """The selector asks the learners, which closes the loop."""
        return False

    @property
    def needs_sample_counts(self) -> bool:
        """The selector reads ``UserInfo.sample_counts``."""
        return False

    @property
    def needs_airtime(self) -> bool:
        """The selector reads ``UserInfo.airtime_s``."""
        return False


__getattr__ = exported_models(__name__)
