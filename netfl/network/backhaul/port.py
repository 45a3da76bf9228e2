"""Output ports: the ends of links at towers and routers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter

import simpy

from netfl.network.clock import Clock, Stage, Timer, call_after
from netfl.network.event_log import Ending, EventLog
from netfl.network.layout import NodeId
from netfl.network.message import Message
from netfl.network.outage._state import NodeState
from netfl.network.periods import after_rounding, before_rounding
from netfl.network.queue import Buffer
from netfl.streams import RandomField

Sink = Callable[[Message], None]
"""Takes a message: the next port, or the server."""


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a link.

    Args:
        node: node that sends on it.
        link: name and number of the link.
    """

    node: NodeId
    link: NodeId
    rate_bps: float
    delay_s: float


class OutputPort:
    """One end of a link at a tower or a router, with the queue of messages that wait for the link.

    The port puts one message at a time on the link, for bits / rate seconds; the message arrives a delay later.

    A message is lost when the node or the link goes down while it waits or is half sent, or when either is down as it
    enters.  On the link only the link matters: a message on it is lost when it goes down.  An outage that spares
    transmissions lets those that have begun finish.

    At one instant a message leaves before others enter, and those that enter together do so in a random order.

    Args:
        node_state: state of the nodes and links.
        tie_draws: draws of the order of messages that enter at one instant.
        link: link on which the port sends.
        buffer: queue of the port.
        onward: takes the messages at the other end of the link.
    """

    def __init__(
        self,
        env: Clock,
        log: EventLog,
        node_state: NodeState,
        tie_draws: RandomField,
        link: Link,
        buffer: Buffer,
        onward: Sink,
    ) -> None:
        self._env = env
        self._log = log
        self._state = node_state
        self._has_outages = not node_state.is_always_up
        self._records_hops = log.wants("forwarded")
        self._node = link.node
        self._link = link.link
        self._rate_bps = link.rate_bps
        self._delay_s = link.delay_s
        self._buffer = buffer
        self._onward = onward

        # messages that enter at the present instant
        self._entering: list[Message] = []
        self._ties = 0
        self._tie_draws = tie_draws

        # the message that is being sent
        self._sending: Message | None = None
        self._began_s = 0.0
        self._timer = Timer(env, self._sent)
        self._busy_s = 0.0

    def enter(self, message: Message, *, may_tie: bool = True) -> None:
        """Send *message*, queue it, or end it here; if it *may_tie* with others, at the end of the present instant."""
        if may_tie and (self._entering or not self._env.is_instant_over()):
            self._enter_later(message)
            return
        now_s = self._env.now
        message.entered_s = now_s
        down = self._down_end(now_s) if self._has_outages else ""
        if down:
            self._lose(message, down)
        elif self._sending is None:  # the link is free
            if self._buffer.bypass(message, now_s):
                self._send(message, now_s)
            else:
                self._end(message, "dropped")
        else:
            for removed in self._buffer.push(message, now_s):
                self._end(removed, "dropped" if removed is message else "superseded")

    def _enter_later(self, message: Message) -> None:
        """Let *message* enter at the end of the present instant, with all others that enter by then."""
        self._entering.append(message)
        if len(self._entering) == 1:
            self._env.at_end(Stage.PORTS, self._enter_all)

    def _enter_all(self) -> None:
        """Let all messages of this instant enter, in a random order."""
        entering = self._entering
        self._entering = []
        if len(entering) > 1:
            keys = [message.user + 1 for message in entering]  # a broadcast has no user, but -1
            order = self._tie_draws.order(keys, self._ties)
            entering = [entering[place] for place in order]
            self._ties += 1
        for message in entering:
            self.enter(message, may_tie=False)

    @property
    def length(self) -> int:
        """Number of messages that wait or are being sent."""
        return len(self._entering) + len(self._buffer) + (self._sending is not None)

    def busy_by_s(self, now_s: float) -> float:
        """Return the time until *now_s* during which a message was being sent."""
        if self._sending is None:
            return self._busy_s
        return self._busy_s + (now_s - self._began_s)

    def _send(self, message: Message, now_s: float) -> None:
        """Put *message* on the link, which is free, until it is sent or an outage cuts it."""
        self._sending = message
        self._began_s = now_s
        duration_s = message.bits / self._rate_bps
        if self._has_outages:
            cut_s, down = self._interruption(now_s, duration_s)
            if cut_s < before_rounding(now_s + duration_s):
                call_after(self._env, max(0.0, cut_s - now_s), lambda _: self._cut(down))
                return
        self._timer.set(duration_s)

    def _interruption(self, now_s: float, duration_s: float) -> tuple[float, str]:
        """Return when an outage would interrupt a sending from now on, and the name of what goes down then."""
        start_s = after_rounding(now_s)
        end_s = now_s + duration_s
        cuts = [(self._state.cut_s(number, start_s, end_s), name) for name, number in (self._node, self._link)]
        return min(cuts, key=itemgetter(0))

    def _sent(self, event: simpy.Event) -> None:
        """Pass the message that has been sent on, and send the next one."""
        message = self._sending
        assert message is not None
        now_s = self._env.now
        delay_s = self._delay_s
        self._busy_s += now_s - self._began_s
        if self._records_hops:
            self._record_hop(message)
        self._sending = None
        if delay_s:
            self._propagate(message, now_s)
        down = self._down_end(now_s) if self._has_outages else ""
        if down:
            self._empty(down)
        else:
            next_message = self._buffer.pop(now_s)
            if next_message is not None:
                self._send(next_message, now_s)
        if not delay_s:  # it is at the other end at this instant
            self._onward(message)

    def _record_hop(self, message: Message) -> None:
        now_s = self._env.now
        waited_s = now_s - message.entered_s
        self._log.record_hop(message.user, self._node.name, waited_s, now_s, message.traffic)

    def _propagate(self, message: Message, now_s: float) -> None:
        """Let *message* arrive at the other end after the delay of the link, unless the link goes down meanwhile."""
        if self._has_outages:
            link, number = self._link
            arrives_s = now_s + self._delay_s
            cut_s = self._state.cut_s(number, after_rounding(now_s), arrives_s)
            if cut_s < before_rounding(arrives_s):
                call_after(self._env, max(0.0, cut_s - now_s), lambda _: self._lose(message, link))
                return
        call_after(self._env, self._delay_s, lambda _: self._onward(message))

    def _cut(self, down: str) -> None:
        """Lose all messages of the port, as the node or the link goes down."""
        message = self._sending
        assert message is not None
        self._sending = None
        self._busy_s += self._env.now - self._began_s
        self._lose(message, down)
        self._empty(down)

    def _empty(self, down: str) -> None:
        """Lose all messages that wait."""
        now_s = self._env.now
        while (message := self._buffer.pop(now_s)) is not None:
            self._lose(message, down)

    def _lose(self, message: Message, down: str) -> None:
        """End *message* by an outage of the node or link *down*."""
        self._end(message, "lost", down)

    def _down_end(self, now_s: float) -> str:
        """Return the name of the node or else the link that is down; an empty string if neither is."""
        start_s = after_rounding(now_s)
        for name, number in (self._node, self._link):
            if self._state.node_up_until_s(number, start_s) <= start_s:
                return name
        return ""

    def _end(self, message: Message, outcome: str, node: str = "") -> None:
        """End *message* at *node*, by default that of the port."""
        message.end(self._log, Ending(outcome, node or self._node.name), self._env.now)
