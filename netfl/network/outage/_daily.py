"""Processes with a daily rhythm: recurring instants, and sojourns up on a clock whose speed varies over the day."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike
from pydantic import AfterValidator, Field

from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability
from netfl.network.outage._alternating_renewal import AlternatingRenewal, Sojourns, sojourn_laws, state_law
from netfl.network.outage._targets import NodeOutage, node_rows
from netfl.network.periods import SLACK, STEPS, periods_of, surrounding_instants
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints, Law
from netfl.units import Seconds

_SETTLING_CYCLES = 20
"""Mean sojourns up and down before time 0 after which a process counts as settled."""


def _check_weights(weights: tuple[float, ...]) -> tuple[float, ...]:
    if not any(weights):
        raise ValueError("all weights are 0, so nothing ever happens; make at least one of them larger")
    return weights


Weights = Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=1), AfterValidator(_check_weights)]
"""Relative weights of equal parts of a period: 24 of them are the hours of a day."""


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
        self._period_s = period_s
        self._part_s = period_s / len(weights)
        self._speed = np.array(weights, float) * len(weights) / sum(weights)
        # the reading at the begin of each part, and at the end of the period, without the rounding of the sum
        self._read_s = np.concatenate([[0.0], np.cumsum(self._speed * self._part_s)])
        self._read_s[-1] = period_s
        self._shift_s = shift_s
        self._factor = factor

    def read_s(self, rows: Ints, time_s: Floats) -> Floats:
        """Return the reading of each row's clock at *time_s*, ``[n]``."""
        days, of_day_s = np.divmod(time_s - self._shift_s[rows], self._period_s)
        part = np.minimum((of_day_s / self._part_s).astype(np.int64), len(self._speed) - 1)
        read_s = self._read_s[part] + self._speed[part] * (of_day_s - part * self._part_s)
        return np.asarray(self._factor[rows] * (days * self._period_s + read_s))

    def after_s(self, rows: Ints, time_s: Floats, amount_s: Floats) -> Floats:
        """Return when the clock of each row shows *amount_s* more than at *time_s*, ``[n]``."""
        # the reading of that instant: whole days, and the part of a day
        shown_s = (self.read_s(rows, time_s) + amount_s) / self._factor[rows]
        days = periods_of(shown_s, self._period_s)
        read_s = shown_s - days * self._period_s

        # to the right of all equal values, with rounding: a part in which the clock stands still is skipped
        met_s = read_s + SLACK * self._period_s + STEPS * shown_s
        part = np.minimum(np.searchsorted(self._read_s, met_s, side="right") - 1, len(self._speed) - 1)
        speed = np.where(self._speed[part] > 0.0, self._speed[part], 1.0)  # the last part may stand still
        of_day_s = part * self._part_s + np.maximum(read_s - self._read_s[part], 0.0) / speed
        return np.asarray(np.maximum(time_s, days * self._period_s + of_day_s + self._shift_s[rows]))


def mean_share_up(weights: Sequence[float], period_s: float, up_s: float, down_s: float) -> Floats:
    """Return the mean share of time up in each part of the period, for exponential sojourns up on the clock, and down.

    In part j, p' = μ(1 - p) - λ_j p with λ_j = r_j/up and μ = 1/down, solved exactly; the periodic solution.  With the
    limit l_j = μ / (λ_j + μ), p(t) = l_j + (p(0) - l_j) exp(-(λ_j + μ) t).
    """
    part_s = period_s / len(weights)
    failure_hz = np.array(weights, float) * len(weights) / sum(weights) / up_s  # λ, [parts]
    repair_hz = 1.0 / down_s  # μ
    total_hz = failure_hz + repair_hz
    limits = repair_hz / total_hz  # l
    decays = np.exp(-total_hz * part_s)

    # p at the end of a period is offset + factor times p at its beginning
    offset = 0.0
    factor = 1.0
    for limit, decay in zip(limits, decays, strict=True):
        offset = limit + decay * (offset - limit)
        factor *= decay
    p = offset / (1.0 - factor)  # equal at both

    # the mean of p over each part, and p at its end
    means = []
    for limit, decay, rate_hz in zip(limits, decays, total_hz, strict=True):
        means.append(limit + (p - limit) * (1.0 - decay) / (rate_hz * part_s))
        p = limit + decay * (p - limit)
    return np.array(means)


def draw_shifts_s(spread_s: float, rows: int, streams: Streams) -> Floats:
    """Draw the delay of each row's day, uniform on ±spread/2."""
    return spread_s * (streams.field("shift").uniform(np.arange(rows)) - 0.5)


class DailyOutage(NodeOutage):
    """Nodes with sojourns up on a clock that has the rhythm of a day, and sojourns down on the common one."""

    weights: Weights
    """Relative speed of the clock in each of as many equal parts of the period."""
    period: Annotated[Seconds, Field(gt=0)] = 86400.0
    """Length of a period; time 0 is the start of one."""
    spread: Annotated[Seconds, Field(ge=0)] = 0.0
    """Width of the interval, around 0, from which the shift of each node's day is drawn, to model time zones."""

    @property
    @abstractmethod
    def sojourns(self) -> Sojourns:
        """Distributions of sojourns up, on the clock, and down; those that start stationary settle before time 0."""

    def activity(self, rows: int, streams: Streams) -> Floats:
        """Return the relative speed of each node's clock, ``[rows]``."""
        return np.ones(rows)

    def open(self, layout: Layout, streams: Streams) -> NodeAvailability:
        return self._open_rows(node_rows(self.nodes, layout), streams)

    def _open_rows(self, row: Ints, streams: Streams) -> AlternatingRenewal:
        rows = int(row.max(initial=-1)) + 1
        sojourns = self.sojourns
        activity = self.activity(rows, streams)
        shifts_s = draw_shifts_s(self.spread, rows, streams)
        clock = DiurnalClock(self.weights, self.period, shifts_s, activity)
        origin_s: ArrayLike = 0.0
        if sojourns.start == "stationary":  # whole periods before time 0, so that the process has settled
            cycle_s = sojourns.up.mean / activity + sojourns.down.mean
            origin_s = -self.period * np.ceil(_SETTLING_CYCLES * cycle_s / self.period)
        return AlternatingRenewal(row, replace(sojourns, start="up"), streams, clock=clock, origin_s=origin_s)

    def laws(self) -> tuple[Law, ...]:
        sojourns = self.sojourns
        up = sojourns.up
        down = sojourns.down
        laws = sojourn_laws(sojourns, self._open_rows, "up, on the node's own clock,")
        is_markov = up.distribution == "exponential" and down.distribution == "exponential"
        if sojourns.start != "stationary" or not is_markov:  # the share of time up has no closed form
            return laws

        def state(streams: Streams, size: int) -> Floats:
            rows = np.arange(size)
            instants_s = self.period * streams.rng("instants").random(size)
            return self._open_rows(rows, streams).up(rows, instants_s).astype(float)

        quantity = "state of a node at an instant uniform over the period (1 is up)"
        statement = "the periodic solution of p' = (1 - p)/E[down] - r(t) p/E[up], r(t) the clock's speed"
        share = float(mean_share_up(self.weights, self.period, up.mean, down.mean).mean())
        return (*laws, state_law(quantity, statement, state, share))
