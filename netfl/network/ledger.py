"""The ledger: what happens to every update is written here once, and from here into the record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from netfl.network.message import Message
from netfl.types import Recorder


class Ledger:
    """Fates and events of one replica, and how many updates the open round may still hope for.

    Args:
        recorder: where events go.
        users: the number of users.
        exhausted: called when no update of the open round's version can come any more.

    Attributes:
        round: the open round.
        alive: updates of the open round's version that may still reach the server.
        reached: how many times a user has received a version in the open round.
        uplink_bits: bits put on the air in the open round.
        flying: messages between the air and the server, in the order in which they left the air.
    """

    def __init__(self, recorder: Recorder, users: int, exhausted: Callable[[], None]) -> None:
        self._recorder, self._users, self._exhausted = recorder, users, exhausted
        self.round = self.alive = self.reached = 0
        self.uplink_bits = 0.0
        self.flying: dict[Message, None] = {}

    def open(self, round: int) -> None:
        """Round *round* opens: every user may still answer it."""
        self.round, self.alive, self.reached, self.uplink_bits = round, self._users, 0, 0.0

    def wants(self, kind: str) -> bool:
        """Whether events of *kind* are recorded."""
        return self._recorder.wants(kind)

    def event(self, kind: str, time_s: ArrayLike, **told: Any) -> None:
        """Record a step on the way, if such steps are recorded; *told* as in `Recorder.event`."""
        if self._recorder.wants(kind):
            self._recorder.event(kind, time_s, round=self.round, **told)

    def received(self, time_s: ArrayLike, users: ArrayLike, base: int, node: str) -> None:
        """Users have received version *base*: for each, an update begins."""
        self.reached += np.size(users)
        self.event("received", time_s, user=users, node=node, value=base)

    def end(  # noqa: PLR0913 - the columns of the table
        self, fate: str, time_s: ArrayLike, users: ArrayLike, base: ArrayLike, *, node: str = "", detail: str = ""
    ) -> None:
        """Updates end: *users*' that were trained from *base*, which is recorded as the event's value."""
        if np.size(users):
            self._recorder.event(fate, time_s, round=self.round, user=users, node=node, value=base, detail=detail)
            self.strand(base)

    def land(self, message: Message, fate: str, time_s: float, *, node: str = "") -> None:
        """A message ends."""
        del self.flying[message]
        self.end(fate, time_s, message.user, message.base, node=node)

    def strand(self, base: ArrayLike) -> None:
        """Updates from these versions, one each, can come no more: they end, or their users never return."""
        lost = int(np.count_nonzero(np.asarray(base) == self.round - 1))
        self.alive -= lost
        if lost and self.alive == 0:
            self._exhausted()
