"""Downlinks to users that are exempt from outages, or from the downlink."""

from __future__ import annotations

from typing import Any

from netfl.network.clock import Clock
from netfl.network.counterfactual import Exemptions
from netfl.network.downlink import DownlinkPath, IdealDownlink, LeadingPath, Receivers
from netfl.network.tower import Tower
from netfl.types import Users


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


class DirectDownlink(LeadingPath):
    """A downlink by which exempt users have a version at once; other users have it by another downlink.

    Args:
        inner: the other downlink.
    """

    def __init__(self, exemptions: Exemptions, inner: DownlinkPath, env: Clock) -> None:
        super().__init__(inner)
        self._exemptions = exemptions
        self._env = env

    def send(self, version: int, receivers: Receivers) -> None:
        """Send *version* from the server to *receivers*."""
        other_receivers = []
        for tower, users in receivers:
            is_exempt = self._exemptions.among("downlink", tower.cell.ids[users])
            if is_exempt.any():
                tower.schedule_broadcast(version, self._env.now, users[is_exempt])
            if not is_exempt.all():
                other_receivers.append((tower, users[~is_exempt]))
        self._inner.send(version, other_receivers)
