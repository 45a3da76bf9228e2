"""The receiver of a tower that cannot receive everything: it has few demodulators, or hears nothing while it sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from netfl.network.attempt_log import BUSY
from netfl.network.layout import NodeId
from netfl.network.periods import after_rounding
from netfl.network.radio.medium import Medium
from netfl.network.radio.transmission import Transmission
from netfl.streams import RandomField

_DETECTED_FROM = 0.5
"""Probability of being received without interference from which a frame takes a demodulator."""


@dataclass(frozen=True, slots=True)
class ReceiverLimits:
    """Limits of the receiver of a tower.

    Args:
        demodulators: number of frames that it receives at once; ``None`` for any number.
        is_half_duplex: it receives nothing while the tower sends.
        answers: the tower answers frames of users, such as by a CTS or an ACK, and receives nothing meanwhile.
    """

    demodulators: int | None = None
    is_half_duplex: bool = False
    answers: bool = False


@dataclass(slots=True)
class _ArrivingFrames:
    """Frames of one transmission at a tower.

    Args:
        demodulators: number of demodulators that they have.
        missed: places of those that are not received, because they have no demodulator or the tower sends.
    """

    demodulators: int = 0
    missed: set[int] = field(default_factory=set)


class Receiver:
    """Demodulators of a tower, each of which takes a frame from its start to its end.

    A frame that is too weak to be received alone is not detected, and takes none.  One that collides takes one.  A
    frame that begins while all are taken is missed, even if one becomes free.  Frames that begin together are detected
    in a random order.  While a half-duplex tower sends, it misses all frames that are on the air at any time of it, and
    their demodulators are free.

    Args:
        tower: the tower.
        medium: the medium, which knows how strong frames are.
        draws: random numbers of the order of frames that begin together.
    """

    def __init__(self, limits: ReceiverLimits, tower: NodeId, medium: Medium, draws: RandomField) -> None:
        self._limits = limits
        self._tower = tower
        self._medium = medium
        self._draws = draws
        self._arriving: dict[Transmission, _ArrivingFrames] = {}
        self._sends_until_s = -np.inf
        self._arrivals = 0

    def begin(self, transmission: Transmission, now_s: float) -> None:
        """Take the start of a transmission."""
        arriving = _ArrivingFrames()
        self._arriving[transmission] = arriving
        self._arrivals += 1
        if self._sends_until_s > after_rounding(now_s):
            arriving.missed.update(range(len(transmission.ids)))
        elif self._limits.demodulators is not None:
            detected = self._detected(transmission, now_s)
            free = max(0, self._limits.demodulators - self._taken(now_s))
            arriving.demodulators = min(free, len(detected))
            arriving.missed.update(detected[free:])

    def begin_sending(self, now_s: float, until_s: float) -> None:
        """Let the tower send from now on until *until_s*."""
        if self._limits.is_half_duplex:
            self._miss_frames(now_s, until_s)

    def begin_answer(self, now_s: float, until_s: float) -> None:
        """Let the tower answer a frame from now on until *until_s*."""
        if self._limits.answers:
            self._miss_frames(now_s, until_s)

    def _miss_frames(self, now_s: float, until_s: float) -> None:
        """Miss all frames that are on the air at any time from now on until *until_s*."""
        self._sends_until_s = max(self._sends_until_s, until_s)
        for transmission, arriving in self._arriving.items():
            if transmission.end_s > after_rounding(now_s):
                arriving.demodulators = 0
                arriving.missed.update(range(len(transmission.ids)))

    def end(self, transmission: Transmission, causes: Sequence[str]) -> Sequence[str]:
        """Take the end of a transmission; return the *causes* of failures, with `BUSY` where nothing else failed."""
        missed = self._arriving.pop(transmission).missed
        if not missed:
            return causes
        return [cause or (BUSY if place in missed else "") for place, cause in enumerate(causes)]

    def _detected(self, transmission: Transmission, now_s: float) -> list[int]:
        """Return the places of the frames that are strong enough, in a random order."""
        ids = transmission.ids
        bits = float(np.max(transmission.frames.bits))
        modes = np.full(len(ids), transmission.mode)
        channel = transmission.channel
        chance = self._medium.success_probability(ids, self._tower, now_s, bits, modes, channel)
        places = np.flatnonzero(chance >= _DETECTED_FROM).tolist()
        if len(places) > 1:
            order = self._draws.order(ids[places].tolist(), self._arrivals)
            places = [places[place] for place in order]
        return places

    def _taken(self, now_s: float) -> int:
        """Return the number of demodulators with frames that do not end now."""
        until_s = after_rounding(now_s)
        return sum(frames.demodulators for signal, frames in self._arriving.items() if signal.end_s > until_s)
