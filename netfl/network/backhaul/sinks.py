"""Sinks at the nodes where messages end, each before another sink."""

from __future__ import annotations

from collections.abc import Collection

from netfl.network.backhaul.port import Sink
from netfl.network.clock import Clock
from netfl.network.event_log import Ending, EventLog
from netfl.network.layout import NodeId
from netfl.network.message import Message
from netfl.network.outage._state import NodeState


def end_traffic(node: str, classes: Collection[str], sink: Sink, env: Clock, log: EventLog) -> Sink:
    """Return a sink that ends packets of these *classes* at *node* as delivered, and passes others on to *sink*."""
    ending = Ending("delivered", node)

    def take(message: Message) -> None:
        if message.traffic in classes:
            message.end(log, ending, env.now)
        else:
            sink(message)

    return take


def lose_while_down(node: NodeId, sink: Sink, node_state: NodeState, env: Clock, log: EventLog) -> Sink:
    """Return a sink that loses messages while *node* is down, and passes them on to *sink* while it is up."""
    ending = Ending("lost", node.name)

    def take(message: Message) -> None:
        now_s = env.now
        if node_state.node_up_until_s(node.number, now_s) > now_s:
            sink(message)
        else:
            message.end(log, ending, now_s)

    return take
