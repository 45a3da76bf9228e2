"""Output ports that messages of exempt users bypass."""

from __future__ import annotations

from typing import Any

import simpy

from netfl.network.backhaul.port import OutputPort
from netfl.network.clock import call_after
from netfl.network.counterfactual import Exemptions
from netfl.network.message import Message


class BypassPort(OutputPort):
    """An output port that sends a message of exempt users beside all others on the link where an outage would end it.

    Args:
        parts: the arguments of `OutputPort`.
    """

    def __init__(self, exemptions: Exemptions, *parts: Any) -> None:
        super().__init__(*parts)
        self._exemptions = exemptions

    def _propagate(self, message: Message, now_s: float) -> None:
        if self._exemptions.cover("outage", message):
            call_after(self._env, self._delay_s, lambda _: self._onward(message))
        else:
            super()._propagate(message, now_s)

    def _cut(self, down: str) -> None:
        message = self._sending
        assert message is not None
        if not self._exemptions.cover("outage", message):
            super()._cut(down)
            return
        now_s = self._env.now
        done_s = now_s - self._began_s
        self._sending = None
        self._busy_s += done_s
        self._send_beside(message, now_s, done_s)
        self._empty(down)

    def _lose(self, message: Message, down: str) -> None:
        if self._exemptions.cover("outage", message):
            self._send_beside(message, self._env.now)
        else:
            super()._lose(message, down)

    def _send_beside(self, message: Message, now_s: float, done_s: float = 0.0) -> None:
        """Send *message*, of whose sending *done_s* are over, beside whatever is on the link."""
        duration_s = message.bits / self._rate_bps - done_s

        def sent(event: simpy.Event) -> None:
            if self._records_hops:
                self._record_hop(message)
            if self._delay_s:
                self._propagate(message, self._env.now)
            else:
                self._onward(message)

        call_after(self._env, duration_s, sent)
