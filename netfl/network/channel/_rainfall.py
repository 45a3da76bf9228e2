"""Specific attenuation by rain: Recommendation ITU-R P.838-3 (2005)."""

from __future__ import annotations

from typing import Literal

import numpy as np

Polarization = Literal["horizontal", "vertical", "circular"]

_K_H = (
    (
        (-5.33980, -0.10008, 1.13098),
        (-0.35351, 1.26970, 0.45400),
        (-0.23789, 0.86036, 0.15354),
        (-0.94158, 0.64552, 0.16817),
    ),
    -0.18961,
    0.71147,
)
_K_V = (
    (
        (-3.80595, 0.56934, 0.81061),
        (-3.44965, -0.22911, 0.51059),
        (-0.39902, 0.73042, 0.11899),
        (0.50167, 1.07319, 0.27195),
    ),
    -0.16398,
    0.63297,
)
_A_H = (
    (
        (-0.14318, 1.82442, -0.55187),
        (0.29591, 0.77564, 0.19822),
        (0.32177, 0.63773, 0.13164),
        (-5.37610, -0.96230, 1.47828),
        (16.1721, -3.29980, 3.43990),
    ),
    0.67849,
    -1.95537,
)
_A_V = (
    (
        (-0.07771, 2.33840, -0.76284),
        (0.56727, 0.95545, 0.54039),
        (-0.20238, 1.14520, 0.26809),
        (-48.2991, 0.791669, 0.116226),
        (48.5833, 0.791459, 0.116479),
    ),
    -0.053739,
    0.83433,
)


def coefficients(frequency_hz: float, polarization: Polarization) -> tuple[float, float]:
    """The coefficients k and α of γ = k R^α, in dB/km for R in mm/h, on a horizontal path; 1 to 1000 GHz."""
    x = float(np.log10(frequency_hz / 1e9))
    k_h, k_v = 10.0 ** _curve(_K_H, x), 10.0 ** _curve(_K_V, x)
    a_h, a_v = _curve(_A_H, x), _curve(_A_V, x)
    if polarization == "horizontal":
        return k_h, a_h
    if polarization == "vertical":
        return k_v, a_v
    return (k_h + k_v) / 2.0, (k_h * a_h + k_v * a_v) / (k_h + k_v)


def _curve(figures: tuple[tuple[tuple[float, float, float], ...], float, float], x: float) -> float:
    """Equations (2) and (3): a sum of Gaussians and a straight line in the logarithm of the frequency."""
    bells, slope, level = figures
    a, b, c = np.array(bells).T
    return float((a * np.exp(-(((x - b) / c) ** 2))).sum() + slope * x + level)
