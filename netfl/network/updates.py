"""The users of one cell and what each is at: training, waiting to be heard, or done with the version that it has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netfl.network.ledger import Ledger

Users = NDArray[np.int64]


class Updates:
    """The newest update of every user of one cell, as arrays over the cell's users, which are numbered from 0.

    A user that receives a version starts an update from it and abandons the one that it was at.  A user that is cut
    off when its tower has a new version receives it at a known later time (`due_s`); it is taken note of when somebody
    looks, so that no event is needed for it.  In between the user cannot send, and nothing else changes.

    Args:
        ids: the cell's users, as the whole network numbers them.
        compute_s: how long each trains for one update.
        tower: the tower's name.
        ledger: where events and fates go.

    Attributes:
        base: the version that the update starts from; -1 before the first.
        open: whether the update is neither ended nor past the air.
        ready_s: when it joined, or will join, the backlog; infinity if there is none to come.
        sent_s: when its first attempt began; NaN before.
        attempts: how many attempts it has made.
        on_air: whether it is on the air.
    """

    def __init__(self, ids: Users, compute_s: NDArray[np.float64], tower: str, ledger: Ledger) -> None:
        self.ids, self._compute_s, self._tower, self._ledger = ids, compute_s, tower, ledger
        size = len(ids)
        self.base = np.full(size, -1, np.int64)
        self.open = np.zeros(size, np.bool_)
        self.ready_s = np.full(size, np.inf)
        self.sent_s = np.full(size, np.nan)
        self.attempts = np.zeros(size, np.int64)
        self.on_air = np.zeros(size, np.bool_)
        self._trained_s = np.full(size, np.inf)
        self._due_s = np.full(size, np.inf)
        self._told_s = -np.inf
        self._version = -1
        self._absent: Users = np.empty(0, np.int64)

    def hear(self, version: int, due_s: NDArray[np.float64], now_s: float) -> None:
        """The tower has *version*, which each user receives at *due_s*: now, later, or never."""
        self.receive(now_s)
        self._version = version
        here = due_s <= now_s
        absent = np.flatnonzero(~here)
        self._due_s[absent] = due_s[absent]
        self.ready_s[absent] = due_s[absent] + self._compute_s[absent]
        self._absent = absent[np.argsort(due_s[absent], kind="stable")]
        self._ledger.strand(np.full(np.count_nonzero(np.isinf(due_s)), version))
        self.start(np.flatnonzero(here), np.full(np.count_nonzero(here), now_s))

    def receive(self, now_s: float) -> None:
        """Let those who were cut off, and are so no longer, have the version that they missed."""
        if self._absent.size:
            count = np.searchsorted(self._due_s[self._absent], now_s, side="right")
            if count:
                back, self._absent = self._absent[:count], self._absent[count:]
                self.start(back, self._due_s[back])

    def start(self, users: Users, at_s: NDArray[np.float64]) -> None:
        """*users* receive the tower's version at *at_s* and begin to train."""
        if not users.size:
            return
        self._tell_trained(users, at_s)
        old = np.flatnonzero(self.open[users] & ~self.on_air[users])
        self._ledger.end("superseded", at_s[old], self.ids[users[old]], self.base[users[old]])
        self._ledger.received(at_s, self.ids[users], self._version, self._tower)
        self.base[users] = self._version
        self.open[users], self.on_air[users] = True, False
        self.attempts[users], self.sent_s[users], self._due_s[users] = 0, np.nan, np.inf
        self.ready_s[users] = self._trained_s[users] = at_s + self._compute_s[users]

    def close(self, users: Users) -> None:
        """The updates of *users* have ended or are past the air."""
        self.open[users] = self.on_air[users] = False
        self.ready_s[users] = self._due_s[users] + self._compute_s[users]

    def defer(self, users: Users, until_s: NDArray[np.float64]) -> None:
        """*users*, who wait, are cut off *until_s*."""
        self.ready_s[users] = until_s
        self._ledger.strand(self.base[users[np.isinf(until_s)]])

    def tell(self, now_s: float) -> None:
        """Record what has come about up to now without anybody looking."""
        self.receive(now_s)
        everyone = np.arange(len(self.ids)) if self._wants_trained else self._absent[:0]
        self._tell_trained(everyone, np.full(len(everyone), now_s))
        self._told_s = now_s

    def finish(self, now_s: float) -> None:
        """The run ends: so do all updates that are open."""
        users = np.flatnonzero(self.open)
        self._ledger.end("unfinished", now_s, self.ids[users], self.base[users])

    @property
    def _wants_trained(self) -> bool:
        """Whether the end of a training is recorded."""
        return self._ledger.wants("trained") or self._ledger.wants("queued")

    def _tell_trained(self, users: Users, until_s: NDArray[np.float64]) -> None:
        """Record the trainings of *users* that ended by *until_s* and have not been told yet."""
        if not self._wants_trained:
            return
        trained_s = self._trained_s[users]
        done = (trained_s > self._told_s) & (trained_s <= until_s)
        if done.any():
            who, when, base = self.ids[users[done]], trained_s[done], self.base[users[done]]
            for kind in ("trained", "queued"):
                self._ledger.event(kind, when, user=who, node=self._tower, value=base)
