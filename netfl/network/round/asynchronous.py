"""Asynchronous aggregation: every delivered update makes a version."""

from __future__ import annotations

from netfl.network.round import RoundPolicy


class Asynchronous(RoundPolicy):
    """Every delivered update makes a version, whatever version it starts from.

    Its user gets that version and starts over (Xie, Koyejo and Gupta, "Asynchronous federated optimization", OPT 2020:
    FedAsync); a user whose update is lost gets the newest version, too.  The network's ``staleness`` limits the age of
    an update.

    Example::

        kind: asynchronous
    """

    def is_complete(self, delivered: int, users: int) -> bool:
        return True

    def max_updates(self, users: int) -> int:
        return 1

    @property
    def is_continuous(self) -> bool:
        return True
