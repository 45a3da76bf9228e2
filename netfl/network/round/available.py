"""Round that waits for the users that are connected when it opens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from netfl.errors import Fault
from netfl.network.round import RoundPolicy
from netfl.network.round._losses import Losses, endless_wait
from netfl.types import ScenarioFacts
from netfl.units import Seconds


class Available(RoundPolicy):
    """The server waits for all selected users that are connected when their tower has the version.

    A round closes when each of their updates is delivered or can no longer be (`losses`).  Users that reconnect before
    that and deliver an update count, too, but the server does not wait for them.  A round without connected users
    closes at once.

    Example::

        kind: available
        deadline: 1 h
    """

    deadline: Annotated[Seconds, Field(gt=0)] | None = None
    """Time from the opening of a round to its close at the latest; ``null`` for no deadline."""
    losses: Losses = "known"
    """``known``: a round closes when no update that would count can arrive any more, as the others were lost.
    ``unknown``: only updates and the deadline close it, as a real server does not learn of losses; needs a deadline."""

    @property
    def deadline_s(self) -> float | None:
        return self.deadline

    @property
    def knows_losses(self) -> bool:
        return self.losses == "known"

    def is_complete(self, delivered: int, users: int) -> bool:
        """Return whether all updates are delivered; otherwise the round ends with the last outstanding update."""
        return delivered >= users

    @property
    def needs_disconnected(self) -> bool:
        return False

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from endless_wait(self.losses, self.deadline)
