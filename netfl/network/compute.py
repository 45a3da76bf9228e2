"""Training times of users, by their devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import exp, expm1, log1p, sqrt
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from netfl.core.spec import NotWith, Spec, check_one_of, no_effect
from netfl.errors import Fault
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law, ScenarioFacts, StatisticClaim
from netfl.units import ClockRate, Seconds


class Device(Spec):
    """One class of devices: its users and its speed.

    With a ``share`` each user draws its class once, independently of all others, so that the size of a class differs
    from replica to replica.  ``users`` is exact: a number of users, which are drawn, or a list of users.
    """

    share: Annotated[float, Field(gt=0, le=1)] | None = None
    """Probability that a user has it; the sum over all classes is 1."""
    users: Annotated[int, Field(ge=0)] | tuple[Annotated[int, Field(ge=0)], ...] | None = None
    """Instead of ``share``: the exact number of users, which are drawn once, or a list of their numbers."""
    speed: Annotated[float, Field(gt=0)]
    """Training samples per second; with a spread, the median of the class."""
    spread: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Standard deviation of the natural logarithm of the speeds in the class."""
    warm_up: Annotated[Seconds, Field(ge=0)] | None = None
    """Warm-up of a user of the class; by default that of all users."""

    @model_validator(mode="after")
    def _one_way(self) -> Device:
        check_one_of(self, "share", "users")
        return self

    @property
    def listed(self) -> tuple[int, ...]:
        """Users that are listed."""
        if isinstance(self.users, tuple):
            return self.users
        return ()

    @property
    def count(self) -> int:
        """Number of users; 0 where it is drawn."""
        if isinstance(self.users, int):
            return self.users
        return len(self.listed)


TrainingJitter = Callable[[Ints, Ints], Floats]
"""Returns the factor of each user's training time for the update of that number, counted from 0."""


def as_tuple(value: Any) -> Any:
    """Return a single value as a list of one."""
    if isinstance(value, list | tuple):
        return value
    return [value]


class Compute(Spec):
    """Training time of users: samples / speed.

    The speed of a processor that needs ``cycles`` for each sample and has the ``frequency`` f is f / cycles.  Its
    energy for each sample is capacitance · cycles · f² (`netfl.network.energy.EnergyCosts.capacitance`).

    With a spread σ, the speed of user i is speed·exp(σ z_i), z_i standard normal, drawn once: lognormal with that
    median.  Each class of ``devices`` has its own speed and spread.  With a jitter c, the time of every single update
    is multiplied by exp(s z - s²/2), with a new z for each update and s² = ln(1 + c²): lognormal with mean 1 and
    standard deviation c.

    A ``warm_up`` w of a user comes before its first training (compilation, caches, loading of data): that training
    takes w + samples / speed.  A training that is abandoned within the warm-up leaves the rest of it to the next one.
    Nothing of it is repeated after an outage: a user that is disconnected still trains, and its program goes on.  A
    battery that switches a user off ends its program, so the next training has the whole warm-up again.  Neither the
    jitter nor the frequency of an allocation changes it.
    """

    speed: (
        Annotated[tuple[Annotated[float, Field(gt=0)], ...], BeforeValidator(as_tuple), Field(min_length=1)] | None
    ) = None
    """Training samples per second: one number for all users (with a spread, the median), or a list, one for each."""
    frequency: (
        Annotated[tuple[Annotated[ClockRate, Field(gt=0)], ...], BeforeValidator(as_tuple), Field(min_length=1)] | None
    ) = None
    """Instead of ``speed``: processor cycles per second; one number for all users (with a spread, the median), or a
    list, one for each."""
    cycles: (
        Annotated[tuple[Annotated[float, Field(gt=0)], ...], BeforeValidator(as_tuple), Field(min_length=1)] | None
    ) = None
    """Processor cycles for each training sample: one number for all users, or a list, one for each.  With ``speed`` or
    ``devices`` they state the frequency, speed · cycles."""
    spread: Annotated[float, Field(ge=0, le=10), NotWith("devices")] = 0.0
    """Standard deviation of the natural logarithm of the users' speeds; only with one speed for all."""
    devices: Annotated[Mapping[str, Device], Field(min_length=1)] | None = None
    """Instead of a speed for all: classes of devices by name, each with its ``share`` or ``users``, ``speed`` and
    ``spread``."""
    jitter: Annotated[float, Field(ge=0, le=100)] = 0.0
    """Coefficient of variation of the training time from update to update."""
    warm_up: (
        Annotated[tuple[Annotated[Seconds, Field(ge=0)], ...], BeforeValidator(as_tuple), Field(min_length=1)] | None
    ) = None
    """Time before the first training of a user, and before the first one after its battery has switched it off: one
    for all users, or a list, one for each."""
    samples: Annotated[float, Field(ge=0)] | None = None
    """Training samples of every user for one update, instead of those of the learners."""

    @model_validator(mode="after")
    def _one_source(self) -> Compute:
        check_one_of(self, "speed", "frequency", "devices")
        if self.frequency is not None and self.cycles is None:
            raise ValueError("frequency is given without cycles, the processor cycles of a sample; give both")
        lists = (self.speed, self.frequency, self.cycles, self.warm_up)
        lengths = {len(values) for values in lists if values is not None} - {1}
        if len(lengths) > 1:
            raise ValueError(
                f"lists of {' and '.join(map(str, sorted(lengths)))} values; give one for each user in all"
            )
        devices = (self.devices or {}).values()
        shares = [device.share for device in devices if device.share is not None]
        if shares and len(shares) < len(devices):
            raise ValueError("some devices have a share, others users; use the same key in all")
        if shares and abs(sum(shares) - 1.0) > 1e-9:
            raise ValueError(f"the shares of the devices sum to {sum(shares):g}; make them sum to 1")
        return self

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if self.speed is not None and len(self.speed) > 1:
            yield from no_effect(self, ["spread"], "with a list of speeds", "leave one of them out")
        if self.frequency is not None and len(self.frequency) > 1:
            yield from no_effect(self, ["spread"], "with a list of frequencies", "leave one of them out")
        by_user = {"speed": ("speeds", self.speed), "frequency": ("frequencies", self.frequency)}
        by_user["cycles"] = ("numbers of cycles", self.cycles)
        by_user["warm_up"] = ("times", self.warm_up)
        for key, (plural, values) in by_user.items():
            if values is not None and len(values) not in {1, facts.users}:
                remedy = f"give one number, or {facts.users} of them"
                yield Fault(key, f"{len(values)} {plural} for {facts.users} users", None, remedy)
        devices = self.devices or {}
        for name, device in devices.items():
            yield from facts.unknown_users(f"devices.{name}.users", device.listed)
        times_listed = Counter(user for device in devices.values() for user in device.listed)
        twice = [user for user, times in times_listed.items() if times > 1]
        if twice:
            yield Fault("devices", "these users are listed twice, but a user has one device", twice, "name each once")
        is_counted = bool(devices) and all(device.share is None for device in devices.values())
        total = sum(device.count for device in devices.values())
        if is_counted and total != facts.users:
            problem = f"{total} devices for {facts.users} users"
            yield Fault("devices", problem, None, "make their users sum to this number")
        if self.samples is None and not facts.trained:
            problem = "missing: without learners it is not known how much a user computes"
            yield Fault("samples", problem, None, "give the training samples of one update")

    @property
    def alike(self) -> bool:
        """True if all users certainly train for the same time."""
        devices = [*(self.devices or {}).values()]
        is_drawn = self.spread or self.jitter or any(device.spread for device in devices)
        speeds = {*self._medians, *(device.speed for device in devices)}
        warm_ups = {*(self.warm_up or (0.0,)), *(device.warm_up for device in devices if device.warm_up is not None)}
        return not is_drawn and len(speeds) == 1 and len(warm_ups) == 1 and self.samples is not None

    @property
    def _medians(self) -> tuple[float, ...]:
        """Median speed of all users, or of each; empty with devices."""
        if self.frequency is None:
            return self.speed or ()
        assert self.cycles is not None
        speeds = np.array(self.frequency) / np.array(self.cycles)
        return tuple(speeds.tolist())

    def work(self, samples: Floats) -> Floats:
        """Return the training samples of each user for one update: those given here, or the learners' *samples*."""
        if self.samples is None:
            return samples
        return np.full(len(samples), self.samples)

    def device(self, users: int, streams: Streams) -> Ints:
        """Return each user's class, by its place among `devices`; 0 without classes, ``[users]``."""
        if self.devices is None:
            return np.zeros(users, np.int64)
        devices = self.devices.values()
        draws = streams.field("device").uniform(np.arange(users))
        shares = [device.share for device in devices if device.share is not None]
        if shares:
            return np.searchsorted(np.cumsum(shares[:-1]), draws, side="right")
        # listed users
        classes = np.full(users, -1)
        for place, device in enumerate(devices):
            classes[[*device.listed]] = place
        # the others in random order, as many as each class has
        counts = [0 if device.listed else device.count for device in devices]
        free = np.flatnonzero(classes < 0)
        in_random_order = free[np.argsort(draws[free], kind="stable")]
        classes[in_random_order] = np.repeat(np.arange(len(devices)), counts)
        return classes

    def speeds(self, users: int, streams: Streams) -> Floats:
        """Return the training samples of each user in a second, ``[users]``."""
        if self.devices is None:
            median = np.array(self._medians)
            spread = np.array([self.spread])
        else:
            parameters = np.array([[device.speed, device.spread] for device in self.devices.values()])
            median, spread = parameters[self.device(users, streams)].T
        speed = np.broadcast_to(median, users)
        if spread.any():
            speed = speed * np.exp(spread * streams.field("speed").normal(np.arange(users)))
        return np.asarray(speed)

    def frequencies_hz(self, users: int, streams: Streams) -> Floats | None:
        """Return the processor cycles of each user in a second, ``[users]``; ``None`` if the cycles are not given."""
        if self.cycles is None:
            return None
        return np.asarray(self.speeds(users, streams) * np.array(self.cycles))

    def time_s(self, samples: Floats, streams: Streams) -> Floats:
        """Return the mean training time of each user for one update, given the learners' *samples*, ``[users]``."""
        return np.asarray(self.work(samples) / self.speeds(len(samples), streams))

    def warm_up_s(self, users: int, streams: Streams) -> Floats | None:
        """Return the time before the first training of each user, ``[users]``; ``None`` if no user has one."""
        warm_up_s = np.zeros(users)
        if self.warm_up is not None:
            warm_up_s[:] = self.warm_up
        if self.devices is not None:
            device_of = self.device(users, streams)
            for place, device in enumerate(self.devices.values()):
                if device.warm_up is not None:
                    warm_up_s[device_of == place] = device.warm_up
        if not warm_up_s.any():
            return None
        return warm_up_s

    def training_jitter(self, streams: Streams) -> TrainingJitter | None:
        """Return the factors of single updates; ``None`` without jitter."""
        if not self.jitter:
            return None
        field = streams.field("jitter")
        variance = log1p(self.jitter**2)  # s²
        return lambda users, index: np.exp(sqrt(variance) * field.normal(users, index) - variance / 2.0)

    def columns(self, users: int, streams: Streams) -> dict[str, NDArray[Any]]:
        """Return columns of the table of users: ``device`` of classes, ``speed``, and ``frequency_hz`` with cycles."""
        columns: dict[str, NDArray[Any]] = {}
        if self.devices is not None:
            names = np.array([*self.devices])
            columns["device"] = names[self.device(users, streams)]
        columns["speed"] = self.speeds(users, streams)
        frequency_hz = self.frequencies_hz(users, streams)
        if frequency_hz is not None:
            columns["frequency_hz"] = frequency_hz
        return columns

    def laws(self) -> tuple[Law, ...]:
        laws = []
        drawn = [device for device in (self.devices or {}).values() if device.share is not None]
        if drawn:
            laws.append(_speed_law(self, [(device.share or 0.0, device.speed, device.spread) for device in drawn]))
        elif len(self._medians) == 1:
            laws.append(_speed_law(self, [(1.0, self._medians[0], self.spread)]))
        if drawn:
            claim = StatisticClaim(
                "share",
                "share of the class",
                draw=lambda streams, size: np.eye(len(drawn))[self.device(size, streams)],
                means=[device.share or 0.0 for device in drawn],
                at=[*(self.devices or ())],
            )
            laws.append(Law("device", "drawn by the shares, for each user once", statistics=(claim,)))
        if self.jitter:
            laws.append(_jitter_law(self))
        return tuple(laws) or (Law.none("only the assignment of devices to users is drawn"),)


def _speed_law(compute: Compute, parts: list[tuple[float, float, float]]) -> Law:
    """Return the claim about speeds, from share, median and spread of each class."""
    from scipy.special import ndtr

    def cdf(x: Floats) -> Floats:
        """Σ share · Φ(ln(x / median) / spread)."""
        below = np.zeros(np.shape(x))
        for share, median, spread in parts:
            if spread:
                below += share * ndtr(np.log(np.asarray(x) / median) / spread)
            else:
                below += share * (np.asarray(x) >= median)
        return below

    mean = sum(share * median * exp(spread**2 / 2.0) for share, median, spread in parts)
    square = sum(share * median**2 * exp(2.0 * spread**2) for share, median, spread in parts)
    return Law(
        "speed in samples/s",
        "lognormal: speed · exp(spread · z); over classes, a mixture by their shares",
        draw=lambda streams, size: compute.speeds(size, streams),
        mean=mean,
        variance=square - mean**2,
        cdf=cdf,
    )


def _jitter_law(compute: Compute) -> Law:
    from scipy.stats import lognorm

    variance = log1p(compute.jitter**2)

    def draw(streams: Streams, size: int) -> Floats:
        jitter = compute.training_jitter(streams)
        assert jitter is not None
        return jitter(np.arange(size) // 100, np.arange(size) % 100)

    law = lognorm(sqrt(variance), scale=exp(-variance / 2.0))
    return Law(
        "time of an update over its mean",
        "lognormal of mean 1 and standard deviation jitter",
        draw=draw,
        mean=1.0,
        variance=expm1(variance),
        cdf=law.cdf,
    )
