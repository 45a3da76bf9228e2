'''The selection family: whom the server lets try in a round; who of them is heard, the access still decides.

A selection is opened once for a replica, and asked as each round opens.  Users that it does not choose do not train,
do not send, and are not heard.

To write one: a file in this package, or a class in a package of your own, that derives from `Selection`.

- `Selection.open` gets a `UserInfo`, what is known of the users once and for all, and gives a `Selector`.
- `Selector.choose` gets a `RoundInfo`, what is known as a round opens, and gives the users who may try.  Draws come
  from ``population.streams`` only, by the number of the round: ``streams.field("turn").uniform(users, moment.round)``.
- `Selector.asks` says what it wants to know of the learners before it chooses for a round.  A selection that asks
  closes the loop between learning and network, and says so by `Selection.asking`.
- A selection that cannot work for a population raises a `netfl.errors.ScenarioError` in `Selection.open`, its keys
  relative to the selection; what can be known before that it says by ``faults``.

A complete selection, which lets users try in shifts::

    class Shifts(Selection):
        """Users try in shifts: in round r those whose number leaves the rest r mod n.

        Example::

            kind: mylab.shifts:Shifts
            n: 2
        """

        n: Annotated[int, Field(ge=1)]
        """How many shifts there are."""

        def open(self, population):
            return _Shifts(self.n, population.size)

        def most(self, users):
            return -(-users // self.n)

        def laws(self):
            return (Law.none("draws nothing"),)

    class _Shifts(Selector):
        def __init__(self, n, users):
            self._n, self._users = n, np.arange(users)

        def choose(self, moment):
            return self._users[self._users % self._n == moment.round % self._n]
'''

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netfl.registry import Spec
from netfl.streams import Streams

Users = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class UserInfo:
    """What is known of the users once and for all.

    Args:
        size: how many there are.
        streams: this replica's random streams for the selection.
        held: how many training examples each holds, ``[size]``; ``None`` where there are no data.
        airtime_s: how long each is expected to be on the air for one update, attempts that fade included, ``[size]``;
            ``None`` where there is no network, or nobody wants it.
    """

    size: int
    streams: Streams
    held: NDArray[np.float64] | None = None
    airtime_s: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class RoundInfo:
    """What is known as a round opens.

    Args:
        round: the round that opens, from 1.
        age: rounds since each user was last heard, ``[users]``: 1 for those heard in the round before, ``round`` for
            those never heard.
        loss: the mean training loss of the version that is about to be sent, by user, for those that were asked about,
            ``[users]``; NaN for all others, and for everybody before round 2.
    """

    round: int
    age: NDArray[np.int64]
    loss: NDArray[np.float64]


class Selector(ABC):
    """A selection at work in one replica."""

    @abstractmethod
    def choose(self, moment: RoundInfo) -> Users:
        """Who may try in a round: distinct users in rising order, possibly none."""

    def asks(self, round: int, heard: Users) -> Mapping[str, Users]:
        """What it wants to know before it chooses for *round* (2 or later): ``{"loss": users}``, or nothing.

        Args:
            round: the round that it will choose for.
            heard: who was heard in the round before, in rising order.
        """
        return {}


class Selection(Spec):
    """The contract of a selection."""

    @abstractmethod
    def open(self, population: UserInfo) -> Selector:
        """The selection at work.

        Raises:
            netfl.errors.ScenarioError: it cannot work for this population; keys relative to the selection.
        """

    def most(self, users: int) -> int:
        """The largest number of *users* that it chooses in one round."""
        return users

    @property
    def asking(self) -> bool:
        """Whether it asks the learners, which closes the loop."""
        return False

    @property
    def wants_held(self) -> bool:
        """Whether it needs to know how many examples each user holds."""
        return False

    @property
    def wants_airtime(self) -> bool:
        """Whether it needs to know how long users are on the air."""
        return False
