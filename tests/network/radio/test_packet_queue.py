"""Packets of users: each has a queue that is first in, first out; nothing is counted twice and nothing is forgotten."""

from types import SimpleNamespace

import numpy as np
import pytest
import simpy

from netfl.network.event_log import EventLog
from netfl.network.layout import NodeId
from netfl.network.radio.cell import AirInterface, Cell
from netfl.network.radio.medium import Medium
from netfl.network.radio.packet_queue import PacketQueue
from netfl.network.radio.transmission import SharedChannel
from netfl.network.traffic import Traffic
from netfl.network.traffic.constant import Constant
from netfl.network.traffic.saturated import Saturated
from netfl.streams import Streams
from netfl.types import Law


class Told(Traffic):
    """Packets with stated instants and sizes in bits, which the link takes a second each for."""

    at: tuple[tuple[float, ...], ...]
    bits: tuple[tuple[float, ...], ...]

    def times_s(self, link_bps, rng):
        raise NotImplementedError

    def blocks(self, sender, link_bps, streams):
        for chosen in (slice(0, 3), slice(3, 3), slice(3, None)):  # in blocks, one of them empty
            yield np.array(self.at[sender][chosen]), np.array(self.bits[sender][chosen])

    def laws(self):
        return (Law.none("a test's"),)


def told(*queues, **options):
    """Traffic of one sender for each list of (instant, bits)."""
    at, bits = (
        [[float(row[0]) for row in queue] for queue in queues],
        [[float(row[1]) for row in queue] for queue in queues],
    )
    return Told.model_validate(
        {"at": at, "bits": bits, "size": {"distribution": "exponential", "mean": 1.0}, **options}
    )


def greedy(cell, limit):
    """Whoever has something sends it, on a channel of its own; then all wait for the end."""
    while True:
        yield cell.wait_for_backlog()
        users = cell.backlog()
        yield cell.attempt(users, limit=limit, channel=users)


def world_of(traffic, users, *, limit=None, medium=None, ids=None):
    """A cell of *users* whose link takes a second for a bit."""
    env, rows = simpy.Environment(0.0), []
    ids = np.arange(users) if ids is None else np.array(ids)
    recorder = SimpleNamespace(
        wants=lambda kind: True, event=lambda outcome, at, **row: rows.append((outcome, at, row))
    )
    ledger = EventLog(recorder, int(ids.max()) + 1, nodes=int(ids.max()) + 1, record_packets=True)
    arrivals = [traffic.blocks(user, 1.0, Streams(1)) for user in ids.tolist()]
    load = PacketQueue(ids, traffic, arrivals, "tower:0", ledger)
    world = SimpleNamespace(env=env, ledger=ledger, meter=ledger.packets, load=load, heard=[], rows=rows)

    def uplink(message):
        world.heard.append((message.user, message.born_s, message.sent_s, env.now, message.bits, message.attempts))
        world.last = message
        ledger.record_outcome(message, "delivered", env.now)

    air = AirInterface(NodeId("tower:0", 99), medium or Medium(1.0), SharedChannel())
    world.cell = Cell(env, air, load, Streams(1), uplink)
    env.process(greedy(world.cell, limit))
    return world


def brute(arrivals, room, until_s):
    """(born, departed) of those served and the instants of drops, event by event; who leaves makes room first."""
    system, served, drops, arrivals = [], [], [], list(arrivals)
    free_s = np.inf  # when the one in service leaves
    while True:
        arrival_s = arrivals[0][0] if arrivals else np.inf
        if min(arrival_s, free_s) > until_s:
            return served, drops, len(system)
        if free_s <= arrival_s:
            served.append((system.pop(0)[0], free_s))
            free_s = free_s + system[0][1] if system else np.inf
            continue
        packet = arrivals.pop(0)
        if len(system) >= room:
            drops.append(packet[0])
            continue
        system.append(packet)
        if len(system) == 1:
            free_s = packet[0] + packet[1]


@pytest.mark.parametrize("room", [1, 2, 3, 7, None])
@pytest.mark.parametrize("load", [0.4, 0.95, 3.0])
@pytest.mark.quick_first
def test_a_queue_is_that_of_an_event_by_event_reference(room, load):
    rng, until_s = np.random.default_rng(round(100 * load) + (room or 0)), 3000.0
    arrivals = list(zip(np.cumsum(rng.exponential(1 / load, 12_000)), rng.exponential(1.0, 12_000), strict=True))
    served, drops, left = brute(arrivals, room or np.inf, until_s)
    world = world_of(told(arrivals, buffer=room), 1)
    world.env.run(until=until_s)
    world.cell.finish()
    assert len(world.heard) == len(served)
    np.testing.assert_allclose([(born, at) for _, born, _, at, *_ in world.heard], served, rtol=1e-12)
    meter = world.meter
    assert meter.lost == ({"dropped": len(drops)} if drops else {})
    assert meter.offered == np.searchsorted([at for at, _ in arrivals], until_s) == len(served) + len(drops) + left
    assert meter.offered_bits == pytest.approx(sum(bits for at, bits in arrivals if at <= until_s))
    np.testing.assert_allclose(meter.delays_s, [end - born for born, end in served], rtol=1e-9)
    world.ledger.flush_packets()
    told_s = np.concatenate([[], *[at for outcome, at, _ in world.rows if outcome == "dropped"]])
    np.testing.assert_allclose(np.sort(told_s), drops)


def test_first_in_first_out_and_each_user_for_itself():
    world = world_of(told([(1, 2), (1.5, 1), (1.6, 4)], [(2, 3)]), 2)
    world.env.run(until=50.0)
    mine = [(born, sent, at, bits) for user, born, sent, at, bits, _ in world.heard if user == 0]
    assert mine == [(1, 1, 3, 2), (1.5, 3, 4, 1), (1.6, 6, 10, 4)], "at 3 both begin, and at 6 user 1 has ended"
    assert [(born, sent) for user, born, sent, *_ in world.heard if user == 1] == [(2, 3)]


def test_numbers_of_the_network_are_told():
    world = world_of(told(*[[]] * 7, [(1, 2)], [], [(5, 1)], priority=3), 2, ids=[7, 9])
    world.env.run(until=50.0)
    assert [row[0] for row in world.heard] == [7, 9]
    assert (world.last.flow, world.last.priority) == (9, 3)


@pytest.mark.parametrize("room", [1, 2])
def test_what_comes_at_the_very_start_finds_an_empty_queue(room):
    """At 0, every 2 s, and each takes 1 s: there is room for all of them."""
    traffic = Constant.model_validate({"every": 2.0, "synchronous": True, "buffer": room, "size": {"mean": 1.0}})
    world = world_of(traffic, 1)
    world.env.run(until=9.5)
    assert [born for _, born, *_ in world.heard] == [0, 2, 4, 6, 8]
    assert world.meter.lost == {}


def test_who_comes_as_another_leaves_finds_room():
    """Every second, and each takes a second: sending ends as the next comes."""
    traffic = Constant.model_validate({"every": 1.0, "synchronous": True, "buffer": 1, "size": {"mean": 1.0}})
    world = world_of(traffic, 1)
    world.env.run(until=9.5)
    assert (len(world.heard), world.meter.lost) == (9, {})


def test_retries_are_of_the_same_packet_and_end_at_the_limit():
    """Users 0 and 1 collide for ever on one channel; each packet has three attempts, the last is cut by the end."""
    world = world_of(told([(0, 1), (0.5, 1)], [(0, 1)]), 2)
    world.env = simpy.Environment(0.0)
    world = world_of(told([(0, 1), (0.5, 1)], [(0, 1), (0.5, 1)]), 2, limit=3, medium=Deaf(1.0))
    world.env.run(until=4.5)
    world.cell.finish()
    assert world.meter.lost == {"given_up": 2}
    assert (world.meter.offered, world.meter.delivered, world.cell.attempts) == (4, 0, 8), "two have not ended"
    assert world.cell.failed["collided"] == 8
    world = world_of(told([(0, 1)], [(0, 1)]), 2, limit=1, medium=Deaf(1.0))
    world.env.run(until=4.5)
    assert world.meter.lost == {"collided": 2}


class Deaf(Medium):
    """A medium on which all that is sent has collided."""

    def outcomes(self, flight):
        return ["collided"] * len(flight.ids), np.full(len(flight.ids), np.nan)


@pytest.mark.parametrize("room", [None, 2])
@pytest.mark.quick_first
def test_what_was_there_or_came_is_delivered_lost_or_there(room):
    """Over a span after a warm-up: N(start) + offered = delivered + lost + N(end), at overload too."""
    rng, start_s, until_s = np.random.default_rng(5), 500.0, 1500.0
    for load in (0.5, 1.5):
        arrivals = list(zip(np.cumsum(rng.exponential(1 / load, 9000)), rng.exponential(1.0, 9000), strict=True))
        world = world_of(told(arrivals, buffer=room), 1)
        world.env.run(until=start_s)
        world.meter.restart(start_s)
        world.env.run(until=until_s)
        world.cell.finish()
        served, drops, after = brute(arrivals, room or np.inf, until_s)
        *_, before = brute(arrivals, room or np.inf, start_s)
        meter = world.meter
        assert meter.delivered == sum(end > start_s for _, end in served)
        assert meter.lost.get("dropped", 0) == sum(at > start_s for at in drops)
        assert meter.offered == sum(start_s < at <= until_s for at, _ in arrivals)
        assert before + meter.offered == meter.delivered + sum(meter.lost.values()) + after
        delays_s = [end - born for born, end in served if born >= start_s]
        np.testing.assert_allclose(meter.delays_s, delays_s, rtol=1e-9)


def test_a_saturated_user_always_has_another():
    traffic = Saturated.model_validate({"size": {"distribution": "fixed", "mean": 2.0}})
    world = world_of(traffic, 1)
    world.env.run(until=11.0)
    assert [(born, sent, at) for _, born, sent, at, *_ in world.heard] == [(2 * i, 2 * i, 2 * i + 2) for i in range(5)]
    world.cell.finish()
    assert world.meter.offered == 6


def test_who_never_gets_the_air_counts_for_fairness_after_a_warm_up_too():
    """User 0 alone is served, whose next packet is always there: the other has one since the beginning."""
    world = world_of(Saturated.model_validate({"size": {"distribution": "fixed", "mean": 2.0}}), 2)
    world.cell.backlog = lambda: np.array([0])
    world.env.run(until=5.0)
    world.meter.restart(5.0)
    world.env.run(until=11.0)
    world.cell.finish()
    assert world.meter.metrics(11.0)["jain"] == pytest.approx(0.5)
    assert world.meter.offered == 3, "those that came at 6, 8 and 10 s"


@pytest.mark.slow
def test_saturated_sizes_are_exponential_where_that_is_said():
    traffic = Saturated.model_validate({"size": {"distribution": "exponential", "mean": 0.5}})
    world = world_of(traffic, 1)
    world.env.run(until=2000.0)
    bits = np.array([row[4] for row in world.heard])
    assert abs(len(bits) - 4000) < 4.5 * np.sqrt(4000)
    assert abs(bits.mean() - 0.5) < 4.5 * 0.5 / np.sqrt(len(bits))
    assert abs(np.mean(bits > 0.5) - np.exp(-1)) < 4.5 * np.sqrt(0.233 / len(bits))
    np.testing.assert_allclose(np.diff([row[3] for row in world.heard]), bits[1:], rtol=1e-6)
