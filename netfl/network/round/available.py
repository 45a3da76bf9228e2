"""A round waits for everybody who was there as it opened."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from netfl.network.round import RoundPolicy
from netfl.types import Law
from netfl.units import Seconds


class Available(RoundPolicy):
    """The server waits for all users who may try and are not cut off when their tower has the version.

    A round closes when each of their updates has come or can come no more.  Who comes back before that, trains and gets
    through counts, too, but is not waited for.  A round in which nobody was there closes at once.

    Example::

        kind: available
        deadline: 1 h
    """

    deadline: Annotated[Seconds, Field(gt=0)] | None = None
    """How long after its opening a round closes at the latest; ``null`` for no such time."""

    def enough(self, heard: int, users: int) -> bool:
        """When all have come; otherwise the round ends with the last hope."""
        return heard >= users

    @property
    def waits(self) -> bool:
        """Not for those who are cut off."""
        return False

    @property
    def deadline_s(self) -> float | None:
        """The deadline."""
        return self.deadline

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("counts what arrives: nothing is drawn"),)
