"""Rician fading: a line of sight and many scattered paths."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from netfl.core.spec import NotWith
from netfl.network.channel._fading import Fading, Power
from netfl.network.layout import Layout
from netfl.streams import RandomField, Streams
from netfl.types import Floats, Ints, StatisticClaim
from netfl.units import Decibels, Hertz


class Rician(Fading):
    """Fading with a Rice-distributed amplitude: a steady path of K times the power of all scattered ones.

    The power gain is g = |sqrt(K) exp(iψ) + h|² / (K + 1), with h complex Gaussian of E[|h|²] = 1: mean 1, variance
    (1 + 2K) / (1 + K)², and 2 (K + 1) g is noncentral chi-squared with 2 degrees of freedom and noncentrality 2K.
    K = 0 (minus infinity in dB) would be Rayleigh.  G. L. Stüber, "Principles of Mobile Communication", 2nd ed.,
    §2.1.3 and §2.1.4.

    With ``coherence``, each block has an independent draw of g.  With ``doppler`` f, or ``speed``, h is the sum of
    sinusoids of the ``rayleigh`` channel, and the steady path has a random phase at the start and the Doppler shift f0
    = ``path_doppler`` (f times the cosine of its angle to the motion).  With none of these keys, h follows the motion
    as in the ``rayleigh`` channel, and the phase of the steady path is -2π/λ times the distance to the tower.  The
    autocovariance of the power is (J0² + 2K J0 cos(2π f0 τ)) / (1 + K)² with J0 at 2π f τ; for f0 = 0 the amplitude
    falls below ρ times its root mean square sqrt(2π (K + 1)) f ρ exp(-K - (K + 1) ρ²) I0(2ρ sqrt(K (K + 1))) times a
    second.

    Example::

        kind: rician
        k_factor: 6 dB
        doppler: 20 Hz
    """

    k_factor: Annotated[Decibels, Field(ge=-30, le=40)]
    """K, the power of the steady path over that of the scattered paths."""
    path_doppler: Annotated[Hertz | None, NotWith("coherence")] = None
    """f0, the Doppler shift of the steady path, between -f and f; 0 by default, for a path across the motion.  It
    cannot be given where the fading follows the motion."""

    @model_validator(mode="after")
    def _check_shift(self) -> Rician:
        if self.follows_motion and self.path_doppler is not None:
            raise ValueError("path_doppler has no effect without doppler or speed; leave it out, or give one of them")
        if self.coherence is None and abs(self.path_doppler or 0.0) > self.doppler_hz:
            raise ValueError(
                f"path_doppler is outside ±{self.doppler_hz:g} Hz, the largest Doppler shift; write a value inside"
            )
        return self

    def _power_law(self) -> tuple[str, Any]:
        from scipy import stats

        return "noncentral chi-squared, mean 1", stats.ncx2(2, 2.0 * self._k, scale=0.5 / (self._k + 1.0))

    def _doppler_claims(self) -> tuple[StatisticClaim, ...]:
        """Claim the correlation, and without a shift of the steady path the level crossings and fade durations."""
        from scipy import special

        k = self._k
        shift_hz = self.path_doppler or 0.0  # f0
        _, power = self._power_law()

        def rho(x: float) -> float:
            j0 = special.j0(2.0 * math.pi * x)
            beat = math.cos(2.0 * math.pi * x * shift_hz / self.doppler_hz)
            return float((j0**2 + 2.0 * k * j0 * beat) / (1.0 + 2.0 * k))

        correlation = self._correlation_claim(
            "(J0² + 2K J0 cos(2π f0 τ)) / (1 + 2K), J0 at 2π f τ", rho, (1.0 + 2.0 * k) / (1.0 + k) ** 2
        )
        if shift_hz:  # no closed form of the level crossings
            return (correlation,)
        formula = "sqrt(2π (K+1)) f ρ exp(-K - (K+1) ρ²) I0(2ρ sqrt(K (K+1)))"
        return (correlation, *self._fade_claims(formula, self._rate, lambda a: float(power.cdf(a**2))))

    def _rate(self, rho: float) -> float:
        """Return the falls below the amplitude ρ in a period of the Doppler shift.

        sqrt(2π (K + 1)) ρ exp(-K - (K + 1) ρ²) I0(z), z = 2ρ sqrt(K (K + 1)), with I0(z) = exp(z) i0e(z).  The
        exponents are added first, as each alone overflows.
        """
        from scipy import special

        k = self._k
        z = 2.0 * rho * math.sqrt(k * (k + 1.0))
        exponent = -k - (k + 1.0) * rho**2 + z
        return float(math.sqrt(2.0 * math.pi * (k + 1.0)) * rho * math.exp(exponent) * special.i0e(z))

    def _block_db(self, field: RandomField, users: Ints, block: NDArray[np.uint64]) -> Floats:
        """Return g = |sqrt(K) + h|² / (K + 1), with |h|² exponential and the angle of h uniform."""
        amplitude = np.sqrt(field.exponential(users, block))  # |h|
        angle = 2.0 * math.pi * field.uniform(users, block, 1)
        power = (math.sqrt(self._k) + amplitude * np.cos(angle)) ** 2 + (amplitude * np.sin(angle)) ** 2
        return np.asarray(10.0 * np.log10(power / (self._k + 1.0)))

    def _continuous_power(self, layout: Layout, streams: Streams) -> Power:
        scatter = self._scatter(layout, streams)
        start_phase = 2.0 * math.pi * streams.field("path").uniform(np.arange(layout.users))
        shift = 2.0 * math.pi * (self.path_doppler or 0.0)  # 2π f0

        def phase(users: Ints, time_s: ArrayLike) -> Floats:
            if self.follows_motion:  # -2π d / λ, with the distance d to the tower
                return -2.0 * math.pi / self._wavelength_m * layout.distances_m(users, time_s)
            return np.asarray(shift * np.asarray(time_s))

        def power(users: Ints, time_s: ArrayLike) -> Floats:
            """Return g = |sqrt(K) exp(iψ) + h|² / (K + 1)."""
            path = np.exp(1j * (start_phase[users] + phase(users, time_s)))
            h = scatter.gain(users, time_s)
            return np.asarray(np.abs(math.sqrt(self._k) * path + h) ** 2 / (self._k + 1.0))

        return power

    @property
    def _k(self) -> float:
        return float(10.0 ** (self.k_factor / 10.0))

    @property
    def _peak_db(self) -> float:
        from scipy import special

        peak = special.chndtrix(1.0 - 1e-9, 2.0, 2.0 * self._k) / (2.0 * (self._k + 1.0))
        return 10.0 * math.log10(peak)
