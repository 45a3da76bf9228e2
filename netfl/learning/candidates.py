"""Candidates of a tuning: the ranges of a learner on logarithmic scales, the points in them, and their widening.

A learner whose step size alone is tuned has a geometric sequence of values of ``lr``.  With further keys, its
candidates are the points of a low-discrepancy sequence in a box.  This module does not import torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError

from netfl.learning.spec import LearnerSpec
from netfl.types import Floats
from netfl.units import WRITTEN

LR = "lr"
"""The dimension that every learner has."""
Settings = tuple[tuple[str, Any], ...]
"""Values by dotted key."""
Sides = Literal["low", "high", "both"]
"""Sides of a range."""
OUTER_SHARE = 1 / 6
"""Share of a range on each side, by the logarithm, in which a best candidate makes it wider."""
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)
"""Bases of the low-discrepancy sequence, one for each dimension."""
MAX_KEYS = len(_PRIMES) - 1
"""Largest number of keys of one learner that are tuned beside its ``lr``."""
_MAX_NAME = 100
"""Longest name of a learner."""
_HALVINGS = 30
"""Number of halvings by which the end of what a key takes is found."""
_DIGITS = 4
"""Significant digits of the values of keys in a box."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """A range of a dimension on a logarithmic scale.

    Args:
        low: lower end.
        high: upper end.
    """

    low: float
    high: float

    def side_of(self, place: float) -> Sides | None:
        """Return the side in whose outer sixth *place* lies; ``None`` inside.

        >>> [LogRange(-3, 3).side_of(place) for place in (-3, -2, 0, 2.5)]
        ['low', None, None, 'high']
        """
        outer = (self.high - self.low) * OUTER_SHARE * (1 - 1e-9)  # the border of the sixth is inside
        if place < self.low + outer:
            return "low"
        if place > self.high - outer:
            return "high"
        return None

    def widened(self, side: Sides) -> LogRange:
        """Return the range with twice the width, by its *side*; by both, half of it on each."""
        width = self.high - self.low
        below = {"low": width, "high": 0.0, "both": width / 2}[side]
        return LogRange(self.low - below, self.high + width - below)


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """One setting of a learner.  Each object is a candidate of its own, as values of keys have no hash.

    Args:
        learner: name of the learner.
        place: logarithms of its values by dimension: of ``lr`` in steps from the centre, of keys natural ones.
        lr: step size.
        settings: values of further keys.
        listed: those of the keys of all learners among them.
    """

    learner: str
    place: Mapping[str, float]
    lr: float
    settings: Settings = ()
    listed: Settings = ()

    @property
    def values(self) -> dict[str, Any]:
        """Values by key."""
        return {LR: self.lr, **dict(self.settings)}

    def apply(self, learner: LearnerSpec) -> LearnerSpec:
        """Return *learner* with this setting."""
        return with_settings(learner, self.settings).model_copy(update={LR: self.lr})


@dataclass(frozen=True)
class Search:
    """The ranges of one learner, and the places of its candidates so far.

    Args:
        learner: name of the learner.
        ranges: the range of each dimension, ``lr`` first.
        places: places of all candidates so far, in the order in which they are trained.
        passes: number of passes so far.
    """

    learner: str
    ranges: Mapping[str, LogRange]
    places: Sequence[Mapping[str, float]] = field(default_factory=tuple)
    passes: int = 0

    def next_pass(self, trials: int, wider: Mapping[str, LogRange], shift: Floats) -> Search:
        """Return the search with the places of a further pass, the last *trials* of its places.

        A sequence of ``lr`` alone goes on beyond the ends of its wider range; without one, its values halve the widest
        gaps.  Points of a box are the next ones of its sequence, in the new ranges.

        Args:
            trials: number of places.
            wider: wider ranges, by dimension.
            shift: shift of the low-discrepancy sequence, in [0, 1), ``[MAX_KEYS + 1]``.
        """
        ranges = {**self.ranges, **wider}
        if len(ranges) > 1:
            added = self._points_in_box(ranges, trials, shift)
        else:
            added = [{LR: step} for step in self._steps_of_lr(trials, wider)]
            steps = [place[LR] for place in (*self.places, *added)]
            ranges = {LR: LogRange(min(steps), max(steps))}
        return replace(self, ranges=ranges, places=[*self.places, *added], passes=self.passes + 1)

    def _points_in_box(self, ranges: Mapping[str, LogRange], trials: int, shift: Floats) -> list[dict[str, float]]:
        """Return the places of the next points of the low-discrepancy sequence."""
        points = halton(self.passes * trials, trials, len(ranges), shift)  # in the unit cube
        low = np.array([each.low for each in ranges.values()])
        high = np.array([each.high for each in ranges.values()])
        places = low + points * (high - low)
        return [dict(zip(ranges, place, strict=True)) for place in places.tolist()]

    def _steps_of_lr(self, trials: int, wider: Mapping[str, LogRange]) -> list[float]:
        """Return the places of a pass over ``lr`` alone, in steps from the centre."""
        earlier = sorted(place[LR] for place in self.places)
        if not earlier:
            return [number - (trials - 1) / 2 for number in range(trials)]
        if LR not in wider:
            return halve_gaps(earlier, trials)
        is_lower = wider[LR].low < self.ranges[LR].low
        is_higher = wider[LR].high > self.ranges[LR].high
        if not is_higher:
            below = trials
        elif is_lower:
            below = trials // 2
        else:
            below = 0
        steps = [earlier[0] - number for number in range(below, 0, -1)]
        steps += [earlier[-1] + number for number in range(1, trials - below + 1)]
        return steps


def halve_gaps(values: Sequence[float], number: int) -> list[float]:
    """Return *number* further values in the range of *values*, each in the middle of the widest gap that there is then.

    Of equal gaps the lowest comes first.

    >>> halve_gaps([0.0, 1.0, 3.0], 3)
    [2.0, 0.5, 1.5]
    """
    ordered = sorted(values)
    added = []
    for _ in range(number):
        gaps = np.diff(ordered)
        widest = int(np.argmax(gaps > gaps.max() - 1e-9))
        middle = (ordered[widest] + ordered[widest + 1]) / 2
        ordered.insert(widest + 1, middle)
        added.append(middle)
    return added


def halton(first: int, number: int, dimensions: int, shift: Floats) -> Floats:
    """Return points of a shifted Halton sequence in the unit cube, ``[number, dimensions]``.

    The coordinate of point i in base b is the number whose digits after the point are those of i in reverse order
    (Halton, 1960), plus *shift*, modulo 1 (Cranley and Patterson, 1976).

    >>> halton(1, 3, 2, np.zeros(2)).round(3).tolist()
    [[0.5, 0.333], [0.25, 0.667], [0.75, 0.111]]
    """
    points = np.zeros((number, dimensions))
    for dimension, base in enumerate(_PRIMES[:dimensions]):
        higher_digits = np.arange(first, first + number)
        weight = 1.0 / base
        while higher_digits.any():
            points[:, dimension] += weight * (higher_digits % base)
            higher_digits = higher_digits // base
            weight /= base
    return np.asarray((points + shift[:dimensions]) % 1.0)


def read_key(learner: LearnerSpec, key: str, values: LogRange) -> Callable[[float], float] | None:
    """Return the function that rounds a value of *key* as the key demands; ``None`` if it takes no number.

    Values have four significant digits, so that a table shows them in full; those of an integer key are whole.

    Args:
        learner: the learner.
        key: a dotted key.
        values: natural logarithms of values.
    """

    def round_digits(value: float) -> float:
        return float(f"{value:.{_DIGITS}g}")

    inner = [math.exp(values.low + share * (values.high - values.low)) for share in (0.3, 0.5, 0.7)]
    if any(takes_value(learner, key, value) for value in inner if not value.is_integer()):
        return round_digits
    if any(takes_value(learner, key, round(value)) for value in inner):
        return round
    return None


def possible_range(learner: LearnerSpec, key: str, now: LogRange, wider: LogRange) -> LogRange:
    """Return the part of the *wider* range of *key* that its learner takes, which is at least the range *now*.

    An end is found by halving.  One that differs by less than a twentieth of the range stays.
    """
    round_ = read_key(learner, key, now)
    assert round_ is not None

    def farthest(inside: float, beyond: float) -> float:
        """Return the end between *inside*, which the learner takes, and *beyond*."""
        if takes_value(learner, key, round_(math.exp(beyond))):
            return beyond
        end = inside
        step = beyond - inside
        for _ in range(_HALVINGS):
            step /= 2
            if takes_value(learner, key, round_(math.exp(end + step))):
                end += step
        return end

    smallest_gain = (now.high - now.low) / 20
    low = farthest(now.low, wider.low)
    high = farthest(now.high, wider.high)
    return LogRange(
        low if abs(low - now.low) > smallest_gain else now.low,
        high if abs(high - now.high) > smallest_gain else now.high,
    )


def takes_value(learner: LearnerSpec, key: str, value: Any) -> bool:
    """Return whether *learner* can have *value* at the dotted *key*."""
    try:
        with_settings(learner, [(key, value)])
    except (ValidationError, LookupError, TypeError):
        return False
    return True


def value_at(learner: LearnerSpec, key: str) -> Any:
    """Return the value of *learner* at a dotted key, as plain data."""
    value: Any = learner.model_dump(mode="json")
    for part in key.split("."):
        value = value[part]
    return value


def name_candidates(candidates: Sequence[Candidate]) -> list[str]:
    """Return a distinct name for each of *candidates*, as learners of a run."""
    names: list[str] = []
    for number, candidate in enumerate(candidates):
        words = [candidate.learner, f"lr={candidate.lr:.4g}"]
        words += [f"{key}={value}" for key, value in candidate.settings]
        name = " ".join(words).replace("/", "|").replace("\\", "|")
        if len(name) > _MAX_NAME or name in names or not name.isprintable():
            name = f"candidate {number}"
        names.append(name)
    return names


def with_settings(learner: LearnerSpec, settings: Sequence[tuple[str, Any]]) -> LearnerSpec:
    """Return *learner* with other values at dotted keys.

    Raises:
        KeyError: there is no such key.
        ValidationError: a value is wrong.
    """
    if not settings:
        return learner
    data = learner.model_dump(mode="json")
    for key, value in settings:
        *sections, last = key.split(".")
        section = data
        for name in sections:
            section = section[name]
        if last not in section:
            raise KeyError(last)
        section[last] = value
    return LearnerSpec.model_validate(data, context=WRITTEN)
