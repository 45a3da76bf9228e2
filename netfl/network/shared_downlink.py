"""Versions on the access link of the server, before another downlink takes them on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netfl.network.backhaul.shared_link import LinkTransfer, SharedLink
from netfl.network.clock import Clock, call_after
from netfl.network.downlink import DownlinkPath, LeadingPath, Receivers
from netfl.network.tower import Tower
from netfl.types import Floats, Ints, Users


@dataclass(slots=True, eq=False)
class _Copy:
    """A version on the link, for users of one tower.

    Args:
        users: its users, by their numbers at the tower, without those for whom a newer version has followed.
        transfer: its transfer; ``None`` once it has ended.
    """

    tower: Tower
    version: int
    users: Users
    transfer: LinkTransfer | None = None


class SharedDownlink(LeadingPath):
    """The direction from the server: copies of versions share its rate, and then go on by another downlink.

    Args:
        link: the link, which other downlinks may share.
        limits_bps: largest rate of a transfer to each user, ``[users]``.
        by_user: whether each user has a transfer of its own; if not, each tower has one.
        inner: the other downlink.
    """

    def __init__(self, env: Clock, link: SharedLink, limits_bps: Floats, inner: DownlinkPath, *, by_user: bool) -> None:
        super().__init__(inner)
        self._env = env
        self._limits_bps = limits_bps
        self._by_user = by_user
        self._copies: list[_Copy] = []
        self._arrived: list[_Copy] = []
        self._link = link

    def send(self, version: int, receivers: Receivers) -> None:
        """Send *version* from the server to *receivers*."""
        for tower, users in receivers:
            self._supersede(tower, version, users)
            groups = [users]
            if self._by_user:
                groups = np.split(users, len(users))
            for group in groups:
                self._start(_Copy(tower, version, group))

    def _start(self, copy: _Copy) -> None:
        """Let *copy* cross the link from now on; its tower counts it, so that nobody leaves before it comes."""
        copy.tower.announce(copy.version, copy.users)
        ids: Ints = copy.tower.cell.ids[copy.users]
        limit_bps = float(self._limits_bps[ids].min())
        copy.transfer = self._link.start(self.bits, lambda: self._arrive(copy), limit_bps)
        self._copies.append(copy)

    def _supersede(self, tower: Tower, version: int, users: Users) -> None:
        """Take *users* of *tower* out of the copies of older versions; end those that nobody needs any more."""
        ended = []
        for copy in self._copies:
            if copy.tower is not tower or copy.version >= version:
                continue
            is_superseded = np.isin(copy.users, users)
            if is_superseded.any():
                tower.note_missed(copy.version, copy.users[is_superseded], "superseded")
                copy.users = copy.users[~is_superseded]
            if not copy.users.size:
                ended.append(copy)
        for copy in ended:
            assert copy.transfer is not None
            self._copies.remove(copy)
            self._link.cancel(copy.transfer)
            tower.end_copy(copy.version)

    def _arrive(self, copy: _Copy) -> None:
        """Pass on *copy*, which has crossed the link, with the others of this moment."""
        self._copies.remove(copy)
        self._arrived.append(copy)
        if len(self._arrived) == 1:
            call_after(self._env, 0.0, lambda _: self._pass_on())

    def _pass_on(self) -> None:
        """Send the copies that have crossed the link by the other downlink, except to users that are not selected."""
        arrived = self._arrived
        self._arrived = []
        for version in sorted({copy.version for copy in arrived}):
            receivers = []
            for copy in arrived:
                users = copy.users[copy.tower.is_selected(copy.users)]
                if copy.version == version and users.size:
                    receivers.append((copy.tower, users))
            if receivers:
                self._inner.send(version, receivers)
        for copy in arrived:
            copy.tower.end_copy(copy.version)
