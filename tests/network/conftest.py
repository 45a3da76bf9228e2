"""Small worlds under full control: planned outages, a recorder that keeps all, one cell with a scripted air."""

from __future__ import annotations

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import simpy
from support.recorders import Memory as Recorder

from netfl.network.event_log import EventLog
from netfl.network.layout import Layout, NodeId
from netfl.network.outage import NodeAvailability
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.radio.cell import AirInterface, Cell
from netfl.network.radio.fading_medium import FadingMedium
from netfl.network.radio.transmission import SharedChannel
from netfl.network.radio.update_queue import UpdateQueue
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.network.server import OutstandingUpdates
from netfl.network.tower import Tower
from netfl.network.users import UserPopulation
from netfl.streams import Streams
from netfl.types import OUTCOMES


class Memory(Recorder):
    """What tests of the network ask of a record."""

    def of(self, *kinds):
        """(time_s, user) of the events of these kinds, in order of time."""
        return sorted((row[1], row[3]) for row in self.rows if row[0] in kinds)

    def outcomes(self):
        """The outcomes of each (user, base)."""
        told = {}
        for kind, _, _, user, _, base, detail in self.rows:
            if kind in OUTCOMES:
                told.setdefault((user, base), []).append(f"{kind} {detail}".strip())
        return told


class Planned(NodeAvailability):
    """Nodes that are down in the stated intervals [start, end)."""

    def __init__(self, plan):
        self.plan = plan

    def up(self, nodes, time_s):
        times = np.broadcast_to(time_s, len(nodes))
        return np.array(
            [not any(a <= t < b for a, b in self.plan.get(int(n), [])) for n, t in zip(nodes, times, strict=True)],
            bool,
        )

    def next_change(self, nodes, time_s):
        times = np.broadcast_to(time_s, len(nodes))
        edges = (
            [t2 for span in self.plan.get(int(n), []) for t2 in span if t2 > t]
            for n, t in zip(nodes, times, strict=True)
        )
        return np.array([min(one, default=np.inf) for one in edges], float)


class Air:
    """Links whose SNR in dB is a function of (users, time)."""

    radio = SimpleNamespace(bandwidth=1e5)

    def __init__(self, snr_db, users=1):
        self._snr_db, self.users = snr_db, users

    def delay_s(self, users, time_s):
        return None

    def snr_db(self, users, time_s, tower=""):
        return np.asarray(self._snr_db(users, time_s), float)


def cell_of(users, *, plan=None, snr_db=lambda users, time_s: np.zeros(len(users)), compute_s=0.0, seed=1, **options):
    """A cell of one-second airtimes whose tower is node 100; `sent_on` takes what got through."""
    env, memory, sent_on = simpy.Environment(0.0), Memory(), []
    ledger = EventLog(memory, users)
    ledger.open_round(1)
    compute_s = np.broadcast_to(np.asarray(compute_s, float), users)
    queue, outstanding = UpdateQueue(np.arange(users), 1000.0, "tower:0", ledger), OutstandingUpdates(users)
    ledger.on_updates_end = outstanding.end
    updates = UserPopulation(queue, compute_s, outstanding)
    presence = NodeState(CombinedOutages([Planned(plan or {})]), 101)
    reception = SnrThreshold(threshold=-3, rate=1000)
    medium = FadingMedium(Air(snr_db, users), reception, presence, Streams(seed), **options)
    cell = Cell(
        env,
        AirInterface(NodeId("tower:0", 100), medium, SharedChannel()),
        queue,
        streams=Streams(seed).at("mac", 0),
        uplink=lambda message: sent_on.append((env.now, message)),
    )
    tower = Tower(cell, updates, medium)
    told = {"memory": memory, "ledger": ledger, "updates": updates, "outstanding": outstanding, "sent_on": sent_on}
    return SimpleNamespace(env=env, cell=cell, tower=tower, **told)


def sites_of(links, users_at, towers_at):
    """Sites with the stated links (from, to, rate, delay), users and towers."""
    graph = nx.Graph()
    for one, other, rate_bps, delay_s in links:
        for name in (one, other):
            x, y = towers_at.get(name, (0.0, 0.0))
            graph.add_node(name, role=name.partition(":")[0], x_m=x, y_m=y)
        graph.add_edge(one, other, rate_bps=rate_bps, delay_s=delay_s)
    return Layout(graph, np.array(users_at, float))


@pytest.fixture
def memory():
    return Memory()


@pytest.fixture
def planned():
    return Planned


@pytest.fixture
def make_cell():
    return cell_of


@pytest.fixture
def make_sites():
    return sites_of


@pytest.fixture
def make_air():
    return Air


@pytest.fixture
def sleeps(make_cell):
    """Holds a MAC to it that a million slots of a dead tower cost next to no events, and are over when it is back."""

    def hold(mac):
        world = make_cell(4, plan={100: [(10.5, 1e6)]}, compute_s=12.0)
        world.env.process(mac.serve(world.cell))
        world.tower.schedule_broadcast(0, 0.0)
        steps = 0
        while len(world.sent_on) < 4:
            world.env.step()
            steps += 1
        assert steps < 500
        assert min(time_s for time_s, _ in world.memory.of("sent")) >= 1e6

    return hold
