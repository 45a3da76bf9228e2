"""Buffered asynchronous aggregation: every few delivered updates make a version."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from netfl.network.round import RoundPolicy


class Buffered(RoundPolicy):
    """Every B delivered updates make a version, whatever versions they start from; users do not wait for rounds.

    A user whose update has ended, at the server or on the way, gets the newest version and starts over at its own pace:
    the buffered asynchronous aggregation of Nguyen et al., "Federated learning with buffered asynchronous aggregation",
    AISTATS 2022 (FedBuff).  The network's ``staleness`` limits the age of an update.

    Example::

        kind: buffered
        size: 3
    """

    size: Annotated[int, Field(ge=1)]
    """Buffer size B."""

    def is_complete(self, delivered: int, users: int) -> bool:
        return delivered == self.size

    def max_updates(self, users: int) -> int:
        return self.size

    @property
    def is_continuous(self) -> bool:
        return True
