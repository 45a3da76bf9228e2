"""Processes with a daily rhythm: recurring instants, and sojourns up on a clock whose speed varies over the day."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike
from pydantic import AfterValidator, Field

from netfl.network.outage import Bools, Floats, Ints
from netfl.network.outage._alternating_renewal import AlternatingRenewal, Sojourns, sojourn_law, state_law
from netfl.network.periods import SLACK, STEPS, periods_of
from netfl.streams import Streams
from netfl.types import Law

_SETTLING_CYCLES = 20
"""Mean sojourns up and down before time 0 after which a process counts as settled."""
_MAX_CYCLES = 1e5
"""Mean sojourns up and down that a period may hold, because processes settle for at least one period."""


def _check_positive(weights: tuple[float, ...]) -> tuple[float, ...]:
    if not sum(weights):
        raise ValueError("all weights are 0: nothing would ever happen")
    return weights


Weights = Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=1), AfterValidator(_check_positive)]
"""Relative weights of equal parts of a period: 24 of them are the hours of a day."""


def surrounding_instants(first_s: Floats, period_s: float, time_s: ArrayLike) -> tuple[Floats, Floats]:
    """Return the last instant first + k·period, k whole, up to *time_s*, and the next; each computed from k alone."""
    time = np.asarray(time_s, float)
    number = np.floor((time - first_s) / period_s)
    number = number + (time >= first_s + (number + 1.0) * period_s)  # if the division rounded down
    number = number - (time < first_s + number * period_s)  # or up
    return first_s + number * period_s, first_s + (number + 1.0) * period_s


def recurring_window(first_s: Floats, length_s: float, period_s: float, time_s: ArrayLike) -> tuple[Bools, Floats]:
    """Return whether the windows [first + k·period, first + k·period + length) are open, and until when this holds."""
    opened_s, reopens_s = surrounding_instants(first_s, period_s, time_s)
    closes_s = opened_s + length_s
    is_open = np.asarray(time_s) < closes_s
    return is_open, np.where(is_open, closes_s, reopens_s)


class DiurnalClock:
    """A clock whose speed is constant over each of some equal parts of a period, and 1 on average.

    A hazard that varies over the day is constant on such a clock: if X is exponential with mean 1, the first
    instant T at which ∫ r(t) dt from now on is m·X has the hazard r(t)/m.

    Args:
        weights: relative speed in each part; some may be 0, not all.
        period_s: length of a period.
        shift_s: delay of each row's day, ``[rows]``.
        factor: relative speed of each row's clock, ``[rows]``.
    """

    def __init__(self, weights: Sequence[float], period_s: float, shift_s: Floats, factor: Floats) -> None:
        self._part_s, self._period_s = period_s / len(weights), period_s
        self._speed = np.array(weights, float) * len(weights) / sum(weights)
        self._read_s = np.concatenate([[0.0], np.cumsum(self._speed * self._part_s)])
        self._read_s[-1] = period_s
        self._shift_s, self._factor = shift_s, factor

    def read_s(self, rows: Ints, time_s: Floats) -> Floats:
        """Return the reading of each row's clock at *time_s*, ``[n]``."""
        days, rest_s = np.divmod(time_s - self._shift_s[rows], self._period_s)
        part = np.minimum((rest_s / self._part_s).astype(np.int64), len(self._speed) - 1)
        read_s = self._read_s[part] + self._speed[part] * (rest_s - part * self._part_s)
        return np.asarray(self._factor[rows] * (days * self._period_s + read_s))

    def after_s(self, rows: Ints, time_s: Floats, amount_s: Floats) -> Floats:
        """Return when the clock of each row shows *amount_s* more than at *time_s*, ``[n]``."""
        shown_s = (self.read_s(rows, time_s) + amount_s) / self._factor[rows]
        days = periods_of(shown_s, self._period_s)
        rest_s = shown_s - days * self._period_s
        # to the right of all equal values, with rounding: a part in which the clock stands still is skipped
        met_s = rest_s + SLACK * self._period_s + STEPS * shown_s
        part = np.minimum(np.searchsorted(self._read_s, met_s, side="right") - 1, len(self._speed) - 1)
        speed = np.where(self._speed[part] > 0.0, self._speed[part], 1.0)
        day_s = part * self._part_s + np.maximum(rest_s - self._read_s[part], 0.0) / speed
        return np.asarray(np.maximum(time_s, days * self._period_s + day_s + self._shift_s[rows]))


def mean_share_up(weights: Sequence[float], period_s: float, up_s: float, down_s: float) -> Floats:
    """Return the mean share of time up in each part of the period, for exponential sojourns up on the clock, and down.

    In part j, p' = μ(1 - p) - λ_j p with λ_j = r_j/up and μ = 1/down, solved exactly; the periodic solution.
    """
    part_s = period_s / len(weights)
    fail = np.array(weights, float) * len(weights) / sum(weights) / up_s
    level, total = (1.0 / down_s) / (fail + 1.0 / down_s), fail + 1.0 / down_s
    fade = np.exp(-total * part_s)
    start, kept = 0.0, 1.0  # p at the end of a period is start + kept times p at its beginning
    for limit, left in zip(level, fade, strict=True):
        start, kept = limit + left * (start - limit), left * kept
    p, means = start / (1.0 - kept), []
    for limit, left, rate in zip(level, fade, total, strict=True):
        means.append(limit + (p - limit) * (1.0 - left) / (rate * part_s))
        p = limit + left * (p - limit)
    return np.array(means)


def draw_shifts_s(spread_s: float, rows: int, streams: Streams) -> Floats:
    """Draw the delay of each row's day, uniform on ±spread/2."""
    return spread_s * (streams.field("shift").uniform(np.arange(rows)) - 0.5)


def settled_start_s(up_s: Floats, down_s: float, period_s: float) -> Floats:
    """Return when processes with these mean sojourns must start, all up, to have settled by time 0."""
    return -period_s * np.ceil(_SETTLING_CYCLES * (up_s + down_s) / period_s)


def check_period(up_s: float, down_s: float, period_s: float) -> None:
    """Check that a period holds a limited number of mean sojourns.

    Raises:
        ValueError: it holds more.
    """
    if period_s > _MAX_CYCLES * (up_s + down_s):
        cycles = period_s / (up_s + down_s)
        raise ValueError(
            f"a node would go down {cycles:.3g} times in a period, {_MAX_CYCLES:g} are possible: make it shorter"
        )


def daily_laws(
    open_rows: Callable[[Ints, Streams], tuple[AlternatingRenewal, DiurnalClock]],
    sojourns: Sojourns,
    weights: Sequence[float],
    period_s: float,
) -> tuple[Law, ...]:
    """Return the claims of nodes with one clock each.

    Args:
        open_rows: ``open_rows(rows, streams)`` returns the process of nodes with these rows, and its clock.
        sojourns: distributions of sojourns up, on the clock, and of sojourns down.
        weights: relative speed of the clock in each part of the period.
        period_s: length of the period.
    """
    up, down = sojourns.up, sojourns.down

    def sojourn_up(streams: Streams, size: int) -> Floats:
        rows = np.arange(size)
        process, clock = open_rows(rows, streams)
        begin_s = _next_begin_s(process, rows, is_up=True)
        return clock.read_s(rows, process.next_change(rows, begin_s)) - clock.read_s(rows, begin_s)

    def sojourn_down(streams: Streams, size: int) -> Floats:
        rows = np.arange(size)
        process, _ = open_rows(rows, streams)
        begin_s = _next_begin_s(process, rows, is_up=False)
        return process.next_change(rows, begin_s) - begin_s

    def state(streams: Streams, size: int) -> Floats:
        rows = np.arange(size)
        process, _ = open_rows(rows, streams)
        return process.up(rows, period_s * streams.rng("instants").random(size)).astype(float)

    laws = (sojourn_law("up, on the node's own clock,", up, sojourn_up), sojourn_law("down", down, sojourn_down))
    if not up.law == down.law == "exponential":
        return laws
    quantity = "state of a node at an instant uniform over the period (1 is up)"
    statement = "the periodic solution of p' = (1 - p)/E[down] - r(t) p/E[up], r(t) the clock's speed"
    share = float(mean_share_up(weights, period_s, up.mean, down.mean).mean())
    return (*laws, state_law(quantity, statement, state, share))


def _next_begin_s(process: AlternatingRenewal, rows: Ints, *, is_up: bool) -> Floats:
    """Return when the first sojourn up, or down, of each row begins after time 0."""
    begin_s = process.next_change(rows, np.zeros(len(rows)))
    return np.where(process.up(rows, begin_s) == is_up, begin_s, process.next_change(rows, begin_s))
