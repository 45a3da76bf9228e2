"""Packet queues of users: first in, first out, with complete counts of packets."""

from types import SimpleNamespace

import numpy as np
import pytest

from netfl.network.clock import Clock
from netfl.network.event_log import Ending, EventLog
from netfl.network.layout import NodeId
from netfl.network.radio.cell import Cell
from netfl.network.radio.medium import AirInterface, Medium
from netfl.network.radio.packet_queue import PacketQueue, TrafficArrivals
from netfl.network.radio.transmission import SharedChannel
from netfl.network.traffic import Traffic
from netfl.network.traffic.constant import Constant
from netfl.network.traffic.saturated import Saturated
from netfl.streams import Streams
from netfl.types import Law


class ScriptedTraffic(Traffic):
    """Packets with stated times and sizes in bits; the link takes a second per bit."""

    times: tuple[tuple[float, ...], ...]
    bits: tuple[tuple[float, ...], ...]

    def times_s(self, link_bps, rng):
        raise NotImplementedError

    def blocks(self, sender, link_bps, streams):
        for part in (slice(0, 3), slice(3, 3), slice(3, None)):  # in blocks, one of which is empty
            yield np.array(self.times[sender][part]), np.array(self.bits[sender][part])

    def laws(self):
        return (Law.none("a test's"),)


def scripted_traffic(*queues, **options):
    """Return traffic of one sender for each list of (time, bits)."""
    times, bits = (
        [[float(row[0]) for row in queue] for queue in queues],
        [[float(row[1]) for row in queue] for queue in queues],
    )
    return ScriptedTraffic.model_validate(
        {"times": times, "bits": bits, "size": {"distribution": "exponential", "mean": 1.0}, **options}
    )


def serve_all(cell, limit):
    """Serve a cell in which each user sends at once, on its own channel; all wait for the end."""
    while True:
        yield cell.wait_for_backlog()
        users = cell.backlog()
        yield cell.attempt(users, limit=limit, channel=users)


def build_simulation(traffic, users, *, limit=None, medium=None, ids=None):
    """Build a cell of *users* whose link takes a second per bit."""
    env, rows = Clock(), []
    ids = np.arange(users) if ids is None else np.array(ids)
    recorder = SimpleNamespace(wants=lambda kind: True, record=rows.append)
    event_log = EventLog(recorder, int(ids.max()) + 1, nodes=int(ids.max()) + 1, record_packets=True)
    arrivals = TrafficArrivals(traffic, ids.tolist(), 1.0, Streams(1))
    queue = PacketQueue(ids, traffic, arrivals, "tower:0", event_log)
    simulation = SimpleNamespace(
        env=env, event_log=event_log, counter=event_log.packets, queue=queue, delivered=[], rows=rows
    )

    def uplink(message):
        simulation.delivered.append(
            (message.user, message.born_s, message.sent_s, env.now, message.bits, message.attempts)
        )
        simulation.last = message
        message.end(event_log, Ending("delivered"), env.now)

    air = AirInterface(NodeId("tower:0", 99), medium or Medium(1.0), SharedChannel())
    simulation.cell = Cell(env, air, queue, Streams(1), uplink)
    env.process(serve_all(simulation.cell, limit))
    return simulation


def simulate_queue(arrivals, capacity, until_s):
    """Return (born_s, departed_s) of the served packets, the times of drops, and the final length, event by event."""
    system, served, drops, arrivals = [], [], [], list(arrivals)
    free_s = np.inf  # when the packet in service departs
    while True:
        arrival_s = arrivals[0][0] if arrivals else np.inf
        if min(arrival_s, free_s) > until_s:
            return served, drops, len(system)
        if free_s <= arrival_s:
            served.append((system.pop(0)[0], free_s))
            free_s = free_s + system[0][1] if system else np.inf
            continue
        packet = arrivals.pop(0)
        if len(system) >= capacity:
            drops.append(packet[0])
            continue
        system.append(packet)
        if len(system) == 1:
            free_s = packet[0] + packet[1]


@pytest.mark.parametrize("capacity", [1, 2, 3, 7, None])
@pytest.mark.parametrize("load", [0.4, 0.95, 3.0])
@pytest.mark.quick_first
def test_queue_matches_event_by_event_reference(capacity, load):
    rng, until_s = np.random.default_rng(round(100 * load) + (capacity or 0)), 3000.0
    arrivals = list(zip(np.cumsum(rng.exponential(1 / load, 12_000)), rng.exponential(1.0, 12_000), strict=True))
    served, drops, left = simulate_queue(arrivals, capacity or np.inf, until_s)
    simulation = build_simulation(scripted_traffic(arrivals, buffer=capacity), 1)
    simulation.env.run(until=until_s)
    simulation.cell.finish()
    assert len(simulation.delivered) == len(served)
    np.testing.assert_allclose([(born, time_s) for _, born, _, time_s, *_ in simulation.delivered], served, rtol=1e-12)
    counter = simulation.counter
    assert counter.lost == ({"dropped": len(drops)} if drops else {})
    assert (
        counter.offered
        == np.searchsorted([time_s for time_s, _ in arrivals], until_s)
        == len(served) + len(drops) + left
    )
    assert counter.offered_bits == pytest.approx(sum(bits for time_s, bits in arrivals if time_s <= until_s))
    np.testing.assert_allclose(counter.delays_s, [end - born for born, end in served], rtol=1e-9)
    simulation.event_log.flush_packets()
    dropped_s = np.concatenate([[], *[event.time_s for event in simulation.rows if event.kind == "dropped"]])
    np.testing.assert_allclose(np.sort(dropped_s), drops)


def test_queues_of_users_are_separate_and_fifo():
    simulation = build_simulation(scripted_traffic([(1, 2), (1.5, 1), (1.6, 4)], [(2, 3)]), 2)
    simulation.env.run(until=50.0)
    packets = [
        (born_s, sent_s, at_s, bits) for user, born_s, sent_s, at_s, bits, _ in simulation.delivered if user == 0
    ]
    assert packets == [(1, 1, 3, 2), (1.5, 3, 4, 1), (1.6, 6, 10, 4)], "both start at 3, and user 1 ends at 6"
    assert [(born_s, sent_s) for user, born_s, sent_s, *_ in simulation.delivered if user == 1] == [(2, 3)]


def test_messages_carry_user_numbers_of_network():
    simulation = build_simulation(scripted_traffic(*[[]] * 7, [(1, 2)], [], [(5, 1)], priority=3), 2, ids=[7, 9])
    simulation.env.run(until=50.0)
    assert [row[0] for row in simulation.delivered] == [7, 9]
    assert (simulation.last.flow, simulation.last.priority) == (9, 3)


@pytest.mark.parametrize("capacity", [1, 2])
def test_first_packets_find_empty_queue(capacity):
    """A packet arrives every 2 s from 0 and takes 1 s, so no packet is dropped."""
    traffic = Constant.model_validate({"every": 2.0, "synchronous": True, "buffer": capacity, "size": {"mean": 1.0}})
    simulation = build_simulation(traffic, 1)
    simulation.env.run(until=9.5)
    assert [born for _, born, *_ in simulation.delivered] == [0, 2, 4, 6, 8]
    assert simulation.counter.lost == {}


def test_packet_finds_room_when_another_leaves():
    """A packet arrives each second and takes one second: a transmission ends as the next packet arrives."""
    traffic = Constant.model_validate({"every": 1.0, "synchronous": True, "buffer": 1, "size": {"mean": 1.0}})
    simulation = build_simulation(traffic, 1)
    simulation.env.run(until=9.5)
    assert (len(simulation.delivered), simulation.counter.lost) == (9, {})


def test_retries_end_at_limit():
    """Users 0 and 1 collide for ever on one channel; each packet has three attempts."""
    simulation = build_simulation(scripted_traffic([(0, 1), (0.5, 1)], [(0, 1)]), 2)
    simulation.env = Clock()
    simulation = build_simulation(
        scripted_traffic([(0, 1), (0.5, 1)], [(0, 1), (0.5, 1)]), 2, limit=3, medium=AlwaysColliding(1.0)
    )
    simulation.env.run(until=4.5)
    simulation.cell.finish()
    assert simulation.counter.lost == {"given_up": 2}
    path = simulation.cell.transmit_path
    assert (simulation.counter.offered, simulation.counter.delivered, path.attempts) == (4, 0, 8), "two have not ended"
    assert path.failed["collided"] == 8
    simulation = build_simulation(scripted_traffic([(0, 1)], [(0, 1)]), 2, limit=1, medium=AlwaysColliding(1.0))
    simulation.env.run(until=4.5)
    assert simulation.counter.lost == {"collided": 2}


class AlwaysColliding(Medium):
    """Medium on which all transmissions collide."""

    def outcomes(self, transmission):
        return ["collided"] * len(transmission.ids), np.full(len(transmission.ids), np.nan)


@pytest.mark.parametrize("capacity", [None, 2])
@pytest.mark.quick_first
def test_packets_are_conserved(capacity):
    """After a warm-up, N(start) + offered = delivered + lost + N(end), also under overload."""
    rng, start_s, until_s = np.random.default_rng(5), 500.0, 1500.0
    for load in (0.5, 1.5):
        arrivals = list(zip(np.cumsum(rng.exponential(1 / load, 9000)), rng.exponential(1.0, 9000), strict=True))
        simulation = build_simulation(scripted_traffic(arrivals, buffer=capacity), 1)
        simulation.env.run(until=start_s)
        simulation.counter.restart(start_s)
        simulation.env.run(until=until_s)
        simulation.cell.finish()
        served, drops, count_at_end = simulate_queue(arrivals, capacity or np.inf, until_s)
        *_, count_at_start = simulate_queue(arrivals, capacity or np.inf, start_s)
        counter = simulation.counter
        assert counter.delivered == sum(end > start_s for _, end in served)
        assert counter.lost.get("dropped", 0) == sum(time_s > start_s for time_s in drops)
        assert counter.offered == sum(start_s < time_s <= until_s for time_s, _ in arrivals)
        assert count_at_start + counter.offered == counter.delivered + sum(counter.lost.values()) + count_at_end
        delays_s = [end - born for born, end in served if born >= start_s]
        np.testing.assert_allclose(counter.delays_s, delays_s, rtol=1e-9)


def test_saturated_user_always_has_packet():
    traffic = Saturated.model_validate({"size": {"distribution": "fixed", "mean": 2.0}})
    simulation = build_simulation(traffic, 1)
    simulation.env.run(until=11.0)
    assert [(born_s, sent_s, at_s) for _, born_s, sent_s, at_s, *_ in simulation.delivered] == [
        (2 * i, 2 * i, 2 * i + 2) for i in range(5)
    ]
    simulation.cell.finish()
    assert simulation.counter.offered == 6


def test_starved_user_counts_for_fairness_after_warmup():
    """Only user 0 is served; user 1 has had a packet since the start."""
    simulation = build_simulation(Saturated.model_validate({"size": {"distribution": "fixed", "mean": 2.0}}), 2)
    simulation.cell.backlog = lambda: np.array([0])
    simulation.env.run(until=5.0)
    simulation.counter.restart(5.0)
    simulation.env.run(until=11.0)
    simulation.cell.finish()
    assert simulation.counter.metrics(11.0)["jain"] == pytest.approx(0.5)
    assert simulation.counter.offered == 3, "the packets at 6, 8 and 10 s"


@pytest.mark.slow
def test_saturated_sizes_can_be_exponential():
    traffic = Saturated.model_validate({"size": {"distribution": "exponential", "mean": 0.5}})
    simulation = build_simulation(traffic, 1)
    simulation.env.run(until=2000.0)
    bits = np.array([row[4] for row in simulation.delivered])
    assert abs(len(bits) - 4000) < 4.5 * np.sqrt(4000)
    assert abs(bits.mean() - 0.5) < 4.5 * 0.5 / np.sqrt(len(bits))
    assert abs(np.mean(bits > 0.5) - np.exp(-1)) < 4.5 * np.sqrt(0.233 / len(bits))
    np.testing.assert_allclose(np.diff([row[3] for row in simulation.delivered]), bits[1:], rtol=1e-6)
