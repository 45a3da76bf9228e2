"""Nakagami-m fading: from worse than Rayleigh to almost none, by one parameter."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from netfl.network.channel._fading import Fading, Power
from netfl.network.layout import Layout
from netfl.streams import RandomField, Streams
from netfl.types import Floats, Ints, StatisticClaim

_MAX_M = 16
"""Maximum m in continuous time; each unit needs another sum of sinusoids."""


class Nakagami(Fading):
    """Fading with a Nakagami-distributed amplitude: the power gain g has the gamma distribution of shape m and mean 1.

    P(g ≤ x) = P(m, m x), the regularised incomplete gamma function: variance 1/m.  m = 1 is Rayleigh, m = 1/2 the
    square of one Gaussian, the worst; large m hardly fades.  M. Nakagami, "The m-distribution", in: Statistical Methods
    in Radio Wave Propagation, 1960.

    With ``coherence``, each block has an independent draw of g, for any m ≥ 1/2.  With ``doppler`` f, or ``speed``, 2m
    must be a whole number, 32 at most: g is then the mean of the squares of 2m independent Gaussian processes of
    autocorrelation J0(2π f τ), each a sum of sinusoids as in the ``rayleigh`` channel.  The power has the correlation
    J0², and the amplitude falls below ρ times its root mean square
    sqrt(2π) f m^(m - 1/2) ρ^(2m - 1) exp(-m ρ²) / Γ(m) times a second (M. D. Yacoub, J. E. V. Bautista and L. G. de
    Rezende Guedes, IEEE Trans. Veh. Technol. 48(3), 1999).  With none of these keys, the Gaussian processes follow the
    motion as in the ``rayleigh`` channel, for the same m.

    Example::

        kind: nakagami
        m: 1.5
        doppler: 10 Hz
    """

    m: Annotated[float, Field(ge=0.5, le=1000)]
    """Shape m of the distribution."""

    @model_validator(mode="after")
    def _check_m(self) -> Nakagami:
        if self.coherence is None and ((2.0 * self.m) % 1.0 or self.m > _MAX_M):
            raise ValueError(
                f"in continuous time m is a multiple of 1/2; write one of {_MAX_M} at most, or give coherence"
            )
        return self

    def _power_law(self) -> tuple[str, Any]:
        from scipy import stats

        return "gamma of shape m, mean 1", stats.gamma(self.m, scale=1.0 / self.m)

    def _doppler_claims(self) -> tuple[StatisticClaim, ...]:
        from scipy import special

        m = self.m

        def rate(rho: float) -> float:
            """Return sqrt(2π) m^(m-1/2) ρ^(2m-1) exp(-m ρ²) / Γ(m), by logarithms, as the factors overflow."""
            exponent = (m - 0.5) * math.log(m) + (2.0 * m - 1.0) * math.log(rho) - m * rho**2 - math.lgamma(m)
            return math.sqrt(2.0 * math.pi) * math.exp(exponent)

        def share_below(rho: float) -> float:
            return float(special.gammainc(m, m * rho**2))

        formula = "sqrt(2π) f m^(m-1/2) ρ^(2m-1) exp(-m ρ²) / Γ(m)"
        return (
            self._correlation_claim("J0(2π f τ)²", lambda x: special.j0(2.0 * math.pi * x) ** 2, 1.0 / m),
            *self._fade_claims(formula, rate, share_below),
        )

    def _block_db(self, field: RandomField, users: Ints, block: NDArray[np.uint64]) -> Floats:
        from scipy import special

        power = special.gammaincinv(self.m, field.uniform(users, block)) / self.m  # where P(m, m g) is U
        return np.asarray(10.0 * np.log10(power))

    def _continuous_power(self, layout: Layout, streams: Streams) -> Power:
        """Return the mean of squares: two Gaussians from each complex gain, one from the last if 2m is odd."""
        pairs = [self._scatter(layout, streams.at("pair", number)) for number in range(math.ceil(self.m))]

        def power(users: Ints, time_s: ArrayLike) -> Floats:
            total = np.zeros(len(users))
            for number, pair in enumerate(pairs, 1):
                gain = pair.gain(users, time_s)
                total += np.abs(gain if number <= self.m else gain.real) ** 2
            return total / self.m

        return power

    @property
    def _peak_db(self) -> float:
        from scipy import special

        return 10.0 * math.log10(special.gammainccinv(self.m, 1e-9) / self.m)
