"""Round that closes with the first few delivered updates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from netfl.errors import Fault
from netfl.network.round import RoundPolicy
from netfl.network.round._losses import Losses, endless_wait
from netfl.types import ScenarioFacts
from netfl.units import Seconds


class First(RoundPolicy):
    """The server takes the first m delivered updates, or those delivered until the deadline.

    m = 1 is the random access model that relays one user.  Updates that come later are late.  A round also closes when
    no update that would count can arrive any more (`losses`).

    Example::

        kind: first
        m: 1
    """

    m: Annotated[int, Field(ge=1)] | None = None
    """Number of updates with which a round closes; ``null`` for no such number, which needs a deadline."""
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
        return delivered == self.m

    def max_updates(self, users: int) -> int:
        return self.m or users

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if self.m is None and self.deadline is None:
            yield Fault("", "no condition closes a round", None, "give m, deadline, or both")
        if self.m is not None and self.m > facts.users:
            yield Fault("m", f"more than the {facts.users} users", self.m, "wait for fewer, or add users")
        yield from endless_wait(self.losses, self.deadline)
