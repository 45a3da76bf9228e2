"""Rayleigh fading: many scattered paths without line of sight."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netfl.network.channel._fading import Fading, Power
from netfl.network.layout import Layout
from netfl.streams import RandomField, Streams
from netfl.types import Floats, Ints, StatisticClaim


class Rayleigh(Fading):
    """Fading with a Rayleigh-distributed amplitude: the power gain g is exponential with mean 1.

    P(g ≤ x) = 1 - exp(-x): variance 1.  D. Tse and P. Viswanath, "Fundamentals of Wireless Communication", §2.4 and
    §5.4.  Valid if no path dominates.  With ``coherence`` the gain is constant for one coherence time; draws of
    successive blocks and of users are independent.  A transmission longer than the coherence time is judged by all
    blocks that it spans if the reception supports that (``shannon``, ``modulation``), else by the gain at its start.

    With ``doppler`` f, or ``speed``, g changes in continuous time as for a user that moves among scatterers all around
    (R. H. Clarke, Bell Syst. Tech. J. 47, 1968; W. C. Jakes, "Microwave Mobile Communications", §1.3), by a sum of N
    sinusoids (Xiao, Zheng and Beaulieu 2006).  The complex gain has the autocorrelation J0(2π f τ), exactly; in the
    limit of large N, and at N = 128 within 1 %, the power has J0²(2π f τ), E[g²] = 2 - 1/N, the amplitude falls below
    ρ times its root mean square sqrt(2π) f ρ exp(-ρ²) times a second and stays there for (exp(ρ²) - 1) / (sqrt(2π) f ρ)
    on average.  A lag τ must be short against N / (2π f) for time averages over one user to show J0.

    With none of these keys and a ``motion`` of the network, g is a function of the position r: the same waves have the
    phases 2π/λ r · u_n, u_n being their directions and λ the wavelength.  The complex gain has the correlation
    J0(2π |d| / λ) over a distance d, so that f = v / λ for each user at its speed v of that time.

    Example::

        kind: rayleigh
        coherence: 50 ms
    """

    def _power_law(self) -> tuple[str, Any]:
        from scipy import stats

        return "exponential with mean 1", stats.expon()

    def _doppler_claims(self) -> tuple[StatisticClaim, ...]:
        from scipy import special

        return (
            self._correlation_claim("J0(2π f τ)²", lambda x: special.j0(2.0 * math.pi * x) ** 2, 1.0),
            *self._fade_claims(
                "sqrt(2π) f ρ exp(-ρ²)",
                lambda rho: math.sqrt(2.0 * math.pi) * rho * math.exp(-(rho**2)),
                lambda rho: -math.expm1(-(rho**2)),
            ),
        )

    def _block_db(self, field: RandomField, users: Ints, block: NDArray[np.uint64]) -> Floats:
        return np.asarray(10.0 * np.log10(field.exponential(users, block)))

    def _continuous_power(self, layout: Layout, streams: Streams) -> Power:
        scatter = self._scatter(layout, streams)
        return lambda users, time_s: np.abs(scatter.gain(users, time_s)) ** 2

    @property
    def _peak_db(self) -> float:
        return 10.0 * math.log10(-math.log(1e-9))
