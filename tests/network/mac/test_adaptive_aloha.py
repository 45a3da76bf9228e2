"""Multichannel ALOHA with weighted probabilities, compared with an optimiser, closed forms and simulated slots.

Statistical checks allow 4.5 standard errors.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from netfl.errors import ScenarioError
from netfl.network.mac.adaptive_aloha import AdaptiveAloha, scale_probabilities
from netfl.network.mac.multichannel_aloha import MultichannelAloha
from netfl.network.radio.bench import BenchSetup, MacTestBench, saturated_users, slot_successes
from netfl.streams import Streams
from netfl.types import ScenarioFacts


class TestScaleProbabilities:
    @pytest.mark.parametrize(
        ("weights", "total", "min_probability", "expected"),
        [
            ([1, 1, 1, 1], 1, 0.1, [0.25] * 4),
            ([1, 2, 5], 1, 0, [0.125, 0.25, 0.625]),
            ([1, 1, 8], 2, 0, [0.5, 0.5, 1.0]),  # the third is capped, the others share the rest
            ([1, 3, 96], 1, 0.3, [0.1, 0.1, 0.8]),  # minima of 0.1, the rest for the third
            ([0, 1, 3], 1, 0.3, [0.1, 0.225, 0.675]),
            ([0, 0, 7], 2, 0, [0.5, 0.5, 1.0]),
            ([0, 0, 0], 1, 0.5, [1 / 3] * 3),
            ([3, 5], 7, 0.1, [1.0, 1.0]),
            ([1, 9], 1, 1, [0.5, 0.5]),
            ([4], 0.3, 0.1, [0.3]),
            ([1e-9, 1e9], 1.5, 0, [0.5, 1.0]),
        ],
    )
    def test_values_by_hand(self, weights, total, min_probability, expected):
        assert scale_probabilities(np.array(weights, float), total, min_probability) == pytest.approx(expected)

    def test_sum_and_bounds_hold_for_any_weights(self):
        rng = np.random.default_rng(3)
        for _ in range(300):
            users, total, min_probability = (
                int(rng.integers(1, 40)),
                float(rng.uniform(0.1, 12)),
                float(rng.uniform(0, 1)),
            )
            weights = rng.exponential(size=users) ** 4 * (rng.random(users) < 0.8)
            p = scale_probabilities(weights, total, min_probability)
            lower_bound = min_probability * min(total, users) / users
            assert p.sum() == pytest.approx(min(total, users))
            assert (p >= lower_bound * (1 - 1e-12)).all()
            assert (p <= 1).all()
            unbounded = (p > lower_bound * (1 + 1e-9)) & (p < 1 - 1e-9) & (weights > 0)
            slopes = p[unbounded] / weights[unbounded]
            assert slopes == pytest.approx(slopes[:1].repeat(len(slopes)))

    @pytest.mark.parametrize(("total", "min_probability"), [(1.0, 0.2), (2.5, 0.0), (3.0, 0.6)])
    def test_probabilities_are_proportionally_fair(self, total, min_probability):
        """A general optimiser finds the same maximum of Σ w log p under the sum and the bounds."""
        weights = np.array([1.0, 2.0, 3.0, 9.0, 20.0])
        lower_bound = min_probability * total / 5
        optimum = minimize(
            lambda p: -weights @ np.log(p),
            np.full(5, total / 5),
            method="SLSQP",
            bounds=[(max(lower_bound, 1e-6), 1.0)] * 5,
            constraints={"type": "eq", "fun": lambda p: p.sum() - total},
            options={"ftol": 1e-13, "maxiter": 500},
        )
        assert optimum.success
        assert scale_probabilities(weights, total, min_probability) == pytest.approx(optimum.x, abs=2e-4)


def run_slots(mac, user_metrics, users, slots, seed=1):
    """Return the successes of each slot, ``[slots, users]``, and the bench; all users always have updates."""
    bench = MacTestBench(BenchSetup(mac, users, 1.0, Streams(seed)), saturated_users)
    bench.cell.user_metrics = user_metrics
    bench.env.run(until=slots + 0.5)
    successes = np.zeros((slots, users))
    successes[np.rint([at_s for *_, at_s in bench.deliveries]).astype(int) - 1, bench.users] = 1
    return successes, bench


@pytest.mark.parametrize(("channels", "load", "min_probability"), [(1, 1.0, 0.1), (3, 0.8, 0.0), (2, 2.0, 0.5)])
@pytest.mark.quick_first
def test_success_probabilities(channels, load, min_probability):
    """p_k Π (1 - p_j / M), compared with an independent simulation of slots."""
    weights, slots = np.array([1.0, 1.0, 2.0, 4.0, 12.0]), 2_500
    mac = AdaptiveAloha(channels=channels, load=load, min_probability=min_probability, metric="norm")
    successes, _ = run_slots(mac, {"norm": weights}, 5, slots)
    p = scale_probabilities(weights, load * channels, min_probability)
    rng = np.random.default_rng(2)
    is_sending = rng.random((100_000, 5)) < p
    channel_of = np.where(is_sending, rng.integers(0, channels, is_sending.shape), -1 - np.arange(5))
    is_success = is_sending & ((channel_of[:, :, None] == channel_of[:, None, :]).sum(axis=2) == 1)
    expected = [probability * np.prod(1 - np.delete(p, user) / channels) for user, probability in enumerate(p)]
    assert np.abs(is_success.mean(axis=0) - expected).max() < 4.5 * 0.5 / np.sqrt(100_000)
    z = (successes.mean(axis=0) - expected) / np.sqrt(
        np.maximum(np.array(expected) * (1 - np.array(expected)), 1e-9) / slots
    )
    assert np.abs(z).max() < 4.5


@pytest.mark.slow
def test_slots_are_independent():
    successes, _ = run_slots(AdaptiveAloha(channels=1, metric="age"), {"age": np.array([1.0, 2.0, 3.0])}, 3, 5_000)
    per_slot = successes.sum(axis=1)
    assert abs(np.corrcoef(per_slot[1:], per_slot[:-1])[0, 1]) < 4.5 / np.sqrt(5_000)


@pytest.mark.parametrize(
    "user_metrics", [{}, {"norm": np.full(6, np.nan)}, {"loss": np.arange(6.0)}, {"norm": np.full(6, np.inf)}]
)
@pytest.mark.slow
def test_users_without_weights_have_equal_probabilities(user_metrics):
    """A slot delivers n p (1 - p/M)^(n-1) updates on average, as multichannel ALOHA with p = M/n."""
    successes, _ = run_slots(AdaptiveAloha(channels=2, metric="norm"), user_metrics, 6, 2_500)
    mean = 2 * (1 - 1 / 6) ** 5
    assert abs(successes.sum(axis=1).mean() - mean) < 4.5 * successes.sum(axis=1).std() / np.sqrt(2_500)
    assert abs(successes.mean(axis=0) - mean / 6).max() < 4.5 * 0.5 / np.sqrt(2_500)


def test_unknown_weight_counts_as_mean():
    user_metrics = {"loss": np.array([1.0, np.nan, 3.0])}
    mac = AdaptiveAloha(channels=1, metric="loss")
    cell = run_slots(mac, user_metrics, 3, 1)[1].cell
    assert mac._probabilities(cell, np.arange(3)) == pytest.approx([1 / 6, 1 / 3, 1 / 2])
    assert mac._probabilities(cell, np.array([1, 2])) == pytest.approx([0.5, 0.5])


@pytest.mark.slow
def test_changed_weights_apply_immediately():
    """First one user has nearly all of the load, then the other."""
    mac = AdaptiveAloha(channels=1, metric="norm", min_probability=0.05)
    bench = MacTestBench(BenchSetup(mac, 2, 1.0, Streams(5)), saturated_users)
    shares = []
    for weights in ([1.0, 1e6], [1e6, 1.0]):
        bench.cell.user_metrics = {"norm": np.array(weights)}
        start = len(bench.users)
        bench.env.run(until=bench.env.now + 2_000)
        shares.append(np.mean(bench.users[start:]))
    likely, unlikely = 0.975 * 0.975, 0.025 * 0.025  # p (1 - p'), minima of 0.05 / 2
    share, successes = likely / (likely + unlikely), 2_000 * (likely + unlikely)
    assert np.abs(np.array(shares) - [share, 1 - share]).max() < 4.5 * np.sqrt(share * (1 - share) / successes)


def test_single_user_sends_in_first_slot(make_cell):
    simulation = make_cell(1)
    simulation.cell.user_metrics = {}
    simulation.env.process(AdaptiveAloha(channels=1, metric="norm", slot=1.5).serve(simulation.cell))
    simulation.tower.schedule_broadcast(0, 3.2)
    simulation.env.run(until=10)
    assert [at_s for at_s, _ in simulation.sent_on] == [5.5]


def test_mac_sleeps_during_outage(assert_mac_sleeps):
    assert_mac_sleeps(AdaptiveAloha(channels=1, metric="age"))


def test_idle_slots_cause_no_events():
    """At a load of 1 in 10,000 slots, idle slots are skipped."""
    mac = AdaptiveAloha(channels=1, metric="norm", load=1e-4)
    bench = MacTestBench(BenchSetup(mac, 3, 1.0, Streams(1)), saturated_users)
    bench.cell.user_metrics, events = {}, 0
    while len(bench.deliveries) < 20:
        bench.env.step()
        events += 1
    assert bench.env.now > 50_000
    assert events < 500


def test_attempts_are_limited():
    """Two users that always collide on one channel are given up after 3 attempts."""
    mac = AdaptiveAloha(channels=1, metric="norm", load=2, max_attempts=3)
    successes, bench = run_slots(mac, {}, 2, 30)
    assert successes.sum() == 0
    assert bench.cell.transmit_path.failed["collided"] == 60


@pytest.mark.parametrize("metric", ["norm", "loss", "age"])
def test_mac_requests_its_metric(metric):
    assert AdaptiveAloha(channels=1, metric=metric).user_metrics == {metric}


def test_invalid_settings_are_rejected():
    mac = AdaptiveAloha(channels=1, metric="age", slot=0.5)
    assert [fault.key for fault in mac.faults(ScenarioFacts(users=3, rounds=100, duration_s=9.0))] == ["metric"]
    assert not [*mac.faults(ScenarioFacts(users=3, rounds=4))]
    assert [fault.key for fault in mac.airtime_faults(0.6)] == ["slot"]
    for overrides in ({"channels": 0}, {"load": 0}, {"min_probability": 1.1}, {"metric": "size"}, {"max_attempts": 0}):
        with pytest.raises(ScenarioError):
            AdaptiveAloha(**({"channels": 1, "metric": "age"} | overrides))


@pytest.mark.slow
def test_throughput_of_equal_weights():
    """The throughput equals that of multichannel ALOHA at p = M/n on its own bench."""
    mac = AdaptiveAloha(channels=3, metric="norm", min_probability=1.0)
    successes = run_slots(mac, {"norm": np.arange(1.0, 31.0)}, 30, 2_000)[0].sum(axis=1)
    expected = slot_successes(BenchSetup(MultichannelAloha(channels=3, adaptive="known"), 30, 1.0, Streams(9)), 2_000)
    assert abs(successes.mean() - expected.mean()) < 4.5 * np.sqrt((successes.var() + expected.var()) / 2_000)
