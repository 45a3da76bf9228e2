"""A port: the end of one link at a tower or a router, with the queue of messages that wait for the link."""

from __future__ import annotations

from collections.abc import Callable

import simpy

from netfl.network.clock import call_after
from netfl.network.ledger import Ledger
from netfl.network.message import Message
from netfl.network.presence import Presence
from netfl.network.queue import Buffer

Sink = Callable[[Message], None]
"""Where a message goes next: the next port, or the server."""


class Port:
    """One message at a time is put on the link, for bits / rate seconds; it arrives a delay later.

    A message is lost when its node goes down while it holds it, waiting or half sent, or when it comes to a node that
    is down; once it has left, only the next node matters.

    Args:
        env: the clock.
        node: name and number of the node that the port belongs to.
        rate_bps: the link's rate.
        delay_s: the link's propagation delay.
        buffer: the waiting room.
        presence: who is up.
        ledger: where fates go.
        onward: what takes the messages at the link's other end.
    """

    def __init__(  # noqa: PLR0913 - a port joins these
        self,
        env: simpy.Environment,
        node: tuple[str, int],
        *,
        rate_bps: float,
        delay_s: float,
        buffer: Buffer,
        presence: Presence,
        ledger: Ledger,
        onward: Sink,
    ) -> None:
        self._env, self._rate_bps, self._delay_s = env, rate_bps, delay_s
        self._name, self._node = node[0], node[1]
        self._buffer, self._presence, self._ledger, self._onward = buffer, presence, ledger, onward
        self._sending: Message | None = None

    def enter(self, message: Message) -> None:
        """Take *message*: send it, let it wait, or see it end here."""
        now = self._env.now
        message.entered_s = now
        if self._presence.node_until_s(self._node, now) <= now:
            self._ledger.land(message, "lost", now, node=self._name)
        elif self._sending is None:
            self._send(message)
        elif not self._buffer.push(message, now):
            self._ledger.land(message, "dropped", now, node=self._name)

    def _send(self, message: Message) -> None:
        """Begin to put *message* on the link."""
        self._sending = message
        now, duration_s = self._env.now, message.bits / self._rate_bps
        cut_s = self._presence.node_until_s(self._node, now)
        if cut_s < now + duration_s:
            call_after(self._env, cut_s - now, self._cut)
        else:
            call_after(self._env, duration_s, self._sent)

    def _sent(self, event: simpy.Event) -> None:
        """The last bit is on the link: the next message may begin."""
        message = self._sending
        assert message is not None
        now = self._env.now
        self._ledger.event("forwarded", now, user=message.user, node=self._name, value=now - message.entered_s)
        call_after(self._env, self._delay_s, lambda _: self._onward(message))
        self._sending = None
        waiting = self._buffer.pop(now)
        if waiting is not None:
            self._send(waiting)

    def _cut(self, event: simpy.Event) -> None:
        """The node goes down: all that it holds is lost."""
        message, self._sending = self._sending, None
        while message is not None:
            self._ledger.land(message, "lost", self._env.now, node=self._name)
            message = self._buffer.pop(self._env.now)
