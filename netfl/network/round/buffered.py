"""No rounds for users: the server makes a version of every few updates that arrive."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from netfl.network.round import RoundPolicy
from netfl.types import Law


class Buffered(RoundPolicy):
    """A version is made of every B updates that arrive, whatever versions they start from; nobody waits for rounds.

    A user whose update has ended, at the server or on the way, is sent the newest version and begins anew, at its own
    pace: the buffered asynchronous aggregation of Nguyen et al., "Federated learning with buffered asynchronous
    aggregation", AISTATS 2022 (FedBuff).  How old an update may be is said by the network's ``staleness``.

    Example::

        kind: buffered
        size: 3
    """

    size: Annotated[int, Field(ge=1)]
    """B."""

    def enough(self, heard: int, users: int) -> bool:
        """When the buffer is full."""
        return heard == self.size

    def most(self, users: int) -> int:
        """The buffer."""
        return self.size

    @property
    def continuous(self) -> bool:
        """Users begin anew whenever they have been heard."""
        return True

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("counts what arrives: nothing is drawn"),)
