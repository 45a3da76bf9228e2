"""Traffic in batches compared with the same traffic by events, on random networks.

Metrics, recorded times and delays agree to 1e-9 of their value, which allows other orders of sums.
"""

import numpy as np
import pytest

from netfl.network.backhaul import fast_path, traffic_sources
from netfl.network.backhaul.fast_path import FastPathPort
from netfl.network.config import NetworkConfig
from netfl.network.counters import PacketArray
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


def poisson_traffic(rate, source, size=EXPONENTIAL):
    return Poisson.model_validate({"rate": rate, "source": source, "size": size})


def random_tree(make_layout, rng, routers, towers):
    """Return a random tree in which every node is below the server or a router."""
    names = ["server", *(f"router:{i}" for i in range(routers)), *(f"tower:{i}" for i in range(towers))]
    links = [
        (name, names[rng.integers(min(index, routers) + 1)], rng.uniform(4e6, 8e6), rng.choice([0.0, 2e-3]))
        for index, name in enumerate(names[1:])
    ]
    towers_at = {name: (0.0, 0.0) for name in names if name.startswith("tower")}
    return make_layout(links, [(0.0, 0.0)], towers_at)


def build_config(layout, traffic, queue, queues=None, outages=None):
    """Build a network with traffic and without radio."""
    return NetworkConfig(
        layout=layout,
        medium=None,
        mac=None,
        shared_air=False,
        queue=queue,
        queues=queues or {},
        routing=ShortestPath(),
        outages=outages or CombinedOutages(),
        node_state=NodeState(outages or CombinedOutages(), layout.nodes),
        traffic=traffic,
        service=None,
    )


class BatchRecorder:
    """Recorder of results that wants no intermediate events."""

    def __init__(self):
        self.rows, self.metrics = [], {}

    def wants(self, kind):
        return False

    def final_metrics(self, values):
        self.metrics = dict(values)

    def record(self, event):
        columns = np.broadcast_arrays(event.time_s, event.user, event.value)
        self.rows.append((event.kind, event.round, event.node, event.detail, *map(np.array, columns)))


def run_traffic(config, monkeypatch, *, events, windows=3):
    """Return the recorder of a run of 6 s, the first of which is warm-up."""
    recorder = BatchRecorder()
    with monkeypatch.context() as patch:
        if events:
            patch.setattr(traffic_sources, "can_batch", lambda *args: False)
        simulation = NetworkSimulator(config, Streams(8), recorder)
        assert (simulation.fast_traffic is None) == events
        list(simulation.windows(windows, 6.0, 1.0))
    return recorder


def assert_same(first, second):
    assert first.metrics.keys() == second.metrics.keys()
    for name, value in first.metrics.items():
        assert value == pytest.approx(second.metrics[name], rel=1e-9, nan_ok=True), name
    assert [first_row[:4] for first_row in first.rows] == [first_row[:4] for first_row in second.rows]
    for first_row, second_row in zip(first.rows, second.rows, strict=True):
        for first_column, second_column in zip(first_row[4:], second_row[4:], strict=True):
            np.testing.assert_allclose(first_column, second_column, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("size", "capacity"), [(EXPONENTIAL, None), (EXPONENTIAL, 3), (FIXED, None)])
def test_batches_equal_events(make_layout, monkeypatch, seed, size, capacity):
    """Some links are overloaded, some have queues of their own, and several kinds of traffic are mixed."""
    rng = np.random.default_rng(seed)
    layout = random_tree(make_layout, rng, routers=4, towers=5)
    traffic = (
        poisson_traffic(120.0, "towers", size),
        poisson_traffic(60.0, "routers", size),
        poisson_traffic(30.0, "towers", size),
    )
    queues = {"router:0": DropTail(capacity=0), "tower:1": DropTail(capacity=1)} if capacity else {}
    config = build_config(layout, traffic, DropTail(capacity=capacity), queues)
    by_events, by_batches = (run_traffic(config, monkeypatch, events=events) for events in (True, False))
    assert by_events.metrics["delivered"] > 1000
    assert (by_events.metrics["lost.dropped"] > 0) == (capacity is not None)
    assert_same(by_events, by_batches)


@pytest.mark.slow
def test_results_are_independent_of_windows_and_batches(make_layout, monkeypatch):
    layout = random_tree(make_layout, np.random.default_rng(7), routers=3, towers=3)
    config = build_config(layout, (poisson_traffic(300.0, "towers"),), DropTail(capacity=5))
    single_window = run_traffic(config, monkeypatch, events=False, windows=1)
    monkeypatch.setattr(fast_path, "_PACKETS", 5)
    assert_same(single_window, run_traffic(config, monkeypatch, events=False, windows=1))
    in_windows = run_traffic(config, monkeypatch, events=False, windows=17)
    assert in_windows.metrics == pytest.approx(single_window.metrics, rel=1e-9)


def test_busy_time_at_any_time(make_layout):
    """Packets of 1000 bits arrive at 0, 0.5 and 0.75 s at 1 kb/s; the third is dropped."""
    port = FastPathPort("tower:0", 1000.0, 0.0, 1, EventLog(BatchRecorder(), 0, nodes=1))
    times_s = np.array([0.0, 0.5, 0.75])
    port.carry(PacketArray(times_s, np.full(3, 1000.0), times_s, *np.zeros((2, 3), np.int64)))
    assert port.busy_by_s(1.5) == 1.5
    assert port.take(1.5).time_s.tolist() == [1.0]
    assert port.busy_by_s(2.5) == 2.0
    assert port.take(2.5).time_s.tolist() == [2.0]


def test_traffic_that_could_differ_runs_by_events(make_layout, monkeypatch, recorder, planned_outages):
    layout = random_tree(make_layout, np.random.default_rng(1), routers=2, towers=2)
    traffic, limited = (poisson_traffic(50.0, "towers"),), DropTail(capacity=2)
    fixed_size, constant = (
        (poisson_traffic(50.0, "towers", FIXED),),
        (Constant.model_validate({"every": "10 ms", "source": "towers"}),),
    )

    def is_fast(*args, listener=None, **options):
        config = build_config(layout, *args, **options)
        simulator = NetworkSimulator(config, Streams(8), listener or BatchRecorder())
        return simulator.fast_traffic is not None

    assert is_fast(traffic, limited)
    assert is_fast(fixed_size, DropTail())
    assert not is_fast(fixed_size, limited), "packets of one size arrive exactly when others leave"
    assert not is_fast(fixed_size, DropTail(), queues={"router:0": limited})
    assert not is_fast(constant, DropTail()), "two towers may send at the same time"
    assert not is_fast(traffic, DropTail(capacity_bytes=4000))
    assert not is_fast(traffic, Priority())
    assert not is_fast(traffic, limited, queues={"router:0": Priority()})
    assert not is_fast(traffic, limited, outages=CombinedOutages([planned_outages({3: [(1.0, 2.0)]})]))
    assert not is_fast(traffic, limited, listener=recorder), "a recorder of all hops needs events"
