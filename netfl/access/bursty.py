"""Users that stay, and stay away, for times of any distribution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from netfl.access._direct import IntermittentAccess, parse_number
from netfl.access._rates import LabelCorrelated
from netfl.errors import Fault
from netfl.network.outage._distributions import PositiveDistribution, UnitMeanDistribution
from netfl.network.rates import chances_of
from netfl.streams import RandomField, Streams
from netfl.types import Law, ScenarioFacts
from netfl.units import Seconds

_LAW_ROUND = 20
_MIN_STAY_ROUNDS = 1e-3


class DurationLaw(Protocol):
    """A distribution of durations, with a mean for each user."""

    def draw(self, field: RandomField, rows: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return draws keyed by (row, index)."""

    def residual(self, streams: Streams) -> NDArray[np.float64]:
        """Return the remaining part of each user's current sojourn, in a stationary process."""


@dataclass(frozen=True, slots=True)
class Geometric:
    """Whole numbers from 1 on."""

    mean: NDArray[np.float64]

    def draw(self, field: RandomField, rows: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return draws by inversion."""
        with np.errstate(divide="ignore"):  # with a mean of 1 the draw is always 1
            trials = np.log(field.uniform(rows, index)) / np.log1p(-1.0 / self.mean[rows])
        return np.maximum(np.ceil(trials), 1.0)

    def residual(self, streams: Streams) -> NDArray[np.float64]:
        """Return a uniform part of one unit, and the whole units that follow, which have no memory."""
        rows = np.arange(len(self.mean))
        return streams.field("part").uniform(rows) + self.draw(streams.field("rest"), rows, np.zeros_like(rows)) - 1.0


@dataclass(frozen=True, slots=True)
class ScaledDuration:
    """A distribution of mean 1, times each user's mean."""

    mean: NDArray[np.float64]
    unit: UnitMeanDistribution

    def draw(self, field: RandomField, rows: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return draws keyed by (row, index)."""
        return self.mean[rows] * self.unit.draw(field, rows, index)

    def residual(self, streams: Streams) -> NDArray[np.float64]:
        """Return residuals."""
        return self.mean * self.unit.residual(streams, len(self.mean))


class OnDuration(PositiveDistribution):
    """Distribution of a stay: one of those of the outage `renewal`, or geometric.

    Geometric: whole numbers n from 1 on, P(n) = (1 - 1/mean)^(n - 1) / mean.
    """

    law: Literal[  # type: ignore[assignment]
        "geometric", "exponential", "weibull", "lognormal", "gamma", "pareto", "uniform", "hyperexponential", "fixed"
    ]
    """Name of the distribution."""
    mean: Annotated[Seconds, Field(gt=0)]
    """The mean."""

    def scaled(self, mean: NDArray[np.float64]) -> DurationLaw:
        """Return the distribution with a mean for each user."""
        return Geometric(mean) if self.law == "geometric" else ScaledDuration(mean, self._unit)

    def moment(self, power: int) -> float:
        """Return E[X^power]; infinity if it does not exist or is unknown."""
        if self.law != "geometric":
            return PositiveDistribution.moment(self, power)
        p = 1.0 / self.mean
        known = (1.0, 1.0, 2.0 - p, 6.0 - 6.0 * p + p**2, (2.0 - p) * (12.0 - 12.0 * p + p**2))
        return known[power] / p**power if power < len(known) else inf

    def cdf(self, x: object) -> NDArray[np.float64]:
        """Return P(X ≤ x)."""
        if self.law != "geometric":
            return PositiveDistribution.cdf(self, np.asarray(x))
        return np.asarray(1.0 - (1.0 - 1.0 / self.mean) ** np.floor(np.maximum(np.asarray(x, float), 0.0)))


def _refuse_mean(value: object) -> object:
    if value is not None:
        remedy = "leave it out; make the mean stay or the probability another"
        raise PydanticCustomError("mean", "follows from the probability and the mean stay", {"remedy": remedy})
    return value


class OffDuration(OnDuration):
    """Distribution of the times away, whose mean follows from the probability."""

    mean: Annotated[None, BeforeValidator(_refuse_mean)] = None  # type: ignore[assignment]
    """Must not be given, as it follows."""


class Bursty(IntermittentAccess):
    """Each user stays for a while and stays away for a while, an alternating renewal process in stationarity.

    Stays have the law `stay`; the times away the law `away`, with the mean ``mean (1 / p_n - 1)`` that makes ``p_n =
    E[stay] / (E[stay] + E[away])`` the share of time that user n is available.  The process is stationary from time 0:
    a user is available with probability p_n, and the rest of its first sojourn X has the density
    ``P(X > x) / E[X]`` (D. R. Cox, "Renewal Theory", 1962, chapters 5 and 7).

    A user is available in a round if it is as the round closes.  A stay of length X therefore covers ``floor(X + U)``
    rounds with U uniform on (0, 1): X in the mean, and exactly X if all sojourns are whole numbers of rounds, as
    geometric ones are.  Geometric numbers of rounds are the chains of `markov`; heavy tails (pareto, lognormal, weibull
    with a shape below 1) make users silent for long.

    Example::

        kind: bursty
        probability: 0.3
        stay: {law: geometric, mean: 5}
        away: {law: pareto, shape: 2.5}
        unit: rounds
    """

    unit: Literal["s", "rounds"] = "s"
    """Unit of times: seconds, of which `round_length` make a round, or rounds."""
    stay: OnDuration
    """Duration of a stay: a law and its mean."""
    away: OffDuration | None = None
    """Duration of an absence: a law without a mean; by default the law of the stays."""

    @field_validator("stay", mode="before")
    @classmethod
    def _check_unit(cls, value: Any, info: ValidationInfo) -> Any:
        parse_number(value.get("mean") if isinstance(value, Mapping) else None, info)
        return value

    def availability(self, chances: NDArray[np.float64], rounds: int, streams: Streams) -> Iterator[NDArray[np.bool_]]:
        """Yield whether each user is available in each round."""
        stay, absence = self._durations(chances)
        users, field = np.arange(len(chances)), streams.field("sojourn")
        is_available = streams.field("start").uniform(users) < chances
        rest_of_stay, rest_away = stay.residual(streams.at("rest of stay")), absence.residual(streams.at("rest away"))
        until = np.where(is_available, rest_of_stay, rest_away)
        until[chances == 1.0] = np.inf
        sojourn = np.zeros(len(users), np.int64)
        for now in self._step * np.arange(1, rounds + 1):
            over = np.flatnonzero(until <= now)
            while over.size:
                is_available[over] ^= True
                sojourn[over] += 1
                for law, changed in ((stay, over[is_available[over]]), (absence, over[~is_available[over]])):
                    until[changed] += law.draw(field, changed, sojourn[changed])
                over = over[until[over] <= now]
            yield is_available.copy()

    def _durations(self, chances: NDArray[np.float64]) -> tuple[DurationLaw, DurationLaw]:
        """Return the laws of stays and of times away; the latter is arbitrary for users that are always available."""
        mean = np.full(len(chances), self.stay.mean)
        away = np.where(chances < 1.0, mean * (1.0 / chances - 1.0), mean)
        return self.stay.scaled(mean), (self.away or self.stay).scaled(away)

    @property
    def _step(self) -> float:
        """The length of a round, in `unit`."""
        return 1.0 if self.unit == "rounds" else self.round_length

    @property
    def candidate_process(self) -> str | None:
        """Markovian if the state is the only memory."""
        if set(self.stated_chances) == {1.0}:
            return "stationary"
        laws = {self.stay.law, (self.away or self.stay).law}
        is_chain = laws == {"geometric"} and float(self._step).is_integer()
        return "Markovian" if is_chain or laws == {"exponential"} else None

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield errors of the configuration."""
        yield from super().faults(facts)
        if self.stay.mean < _MIN_STAY_ROUNDS * self._step:
            problem = f"less than a thousandth of a round, {self._step:g} {self.unit}"
            yield Fault("stay.mean", problem, self.stay.mean, "make it longer, or take bernoulli")
        if self.stay.law == "geometric" and self.stay.mean < 1.0:
            yield Fault("stay.mean", "geometric times are at least 1", self.stay.mean, "make it 1 or more")
        if isinstance(self.probability, LabelCorrelated) or (self.away or self.stay).law != "geometric":
            return
        highest = self.stay.mean / (1.0 + self.stay.mean)  # at this probability absences have a mean of 1
        above = [p for p in dict.fromkeys(chances_of(self.probability, facts.users).tolist()) if highest < p < 1.0]
        if above:
            problem = f"users would be away for less than 1 {self.unit.rstrip('s') or 's'} in the mean"
            yield Fault("probability", problem, above, f"make it {highest:.6g} at most, or stays longer")

    def laws(self) -> tuple[Law, ...]:
        """Laws of availability, of stays, and of the rest of a stay, for users like the first."""
        p, mean = self.typical_chance, self.stay.mean

        def late(streams: Streams, size: int) -> NDArray[np.float64]:
            return np.asarray([*self.availability(np.full(size, p), _LAW_ROUND, streams)][-1], float)

        def stays(streams: Streams, size: int) -> NDArray[np.float64]:
            rows = np.arange(size)
            return self._durations(np.full(size, p))[0].draw(streams.field("sojourn"), rows, np.ones_like(rows))

        def rest(streams: Streams, size: int) -> NDArray[np.float64]:
            return self._durations(np.full(size, p))[0].residual(streams)

        second, third = self.stay.moment(2), self.stay.moment(3)
        laws = [
            Law(f"user there in round {_LAW_ROUND}", "Bernoulli(p): the process is stationary", late, p, p * (1 - p)),
            Law(
                f"length of a stay in {self.unit}",
                f"{self.stay.law}, all independent",
                stays,
                mean if self.stay.provable(1) else None,
                self.stay.variance if self.stay.provable(2) else None,
                None if self.stay.law == "fixed" else self.stay.cdf,
            ),
        ]
        if np.isfinite(third):
            statement = "the equilibrium residual: E[R] = E[X²] / 2 E[X] of the stay X"
            laws.append(Law(f"rest of a stay in {self.unit}", statement, rest, second / (2.0 * mean)))
        return tuple(laws)
