"""Rates that drift, or change suddenly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from netfl.access._direct import DirectAccess, earliest, shuffled_users, uniform_rows
from netfl.access._rates import Rho, normalized_rates
from netfl.core.rates import ZipfChances, chances_of
from netfl.core.spec import ByForm, Spec
from netfl.errors import Fault
from netfl.streams import Streams
from netfl.types import AccessContext, Bools, Floats, Ints, Law, ScenarioFacts
from netfl.units import Probability

_BLOCK = 1 << 16
"""Values computed at a time."""


class RateKnot(Spec):
    """Rates or probabilities in one round."""

    round: Annotated[int, Field(ge=1, le=10**15)]
    """The round."""
    rho: Rho | None = None
    """The users' rates, as in `stationary`; random rates are drawn for each knot."""
    probability: (
        Annotated[Annotated[tuple[Probability, ...], Field(min_length=1)] | Probability | ZipfChances, ByForm()] | None
    ) = None
    """Probability that each user is available, in place of rates: one number for all, a list, or ``{zipf: s}``, as in
    `bernoulli`; 0 is allowed."""

    @property
    def users(self) -> int | None:
        """Number of users in a list; ``None`` if the knot fits any number."""
        if isinstance(self.probability, tuple):
            return len(self.probability)
        if self.probability is None and isinstance(self.rho, tuple):
            return len(self.rho)
        return None

    def values(self, users: int, streams: Streams) -> Floats:
        """Return the rate or the probability of each user, ``[users]``."""
        if self.rho is not None:
            return normalized_rates(self.rho, users, streams)
        return chances_of(self.probability or 0.0, users)


class RateSchedule:
    """Rates or probabilities of all users as functions of the round.

    Args:
        knots: the rounds of the knots, ascending.
        values: the values at the knots, ``[knots, users]``.
        shape: interpolation between two knots: ``linear``; ``smooth``, half a cosine; ``abrupt``, the earlier knot's
            values.
        period: number of rounds after which the knots repeat, with interpolation from the last knot to the first;
            ``None`` if they do not.
    """

    def __init__(self, knots: Ints, values: Floats, shape: str, period: int | None = None) -> None:
        self._knots = knots
        self._values = values
        self._shape = shape
        self._period = period
        after_last = knots[-1]
        if period is not None:
            after_last = knots[0] + period
        self._next_knots = np.append(knots[1:], after_last)

    def at(self, rounds: ArrayLike) -> Floats:
        """Return the values in *rounds*, ``[..., users]``: (1 - w) a + w b between two knots."""
        index = np.asarray(rounds)
        if self._period is not None:
            index = self._knots[0] + (index - self._knots[0]) % self._period
        knot = np.maximum(np.searchsorted(self._knots, index, side="right") - 1, 0)
        if self._shape == "abrupt":
            return np.asarray(self._values[knot])
        span = np.maximum(self._next_knots[knot] - self._knots[knot], 1)
        weight = np.clip((index - self._knots[knot]) / span, 0.0, 1.0)
        if self._shape == "smooth":
            weight = (1.0 - np.cos(np.pi * weight)) / 2.0
        weight = weight[..., None]
        if self._period is None:
            after = np.minimum(knot + 1, len(self._knots) - 1)
        else:
            after = (knot + 1) % len(self._knots)
        return np.asarray((1.0 - weight) * self._values[knot] + weight * self._values[after])

    def mean(self) -> Floats:
        """Return the average over a period, or over the rounds up to the last knot, ``[users]``.

        Over the n rounds from one knot to the next the weight of the next adds up to (n - 1) / 2, both for a line and
        for a cosine.
        """
        after = np.roll(self._values, -1, axis=0)
        lengths = (self._next_knots - self._knots).astype(float)
        if self._shape == "abrupt":
            next_weight = np.zeros_like(lengths)
        else:
            next_weight = np.maximum(lengths - 1.0, 0.0) / 2.0
        weight = lengths - next_weight
        if self._period is None:  # the rounds before the first knot, and that of the last
            weight[0] += self._knots[0] - 1.0
            weight[-1] += 1.0
        return np.asarray((weight @ self._values + next_weight @ after) / (weight + next_weight).sum())


class Drifting(DirectAccess):
    """Users are delivered by rates, or probabilities, that are stated at some rounds and change between them.

    With ``rho``, a few users are delivered in each round, drawn successively in proportion to the round's rates:
    ``P(user i is the first delivered in round r) = rho_i(r)``, as in `stationary`.  With ``probability``, each user is
    available with its own ``p_n(r)``, as in `bernoulli`.  Rounds are independent.

    Between two knots with values a and b, at the fraction x of the distance, the value is ``(1 - w) a + w b`` with
    ``w = x`` (``linear``), ``w = (1 - cos(pi x)) / 2`` (``smooth``, a sinusoid) or ``w = 0`` (``abrupt``: each knot
    holds until the next).  The first knot holds before it, and the last knot after it.  With `repeat`, the knots repeat
    after that many rounds, with interpolation from the last to the first.

    Example::

        kind: drifting
        knots:
          - {round: 1, rho: [0.7, 0.2, 0.1]}
          - {round: 200, rho: [0.1, 0.2, 0.7]}
    """

    knots: Annotated[tuple[RateKnot, ...], Field(min_length=2)]
    """Values by round: a list of ``{round, rho}`` or of ``{round, probability}``, in the order of rounds."""
    shape: Literal["linear", "smooth", "abrupt"] = "linear"
    """Interpolation between two knots."""
    repeat: Annotated[int, Field(ge=2, le=10**15)] | None = None
    """Number of rounds after which the knots repeat; by default never."""
    deliveries: Annotated[int, Field(ge=1)] | None = None
    """Number of users delivered in a round; by default 1 with rates, and all available users with probabilities."""

    @model_validator(mode="before")
    @classmethod
    def _default_first(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or value.get("deliveries") is not None:
            return value
        knots = value.get("knots")
        if isinstance(knots, list | tuple) and any(_has_rho(knot) for knot in knots):
            return {**value, "deliveries": 1}
        return value

    @property
    def has_absent_users(self) -> bool:
        return not self._has_rates

    def candidates(self, context: AccessContext, limit: int | None = None) -> Iterator[Ints]:
        """Yield users by rates, in a race of exponential clocks; or the available users in random order."""
        if not self._has_rates:
            return shuffled_users(self._availability(context), context)
        if limit == 1:  # faster than a race
            return self._single_users(context)
        return self._users_in_race(context, limit)

    def _availability(self, context: AccessContext) -> Iterator[Bools]:
        """Yield whether each user is available in each round."""
        coins = uniform_rows(context.streams.field("present"), np.arange(context.users), context.rounds)
        for draws, chances in zip(coins, self._rows(context), strict=True):
            yield draws < chances

    def _single_users(self, context: AccessContext) -> Iterator[Ints]:
        """Yield one user in each round, by inverting the distribution."""
        draws = context.streams.field("heard")
        for index, rho in self._blocks(context):
            yield from _sample(rho, draws.uniform(0, index))[:, None]

    def _users_in_race(self, context: AccessContext, limit: int | None) -> Iterator[Ints]:
        """Yield the users of each round by the times of their clocks, Exp(rho_i)."""
        clocks = uniform_rows(context.streams.field("heard"), np.arange(context.users), context.rounds)
        for draws, rho in zip(clocks, self._rows(context), strict=True):
            able = np.flatnonzero(rho)
            yield able[earliest(-np.log(draws[able]) / rho[able], limit)]

    def schedule(self, users: int, streams: Streams) -> RateSchedule:
        """Return the rates, or probabilities, as functions of the round."""
        rounds = np.array([knot.round for knot in self.knots])
        values = [knot.values(users, streams.at("knot", number)) for number, knot in enumerate(self.knots)]
        return RateSchedule(rounds, np.array(values), self.shape, self.repeat)

    def rates(self, users: int, streams: Streams) -> Floats | None:
        """Return the average over a period, or over the rounds up to the last knot."""
        if any(knot.users not in {None, users} for knot in self.knots):
            return None
        return self.schedule(users, streams).mean()

    def has_exact_rates(self, users: int) -> bool:
        if self._has_rates:
            is_exact = self.deliveries == 1
        else:
            is_exact = (self.deliveries or users) >= users
        return self.selects_all and is_exact and self.repeat is not None

    @property
    def candidate_process(self) -> str:
        if self.repeat is None:
            return "non-stationary"
        return "cyclic"

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from super().faults(facts)
        for number, knot in enumerate(self.knots):
            if knot.rho is None and knot.probability is None:
                yield Fault(f"knots.{number}", "neither rho nor probability", None, "give one of them")
            elif knot.rho is not None and knot.probability is not None:
                yield Fault(f"knots.{number}", "both rho and probability", None, "give one of them")
            elif (knot.rho is not None) != self._has_rates:
                problem = "rates in one knot, probabilities in another"
                yield Fault(f"knots.{number}", problem, None, "use one of them in all")
            if knot.users not in {None, facts.users}:
                key = f"knots.{number}.rho"
                if knot.rho is None:
                    key = f"knots.{number}.probability"
                yield Fault(key, f"{knot.users} values for {facts.users} users", None, "give one for each user")
        rounds = [knot.round for knot in self.knots]
        if rounds != sorted(set(rounds)):
            yield Fault("knots", "their rounds are not ascending", rounds, "put them in order, each round once")
        elif self.repeat is not None and self.repeat <= rounds[-1] - rounds[0]:
            problem = f"not longer than the time between the first and the last knot, {rounds[-1] - rounds[0]} rounds"
            yield Fault("repeat", problem, self.repeat, "make it longer: it includes the time back to the first knot")
        if self.repeat is None and rounds[0] >= facts.rounds:
            yield Fault("knots", f"nothing changes in the {facts.rounds} rounds", rounds, "begin earlier")

    def laws(self) -> tuple[Law, ...]:
        if any(knot.rho == "random_simplex" for knot in self.knots):
            return (Law.none("the rates are drawn; given the rates, the distribution is that of a list"),)
        users = next((knot.users for knot in self.knots if knot.users), 5)
        schedule = self.schedule(users, Streams(0))
        begin = self.knots[0].round
        end = self.knots[1].round
        user = int(np.abs(np.diff(schedule.at([begin, end]), axis=0)).argmax())  # the one that changes most
        return tuple(self._law(schedule, user, index) for index in sorted({begin, (begin + end) // 2, end}))

    def _law(self, schedule: RateSchedule, user: int, index: int) -> Law:
        values = schedule.at(index)
        share = float(values[user])

        def draw(streams: Streams, size: int) -> Floats:
            draws = streams.field("drawn").uniform(user, np.arange(size))
            if self._has_rates:
                return np.asarray(_sample(values[None], draws) == user, float)
            return np.asarray(draws < share, float)

        quantity = f"user {user} available in round {index}"
        statement = "Bernoulli(p_n(r))"
        if self._has_rates:
            quantity = f"user {user} delivered first in round {index}"
            statement = "Bernoulli(rho_i(r))"
        return Law(quantity, statement, draw, share, share * (1.0 - share))

    @property
    def _has_rates(self) -> bool:
        return self.knots[0].rho is not None

    def _blocks(self, context: AccessContext) -> Iterator[tuple[Ints, Floats]]:
        """Yield blocks of rounds, and the values of all users in them, ``[rounds, users]``."""
        schedule = self.schedule(context.users, context.streams)
        size = max(1, _BLOCK // context.users)
        for start in range(1, context.rounds + 1, size):
            index = np.arange(start, min(start + size, context.rounds + 1))
            yield index, schedule.at(index)

    def _rows(self, context: AccessContext) -> Iterator[Floats]:
        """Yield the values of all users, ``[users]``, in each round."""
        for _, values in self._blocks(context):
            yield from values


def _has_rho(knot: object) -> bool:
    """Return whether a knot, from YAML or in Python, has rates."""
    if isinstance(knot, Mapping):
        return knot.get("rho") is not None
    return isinstance(knot, RateKnot) and knot.rho is not None


def _sample(rho: Floats, draws: Floats) -> Ints:
    """Return one user for each uniform draw, in proportion to its row of *rho*, by inverting the distribution."""
    upper = np.cumsum(rho, axis=1)
    return np.asarray((upper / upper[:, -1:] <= draws[:, None]).sum(axis=1))
