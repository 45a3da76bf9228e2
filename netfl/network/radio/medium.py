"""The medium of a cell: it decides which transmissions are received."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from netfl.network.attempt_log import JAMMED
from netfl.network.energy import EnergyMeter
from netfl.network.layout import NodeId
from netfl.network.message import Message
from netfl.network.radio.cell_band import RADIO_BAND, CellBand
from netfl.network.radio.connection import ALWAYS_CONNECTED, Connection
from netfl.network.radio.jamming import Jamming
from netfl.network.radio.transmission import SharedChannel, Signal, Transmission
from netfl.types import Bools, Floats, Ints

_ROUNDING_DB = 1e-9
"""Power above the most that a user has which counts as rounding."""

ReceptionResult = tuple[Sequence[str], Floats]
"""Cause of failure of each frame, or an empty string if it was received; and the SNR of each frame, in dB."""


class FramePower(NamedTuple):
    """Power with which users send frames.

    Args:
        offset_db: power of each above that of its radio, ``[n]``; -inf for a user that withholds its frame.
        is_clipped: whether it should have been more than the user has, ``[n]``.
    """

    offset_db: Floats
    is_clipped: Bools

    @classmethod
    def up_to(cls, most_db: float | Floats, wanted_db: Floats) -> FramePower:
        """Return the powers *wanted_db*, of which none is above *most_db*, one for all or ``[n]``."""
        is_clipped = wanted_db > most_db + _ROUNDING_DB
        return cls(np.minimum(wanted_db, most_db), np.asarray(is_clipped))

    @property
    def is_withheld(self) -> Bools:
        """True for each user that withholds its frame, ``[n]``."""
        return np.isneginf(self.offset_db)

    def select(self, places: Sequence[int]) -> FramePower:
        """Return the powers of the users at some places."""
        return FramePower(self.offset_db[places], self.is_clipped[places])


@cache
def unknown_snr(n: int) -> Floats:
    """Return the SNR of *n* frames that is not known: NaN."""
    unknown = np.full(n, np.nan)
    unknown.setflags(write=False)
    return unknown


def mark_interrupted(transmission: Transmission, causes: list[str]) -> list[str]:
    """Return *causes* with ``lost`` for all senders that an outage interrupted, whatever else failed."""
    if transmission.interrupted is None:
        return causes
    return ["lost" if lost else cause for lost, cause in zip(transmission.interrupted, causes, strict=True)]


class Medium:
    """A medium on which transmissions fail by collisions and outages only, as closed forms of MACs assume.

    Args:
        connection: outages and batteries of users and towers.

    Attributes:
        mode_names: names of the modes, empty where they have none.
        modes: number of modes that a sender can choose from.
        follows_snr: whether senders have no modes, and set their rates by their SNR instead, `rates_bps`.
        snr_gap_db: SNR that the codes of the reception need above Shannon's limit.
        energy: energy meter of sendings and receptions; ``None`` for none.
        sums: whether towers receive the sum of frames that overlap, and no frame by itself.
        symbols_hz: analogue symbols that a sender has in a second.
        can_withhold: whether users can withhold their frames, as the power control lets them.
        jamming: the jammer; ``None`` for none.
    """

    modes = 1
    follows_snr = False
    snr_gap_db = 0.0
    mode_names: Sequence[str] = ("",)
    energy: EnergyMeter | None = None
    sums = False
    symbols_hz = 0.0
    can_withhold = False
    jamming: Jamming | None = None

    def __init__(self, rate_bps: float, connection: Connection = ALWAYS_CONNECTED) -> None:
        self._rate_bps = rate_bps
        self.connection = connection

    def set_power_offset(self, offset_db: Floats | None) -> None:
        """Let each user send with *offset_db* more power than that of the radio, ``[users]``; ``None`` is none."""
        if self.energy is not None:
            self.energy.set_power_offset(offset_db)

    def power_offset_db(self, ids: Ints) -> Floats | None:
        """Return the present power of each user above that of its radio, ``[n]``; ``None`` if no user has another."""
        return None

    def frame_power(
        self,
        ids: Ints,
        tower: NodeId,
        time_s: float,
        share: float | Floats | None = None,
        wanted_db: Floats | None = None,
    ) -> FramePower | None:
        """Return the power with which each user sends a frame from now on; ``None`` for `power_offset_db`.

        Args:
            ids: the users.
            tower: their tower.
            time_s: start of the sending.
            share: fraction of the bandwidth of its radio in which each sends, one for all or ``[n]``.
            wanted_db: power of each above that of its radio that the MAC gives, ``[n]``; ``None`` leaves it to the
                power control.
        """
        if wanted_db is None:
            return None
        return FramePower.up_to(0.0, wanted_db)

    def next_change_s(self, time_s: float) -> float:
        """Return the next time after *time_s* at which gains of channels change; infinity if they never do."""
        return math.inf

    def outside_over_noise(self, ids: Ints, tower: NodeId, power_dbm: Floats) -> Floats:
        """Return these powers, ``[n, blocks]`` or ``[blocks]``, over the noise at *tower* in the whole band.

        Returns:
            Ratios, ``[n, blocks]``; infinity on a medium without noise.
        """
        return np.full((len(ids), np.shape(power_dbm)[-1]), np.inf)

    def set_outside(self, outside: Floats | None) -> None:
        """Let each user have this interference from outside of the network in its share, ``[users]``; ``None`` is none.

        It is given over the noise in the whole band, as by `outside_over_noise`, and counts on the uplink alone.
        """

    def outside_of(self, ids: Ints) -> Floats | None:
        """Return the present interference in each user's share, over the noise in the whole band, ``[n]``."""
        return None

    def mode_rates_bps(self, ids: Ints, modes: int | Ints) -> float | Floats:
        """Return the bit rate of each user's mode in the whole band, one for all or ``[n]``.

        Args:
            ids: the users.
            modes: one mode for all, or ``[n]``.
        """
        return self._rate_bps

    def longest_s(self, bits: float, ids: Ints | None = None) -> float:
        """Return the airtime of *bits* in the slowest mode of *ids*, by default of all users.

        Infinity if rates follow the SNR.
        """
        return bits / self._rate_bps

    def most_robust_mode(self, bits: float) -> int:
        """Return the mode in which *bits* are received at the lowest SNR."""
        return 0

    def outcomes(self, transmission: Transmission) -> ReceptionResult:
        """Return which frames of a transmission were received, at its end."""
        n = len(transmission.ids)
        cause = ""
        if transmission.is_disturbed:
            cause = "collided"
        elif self.jamming is not None and self.jamming.bursts(transmission.start_s, transmission.end_s):
            cause = JAMMED
        return mark_interrupted(transmission, [cause] * n), unknown_snr(n)

    def lost_for_all(self, ids: Ints) -> Bools | None:
        """Return whether a frame of each user is lost for every tower alike, ``[n]``; ``None`` if none ever is."""
        return None

    def gain_db(self, transmission: Transmission, snr_db: Floats) -> Floats:
        """Return the gain of each link, received over radiated power, from the SNRs of `outcomes`, ``[n]``.

        NaN without a radio.
        """
        return unknown_snr(len(snr_db))

    def choose(
        self,
        ids: Ints,
        tower: NodeId,
        time_s: float,
        boost_db: float | Floats | None = None,
        share: float | Floats | None = None,
        power_db: Floats | None = None,
        channel: ArrayLike | None = None,
        *,
        is_group: bool = False,
    ) -> Ints:
        """Return the mode in which each user sends or, if *boost_db* is given, the tower sends to it, ``[n]``.

        Args:
            ids: the users.
            tower: their tower.
            time_s: start of the sending.
            boost_db: SNR of the tower's signal above that of the user's, one for all or ``[n]``.
            share: fraction of the band in which each sends, one for all or ``[n]``; ``None`` for the whole band.
            power_db: power of the frame of each above that of its radio, ``[n]``; ``None`` for `power_offset_db`.
            channel: channel on which each sends, one for all or ``[n]``; ``None`` if it has none yet, or the tower
                sends.
            is_group: whether the tower lets those on one channel send at once, so that each expects the interference of
                the others; if not, each expects to send alone.
        """
        return np.zeros(len(ids), np.int64)

    def rates_bps(
        self,
        ids: Ints,
        tower: NodeId,
        time_s: float,
        boost_db: float | Floats | None = None,
        share: float | Floats | None = None,
        power_db: Floats | None = None,
        channel: ArrayLike | None = None,
        *,
        is_group: bool = False,
    ) -> Floats:
        """Return the bit rate that each user's SNR allows now, ``[n]``; called only if `follows_snr`.

        The arguments are those of `choose`.
        """
        raise NotImplementedError(f"{type(self).__name__} has modes")

    def airtimes_s(self, ids: Ints, tower: NodeId, time_s: float, bits: float, modes: Ints) -> Floats:
        """Return the airtime of *bits* of each user, in its mode or at the rate of its SNR, ``[n]``."""
        if self.follows_snr:
            return bits / self.rates_bps(ids, tower, time_s)
        return np.full(len(ids), bits / self.mode_rates_bps(ids, modes))

    def snr_db(self, ids: Ints, tower: NodeId, time_s: float) -> Floats:
        """Return the present SNR of each user at *tower*, ``[n]``."""
        return np.full(len(ids), np.inf)

    def best_snr_db(self, ids: Ints, tower: str = "") -> Floats:
        """Return an SNR that each user practically never exceeds at *tower*, or at its tower of the start, ``[n]``."""
        return np.full(len(ids), np.inf)

    def delay_s(self, ids: Ints, tower: NodeId, time_s: float) -> Floats | None:
        """Return the propagation delay between each user and *tower*, ``[n]``; ``None`` where it is negligible."""
        return None

    def between_users_dbm(self, sender: int, ids: Ints, time_s: float) -> Floats:
        """Return the power of a sender at each user, ``[n]``; infinity on a medium without a radio."""
        return np.full(len(ids), np.inf)

    @property
    def has_fixed_sensing(self) -> bool:
        """True if `between_users_dbm` is now the same as whenever this was true before."""
        return True

    def can_receive(self, ids: Ints, tower: NodeId, bits: float, boost_db: float | Floats) -> Bools:
        """Return whether the signal of *tower* can ever suffice, ``[n]``; its SNR is *boost_db* above the user's."""
        return np.ones(len(ids), np.bool_)

    def downlink_received(self, ids: Ints, signal: Signal, *, is_sent: bool = True) -> Bools:
        """Return whether each user receives *signal*, which arrives from now on, ``[n]``.

        Args:
            ids: the users; an outage of a user while the signal arrives ends its reception.
            signal: the signal, from its arrival to its end.
            is_sent: whether the tower was up while it sent.
        """
        return self.connection.listening_during(ids, signal.start_s, signal.end_s, is_tower_up=is_sent)

    def success_probability(
        self, ids: Ints, tower: NodeId, time_s: float, bits: float, modes: Ints, channel: int | None = None
    ) -> Floats:
        """Return the probability that each user's frame is received, without interference, in its mode, ``[n]``.

        *channel* is that on which they send; ``None`` for the mean over all channels.
        """
        return np.ones(len(ids))


class FrameReceiver(Protocol):
    """The receiver of a tower: `netfl.network.radio.receiver.Receiver`."""

    def begin(self, transmission: Transmission, now_s: float) -> None:
        """Take the start of a transmission."""

    def begin_sending(self, now_s: float, until_s: float) -> None:
        """Let the tower send from now on until *until_s*."""

    def begin_answer(self, now_s: float, until_s: float) -> None:
        """Let the tower answer a frame from now on until *until_s*."""

    def end(self, transmission: Transmission, causes: Sequence[str]) -> Sequence[str]:
        """Take the end of a transmission; return the causes of failures with those of the receiver."""


@dataclass(slots=True, eq=False)
class TowerTransmitter:
    """The transmitter of a tower, which sends one frame at a time: a version, or an acknowledgement.

    Args:
        tower: the tower.
        receiver: its receiver, which may hear nothing meanwhile; ``None`` without limits.
        sends_until_s: end of its last sending.
        silent_until_s: time until which a duty cycle silences it in each band that it uses.
    """

    tower: NodeId
    receiver: FrameReceiver | None = None
    sends_until_s: float = -math.inf
    silent_until_s: dict[str, float] = field(default_factory=dict)

    def send(self, now_s: float, until_s: float) -> None:
        """Send from now on until *until_s*."""
        self.sends_until_s = until_s
        if self.receiver is not None:
            self.receiver.begin_sending(now_s, until_s)


@dataclass(frozen=True, slots=True)
class Hearer:
    """A tower that hears the users of a cell.

    Args:
        transmitter: its transmitter, which knows its receiver.
        uplink: takes the messages that it has received.
        delay_s: returns the present delay from it to the server.
    """

    transmitter: TowerTransmitter
    uplink: Callable[[Message], None]
    delay_s: Callable[[], float]

    @property
    def tower(self) -> NodeId:
        """The tower."""
        return self.transmitter.tower

    @property
    def receiver(self) -> FrameReceiver | None:
        """Limits of what it receives at once; ``None`` for none."""
        return self.transmitter.receiver


@dataclass(frozen=True, slots=True)
class AirInterface:
    """Air interface of a tower.

    Args:
        channel: air in which transmissions interfere; cells that share their channels share it.
        band: band of the cell, which users divide if the MAC gives them shares.
        hearers: towers that hear the users, the cell's own first; empty if only this one does.
        transmitter: the transmitter of the tower; ``None`` for one that sends to these users alone, without limits of
            its receiver.
    """

    tower: NodeId
    medium: Medium
    channel: SharedChannel
    band: CellBand = RADIO_BAND
    hearers: Sequence[Hearer] = ()
    transmitter: TowerTransmitter | None = None

    @property
    def receiver(self) -> FrameReceiver | None:
        """Limits of what the tower receives at once; ``None`` for none."""
        return None if self.transmitter is None else self.transmitter.receiver
