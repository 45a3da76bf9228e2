"""A round closes with the first few updates that arrive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from netfl.errors import Fault
from netfl.network.round import RoundPolicy
from netfl.types import Law, ScenarioFacts
from netfl.units import Seconds


class First(RoundPolicy):
    """The server takes the first m updates that arrive, or what has arrived at the deadline.

    m = 1 is the random access model that relays one user.  What comes later is late.

    Example::

        kind: first
        m: 1
    """

    m: Annotated[int, Field(ge=1)] | None = None
    """With how many arrivals a round closes; ``null`` for no such number: then there must be a deadline."""
    deadline: Annotated[Seconds, Field(gt=0)] | None = None
    """How long after its opening a round closes at the latest; ``null`` for no such time."""

    def enough(self, heard: int, users: int) -> bool:
        """As soon as m have come."""
        return heard == self.m

    def most(self, users: int) -> int:
        """The first m, or everybody."""
        return self.m or users

    @property
    def deadline_s(self) -> float | None:
        """The deadline."""
        return self.deadline

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """A round that nothing closes; more than there are."""
        if self.m is None and self.deadline is None:
            yield Fault("", "nothing closes a round", None, "give m, deadline, or both")
        if self.m is not None and self.m > facts.users:
            yield Fault("m", f"more than the {facts.users} users", self.m, "wait for fewer, or add users")

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("counts what arrives: nothing is drawn"),)
