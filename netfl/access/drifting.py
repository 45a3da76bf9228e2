"""A RAM that does not stay what it is: rates that drift, or change all of a sudden."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BeforeValidator, Field, TypeAdapter, model_validator
from pydantic_core import PydanticCustomError

from netfl.access._direct import DirectAccess, earliest, shuffled_users, uniform_rows
from netfl.access._rates import normalized_rates, read_rho
from netfl.errors import Fault
from netfl.network.rates import Zipf, ZipfChances, chances_of
from netfl.registry import Spec
from netfl.streams import Streams
from netfl.types import AccessContext, Law, ScenarioFacts
from netfl.units import Probability

# Rates that change from round to round: what is stated at some rounds, and what lies between them.


_LIST: TypeAdapter[tuple[float, ...]] = TypeAdapter(Annotated[tuple[Probability, ...], Field(min_length=1)])
_ONE: TypeAdapter[float] = TypeAdapter(Probability)


def _rho(value: Any) -> object:
    """As elsewhere, or none."""
    return None if value is None else read_rho(value)


def _probability(value: Any) -> object:
    """One for all, or a list, or none; 0 is one."""
    if value is None or isinstance(value, ZipfChances):
        return value
    if isinstance(value, Mapping):
        return ZipfChances.model_validate(value)
    if isinstance(value, bool):
        raise PydanticCustomError("probability", "no probability", {"remedy": "write a number, a list, or {zipf: 1.0}"})
    listed = isinstance(value, list | tuple)
    return (_LIST if listed else _ONE).validate_python(value)


class RateKnot(Spec):
    """What holds in one round."""

    round: Annotated[int, Field(ge=1, le=10**15)]
    """The round."""
    rho: Annotated[tuple[float, ...] | Zipf | Literal["random_simplex"] | None, BeforeValidator(_rho)] = None
    """The users' rates, as of `stationary`; drawn anew for each knot if they are random."""
    probability: Annotated[tuple[float, ...] | float | ZipfChances | None, BeforeValidator(_probability)] = None
    """How likely each user is to be there, in place of rates: one number for all, a list, or ``{zipf: s}``, as of
    `bernoulli`; 0 is allowed."""

    @property
    def listed(self) -> int | None:
        """For how many users it has figures; ``None`` for any number."""
        figures = self.rho if self.probability is None else self.probability
        return len(figures) if isinstance(figures, tuple) else None

    def figures(self, users: int, streams: Streams) -> NDArray[np.float64]:
        """The rate, or the probability, of each user, ``[users]``."""
        if self.rho is not None:
            return normalized_rates(self.rho, users, streams)
        return chances_of(0.0 if self.probability is None else self.probability, users)


class RateSchedule:
    """Figures of all users as functions of the round.

    Args:
        at: the rounds in which figures are stated, rising.
        stated: the figures, ``[knots, users]``.
        shape: what lies between two knots: ``linear``; ``smooth``, half a cosine; ``abrupt``, what the first one says.
        period: after how many rounds all begins anew, from the last knot back to the first; ``None`` if never.
    """

    def __init__(
        self, at: NDArray[np.int64], stated: NDArray[np.float64], shape: str, period: int | None = None
    ) -> None:
        self._at, self._stated, self._shape, self._period = at, stated, shape, period
        self._next_at = np.append(at[1:], at[-1] if period is None else at[0] + period)

    def of(self, index: ArrayLike) -> NDArray[np.float64]:
        """The figures in the rounds *index*, ``[..., users]``."""
        at = np.asarray(index)
        if self._period is not None:
            at = self._at[0] + (at - self._at[0]) % self._period
        knot = np.maximum(np.searchsorted(self._at, at, side="right") - 1, 0)
        span = np.maximum(self._next_at[knot] - self._at[knot], 1)
        part = np.clip((at - self._at[knot]) / span, 0.0, 1.0)
        if self._shape == "abrupt":
            return np.asarray(self._stated[knot])
        if self._shape == "smooth":
            part = (1.0 - np.cos(np.pi * part)) / 2.0
        after = (knot + 1) % len(self._at) if self._period is not None else np.minimum(knot + 1, len(self._at) - 1)
        weight = part[..., None]
        return np.asarray((1.0 - weight) * self._stated[knot] + weight * self._stated[after])

    def mean(self) -> NDArray[np.float64]:
        """The average over time, ``[users]``: over a period, or the rounds up to the last knot.

        Over the n rounds from a knot to the next w adds up to (n - 1) / 2, whether it rises as a line or as a cosine.
        """
        after = np.roll(self._stated, -1, axis=0)
        lengths = (self._next_at - self._at).astype(float)
        towards = np.zeros_like(lengths) if self._shape == "abrupt" else np.maximum(lengths - 1.0, 0.0) / 2.0
        stays = lengths - towards
        if self._period is None:
            stays += np.eye(len(lengths))[0] * (self._at[0] - 1.0) + np.eye(len(lengths))[-1]
        return np.asarray((stays @ self._stated + towards @ after) / (stays + towards).sum())


_BLOCK = 1 << 16
"""Figures that are worked out at a time."""


class Drifting(DirectAccess):
    """Who is heard follows rates, or probabilities, that are stated at some rounds and change between them.

    With ``rho``, a few users are heard in each round, drawn one after another in proportion to the round's rates:
    ``P(user i is the first heard in round r) = rho_i(r)``, as in `stationary`.  With ``probability``, each user is
    there with its own ``p_n(r)``, as in `bernoulli`.  Rounds are independent.

    Between two knots, a part x of the way from the one to the other, the figures are ``(1 - w) a + w b`` with ``w = x``
    (``linear``), ``w = (1 - cos(pi x)) / 2`` (``smooth``, a sinusoid) or ``w = 0`` (``abrupt``: each knot holds until
    the next).  Before the first knot its figures hold, after the last the last's; or all begins anew after `repeat`
    rounds, and from the last knot the way leads back to the first.

    Example::

        kind: drifting
        knots:
          - {round: 1, rho: [0.7, 0.2, 0.1]}
          - {round: 200, rho: [0.1, 0.2, 0.7]}
    """

    knots: Annotated[tuple[RateKnot, ...], Field(min_length=2)]
    """What holds in which round: a list of ``{round, rho}`` or of ``{round, probability}``, in the order of rounds."""
    shape: Literal["linear", "smooth", "abrupt"] = "linear"
    """How it changes from one to the next."""
    repeat: Annotated[int, Field(ge=2, le=10**15)] | None = None
    """After how many rounds all begins anew; by default never."""
    first: Annotated[int, Field(ge=1)] | None = None
    """How many users are heard in a round; by default 1 with rates, and all who are there with probabilities."""

    @model_validator(mode="before")
    @classmethod
    def _one_by_default(cls, value: Any) -> Any:
        """With rates one user is heard, if nothing else is said."""
        knots = value.get("knots") if isinstance(value, Mapping) and value.get("first") is None else None
        if isinstance(knots, list | tuple) and any(_has_rho(knot) for knot in knots):
            return {**value, "first": 1}
        return value

    def heard(self, setting: AccessContext, most: int | None = None) -> Iterator[NDArray[np.int64]]:
        """By rates, one user or several in a race of exponential clocks; or those who are there, in random order."""
        everybody, blocks = np.arange(setting.users), self._blocks(setting)
        field = setting.streams.field("heard" if self._by_rates else "present")
        if self._by_rates and most == 1:
            for index, rho in blocks:
                yield from _picked(rho, field.uniform(0, index))[:, None]
            return
        draws = uniform_rows(field, everybody, setting.rounds)
        told = zip(draws, (figures for _, block in blocks for figures in block), strict=True)
        if not self._by_rates:
            yield from shuffled_users((coins < chances for coins, chances in told), setting)
            return
        for clocks, rho in told:
            able = np.flatnonzero(rho)
            yield able[earliest(-np.log(clocks[able]) / rho[able], most)]

    def course(self, users: int, streams: Streams) -> RateSchedule:
        """The rates, or probabilities, as functions of the round."""
        stated = [knot.figures(users, streams.at("knot", number)) for number, knot in enumerate(self.knots)]
        return RateSchedule(np.array([knot.round for knot in self.knots]), np.array(stated), self.shape, self.repeat)

    def rates(self, users: int, streams: Streams) -> NDArray[np.float64] | None:
        """The figures' average over time: over a period or, if nothing repeats, over the rounds up to the last knot."""
        if any(knot.listed not in {None, users} for knot in self.knots):
            return None
        return self.course(users, streams).mean()

    def heard_rates(
        self, users: int, streams: Streams, label_mix: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64] | None:
        """The average over a period, where one user is heard by rates, or all by probabilities, and no selection."""
        whole = self.first == 1 if self._by_rates else (self.first or users) >= users
        return self.rates(users, streams) if self._everybody and whole and self.repeat is not None else None

    @property
    def coming(self) -> str:
        """Cyclic if it repeats."""
        return "non-stationary" if self.repeat is None else "cyclic"

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Knots that say nothing, or too much, or are not for so many users; what begins after the end."""
        yield from DirectAccess.faults(self, facts)
        for number, knot in enumerate(self.knots):
            if (knot.rho is None) == (knot.probability is None):
                problem = "neither rho nor probability" if knot.rho is None else "both rho and probability"
                yield Fault(f"knots.{number}", problem, None, "give one of them")
            elif (knot.rho is None) == self._by_rates:
                yield Fault(f"knots.{number}", "rates in one knot, probabilities in another", None, "take one of them")
            if knot.listed not in {None, facts.users}:
                key = f"knots.{number}.{'probability' if knot.rho is None else 'rho'}"
                yield Fault(key, f"{knot.listed} figures for {facts.users} users", None, "give one for each user")
        rounds = [knot.round for knot in self.knots]
        if rounds != sorted(set(rounds)):
            yield Fault("knots", "their rounds do not rise", rounds, "put them in order, each round once")
        elif self.repeat is not None and self.repeat <= rounds[-1] - rounds[0]:
            problem = f"no longer than the knots, which are {rounds[-1] - rounds[0]} rounds apart"
            yield Fault("repeat", problem, self.repeat, "make it longer: it counts the way back to the first knot, too")
        if self.repeat is None and rounds[0] >= facts.rounds:
            yield Fault("knots", f"nothing changes in the {facts.rounds} rounds", rounds, "begin earlier")

    def laws(self) -> tuple[Law, ...]:
        """How often the user whose figure changes most is heard first, or there: at two knots, and midway."""
        if any(knot.rho == "random_simplex" for knot in self.knots):
            return (Law.none("the rates are themselves drawn; given them, the law is that of lists"),)
        users = next((knot.listed for knot in self.knots if knot.listed), 5)
        course = self.course(users, Streams(0))
        begin, end = self.knots[0].round, self.knots[1].round
        user = int(np.abs(np.diff(course.of([begin, end]), axis=0)).argmax())
        return tuple(self._law(course, user, index) for index in sorted({begin, (begin + end) // 2, end}))

    def _law(self, course: RateSchedule, user: int, index: int) -> Law:
        """What is so of *user* in round *index*."""
        figures = course.of(index)
        share = float(figures[user])

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            draws = streams.field("drawn").uniform(user, np.arange(size))
            drawn = _picked(figures[None], draws) == user if self._by_rates else draws < share
            return drawn.astype(float)

        what, law = ("heard first", "rho_i(r)") if self._by_rates else ("there", "p_n(r)")
        return Law(f"user {user} {what} in round {index}", f"Bernoulli({law})", draw, share, share * (1.0 - share))

    @property
    def _by_rates(self) -> bool:
        """Whether rates are stated, not probabilities."""
        return self.knots[0].rho is not None

    def _blocks(self, setting: AccessContext) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Rounds, and the figures of all users in each of them, ``[rounds, users]``, as many as fit a block."""
        course, size = self.course(setting.users, setting.streams), max(1, _BLOCK // setting.users)
        for start in range(1, setting.rounds + 1, size):
            index = np.arange(start, min(start + size, setting.rounds + 1))
            yield index, course.of(index)


def _has_rho(knot: object) -> bool:
    """Whether a knot, read or not, states rates."""
    return (knot.get("rho") if isinstance(knot, Mapping) else getattr(knot, "rho", None)) is not None


def _picked(rho: NDArray[np.float64], draws: NDArray[np.float64]) -> NDArray[np.int64]:
    """A user for each of the uniform *draws*, in proportion to its row of *rho*, by inverting the distribution."""
    upto = np.cumsum(rho, axis=1)
    return np.asarray((upto / upto[:, -1:] <= draws[:, None]).sum(axis=1))
