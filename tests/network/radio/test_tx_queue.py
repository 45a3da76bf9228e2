"""Updates and traffic of the same users: the frame that was ready first goes first, and each has its own outcome."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import simpy

from netfl.access.network import NetworkAccess
from netfl.network.event_log import EventLog
from netfl.network.layout import NodeId
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.radio.cell import AirInterface, Cell
from netfl.network.radio.medium import Medium
from netfl.network.radio.packet_queue import PacketQueue
from netfl.network.radio.transmission import SharedChannel
from netfl.network.radio.tx_queue import MergedTxQueue
from netfl.network.radio.update_queue import UpdateQueue
from netfl.network.server import OutstandingUpdates
from netfl.network.tower import Tower
from netfl.network.traffic import Traffic
from netfl.network.traffic.saturated import Saturated
from netfl.network.users import UserPopulation
from netfl.streams import Streams
from netfl.types import OUTCOMES, AccessContext, Law, NullRecorder


class At(Traffic):
    """Packets of one bit at stated instants."""

    at: tuple[tuple[float, ...], ...]

    def times_s(self, link_bps, rng):
        raise NotImplementedError

    def blocks(self, sender, link_bps, streams):
        yield np.array(self.at[sender], float), np.ones(len(self.at[sender]))

    def laws(self):
        return (Law.none("a test's"),)


def packets(*at):
    """One bit at each instant, for each user."""
    return At.model_validate({"at": at, "size": {"mean": 1.0}})


def world_of(memory, traffic, compute_s, *, update_bits=2.0, presence=None, limit=None, busy=None):
    """Users with updates of 2 s and packets of 1 s each, on channels of their own, sent as soon as can be."""
    users, env, medium = len(compute_s), simpy.Environment(0.0), Medium(1.0, presence)
    if busy is not None:
        medium.outcomes = lambda flight: (
            ["collided" if busy(env.now) else ""] * len(flight.ids),
            np.zeros(len(flight.ids)),
        )
    ledger = EventLog(memory, users, nodes=users)
    ledger.open_round(1)
    queue = UpdateQueue(np.arange(users), update_bits, "tower:0", ledger)
    updates = UserPopulation(queue, np.array(compute_s, float), OutstandingUpdates(users))
    arrivals = [traffic.blocks(user, 1.0, Streams(1)) for user in range(users)]
    load = MergedTxQueue(queue, PacketQueue(np.arange(users), traffic, arrivals, "tower:0", ledger))
    heard = []

    def uplink(message):
        heard.append(
            (env.now, message.user, "update" if message.base >= 0 else "packet", message.base, message.attempts)
        )
        ledger.record_outcome(message, "delivered", env.now)

    air = AirInterface(NodeId("tower:0", 100), medium, SharedChannel())
    cell = Cell(env, air, load, Streams(1), uplink)

    def serve(user):
        while True:
            while user not in cell.backlog():
                at_s = cell.ready_s[user]
                wait = at_s - env.now if env.now < at_s < np.inf else 0.0625
                yield env.timeout(min(0.0625, wait))
            yield cell.attempt([user], limit=limit, channel=user)

    for user in range(users):
        env.process(serve(user))
    told = {"cell": cell, "ledger": ledger, "memory": memory, "meter": ledger.packets}
    return SimpleNamespace(env=env, heard=heard, tower=Tower(cell, updates, medium), **told)


def order(world, versions, until_s):
    """What gets through when, if version i comes at versions[i]."""
    for version, at_s in enumerate(versions):
        world.tower.schedule_broadcast(version, at_s)
    world.env.run(until=until_s)
    return [(at, what) for at, _, what, *_ in world.heard]


def test_what_was_ready_first_goes_first(memory):
    """The update is ready at 5: after the packet of 4, and before that of 6, which comes while it is sent."""
    world = world_of(memory, packets([4, 6]), [5.0])
    assert order(world, [0.0], 20) == [(5, "packet"), (7, "update"), (8, "packet")]


def test_packets_that_wait_are_before_an_update_that_comes_later(memory):
    world = world_of(memory, packets([1, 1, 1, 2.5, 3.5]), [3.0])
    assert order(world, [0.0], 20) == [*((at, "packet") for at in (2, 3, 4, 5)), (7, "update"), (8, "packet")]


def test_the_update_first_where_both_are_ready_at_once(memory):
    assert order(world_of(memory, packets([3]), [3.0]), [0.0], 20) == [(5, "update"), (6, "packet")]


def test_what_has_begun_is_tried_to_its_end(memory):
    """The packet fails from 1 to 4, three times; the update that is ready at 2 waits until it is through."""
    world = world_of(memory, packets([1]), [2.0], busy=lambda now: now < 4.5)
    assert order(world, [0.0], 20) == [(5, "packet"), (7, "update")]
    assert [row[-1] for row in world.heard] == [4, 1]


def test_neither_starves(memory):
    """A user that always has packets sends its update as soon as its turn has come, version after version."""
    traffic = Saturated.model_validate({"size": {"distribution": "fixed", "mean": 1.0}})
    world = world_of(memory, traffic, [0.5, 7.25])
    for version, at_s in enumerate(range(0, 100, 10)):
        world.env.run(until=at_s + 1e-3)
        world.ledger.open_round(version + 1)
        world.tower.schedule_broadcast(version, at_s + 0.1)
    world.env.run(until=120)
    told = Counter((user, what) for _, user, what, *_ in world.heard)
    assert (told[0, "update"], told[1, "update"]) == (10, 10)
    assert min(told[0, "packet"], told[1, "packet"]) >= 98, "120 s, less 20 s for updates"


def test_a_superseded_update_does_not_take_the_packet_with_it(memory):
    """A packet is on the air from 3 to 4; version 1 comes at 3.5 and replaces the update that waits."""
    world = world_of(memory, packets([3]), [3.25])
    assert order(world, [0.0, 3.5], 20) == [(4, "packet"), (8.75, "update")]
    assert world.memory.outcomes() == {(0, 0): ["superseded"], (0, 1): ["delivered"]}


def test_limits_are_for_each_frame(memory):
    world = world_of(memory, packets([1]), [1.5], busy=lambda now: True, limit=2)
    assert order(world, [0.0], 20) == []
    assert world.memory.outcomes() == {(0, 0): ["given_up collided"]}
    assert world.meter.lost == {"given_up": 1}
    assert world.cell.attempts == 4


def test_an_outage_puts_both_off(memory, planned):
    """Down from 2 to 30; the update is ready at 3, a packet at 2.5, another at 40."""
    presence = NodeState(CombinedOutages([planned({0: [(2.0, 30.0)]})]), 101)
    world = world_of(memory, packets([2.5, 40]), [3.0], presence=presence)
    told = order(world, [0.0], 60)
    assert sorted(what for _, what in told[:2]) == ["packet", "update"]
    assert (told[0][0] >= 31, told[1][0], told[2]) == (True, pytest.approx(33, abs=0.1), (41, "packet"))


@pytest.mark.slow
def test_every_update_has_one_fate_whatever_the_packets_do(memory, planned):
    """Random packets, versions, failures and outages: each update that began has ended once, each packet counted."""
    rng = np.random.default_rng(3)
    users = 6
    plan = {
        user: [(at, at + 3.0) for at in np.cumsum(rng.exponential(12.0, 40)) + 4 * np.arange(40)]
        for user in (0, 1, 100)
    }
    at = [np.round(np.cumsum(rng.exponential(3.0, 60)), 3).tolist() for _ in range(users)]
    presence = NodeState(CombinedOutages([planned(plan)]), 101)
    luck = np.random.default_rng(4)
    options = {"presence": presence, "limit": 3, "busy": lambda now: luck.random() < 0.4}
    world = world_of(memory, packets(*at), rng.exponential(4.0, users), **options)
    for version, at_s in enumerate(np.cumsum(rng.exponential(9.0, 15))):
        world.env.run(until=at_s)
        world.ledger.open_round(version + 1)
        world.tower.schedule_broadcast(version, at_s)
    world.env.run(until=250.0)
    world.tower.record_trainings()
    world.cell.finish()
    begun = Counter((row[3], row[5]) for row in memory.rows if row[0] == "received")
    ended = Counter((row[3], row[5]) for row in memory.rows if row[0] in OUTCOMES)
    assert begun == ended
    assert set(begun.values()) == {1}
    assert len({kind for kind, *_ in memory.rows if kind in OUTCOMES}) >= 3
    meter, came = world.meter, sum(sum(one < 250 for one in each) for each in at)
    assert meter.offered == came
    assert 0 <= came - meter.delivered - sum(meter.lost.values()) <= users * 60
    assert meter.delivered == sum(what == "packet" for _, _, what, *_ in world.heard)


@pytest.mark.parametrize("mac", [{"kind": "pure_aloha", "backoff": 0.02}, {"kind": "lorawan"}], ids=str)
@pytest.mark.slow
def test_a_new_version_does_not_make_a_user_send_what_is_on_the_air(monkeypatch, mac):
    """MACs that do not wait for the end of an attempt plan anew whoever is named; who is on the air must not be."""
    attempt, twice = Cell.attempt, []

    def watched(cell, users, **how):
        twice.extend(cell.env.now for user in np.asarray(users) if cell._queue.on_air[user])
        return attempt(cell, users, **how)

    monkeypatch.setattr(Cell, "attempt", watched)
    lora = mac["kind"] == "lorawan"
    network = NetworkAccess.model_validate(
        {
            "topology": {"kind": "star", "radius": 200.0},
            "radio": {"power": 14.0, "bandwidth": 125e3},
            "channel": [{"kind": "constant", "gain": -60.0}],
            "reception": {"kind": "lora"} if lora else {"kind": "snr_threshold", "threshold": 0.0, "rate": 1e4},
            "mac": mac,
            "traffic": {"kind": "poisson", "rate": 0.5, "size": {"mean": 400.0}},
            "compute": {"speed": 100.0, "samples": 100.0},
            "broadcast_rate": 1e6,
            "update_size": 400.0,
            "round": {"kind": "first", "deadline": 0.31},
        }
    )
    options = {"users": 6, "rounds": 200, "replica": 0, "samples": np.zeros(6), "recorder": NullRecorder()}
    assert (
        len([*network.rounds(AccessContext(streams=Streams(1), uplink_bits=0.0, downlink_bits=0.0, **options))]) == 200
    )
    assert twice == []
