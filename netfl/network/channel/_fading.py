"""Small-scale fading, in blocks, in continuous time or by motion: the base of Rayleigh, Rician and Nakagami fading."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from netfl.core.spec import NotWith
from netfl.errors import Fault, ScenarioError
from netfl.network.channel import BlockGain, Channel, LinkGain
from netfl.network.channel._correlation_laws import autocorrelation, crossing_rate, fade_duration, gain_series
from netfl.network.channel._motion_pace import MotionPace, is_near
from netfl.network.layout import LIGHT_M_S, Layout
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law, StatisticClaim
from netfl.units import Carrier, Hertz, Seconds, Unit

Power = Callable[[Ints, ArrayLike], Floats]
"""``power(users, time_s)``: the power gain of each user, linear, ``[n]``."""

_SINUSOIDS = 128
"""Default number of waves of each user."""
_MAX_CACHED = 2**24
"""Angles and phases that are kept, 8 bytes each; if users have more, they are drawn at each call."""
_CHUNK = 2**19
"""Sinusoids that are summed at a time."""
_HOLD = 1.0 / 16.0
"""Time for which a gain in continuous time counts as constant, in periods of the maximum Doppler shift."""

_LAGS = (0.08, 0.16, 0.25, 0.4)
"""Lags at which correlations are tested, in periods of the maximum Doppler shift: around J0's steepest descent."""
_LEVELS = (0.3, 0.6, 1.0)
"""Amplitudes whose crossings are tested, over the root mean square amplitude."""
_STEP = 0.01
"""Time between samples of a tested series, in periods of the maximum Doppler shift."""
_MIN_RATE = 0.05
"""Crossings in a period from which a level is tested; rarer levels have too few fades."""


class Fading(Channel):
    """Small-scale fading with a power gain of mean 1.

    In a network with a ``motion``, and with none of ``coherence``, ``doppler`` and ``speed``, the fading follows the
    motion: the gain is a function of the user's position, and changes as the user moves.  At the speed v the maximum
    Doppler shift is f = v / wavelength, for each user and at each time; during a pause the gain is constant.
    """

    coherence: Annotated[Seconds, Field(gt=0)] | None = None
    """Block fading: duration of a draw; about 0.4 / (Doppler spread)."""
    doppler: Annotated[Hertz, Field(gt=0)] | None = None
    """f, the maximum Doppler shift, instead of ``coherence``: fading in continuous time (Clarke, Jakes)."""
    speed: Annotated[float, Unit("m/s"), Field(gt=0, le=LIGHT_M_S / 1000)] | None = None
    """v, instead of ``doppler``: f = v / wavelength, for the ``frequency``."""
    frequency: Carrier | None = None
    """Carrier frequency, with ``speed``, or where the fading follows the motion; there the default is the frequency
    that the other channel models of the list have."""
    sinusoids: Annotated[Annotated[int, Field(ge=16, le=4096)] | None, NotWith("coherence")] = None
    """N, scattered waves of each user; only without ``coherence``; 128 by default."""

    @model_validator(mode="after")
    def _check_pace(self) -> Fading:
        if [self.coherence, self.doppler, self.speed].count(None) < 2:
            raise ValueError("several are given of coherence, doppler, and speed with frequency; give only one")
        if self.speed is not None and self.frequency is None:
            raise ValueError(
                "one of speed and frequency is missing, and the Doppler shift is speed × frequency / c; give both"
            )
        if self.frequency is not None and not (self.coherence is None and self.doppler is None):
            raise ValueError("frequency has no effect with coherence or doppler; leave it out")
        return self

    @property
    def follows_motion(self) -> bool:
        """True if no key sets the pace: the gain follows from the positions of the users."""
        return self.coherence is None and self.doppler is None and self.speed is None

    @property
    def carrier_hz(self) -> float | None:
        return self.frequency

    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        if self.follows_motion:
            hold_s = _HOLD * self._period_s(layout)
            return _ContinuousGain(self._continuous_power(layout, streams), self._peak_db, hold_s)
        if self.coherence is None:
            power = self._continuous_power(layout, streams)
            return _ContinuousGain(power, self._peak_db, _HOLD / self.doppler_hz)
        field = streams.field("fading")
        return BlockGain(lambda users, block: self._block_db(field, users, block), self.coherence, self._peak_db)

    @property
    def has_fast_fading(self) -> bool:
        return True

    @property
    def coherence_s(self) -> float:
        """Length of a block, or 0.4 / f; infinity where the motion decides, see `coherence_in`."""
        if self.follows_motion:
            return math.inf
        return 0.4 / self.doppler_hz if self.coherence is None else self.coherence

    def coherence_in(self, layout: Layout) -> float:
        return 0.4 * self._period_s(layout) if self.follows_motion else self.coherence_s

    def motion_misfit(self, pace: MotionPace) -> str:
        remedy = "leave the key out, so that the fading follows the motion"
        if self.speed is not None and not is_near(self.speed, pace.speeds_m_s):
            return f"the fading is that of a speed of {self.speed:.3g} m/s, but {pace.speeds}; {remedy}"
        if self.doppler is not None and not is_near(self.doppler, pace.dopplers_hz):
            return f"the fading has a Doppler shift of {self.doppler:.3g} Hz, but {pace.dopplers}; {remedy}"
        if self.coherence is not None and not is_near(self.coherence, pace.coherences_s):
            return f"coherence is {self.coherence:.3g} s, but {pace.coherences}; {remedy}"
        return ""

    def _period_s(self, layout: Layout) -> float:
        """Return the time in which the fastest user moves by a wavelength; infinity if nobody moves.

        Raises:
            ScenarioError: there is no motion, or no carrier frequency.
        """
        if layout.paths is None:
            raise ScenarioError([UNPACED])
        if self.frequency is None:
            raise ScenarioError([NO_CARRIER])
        fastest_m_s = float(layout.paths.speeds_m_s(np.arange(layout.users))[1].max(initial=0.0))
        return self._wavelength_m / fastest_m_s if fastest_m_s else math.inf

    @property
    def _wavelength_m(self) -> float:
        return LIGHT_M_S / (self.frequency or math.nan)

    @property
    def doppler_hz(self) -> float:
        """Maximum Doppler shift f; 0 for block fading, and where the motion decides."""
        if self.speed is not None and self.frequency is not None:
            return self.speed * self.frequency / LIGHT_M_S
        return self.doppler or 0.0

    @abstractmethod
    def _block_db(self, field: Any, users: Ints, block: NDArray[np.uint64]) -> Floats:
        """Return gains drawn from *field*, keyed by (user, block), in dB, ``[n]``."""

    @abstractmethod
    def _continuous_power(self, layout: Layout, streams: Streams) -> Power:
        """Return the power gain in continuous time of the users of *layout*."""

    @property
    @abstractmethod
    def _peak_db(self) -> float:
        """Gain that is exceeded with a probability under 1e-9."""

    def _scatter(self, layout: Layout, streams: Streams) -> Scatter:
        sinusoids = self.sinusoids or _SINUSOIDS
        if self.follows_motion:
            return MovingSinusoids(layout, self._wavelength_m, sinusoids, streams)
        return SumOfSinusoids(layout.users, self.doppler_hz, sinusoids, streams)

    def laws(self) -> tuple[Law, ...]:
        if self.follows_motion:  # those of a user that moves by one wavelength a second
            return self.model_copy(update={"doppler": 1.0, "frequency": None}).laws()
        statement, distribution = self._power_law()
        if self.coherence is None:
            pace_s = 1.0 / self.doppler_hz
            scope = "independent for each user"
            statistics = self._doppler_claims()
        else:
            pace_s = self.coherence
            scope = "independent for each user and each block"
            lags_s = (pace_s, 3.0 * pace_s)
            moments = (1.0, float(distribution.var()))
            statistics = (autocorrelation("0 from block to block", self._series, lambda lag_s: 0.0, lags_s, moments),)

        def draw(streams: Streams, size: int) -> Floats:
            return self._series(streams, size, np.array([7.3 * pace_s])).ravel()

        return (Law("power gain", f"{statement}, {scope}", draw, distribution=distribution, statistics=statistics),)

    @abstractmethod
    def _power_law(self) -> tuple[str, Any]:
        """Return the distribution of the power gain in words and as a frozen SciPy distribution."""

    @abstractmethod
    def _doppler_claims(self) -> tuple[StatisticClaim, ...]:
        """Return the claims about the power over time, with a Doppler shift."""

    def _series(self, streams: Streams, size: int, times_s: Floats) -> Floats:
        """Return the power gains of *size* users over time, ``[size, times]``."""
        return np.asarray(10.0 ** (gain_series(self)(streams, size, times_s) / 10.0))

    def _correlation_claim(self, formula: str, rho: Callable[[float], float], variance: float) -> StatisticClaim:
        """Claim that the power at two instants, of mean 1, has the correlation *rho* of f τ."""
        f = self.doppler_hz
        lags_s = [lag / f for lag in _LAGS]
        return autocorrelation(formula, self._series, lambda lag_s: rho(lag_s * f), lags_s, (1.0, variance))

    def _fade_claims(
        self, formula: str, rate: Callable[[float], float], below: Callable[[float], float]
    ) -> tuple[StatisticClaim, StatisticClaim]:
        """Claim f *rate* falls below amplitude ρ a second, and the share *below* of the time there."""
        f = self.doppler_hz
        powers = [level**2 for level in _LEVELS if rate(level) >= _MIN_RATE]

        def rate_hz(power: float) -> float:
            return f * rate(power**0.5)

        def mean_s(power: float) -> float:
            return below(power**0.5) / rate_hz(power)

        return (
            crossing_rate(formula, self._series, rate_hz, powers, _STEP / f),
            fade_duration("P(amplitude < ρ) / (level-crossing rate)", self._series, mean_s, powers, _STEP / f),
        )


class _ContinuousGain(LinkGain):
    """Gains in continuous time: *power* in dB, nearly constant for *hold_s*, above *peak_db* practically never."""

    def __init__(self, power: Power, peak_db: float, hold_s: float) -> None:
        self._power = power
        self._peak_db = peak_db
        self._hold_s = hold_s

    @property
    def hold_s(self) -> float:
        return self._hold_s

    def gain_db(self, users: Ints, time_s: ArrayLike) -> Floats:
        """Return the power gain in dB; a power that underflows counts as the smallest positive number."""
        power = np.maximum(self._power(users, time_s), np.finfo(float).tiny)
        return np.asarray(10.0 * np.log10(power))

    def peak_db(self, users: Ints) -> Floats:
        return np.full(len(users), self._peak_db)


class Scatter(Protocol):
    """Complex gain of many scattered waves."""

    def gain(self, users: Ints, time_s: ArrayLike) -> NDArray[np.complex128]:
        """Return the gain of each user at *time_s*, ``[n]``."""


class _Waves:
    """Waves of each user, whose phases are linear functions of some coordinates.

    Args:
        users: number of users.
        coordinates: number of coordinates.
        sinusoids: N.
    """

    def __init__(self, users: int, coordinates: int, sinusoids: int, streams: Streams) -> None:
        self._angle_draws = streams.field("angle")
        self._phase_draws = streams.field("phase")
        self._sinusoids = sinusoids
        self._is_drawn = np.zeros(users, np.bool_)
        shape = (users, coordinates + 1, sinusoids)
        self._waves = np.empty(shape) if math.prod(shape) <= _MAX_CACHED else None  # rates and phases; None: not kept

    @abstractmethod
    def _rates(self, angle: Floats) -> list[Floats]:
        """Return the phase of waves from these angles for each unit of each coordinate."""

    def _sum(self, users: Ints, *coordinates: Floats) -> NDArray[np.complex128]:
        """Return N^(-1/2) Σ exp(i (rates · coordinates + phase)) of each user, ``[n]``."""
        gain = np.empty(len(users), complex)
        step = max(1, _CHUNK // self._sinusoids)
        for start in range(0, len(users), step):
            chunk = slice(start, start + step)
            waves = self._waves_of(users[chunk])  # [n, coordinates + 1, N]
            argument = waves[:, 0] * coordinates[0][chunk, None] + waves[:, -1]  # of exp(i …), [n, N]
            for number in range(1, len(coordinates)):
                argument += waves[:, number] * coordinates[number][chunk, None]
            gain[chunk].real = np.cos(argument).sum(axis=1)
            gain[chunk].imag = np.sin(argument).sum(axis=1)
        return np.asarray(gain / math.sqrt(self._sinusoids))

    def _waves_of(self, users: Ints) -> Floats:
        """Return each user's rates and phases, ``[n, coordinates + 1, sinusoids]``, which are kept if there is room."""
        if self._waves is None:
            return self._draw(users)
        is_drawn = self._is_drawn[users]
        if not is_drawn.all():
            new_users = np.unique(users[~is_drawn])
            self._waves[new_users] = self._draw(new_users)
            self._is_drawn[new_users] = True
        return np.asarray(self._waves[users])

    def _draw(self, users: Ints) -> Floats:
        """Return rates and phases, keyed by (user, sinusoid), ``[n, coordinates + 1, sinusoids]``.

        α_n = 2π (n + U) / N for n = 0 … N - 1, and φ_n = 2π U, with uniform draws U.
        """
        rows = users[:, None]
        n = np.arange(self._sinusoids)
        alpha = (n + self._angle_draws.uniform(rows, n)) * (2.0 * math.pi / self._sinusoids)
        phi = 2.0 * math.pi * self._phase_draws.uniform(rows, n)
        return np.stack([*self._rates(alpha), phi], axis=1)


class SumOfSinusoids(_Waves):
    """Complex gain h of many scattered waves, with E[|h|²] = 1: a function of (user, time) in any order of calls.

    h(t) = N^(-1/2) Σ exp(i (2π f t cos α_n + φ_n)) over n = 1 … N, where the angle of arrival α_n is uniform on the
    n-th of N equal parts of the circle and the phase φ_n is uniform, all independent (Xiao, Zheng and Beaulieu, IEEE
    Trans. Wireless Commun. 5(12), 2006).  Exact for every N: E[h(t) h*(t+τ)] = J0(2π f τ), and |h|² has the mean 1 over
    time for each single user.  In the limit of large N only: the Gaussian distribution; E[|h|⁴] is 2 - 1/N.

    Args:
        users: number of users.
        doppler_hz: f, the maximum Doppler shift.
        sinusoids: N.
    """

    def __init__(self, users: int, doppler_hz: float, sinusoids: int, streams: Streams) -> None:
        super().__init__(users, 1, sinusoids, streams)
        self._doppler_hz = doppler_hz

    def gain(self, users: Ints, time_s: ArrayLike) -> NDArray[np.complex128]:
        """Return the gain of each user at *time_s*, ``[n]``."""
        return self._sum(users, np.broadcast_to(np.asarray(time_s, float), users.shape))

    def _rates(self, angle: Floats) -> list[Floats]:
        return [2.0 * math.pi * self._doppler_hz * np.cos(angle)]


class MovingSinusoids(_Waves):
    """Complex gain h of many scattered waves at the position r of a moving user, with E[|h|²] = 1.

    h(r) = N^(-1/2) Σ exp(i (2π/λ r · u_n + φ_n)), with the waves from the directions u_n = (cos α_n, sin α_n) of
    `SumOfSinusoids`.  E[h(r) h*(r + d)] = J0(2π |d| / λ), exactly: a user that moves straight at the speed v has the
    fading of `SumOfSinusoids` at f = v / λ, and one that stands still keeps its gain.

    Args:
        wavelength_m: λ.
        sinusoids: N.
    """

    def __init__(self, layout: Layout, wavelength_m: float, sinusoids: int, streams: Streams) -> None:
        super().__init__(layout.users, 2, sinusoids, streams)
        self._layout = layout
        self._wavelength_m = wavelength_m

    def gain(self, users: Ints, time_s: ArrayLike) -> NDArray[np.complex128]:
        """Return the gain of each user at *time_s*, ``[n]``."""
        assert self._layout.paths is not None
        east_m, north_m = self._layout.paths.xy_m(users, time_s).T
        return self._sum(users, east_m, north_m)

    def _rates(self, angle: Floats) -> list[Floats]:
        wave_number = 2.0 * math.pi / self._wavelength_m
        return [wave_number * np.cos(angle), wave_number * np.sin(angle)]


UNPACED = Fault(
    "",
    "nothing sets the pace of the fading: there is no motion that it could follow",
    None,
    "give coherence, doppler, or speed with frequency",
)
"""Error of a fading without a pace in a network whose users do not move."""
NO_CARRIER = Fault(
    "frequency",
    "missing: the fading follows the motion, and the other channel models have no frequency in common",
    None,
    "give the carrier frequency, or the pace of the fading by coherence or doppler",
)
"""Error of a fading that follows the motion, but has no carrier."""


def carriers_hz(channels: Sequence[Channel]) -> set[float]:
    """Return the carrier frequencies of the models of a link."""
    return {float(channel.carrier_hz) for channel in channels if channel.carrier_hz is not None}


def pace_faults(channels: Sequence[Channel], *, moving: bool) -> Iterator[Fault]:
    """Yield the errors of fadings on a link whose pace follows neither from a key nor from a motion."""
    for index, channel in enumerate(channels):
        if not isinstance(channel, Fading) or not channel.follows_motion:
            continue
        if not moving:
            yield UNPACED.under(f"channel.{index}")
        elif channel.carrier_hz is None and len(carriers_hz(channels)) != 1:
            yield NO_CARRIER.under(f"channel.{index}")


def with_carrier(channels: Sequence[Channel]) -> tuple[Channel, ...]:
    """Return the models of a link with the carrier frequency of the others in each fading that follows the motion.

    In a medium of slow signals, such as water, a fading has the frequency in air of the same wavelength.
    """
    slowness = LIGHT_M_S / min((channel.speed_m_s for channel in channels), default=LIGHT_M_S)
    common_hz = carriers_hz(channels)
    resolved: list[Channel] = []
    for channel in channels:
        if not isinstance(channel, Fading):
            resolved.append(channel)
            continue
        frequency_hz = channel.carrier_hz
        if channel.follows_motion and frequency_hz is None and len(common_hz) == 1:
            (frequency_hz,) = common_hz
        if frequency_hz is None:  # its pace needs no carrier
            resolved.append(channel)
        else:
            resolved.append(channel.model_copy(update={"frequency": frequency_hz * slowness}))
    return tuple(resolved)
