"""An edge over the air from outside netfl: a tower sums the bits of updates, and sends one message on to the server."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from support.small_network import make

from netfl.network.build import build_network
from netfl.network.event_log import Ending
from netfl.network.simulator import NetworkSimulator
from netfl.network.updates import Update, UpdateCarrier
from netfl.types import OUTCOMES

USERS = 12
TOWERS = 4
ROUNDS = 6
BEHIND_TOWERS = {
    "topology": {
        "kind": "tree",
        "fanout": [TOWERS],
        "ring": "500 m",
        "radius": "300 m",
        "rate": "2 kbps",
        "delay": "5 ms",
    },
    "channel": [{"kind": "log_distance", "exponent": 2.5, "frequency": "868 MHz"}],
    "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "20 kbps"},
    "radio": {"power": "30 dBm", "bandwidth": "125 kHz"},
    "mac": "round_robin",
}
RULES = {
    "all": {"round": {"kind": "first", "m": USERS}},
    "first": {"round": {"kind": "first", "m": 6, "deadline": "1 min"}, "on_new_version": "finish", "staleness": 2},
    "deadline": {"round": {"kind": "available", "deadline": "3 s"}},
    "buffered": {"round": {"kind": "buffered", "size": 4}},
}


@dataclass(slots=True, eq=False, kw_only=True)
class Bundle(UpdateCarrier):
    """Updates from one version that an edge has combined; it ends as all of them end."""

    updates: tuple[Update, ...]

    def end(self, log, ending, time_s):
        for update in self.updates:
            update.end(log, ending, time_s)

    def arrive(self, server):
        for update in self.updates:
            server.receive(update)


class Edge:
    """Combines *count* updates from one version into one message of the size of one update, before the port *sink*."""

    def __init__(self, node, simulator, count, bits, sink):
        self._node = node
        self._env = simulator.env
        self._log = simulator._log
        self._count = count
        self._bits = bits
        self._sink = sink
        self._held = []

    def take(self, message):
        if isinstance(message, UpdateCarrier):
            message.arrive(self)
        else:
            self._sink(message)

    def receive(self, update):
        if self._held and update.base < self._held[0].base:
            update.end(self._log, Ending("late", self._node.name), self._env.now)
            return
        if self._held and update.base > self._held[0].base:
            for old in self._held:
                old.end(self._log, Ending("superseded", self._node.name), self._env.now)
            self._held = []
        self._held.append(update)
        if len(self._held) == self._count:
            updates, self._held = tuple(self._held), []
            self._sink(Bundle(self._node.number, self._bits, self._node.number, updates=updates))


def simulate(rule, count):
    """Return the rounds of a network with an edge at each tower, and its recorder.

    An edge combines *count* updates, or one of each of its users; with a count of 0 there is none.
    """
    access, context, log = make(USERS, ROUNDS, 1, **BEHIND_TOWERS | RULES[rule])
    simulator = NetworkSimulator(build_network(access, context), context.streams, context.recorder)
    for tower in simulator._towers.values():
        for cell in tower.cells if count else ():
            path = cell.transmit_path
            bits = simulator._config.service.update_bits
            path._uplink = Edge(cell.tower, simulator, min(count, len(cell.ids)), bits, path._uplink).take
    return [*simulator.rounds(ROUNDS)], log


@pytest.mark.parametrize(
    ("rule", "count"),
    [("all", USERS), ("first", 2), ("first", 3), ("deadline", 2), ("deadline", 3), ("buffered", 2), ("buffered", 3)],
)
def test_every_update_that_an_edge_takes_has_one_outcome(rule, count):
    rounds, log = simulate(rule, count)
    begun = Counter((row[3], row[5]) for row in log.rows if row[0] == "received")
    ended = Counter((row[3], row[5]) for row in log.rows if row[0] in OUTCOMES)
    assert begun == ended
    assert sum(len(each.deliveries) for each in rounds) >= ROUNDS


@pytest.mark.parametrize("rule", RULES)
def test_an_edge_that_combines_one_update_changes_nothing(rule):
    """But for the sender of a message at the port, which no table but that of events names."""
    with_edge, without = simulate(rule, 1), simulate(rule, 0)
    assert with_edge[0] == without[0]
    outcomes = [[row for row in log.rows if row[0] in OUTCOMES] for _, log in (with_edge, without)]
    assert outcomes[0] == outcomes[1]


def test_the_backhaul_carries_one_update_for_all_of_an_edge():
    """All twelve users deliver in each round; each of the towers sends one message on, and rounds are shorter."""
    with_edge, log = simulate("all", USERS)
    without, log_without = simulate("all", 0)
    assert [len(each.deliveries) for each in with_edge] == [len(each.deliveries) for each in without] == [12] * ROUNDS
    forwarded = [sum(row[0] == "forwarded" for row in each.rows) for each in (log, log_without)]
    assert forwarded == [TOWERS * ROUNDS, USERS * ROUNDS]
    lengths_s = [np.mean([each.closed_s - each.opened_s for each in rounds]) for rounds in (with_edge, without)]
    assert lengths_s[0] < lengths_s[1]
