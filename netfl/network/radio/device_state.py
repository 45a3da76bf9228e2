"""State of devices: what a MAC knows of its users that is theirs, and so moves with them to other towers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from netfl.types import Users


class DeviceState(Protocol):
    """State of the devices of a cell, which the MAC of the cell has set as `netfl.network.radio.cell.Cell.devices`.

    That of a device is a row: arrays by name, and mappings of such arrays, each with one entry for each user.  Cells of
    all towers have the same MAC, so that one cell can put what another has taken.
    """

    def take(self, users: Users) -> Mapping[str, Any]:
        """Return the rows of *users*, who leave the tower, and forget them.

        None of them sends.  The MAC may not know yet that a frame of theirs has ended at this instant.
        """

    def put(self, users: Users, row: Mapping[str, Any]) -> None:
        """Let *users*, who have come to the tower, have these rows; their frames are in the queue."""
