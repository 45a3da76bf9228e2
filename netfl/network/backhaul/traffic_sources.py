"""Traffic of towers and routers: packets enter their ports as they arrive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx
import simpy

from netfl.core.kinds import stream_keys
from netfl.errors import Fault, ScenarioError
from netfl.network.backhaul.fast_path import FastPathTraffic, can_batch
from netfl.network.backhaul.port import Sink
from netfl.network.backhaul.routes import Routes
from netfl.network.clock import Clock, Timer
from netfl.network.config import NetworkConfig
from netfl.network.event_log import EventLog
from netfl.network.layout import Layout
from netfl.network.message import Packet
from netfl.network.traffic import Block, Traffic, class_names
from netfl.streams import Streams


@dataclass(frozen=True, slots=True)
class Sender:
    """Sender of packets.

    Args:
        flow: key of fair queues.
        traffic: name of its class of traffic.
    """

    node: int
    flow: int
    priority: int
    traffic: str = ""


def start_sources(
    config: NetworkConfig, env: Clock, log: EventLog, streams: Streams, sinks: Mapping[str, Sink], routes: Routes
) -> FastPathTraffic | None:
    """Start all traffic of towers and routers, as events at *sinks* or, where that gives the same, in the result.

    Raises:
        ScenarioError: a sender never has a route to the server, or sends too many packets per second; keys are those of
            the network.
    """
    layout = config.layout
    faults = [*_unconnected_faults(layout, config.traffic, sinks)]
    if faults:
        raise ScenarioError(faults)
    fast_traffic = None
    if can_batch(config, log, routes):
        fast_traffic = FastPathTraffic(layout, log, routes)
    keys = stream_keys(config.traffic)
    names = class_names(config.traffic)
    for index, (traffic, key) in enumerate(zip(config.traffic, keys, strict=True)):
        if traffic.source == "users":  # their packets wait for the air
            continue
        for name in layout.with_role(traffic.source.removesuffix("s")):
            node = layout.number(name)
            first, after = routes.default_route(name, 0.0)[:2]  # packets without a present route are lost at the node
            rate_bps = layout.graph.edges[first, after]["rate_bps"]
            traffic.check_rate(rate_bps, f"traffic.{index}")
            blocks = traffic.blocks(node, rate_bps, streams.at("traffic", *key))
            if fast_traffic is None:
                sender = Sender(node, node + index * layout.nodes, traffic.priority, names[index])
                inject_packets(env, blocks, sender, sinks[name], log)
            else:
                fast_traffic.enter(name, index, blocks, traffic.rate_hz(rate_bps) or 0.0)
    return fast_traffic


def _unconnected_faults(
    layout: Layout, traffic_models: Sequence[Traffic], sinks: Mapping[str, Sink]
) -> Iterator[Fault]:
    """Yield an error for each kind of traffic of which a sender has no route, whatever is up."""
    for index, traffic in enumerate(traffic_models):
        if traffic.source == "users":
            continue
        senders = layout.with_role(traffic.source.removesuffix("s"))
        unconnected = [
            name for name in senders if name not in sinks or not nx.has_path(layout.graph, name, layout.server)
        ]
        if unconnected:
            problem = f"no route leads from {', '.join(unconnected)} to {layout.server}"
            yield Fault(f"traffic.{index}.source", problem, traffic.source, "link it, or give its next hop (routing)")


def inject_packets(env: simpy.Environment, blocks: Iterator[Block], sender: Sender, sink: Sink, log: EventLog) -> None:
    """Let the packets of *blocks* enter at *sink*, each at its time: one event for each."""
    node = sender.node
    flow = sender.flow
    priority = sender.priority
    counters = log.traffic.of[sender.traffic]
    packets = _packets_of(blocks)
    packet = (0.0, 0.0)  # the next to enter

    def enter(event: simpy.Event) -> None:
        born_s, bits = packet
        for counter in counters:
            counter.offer(node, bits, born_s)
        sink(Packet(node, bits, flow, priority, sender.traffic, born_s=born_s))
        wait()

    def wait() -> None:
        nonlocal packet
        next_packet = next(packets, None)
        if next_packet is None:
            return
        packet = next_packet
        timer.set(packet[0] - env.now)

    timer = Timer(env, enter)
    wait()


def _packets_of(blocks: Iterator[Block]) -> Iterator[tuple[float, float]]:
    """Yield the time and the size of each packet."""
    for times_s, bits in blocks:
        yield from zip(times_s.tolist(), bits.tolist(), strict=True)
