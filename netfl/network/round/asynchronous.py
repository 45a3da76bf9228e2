"""No rounds at all: every update that arrives makes a version."""

from __future__ import annotations

from netfl.network.round import RoundPolicy
from netfl.types import Law


class Asynchronous(RoundPolicy):
    """Every update that arrives makes a version, whatever version it starts from.

    Its user is sent that version and begins anew (Xie, Koyejo and Gupta, "Asynchronous federated optimization", OPT
    2020: FedAsync); a user whose update got lost is sent the newest version, too.  How old an update may be is said by
    the network's ``staleness``.

    Example::

        kind: asynchronous
    """

    def enough(self, heard: int, users: int) -> bool:
        """Each is enough."""
        return True

    def most(self, users: int) -> int:
        """One."""
        return 1

    @property
    def continuous(self) -> bool:
        """Users begin anew whenever they have been heard."""
        return True

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("counts what arrives: nothing is drawn"),)
