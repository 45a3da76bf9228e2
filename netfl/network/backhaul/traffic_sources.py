"""Traffic that towers and routers send themselves: packets enter their ports as they come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import simpy

from netfl.network.backhaul.fast_path import FastPathTraffic, can_batch
from netfl.network.backhaul.port import Sink
from netfl.network.backhaul.routes import Routes
from netfl.network.clock import Timer
from netfl.network.config import NetworkConfig
from netfl.network.event_log import EventLog
from netfl.network.message import TRAFFIC, Message
from netfl.network.traffic import Block
from netfl.streams import Streams


def open_sources(
    parts: NetworkConfig,
    env: simpy.Environment,
    routes: Routes,
    sinks: Mapping[str, Sink],
    ledger: EventLog,
    streams: Streams,
) -> FastPathTraffic | None:
    """Let all traffic of towers and routers come: as events or, where that gives the same, in the batch given back."""
    batch, sites = FastPathTraffic(parts, routes, ledger) if can_batch(parts, routes, ledger) else None, parts.sites
    for index, traffic in enumerate(parts.traffic):
        role = traffic.enters.removesuffix("s")
        for name in () if role == "user" else sites.with_role(role):
            first, after = routes.of(name)[:2]
            rate_bps, number = sites.graph.edges[first, after]["rate_bps"], sites.number(name)
            blocks = traffic.blocks(number, rate_bps, streams.at("traffic", index))
            if batch is None:
                inject_packets(
                    env, blocks, (number, number + index * sites.nodes, traffic.priority), sinks[name], ledger
                )
            else:
                batch.enter(name, blocks, traffic.rate_hz(rate_bps) or 0.0)
    return batch


def inject_packets(
    env: simpy.Environment, blocks: Iterator[Block], sender: tuple[int, int, int], sink: Sink, ledger: EventLog
) -> None:
    """Let the packets of *blocks* enter at *sink*, each at its instant: one event for each.

    Args:
        env: the clock.
        blocks: instants and sizes.
        sender: the sender's node number, its flow, its priority.
        sink: the port that takes them.
        ledger: where they are counted.
    """
    node, flow, priority = sender
    packets = (
        (when, bits) for times_s, sizes in blocks for when, bits in zip(times_s.tolist(), sizes.tolist(), strict=True)
    )
    packet = (0.0, 0.0)

    def come(event: simpy.Event) -> None:
        born_s, bits = packet
        ledger.offer(node, bits, born_s)
        sink(Message(node, TRAFFIC, bits, born_s, 0, flow, priority, born_s=born_s))
        wait()

    def wait() -> None:
        nonlocal packet
        following = next(packets, None)
        if following is not None:
            packet = following
            timer.set(packet[0] - env.now)

    timer = Timer(env, come)
    wait()
