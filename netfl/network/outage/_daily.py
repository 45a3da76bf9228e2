"""Nodes whose sojourns up are measured on a clock that runs faster at some hours than at others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from netfl.network.outage._alternating_renewal import AlternatingRenewal
from netfl.network.outage._distributions import DurationDistribution
from netfl.network.outage._diurnal_clock import DiurnalClock, mean_share_up
from netfl.streams import Streams
from netfl.types import Law

_CYCLES = 20
"""Mean sojourns up and down that go before time 0 in a process that has settled."""


_MOST = 1e5
"""Mean sojourns up and down that a period may hold, as processes settle for a whole one at least."""


def _some(weights: tuple[float, ...]) -> tuple[float, ...]:
    """*weights* that are not all 0."""
    if not sum(weights):
        raise ValueError("all weights are 0: nothing would ever happen")
    return weights


Weights = Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=1), AfterValidator(_some)]
"""Relative figures, one for each of some even parts of a period: 24 of them are the hours of a day."""


def draw_shifts_s(spread_s: float, rows: int, streams: Streams) -> NDArray[np.float64]:
    """By how much each node's day begins later: uniform on ±spread/2."""
    return spread_s * (streams.field("shift").uniform(np.arange(rows)) - 0.5)


def settled_start_s(up_s: NDArray[np.float64], down_s: float, period_s: float) -> NDArray[np.float64]:
    """When processes with these mean sojourns must have started, all up, to have settled by time 0."""
    return -period_s * np.ceil(_CYCLES * (up_s + down_s) / period_s)


def check_period(up_s: float, down_s: float, period_s: float) -> None:
    """Refuse a period in which too much happens.

    Raises:
        ValueError: that is so.
    """
    if period_s > _MOST * (up_s + down_s):
        often = period_s / (up_s + down_s)
        raise ValueError(f"a node would go down {often:.3g} times in a period, {_MOST:g} are possible: make it shorter")


def daily_laws(
    opened: Callable[[Streams, int], tuple[AlternatingRenewal, DiurnalClock]],
    up: DurationDistribution,
    down: DurationDistribution,
    weights: Sequence[float],
    period_s: float,
) -> tuple[Law, ...]:
    """What such nodes claim, each with a clock of its own.

    Args:
        opened: the process of so many nodes, and its clock.
        up: the law of a sojourn up, on the clock.
        down: the law of a sojourn down.
        weights: how fast the clock runs.
        period_s: in what time.
    """

    def sojourn_up(streams: Streams, size: int) -> NDArray[np.float64]:
        (process, clock), rows = opened(streams, size), np.arange(size)
        begin_s = _next(process, rows, np.zeros(size), True)
        return clock.read_s(rows, process.next_change(rows, begin_s)) - clock.read_s(rows, begin_s)

    def sojourn_down(streams: Streams, size: int) -> NDArray[np.float64]:
        (process, _), rows = opened(streams, size), np.arange(size)
        begin_s = _next(process, rows, np.zeros(size), False)
        return process.next_change(rows, begin_s) - begin_s

    laws = [
        Law(
            f"sojourn {word} in s",
            f"{law.law} with mean {law.mean:g} s, all sojourns independent",
            draw=draw,
            mean=law.mean if law.provable(1) else None,
            variance=law.variance if law.provable(2) else None,
            cdf=None if law.law == "fixed" else law.cdf,
        )
        for word, law, draw in (("up, on the node's own clock,", up, sojourn_up), ("down", down, sojourn_down))
    ]

    def state(streams: Streams, size: int) -> NDArray[np.float64]:
        (process, _), rows = opened(streams, size), np.arange(size)
        return process.up(rows, period_s * streams.rng("instants").random(size)).astype(float)

    if up.law == down.law == "exponential":
        share = float(mean_share_up(weights, period_s, up.mean, down.mean).mean())
        told = "the periodic solution of p' = (1 - p)/E[down] - r(t) p/E[up], r(t) the clock's speed"
        laws.append(
            Law(
                "state of a node at an instant uniform over the period (1 is up)",
                told,
                draw=state,
                mean=share,
                variance=share * (1.0 - share),
            )
        )
    return tuple(laws)


def _next(
    process: AlternatingRenewal, rows: NDArray[np.int64], from_s: NDArray[np.float64], wanted: bool
) -> NDArray[np.float64]:
    """When each row first goes up, or down, after *from_s*."""
    at_s = process.next_change(rows, from_s)
    return np.where(process.up(rows, at_s) == wanted, at_s, process.next_change(rows, at_s))
