"""Radios of users and towers: one for all, or different ones by user, by class of devices and by tower."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.core.spec import ByForm, OnlyWith, Spec
from netfl.errors import Fault, suggest
from netfl.streams import RandomField, Streams
from netfl.types import Floats, Law, ScenarioFacts
from netfl.units import AntennaGain, Bandwidth, DecibelMilliwatts, Decibels, NoiseFigure, UserPower

Band = Annotated[Bandwidth, Field(gt=0)]
"""A bandwidth."""
SETTINGS = ("power", "bandwidth", "noise_figure", "antenna_gain")
"""Settings that users may have differently."""


class _Drawn(Spec, ABC):
    """Distribution of a setting over the users, each of which draws once.

    Attributes:
        low: lower end of a uniform distribution.
        high: upper end of a uniform distribution.
    """

    low: float | None
    high: float | None

    @model_validator(mode="after")
    def _check_order(self) -> _Drawn:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low is {self.low:g}, above high, {self.high:g}; make it the smaller one")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest value."""
        return self._interval

    def draw(self, field: RandomField, users: NDArray[np.int64]) -> Floats:
        """Return the value of each of *users*, ``[n]``."""
        low, high = self._interval
        return np.asarray(low + (high - low) * field.uniform(users))

    def law(self, quantity: str) -> Law:
        """Return the claim about the values of users."""
        return Law(
            quantity,
            "drawn for each user once",
            lambda streams, size: self.draw(streams.field(quantity), np.arange(size)),
            distribution=self._distribution(),
        )

    @property
    def _interval(self) -> tuple[float, float]:
        """Ends of a uniform distribution."""
        return self.low or 0.0, self.high or 0.0

    def _distribution(self) -> Any:
        """Return the distribution of a value, as one of ``scipy.stats``."""
        from scipy.stats import uniform

        low, high = self._interval
        return uniform(low, high - low)


class _DrawnLevel(_Drawn, ABC):
    """Distribution of a level in decibels: uniform, or normal.

    Attributes:
        distribution: the name.
        mean: mean of a normal distribution.
        std: standard deviation of a normal distribution.
    """

    distribution: str
    mean: float | None
    std: float | None

    @property
    def bounds(self) -> tuple[float, float]:
        if self.distribution == "normal":
            return -math.inf, math.inf
        return self._interval

    def draw(self, field: RandomField, users: NDArray[np.int64]) -> Floats:
        if self.distribution == "uniform":
            return _Drawn.draw(self, field, users)
        return np.asarray((self.mean or 0.0) + (self.std or 0.0) * field.normal(users))

    def _distribution(self) -> Any:
        from scipy.stats import norm

        if self.distribution == "uniform":
            return _Drawn._distribution(self)
        return norm(self.mean, self.std)


class DrawnPower(_DrawnLevel):
    """Distribution of the powers of users."""

    distribution: Literal["uniform", "normal"]
    """Uniform or normal in dBm."""
    low: Annotated[UserPower | None, OnlyWith("distribution", "uniform", needed=True)] = None
    """Lower end."""
    high: Annotated[UserPower | None, OnlyWith("distribution", "uniform", needed=True)] = None
    """Upper end."""
    mean: Annotated[UserPower | None, OnlyWith("distribution", "normal", needed=True)] = None
    """Mean in dBm."""
    std: Annotated[Annotated[Decibels, Field(gt=0, le=100)] | None, OnlyWith("distribution", "normal", needed=True)] = (
        None
    )
    """Standard deviation in dB."""


class DrawnGain(_DrawnLevel):
    """Distribution of the antenna gains of users."""

    distribution: Literal["uniform", "normal"]
    """Uniform or normal in dB."""
    low: Annotated[Decibels | None, OnlyWith("distribution", "uniform", needed=True)] = None
    """Lower end."""
    high: Annotated[Decibels | None, OnlyWith("distribution", "uniform", needed=True)] = None
    """Upper end."""
    mean: Annotated[Decibels | None, OnlyWith("distribution", "normal", needed=True)] = None
    """Mean in dB."""
    std: Annotated[Annotated[Decibels, Field(gt=0, le=100)] | None, OnlyWith("distribution", "normal", needed=True)] = (
        None
    )
    """Standard deviation in dB."""


class DrawnNoiseFigure(_Drawn):
    """Distribution of the noise figures of users."""

    distribution: Literal["uniform"]
    """Uniform in dB."""
    low: NoiseFigure
    """Lower end."""
    high: NoiseFigure
    """Upper end."""


class DrawnBandwidth(_Drawn):
    """Distribution of the bandwidths of users."""

    distribution: Literal["uniform"]
    """Uniform in Hz."""
    low: Band
    """Lower end."""
    high: Band
    """Upper end."""


_Powers = Annotated[tuple[UserPower, ...], Field(min_length=1)]
_Bands = Annotated[tuple[Band, ...], Field(min_length=1)]
_NoiseFigures = Annotated[tuple[NoiseFigure, ...], Field(min_length=1)]
_Gains = Annotated[tuple[AntennaGain, ...], Field(min_length=1)]
_Setting = float | tuple[float, ...] | _Drawn


class DeviceRadio(Spec):
    """Radio of a class of devices; settings that are not given are those of all users."""

    power: Annotated[DrawnPower | UserPower, ByForm()] | None = None
    """Power of each of its users: a number, or a distribution."""
    bandwidth: Annotated[DrawnBandwidth | Band, ByForm()] | None = None
    """Noise bandwidth of its users: a number, or a distribution."""
    noise_figure: Annotated[DrawnNoiseFigure | NoiseFigure, ByForm()] | None = None
    """Noise figure of its users on a downlink: a number, or a distribution."""
    antenna_gain: Annotated[DrawnGain | AntennaGain, ByForm()] | None = None
    """Antenna gain of its users: a number, or a distribution."""


class TowerRadio(Spec):
    """Radio of a tower; settings that are not given are those of all towers."""

    power: DecibelMilliwatts | None = None
    """Power on a downlink."""
    noise_figure: NoiseFigure | None = None
    """Noise figure of its receiver."""
    antenna_gain: AntennaGain | None = None
    """Antenna gain, in both directions."""


class Radio(Spec):
    """Radios of users and towers.

    The noise power is -174 dBm/Hz + 10 log10(B) + NF; a link's SNR in dB is power + gains - noise, with the gains of
    both antennas and of the channel, the bandwidth B of the user, and the noise figure NF of the receiver.  The gain of
    an antenna contains the losses of its cable.

    Each setting of users is one number for all, a list with one for each, or a distribution from which each user draws
    once: ``{distribution: uniform, low: 10 dBm, high: 20 dBm}`` or, for powers and antenna gains, ``{distribution:
    normal, mean: 14 dBm, std: 2 dB}``.  Classes of ``compute.devices`` may have settings of their own.  ``tower`` and
    ``towers`` are the radios of towers.

    Users of different bandwidths that send on one channel have the same centre.  Of a signal in a band B_j, the part
    min(1, B_i / B_j) of its power falls into the band B_i of another, and interferes there.  With the MAC ``fdma`` they
    divide the band of a cell instead, and have places of their own in it.
    """

    power: Annotated[_Powers | DrawnPower | UserPower, ByForm()]
    """Power of users."""
    bandwidth: Annotated[_Bands | DrawnBandwidth | Band, ByForm()]
    """B, the noise bandwidth."""
    noise_figure: Annotated[_NoiseFigures | DrawnNoiseFigure | NoiseFigure, ByForm()] = 0.0
    """NF, the increase of the thermal noise by the receiver.  One number is that of users and towers; a list or a
    distribution is that of users, which receive on a ``downlink`` only."""
    antenna_gain: Annotated[_Gains | DrawnGain | AntennaGain, ByForm()] = 0.0
    """Antenna gain of users, in both directions, over that of the channel model."""
    devices: Mapping[str, DeviceRadio] = Field(default_factory=dict)
    """Other radios for a class of ``compute.devices``, by its name."""
    tower: TowerRadio = TowerRadio()
    """Radio of all towers; ``noise_figure``: by default that of users; ``power``: by default ``downlink.power``."""
    towers: Mapping[str, TowerRadio] = Field(default_factory=dict)
    """Other radios for a tower, by its name, such as ``tower:0``."""
    channel_noise: Annotated[tuple[Annotated[Decibels, Field(ge=-60, le=60)], ...], Field(min_length=1)] | None = None
    """Noise at the towers on each frequency channel of the MAC above that of the radio, such as ``[0 dB, 3 dB]``;
    ``null`` is 0 dB on all."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        for key in SETTINGS:
            value = getattr(self, key)
            if isinstance(value, tuple) and len(value) != facts.users:
                problem = f"{len(value)} values for {facts.users} users"
                yield Fault(key, problem, None, f"give one number, or {facts.users} of them")
        if self.tower.noise_figure is None and self._differs("noise_figure"):
            problem = "missing: noise figures by user are those of users, which receive on the downlink"
            yield Fault("tower.noise_figure", problem, None, "give that of the towers, such as 5 dB")

    def device_faults(self, known: Sequence[str]) -> Iterator[Fault]:
        """Yield the errors of radios for classes that are not among the *known* ones; keys are relative to this."""
        for name in self.devices:
            if name not in known:
                yield Fault(f"devices.{name}", "compute.devices has no device of that name", None, suggest(name, known))

    def tower_faults(self, towers: Sequence[str]) -> Iterator[Fault]:
        """Yield the errors of radios for towers that do not exist; keys are relative to this."""
        for name in self.towers:
            if name not in towers:
                yield Fault(f"towers.{name}", "there is no such tower", None, suggest(name, towers))

    @property
    def common_bandwidth_hz(self) -> float | None:
        """Bandwidth of all users; ``None`` if they may differ."""
        low_hz, high_hz = self.bandwidth_bounds_hz
        return low_hz if low_hz == high_hz else None

    @property
    def bandwidth_bounds_hz(self) -> tuple[float, float]:
        """Smallest and largest bandwidth of a user."""
        return self._bounds_of("bandwidth")

    @property
    def differing(self) -> tuple[str, ...]:
        """Settings in which users may differ."""
        return tuple(key for key in SETTINGS if self._differs(key))

    @property
    def is_one(self) -> bool:
        """True if all users have one radio, and all towers another."""
        return not self.differing and not self.towers

    def open(self, users: int, towers: Sequence[str], devices: NDArray[np.str_] | None, streams: Streams) -> Radios:
        """Return the radios of one network.

        Args:
            users: number of users.
            towers: names of the towers.
            devices: name of each user's class of devices, ``[users]``; ``None`` without classes.
            streams: streams of the radios.
        """
        towers = towers or ("",)  # a layout without towers has users at a tower nowhere
        values = {key: self._of_users(key, users, devices, streams) for key in SETTINGS}
        noise_figure_db = self.tower.noise_figure
        if noise_figure_db is None:
            noise_figure_db = values["noise_figure"][0] if users else 0.0
        return Radios(
            power_dbm=values["power"],
            bandwidth_hz=values["bandwidth"],
            noise_figure_db=values["noise_figure"],
            gain_db=values["antenna_gain"],
            tower_noise_figure_db=self._of_towers("noise_figure", towers, noise_figure_db),
            tower_gain_db=self._of_towers("antenna_gain", towers, self.tower.antenna_gain or 0.0),
            tower_power_dbm=self._of_towers("power", towers, self.tower.power),
        )

    def laws(self) -> tuple[Law, ...]:
        settings = {key: getattr(self, key) for key in SETTINGS}
        laws = [setting.law(key) for key, setting in settings.items() if isinstance(setting, _Drawn)]
        if not laws:
            return (Law.none("nothing is drawn"),)
        return tuple(laws)

    def _values(self, key: str) -> list[_Setting]:
        """Return the values of a setting for all users, and for each class that has another."""
        values = [getattr(self, key), *(getattr(device, key) for device in self.devices.values())]
        return [value for value in values if value is not None]

    def _bounds_of(self, key: str) -> tuple[float, float]:
        """Return the smallest and the largest value of a setting among users."""
        bounds = [_bounds(value) for value in self._values(key)]
        return min(low for low, _ in bounds), max(high for _, high in bounds)

    def _differs(self, key: str) -> bool:
        low, high = self._bounds_of(key)
        return low < high

    def _of_users(self, key: str, users: int, devices: NDArray[np.str_] | None, streams: Streams) -> Floats:
        """Return a setting of each user, ``[users]``."""
        field = streams.field(key)
        values = _drawn(getattr(self, key), np.arange(users), field)
        for name, device in self.devices.items():
            value = getattr(device, key)
            if value is not None and devices is not None:
                members = np.flatnonzero(devices == name)
                values[members] = _drawn(value, members, field)
        return values

    def _of_towers(self, key: str, towers: Sequence[str], default: float | None) -> Floats:
        """Return a setting of each tower, ``[towers]``; NaN for none."""
        values = np.full(len(towers), math.nan if default is None else default)
        for name, tower in self.towers.items():
            value = getattr(tower, key)
            if value is not None and name in towers:
                values[towers.index(name)] = value
        return values


@dataclass(frozen=True, slots=True)
class Radios:
    """Radios of the users and towers of one network.

    Args:
        power_dbm: power of each user, ``[users]``.
        bandwidth_hz: noise bandwidth of each user, ``[users]``.
        noise_figure_db: noise figure of each user's receiver, ``[users]``.
        gain_db: antenna gain of each user, ``[users]``.
        tower_noise_figure_db: noise figure of each tower's receiver, ``[towers]``.
        tower_gain_db: antenna gain of each tower, ``[towers]``.
        tower_power_dbm: power of each tower on a downlink, ``[towers]``; NaN where the radio states none.
    """

    power_dbm: Floats
    bandwidth_hz: Floats
    noise_figure_db: Floats
    gain_db: Floats
    tower_noise_figure_db: Floats
    tower_gain_db: Floats
    tower_power_dbm: Floats

    def columns(self, differing: Sequence[str]) -> dict[str, Floats]:
        """Return the columns of the table of users for these `SETTINGS`."""
        columns = {
            "power": ("power_dBm", self.power_dbm),
            "bandwidth": ("bandwidth_Hz", self.bandwidth_hz),
            "noise_figure": ("noise_figure_dB", self.noise_figure_db),
            "antenna_gain": ("antenna_gain_dB", self.gain_db),
        }
        return dict(columns[key] for key in differing)


def one_if_equal(values: Floats) -> float | Floats:
    """Return the value of all if they are equal, else *values*.

    >>> one_if_equal(np.array([2.0, 2.0])), one_if_equal(np.array([1.0, 2.0]))
    (2.0, array([1., 2.]))
    """
    if len(values) and (values == values[0]).all():
        return float(values[0])
    return values


def per_distinct(values: Floats, compute: Callable[[float], float]) -> Floats:
    """Return *compute* of each value, which it gets as a float, once for those that are equal, ``[n]``."""
    distinct, places = np.unique(values, return_inverse=True)
    return np.array([compute(value) for value in distinct.tolist()], float)[places.ravel()]


def _bounds(value: _Setting) -> tuple[float, float]:
    if isinstance(value, _Drawn):
        return value.bounds
    if isinstance(value, tuple):
        return min(value), max(value)
    return value, value


def _drawn(value: Any, users: NDArray[np.int64], field: RandomField) -> Floats:
    """Return the value of each of *users*, ``[n]``."""
    if isinstance(value, _Drawn):
        return value.draw(field, users)
    if isinstance(value, tuple):
        return np.array(value, float)
    return np.full(len(users), value, float)
