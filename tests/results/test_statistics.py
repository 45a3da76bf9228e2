"""Metrics of replicas, their means and confidence intervals, compared with separate calculations."""

import math

import numpy as np
import pytest
from scipy import stats

from netfl.network.counters import delays, jain
from netfl.results import statistics
from netfl.results.statistics import RoundStatistics, cost_to_target, interval, learning_summary, summary
from netfl.types import OUTCOMES, Delivery, LearnerReport, Round, RoundBatch

NO_OUTCOMES = dict.fromkeys(OUTCOMES, 0)


@pytest.mark.parametrize("size", [2, 3, 10, 200])
def test_an_interval_equals_that_of_scipy(size):
    draws = np.random.default_rng(size).normal(3.0, 2.0, size)
    found, expected = interval(draws), stats.ttest_1samp(draws, 0.0).confidence_interval(0.95)
    assert found.mean == pytest.approx(draws.mean())
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx(tuple(expected))
    assert found.replicas == size


def test_t_factors_equal_the_published_table():
    # Student's t, two-sided 95 %, 1, 4 and 29 degrees of freedom: 12.706, 2.776, 2.045
    assert statistics.t_factor(2) * math.sqrt(2) == pytest.approx(12.706, abs=5e-4)
    assert statistics.t_factor(5) * math.sqrt(5) == pytest.approx(2.776, abs=5e-4)
    assert statistics.t_factor(30) * math.sqrt(30) == pytest.approx(2.045, abs=5e-4)


def test_an_interval_has_its_coverage():
    draws = np.random.default_rng(0).normal(1.0, 1.0, (4000, 5))
    covered = np.mean([abs(estimate.mean - 1.0) <= estimate.half for estimate in map(interval, draws)])
    assert abs(covered - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 4000)


def test_jain_index_of_special_cases():
    assert jain([5, 5, 5]) == 1.0
    assert jain([7, 0, 0, 0]) == 0.25
    assert jain([1, 3]) == pytest.approx(16 / 20)
    assert math.isnan(jain([0, 0]))


def test_delays_are_mean_and_percentiles():
    values = np.random.default_rng(1).exponential(2.0, 50_000)
    found = delays(values)
    assert found["delay_mean_s"] == pytest.approx(2.0, rel=0.03)
    for name, share in (("delay_p50_s", 0.5), ("delay_p95_s", 0.95), ("delay_p99_s", 0.99)):
        assert found[name] == pytest.approx(-2.0 * math.log(1 - share), rel=0.04)
    assert all(map(math.isnan, delays([]).values()))


def test_metrics_of_two_rounds_by_hand():
    round_statistics = RoundStatistics(4)
    round_statistics.extend(
        RoundBatch.of(
            [
                Round(
                    index=1,
                    opened_s=0.0,
                    closed_s=10.0,
                    deliveries=(
                        Delivery(user=0, base=0, sent_s=1.0, arrived_s=4.0, attempts=2),
                        Delivery(user=1, base=0, sent_s=2.0, arrived_s=8.0, attempts=1),
                    ),
                    oldest=1,
                    uplink_bits=100.0,
                    downlink_bits=7.0,
                )
            ]
        )
    )
    round_statistics.extend(
        RoundBatch.of(
            [
                Round(
                    index=2,
                    opened_s=10.0,
                    closed_s=30.0,
                    deliveries=(Delivery(user=0, base=1, sent_s=12.0, arrived_s=16.0, attempts=3),),
                    oldest=2,
                    uplink_bits=50.0,
                    downlink_bits=7.0,
                )
            ]
        )
    )
    found = round_statistics.final_metrics(NO_OUTCOMES | {"delivered": 3, "collided": 1})
    assert found["simulated_s"] == 30.0
    assert found["rounds_per_hour"] == pytest.approx(2 / 30 * 3600)
    assert found["delivered_per_round"] == 1.5
    assert (found["delay_mean_s"], found["delay_p50_s"]) == (pytest.approx((4 + 8 + 6) / 3), 6.0)
    assert found["attempts_mean"] == 2.0
    assert found["jain"] == pytest.approx(9 / (4 * 5))
    assert (found["uplink_bits"], found["downlink_bits"]) == (150.0, 14.0)
    assert (found["share.delivered"], found["share.collided"], found["share.late"]) == (0.75, 0.25, 0.0)
    assert (found["outcome.delivered"], found["outcome.collided"]) == (3, 1)


def test_metrics_without_deliveries_are_nan():
    round_statistics = RoundStatistics(2)
    round_statistics.extend(RoundBatch.of([Round(index=1, opened_s=0.0, closed_s=10.0, deliveries=(), oldest=1)]))
    found = round_statistics.final_metrics(NO_OUTCOMES)
    assert found["delivered_per_round"] == 0.0
    assert all(math.isnan(found[name]) for name in ("delay_mean_s", "delay_p99_s", "jain", "attempts_mean"))
    assert summary([found])["delay_mean_s"] is None


def test_learning_metrics_are_those_of_each_replica():
    lanes = [("A", 3), ("A", 4), ("B", 3), ("B", 4)]
    reports = [
        LearnerReport(index, {"loss": np.arange(4.0) + index, "loss/user:0": np.zeros(4)}) for index in (0, 95, 100)
    ]
    found = learning_summary(lanes, reports)
    assert found.keys() == {3, 4}
    assert found[4] == {"A.loss.last_tenth": 98.5, "B.loss.last_tenth": 100.5}
    assert learning_summary(lanes, []) == {3: {}, 4: {}}


class TestSummary:
    def test_means_intervals_and_sums_of_outcomes(self):
        found = summary([{"delay": 1.0, "outcome.late": 2.0}, {"delay": 3.0, "outcome.late": 5.0}])
        # half width: 12.706 * sqrt(2) / sqrt(2)
        assert found == {"delay": 2.0, "delay.ci95": pytest.approx(12.706, abs=1e-3), "outcome.late": 7}
        assert isinstance(found["outcome.late"], int)

    def test_one_replica_has_no_interval(self):
        assert summary([{"delay": 1.0}]) == {"delay": 1.0}

    @pytest.mark.parametrize("missing", [{}, {"delay": math.nan}, {"delay": math.inf}])
    def test_a_metric_missing_in_a_replica_is_null(self, missing):
        assert summary([{"delay": 1.0}, missing]) == {"delay": None, "delay.ci95": None}

    def test_metrics_keep_their_order(self):
        assert list(summary([{"b": 1.0, "a": 1.0}])) == ["b", "a"]


def test_cost_to_reach_an_accuracy():
    lanes = [("A", 0), ("A", 1), ("B", 0), ("B", 1)]
    accuracies = {0: [0.1, 0.1, 0.9, 0.1], 2: [0.7, 0.3, 0.8, math.nan], 4: [0.6, 0.7, 0.95, math.nan]}
    reports = [LearnerReport(index, {"accuracy": np.array(values)}) for index, values in accuracies.items()]
    statistics_of = {replica: RoundStatistics(2) for replica in (0, 1)}
    for index in range(1, 5):
        for replica, round_statistics in statistics_of.items():
            closed_s = 10.0 * index + replica
            round_statistics.extend(
                RoundBatch.of(
                    [
                        Round(
                            index=index,
                            opened_s=closed_s - 10.0,
                            closed_s=closed_s,
                            deliveries=(),
                            oldest=index,
                            uplink_bits=100.0 * index,
                            downlink_bits=8.0,
                        )
                    ]
                )
            )
    found = cost_to_target(lanes, reports, statistics_of, (0.7, 0.9))
    assert found[0]["A.target:0.7.rounds"] == 2
    assert found[0]["A.target:0.7.time_s"] == 20.0
    assert found[0]["A.target:0.7.uplink_bits"] == 300.0
    assert found[0]["A.target:0.7.downlink_bits"] == 16.0
    assert found[1]["A.target:0.7.time_s"] == 41.0
    assert found[1]["A.target:0.7.uplink_bits"] == 1000.0
    assert [found[0][f"B.target:0.9.{name}"] for name in ("rounds", "time_s", "uplink_bits")] == [0, 0, 0]
    assert math.isnan(found[0]["A.target:0.9.rounds"])
    assert math.isnan(found[1]["B.target:0.7.rounds"])
    assert "B.target:0.7.time_s" not in found[1]
    assert "A.target:0.7.energy_J" not in found[0]


def test_energy_to_reach_an_accuracy():
    round_statistics = RoundStatistics(2)
    for index in range(1, 4):
        round_statistics.extend(
            RoundBatch.of(
                [
                    Round(
                        index=index,
                        opened_s=index - 1.0,
                        closed_s=float(index),
                        deliveries=(),
                        oldest=index,
                        energy_j=1.5 * index,
                    )
                ]
            )
        )
    reports = [LearnerReport(index, {"accuracy": np.array([0.2 * index])}) for index in range(4)]
    found = cost_to_target([("A", 0)], reports, {0: round_statistics}, (0.0, 0.4))
    assert found[0]["A.target:0.4.energy_J"] == 3.0
    assert found[0]["A.target:0.energy_J"] == 0.0


def test_metrics_that_a_lane_never_has_are_omitted():
    reports = [LearnerReport(index, {"t": np.array([math.nan, 1.0 if index < 2 else math.nan])}) for index in range(3)]
    found = learning_summary([("A", 0), ("B", 0)], reports)
    assert found[0].keys() == {"B.t.last_tenth"}
    assert math.isnan(found[0]["B.t.last_tenth"])
