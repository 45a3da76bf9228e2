"""Fading by Doppler shifts: autocorrelation, level-crossing rate and fade duration."""

from __future__ import annotations

import math
from collections.abc import Mapping

from scipy import special

from netfl.network.channel._fading import Fading
from netfl.network.channel.nakagami import Nakagami
from netfl.network.channel.rayleigh import Rayleigh
from netfl.network.probe import Probe
from netfl.network.theory import Condition, Theory, TheoryCase
from netfl.network.theory._links import EQUAL_LINKS, budget_db, find_random_channel

_SAMPLES_PER_PERIOD, _SAMPLES_PER_FADE = 50, 8
"""Minimum samples of a period of the Doppler shift, and of a mean fade."""
_SMALL = 1e-12
"""Argument up to which one term of the incomplete gamma function is exact."""
_MAX_EXPONENT = 700.0
"""Exponent of e above which a power counts as infinite."""


def _crosses_level(case: TheoryCase) -> bool:
    rate_hz, fade_s = _level_crossings(case)
    return rate_hz > 0.0 and 0.0 < fade_s < math.inf


def _max_interval_s(case: TheoryCase) -> float:
    """Return the longest interval between samples that miss hardly any fade."""
    fading = _find_fading(case)
    assert fading is not None
    max_s = 1.0 / (_SAMPLES_PER_PERIOD * fading.doppler_hz)
    if _probe(case).level is None:
        return max_s
    _, fade_s = _level_crossings(case)
    return min(max_s, fade_s / _SAMPLES_PER_FADE)


_FADING = Condition(
    "channel",
    "one rayleigh or nakagami fading with doppler on a fixed path loss",
    lambda case: _find_fading(case) is not None,
)
_PROBE = Condition(
    "probe",
    "links that a probe samples, with a radio",
    lambda case: case.network.probe is not None and case.network.radio is not None,
)
_LEVEL = Condition(
    "probe.level",
    "a level that the power crosses",
    lambda case: _probe(case).level is None or _crosses_level(case),
    lambda case: _probe(case).level,
    given=(_FADING, _PROBE),
)
_INTERVAL = Condition(
    "probe.every",
    lambda case: f"samples at least every {_max_interval_s(case):.3g} s",
    lambda case: _probe(case).every <= _max_interval_s(case) * (1.0 + 1e-9),
    lambda case: _probe(case).every,
    given=(_LEVEL,),
)


class Jakes(Theory):
    """Clarke's and Jakes' fading of maximum Doppler shift f in a probe: J0², level crossings, fade durations.

    The power x has the autocorrelation J0(2π f τ)² and the variance 1/m over the square of its mean (m = 1: Rayleigh).
    With a ``level`` at ρ times the root mean square amplitude it falls below it
    sqrt(2π) f m^(m - 1/2) ρ^(2m - 1) exp(-m ρ²) / Γ(m) times a second, and then stays there for P(m, m ρ²) over that
    rate; for m = 1 sqrt(2π) f ρ exp(-ρ²) and (exp(ρ²) - 1) / (sqrt(2π) f ρ).  W. C. Jakes, "Microwave Mobile
    Communications", 1974, §1.3; M. D. Yacoub et al., IEEE Trans. Veh. Technol. 48(3), 1999.

    For many scattered waves; the probe must sample often enough to miss hardly any fade, and the power must cross the
    level.

    Example::

        kind: jakes
    """

    conditions = (*EQUAL_LINKS, _FADING, _PROBE, _LEVEL, _INTERVAL)

    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        fading = _find_fading(case)
        assert fading is not None
        probe = _probe(case)
        m = _shape(fading)
        f = fading.doppler_hz
        metrics = {"power_mean_theory": 10.0 ** (budget_db(case) / 10.0), "power_variance_theory": 1.0 / m}
        if probe.lag is not None:
            metrics["autocorrelation_theory"] = float(special.j0(2.0 * math.pi * f * probe.lag) ** 2)
        if probe.level is not None:
            rate_hz, fade_s = _level_crossings(case)
            metrics["level_crossing_rate_theory_hz"] = rate_hz
            metrics["fade_duration_theory_s"] = fade_s
        return metrics


def _find_fading(case: TheoryCase) -> Fading | None:
    fading = find_random_channel(case, Rayleigh, Nakagami)
    return fading if fading is not None and fading.doppler_hz else None


def _probe(case: TheoryCase) -> Probe:
    assert case.network.probe is not None
    return case.network.probe


def _level_crossings(case: TheoryCase) -> tuple[float, float]:
    """Return the rate in 1/s at which the power falls below the level of the probe, and the mean fade in s."""
    fading = _find_fading(case)
    level_db = _probe(case).level
    assert fading is not None
    assert level_db is not None
    return _crossings(fading, level_db - budget_db(case))


def _shape(fading: Fading) -> float:
    """Return m, which is 1 for Rayleigh fading."""
    return fading.m if isinstance(fading, Nakagami) else 1.0


def _crossings(fading: Fading, level_db: float) -> tuple[float, float]:
    """Return the rate in 1/s at which the power falls below a level relative to its mean, and the mean fade in s.

    Computed as logarithms, because levels far from the mean have rates that no number represents; the result is then 0
    or infinity.
    """
    m = _shape(fading)
    log_x = math.log(m) + level_db * math.log(10.0) / 10.0  # x = m ρ²
    x = _exp(log_x)
    log_rate = math.log(math.sqrt(2.0 * math.pi) * fading.doppler_hz) + (m - 0.5) * log_x - x - math.lgamma(m)
    return _exp(log_rate), _exp(_log_gammainc(m, log_x) - log_rate)


def _log_gammainc(m: float, log_x: float) -> float:
    """Return log P(m, x) of the regularised incomplete gamma function."""
    x = _exp(log_x)
    if x < _SMALL:
        return m * log_x - math.lgamma(m + 1.0)
    return math.log(float(special.gammainc(m, x)))


def _exp(exponent: float) -> float:
    """Return e^exponent, which may be 0 or infinity."""
    return math.exp(exponent) if exponent < _MAX_EXPONENT else math.inf
