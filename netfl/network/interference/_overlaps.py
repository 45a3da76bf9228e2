"""Frames that overlap under Rayleigh fading, in which models of interference are compared with closed forms."""

from __future__ import annotations

import numpy as np

from netfl.network.interference import DisturbedFrames, Interference
from netfl.streams import Streams
from netfl.types import Floats, Law

MEAN_SNR = 4.0
"""Mean SNR of each frame; without interference, all are received at an SNR of 1 or more."""


def overlap_law(model: Interference, frames: int, mean: float) -> Law:
    """Return the claim that *mean* is the mean number of frames received, of so many of equal mean power.

    The frames begin and end together, and a frame is received at an SINR of at least 0 dB.  With `Sinr` and `Sic` the
    noise counts, with the other models only the powers of the others do, since all frames would be received alone.
    """

    def draw(streams: Streams, size: int) -> Floats:
        rows = np.arange(size)[:, None]
        snr = MEAN_SNR * streams.field("gain").exponential(rows, np.arange(frames)[None, :])
        return np.array([model.success(_overlap(row)).sum() for row in snr])

    statement = f"of {frames} frames that overlap, of equal mean power under Rayleigh fading"
    return Law("frames received", statement, draw, mean=mean)


def _overlap(snr: Floats) -> DisturbedFrames:
    """Return frames of these SNRs that begin and end together, and are received at an SINR of at least 1."""
    return DisturbedFrames(
        users=np.arange(len(snr)),
        mode=0,
        start_s=0.0,
        end_s=1.0,
        snr_db=10.0 * np.log10(snr),
        alone=np.ones(len(snr)),
        others=(),
        received_over=lambda disturbance: np.asarray(snr / disturbance >= 1.0, float),
    )
