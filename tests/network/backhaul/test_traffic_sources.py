"""Packets that towers and routers send enter the network at their times."""

from types import SimpleNamespace

import numpy as np
import pytest
from support.recorders import Memory

from netfl.access.network import NetworkAccess
from netfl.errors import ScenarioError
from netfl.network.backhaul.traffic_sources import Sender, inject_packets
from netfl.network.clock import Clock
from netfl.network.event_log import EventLog
from netfl.network.message import Packet
from netfl.streams import Streams
from netfl.types import AccessContext


def inject(*blocks, until_s=1e9):
    """Return the packets that enter, with their times, and the packet counter."""
    env, packets = Clock(), []
    recorder = SimpleNamespace(wants=lambda kind: False)
    event_log = EventLog(recorder, 1, nodes=9)
    remaining = iter([(np.array(times_s, float), np.array(bits, float)) for times_s, bits in blocks])
    inject_packets(env, remaining, Sender(5, 77, 2), lambda message: packets.append((env.now, message)), event_log)
    env.run(until=until_s)
    return packets, event_log.packets


def test_packets_enter_at_their_times_with_their_sizes():
    packets, counter = inject(([0.0, 1.5], [8, 16]), ([], []), ([1.5, 7.25], [24, 32]))
    assert [(time_s, packet.bits, packet.born_s) for time_s, packet in packets] == [
        (0, 8, 0),
        (1.5, 16, 1.5),
        (1.5, 24, 1.5),
        (7.25, 32, 7.25),
    ]
    assert {(type(packet), packet.user, packet.flow, packet.priority) for _, packet in packets} == {(Packet, 5, 77, 2)}
    assert (counter.offered, counter.offered_bits) == (4, 80)
    assert len({id(packet) for _, packet in packets}) == 4


def test_blocks_are_read_on_demand():
    packets, counter = inject(([1.0, 2.0, 3.0], [1, 1, 1]), until_s=2.5)
    assert (len(packets), counter.offered) == (2, 2)
    assert inject()[0] == []


def test_entry_times_are_exact_and_ordered():
    times_s = np.sort(np.random.default_rng(2).random(3000)).repeat(2) * 1e3 + 1e5
    packets, _ = inject((times_s, np.ones(6000)))
    at_s = np.array([time_s for time_s, _ in packets])
    assert (np.diff(at_s) >= 0).all()
    np.testing.assert_allclose(at_s, times_s, rtol=1e-15, atol=0)


NODES = {
    "server": {"role": "server", "position": [0, 0]},
    "router:0": {"role": "router", "position": [100, 0]},
    "router:1": {"role": "router", "position": [100, 100]},
    "tower:0": {"role": "tower", "position": [200, 0]},
}
LINKS = [("tower:0", "router:0"), ("router:0", "server"), ("tower:0", "router:1"), ("router:1", "server")]


def metrics_of(folder, outages, routing, *, source="towers", links=LINKS, duration_s=10.0):
    """Return the metrics of one packet a second from each source, over two routers, of which some nodes are down."""
    rows = [f"{node},{a},{b}" for node, a, b in outages]
    (folder / "away.csv").write_text("\n".join(["node,start_s,end_s", *rows, ""]))
    access = NetworkAccess.model_validate(
        {
            "topology": {
                "kind": "inline",
                "nodes": NODES,
                "links": [{"between": link, "rate": 1e6, "delay": 0.001} for link in links],
                "placement": {"kind": "disk", "radius": "10 m"},
            },
            "routing": routing,
            "traffic": {"kind": "constant", "every": 1.0, "source": source, "size": {"mean": "100 B"}},
            "outages": [{"kind": "calendar", "file": str(folder / "away.csv")}] if outages else [],
        }
    )
    log = Memory()
    context = AccessContext(1, 1, 0, Streams(5), np.ones(1), 0.0, 0.0, log, duration_s=duration_s)
    list(access.rounds(context))
    return log.final_values


ROUTING = {"kind": "shortest_path", "metric": "delay", "convergence": 0.0}


@pytest.mark.parametrize("split", [None, "flow", "message"])
def test_packets_without_a_route_at_time_0_are_lost(split, tmp_path):
    """In the first half both routers are down and packets are lost at the tower; then one router carries them."""
    outages = [("router:0", 0, 5), ("router:1", 0, 100)]
    metrics = metrics_of(tmp_path, outages, ROUTING | {"split": split})
    assert (metrics["lost.lost"], metrics["delivered"]) == (5, 5)


def test_packets_of_a_router_that_is_down_at_time_0_are_lost(tmp_path):
    metrics = metrics_of(tmp_path, [("router:0", 0, 100)], ROUTING, source="routers")
    assert (metrics["lost.lost"], metrics["delivered"]) == (10, 10)


def test_packets_on_a_static_route_that_is_down_are_lost(tmp_path):
    routing = {"kind": "static", "next": {"tower:0": "router:0", "router:0": "server"}}
    metrics = metrics_of(tmp_path, [("router:0", 0, 100)], routing)
    assert (metrics["lost.lost"], metrics["delivered"]) == (10, 0)


@pytest.mark.parametrize(
    ("routing", "links"),
    [
        ({"kind": "static", "next": {"tower:0": "router:0", "router:0": "server"}}, LINKS),
        ({"kind": "shortest_path"}, LINKS[:2]),
        (ROUTING, LINKS[:2]),
    ],
)
@pytest.mark.parametrize("outages", [[], [("router:0", 0, 1)]])
def test_senders_that_never_have_a_route_are_an_error(routing, links, outages, tmp_path):
    with pytest.raises(ScenarioError, match="no route leads from router:1 to server"):
        metrics_of(tmp_path, outages, routing, source="routers", links=links)
