"""Waiting rooms, without a clock: who goes next, who is turned away, and what flows can count on."""

import math

import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.network.message import Message
from netfl.network.queue.drop_tail import DropTail
from netfl.network.queue.drr import Drr
from netfl.network.queue.priority import Priority
from netfl.network.queue.red import Red
from netfl.network.queue.relay import WeightedSampler
from netfl.streams import Streams
from netfl.types import ScenarioFacts

STREAMS = Streams(41)


def message(bits=1.0, flow=0, priority=0):
    return Message(0, 0, bits, 0.0, 1, flow, priority)


def drain(buffer):
    """All that waits, in the order of service."""
    served = []
    while (one := buffer.pop(0.0)) is not None:
        served.append(one)
    assert len(buffer) == 0
    return served


class TestDropTail:
    def test_room_for_so_many_bytes(self):
        buffer = DropTail(capacity_bytes=1000).open(1.0, STREAMS)
        large, small, third = message(6400.0), message(1600.0), message(1.0)
        assert [list(buffer.push(one, 0.0)) for one in (large, small, third)] == [[], [], [third]], "8000 bits are full"
        assert buffer.pop(0.0) is large
        assert not buffer.push(third, 0.0)
        assert drain(buffer) == [small, third]

    def test_bytes_are_written_with_units(self):
        assert DropTail(capacity_bytes="64 kB").capacity_bytes == 64_000
        with pytest.raises(ScenarioError, match="instead of an amount of data"):
            DropTail(capacity_bytes="5 MHz")

    def test_both_limits_hold(self):
        buffer = DropTail(capacity=1, capacity_bytes=1000).open(1.0, STREAMS)
        assert buffer.push(message(8001.0), 0.0)
        assert not buffer.push(message(1.0), 0.0)
        assert buffer.push(message(1.0), 0.0)


class TestPriority:
    def test_the_first_class_goes_first_and_each_has_its_own_room(self):
        buffer = Priority(capacity=2).open(1.0, STREAMS)
        said = [message(priority=level) for level in (2, 0, 2, 7, 2, 0, 0)]
        away = [one for each in said for one in buffer.push(each, 0.0)]
        assert away == [said[4], said[6]]
        assert len(buffer) == 5
        assert drain(buffer) == [said[1], said[5], said[0], said[2], said[3]]


def served_bits(queue, sizes, serves):
    """Bits that each flow got after each service; flow f always has messages, of ``sizes(f, n)`` bits for the n-th."""
    buffer, flows = queue.open(1.0, STREAMS), range(len(sizes))
    for flow in flows:
        for _ in range(2):
            buffer.push(message(next(sizes[flow]), flow), 0.0)
    bits = np.zeros((serves + 1, len(sizes)))
    for serve in range(serves):
        one = buffer.pop(0.0)
        bits[serve + 1] = bits[serve]
        bits[serve + 1, one.flow] += one.bits
        buffer.push(message(next(sizes[one.flow]), one.flow), 0.0)
    return bits


class TestDrr:
    def test_turns_by_hand(self):
        """Quantum 500.  First turns: 200 (300 left), nothing (400 left of 500: 600 is more), 500.  Then 750 of 800,
        20 of the 50 that are left; 600 and 300 of 1000; a flow that has nothing left keeps nothing."""
        buffer = Drr(quantum=500).open(1.0, STREAMS)
        for flow, sizes in enumerate([(200, 750, 20), (600, 300), (500,)]):
            for bits in sizes:
                buffer.push(message(bits, flow), 0.0)
        assert [one.bits for one in drain(buffer)] == [200, 500, 750, 20, 600, 300]

    @pytest.mark.parametrize("quantum", [7.0, 100.0, 1500.0])
    @pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (1.0, 2.5, 4.0)])
    def test_backlogged_flows_keep_to_the_bound(self, quantum, weights):
        """Theorem 2 of the paper, over every interval: max - min of the walk of the normalised difference."""
        rng, largest = np.random.default_rng(43), 1000.0
        laws = [lambda: rng.uniform(1, largest), lambda: largest, lambda: rng.choice([40.0, largest])]
        sizes = [iter(law, None) for law in laws]
        share = np.array(weights) / min(weights)
        bits = served_bits(Drr(quantum=quantum, weights=weights), sizes, 6000) / share
        bound = quantum * min(weights) + 2 * largest
        for one, other in [(0, 1), (0, 2), (1, 2)]:
            gap = bits[:, one] - bits[:, other]
            assert gap.max() - gap.min() <= bound + 1e-6
        assert bits[-1].min() > 20 * bound, "so that it tells"
        np.testing.assert_allclose(bits[-1] / bits[-1].sum(), 1 / 3, rtol=0.05)

    def test_a_tiny_quantum_costs_no_more(self):
        buffer = Drr(quantum=1e-3).open(1.0, STREAMS)
        for flow in range(3):
            buffer.push(message(1e9 + flow, flow), 0.0)
        assert [one.flow for one in drain(buffer)] == [0, 1, 2]

    def test_each_flow_has_its_own_room(self):
        buffer = Drr(capacity=1).open(1.0, STREAMS)
        pushed = [message(flow=flow) for flow in (0, 0, 1)]
        assert [list(buffer.push(one, 0.0)) for one in pushed] == [[], [pushed[1]], []]

    def test_no_room_at_all(self):
        buffer = Drr(capacity=0).open(1.0, STREAMS)
        assert buffer.push(message(), 0.0)
        assert buffer.pop(0.0) is None

    def test_weights_of_users_that_there_are_not(self):
        [fault] = Drr(weights={1: 2, 9: 1}).faults(ScenarioFacts(users=3, rounds=1))
        assert (fault.key, fault.value) == ("weights", [9])
        assert not [*Drr(weights={9: 1}).faults(ScenarioFacts(users=3, rounds=1, duration_s=1.0))], (
            "the number of a node"
        )
        for wrong in ({0: 0.0}, {-1: 1.0}, [1.0, -1.0]):
            with pytest.raises(ScenarioError):
                Drr(weights=wrong)


def red_at(length, **said):
    """A RED room whose average is *length*, as many as wait."""
    buffer = Red(**({"weight": 1} | said)).open(1.0, STREAMS)
    while len(buffer) < length:
        buffer.waiting.append(message())
    return buffer


def refusals(buffer, arrivals):
    """Whether each of so many arrivals is turned away, while the room stays as full as it is."""
    away = []
    for _ in range(arrivals):
        away.append(bool(buffer.push(message(), 0.0)))
        if not away[-1]:
            buffer.pop(0.0)
    return np.array(away)


class TestRed:
    @pytest.mark.parametrize(("length", "base"), [(7, 0.05), (10, 0.125), (14, 0.225)])
    def test_share_at_a_constant_average(self, length, base):
        """p_b = 0.25 (avg - 5) / 10; gaps are uniform on 1 … 1/p_b (the rest, if any, on the next): share 1 / mean."""
        gaps = np.diff(np.flatnonzero(refusals(red_at(length, max_p=0.25), 40_000)))
        last = math.floor(1 / base)
        mean = base * last * (last + 1) / 2 + (1 - base * last) * (last + 1)
        assert gaps.max() <= math.ceil(1 / base)
        assert abs(gaps.mean() - mean) < 4.5 * gaps.std() / math.sqrt(len(gaps))
        expected = np.r_[np.full(last, base), 1 - base * last] * len(gaps)
        found = np.bincount(gaps, minlength=last + 2)[1:]
        kept = expected > 5
        assert ((found - expected)[kept] ** 2 / expected[kept]).sum() < 60, "χ² of at most 20 cells"

    @pytest.mark.parametrize(
        ("length", "gentle", "share"), [(4, False, 0), (15, False, 1), (29, False, 1), (4, True, 0), (30, True, 1)]
    )
    def test_none_and_all(self, length, gentle, share):
        assert refusals(red_at(length, gentle=gentle), 200).mean() == share

    def test_gentle_goes_on_rising(self):
        """At 18, p_b = 0.1 + 0.9 · 3/15 = 0.28: gaps 1, 2, 3 with 0.28 each, 4 with 0.16, mean 2.32."""
        gaps = np.diff(np.flatnonzero(refusals(red_at(18, gentle=True, max_p=0.1), 20_000)))
        assert abs(gaps.mean() - 2.32) < 4.5 * gaps.std() / math.sqrt(len(gaps))

    def test_the_average_follows_slowly_and_falls_while_the_link_is_idle(self):
        """w = 0.5: pushes that meet 0, 1, 2 waiting give 0, 0.5, 1.25; idle for 3 services, it falls to 1.25 / 8."""
        buffer = Red(weight=0.5).open(100.0, STREAMS)
        assert buffer.bypass(message(50.0), 0.0)
        for _ in range(3):
            buffer.push(message(50.0), 0.0)
        assert buffer.average == 1.25
        for time_s in (0.5, 1.0, 1.5, 2.0):
            buffer.pop(time_s)
        assert buffer.bypass(message(10.0), 3.5)
        assert buffer.average == pytest.approx(1.25 / 8)

    def test_a_high_average_turns_away_even_where_the_link_is_free(self):
        buffer = red_at(20)
        assert buffer.push(message(), 0.0)
        drain(buffer)
        assert not buffer.bypass(message(), 0.0)

    def test_the_room_ends_somewhere(self):
        buffer = Red(capacity=6, weight=1e-6).open(1.0, STREAMS)
        assert [bool(buffer.push(message(), 0.0)) for _ in range(7)] == [False] * 6 + [True]

    @pytest.mark.parametrize(
        "wrong",
        [{"min_threshold": 15}, {"weight": 0}, {"max_p": 1.5}, {"capacity": 5}, {"max_threshold": "many"}],
    )
    def test_what_makes_no_sense_is_refused(self, wrong):
        with pytest.raises(ScenarioError):
            Red(**wrong)


class TestWheel:
    def test_chances_are_in_proportion_to_weights_whatever_was_there_before(self):
        rng, sampler, weights = np.random.default_rng(47), WeightedSampler(), {}
        for _ in range(3000):
            name, weight = int(rng.integers(0, 37)), float(rng.choice([0.0, 0.1, 1.0, 1e6]))
            weights[name] = weight
            sampler.set_weight(name, weight)
        live = {name: weight for name, weight in weights.items() if weight}
        total = sum(live.values())
        drawn = [sampler.draw((step + 0.5) / 50_000) for step in range(50_000)]
        for name, weight in live.items():
            assert abs(drawn.count(name) / 50_000 - weight / total) < 2e-5 + 1e-12
        assert set(drawn) <= set(live)

    def test_the_last_of_chances_falls_on_somebody(self):
        sampler = WeightedSampler()
        for name, weight in enumerate([0.1, 0.2, 0.3, 0.0]):
            sampler.set_weight(name, weight)
        assert sampler.draw(0.0) == 0
        assert sampler.draw(math.nextafter(1.0, 0.0)) == 2
