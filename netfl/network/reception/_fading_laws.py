"""Claim about the outage of a reception model under Rayleigh fading."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from netfl.network.reception import Reception
from netfl.streams import Streams
from netfl.types import Law

_MARGIN_DB = 3.0
"""Mean SNR over the threshold."""


def rayleigh_outage(model: Reception, bandwidth_hz: float, min_snr: float) -> Law:
    """Return the claim of 1 - exp(-threshold / mean SNR) failed receptions under Rayleigh fading.

    Args:
        model: the reception model.
        bandwidth_hz: the bandwidth to draw at.
        min_snr: the minimum SNR for reception, linear, from the model's formula.
    """
    mean_snr = min_snr * 10.0 ** (_MARGIN_DB / 10.0)
    outage = -math.expm1(-min_snr / mean_snr)

    def draw(streams: Streams, size: int) -> NDArray[np.float64]:
        snr = mean_snr * streams.field("gain").exponential(np.arange(size))
        return np.asarray(~model.is_received(10.0 * np.log10(snr), bandwidth_hz), float)

    return Law(
        "failed receptions (0 or 1)",
        "under Rayleigh fading of mean SNR s̄ the outage probability is 1 - exp(-threshold / s̄); "
        f"drawn at {_MARGIN_DB:g} dB above the threshold",
        draw=draw,
        mean=outage,
        variance=outage * (1.0 - outage),
    )
