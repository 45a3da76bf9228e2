"""Frames and transmissions on the air, and the channel on which they interfere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netfl.network.layout import NodeId
from netfl.network.link_log import LinkUse
from netfl.network.periods import SLACK, STEPS
from netfl.network.radio.spectrum import Spectrum
from netfl.types import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class Signal:
    """A transmission between users and a tower, in either direction, without interference.

    Args:
        boost_db: SNR above that of the users' signals, one for all or one for each, ``[n]``.
        rate_bps: bit rate, of a reception without modes, one for all or one for each, ``[n]``.
    """

    tower: NodeId
    start_s: float
    end_s: float
    bits: float
    mode: int = 0
    boost_db: float | Floats = 0.0
    rate_bps: float | Floats | None = None


@dataclass(slots=True, eq=False)
class Frames:
    """Frames that some users put on the air at one instant, one each.

    Args:
        users: numbers of the users in the queue.
        bits: size of each frame, or of all.
        handle: data of the queue about these frames.
        base: version that each update in a frame started from, or all; -1 for packets of traffic.
        traffic: class of traffic of each frame, or of all; empty for updates.
        is_duplicate: the tower has received them before, but their senders do not know it; no queue has them.
        decoded_at: whether each was decoded, by the number of each tower that has judged them; ``None`` where no
            interference asks.
    """

    users: Ints
    bits: float | Floats
    handle: Any
    base: int | Ints = -1
    traffic: str | Sequence[str] = ""
    is_duplicate: bool = False
    decoded_at: dict[int, Bools] | None = None


@dataclass(slots=True, eq=False)
class Transmission:
    """Frames on the air of one channel from one instant to another.

    Args:
        ids: their senders, by their numbers in the network.
        places: place of each sender among the users that were asked to send.
        start_s: time at which the signal begins to arrive at the tower.
        end_s: time at which it has arrived.
        limit: number of attempts that a frame has; ``None`` for no limit.
        interrupted: whether an outage will interrupt each sender; ``None`` if it interrupts nobody.
        begin_s: time at which the senders begin, a propagation delay before *start_s*.
        airtime_s: time for which they send.
        share: fraction of the bandwidth of its radio that each sender has to itself, one for all or one for each,
            ``[n]``; ``None`` for all of it, which all share.
        power_offset_db: power of each sender above that of its radio, ``[n]``; ``None`` if no user has another power.
        outside: power of the interference from outside of the network in each share, over the noise in the whole band,
            ``[n]``; ``None`` for no such interference.
        link_uses: record of each sender's link; empty where nothing asks for it.
        spectrum: places of the shares in the band, where cells share the air; ``None`` if nobody interferes with them.
        interferers: other transmissions that overlap with it.
        interrupted_at: *interrupted* at each tower that hears it; empty if only that of the cell does.
        heard_at: tower at which it is judged; ``None`` for that of the cell.
    """

    frames: Frames
    ids: Ints
    places: Sequence[int]
    tower: NodeId
    channel: int
    start_s: float
    end_s: float
    mode: int = 0
    limit: int | None = None
    interrupted: Sequence[bool] | None = None
    begin_s: float = 0.0
    airtime_s: float = 0.0
    share: float | Floats | None = None
    power_offset_db: Floats | None = None
    outside: Floats | None = None
    link_uses: Sequence[LinkUse | None] = ()
    spectrum: Spectrum | None = None
    interferers: list[Transmission] = field(default_factory=list)
    interrupted_at: Sequence[Sequence[bool] | None] = ()
    heard_at: NodeId | None = None

    @property
    def receiver(self) -> NodeId:
        """The tower at which it is judged."""
        return self.heard_at or self.tower

    @property
    def is_disturbed(self) -> bool:
        """True if other frames are on the air in the same band at the same time, of this transmission or of others."""
        return bool(self.interferers) or (self.share is None and len(self.ids) > 1)


def share_gain_db(share: float | Floats | None, outside: Floats | None = None) -> float | Floats:
    """Return the SINR of a signal in a share s of the band above its SNR in the whole band, -10 log10(s + i), in dB.

    The noise follows the bandwidth, and the power of the sender does not.  *outside* is i, the interference from
    outside of the network in the share, over the noise in the whole band; ``None`` for no such interference.

    >>> round(share_gain_db(0.2), 2), share_gain_db(1.0), share_gain_db(None)
    (6.99, 0.0, 0.0)
    """
    if share is None:
        return 0.0
    disturbance = share if outside is None else share + outside
    gain_db = 0.0 - 10.0 * np.log10(disturbance)
    return float(gain_db) if np.ndim(gain_db) == 0 else np.asarray(gain_db)


def touch_tolerance_s(transmission: Transmission) -> float:
    """Return the overlap with others that counts as rounding, so that they merely touch."""
    return SLACK * (transmission.end_s - transmission.start_s) + STEPS * transmission.end_s


class SharedChannel:
    """The air in which transmissions interfere: that of one cell, or of all cells that share their channels.

    Args:
        is_shared: whether it is that of several cells.
    """

    def __init__(self, *, is_shared: bool = False) -> None:
        self.is_shared = is_shared
        self._on_air: dict[int, list[Transmission]] = {}

    def enter(self, transmission: Transmission) -> None:
        """Begin a transmission, which interferes with all that overlap with it on the same channel.

        One whose senders have shares of the band interferes with those of other cells that overlap with it in the band.
        """
        if transmission.share is not None and transmission.spectrum is None:
            return
        others = self._on_air.get(transmission.channel)
        if others is None:
            others = []
            self._on_air[transmission.channel] = others
        if others:
            slack_s = touch_tolerance_s(transmission)
            begins_s = transmission.start_s + slack_s
            for other in others:
                meets = other.end_s > begins_s and transmission.end_s > other.start_s + slack_s
                if meets and _overlap_in_band(transmission, other):
                    other.interferers.append(transmission)
                    transmission.interferers.append(other)
        others.append(transmission)

    def leave(self, transmission: Transmission) -> None:
        """End a transmission."""
        if transmission.share is not None and transmission.spectrum is None:
            return
        self._on_air[transmission.channel].remove(transmission)


def _overlap_in_band(first: Transmission, second: Transmission) -> bool:
    """Return whether two transmissions of one channel have any part of the band in common."""
    if first.spectrum is None or second.spectrum is None:  # the whole band
        return True
    if first.tower == second.tower:  # shares of one cell
        return False
    return bool(first.spectrum.overlap(second.spectrum).any())
