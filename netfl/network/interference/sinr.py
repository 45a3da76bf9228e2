"""SINR: the reception judges each frame by its noise and its interference."""

from __future__ import annotations

import math

import numpy as np

from netfl.network.interference import DisturbedFrames, Interference, ScheduledSignals
from netfl.network.interference._overlaps import MEAN_SNR, overlap_law
from netfl.types import Bools, Floats, Law
from netfl.units import db_to_linear

_LAW_FRAMES = 3


class Sinr(Interference):
    """The reception judges each frame by the ratio of its signal to noise and interference, S / (N + I).

    I is the sum of the powers of the others, each at its start, at the worst moment of the frame.  Where the reception
    has thresholds for pairs of modes, as ``lora`` has, S is compared with the interference of each mode by its own
    threshold, apart from the noise; a jammer is noise then.  Several of the frames that overlap can be received.  Under
    Rayleigh fading of mean SNR s̄ a frame reaches the SINR z over k others of equal mean power with probability
    exp(-z / s̄) (1 + z)^-k.

    Users that a tower lets send at once, as `noma` does, choose their rates by this ratio.

    Example::

        kind: sinr
    """

    def success(self, frames: DisturbedFrames) -> Floats:
        if frames.min_sir_db is not None:  # S / I of each mode, apart from the noise
            thresholds = db_to_linear(frames.min_sir_db)
            alone = frames.alone
            if frames.bursts:  # a jammer is noise, and has no mode
                alone = frames.received_over(frames.burst_power() + frames.noise)
            return np.where(_exceeds_interference(frames, thresholds), alone, 0.0)
        return frames.received_over(frames.interference() + frames.noise)

    def scheduled_snr(self, signals: ScheduledSignals) -> Floats:
        return signals.sinr()

    def laws(self) -> tuple[Law, ...]:
        """Claim the probability of an SINR of at least 0 dB: z = 1."""
        chance = _LAW_FRAMES * math.exp(-1.0 / MEAN_SNR) * 2.0 ** (1.0 - _LAW_FRAMES)
        return (overlap_law(self, _LAW_FRAMES, chance),)


def _exceeds_interference(frames: DisturbedFrames, thresholds: Floats) -> Bools:
    """Return whether each signal S exceeds θ I for the interference I of each mode, ``[n]``.

    The *thresholds* θ are linear: a row for the mode of the signal, a column for that of the interference.
    """
    exceeds_all = np.ones(len(frames.users), np.bool_)
    for mode in {frames.mode, *(other.mode for other in frames.others)}:
        threshold = thresholds[frames.mode, mode]
        exceeds_all &= frames.signal >= threshold * frames.interference(mode)
    return exceeds_all
