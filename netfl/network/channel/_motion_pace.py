"""Pace of users as a channel meets it: speeds, Doppler shifts, and the times in which fading changes."""

from __future__ import annotations

import math
from dataclasses import dataclass

COHERENCE_FACTOR = 2.0
"""Factor by which definitions of the coherence time differ (0.18 to 0.42 / f)."""
_SHORTEST_COHERENCE, _LONGEST_COHERENCE = 0.18, 0.42
"""Definitions of the coherence time of a fading, in periods of the maximum Doppler shift."""


@dataclass(frozen=True, slots=True)
class MotionPace:
    """Speeds of the users that move, and maximum Doppler shifts of their links, each from lowest to highest.

    Args:
        speeds_m_s: speeds v.
        dopplers_hz: f = v / wavelength; from 0 to infinity if the models of a link have no carrier, or several.
    """

    speeds_m_s: tuple[float, float]
    dopplers_hz: tuple[float, float] = (0.0, math.inf)

    @property
    def coherences_s(self) -> tuple[float, float]:
        """Shortest and longest time in which fading changes, 0.18 / f to 0.42 / f."""
        lowest_hz, highest_hz = self.dopplers_hz
        if not lowest_hz:
            return 0.0, math.inf
        return _SHORTEST_COHERENCE / highest_hz, _LONGEST_COHERENCE / lowest_hz

    @property
    def speeds(self) -> str:
        """Clause of a warning with the speeds."""
        slowest_m_s, fastest_m_s = self.speeds_m_s
        return f"users move at {slowest_m_s:.3g} to {fastest_m_s:.3g} m/s"

    @property
    def dopplers(self) -> str:
        """Clause with the speeds and the Doppler shifts."""
        lowest_hz, highest_hz = self.dopplers_hz
        return f"{self.speeds}, a Doppler shift of {lowest_hz:.3g} to {highest_hz:.3g} Hz"

    @property
    def coherences(self) -> str:
        """Clause with the speeds, the Doppler shifts and the times."""
        shortest_s, longest_s = self.coherences_s
        return f"{self.dopplers}, whose fading changes within {shortest_s:.3g} to {longest_s:.3g} s"


def is_near(value: float, interval: tuple[float, float]) -> bool:
    """Return whether *value* is in *interval*, widened by `COHERENCE_FACTOR` at both ends."""
    low, high = interval
    return low / COHERENCE_FACTOR <= value <= high * COHERENCE_FACTOR
