"""Rounds: a round with its deliveries, many rounds as arrays, and a round that is still open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from netfl.columns import ColumnHint, Int32, to_arrays
from netfl.types.arrays import Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkReport:
    """Link over which a delivered update came; a row of the table ``links``, after the key of the delivery.

    With packets, SNR, gain and mode are those of the packet that was received last.

    Args:
        snr_db: SNR of its last frame that was received, at the start of the frame and in its share of the band, in dB;
            interference from outside of the network in its block counts as noise; NaN without a radio.
        gain_db: gain of the link for this frame, antennas included: received over radiated power, in dB; NaN without a
            radio.
        mode: number of the mode of the reception of this frame, from 0.
        airtime_s: time for which its user has sent it, in all attempts until its arrival.
        energy_j: joules for these attempts, without those of the training; NaN without an energy model.
    """

    snr_db: float
    gain_db: float
    mode: Int32
    airtime_s: float
    energy_j: Annotated[float, ColumnHint(name="energy_J")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """An update that reached the server in time and was aggregated; a row of the table ``deliveries``.

    Each field is a column (`netfl.columns`).  A field that is added needs a default; fields are given by keyword, so
    its place is free.

    Args:
        user: the user that trained it.
        base: the version of the global model that the user started from.
        sent_s: start of its first attempt, in seconds; with packets, of the first packet.
        arrived_s: arrival at the server, in seconds; with packets, of the last packet.  It is before the opening of the
            round, and not before the close of the last one, if users answered a call of the server meanwhile.
        attempts: number of attempts that it took; with packets, of all packets.
        received: whether the server has each part of it, all of the same size; ``None`` for all.
        link: how it came over the air; ``None`` unless ``AccessContext.reports_links`` asks for it.
    """

    user: int
    base: int
    sent_s: float
    arrived_s: float
    attempts: Int32 = 1
    received: tuple[bool, ...] | None = None
    link: LinkReport | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round of one replica, and a row of the table ``rounds``; its deliveries make version ``index``.

    Args:
        index: number of the round, counted from 1; version 0 is the start, version r the server's model after round r.
        opened_s: start of the broadcast of the version before the round, in seconds.
        closed_s: when the server stopped waiting, in seconds.
        deliveries: in the order of their arrival; may be empty.
        oldest: the oldest version that a later delivery may still start from.
        uplink_bits: bits that users sent, failed attempts included.
        downlink_bits: bits of the broadcast.
        queries: in a closed loop, the users whom each of the `QUERIES` to the learners is about, for the version that
            this round makes.
        needed: versions before `index` that later deliveries may still start from, if known better than by `oldest`.
        energy_j: joules that all users have spent until this round closed; ``None`` without an energy model.
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


def round_number(rounds: Sequence[Round | None]) -> int:
    """Return the number of *rounds*, one of each replica; ``None`` is a replica that has ended."""
    return next(each.index for each in rounds if each is not None)


@dataclass(frozen=True, slots=True)
class RoundBatch:
    """Consecutive rounds as arrays, with their deliveries end to end.

    Accesses use it where they draw many rounds at once and no learner answers in between.

    Args:
        rounds: columns of `Round` by name, ``[rounds]`` each; the numbers of the rounds rise by one.
        deliveries: columns of `Delivery` by name, ``[deliveries]`` each.
    """

    rounds: Mapping[str, NDArray[Any]]
    deliveries: Mapping[str, NDArray[Any]]

    @classmethod
    def of(cls, rounds: Sequence[Round]) -> RoundBatch:
        """Return a batch of *rounds*, one at least."""
        deliveries = [delivery for each in rounds for delivery in each.deliveries]
        return cls(to_arrays(Round, rounds), to_arrays(Delivery, deliveries))

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
