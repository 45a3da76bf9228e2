"""Users who come in bursts: they stay, and stay away, for times of any law."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationInfo, field_validator

from netfl.access._intermittent import Intermittent
from netfl.access._rates import LabelCorrelated
from netfl.access._sojourns import Absence, Lengths, Stay, alternating
from netfl.access._unit import number
from netfl.errors import Fault
from netfl.rates import chances_of
from netfl.streams import Streams
from netfl.types import Facts, Law

_LATE = 20
"""The round that the laws look at."""
_SHORTEST = 1e-3
"""Rounds that a stay lasts at least in the mean."""


class Bursty(Intermittent):
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
    stay: Stay
    """How long a user stays: a law and its mean."""
    away: Absence | None = None
    """How long it then stays away: a law without a mean; by default the law of the stays."""

    @field_validator("stay", mode="before")
    @classmethod
    def _no_seconds(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse a quantity in seconds where rounds are counted."""
        number(value.get("mean") if isinstance(value, Mapping) else None, info)
        return value

    def present(self, chances: NDArray[np.float64], rounds: int, streams: Streams) -> Iterator[NDArray[np.bool_]]:
        """Whose stay is on as each round closes."""
        return alternating(*self._laws(chances), chances, self._step, rounds, streams)

    @property
    def coming(self) -> str | None:
        """Markovian where the state is all the memory that there is."""
        if self.always:
            return "stationary"
        laws = {self.stay.law, (self.away or self.stay).law}
        whole = laws == {"geometric"} and float(self._step).is_integer()
        return "Markovian" if whole or laws == {"exponential"} else None

    def faults(self, facts: Facts) -> Iterator[Fault]:
        """Stays that are over before a round is; geometric times of less than one unit in the mean."""
        yield from Intermittent.faults(self, facts)
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

    def _laws(self, chances: NDArray[np.float64]) -> tuple[Lengths, Lengths]:
        """The laws of stays and of times away, with each user's mean; any for those who are always there."""
        mean = np.full(len(chances), self.stay.mean)
        away = np.where(chances < 1.0, mean * (1.0 / chances - 1.0), mean)
        return self.stay.by(mean), (self.away or self.stay).by(away)

    @property
    def _step(self) -> float:
        """The length of a round."""
        return 1.0 if self.unit == "rounds" else self.round_length
