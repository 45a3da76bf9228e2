"""How the sea swallows sound, and how loud it is itself."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

LEAST_HZ = 1.0
"""From which frequency on Wenz' curves are known."""
_STEPS = 2000
"""Into how many steps, each a fixed part of its frequency, a band is cut: far finer than the noise varies."""


def absorption_db_km(frequency_hz: float) -> float:
    """Thorp's absorption in dB/km.

    >>> round(absorption_db_km(10e3), 3)
    1.187
    """
    square = (frequency_hz / 1000.0) ** 2
    return 0.11 * square / (1.0 + square) + 44.0 * square / (4100.0 + square) + 2.75e-4 * square + 0.003


def density_db(frequency_hz: NDArray[np.float64], shipping: float, wind_m_s: float) -> NDArray[np.float64]:
    """The spectral density of the noise in dB re 1 µPa²/Hz: turbulence, ships, wind and heat."""
    khz = frequency_hz / 1000.0
    log_f = np.log10(khz)
    parts_db = (
        17.0 - 30.0 * log_f,
        40.0 + 20.0 * (shipping - 0.5) + 26.0 * log_f - 60.0 * np.log10(khz + 0.03),
        50.0 + 7.5 * math.sqrt(wind_m_s) + 20.0 * log_f - 40.0 * np.log10(khz + 0.4),
        -15.0 + 20.0 * log_f,
    )
    return np.asarray(10.0 * np.log10(sum(10.0 ** (part_db / 10.0) for part_db in parts_db)))


def noise_db(centre_hz: float, bandwidth_hz: float, shipping: float, wind_m_s: float) -> float:
    """The level of the noise in a band in dB re 1 µPa, by the trapezoidal rule."""
    edges_hz = centre_hz - bandwidth_hz / 2.0, centre_hz + bandwidth_hz / 2.0
    band_hz = np.geomspace(*edges_hz, _STEPS + 1)
    density = 10.0 ** (density_db(band_hz, shipping, wind_m_s) / 10.0)
    return float(10.0 * math.log10(np.trapezoid(density, band_hz)))
