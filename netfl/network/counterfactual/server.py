"""The server for users that are exempt from deadlines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netfl.network.counterfactual import Exemptions
from netfl.network.server import Arrival, Server
from netfl.network.updates import Update


class PatientServer(Server):
    """A server for which updates of exempt users are never too old, and come late for the next round.

    Args:
        parts: the arguments of `Server`.
    """

    def __init__(self, exemptions: Exemptions, *parts: Any) -> None:
        super().__init__(*parts)
        self._exempt_users = frozenset(exemptions.deadline)

    def _judge(self, arrivals: Sequence[Arrival]) -> None:
        if self._is_closed:
            self._hold(each for each in arrivals if each.update.user in self._exempt_users)
            arrivals = [each for each in arrivals if each.update.user not in self._exempt_users]
        if arrivals:
            super()._judge(arrivals)

    @property
    def _max_age(self) -> int | None:
        return None

    def _is_stale(self, update: Update) -> bool:
        return super()._is_stale(update) and update.user not in self._exempt_users
