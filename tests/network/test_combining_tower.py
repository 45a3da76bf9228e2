"""A tower that combines the updates that it relays, added from outside: by a sink, and a message that ends itself."""

from collections import Counter
from dataclasses import dataclass

import pytest
from support.small_network import make

from netfl.network.backhaul.routes import Routes
from netfl.network.updates import Update, UpdateCarrier
from netfl.types import OUTCOMES


@dataclass(slots=True, eq=False, kw_only=True)
class Bundle(UpdateCarrier):
    """Several updates as one message of the size of one, such as their sum."""

    updates: tuple[Update, ...]

    def end(self, log, ending, time_s):
        for update in self.updates:
            update.end(log, ending, time_s)

    def arrive(self, server):
        for update in self.updates:
            update.arrive(server)


class CombiningSink:
    """Holds updates until there are *size* of them, and passes these on together; `bundles` are their (user, base)."""

    def __init__(self, onward, size):
        self.onward, self.size, self.held, self.bundles = onward, size, [], []

    def __call__(self, message):
        self.held.append(message)
        if len(self.held) == self.size:
            first = self.held[0]
            self.onward(Bundle(first.user, first.bits, first.flow, updates=tuple(self.held)))
            self.bundles.append([(update.user, update.base) for update in self.held])
            self.held.clear()


@pytest.fixture
def combine_at(monkeypatch):
    """Let a tower of the next networks combine *size* updates each; return the list of its sinks."""

    def combine(tower, size):
        opened, open_ports = [], Routes.open_ports

        def open_combining_ports(routes, server):
            sinks = open_ports(routes, server)
            sinks[tower] = CombiningSink(sinks[tower], size)
            opened.append(sinks[tower])
            return sinks

        monkeypatch.setattr(Routes, "open_ports", open_combining_ports)
        return opened

    return combine


def outcomes_of(log):
    """Return the outcomes of each update, by user and base."""
    outcomes = {}
    for kind, _, _, user, _, base, _ in log.rows:
        if kind in OUTCOMES:
            outcomes.setdefault((user, base), []).append(kind)
    return outcomes


NETWORK = {
    "topology": {"kind": "tree", "fanout": [1, 2], "ring": "1 km", "radius": "2 km", "rate": "500 bps", "delay": 0.1},
    "round": {"kind": "first", "m": 5, "deadline": 40.0},
}
"""Eight users at two towers behind one router: an update takes 1 s on the air and 2 s on each of two links."""
UP, DOWN = {"distribution": "exponential", "mean": 20.0}, {"distribution": "exponential", "mean": 10.0}
ENDS = {
    "delivered": {},
    "late": {"round": {"kind": "first", "m": 3, "deadline": 40.0}},
    "discarded": {"round": {"kind": "quorum", "quorum": 1.0, "deadline": 15.0, "min_share": 0.9}},
    "dropped": {"queue": {"kind": "drop_tail", "capacity": 1}},
    "lost": {"outages": [{"kind": "renewal", "nodes": "links", "up": UP, "down": DOWN}]},
}
"""Changes of the network that let some bundles end in each of these ways."""


@pytest.mark.parametrize("ending", ENDS)
def test_every_combined_update_has_exactly_one_outcome(combine_at, ending):
    sinks = combine_at("tower:0", 2)
    access, context, log = make(8, 12, **(NETWORK | ENDS[ending]))
    rounds = [*access.rounds(context)]
    outcomes = outcomes_of(log)
    received = {(user, version) for kind, _, _, user, _, version, _ in log.rows if kind == "received"}
    assert outcomes.keys() == received, "each version that a user receives begins an update"
    assert {len(kinds) for kinds in outcomes.values()} == {1}
    delivered = {(delivery.user, delivery.base) for result in rounds for delivery in result.deliveries}
    assert delivered == {update for update, kinds in outcomes.items() if kinds == ["delivered"]}
    [sink] = sinks
    bundled = [outcomes[update] for bundle in sink.bundles for update in bundle]
    assert [ending] in bundled


@pytest.mark.parametrize("ending", ENDS)
def test_a_tower_that_combines_one_update_changes_nothing(combine_at, ending):
    """But for the tower's name in events of its port, as it is the bundle that is forwarded."""
    found = []
    for combines in (False, True):
        if combines:
            sinks = combine_at("tower:0", 1)
        access, context, log = make(8, 12, **(NETWORK | ENDS[ending]))
        rounds = [*access.rounds(context)]
        found.append((rounds, [row for row in log.rows if row[0] in OUTCOMES]))
    assert found[0] == found[1]
    assert len(sinks[0].bundles) > 10


def test_combined_updates_arrive_together_and_share_the_link(combine_at):
    sinks = combine_at("tower:0", 2)
    access, context, log = make(8, 6, **NETWORK)
    arrived_s = {
        (delivery.user, delivery.base): delivery.arrived_s
        for result in access.rounds(context)
        for delivery in result.deliveries
    }
    pairs = [bundle for bundle in sinks[0].bundles if bundle[0] in arrived_s and bundle[1] in arrived_s]
    assert len(pairs) >= 3
    assert all(arrived_s[first] == arrived_s[second] for first, second in pairs)
    forwarded = sum(kind == "forwarded" and node == "tower:0" for kind, _, _, _, node, *_ in log.rows)
    assert forwarded <= len(sinks[0].bundles)


def test_update_that_waits_for_another_is_unfinished_at_the_end(combine_at):
    combine_at("tower:0", 1000)
    access, context, log = make(8, 3, **NETWORK)
    for _ in access.rounds(context):
        pass
    ends = Counter(kind for kinds in outcomes_of(log).values() for kind in kinds)
    assert ends["unfinished"] > 0
    assert ends["delivered"] > 0, "those of the other tower"
