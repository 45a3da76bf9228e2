"""Deliveries: an update that counts, and how it came over the air."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from netfl.core.columns import ColumnHint, Int32


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
    """An update that the server, or another node that merges, has aggregated; a row of the table ``deliveries``.

    Each field is a column (`netfl.core.columns`).  A field that is added needs a default; fields are given by keyword,
    so its place is free.

    Args:
        user: the user that trained it.
        base: the version that the user started from: of the server, or of another node that aggregates the update.
        sent_s: start of its first attempt, in seconds; with packets, of the first packet.
        arrived_s: arrival at the server, or at this other node, in seconds; with packets, of the last packet.  It is
            before the opening of the round, and not before the close of the last one, if users answered a call of the
            server meanwhile.
        attempts: number of attempts that it took; with packets, of all packets.
        received: whether the server has each part of it, all of the same size; ``None`` for all.
        link: how it came over the air; ``None`` unless ``AccessContext.reports_links`` asks for it.
        tower: name of the tower that received it, where users can change their towers; else empty.
        lost_bases: versions from which its user trained updates since the one that it delivered last, none of which
            has arrived, in their order; empty unless ``AccessContext.reports_lost`` asks for it.
    """

    user: int
    base: int
    sent_s: float
    arrived_s: float
    attempts: Int32 = 1
    received: tuple[bool, ...] | None = None
    link: LinkReport | None = None
    tower: str = ""
    lost_bases: tuple[int, ...] = ()
