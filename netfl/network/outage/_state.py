"""The current states of a network's nodes, asked in the order of time and cached."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from netfl.network.outage._combined import CombinedOutages
from netfl.types import Bools, Floats, Ints

_MAX_PASSES = 1_000
"""Passes after which nodes count as never up together: one is up by day, the other by night, for example."""
_MAX_LOOKS = 100
"""Looks ahead after which an outage that is not exact is no longer asked."""


class _StateCache:
    """Times until which nodes stay up or down, as far as they have been asked; *now_s* must not decrease."""

    def __init__(self, outages: CombinedOutages, nodes: int) -> None:
        self._outages = outages
        self._is_exact = outages.is_exact
        self._up_until_s = np.full(nodes, -np.inf)
        self._next_up_s = np.full(nodes, -np.inf)

    def up_until_s(self, nodes: Ints, now_s: float) -> Floats:
        """Return a time until which each node stays up, ``[...]``; a past time for a node that is down."""
        unknown = self._unknown(nodes, now_s)
        if unknown.size:
            up = unknown[self._outages.up(unknown, now_s)]
            self._up_until_s[up] = self._outages.next_change(up, now_s)
        return np.asarray(self._up_until_s[nodes])

    def next_up_s(self, nodes: Ints, now_s: float) -> Floats:
        """Return the first instant from now on at which each node is up, ``[...]``."""
        unknown = self._unknown(nodes, now_s)
        if unknown.size:
            self._next_up_s[unknown] = self._outages.next_up(unknown, now_s)
        return np.asarray(np.maximum(self._next_up_s[nodes], now_s))

    def _unknown(self, nodes: Ints, now_s: float) -> Ints:
        """Return those of *nodes* of which neither the end of being up nor that of being down is ahead."""
        may_be_down = self._up_until_s[nodes] <= now_s
        may_be_up = self._next_up_s[nodes] <= now_s
        return np.asarray(nodes[may_be_down & may_be_up])

    def node_up_until_s(self, node: int, now_s: float) -> float:
        """Return `up_until_s` of one node."""
        until_s = self._up_until_s[node]
        if until_s <= now_s:  # what is cached is over
            until_s = self.up_until_s(np.array([node]), now_s)[0]
        return float(until_s)

    def first_change_s(self, node: int, until_s: float, by_s: float) -> float:
        """Return the first real change from *until_s* on, or a time from *by_s* on."""
        if self._is_exact:
            return until_s
        nodes = np.array([node])
        for _ in range(_MAX_LOOKS):
            is_far_enough = until_s >= by_s or np.isinf(until_s)
            if is_far_enough or not self._outages.up(nodes, until_s)[0]:
                return until_s
            until_s = float(self._outages.next_change(nodes, until_s)[0])  # the node is still up
            self._up_until_s[node] = until_s
        return until_s

    def forget(self, nodes: Ints) -> None:
        """Forget what is cached of *nodes*."""
        self._up_until_s[nodes] = -np.inf
        self._next_up_s[nodes] = -np.inf


class NodeState(_StateCache):
    """The states of a network's nodes; *now_s* must not decrease from call to call.

    Args:
        outages: the outages of the network.
        nodes: number of nodes.

    Attributes:
        is_always_up: whether no node can ever be down.
        is_metered: whether states depend on the activity of users.
        powers_devices: whether an outage can switch users off, which ends their trainings.
    """

    def __init__(self, outages: CombinedOutages, nodes: int) -> None:
        super().__init__(outages, nodes)
        self._uninterrupted: _StateCache = self
        if outages.interrupting is not outages:  # some spare transmissions
            self._uninterrupted = _StateCache(outages.interrupting, nodes)
        self.is_always_up = not outages
        self.is_metered = outages.is_metered
        self.powers_devices = outages.powers_devices

    def up(self, nodes: Ints, now_s: float) -> Bools:
        """Return whether each node is up now, ``[n]``."""
        return self.up_until_s(nodes, now_s) > now_s

    def cut_s(self, node: int, now_s: float, by_s: float = np.inf) -> float:
        """Return when an outage interrupts a transmission that *node*, up now, begins now; infinity if never.

        Outages that spare uploads do not count.  The result is a past time if an interrupting outage has begun, and may
        be a later time without interruption before it if outages are not exact.

        Args:
            node: either end of the transmission, or a link on its path.
            now_s: start of the transmission.
            by_s: its end, if known: only results before it matter, and outages that are not exact look no further.
        """
        cut_s = self._uninterrupted.node_up_until_s(node, now_s)
        if cut_s >= by_s or cut_s <= now_s:
            return cut_s
        return self._uninterrupted.first_change_s(node, cut_s, by_s)

    def train(self, users: Ints, time_s: Floats, until_s: Floats) -> Floats | None:
        """Let batteries pay for trainings of *users*; as `NodeAvailability.train`."""
        if not self.is_metered:
            return None
        shares = self._outages.train(users, time_s, until_s)
        self._forget_users(users)
        return shares

    def stop(self, users: Ints, time_s: Floats) -> None:
        """End the trainings of *users* for their batteries; as `NodeAvailability.stop`."""
        if not self.is_metered:
            return
        self._outages.stop(users, time_s)
        self._forget_users(users)

    def transmit(
        self, users: Ints, time_s: ArrayLike, airtime_s: ArrayLike, power_factor: Floats | None = None
    ) -> Floats | None:
        """Let batteries pay for sending from *time_s* on; as `NodeAvailability.transmit`."""
        if not self.is_metered:
            return None
        shares = self._outages.transmit(users, time_s, airtime_s, power_factor)
        self._forget_users(users)
        return shares

    def receive(self, users: Ints, time_s: ArrayLike, airtime_s: float) -> Floats | None:
        """Let batteries pay for receiving from *time_s* on; as `NodeAvailability.receive`."""
        if not self.is_metered:
            return None
        shares = self._outages.receive(users, time_s, airtime_s)
        self._forget_users(users)
        return shares

    def evaluate(self, users: Ints, time_s: ArrayLike, joules: Floats) -> Floats | None:
        """Let batteries pay for evaluations that begin at *time_s*; as `NodeAvailability.evaluate`."""
        if not self.is_metered:
            return None
        shares = self._outages.evaluate(users, time_s, joules)
        self._forget_users(users)
        return shares

    def off_s(self, users: Ints, from_s: Floats, by_s: Floats) -> Floats:
        """Return when each user is first switched off in [*from_s*, *by_s*), ``[n]``; infinity if it is not."""
        return self._outages.off_s(users, from_s, by_s)

    def all_up_from_s(self, rows: Ints, now_s: float) -> Floats:
        """Return the first instant from now on at which all nodes of a row are up, ``[n]``; infinity if never.

        Args:
            rows: node numbers, ``[n, k]``.
            now_s: current time.
        """
        each_s = self.next_up_s(rows, now_s)  # [n, k]
        at_s = each_s.max(axis=1)
        stays_up = self.up_until_s(rows, now_s) > at_s[:, None]
        goes_up_then = each_s == at_s[:, None]
        is_sure = (stays_up | goes_up_then).all(axis=1)  # the others may be down again by then
        at_s[~is_sure] = self.all_up_later_s(rows[~is_sure], at_s[~is_sure])
        return np.asarray(at_s)

    def all_up_later_s(self, rows: Ints, time_s: ArrayLike) -> Floats:
        """Return `all_up_from_s` for future times, without caching."""
        at_s = np.array(np.broadcast_to(np.asarray(time_s, float), len(rows)))
        remaining = np.flatnonzero(np.isfinite(at_s))
        for _ in range(_MAX_PASSES):
            if not remaining.size:
                return at_s
            nodes = rows[remaining]  # [n, k]
            was_s = at_s[remaining]
            each_s = self._outages.next_up(nodes.ravel(), np.repeat(was_s, nodes.shape[1]))
            now_s = each_s.reshape(nodes.shape).max(axis=1)
            at_s[remaining] = now_s
            has_waited = now_s > was_s  # for one node, while others may have gone down
            remaining = remaining[has_waited & np.isfinite(now_s)]
        at_s[remaining] = np.inf
        return at_s

    def _forget_users(self, users: Ints) -> None:
        self.forget(users)
        self._uninterrupted.forget(users)
