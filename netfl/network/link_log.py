"""Record of how updates came over the air: kept only where a learner or a table asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netfl.types import Floats, Ints, LinkReport, Users


@dataclass(slots=True, eq=False)
class LinkUse:
    """Use of the link by one update so far, and its last frame that was received; see `LinkReport`."""

    snr_db: float = np.nan
    gain_db: float = np.nan
    mode: int = 0
    airtime_s: float = 0.0
    energy_j: float = 0.0

    def report(self) -> LinkReport:
        """Return a copy for the delivery of the update, which later attempts do not change."""
        return LinkReport(
            snr_db=self.snr_db, gain_db=self.gain_db, mode=self.mode, airtime_s=self.airtime_s, energy_j=self.energy_j
        )


class LinkLog:
    """The use of the link by the present update of each user.

    An update that its user has left, such as one on the air when a newer version comes, is known to its frames alone.
    """

    def __init__(self) -> None:
        self._of_user: dict[int, LinkUse] = {}

    def begin(self, users: Users) -> None:
        """Begin an update of each of *users*, by their numbers in the network."""
        for user in users.tolist():
            self._of_user[user] = LinkUse()

    def send(self, ids: Ints, base: int | Ints, airtime_s: float, energy_j: Floats | None) -> Sequence[LinkUse | None]:
        """Count an attempt of each of *ids*; return the use by its update, ``None`` for a packet of traffic.

        Args:
            ids: the senders, by their numbers in the network.
            base: version from which the update in each frame started, or all; -1 for a packet of traffic.
            airtime_s: time for which they send.
            energy_j: energy of each attempt, ``[n]``; ``None`` without an energy model.
        """
        if energy_j is None:
            energy_j = np.full(len(ids), np.nan)
        bases = np.broadcast_to(base, len(ids))
        uses: list[LinkUse | None] = []
        for user, version, joules in zip(ids.tolist(), bases.tolist(), energy_j.tolist(), strict=True):
            if version < 0:
                uses.append(None)
                continue
            use = self._of_user[user]
            use.airtime_s += airtime_s
            use.energy_j += joules
            uses.append(use)
        return uses
