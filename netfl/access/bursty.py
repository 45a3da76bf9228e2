"""Users who come in bursts: they stay, and stay away, for times of any law."""

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

# How long users stay and stay away: laws whose mean may differ from user to user, and users who alternate by them.


Name = Literal[
    "geometric", "exponential", "weibull", "lognormal", "gamma", "pareto", "uniform", "hyperexponential", "fixed"
]


def _unsaid(value: object) -> object:
    """Nothing, and nothing else."""
    if value is not None:
        remedy = "leave it out; make the mean stay or the probability another"
        raise PydanticCustomError("mean", "follows from the probability and the mean stay", {"remedy": remedy})
    return value


class OnDuration(PositiveDistribution):
    """The law of a stay: one of those of the outage `renewal`, or geometric.

    Geometric: whole numbers n from 1 on, P(n) = (1 - 1/mean)^(n - 1) / mean.
    """

    law: Name  # type: ignore[assignment]
    """Which law."""
    mean: Annotated[Seconds, Field(gt=0)]
    """The mean."""

    def by(self, mean: NDArray[np.float64]) -> DurationLaw:
        """The law with a mean for each row."""
        return Geometric(mean) if self.law == "geometric" else ScaledDuration(mean, self._unit)

    def moment(self, power: int) -> float:
        """E[X^power]; infinity if there is none, or it is not known."""
        if self.law != "geometric":
            return PositiveDistribution.moment(self, power)
        p = 1.0 / self.mean
        known = (1.0, 1.0, 2.0 - p, 6.0 - 6.0 * p + p**2, (2.0 - p) * (12.0 - 12.0 * p + p**2))
        return known[power] / p**power if power < len(known) else inf

    def cdf(self, x: object) -> NDArray[np.float64]:
        """P(X ≤ x)."""
        if self.law != "geometric":
            return PositiveDistribution.cdf(self, np.asarray(x))
        return np.asarray(1.0 - (1.0 - 1.0 / self.mean) ** np.floor(np.maximum(np.asarray(x, float), 0.0)))


class OffDuration(OnDuration):
    """The law of the times away, whose mean follows from the probability."""

    mean: Annotated[None, BeforeValidator(_unsaid)] = None  # type: ignore[assignment]
    """Not to be given: it follows."""


class DurationLaw(Protocol):
    """A law of times, with a mean for each row."""

    def draw(self, field: RandomField, rows: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.float64]:
        """Draws keyed by (row, index)."""

    def residual(self, streams: Streams) -> NDArray[np.float64]:
        """What is left of the sojourn that each row is in, in a stationary process."""


@dataclass(frozen=True, slots=True)
class Geometric:
    """Whole numbers from 1 on."""

    mean: NDArray[np.float64]

    def draw(self, field: RandomField, rows: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.float64]:
        """By inversion."""
        with np.errstate(divide="ignore"):  # of mean 1, which is always 1
            trials = np.log(field.uniform(rows, index)) / np.log1p(-1.0 / self.mean[rows])
        return np.maximum(np.ceil(trials), 1.0)

    def residual(self, streams: Streams) -> NDArray[np.float64]:
        """An even part of one unit, and the whole ones that follow, which have no memory."""
        rows = np.arange(len(self.mean))
        return streams.field("part").uniform(rows) + self.draw(streams.field("rest"), rows, np.zeros_like(rows)) - 1.0


@dataclass(frozen=True, slots=True)
class ScaledDuration:
    """A law of mean 1 times each row's mean."""

    mean: NDArray[np.float64]
    unit: UnitMeanDistribution

    def draw(self, field: RandomField, rows: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.float64]:
        """Draws of mean 1, times the mean."""
        return self.mean[rows] * self.unit.draw(field, rows, index)

    def residual(self, streams: Streams) -> NDArray[np.float64]:
        """Residuals of mean 1, times the mean."""
        return self.mean * self.unit.residual(streams, len(self.mean))


def alternating_availability(
    stay: DurationLaw, absence: DurationLaw, chances: NDArray[np.float64], step: float, rounds: int, streams: Streams
) -> Iterator[NDArray[np.bool_]]:
    """Who is there, ``[users]``, at each of *rounds* times that are *step* apart, in a stationary process.

    Args:
        stay: how long users stay.
        absence: how long they stay away; its means go with those of *stay* and the *chances*.
        chances: the share of time that each is there; with 1, always.
        step: the time between two looks; the first is a step after the start.
        rounds: how many looks.
        streams: where draws come from.
    """
    users, field = np.arange(len(chances)), streams.field("sojourn")
    there = streams.field("start").uniform(users) < chances
    until = np.where(there, stay.residual(streams.at("rest of stay")), absence.residual(streams.at("rest away")))
    until[chances == 1.0] = np.inf
    index = np.zeros(len(users), np.int64)
    for now in step * np.arange(1, rounds + 1):
        over = np.flatnonzero(until <= now)
        while over.size:
            there[over] ^= True
            index[over] += 1
            for law, who in ((stay, over[there[over]]), (absence, over[~there[over]])):
                until[who] += law.draw(field, who, index[who])
            over = over[until[over] <= now]
        yield there.copy()


_LATE = 20
"""The round that the laws look at."""
_SHORTEST = 1e-3
"""Rounds that a stay lasts at least in the mean."""


class Bursty(IntermittentAccess):
    """Each user stays for a while and stays away for a while, an alternating renewal process in stationarity.

    Stays have the law `stay`; the times away the law `away`, with the mean ``mean (1 / p_n - 1)`` that makes ``p_n =
    E[stay] / (E[stay] + E[away])`` the share of time that user n is there.  At time 0 the process is as if it had run
    for ever: a user is there with probability p_n, and what is left of its first sojourn X has the density
    ``P(X > x) / E[X]`` (D. R. Cox, "Renewal Theory", 1962, chapters 5 and 7).

    A user is there in a round if it is there as the round closes.  A stay of length X therefore covers ``floor(X + U)``
    rounds with U uniform on (0, 1): X in the mean, and exactly X if all sojourns are whole numbers of rounds, as
    geometric ones are.  Geometric numbers of rounds are the chains of `markov`; heavy tails (pareto, lognormal, weibull
    with a shape below 1) make users fall silent for long.

    Example::

        kind: bursty
        probability: 0.3
        stay: {law: geometric, mean: 5}
        away: {law: pareto, shape: 2.5}
        unit: rounds
    """

    unit: Literal["s", "rounds"] = "s"
    """What times are counted in: seconds on the clock, of which `round_length` make a round, or rounds."""
    stay: OnDuration
    """How long a user stays: a law and its mean."""
    away: OffDuration | None = None
    """How long it then stays away: a law without a mean; by default the law of the stays."""

    @field_validator("stay", mode="before")
    @classmethod
    def _no_seconds(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse a quantity in seconds where rounds are counted."""
        parse_number(value.get("mean") if isinstance(value, Mapping) else None, info)
        return value

    def present(self, chances: NDArray[np.float64], rounds: int, streams: Streams) -> Iterator[NDArray[np.bool_]]:
        """Whose stay is on as each round closes."""
        return alternating_availability(*self._laws(chances), chances, self._step, rounds, streams)

    @property
    def coming(self) -> str | None:
        """Markovian where the state is all the memory that there is."""
        if self.always:
            return "stationary"
        laws = {self.stay.law, (self.away or self.stay).law}
        whole = laws == {"geometric"} and float(self._step).is_integer()
        return "Markovian" if whole or laws == {"exponential"} else None

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Stays that are over before a round is; geometric times of less than one unit in the mean."""
        yield from IntermittentAccess.faults(self, facts)
        if self.stay.mean < _SHORTEST * self._step:
            problem = f"less than a thousandth of a round, {self._step:g} {self.unit}"
            yield Fault("stay.mean", problem, self.stay.mean, "make it longer, or take bernoulli")
        if self.stay.law == "geometric" and self.stay.mean < 1.0:
            yield Fault("stay.mean", "geometric times are at least 1", self.stay.mean, "make it 1 or more")
        if isinstance(self.probability, LabelCorrelated) or (self.away or self.stay).law != "geometric":
            return
        most = self.stay.mean / (1.0 + self.stay.mean)
        above = [p for p in dict.fromkeys(chances_of(self.probability, facts.users).tolist()) if most < p < 1.0]
        if above:
            problem = f"users would be away for less than 1 {self.unit.rstrip('s') or 's'} in the mean"
            yield Fault("probability", problem, above, f"make it {most:.6g} at most, or stays longer")

    def laws(self) -> tuple[Law, ...]:
        """For users like the first: how often there, how long they stay, and for how long on from any instant."""
        p, mean = self.typical, self.stay.mean
        told = f"{self.stay.law}, all independent"

        def late(streams: Streams, size: int) -> NDArray[np.float64]:
            return np.asarray([*self.present(np.full(size, p), _LATE, streams)][-1], float)

        def stays(streams: Streams, size: int) -> NDArray[np.float64]:
            rows = np.arange(size)
            return self._laws(np.full(size, p))[0].draw(streams.field("sojourn"), rows, np.ones_like(rows))

        def rest(streams: Streams, size: int) -> NDArray[np.float64]:
            return self._laws(np.full(size, p))[0].residual(streams)

        second, third = self.stay.moment(2), self.stay.moment(3)
        laws = [
            Law(f"user there in round {_LATE}", "Bernoulli(p): the process is stationary", late, p, p * (1 - p)),
            Law(
                f"length of a stay in {self.unit}",
                told,
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

    def _laws(self, chances: NDArray[np.float64]) -> tuple[DurationLaw, DurationLaw]:
        """The laws of stays and of times away, with each user's mean; any for those who are always there."""
        mean = np.full(len(chances), self.stay.mean)
        away = np.where(chances < 1.0, mean * (1.0 / chances - 1.0), mean)
        return self.stay.by(mean), (self.away or self.stay).by(away)

    @property
    def _step(self) -> float:
        """The length of a round."""
        return 1.0 if self.unit == "rounds" else self.round_length
