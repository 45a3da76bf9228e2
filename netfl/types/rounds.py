"""Rounds: a round with its deliveries and merges, many rounds as arrays, and a round that is still open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from netfl.core.columns import ColumnHint, to_arrays
from netfl.types.arrays import Floats, Ints
from netfl.types.deliveries import Delivery
from netfl.types.merges import SERVER, Merge


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round of one replica, and a row of the table ``rounds``; its deliveries make version ``index``.

    Args:
        index: number of the round, counted from 1; version 0 is the start, version r the server's model after round r.
        opened_s: start of the broadcast of the version before the round, in seconds.
        closed_s: when the server stopped waiting, in seconds.
        deliveries: what the server got, in the order of its arrival; may be empty.
        oldest: the oldest version that a later delivery may still start from.
        uplink_bits: bits that users sent, failed attempts included.
        downlink_bits: bits of the broadcast.
        queries: in a closed loop, the users whom each of the `QUERIES` to the learners is about, for the version that
            this round makes.
        needed: versions before `index` that later deliveries may still start from, if known better than by `oldest`.
        energy_j: joules that all users have spent until this round closed; ``None`` without an energy model.
        not_summed: users and bases of updates that were left out of the sum in the air of this round, in rising order;
            empty unless ``AccessContext.reports_not_summed`` asks for them.
        merges: aggregations of other nodes, in the order of time, and, last, that of the server if it merges models.
    """

    index: Annotated[int, ColumnHint(name="round")]
    opened_s: float
    closed_s: float
    deliveries: Annotated[tuple[Delivery, ...], ColumnHint("delivered", "int32", "number of delivered updates", len)]
    oldest: int
    uplink_bits: float = 0.0
    downlink_bits: float = 0.0
    queries: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    needed: tuple[int, ...] | None = None
    energy_j: Annotated[
        float | None,
        ColumnHint(
            "energy_J",
            "double",
            "joules that all users have spent until this round closed; NaN without an energy model",
        ),
    ] = None
    not_summed: tuple[tuple[int, int], ...] = ()
    merges: tuple[Merge, ...] = ()

    def all_merges(self) -> Sequence[Merge]:
        """Return the aggregations of all nodes, in the order of time; the last is that of the server."""
        if self.merges and self.merges[-1].node == SERVER:
            return self.merges
        of_server = Merge(
            node=SERVER, number=self.index, round=self.index, time_s=self.closed_s, deliveries=self.deliveries
        )
        return (*self.merges, of_server)

    def all_deliveries(self) -> Sequence[Delivery]:
        """Return the deliveries of all nodes: those of each merge, in the order of `all_merges`."""
        if not self.merges:
            return self.deliveries
        return (*chain.from_iterable(merge.deliveries for merge in self.merges), *self.deliveries)


def round_number(rounds: Sequence[Round | None]) -> int:
    """Return the number of *rounds*, one of each replica; ``None`` is a replica that has ended."""
    return next(each.index for each in rounds if each is not None)


@dataclass(frozen=True, slots=True)
class RoundBatch:
    """Consecutive rounds as arrays, with their deliveries end to end.

    Accesses use it where they draw many rounds at once and no learner answers in between.

    Args:
        rounds: columns of `Round` by name, ``[rounds]`` each; the numbers of the rounds rise by one.  ``delivered``
            counts the deliveries of all nodes.
        deliveries: columns of `Delivery` by name, ``[deliveries]`` each.
    """

    rounds: Mapping[str, NDArray[Any]]
    deliveries: Mapping[str, NDArray[Any]]

    @classmethod
    def of(cls, rounds: Sequence[Round]) -> RoundBatch:
        """Return a batch of *rounds*, one at least."""
        of_rounds = [each.all_deliveries() for each in rounds]
        columns = to_arrays(Round, rounds)
        if any(each.merges for each in rounds):
            columns["delivered"] = np.array([*map(len, of_rounds)], np.int64)
        return cls(columns, to_arrays(Delivery, [*chain.from_iterable(of_rounds)]))

    @property
    def index(self) -> Ints:
        """Numbers of the rounds, ``[rounds]``."""
        return self.rounds["round"]

    @property
    def closed_s(self) -> Floats:
        """When each round closed, ``[rounds]``."""
        return self.rounds["closed_s"]

    @property
    def delivered(self) -> Ints:
        """Number of deliveries of each round, ``[rounds]``."""
        return self.rounds["delivered"]

    @property
    def user(self) -> Ints:
        """User of each delivery, ``[deliveries]``."""
        return self.deliveries["user"]

    @property
    def tables(self) -> Mapping[str, Mapping[str, NDArray[Any]]]:
        """Columns of the tables ``rounds`` and ``deliveries``, without the replica."""
        numbers = np.repeat(self.index, self.delivered)
        return {"rounds": self.rounds, "deliveries": {"round": numbers, **self.deliveries}}


@dataclass(frozen=True, slots=True)
class RoundProgress:
    """State of a round that is still open.

    Args:
        round: its number, from 1.
        time_s: simulated time.
        attempts: transmissions that have ended so far.
        failed_attempts: failed transmissions in this round since the last delivery.
    """

    round: int
    time_s: float
    attempts: int
    failed_attempts: int


def ignore_progress(pulse: RoundProgress) -> None:
    """Ignore the progress of a round."""
