"""Traffic in batches against the same traffic by events, on random worlds: the same figures, the same record.

Figures agree to 1e-9 of their value, which leaves room for sums in another order; so do recorded times and delays.
"""

import numpy as np
import pytest

from netfl.network.backhaul import fast_path, traffic_sources
from netfl.network.backhaul.fast_path import FastPathPort, PacketArray
from netfl.network.config import NetworkConfig
from netfl.network.event_log import EventLog
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.queue.drop_tail import DropTail
from netfl.network.queue.priority import Priority
from netfl.network.routing.shortest_path import ShortestPath
from netfl.network.simulator import NetworkSimulator
from netfl.network.traffic.constant import Constant
from netfl.network.traffic.poisson import Poisson
from netfl.streams import Streams

EXPONENTIAL = {"distribution": "exponential", "mean": "1 kB"}
FIXED = {"distribution": "fixed", "mean": "1 kB"}


def poisson(rate, enters, size=EXPONENTIAL):
    return Poisson.model_validate({"rate": rate, "source": enters, "size": size})


def tree(make_sites, rng, routers, towers):
    """A random tree; every node hangs below the server or a router."""
    names = ["server", *(f"router:{i}" for i in range(routers)), *(f"tower:{i}" for i in range(towers))]
    links = [
        (name, names[rng.integers(min(index, routers) + 1)], rng.uniform(4e6, 8e6), rng.choice([0.0, 2e-3]))
        for index, name in enumerate(names[1:])
    ]
    towers_at = {name: (0.0, 0.0) for name in names if name.startswith("tower")}
    return make_sites(links, [(0.0, 0.0)], towers_at)


def parts_of(sites, traffic, queue, queues=None, outages=None):
    """Traffic alone, without any air."""
    return NetworkConfig(
        layout=sites,
        medium=None,
        mac=None,
        shared_air=False,
        queue=queue,
        queues=queues or {},
        routing=ShortestPath(),
        outages=outages or CombinedOutages(),
        node_state=NodeState(outages or CombinedOutages(), sites.nodes),
        traffic=traffic,
        service=None,
    )


class Deaf:
    """Keeps what it is told, but wants no steps on the way."""

    def __init__(self):
        self.rows, self.told = [], {}

    def wants(self, kind):
        return False

    def final_metrics(self, values):
        self.told = dict(values)

    def event(self, kind, time_s, *, round, user=-1, node="", value=np.nan, detail=""):
        columns = np.broadcast_arrays(time_s, user, value)
        self.rows.append((kind, round, node, detail, *map(np.array, columns)))


def played(parts, monkeypatch, *, events, windows=3):
    """What is told of 6 s, the first of them warm-up."""
    recorder = Deaf()
    with monkeypatch.context() as patch:
        if events:
            patch.setattr(traffic_sources, "can_batch", lambda *told: False)
        world = NetworkSimulator(parts, Streams(8), recorder)
        assert (world._fast_traffic is None) == events
        list(world.windows(windows, 6.0, 1.0))
    return recorder


def assert_same(one, other):
    assert one.told.keys() == other.told.keys()
    for name, value in one.told.items():
        assert value == pytest.approx(other.told[name], rel=1e-9, nan_ok=True), name
    assert [row[:4] for row in one.rows] == [row[:4] for row in other.rows]
    for row, same in zip(one.rows, other.rows, strict=True):
        for column, equal in zip(row[4:], same[4:], strict=True):
            np.testing.assert_allclose(column, equal, rtol=1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("size", "capacity"), [(EXPONENTIAL, None), (EXPONENTIAL, 3), (FIXED, None)])
def test_batches_are_events(make_sites, monkeypatch, seed, size, capacity):
    """Some links are overloaded, some have rooms of their own, two kinds of traffic meet."""
    rng = np.random.default_rng(seed)
    sites = tree(make_sites, rng, routers=4, towers=5)
    traffic = (poisson(120.0, "towers", size), poisson(60.0, "routers", size), poisson(30.0, "towers", size))
    queues = {"router:0": DropTail(capacity=0), "tower:1": DropTail(capacity=1)} if capacity else {}
    parts = parts_of(sites, traffic, DropTail(capacity=capacity), queues)
    slow, fast = (played(parts, monkeypatch, events=events) for events in (True, False))
    assert slow.told["delivered"] > 1000
    assert (slow.told["lost.dropped"] > 0) == (capacity is not None)
    assert_same(slow, fast)


@pytest.mark.slow
def test_neither_windows_nor_stretches_matter(make_sites, monkeypatch):
    sites = tree(make_sites, np.random.default_rng(7), routers=3, towers=3)
    parts = parts_of(sites, (poisson(300.0, "towers"),), DropTail(capacity=5))
    whole = played(parts, monkeypatch, events=False, windows=1)
    monkeypatch.setattr(fast_path, "_PACKETS", 5)
    assert_same(whole, played(parts, monkeypatch, events=False, windows=1))
    apart = played(parts, monkeypatch, events=False, windows=17)
    assert apart.told == pytest.approx(whole.told, rel=1e-9)


def test_time_in_use_at_any_instant(make_sites):
    """Of packets of 1000 bits at 1 kb/s that come at 0, 0.5 and 0.75 s, the third finds one waiting, and no room."""
    line = FastPathPort("tower:0", 1000.0, 0.0, 1, EventLog(Deaf(), 0, nodes=1))
    times_s = np.array([0.0, 0.5, 0.75])
    line.carry(PacketArray(times_s, np.full(3, 1000.0), times_s, np.zeros(3, np.int64)))
    assert line.busy_by_s(1.5) == 1.5
    assert line.take(1.5).time_s.tolist() == [1.0]
    assert line.busy_by_s(2.5) == 2.0
    assert line.take(2.5).time_s.tolist() == [2.0]


def test_whatever_could_differ_goes_by_events(make_sites, monkeypatch, memory, planned):
    sites = tree(make_sites, np.random.default_rng(1), routers=2, towers=2)
    good, room = (poisson(50.0, "towers"),), DropTail(capacity=2)
    even, steps = (poisson(50.0, "towers", FIXED),), (Constant.model_validate({"every": "10 ms", "source": "towers"}),)

    def fast(*told, recorder=None, **options):
        return (
            NetworkSimulator(parts_of(sites, *told, **options), Streams(8), recorder or Deaf())._fast_traffic
            is not None
        )

    assert fast(good, room)
    assert fast(even, DropTail())
    assert not fast(even, room), "packets of one size come just when others leave"
    assert not fast(even, DropTail(), queues={"router:0": room})
    assert not fast(steps, DropTail()), "two towers may send at one instant"
    assert not fast(good, DropTail(capacity_bytes=4000))
    assert not fast(good, Priority())
    assert not fast(good, room, queues={"router:0": Priority()})
    assert not fast(good, room, outages=CombinedOutages([planned({3: [(1.0, 2.0)]})]))
    assert not fast(good, room, recorder=memory), "who records every hop gets every hop"
