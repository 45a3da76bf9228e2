"""Successive interference cancellation: the tower subtracts what it has decoded, and decodes the next."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from netfl.network.interference import DisturbedFrames, Interference, OverlappingFrames, ScheduledSignals
from netfl.network.interference._overlaps import MEAN_SNR, overlap_law
from netfl.network.interference.sinr import Sinr
from netfl.types import Floats, Law

_NEGLIGIBLE = 1e-6
"""Probability of a case that is merged with its alternative."""
_MAX_CASES = 256
"""Number of cases from which on none is divided any more."""
_LAW_FRAMES = 2
_SINR = Sinr()

_Frame = tuple[int, float]
"""A frame, by its sender and its start: a user has one frame on the air at a time."""
_Rank = tuple[float, int, float]
"""Place of a frame in the order of decoding; the smallest comes first."""


class Sic(Interference):
    """The tower decodes overlapping frames one after another, and subtracts each that it has decoded.

    They are decoded in the ``order`` of their received powers at their starts; of equal powers, that of the user with
    the lower number comes first.  Each is judged as by `sinr`, by the ratio S / (N + I) at its worst moment.  A frame
    that was decoded before it counts in I with the share ``residual`` of its power, β, and all others with all of it.
    One that is not decoded stays, and the tower continues with the next: there is no second pass.  With β = 1 this is
    `sinr`.
    S. Verdú, "Multiuser Detection", 1998, §7.1; S. Weber, J. G. Andrews, X. Yang and G. de Veciana, IEEE Trans. Inf.
    Theory 53(8), 2007.

    The outcome of a frame is known at its end, by what has overlapped until then.  A frame that is still on the air
    counts as decoded if it is with what has overlapped with it by then, and if the channel does on the rest of it what
    it will do.  Frames of other cells on a shared air are subtracted, too, if this tower can decode them.  A frame that
    does not overlap with the judged one, but with another that does, is subtracted from that one if this tower has
    received it.

    Where the reception is a probability, frames are decoded independently of each other.  Each has the probability over
    all cases of decoded and not decoded ones.  A case of less than 1e-6 is merged with its alternative and, from 256
    cases on, each follows the likelier alternative.

    Of two frames of equal mean SNR s̄ under Rayleigh fading and a threshold of 0 dB, the stronger one is decoded with
    probability e^-a, and both with (1 - β) / (1 + β) e^(-a (3 + β) / (1 - β)), where a = 1 / s̄: the difference of both
    powers over their mean is exponential with mean 1, and the smaller one, independent of it, with mean 1/2.

    Users that a tower lets send at once, as `noma` does, choose their rates by the same ratio, as if all frames before
    theirs were decoded.  With ``shannon``, SNRs s_i and β = 0 these are R_i = B log2(1 + s_i / (1 + Σ s_j)), over those
    j that are decoded after i, and all are received.  Their sum is B log2(1 + Σ s_i), the capacity of the multiple
    access channel, and both orders are corners of its region (T. M. Cover and J. A. Thomas, "Elements of Information
    Theory", 2nd ed., 2006, §15.3; Tse and Viswanath, "Fundamentals of Wireless Communication", §6.1).

    Example::

        kind: sic
        residual: 0.01
    """

    residual: Annotated[float, Field(ge=0, le=1)] = 0.0
    """β, the share of the power of a decoded frame that stays as interference for those after it."""
    order: Literal["received_power", "weakest_first"] = "received_power"
    """Order of decoding: the strongest frame first, or the weakest, which suits users whose rates are chosen for it."""

    decodes_others: ClassVar[bool] = True

    def success(self, frames: DisturbedFrames) -> Floats:
        if self.residual == 1.0:  # nothing is subtracted
            return _SINR.success(frames)
        return self.decode(frames)

    def decode(self, frames: DisturbedFrames) -> Floats:
        """Return `success` by the steps of the receiver, whatever is left of decoded frames."""
        signals = self._signals_in_order(frames)
        bits = {signal.frame: 1 << place for place, signal in enumerate(signals)}
        chance = np.zeros(len(frames.users))
        missing = len(frames.users)
        cases = {0: 1.0}  # probability of each set of decoded frames, as the bits of the frames
        for signal in signals:
            bit = bits[signal.frame]
            interference = _Cancellation(signal, bits, self)
            next_cases: dict[int, float] = {}
            received = 0.0
            for decoded, probability in cases.items():
                success = interference.success(decoded)
                received += probability * success
                if signal.is_interrupted:
                    success = 0.0
                kept, cancelled = _split(probability, success, divides=len(cases) < _MAX_CASES)
                if kept > 0.0:
                    next_cases[decoded] = kept
                if cancelled > 0.0:
                    next_cases[decoded | bit] = cancelled
            cases = next_cases
            if signal.judged is frames:
                chance[signal.place] = min(received, 1.0)
                missing -= 1
                if not missing:  # those after them do not matter
                    break
        return chance

    def rank(self, power: float, frame: _Frame) -> _Rank:
        """Return the place of a frame in the order of decoding."""
        user, start_s = frame
        if self.order == "weakest_first":
            return power, user, start_s
        return -power, user, start_s

    def _signals_in_order(self, frames: DisturbedFrames) -> list[_Signal]:
        """Return the frames whose decoding is decided now, in the order of decoding: *frames*, and others."""
        undecided = [other for other in frames.others if other.decoded is None]
        others = [other.judged() for other in undecided if other.judged is not None]
        signals = []
        for judged in (frames, *others):
            powers = _powers(judged, judged.users, judged.signal)
            for place, (user, power) in enumerate(zip(judged.users.tolist(), powers.tolist(), strict=True)):
                frame = user, judged.start_s
                signals.append(_Signal(frame, self.rank(power, frame), judged, place))
        return sorted(signals, key=lambda signal: signal.rank)

    def scheduled_snr(self, signals: ScheduledSignals) -> Floats:
        ranks = [
            self.rank(power, (user, 0.0))
            for user, power in zip(signals.users.tolist(), signals.power.tolist(), strict=True)
        ]
        position = np.empty(len(ranks), np.int64)
        position[sorted(range(len(ranks)), key=ranks.__getitem__)] = np.arange(len(ranks))
        is_decoded_before = position[None, :] < position[:, None]  # [n, n]: each column before the row
        return signals.sinr(np.where(is_decoded_before, self.residual, 1.0))

    def laws(self) -> tuple[Law, ...]:
        """Claim the mean number of two frames that are received at an SINR of at least 0 dB."""
        a = 1.0 / MEAN_SNR
        beta = self.residual
        mean = math.exp(-a)
        if self.order == "received_power" and beta < 1.0:
            mean += (1.0 - beta) / (1.0 + beta) * math.exp(-a * (3.0 + beta) / (1.0 - beta))
        return (overlap_law(self, _LAW_FRAMES, mean),)


@dataclass(frozen=True, slots=True)
class _Signal:
    """A frame that the receiver tries to decode.

    Args:
        frame: the frame.
        rank: its place in the order of decoding.
        judged: its transmission, with what overlaps with that.
        place: its place in the transmission.
    """

    frame: _Frame
    rank: _Rank
    judged: DisturbedFrames
    place: int

    @property
    def is_interrupted(self) -> bool:
        """True if an outage interrupts it, so that it is not decoded."""
        return self.judged.interrupted is not None and bool(self.judged.interrupted[self.place])


class _Cancellation:
    """Chances of one signal after those before it in the order have been decoded and subtracted, or not.

    Args:
        signal: the signal.
        bits: number of each frame whose decoding is decided now, as a bit.
        model: residual and order.
    """

    def __init__(self, signal: _Signal, bits: dict[_Frame, int], model: Sic) -> None:
        self._signal = signal
        self._residual = model.residual
        judged = signal.judged
        self._bits = [_bits_of(judged.users.tolist(), judged.start_s, bits)]  # of each transmission
        self._kept = [np.ones(len(judged.users))]
        for other in judged.others:
            self._bits.append(_bits_of(other.users.tolist(), other.start_s, bits))
            self._kept.append(_kept_before(other, signal, model))

    def success(self, decoded: int) -> float:
        """Return the probability that the signal is received after the frames in *decoded*, a sum of bits."""
        shares = []
        for bits, kept in zip(self._bits, self._kept, strict=True):
            is_cancelled = [bool(bit & decoded) for bit in bits]
            shares.append(np.where(is_cancelled, self._residual, kept))
        remaining = self._signal.judged.keep(shares[0], shares[1:])
        return float(_SINR.success(remaining)[self._signal.place])


def _bits_of(users: Iterable[int], start_s: float, bits: dict[_Frame, int]) -> list[int]:
    """Return the bit of the frame of each user, 0 for one whose decoding is not decided now."""
    return [bits.get((user, start_s), 0) for user in users]


def _kept_before(other: OverlappingFrames, signal: _Signal, model: Sic) -> Floats:
    """Return the share of each frame of *other* that is left for *signal*, by what was decided before, ``[m]``."""
    kept = np.ones(len(other.users))
    if other.decoded is None:
        return kept
    powers = _powers(signal.judged, other.users, other.snr)
    for place, (user, power) in enumerate(zip(other.users.tolist(), powers.tolist(), strict=True)):
        if other.decoded[place] and model.rank(power, (user, other.start_s)) < signal.rank:
            kept[place] = model.residual
    return kept


def _powers(judged: DisturbedFrames, users: Sequence[int] | np.ndarray, snr: Floats) -> Floats:
    """Return the received powers of signals of *users*, in one unit for all, ``[n]``."""
    if judged.band_noise is None:  # one bandwidth
        return snr
    return np.asarray(snr * judged.band_noise(np.asarray(users)))


def _split(probability: float, success: float, *, divides: bool) -> tuple[float, float]:
    """Return the probabilities of not decoded and decoded; without *divides*, one of both is 0.

    >>> _split(0.5, 0.25, divides=True), _split(1.0, 1e-9, divides=True), _split(0.5, 0.75, divides=False)
    ((0.375, 0.125), (1.0, 0.0), (0.0, 0.5))
    """
    cancelled = probability * success
    kept = probability - cancelled
    if divides and min(kept, cancelled) >= _NEGLIGIBLE:
        return kept, cancelled
    if kept > cancelled:
        return probability, 0.0
    return 0.0, probability
