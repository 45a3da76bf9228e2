"""Users that stay, and stay away, for times of any distribution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from netfl.access._direct import IntermittentAccess, parse_number
from netfl.access._rates import LabelCorrelated
from netfl.core.rates import chances_of
from netfl.core.spec_errors import invalid
from netfl.errors import Fault
from netfl.network.outage._distributions import PositiveDistribution, UnitMeanDistribution
from netfl.streams import RandomField, Streams
from netfl.types import Bools, Floats, Ints, Law, ScenarioFacts
from netfl.units import Seconds

_MIN_STAY_ROUNDS = 1e-3
"""Shortest mean stay, so that a round has no more than about a thousand changes of a user."""


@dataclass(frozen=True, slots=True)
class Geometric:
    """Durations that are whole numbers from 1 on, with a mean for each user."""

    mean: Floats

    def draw(self, field: RandomField, rows: Ints, index: Ints) -> Floats:
        """Return draws keyed by (row, index), by inversion."""
        with np.errstate(divide="ignore"):  # with a mean of 1 the draw is always 1
            trials = np.log(field.uniform(rows, index)) / np.log1p(-1.0 / self.mean[rows])
        return np.maximum(np.ceil(trials), 1.0)

    def residual(self, streams: Streams) -> Floats:
        """Return the rest of each user's current sojourn, in a stationary process: a part of a unit, and whole ones."""
        rows = np.arange(len(self.mean))
        part = streams.field("part").uniform(rows)
        return part + self.draw(streams.field("rest"), rows, np.zeros_like(rows)) - 1.0


@dataclass(frozen=True, slots=True)
class ScaledDuration:
    """Durations of a distribution of mean 1, times each user's mean; methods as those of `Geometric`."""

    mean: Floats
    unit: UnitMeanDistribution

    def draw(self, field: RandomField, rows: Ints, index: Ints) -> Floats:
        """Return one duration for each row and index."""
        return self.mean[rows] * self.unit.draw(field, rows, index)

    def residual(self, streams: Streams) -> Floats:
        """Return the rest of the sojourn at time 0 of each user."""
        return self.mean * self.unit.residual(streams, len(self.mean))


DurationLaw = Geometric | ScaledDuration


class OnDuration(PositiveDistribution):
    """Distribution of a stay: one of those of the outage `renewal`, or geometric.

    Geometric: whole numbers n from 1 on, P(n) = (1 - 1/mean)^(n - 1) / mean.
    """

    distribution: Literal[  # type: ignore[assignment]
        "geometric", "exponential", "weibull", "lognormal", "gamma", "pareto", "uniform", "hyperexponential", "fixed"
    ]
    """Name of the distribution."""
    mean: Annotated[Seconds, Field(gt=0)]
    """The mean."""

    def scaled(self, mean: Floats) -> DurationLaw:
        """Return the distribution with a mean for each user."""
        if self.distribution == "geometric":
            return Geometric(mean)
        return ScaledDuration(mean, self._unit)

    def moment(self, power: int) -> float:
        if self.distribution != "geometric":
            return PositiveDistribution.moment(self, power)
        p = 1.0 / self.mean
        numerators = (1.0, 1.0, 2.0 - p, 6.0 - 6.0 * p + p**2, (2.0 - p) * (12.0 - 12.0 * p + p**2))
        if power >= len(numerators):  # no claim needs them
            return inf
        return numerators[power] / p**power

    def cdf(self, x: object) -> Floats:
        if self.distribution != "geometric":
            return PositiveDistribution.cdf(self, np.asarray(x))
        return np.asarray(1.0 - (1.0 - 1.0 / self.mean) ** np.floor(np.maximum(np.asarray(x, float), 0.0)))


def _refuse_mean(value: object) -> object:
    if value is not None:
        remedy = "leave it out, or change the mean stay or the probability"
        raise invalid("is determined by the probability and the mean stay", remedy)
    return value


class OffDuration(OnDuration):
    """Distribution of the times away, whose mean follows from the probability."""

    mean: Annotated[None, BeforeValidator(_refuse_mean)] = None  # type: ignore[assignment]
    """Must not be given, as it follows."""


class Bursty(IntermittentAccess):
    """Each user stays for a while and stays away for a while, an alternating renewal process in stationarity.

    Stays have the distribution `presence`; the times away have `absence`, with the mean ``mean (1 / p_n - 1)`` that
    makes ``p_n = E[stay] / (E[stay] + E[away])`` the share of time that user n is available.  The process is stationary
    from time 0: a user is available with probability p_n, and the rest of its first sojourn X has the density
    ``P(X > x) / E[X]`` (D. R. Cox, "Renewal Theory", 1962, chapters 5 and 7).

    A user is available in a round if it is as the round closes.  A stay of length X therefore covers ``floor(X + U)``
    rounds with U uniform on (0, 1): X in the mean, and exactly X if all sojourns are whole numbers of rounds, as
    geometric ones are.  Geometric numbers of rounds are the chains of `markov`; heavy tails (pareto, lognormal, weibull
    with a shape below 1) make users silent for long.

    Example::

        kind: bursty
        probability: 0.3
        presence: {distribution: geometric, mean: 5}
        absence: {distribution: pareto, shape: 2.5}
        unit: rounds
    """

    unit: Literal["s", "rounds"] = "s"
    """Unit of times: seconds, of which `round_length` make a round, or rounds."""
    presence: OnDuration
    """Duration of a stay: a distribution and its mean."""
    absence: OffDuration | None = None
    """Duration of an absence: a distribution without a mean; by default that of the stays."""

    @field_validator("presence", mode="before")
    @classmethod
    def _check_unit(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, Mapping):
            parse_number(value.get("mean"), info)
        return value

    def availability(self, chances: Floats, rounds: int, streams: Streams) -> Iterator[Bools]:
        stay, absence = self._durations(chances)
        users = np.arange(len(chances))
        # the sojourns under way at time 0
        is_available = streams.field("start").uniform(users) < chances
        residual_stay = stay.residual(streams.at("rest of stay"))
        residual_absence = absence.residual(streams.at("rest away"))
        until = np.where(is_available, residual_stay, residual_absence)
        until[chances == 1.0] = np.inf
        field = streams.field("sojourn")
        sojourn = np.zeros(len(users), np.int64)
        for now in self._step * np.arange(1, rounds + 1):
            changing = np.flatnonzero(until <= now)
            while changing.size:  # as long as a sojourn ends before the round does
                is_available[changing] ^= True
                sojourn[changing] += 1
                coming = changing[is_available[changing]]
                until[coming] += stay.draw(field, coming, sojourn[coming])
                leaving = changing[~is_available[changing]]
                until[leaving] += absence.draw(field, leaving, sojourn[leaving])
                changing = changing[until[changing] <= now]
            yield is_available.copy()

    def _durations(self, chances: Floats) -> tuple[DurationLaw, DurationLaw]:
        """Return the distributions of stays and of times away; the latter is arbitrary for always available users."""
        mean_stay = np.full(len(chances), self.presence.mean)
        mean_absence = np.where(chances < 1.0, mean_stay * (1.0 / chances - 1.0), mean_stay)
        return self.presence.scaled(mean_stay), (self.absence or self.presence).scaled(mean_absence)

    @property
    def _step(self) -> float:
        """The length of a round, in `unit`."""
        if self.unit == "rounds":
            return 1.0
        return self.round_length

    @property
    def candidate_process(self) -> str | None:
        """Markovian if the state is the only memory."""
        if set(self.stated_chances) == {1.0}:
            return "stationary"
        distributions = {self.presence.distribution, (self.absence or self.presence).distribution}
        if distributions == {"exponential"}:
            return "Markovian"
        if distributions == {"geometric"} and float(self._step).is_integer():  # a round is a number of steps
            return "Markovian"
        return None

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from super().faults(facts)
        if self.presence.mean < _MIN_STAY_ROUNDS * self._step:
            problem = f"less than a thousandth of a round, {self._step:g} {self.unit}"
            yield Fault("presence.mean", problem, self.presence.mean, "make it longer, or use bernoulli")
        if self.presence.distribution == "geometric" and self.presence.mean < 1.0:
            yield Fault("presence.mean", "geometric times are at least 1", self.presence.mean, "make it 1 or more")
        if isinstance(self.probability, LabelCorrelated) or (self.absence or self.presence).distribution != "geometric":
            return
        highest = self.presence.mean / (1.0 + self.presence.mean)  # at this probability absences have a mean of 1
        above = [p for p in dict.fromkeys(chances_of(self.probability, facts.users).tolist()) if highest < p < 1.0]
        if above:
            problem = f"users would be away for less than 1 {self.unit.rstrip('s') or 's'} on average"
            yield Fault("probability", problem, above, f"make it at most {highest:.6g}, or make stays longer")

    def laws(self) -> tuple[Law, ...]:
        p = self.typical_chance
        presence = self.presence

        def stays(streams: Streams, size: int) -> Floats:
            rows = np.arange(size)
            stay, _ = self._durations(np.full(size, p))
            return stay.draw(streams.field("sojourn"), rows, np.ones_like(rows))

        def residual_stays(streams: Streams, size: int) -> Floats:
            stay, _ = self._durations(np.full(size, p))
            return stay.residual(streams)

        laws = [
            self.availability_law(20, "Bernoulli(p): the process is stationary"),
            Law(
                f"length of a stay in {self.unit}",
                f"{presence.distribution}, all independent",
                stays,
                presence.mean if presence.provable(1) else None,
                presence.variance if presence.provable(2) else None,
                None if presence.distribution == "fixed" else presence.cdf,
            ),
        ]
        if np.isfinite(presence.moment(3)):  # the residual has a variance
            statement = "the equilibrium residual: E[R] = E[X²] / 2 E[X] of the stay X"
            mean = presence.moment(2) / (2.0 * presence.mean)
            laws.append(Law(f"remaining stay in {self.unit}", statement, residual_stays, mean))
        return tuple(laws)
