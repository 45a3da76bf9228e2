"""The charge of batteries over time, as uses are told."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.outage import Timeline
from netfl.network.outage._supply import Supply, meets_s

_AHEAD = 16
"""Segments of the supply over which a change is looked for."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What drains a battery, in joules and watts."""

    training_j: float
    sample_j: float
    bit_j: float
    idle_w: float


@dataclass(slots=True)
class _State:
    """When, how much charge, and whether up: of each battery, ``[n]``, or along a chain of each, ``[n, knots]``."""

    time_s: NDArray[np.float64]
    charge_j: NDArray[np.float64]
    up: NDArray[np.bool_]

    def of(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> _State:
        """Those of *rows*, apart from these."""
        return _State(self.time_s[rows], self.charge_j[rows], self.up[rows])

    def put(self, rows: NDArray[np.int64] | NDArray[np.bool_], state: _State) -> None:
        """Let *rows* be in *state*."""
        self.time_s[rows], self.charge_j[rows], self.up[rows] = state.time_s, state.charge_j, state.up

    def at(self, knots: NDArray[np.int64]) -> _State:
        """One knot of each chain."""
        rows = np.arange(len(knots))
        return _State(self.time_s[rows, knots], self.charge_j[rows, knots], self.up[rows, knots])

    def changes(self, knots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Where, after one knot of each chain, the state is not as there, ``[n, knots]``."""
        after = np.arange(self.up.shape[1]) > knots[:, None]
        return np.asarray(after & (self.up != self.at(knots).up[:, None]))

    def chain(self) -> _State:
        """Chains that come to this state, with nothing before."""
        every = np.repeat(np.arange(len(self.time_s))[:, None], _AHEAD + 1, axis=1)
        chain = self.of(every)
        chain.time_s[:, :-1] = -np.inf
        return chain

    def add(self, rows: NDArray[np.int64], state: _State) -> None:
        """Let the chains of *rows* go on to *state*; what lies furthest back is forgotten."""
        for kept, new in ((self.time_s, state.time_s), (self.charge_j, state.charge_j), (self.up, state.up)):
            kept[rows, :-1] = kept[rows, 1:]
            kept[rows, -1] = new


class Charge(Timeline):
    """Batteries: from its last use each follows a chain of knots, the ends of segments and its own changes.

    An answer is read off the last knot before the time that is asked, so that it does not depend on what was asked
    before; the last knots that were reached are kept, so that the chain need not be walked anew.

    Args:
        row: each node's battery, ``[nodes]``; -1 for those without.
        charge_j: what is in each at time 0, ``[batteries]``.
        capacity_j: what is in a full one.
        restart_j: with how much a user that ran empty is up again.
        costs: what drains them.
        supply: what charges them.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - a battery is these
        self,
        row: NDArray[np.int64],
        charge_j: NDArray[np.float64],
        capacity_j: float,
        restart_j: float,
        costs: Costs,
        supply: Supply,
    ) -> None:
        self._row, self._capacity_j, self._restart_j = row, capacity_j, restart_j
        self._costs, self._supply = costs, supply
        self._used = _State(np.zeros(len(charge_j)), charge_j.copy(), charge_j > 0.0)
        self._kept = self._used.chain()
        self._past: dict[int, list[float]] = {}
        self._began_up = self._used.up.copy()

    @property
    def exact(self) -> bool:
        """It looks only some segments ahead."""
        return False

    @property
    def metered(self) -> bool:
        """Unless they only idle."""
        return bool(self._costs.training_j or self._costs.sample_j or self._costs.bit_j)

    def up(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.bool_]:
        """Whether each battery has not run empty, or is charged again."""
        return self._look(nodes, time_s, ahead=False)[0]

    def next_change(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """When it runs empty, or is charged again; or until when it is looked ahead."""
        return self._look(nodes, time_s, ahead=True)[1]

    def charge_j(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """What is in each battery at *time_s*, not before its last use, ``[n]``; all nodes must have one."""
        rows = self._row[nodes]
        at_s = np.broadcast_to(np.asarray(time_s, float), rows.shape)
        chain, knot = self._reach(rows, at_s)
        return self._at(rows, chain.at(knot), at_s)

    def train(self, users: NDArray[np.int64], time_s: ArrayLike, samples: ArrayLike) -> None:
        """Take what a training needs."""
        self._use(users, time_s, self._costs.training_j + self._costs.sample_j * np.asarray(samples, float))

    def transmit(self, users: NDArray[np.int64], time_s: ArrayLike, bits: ArrayLike) -> None:
        """Take what a transmission needs."""
        self._use(users, time_s, self._costs.bit_j * np.asarray(bits, float))

    def _use(self, users: NDArray[np.int64], time_s: ArrayLike, joules: NDArray[np.float64]) -> None:
        """Take *joules* from the batteries of *users*, each named once, and remember how they came to that."""
        rows = self._row[users]
        own = rows >= 0
        rows = rows[own]
        at_s = np.maximum(np.broadcast_to(np.asarray(time_s, float), own.shape)[own], self._used.time_s[rows])
        state = self._used.of(rows)
        todo = np.arange(len(rows))
        while todo.size:
            following = self._step(rows[todo], state.of(todo))
            within = following.time_s <= at_s[todo]
            todo, following = todo[within], following.of(np.flatnonzero(within))
            self._remember(rows[todo], following.time_s, state.up[todo] != following.up)
            state.put(todo, following)
        left_j = np.maximum(self._at(rows, state, at_s) - np.broadcast_to(joules, own.shape)[own], 0.0)
        up = state.up & (left_j > 0.0)
        self._remember(rows, at_s, state.up != up)
        self._used.put(rows, _State(at_s, left_j, up))
        self._kept.put(rows, self._used.of(rows).chain())

    def _remember(self, rows: NDArray[np.int64], time_s: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        """Keep the changes that came before a use."""
        for row, at_s in zip(rows[changed].tolist(), time_s[changed].tolist(), strict=True):
            self._past.setdefault(row, []).append(at_s)

    def _look(
        self, nodes: NDArray[np.int64], time_s: ArrayLike, *, ahead: bool
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Whether each node is up, and, if it is looked *ahead*, until when."""
        up, until_s = np.ones(len(nodes), np.bool_), np.full(len(nodes), np.inf)
        time = np.broadcast_to(np.asarray(time_s, float), len(nodes))
        own = np.flatnonzero(self._row[nodes] >= 0)
        rows, at_s = self._row[nodes[own]], time[own]
        was = at_s < self._used.time_s[rows]
        chain, knot = self._reach(rows, np.maximum(at_s, self._used.time_s[rows]))
        up[own] = chain.at(knot).up
        if ahead:
            until_s[own] = self._ahead(rows, chain, knot)
        for place, row, when in zip(own[was].tolist(), rows[was].tolist(), at_s[was].tolist(), strict=True):
            past = self._past.get(row, [])
            count = bisect_right(past, when)
            up[place] = bool(self._began_up[row]) ^ (count % 2 == 1)
            until_s[place] = past[count] if count < len(past) else until_s[place]
        return up, until_s

    def _reach(self, rows: NDArray[np.int64], at_s: NDArray[np.float64]) -> tuple[_State, NDArray[np.int64]]:
        """A chain of each battery beyond *at_s*, not before its last use, and which knot is its last up to then."""
        chain = self._kept.of(rows)
        past = chain.time_s[:, 0] > at_s
        chain.put(past, self._used.of(rows[past]).chain())
        todo = np.flatnonzero(chain.time_s[:, -1] <= at_s)
        while todo.size:
            self._extend(rows, chain, todo)
            todo = todo[chain.time_s[todo, -1] <= at_s[todo]]
        self._kept.put(rows, chain)
        return chain, (chain.time_s <= at_s[:, None]).sum(axis=1) - 1

    def _ahead(self, rows: NDArray[np.int64], chain: _State, knot: NDArray[np.int64]) -> NDArray[np.float64]:
        """When the state after the knots with these numbers changes; or a time before which it does not."""
        todo = np.arange(len(rows))
        while todo.size:
            todo = todo[~chain.changes(knot)[todo].any(axis=1)]
            todo = todo[(knot[todo] > 0) & np.isfinite(chain.time_s[todo, -1])]
            self._extend(rows, chain, todo)
            knot[todo] -= 1
        self._kept.put(rows, chain)
        changes = chain.changes(knot)
        return chain.at(np.where(changes.any(axis=1), changes.argmax(axis=1), _AHEAD)).time_s

    def _extend(self, rows: NDArray[np.int64], chain: _State, which: NDArray[np.int64]) -> None:
        """Let *which* of the chains go on by one knot."""
        if which.size:
            chain.add(which, self._step(rows[which], chain.at(np.full(len(rows), _AHEAD)).of(which)))

    def _step(self, rows: NDArray[np.int64], state: _State) -> _State:
        """The knot that follows each."""
        drain_w = self._drain_w(state)
        end_s = self._supply.until_s(rows, state.time_s, drain_w)
        charge_j = state.charge_j + self._supply.gain(rows, state.time_s, drain_w)(end_s)
        changes = np.where(state.up, charge_j <= 0.0, charge_j >= self._restart_j) & (charge_j != state.charge_j)
        up, at = state.up ^ changes, np.flatnonzero(changes)
        if at.size:
            goal_j = np.where(up[at], self._restart_j, 0.0)
            gain = self._supply.gain(rows[at], state.time_s[at], drain_w[at])
            end_s[at] = meets_s(gain, state.time_s[at], end_s[at], goal_j - state.charge_j[at])
            charge_j[at] = goal_j
        return _State(end_s, np.clip(charge_j, 0.0, self._capacity_j), up)

    def _at(self, rows: NDArray[np.int64], state: _State, at_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """What is in each battery at *at_s*, in the segment after its knot."""
        gain = self._supply.gain(rows, state.time_s, self._drain_w(state))
        return np.clip(state.charge_j + gain(at_s), 0.0, self._capacity_j)

    def _drain_w(self, state: _State) -> NDArray[np.float64]:
        """What takes from each, unless it is down."""
        return np.where(state.up, self._costs.idle_w, 0.0)
