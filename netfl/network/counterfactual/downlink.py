"""The ideal downlink to users that are exempt from outages."""

from __future__ import annotations

from typing import Any

from netfl.network.counterfactual import Exemptions
from netfl.network.downlink import IdealDownlink
from netfl.network.tower import Tower
from netfl.network.updates import Users


class UninterruptedDownlink(IdealDownlink):
    """An ideal downlink on which a version for exempt users does not wait for nodes and links of the route.

    Args:
        parts: the arguments of `IdealDownlink`.
    """

    def __init__(self, exemptions: Exemptions, *parts: Any) -> None:
        super().__init__(*parts)
        self._exemptions = exemptions

    def _cross(self, tower: Tower, version: int, users: Users, undisturbed_s: float) -> None:
        is_exempt = self._exemptions.among("outage", tower.cell.ids[users])
        if is_exempt.any():
            self._schedule(tower, version, undisturbed_s, users[is_exempt])
        if not is_exempt.all():
            super()._cross(tower, version, users[~is_exempt], undisturbed_s)
