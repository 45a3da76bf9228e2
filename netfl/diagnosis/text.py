"""Phrases of a diagnosis: its parts in words."""

from __future__ import annotations

from netfl.diagnosis.dependence import Dependence
from netfl.diagnosis.memory import MAX_SHUFFLES, MarkovOrder
from netfl.diagnosis.periodicity import Periodicity
from netfl.results.formatting import clock, join_words

LEVEL = 0.01
"""Significance level of each test that does not decide the verdict."""


def format_p_value(p: float | None, is_monte_carlo: bool = False) -> str:
    """Format a p-value.

    >>> format_p_value(0.0123), format_p_value(1e-9), format_p_value(None), format_p_value(1.0)
    ('0.012', '< 0.0001', '–', '1')
    """
    if p is None:
        return "–"
    if is_monte_carlo and p <= 1.01 / (MAX_SHUFFLES + 1):
        return f"≤ {1 / (MAX_SHUFFLES + 1):.3f}"
    if p < 1e-4:
        return "< 0.0001"
    return f"{p:.2g}"


def has_long_memory(order: MarkovOrder) -> bool:
    """Return whether the deliveries depend on more than the last round."""
    return order.second is not None and order.second <= LEVEL


def describe_mixing(order: MarkovOrder) -> str:
    """Return how fast memory decays."""
    if has_long_memory(order):
        return "memory is longer than one round"
    if order.mixing is None:
        return "memory does not decay"
    if order.mixing == 1:
        return "memory decays within one round"
    return f"memory decays within {order.mixing} rounds"


def describe_periods(cycle: Periodicity) -> str:
    """Return the periods of a cycle."""
    if not cycle.periods:
        return "so often"
    times_s = cycle.periods_s or [None] * len(cycle.periods)
    return join_words([*map(describe_period, cycle.periods, times_s)])


def describe_period(period: float, period_s: float | None) -> str:
    """Format a period in rounds and seconds, with three digits."""
    number = f"{period:.0f}" if period >= 100 else f"{period:.1f}".removesuffix(".0")
    rounds = f"{number} rounds"
    if period_s is None:
        return rounds
    three_digits_s = float(f"{period_s:.3g}")
    return f"{rounds} ({clock(three_digits_s).removesuffix(' 00 min')})"


def describe_correlation(dependence: Dependence) -> str:
    """Return how the deliveries of users depend on each other."""
    if dependence.groups:
        number = len(dependence.groups)
        largest = len(dependence.groups[0])
        groups = f"one group of {largest}" if number == 1 else f"{number} groups of up to {largest}"
        return f"{groups} are delivered together more often than their rates explain"
    if dependence.spread > 1:
        return f"the deliveries in a round vary {dependence.spread:.2g} times as much as those of independent users"
    return f"their deliveries coincide with a correlation of {dependence.correlation:.2g}"


def format_ratio(ratio: float) -> str:
    """Format a ratio of an observed to an expected number."""
    if ratio < 100:
        return f"{ratio:.2f} ×"
    if ratio < 1e4:
        return f"{ratio:.3g} ×"
    return "> 10⁴ ×"
