"""Rates that change from round to round: what is stated at some rounds, and what lies between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BeforeValidator, Field, TypeAdapter
from pydantic_core import PydanticCustomError

from netfl.access._rates import read_rho, shares
from netfl.rates import Zipf, ZipfChances, chances_of
from netfl.registry import Spec
from netfl.streams import Streams
from netfl.units import Probability

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


class Knot(Spec):
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
            return shares(self.rho, users, streams)
        return chances_of(0.0 if self.probability is None else self.probability, users)


class Course:
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
