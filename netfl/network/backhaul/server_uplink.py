"""Updates on the access link of the server."""

from __future__ import annotations

from dataclasses import dataclass

from netfl.network.backhaul.port import Sink
from netfl.network.backhaul.shared_link import LinkTransfer, SharedLink
from netfl.network.clock import Clock
from netfl.network.event_log import Ending, EventLog
from netfl.network.layout import NodeId
from netfl.network.message import Message
from netfl.network.outage._state import NodeState
from netfl.network.periods import after_rounding, before_rounding
from netfl.types import Floats


@dataclass(frozen=True, slots=True)
class _Crossing:
    """A message on the link.

    Args:
        is_spared: whether outages of the server do not concern it.
    """

    message: Message
    is_spared: bool


class ServerUplink:
    """The direction to the server, which loses what is on it when the server goes down.

    Args:
        rate_bps: rate of the link.
        limits_bps: largest rate of a transfer of each user, ``[users]``.
        server: name and number of the node of the server.
        sink: takes the messages at the other end of the link.

    Attributes:
        link: the link.
    """

    def __init__(
        self,
        env: Clock,
        log: EventLog,
        node_state: NodeState,
        rate_bps: float,
        limits_bps: Floats,
        server: NodeId,
        sink: Sink,
    ) -> None:
        self._env = env
        self._log = log
        self._state = node_state
        self._limits_bps = limits_bps
        self._server = server
        self._sink = sink
        self._crossing: dict[LinkTransfer, _Crossing] = {}
        on_plan = None if node_state.is_always_up else self._outage_s
        self.link = SharedLink(env, rate_bps, on_plan, self._cut)

    def take(self, message: Message, *, is_spared: bool = False) -> None:
        """Let *message* cross the link from now on."""
        users = [*message.user_ids()]
        limit_bps = float(self._limits_bps[users].min())
        crossing = _Crossing(message, is_spared)
        transfer = self.link.start(message.bits, lambda: self._arrive(transfer), limit_bps)
        self._crossing[transfer] = crossing

    def take_spared(self, message: Message) -> None:
        """Let *message*, which outages of the server do not concern, cross the link from now on."""
        self.take(message, is_spared=True)

    def _arrive(self, transfer: LinkTransfer) -> None:
        self._sink(self._crossing.pop(transfer).message)

    def _outage_s(self, end_s: float) -> float:
        """Return when the server goes down before *end_s*; infinity if it does not."""
        if all(crossing.is_spared for crossing in self._crossing.values()):
            return float("inf")
        cut_s = self._state.cut_s(self._server.number, after_rounding(self._env.now), end_s)
        if cut_s < before_rounding(end_s):
            return max(cut_s, self._env.now)
        return float("inf")

    def _cut(self, transfer: LinkTransfer) -> None:
        """Lose the message of *transfer* as the server goes down, unless it is spared: then it goes on."""
        crossing = self._crossing.pop(transfer)
        if crossing.is_spared:
            again = self.link.start(transfer.left_bits, lambda: self._arrive(again), transfer.limit_bps)
            self._crossing[again] = crossing
            return
        crossing.message.end(self._log, Ending("lost", self._server.name), self._env.now)
