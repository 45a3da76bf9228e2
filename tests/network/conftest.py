"""Fixtures for small networks: planned outages, an event recorder, scripted links and one radio cell."""

from __future__ import annotations

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
from support.recorders import Memory

from netfl.network.clock import Clock
from netfl.network.event_log import EventLog
from netfl.network.layout import Layout, NodeId
from netfl.network.outage import NodeAvailability
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.radio.cell import Cell
from netfl.network.radio.connection import Connection
from netfl.network.radio.fading_medium import FadingMedium
from netfl.network.radio.medium import AirInterface
from netfl.network.radio.present_values import PresentValues
from netfl.network.radio.transmission import SharedChannel
from netfl.network.radio.update_queue import UpdateQueue
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.network.tower import Tower
from netfl.network.updates import OutstandingUpdates
from netfl.network.users import UserPopulation
from netfl.streams import Streams
from netfl.types import OUTCOMES


class EventRecorder(Memory):
    """Recorder of all events with queries for the tests of the network."""

    def events(self, *kinds):
        """Return (time_s, user) of the events of these kinds, in order of time."""
        return sorted((row[1], row[3]) for row in self.rows if row[0] in kinds)

    def outcomes(self):
        """Return the outcomes of each update, by (user, base)."""
        outcomes = {}
        for kind, _, _, user, _, base, detail in self.rows:
            if kind in OUTCOMES:
                outcomes.setdefault((user, base), []).append(f"{kind} {detail}".strip())
        return outcomes


class PlannedOutages(NodeAvailability):
    """Outages of nodes in the stated intervals [start, end)."""

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
        return np.array([min(ends, default=np.inf) for ends in edges], float)


class ScriptedLinks:
    """Links whose SNR in dB is a function of the users and the time."""

    bandwidth_hz = 1e5
    power_offset_db = None

    def __init__(self, snr_db, users=1):
        self._snr_db, self.users = snr_db, users

    def delay_s(self, users, time_s, tower=""):
        return None

    def snr_db(self, users, time_s, tower=""):
        return np.asarray(self._snr_db(users, time_s), float)


RECEPTION = SnrThreshold(threshold=-3, rate=1000)


def build_cell(
    users,
    *,
    plan=None,
    snr_db=lambda users, time_s: np.zeros(len(users)),
    compute_s=0.0,
    seed=1,
    reception=RECEPTION,
    **options,
):
    """Build a cell whose tower is node 100; `sent_on` lists what the tower forwards.

    Frames have 1,000 bits, and so airtimes of 1 s at the rate of the default reception.
    """
    env, recorder, sent_on = Clock(), EventRecorder(), []
    event_log = EventLog(recorder, users)
    event_log.open_round(1)
    compute_s = np.broadcast_to(np.asarray(compute_s, float), users)
    outstanding = OutstandingUpdates(users)
    queue = UpdateQueue(np.arange(users), 1000.0, "tower:0", event_log, outstanding)
    updates = UserPopulation(queue, compute_s)
    presence = NodeState(CombinedOutages([PlannedOutages(plan or {})]), 101)
    medium = FadingMedium(ScriptedLinks(snr_db, users), reception, Connection(presence), Streams(seed), **options)
    air = AirInterface(NodeId("tower:0", 100), medium, SharedChannel())
    cell = Cell(
        env,
        air,
        queue,
        streams=Streams(seed).at("mac", 0),
        uplink=lambda message: sent_on.append((env.now, message)),
    )
    tower = Tower(cell, updates, PresentValues(env, air, queue))
    parts = {
        "recorder": recorder,
        "event_log": event_log,
        "updates": updates,
        "outstanding": outstanding,
        "sent_on": sent_on,
    }
    return SimpleNamespace(env=env, cell=cell, tower=tower, **parts)


def build_layout(links, users_at, towers_at):
    """Build a layout with the stated links (from, to, rate, delay), users and towers."""
    graph = nx.Graph()
    for first, second, rate_bps, delay_s in links:
        for name in (first, second):
            x, y = towers_at.get(name, (0.0, 0.0))
            graph.add_node(name, role=name.partition(":")[0], x_m=x, y_m=y)
        graph.add_edge(first, second, rate_bps=rate_bps, delay_s=delay_s)
    return Layout(graph, np.array(users_at, float))


@pytest.fixture
def recorder():
    return EventRecorder()


@pytest.fixture
def planned_outages():
    return PlannedOutages


@pytest.fixture
def make_cell():
    return build_cell


@pytest.fixture
def make_layout():
    return build_layout


@pytest.fixture
def scripted_links():
    return ScriptedLinks


@pytest.fixture
def assert_mac_sleeps(make_cell):
    """Check that a MAC needs few events while its tower is down for a million slots, and sends again afterwards."""

    def check(mac):
        simulation = make_cell(4, plan={100: [(10.5, 1e6)]}, compute_s=12.0)
        simulation.env.process(mac.serve(simulation.cell))
        simulation.tower.schedule_broadcast(0, 0.0)
        events = 0
        while len(simulation.sent_on) < 4:
            simulation.env.step()
            events += 1
        assert events < 500
        assert min(time_s for time_s, _ in simulation.recorder.events("sent")) >= 1e6

    return check
