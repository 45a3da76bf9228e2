"""Traffic that towers and routers send themselves: packets enter their ports as they come."""

from __future__ import annotations

from collections.abc import Iterator

import simpy

from netfl.network.ledger import Ledger
from netfl.network.message import TRAFFIC, Message
from netfl.network.port import Sink
from netfl.network.timer import Timer
from netfl.network.traffic import Block


def inject(
    env: simpy.Environment, blocks: Iterator[Block], sender: tuple[int, int, int], sink: Sink, ledger: Ledger
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
