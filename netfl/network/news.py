"""What a MAC has not been told yet: the users whose frames have come, gone or failed, and a bell for when there are."""

from __future__ import annotations

import numpy as np
import simpy

from netfl.network.clock import call_at
from netfl.network.load import Users


class News:
    """The changes of one cell.

    Args:
        env: the clock.
        quiet: whether nothing ever changes while nobody sends, so that no bell need be watched.
    """

    def __init__(self, env: simpy.Environment, *, quiet: bool) -> None:
        self._env, self._quiet = env, quiet
        self._users: list[Users] = []
        self._bell = env.event()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._users)

    def add(self, users: Users) -> None:
        """The entries of *users* have changed."""
        if users.size:
            self._users.append(users)
            _ring(self._bell)

    def take(self) -> Users:
        """The users whose entries have changed since the last time; some perhaps twice."""
        users, self._users = self._users, []
        return users[0] if len(users) == 1 else np.concatenate([np.empty(0, np.int64), *users])

    def wait(self, by_s: float) -> simpy.Event:
        """An event that fires when there are any, and at *by_s* at the latest; at once if there are."""
        if self._users:
            return self._env.timeout(0)
        if self._quiet and by_s < np.inf:
            return self._env.timeout(max(0.0, by_s - self._env.now))
        bell = self._bell = self._env.event()
        if by_s < np.inf:
            call_at(self._env, by_s, lambda _: _ring(bell))
        return bell


def _ring(bell: simpy.Event) -> None:
    """Wake whoever waits for *bell*, once."""
    if not bell.triggered:
        bell.succeed()
