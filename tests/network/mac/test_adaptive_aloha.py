"""Multichannel ALOHA whose probabilities follow weights: against an optimiser, closed forms and slots of its own.

Statistics: figures are held to 4.5 standard errors.
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


class TestFilling:
    @pytest.mark.parametrize(
        ("weights", "total", "least", "p"),
        [
            ([1, 1, 1, 1], 1, 0.1, [0.25] * 4),
            ([1, 2, 5], 1, 0, [0.125, 0.25, 0.625]),
            ([1, 1, 8], 2, 0, [0.5, 0.5, 1.0]),  # the third is full, the others share the rest
            ([1, 3, 96], 1, 0.3, [0.1, 0.1, 0.8]),  # floors of 0.1: the rest to the third
            ([0, 1, 3], 1, 0.3, [0.1, 0.225, 0.675]),
            ([0, 0, 7], 2, 0, [0.5, 0.5, 1.0]),
            ([0, 0, 0], 1, 0.5, [1 / 3] * 3),
            ([3, 5], 7, 0.1, [1.0, 1.0]),
            ([1, 9], 1, 1, [0.5, 0.5]),
            ([4], 0.3, 0.1, [0.3]),
            ([1e-9, 1e9], 1.5, 0, [0.5, 1.0]),
        ],
    )
    def test_by_hand(self, weights, total, least, p):
        assert scale_probabilities(np.array(weights, float), total, least) == pytest.approx(p)

    def test_the_sum_and_the_bounds_hold_whatever_the_weights(self):
        rng = np.random.default_rng(3)
        for _ in range(300):
            users, total, least = int(rng.integers(1, 40)), float(rng.uniform(0.1, 12)), float(rng.uniform(0, 1))
            weights = rng.exponential(size=users) ** 4 * (rng.random(users) < 0.8)
            p = scale_probabilities(weights, total, least)
            floor = least * min(total, users) / users
            assert p.sum() == pytest.approx(min(total, users))
            assert (p >= floor * (1 - 1e-12)).all()
            assert (p <= 1).all()
            free = (p > floor * (1 + 1e-9)) & (p < 1 - 1e-9) & (weights > 0)
            slopes = p[free] / weights[free]
            assert slopes == pytest.approx(slopes[:1].repeat(len(slopes)))

    @pytest.mark.parametrize(("total", "least"), [(1.0, 0.2), (2.5, 0.0), (3.0, 0.6)])
    def test_it_is_proportionally_fair(self, total, least):
        """The maximum of Σ w log p under the sum and the bounds, by a general optimiser."""
        weights = np.array([1.0, 2.0, 3.0, 9.0, 20.0])
        floor = least * total / 5
        best = minimize(
            lambda p: -weights @ np.log(p),
            np.full(5, total / 5),
            method="SLSQP",
            bounds=[(max(floor, 1e-6), 1.0)] * 5,
            constraints={"type": "eq", "fun": lambda p: p.sum() - total},
            options={"ftol": 1e-13, "maxiter": 500},
        )
        assert best.success
        assert scale_probabilities(weights, total, least) == pytest.approx(best.x, abs=2e-4)


def rows(mac, told, users, slots, seed=1):
    """Who got through in each slot, ``[slots, users]``; all always have something to send."""
    bench = MacTestBench(BenchSetup(mac, users, 1.0, Streams(seed)), saturated_users)
    bench.cell.user_metrics = told
    bench.env.run(until=slots + 0.5)
    found = np.zeros((slots, users))
    found[np.rint([at_s for *_, at_s in bench.deliveries]).astype(int) - 1, bench.users] = 1
    return found, bench


@pytest.mark.parametrize(("channels", "load", "least"), [(1, 1.0, 0.1), (3, 0.8, 0.0), (2, 2.0, 0.5)])
@pytest.mark.quick_first
def test_who_gets_through(channels, load, least):
    """p_k Π (1 - p_j / M), from a simulation of slots of its own."""
    weights, slots = np.array([1.0, 1.0, 2.0, 4.0, 12.0]), 2_500
    mac = AdaptiveAloha(channels=channels, load=load, min_probability=least, metric="norm")
    found, _ = rows(mac, {"norm": weights}, 5, slots)
    p = scale_probabilities(weights, load * channels, least)
    rng = np.random.default_rng(2)
    sends = rng.random((100_000, 5)) < p
    on = np.where(sends, rng.integers(0, channels, sends.shape), -1 - np.arange(5))
    alone = sends & ((on[:, :, None] == on[:, None, :]).sum(axis=2) == 1)
    claim = [each * np.prod(1 - np.delete(p, user) / channels) for user, each in enumerate(p)]
    assert np.abs(alone.mean(axis=0) - claim).max() < 4.5 * 0.5 / np.sqrt(100_000)
    z = (found.mean(axis=0) - claim) / np.sqrt(np.maximum(np.array(claim) * (1 - np.array(claim)), 1e-9) / slots)
    assert np.abs(z).max() < 4.5


@pytest.mark.slow
def test_slots_are_independent():
    found, _ = rows(AdaptiveAloha(channels=1, metric="age"), {"age": np.array([1.0, 2.0, 3.0])}, 3, 5_000)
    one = found.sum(axis=1)
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 4.5 / np.sqrt(5_000)


@pytest.mark.parametrize(
    "told", [{}, {"norm": np.full(6, np.nan)}, {"loss": np.arange(6.0)}, {"norm": np.full(6, np.inf)}]
)
@pytest.mark.slow
def test_without_weights_all_have_the_same(told):
    """As multichannel ALOHA with p = M/n: n p (1 - p/M)^(n-1) get through in a slot."""
    found, _ = rows(AdaptiveAloha(channels=2, metric="norm"), told, 6, 2_500)
    mean = 2 * (1 - 1 / 6) ** 5
    assert abs(found.sum(axis=1).mean() - mean) < 4.5 * found.sum(axis=1).std() / np.sqrt(2_500)
    assert abs(found.mean(axis=0) - mean / 6).max() < 4.5 * 0.5 / np.sqrt(2_500)


def test_a_weight_that_is_not_known_counts_as_the_mean():
    told = {"loss": np.array([1.0, np.nan, 3.0])}
    mac = AdaptiveAloha(channels=1, metric="loss")
    cell = rows(mac, told, 3, 1)[1].cell
    assert mac._probabilities(cell, np.arange(3)) == pytest.approx([1 / 6, 1 / 3, 1 / 2])
    assert mac._probabilities(cell, np.array([1, 2])) == pytest.approx([0.5, 0.5])


@pytest.mark.slow
def test_weights_that_change_count_from_then_on():
    """First one user has nearly all of the load, then the other."""
    mac = AdaptiveAloha(channels=1, metric="norm", min_probability=0.05)
    bench = MacTestBench(BenchSetup(mac, 2, 1.0, Streams(5)), saturated_users)
    shares = []
    for told in ([1.0, 1e6], [1e6, 1.0]):
        bench.cell.user_metrics = {"norm": np.array(told)}
        before = len(bench.users)
        bench.env.run(until=bench.env.now + 2_000)
        shares.append(np.mean(bench.users[before:]))
    high, low = 0.975 * 0.975, 0.025 * 0.025  # p (1 - p'), floors of 0.05 / 2
    share, many = high / (high + low), 2_000 * (high + low)
    assert np.abs(np.array(shares) - [share, 1 - share]).max() < 4.5 * np.sqrt(share * (1 - share) / many)


def test_a_lone_user_sends_in_the_first_slot(make_cell):
    world = make_cell(1)
    world.cell.user_metrics = {}
    world.env.process(AdaptiveAloha(channels=1, metric="norm", slot=1.5).serve(world.cell))
    world.tower.schedule_broadcast(0, 3.2)
    world.env.run(until=10)
    assert [at_s for at_s, _ in world.sent_on] == [5.5]


def test_it_sleeps_through_an_outage(sleeps):
    sleeps(AdaptiveAloha(channels=1, metric="age"))


def test_idle_slots_are_passed_over():
    """At a load of 1 in 10,000 slots a slot is not an event."""
    mac = AdaptiveAloha(channels=1, metric="norm", load=1e-4)
    bench = MacTestBench(BenchSetup(mac, 3, 1.0, Streams(1)), saturated_users)
    bench.cell.user_metrics, steps = {}, 0
    while len(bench.deliveries) < 20:
        bench.env.step()
        steps += 1
    assert bench.env.now > 50_000
    assert steps < 500


def test_attempts_end():
    """Two that always collide on one channel are given up after 3 attempts."""
    mac = AdaptiveAloha(channels=1, metric="norm", load=2, max_attempts=3)
    found, bench = rows(mac, {}, 2, 30)
    assert found.sum() == 0
    assert bench.cell.failed["collided"] == 60


@pytest.mark.parametrize("follows", ["norm", "loss", "age"])
def test_what_it_heeds(follows):
    assert AdaptiveAloha(channels=1, metric=follows).user_metrics == {follows}


def test_misfits_are_faults():
    mac = AdaptiveAloha(channels=1, metric="age", slot=0.5)
    assert [fault.key for fault in mac.faults(ScenarioFacts(users=3, rounds=100, duration_s=9.0))] == ["metric"]
    assert not [*mac.faults(ScenarioFacts(users=3, rounds=4))]
    assert [fault.key for fault in mac.airtime_faults(0.6)] == ["slot"]
    for said in ({"channels": 0}, {"load": 0}, {"min_probability": 1.1}, {"metric": "size"}, {"max_attempts": 0}):
        with pytest.raises(ScenarioError):
            AdaptiveAloha(**({"channels": 1, "metric": "age"} | said))


@pytest.mark.slow
def test_throughput_of_equal_weights():
    """The same as of multichannel ALOHA at p = M/n, by its own bench."""
    mac = AdaptiveAloha(channels=3, metric="norm", min_probability=1.0)
    bench_told = rows(mac, {"norm": np.arange(1.0, 31.0)}, 30, 2_000)[0].sum(axis=1)
    other = slot_successes(BenchSetup(MultichannelAloha(channels=3, adaptive="known"), 30, 1.0, Streams(9)), 2_000)
    assert abs(bench_told.mean() - other.mean()) < 4.5 * np.sqrt((bench_told.var() + other.var()) / 2_000)
