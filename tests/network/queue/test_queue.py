"""Queues: order of service, capacity, fairness and random early detection."""

import math

import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.network.message import Packet
from netfl.network.queue.drop_tail import DropTail
from netfl.network.queue.drr import Drr
from netfl.network.queue.priority import Priority
from netfl.network.queue.red import Red
from netfl.network.queue.relay import WeightedSampler
from netfl.streams import Streams
from netfl.types import ScenarioFacts

STREAMS = Streams(41)


def message(bits=1.0, flow=0, priority=0):
    return Packet(0, bits, flow, priority)


def drain(buffer):
    """Return all waiting messages in the order of service."""
    served = []
    while (next_message := buffer.pop(0.0)) is not None:
        served.append(next_message)
    assert len(buffer) == 0
    return served


class TestDropTail:
    def test_capacity_in_bytes(self):
        buffer = DropTail(capacity_bytes=1000).open(1.0, STREAMS)
        large, small, third = message(6400.0), message(1600.0), message(1.0)
        assert [list(buffer.push(arriving, 0.0)) for arriving in (large, small, third)] == [[], [], [third]], (
            "8000 bits are full"
        )
        assert buffer.pop(0.0) is large
        assert not buffer.push(third, 0.0)
        assert drain(buffer) == [small, third]

    def test_capacity_accepts_units(self):
        assert DropTail(capacity_bytes="64 kB").capacity_bytes == 64_000
        with pytest.raises(ScenarioError, match="instead of an amount of data"):
            DropTail(capacity_bytes="5 MHz")

    def test_both_capacities_apply(self):
        buffer = DropTail(capacity=1, capacity_bytes=1000).open(1.0, STREAMS)
        assert buffer.push(message(8001.0), 0.0)
        assert not buffer.push(message(1.0), 0.0)
        assert buffer.push(message(1.0), 0.0)


class TestPriority:
    def test_classes_are_served_in_order_with_separate_capacity(self):
        buffer = Priority(capacity=2).open(1.0, STREAMS)
        messages = [message(priority=level) for level in (2, 0, 2, 7, 2, 0, 0)]
        refused = [victim for arriving in messages for victim in buffer.push(arriving, 0.0)]
        assert refused == [messages[4], messages[6]]
        assert len(buffer) == 5
        assert drain(buffer) == [messages[1], messages[5], messages[0], messages[2], messages[3]]


def served_bits(queue, sizes, services):
    """Return the bits that each flow received after each service; flow f always has messages of ``sizes[f]``."""
    buffer, flows = queue.open(1.0, STREAMS), range(len(sizes))
    for flow in flows:
        for _ in range(2):
            buffer.push(message(next(sizes[flow]), flow), 0.0)
    bits = np.zeros((services + 1, len(sizes)))
    for service in range(services):
        served = buffer.pop(0.0)
        bits[service + 1] = bits[service]
        bits[service + 1, served.flow] += served.bits
        buffer.push(message(next(sizes[served.flow]), served.flow), 0.0)
    return bits


class TestDrr:
    def test_order_by_hand(self):
        """Quantum 500: 200 (300 left), nothing (400 < 600), 500; then 750 of 800, 20 of 50; 600 and 300 of 1000."""
        buffer = Drr(quantum=500).open(1.0, STREAMS)
        for flow, sizes in enumerate([(200, 750, 20), (600, 300), (500,)]):
            for bits in sizes:
                buffer.push(message(bits, flow), 0.0)
        assert [served.bits for served in drain(buffer)] == [200, 500, 750, 20, 600, 300]

    @pytest.mark.parametrize("quantum", [7.0, 100.0, 1500.0])
    @pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (1.0, 2.5, 4.0)])
    def test_backlogged_flows_respect_fairness_bound(self, quantum, weights):
        """Theorem 2 of the paper, for every interval: the range of the normalised difference is bounded."""
        rng, largest = np.random.default_rng(43), 1000.0
        distributions = [lambda: rng.uniform(1, largest), lambda: largest, lambda: rng.choice([40.0, largest])]
        sizes = [iter(distribution, None) for distribution in distributions]
        share = np.array(weights) / min(weights)
        bits = served_bits(Drr(quantum=quantum, weights=weights), sizes, 6000) / share
        bound = quantum * min(weights) + 2 * largest
        for first, second in [(0, 1), (0, 2), (1, 2)]:
            gap = bits[:, first] - bits[:, second]
            assert gap.max() - gap.min() <= bound + 1e-6
        assert bits[-1].min() > 20 * bound, "the bound must be small"
        np.testing.assert_allclose(bits[-1] / bits[-1].sum(), 1 / 3, rtol=0.05)

    def test_small_quantum_serves_flows_in_turn(self):
        buffer = Drr(quantum=1e-3).open(1.0, STREAMS)
        for flow in range(3):
            buffer.push(message(1e9 + flow, flow), 0.0)
        assert [served.flow for served in drain(buffer)] == [0, 1, 2]

    def test_flows_have_separate_capacity(self):
        buffer = Drr(capacity=1).open(1.0, STREAMS)
        pushed = [message(flow=flow) for flow in (0, 0, 1)]
        assert [list(buffer.push(arriving, 0.0)) for arriving in pushed] == [[], [pushed[1]], []]

    def test_capacity_of_zero(self):
        buffer = Drr(capacity=0).open(1.0, STREAMS)
        assert buffer.push(message(), 0.0)
        assert buffer.pop(0.0) is None

    def test_weights_of_unknown_users_are_rejected(self):
        [fault] = Drr(weights={1: 2, 9: 1}).faults(ScenarioFacts(users=3, rounds=1))
        assert (fault.key, fault.value) == ("weights", [9])
        assert not [*Drr(weights={9: 1}).faults(ScenarioFacts(users=3, rounds=1, duration_s=1.0))], (
            "9 is the number of a node"
        )
        for weights in ({0: 0.0}, {-1: 1.0}, [1.0, -1.0]):
            with pytest.raises(ScenarioError):
                Drr(weights=weights)


def build_red(length, **overrides):
    """Build a RED queue whose average and length are *length*."""
    buffer = Red(**({"weight": 1} | overrides)).open(1.0, STREAMS)
    while len(buffer) < length:
        buffer.waiting.append(message())
    return buffer


def refusals(buffer, arrivals):
    """Return the refusals of *arrivals* messages at a constant queue length."""
    refused = []
    for _ in range(arrivals):
        refused.append(bool(buffer.push(message(), 0.0)))
        if not refused[-1]:
            buffer.pop(0.0)
    return np.array(refused)


class TestRed:
    @pytest.mark.parametrize(("length", "base"), [(7, 0.05), (10, 0.125), (14, 0.225)])
    def test_drop_rate_at_constant_average(self, length, base):
        """p_b = 0.25 (avg - 5) / 10; gaps are uniform on 1 … 1/p_b, with the remainder on the next value."""
        gaps = np.diff(np.flatnonzero(refusals(build_red(length, max_p=0.25), 40_000)))
        last = math.floor(1 / base)
        mean = base * last * (last + 1) / 2 + (1 - base * last) * (last + 1)
        assert gaps.max() <= math.ceil(1 / base)
        assert abs(gaps.mean() - mean) < 4.5 * gaps.std() / math.sqrt(len(gaps))
        expected = np.r_[np.full(last, base), 1 - base * last] * len(gaps)
        counts = np.bincount(gaps, minlength=last + 2)[1:]
        is_used = expected > 5
        assert ((counts - expected)[is_used] ** 2 / expected[is_used]).sum() < 60, "χ² of at most 20 cells"

    @pytest.mark.parametrize(
        ("length", "gentle", "share"), [(4, False, 0), (15, False, 1), (29, False, 1), (4, True, 0), (30, True, 1)]
    )
    def test_drop_rate_outside_thresholds(self, length, gentle, share):
        assert refusals(build_red(length, gentle=gentle), 200).mean() == share

    def test_gentle_drop_rate_above_max_threshold(self):
        """At 18, p_b = 0.1 + 0.9 · 3/15 = 0.28: gaps 1, 2, 3 have 0.28 each and 4 has 0.16, mean 2.32."""
        gaps = np.diff(np.flatnonzero(refusals(build_red(18, gentle=True, max_p=0.1), 20_000)))
        assert abs(gaps.mean() - 2.32) < 4.5 * gaps.std() / math.sqrt(len(gaps))

    def test_average_is_smoothed_and_decays_while_idle(self):
        """With w = 0.5, lengths 0, 1, 2 give 0, 0.5, 1.25; after 3 idle services the average is 1.25 / 8."""
        buffer = Red(weight=0.5).open(100.0, STREAMS)
        assert buffer.bypass(message(50.0), 0.0)
        for _ in range(3):
            buffer.push(message(50.0), 0.0)
        assert buffer.average == 1.25
        for time_s in (0.5, 1.0, 1.5, 2.0):
            buffer.pop(time_s)
        assert buffer.bypass(message(10.0), 3.5)
        assert buffer.average == pytest.approx(1.25 / 8)

    def test_high_average_refuses_message_on_free_link(self):
        buffer = build_red(20)
        assert buffer.push(message(), 0.0)
        drain(buffer)
        assert not buffer.bypass(message(), 0.0)

    def test_capacity_applies(self):
        buffer = Red(capacity=6, weight=1e-6).open(1.0, STREAMS)
        assert [bool(buffer.push(message(), 0.0)) for _ in range(7)] == [False] * 6 + [True]

    @pytest.mark.parametrize(
        "settings",
        [{"min_threshold": 15}, {"weight": 0}, {"max_p": 1.5}, {"capacity": 5}, {"max_threshold": "many"}],
    )
    def test_invalid_settings_are_rejected(self, settings):
        with pytest.raises(ScenarioError):
            Red(**settings)


class TestWeightedSampler:
    def test_probabilities_are_proportional_to_current_weights(self):
        rng, sampler, weights = np.random.default_rng(47), WeightedSampler(), {}
        for _ in range(3000):
            name, weight = int(rng.integers(0, 37)), float(rng.choice([0.0, 0.1, 1.0, 1e6]))
            weights[name] = weight
            sampler.set_weight(name, weight)
        positive = {name: weight for name, weight in weights.items() if weight}
        total = sum(positive.values())
        drawn = [sampler.draw((step + 0.5) / 50_000) for step in range(50_000)]
        for name, weight in positive.items():
            assert abs(drawn.count(name) / 50_000 - weight / total) < 2e-5 + 1e-12
        assert set(drawn) <= set(positive)

    def test_largest_uniform_value_selects_last_name(self):
        sampler = WeightedSampler()
        for name, weight in enumerate([0.1, 0.2, 0.3, 0.0]):
            sampler.set_weight(name, weight)
        assert sampler.draw(0.0) == 0
        assert sampler.draw(math.nextafter(1.0, 0.0)) == 2
