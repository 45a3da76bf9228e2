"""Fading by Doppler shifts: autocorrelation, level-crossing rate and fade duration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from scipy import special

from netfl.errors import Fault
from netfl.network.channel._fading import Fading
from netfl.network.channel.nakagami import Nakagami
from netfl.network.channel.rayleigh import Rayleigh
from netfl.network.theory import Theory, TheoryCase, misfit_fault
from netfl.network.theory._links import budget_db, budget_misfits, find_random_channel

_SAMPLES_PER_PERIOD, _SAMPLES_PER_FADE = 50, 8
"""Minimum samples of a period of the Doppler shift, and of a mean fade."""


class Jakes(Theory):
    """Clarke's and Jakes' fading of maximum Doppler shift f in a probe: J0², level crossings, fade durations.

    The power x has the autocorrelation J0(2π f τ)² and the variance 1/m over the square of its mean (m = 1: Rayleigh).
    With a ``level`` at ρ times the root mean square amplitude it falls below it
    sqrt(2π) f m^(m - 1/2) ρ^(2m - 1) exp(-m ρ²) / Γ(m) times a second, and then stays there for P(m, m ρ²) over that
    rate; for m = 1 sqrt(2π) f ρ exp(-ρ²) and (exp(ρ²) - 1) / (sqrt(2π) f ρ).  W. C. Jakes, "Microwave Mobile
    Communications", 1974, §1.3; M. D. Yacoub et al., IEEE Trans. Veh. Technol. 48(3), 1999.

    For many scattered waves; the probe must sample often enough to miss hardly any fade.

    Example::

        kind: jakes
    """

    def misfits(self, case: TheoryCase) -> Iterator[Fault]:
        yield from budget_misfits(case)
        fading, probe = _fading(case), case.network.probe
        if fading is None:
            yield misfit_fault("channel", "one rayleigh or nakagami fading with doppler on a fixed path loss")
        if probe is None or case.network.radio is None:
            yield misfit_fault("probe", "links that a probe samples, with a radio")
        elif fading is not None:
            max_s = 1.0 / (_SAMPLES_PER_PERIOD * fading.doppler_hz)
            if probe.level is not None:
                max_s = min(max_s, self.predict(case)["fade_duration_theory_s"] / _SAMPLES_PER_FADE)
            if probe.every > max_s * (1.0 + 1e-9):
                yield misfit_fault("probe.every", f"samples at least every {max_s:.3g} s", probe.every)

    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        fading, probe = _fading(case), case.network.probe
        assert fading is not None
        assert probe is not None
        m, f = fading.m if isinstance(fading, Nakagami) else 1.0, fading.doppler_hz
        metrics = {"power_mean_theory": 10.0 ** (budget_db(case) / 10.0), "power_variance_theory": 1.0 / m}
        if probe.lag is not None:
            metrics["autocorrelation_theory"] = float(special.j0(2.0 * math.pi * f * probe.lag) ** 2)
        if probe.level is not None:
            share = 10.0 ** ((probe.level - budget_db(case)) / 10.0)
            exponent = (m - 0.5) * math.log(m * share) - m * share - math.lgamma(m)
            rate_hz = math.sqrt(2.0 * math.pi) * f * math.exp(exponent)
            metrics["level_crossing_rate_theory_hz"] = rate_hz
            metrics["fade_duration_theory_s"] = float(special.gammainc(m, m * share)) / rate_hz
        return metrics


def _fading(case: TheoryCase) -> Fading | None:
    fading = find_random_channel(case, Rayleigh, Nakagami)
    return fading if fading is not None and fading.doppler_hz else None
