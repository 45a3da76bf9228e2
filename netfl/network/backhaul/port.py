"""A port: the end of one link at a tower or a router, with the queue of messages that wait for the link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter

import simpy

from netfl.network.clock import Timer, call_after
from netfl.network.counters import LinkUsage
from netfl.network.event_log import EventLog
from netfl.network.message import Message
from netfl.network.outage._state import NodeState
from netfl.network.queue import Buffer

Sink = Callable[[Message], None]
"""Where a message goes next: the next port, or the server."""


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a link, with the node that sends on it.

    Args:
        node: name and number of the node that the port belongs to.
        link: name and number of the link.
        rate_bps: its rate.
        delay_s: its propagation delay.
    """

    node: tuple[str, int]
    link: tuple[str, int]
    rate_bps: float
    delay_s: float


class OutputPort:
    """One message at a time is put on the link, for bits / rate seconds; it arrives a delay later.

    A message is lost when the node or the link goes down while the port holds it, waiting or half sent, or when either
    is down as it comes.  On the wire only the link matters: what is on it when it goes down is lost.  An outage that
    spares transmissions lets those that have begun finish.

    A message that is express goes on the link at once, beside all others; one that is immune does so where an outage
    would end it.

    Args:
        env: the clock.
        link: where the port sends.
        buffer: the waiting room.
        presence: who is up.
        ledger: where fates go.
        onward: what takes the messages at the link's other end.
    """

    def __init__(
        self,
        env: simpy.Environment,
        link: Link,
        *,
        buffer: Buffer,
        presence: NodeState,
        ledger: EventLog,
        onward: Sink,
    ) -> None:
        self._env, self._ends = env, (link.node, link.link)
        self._rate_bps, self._delay_s = link.rate_bps, link.delay_s
        self._buffer, self._presence, self._ledger, self._onward = buffer, presence, ledger, onward
        self._frail, self._tells = not presence.is_always_up, ledger.wants("forwarded")
        self._sending: Message | None = None
        self._began_s = 0.0
        self._timer = Timer(env, self._sent)
        self._busy_s = self._bits = self._waited_s = 0.0
        self._messages = 0
        self._ended = {"dropped": 0, "lost": 0, "superseded": 0}

    def enter(self, message: Message) -> None:
        """Take *message*: send it, let it wait, or see it end here."""
        now = self._env.now
        message.entered_s = now
        dead = self._dead(now) if self._frail else ""
        if dead and not message.immune:
            self._end(message, "lost", dead)
        elif message.express or dead:
            self._pass_by(message, now)
        elif self._sending is None:
            if self._buffer.bypass(message, now):
                self._send(message, now)
            else:
                self._end(message, "dropped")
        else:
            self._waited_s -= now
            for away in self._buffer.push(message, now):
                self._waited_s += now
                self._end(away, "dropped" if away is message else "superseded")

    def usage(self, now_s: float) -> LinkUsage:
        """What this port has done by *now_s*."""
        sending_s = 0.0 if self._sending is None else now_s - self._began_s
        waited_s = self._waited_s + now_s * len(self._buffer)
        return LinkUsage(self._busy_s + sending_s, self._bits, self._messages, **self._ended, waiting_s=waited_s)

    def _send(self, message: Message, now: float) -> None:
        """Begin to put *message* on the link."""
        self._sending, self._began_s = message, now
        duration_s = message.bits / self._rate_bps
        if self._frail:
            cut_s, name = self._cut_of(now, duration_s)
            if cut_s < now + duration_s:
                call_after(self._env, cut_s - now, lambda _: self._cut(name))
                return
        self._timer.set(duration_s)

    def _cut_of(self, now: float, duration_s: float) -> tuple[float, str]:
        """When an outage cuts what is put on the link from now on for so long, and what goes down then."""
        cuts = [(self._presence.cut_s(node, now, now + duration_s), name) for name, node in self._ends]
        return min(cuts, key=itemgetter(0))

    def _pass_by(self, message: Message, now: float, done_s: float = 0.0) -> None:
        """Put *message* on the link beside all others, where *done_s* of that are done already."""
        duration_s = message.bits / self._rate_bps - done_s
        if self._frail and not message.immune:
            cut_s, name = self._cut_of(now, duration_s)
            if cut_s < now + duration_s:
                call_after(self._env, cut_s - now, lambda _: self._end(message, "lost", name))
                return

        def sent(event: simpy.Event) -> None:
            if self._tells:
                self._tell(message)
            if self._delay_s:
                self._propagate(message, self._env.now)
            else:
                self._onward(message)

        call_after(self._env, duration_s, sent)

    def _sent(self, event: simpy.Event) -> None:
        """The last bit is on the link: the next message may begin."""
        message, now = self._sending, self._env.now
        assert message is not None
        self._busy_s += now - self._began_s
        self._bits += message.bits
        self._messages += 1
        if self._tells:
            self._tell(message)
        self._sending = None
        if self._delay_s:
            self._propagate(message, now)
        if self._frail and (dead := self._dead(now)):
            self._empty(dead)
        elif (waiting := self._buffer.pop(now)) is not None:
            self._waited_s += now
            self._send(waiting, now)
        if not self._delay_s:
            self._onward(message)

    def _tell(self, message: Message) -> None:
        """Record that *message* is on the link now, and how long it has been here."""
        now = self._env.now
        told = {"user": message.user, "node": self._ends[0][0], "value": now - message.entered_s}
        self._ledger.event("forwarded", now, **told)

    def _propagate(self, message: Message, now: float) -> None:
        """*message* is on the wire."""
        if self._frail and not message.immune:
            name, number = self._ends[1]
            cut_s = self._presence.cut_s(number, now, now + self._delay_s)
            if cut_s < now + self._delay_s:
                call_after(self._env, max(0.0, cut_s - now), lambda _: self._end(message, "lost", name))
                return
        call_after(self._env, self._delay_s, lambda _: self._onward(message))

    def _cut(self, dead: str) -> None:
        """The node or the link goes down: all that the port holds is lost."""
        message, self._sending = self._sending, None
        assert message is not None
        done_s = self._env.now - self._began_s
        self._busy_s += done_s
        self._lose(message, dead, done_s)
        self._empty(dead)

    def _empty(self, dead: str) -> None:
        """Lose what waits."""
        now = self._env.now
        while (message := self._buffer.pop(now)) is not None:
            self._waited_s += now
            self._lose(message, dead)

    def _lose(self, message: Message, dead: str, done_s: float = 0.0) -> None:
        """An outage ends *message*, of whose sending *done_s* are over, unless it is immune."""
        if message.immune:
            self._pass_by(message, self._env.now, done_s)
        else:
            self._end(message, "lost", dead)

    def _dead(self, now: float) -> str:
        """Which of node and link is down, the node if both are; nothing if neither."""
        until_s = self._presence.node_up_until_s
        return next((name for name, node in self._ends if until_s(node, now) <= now), "")

    def _end(self, message: Message, fate: str, place: str = "") -> None:
        """A message ends here, or at *place*."""
        self._ended[fate] += 1
        self._ledger.land(message, fate, self._env.now, node=place or self._ends[0][0])
