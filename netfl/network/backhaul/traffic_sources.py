"""Traffic of towers and routers: packets enter their ports as they arrive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import simpy

from netfl.network.backhaul.fast_path import FastPathTraffic, can_batch
from netfl.network.backhaul.port import Sink
from netfl.network.backhaul.routes import Routes
from netfl.network.clock import Timer
from netfl.network.config import NetworkContext
from netfl.network.event_log import EventLog
from netfl.network.message import TRAFFIC, Message
from netfl.network.traffic import Block


@dataclass(frozen=True, slots=True)
class Sender:
    """Sender of packets.

    Args:
        node: Node number.
        flow: Key of fair queues.
        priority: Priority of its packets.
    """

    node: int
    flow: int
    priority: int


def start_sources(network: NetworkContext, sinks: Mapping[str, Sink], routes: Routes) -> FastPathTraffic | None:
    """Start all traffic of towers and routers, as events or, where that gives the same, in the result.

    Args:
        network: Objects shared by the parts of the network.
        sinks: Ports that take the messages of each node, by its name.
        routes: Routes of the nodes.
    """
    config, env, log, sites = network.config, network.env, network.log, network.config.sites
    fast_traffic = FastPathTraffic(config, routes, log) if can_batch(config, routes, log) else None
    for index, traffic in enumerate(config.traffic):
        role = traffic.enters.removesuffix("s")
        for name in () if role == "user" else sites.with_role(role):
            first, after = routes.of(name)[:2]
            rate_bps, node = sites.graph.edges[first, after]["rate_bps"], sites.number(name)
            blocks = traffic.blocks(node, rate_bps, network.streams.at("traffic", index))
            if fast_traffic is None:
                sender = Sender(node, node + index * sites.nodes, traffic.priority)
                inject_packets(env, blocks, sender, sinks[name], log)
            else:
                fast_traffic.enter(name, blocks, traffic.rate_hz(rate_bps) or 0.0)
    return fast_traffic


def inject_packets(env: simpy.Environment, blocks: Iterator[Block], sender: Sender, sink: Sink, log: EventLog) -> None:
    """Let the packets of *blocks* enter at *sink*, each at its time: one event for each.

    Args:
        env: SimPy environment.
        blocks: Times and sizes.
        sender: Sender of the packets.
        sink: Port that takes them.
        log: Event log, which counts them.
    """
    node, flow, priority = sender.node, sender.flow, sender.priority
    packets = (packet for times_s, sizes in blocks for packet in zip(times_s.tolist(), sizes.tolist(), strict=True))
    packet = (0.0, 0.0)

    def enter(event: simpy.Event) -> None:
        born_s, bits = packet
        log.offer(node, bits, born_s)
        sink(Message(node, TRAFFIC, bits, born_s, 0, flow, priority, born_s=born_s))
        wait()

    def wait() -> None:
        nonlocal packet
        following = next(packets, None)
        if following is not None:
            packet = following
            timer.set(packet[0] - env.now)

    timer = Timer(env, enter)
    wait()
