"""Memory of a run as its rounds go by: a round leaves behind only what is stated."""

import gc
import tracemalloc
from dataclasses import replace

import pytest
from support.small_network import make

from netfl.results.statistics import RoundStatistics
from netfl.types import OUTCOMES, Delivery, NullRecorder, Round, RoundBatch

FIRST, LAST = 100, 600
"""Rounds after which the memory is measured; caches are full by the first."""


def grown_bytes(steps):
    """Return the bytes that each of *steps* leaves behind, between `FIRST` and `LAST`."""
    sizes = {}
    tracemalloc.start()
    try:
        for index, _ in enumerate(steps, 1):
            if index in {FIRST, LAST}:
                gc.collect()
                sizes[index] = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    return (sizes[LAST] - sizes[FIRST]) / (LAST - FIRST)


@pytest.mark.parametrize("round_rule", [{"kind": "first", "m": 1}, "asynchronous"], ids=["first", "asynchronous"])
@pytest.mark.slow
def test_network_keeps_one_time_of_each_round(round_rule):
    """When it opened, 8 bytes, for the delays of updates of any age; half as much again while the array grows."""
    access, context, _ = make(3, LAST, round=round_rule)
    assert grown_bytes(access.rounds(replace(context, recorder=NullRecorder()))) <= 16


def results(statistics):
    """Count one round after the other, each with one delivery."""
    for index in range(1, LAST + 1):
        delivery = Delivery(user=index % 2, base=index - 1, sent_s=index - 1.0, arrived_s=index - 0.5)
        statistics.extend(
            RoundBatch.of(
                [
                    Round(
                        index=index,
                        opened_s=index - 1.0,
                        closed_s=float(index),
                        deliveries=(delivery,),
                        oldest=index - 1,
                    )
                ]
            )
        )
        yield index


def test_statistics_keep_the_delay_of_each_delivery():
    """An exact percentile needs all: 8 bytes, and up to twice as much while the array grows."""
    assert 8 <= grown_bytes(results(RoundStatistics(2, has_costs=False))) <= 32


def test_statistics_of_learners_keep_the_cost_of_each_round_too():
    """Time, bits of both links and energy: 32 bytes, and the delay."""
    assert 40 <= grown_bytes(results(RoundStatistics(2))) <= 60


def test_final_metrics_do_not_depend_on_the_costs():
    with_costs = RoundStatistics(2)
    without = RoundStatistics(2, has_costs=False)
    for statistics in (with_costs, without):
        assert [*results(statistics)][-1] == LAST
    outcomes = dict.fromkeys(OUTCOMES, 1)

    assert with_costs.final_metrics(outcomes) == without.final_metrics(outcomes)
    assert with_costs.until(3)["time_s"] == 3.0
