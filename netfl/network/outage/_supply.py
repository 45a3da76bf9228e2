"""Where a battery's energy comes from: nothing, a charger, the sun."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.network.outage._crossing import crossing
from netfl.network.outage._periods import around
from netfl.registry import Spec
from netfl.streams import Field as RandomField
from netfl.streams import Streams
from netfl.units import Seconds, Watts

DAY_S = 86400.0
Gain = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Energy as a function of the time up to which it is counted, each ``[n]``."""


class Supply(Protocol):
    """Power for each user over time, cut into segments in which power less a constant drain keeps its sign."""

    def until_s(
        self, users: NDArray[np.int64], from_s: NDArray[np.float64], drain_w: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """When the segment that begins at *from_s*, or that it lies in, ends, ``[n]``; later than *from_s*."""

    def gain(self, users: NDArray[np.int64], from_s: NDArray[np.float64], drain_w: NDArray[np.float64]) -> Gain:
        """Energy that comes in less what is drained, from *from_s* to a later time of the same segment."""


class Charger(Spec):
    """A charger of constant power, plugged in all the time or in one window of each day."""

    power: Annotated[Watts, Field(gt=0)]
    """What it gives."""
    opens: Annotated[Seconds, Field(ge=0, le=DAY_S)] | None = None
    """When it is plugged in, from the start of the day; time 0 is one.  Without, it always is."""
    closes: Annotated[Seconds, Field(ge=0, le=DAY_S)] | None = None
    """When it is unplugged, perhaps after midnight."""
    spread: Annotated[Seconds, Field(ge=0, le=DAY_S)] = 0.0
    """Width of the interval, around 0, from which the shift of each user's window is drawn."""

    @model_validator(mode="after")
    def _window(self) -> Charger:
        """Both ends of a window, or none."""
        if (self.opens is None) != (self.closes is None):
            raise ValueError("give opens and closes, or neither")
        if self.opens is not None and (self.closes or 0.0) % DAY_S == self.opens % DAY_S:
            raise ValueError("opens and closes are the same instant of the day")
        if self.opens is None and self.spread:
            raise ValueError("spread has no effect without opens and closes")
        return self

    def open(self, users: int, streams: Streams) -> Supply:
        """The charger of each user."""
        if self.opens is None or self.closes is None:
            return _Plugged(self.power, np.zeros(users), DAY_S, always=True)
        shift_s = self.spread * (streams.field("shift").uniform(np.arange(users)) - 0.5)
        return _Plugged(self.power, self.opens + shift_s, (self.closes - self.opens) % DAY_S, always=False)


class Solar(Spec):
    """A solar panel: half a sine from sunrise to sunset, dimmed by the clouds of the day, the same for all users.

    P(t) = peak · f · sin(π (t - sunrise)/(sunset - sunrise)), f uniform on [1 - clouds, 1] and drawn for each day; a
    day without clouds brings 2/π · peak · (sunset - sunrise).
    """

    peak: Annotated[Watts, Field(gt=0)]
    """Power at noon of a clear day."""
    sunrise: Annotated[Seconds, Field(ge=0, le=DAY_S)] = DAY_S / 4.0
    """When the sun rises, from the start of the day; time 0 is one."""
    sunset: Annotated[Seconds, Field(ge=0, le=DAY_S)] = 3.0 * DAY_S / 4.0
    """When it sets."""
    clouds: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The largest share of the power that clouds can take."""

    @model_validator(mode="after")
    def _daylight(self) -> Solar:
        """A day between morning and evening."""
        if self.sunset <= self.sunrise:
            raise ValueError("the sun sets before it rises")
        return self

    def open(self, users: int, streams: Streams) -> Supply:
        """The sun on all users."""
        return _Sun(self, streams.field("clouds"))


class NoSupply:
    """No energy comes in."""

    def until_s(
        self, users: NDArray[np.int64], from_s: NDArray[np.float64], drain_w: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Never."""
        return np.full(len(users), np.inf)

    def gain(self, users: NDArray[np.int64], from_s: NDArray[np.float64], drain_w: NDArray[np.float64]) -> Gain:
        """The drain alone."""
        return _constant(-drain_w, from_s)


class _Plugged:
    """Constant power, always or in a window of the day."""

    def __init__(self, power_w: float, opens_s: NDArray[np.float64], length_s: float, *, always: bool) -> None:
        self._power_w, self._opens_s, self._length_s, self._always = power_w, opens_s, length_s, always

    def until_s(
        self, users: NDArray[np.int64], from_s: NDArray[np.float64], drain_w: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """When it is plugged in or out."""
        if self._always:
            return np.full(len(users), np.inf)
        opened_s, opens_s = around(self._opens_s[users], DAY_S, from_s)
        closes_s = opened_s + self._length_s
        return np.where(from_s < closes_s, closes_s, opens_s)

    def gain(self, users: NDArray[np.int64], from_s: NDArray[np.float64], drain_w: NDArray[np.float64]) -> Gain:
        """Power times time."""
        opened_s, _ = around(self._opens_s[users], DAY_S, from_s)
        plugged = self._always | (from_s < opened_s + self._length_s)
        return _constant(self._power_w * plugged - drain_w, from_s)


class _Sun:
    """Half a sine each day; a day's segments end where the power meets the drain, at noon if it never does."""

    def __init__(self, solar: Solar, clouds: RandomField) -> None:
        self._solar, self._clouds, self._length_s = solar, clouds, solar.sunset - solar.sunrise

    def until_s(
        self, users: NDArray[np.int64], from_s: NDArray[np.float64], drain_w: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Sunrise, where power begins to exceed the drain, where it ceases to, or sunset."""
        rise_s, next_s = around(np.full(len(users), self._solar.sunrise), DAY_S, from_s)
        angle = np.arcsin(np.minimum(drain_w / np.maximum(self._peak_w(rise_s), _DARK_W), 1.0))
        early_s = angle / np.pi * self._length_s
        edges_s = rise_s + np.array([early_s, self._length_s - early_s, np.full(len(users), self._length_s)])
        edges_s = np.vstack([edges_s, next_s])
        return np.asarray(np.where(edges_s > from_s, edges_s, np.inf).min(axis=0))

    def gain(self, users: NDArray[np.int64], from_s: NDArray[np.float64], drain_w: NDArray[np.float64]) -> Gain:
        """∫ peak · f · sin, in closed form, less the drain."""
        rise_s, _ = around(np.full(len(users), self._solar.sunrise), DAY_S, from_s)
        scale_j = self._peak_w(rise_s) * self._length_s / np.pi

        def cosine(at_s: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(np.cos(np.pi * np.minimum(np.maximum((at_s - rise_s) / self._length_s, 0.0), 1.0)))

        begin = cosine(from_s)
        return lambda to_s: scale_j * (begin - cosine(to_s)) - drain_w * (to_s - from_s)

    def _peak_w(self, rise_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Power at noon of the day with this sunrise; the day before time 0 is a clear one."""
        day = np.rint((rise_s - self._solar.sunrise) / DAY_S).astype(np.int64)
        factor = 1.0 - self._solar.clouds * self._clouds.uniform(0, np.maximum(day, 0))
        return self._solar.peak * np.where(day >= 0, factor, 1.0)


_DARK_W = 1e-300


def _constant(power_w: NDArray[np.float64], from_s: NDArray[np.float64]) -> Gain:
    """Power times time, none for ever being none."""

    def gain_j(to_s: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):
            return np.where(power_w == 0.0, 0.0, power_w * (to_s - from_s))

    return gain_j


def meets_s(
    gain: Gain, from_s: NDArray[np.float64], to_s: NDArray[np.float64], wanted_j: NDArray[np.float64]
) -> NDArray[np.float64]:
    """When, within a segment from *from_s* to *to_s* in which it comes about, *gain* is *wanted_j*, ``[n]``."""
    if np.isinf(to_s).all():  # the power is constant
        return np.asarray(from_s + np.abs(wanted_j / gain(from_s + 1.0)))
    return crossing(lambda at_s: np.abs(gain(at_s)) - np.abs(wanted_j), from_s, to_s)
