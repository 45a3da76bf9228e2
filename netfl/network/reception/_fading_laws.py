"""The law that a reception model shows under Rayleigh fading."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from netfl.network.reception import Reception
from netfl.streams import Streams
from netfl.types import Law

MARGIN_DB = 3.0
"""How far the mean SNR of the stated law lies above the threshold."""


def rayleigh_outage(model: Reception, bandwidth_hz: float, enough: float) -> Law:
    """How often *model* fails to receive under Rayleigh fading, `MARGIN_DB` above its threshold.

    Args:
        model: the reception model.
        bandwidth_hz: the bandwidth to draw at.
        enough: the least SNR for reception, linear, from the model's own formula.
    """
    mean_snr = enough * 10.0 ** (MARGIN_DB / 10.0)
    outage = -math.expm1(-enough / mean_snr)

    def draw(streams: Streams, size: int) -> NDArray[np.float64]:
        snr = mean_snr * streams.field("gain").exponential(np.arange(size))
        return np.asarray(~model.received(10.0 * np.log10(snr), bandwidth_hz), float)

    return Law(
        "failed receptions (0 or 1)",
        "under Rayleigh fading of mean SNR s̄ the outage probability is 1 - exp(-threshold / s̄); "
        f"drawn at {MARGIN_DB:g} dB above the threshold",
        draw=draw,
        mean=outage,
        variance=outage * (1.0 - outage),
    )
