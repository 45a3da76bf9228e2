"""Nodes that alternate between up and down for times drawn from two laws: an alternating renewal process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.outage import Timeline
from netfl.network.outage._clock import DayClock
from netfl.network.outage._lifetimes import Lifetime
from netfl.streams import Streams
from netfl.types import Law

Start = float | Literal["stationary", "up"]

_STEP = 8
_SPAN = 2 * _STEP
_STRIDE = 16 * _STEP


class Alternating(Timeline):
    """A timeline of alternating sojourns, drawn as they are asked for, in any order.

    A *row* is one such process; nodes may share a row and then change together.  Sojourn k of a row is keyed by
    (row, k), and instants of change are sums in the order of k, so that no answer depends on what was asked before.
    Only a window of each row's changes is kept, and the instant of every 128th, from which asking back walks anew.

    Args:
        row: each node's row, ``[nodes]``; -1 for nodes that are always up.
        up: the law of a sojourn up.
        down: the law of a sojourn down.
        streams: where draws come from.
        start: ``stationary``; ``up``, all up with a whole sojourn before them; or the end of a first sojourn up.
        clock: what sojourns up are measured on; ``None`` for the common clock.  With one, processes start up.
        origin_s: when they start, one time or each row's; nothing is to be asked of earlier times.
    """

    def __init__(  # noqa: PLR0913 - a process is these
        self,
        row: NDArray[np.int64],
        up: Lifetime,
        down: Lifetime,
        streams: Streams,
        start: Start = "stationary",
        *,
        clock: DayClock | None = None,
        origin_s: ArrayLike = 0.0,
    ) -> None:
        rows = int(row.max(initial=-1)) + 1
        self._row, self._up, self._down, self._field = row, up, down, streams.field("sojourn")
        self._clock = clock
        self._starts_up, self._first_s = self._begin(rows, start, streams)
        # the last row stands for the nodes that are always up
        self._starts_up = np.append(self._starts_up, True)
        self._ends_s = np.full((rows + 1, _SPAN), np.inf)  # changes index … index + _SPAN - 1 of each row
        self._index = np.zeros(rows + 1, np.int64)
        since_s = np.append(np.broadcast_to(np.asarray(origin_s, float), rows), -np.inf)
        self._since_s = since_s  # change index - 1: where the window begins
        self._marks_s = since_s[:, None].copy()  # in column j, change j * _STRIDE - 1; infinity where it is not known
        self._rewind(np.arange(rows), since_s[:-1].copy())

    def up(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.bool_]:
        """Whether each node is up."""
        return self._look(nodes, time_s)[0]

    def next_change(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """When each node's sojourn ends."""
        return self._look(nodes, time_s)[1]

    def sojourn_s(self, rows: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.float64]:
        """The length of each row's sojourn number *index*, from 0; the two broadcast."""
        is_up = self._starts_up[rows] ^ (index % 2 == 1)
        row, at = np.broadcast_arrays(rows, index)
        lengths_s = np.empty(is_up.shape)
        for law, mine in ((self._up, is_up), (self._down, ~is_up)):
            lengths_s[mine] = law.draw(self._field, row[mine], at[mine])
        return np.where(index == 0, self._first_s[rows], lengths_s)

    def _follow(
        self, rows: NDArray[np.int64], from_s: NDArray[np.float64], index: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """When the sojourns of *rows* with the numbers *index*, ``[n, k]``, end, from *from_s* on."""
        lengths_s = self.sojourn_s(rows[:, None], index)
        if self._clock is None:
            lengths_s[:, 0] += from_s
            return np.cumsum(lengths_s, axis=1)
        for column in range(index.shape[1]):
            is_up = self._starts_up[rows] ^ (index[:, column] % 2 == 1)
            on_clock_s = self._clock.after_s(rows, from_s, lengths_s[:, column])
            lengths_s[:, column] = from_s = np.where(is_up, on_clock_s, from_s + lengths_s[:, column])
        return lengths_s

    def _begin(self, rows: int, start: Start, streams: Streams) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Each row's first state and how long it lasts."""
        if start == "stationary":
            starts_up = streams.rng("start").random(rows) < availability(self._up, self._down)
            rest_of_up = self._up.residual(streams.at("rest of up"), rows)
            return starts_up, np.where(starts_up, rest_of_up, self._down.residual(streams.at("rest of down"), rows))
        whole = self._up.draw(self._field, np.arange(rows), 0) if start == "up" else np.full(rows, start)
        return np.ones(rows, bool), whole

    def _look(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Each node's state at *time_s*, and until when it lasts."""
        rows = self._row[nodes]
        time = np.broadcast_to(np.asarray(time_s, float), rows.shape)
        past = time < self._since_s[rows]
        if past.any():
            self._rewind(*_earliest(rows[past], time[past]))
        state, until_s = np.empty(len(rows), bool), np.empty(len(rows))
        todo: NDArray[np.int64] = np.arange(len(rows))
        while todo.size:
            row, at = rows[todo], time[todo]
            ends_s = self._ends_s.take(row, axis=0)
            here = at < ends_s[:, -1]
            passed = (ends_s <= at[:, None]).argmin(axis=1)  # of those who are not here, looked at again below
            state[todo] = self._starts_up[row] ^ (passed % 2 == 1)
            until_s[todo] = ends_s[np.arange(len(row)), passed]
            if here.all():
                break
            todo = todo[~here]
            self._approach(*_earliest(row[~here], at[~here]))
        return state, until_s

    def _approach(self, rows: NDArray[np.int64], time_s: NDArray[np.float64]) -> None:
        """Move the windows of *rows* on towards *time_s*: to a mark on the way there, or a step."""
        ahead = self._mark(rows, time_s) * _STRIDE > self._index[rows]
        if ahead.any():
            self._rewind(rows[ahead], time_s[ahead])
        if not ahead.all():
            self._advance(rows[~ahead])

    def _mark(self, rows: NDArray[np.int64], time_s: NDArray[np.float64]) -> NDArray[np.int64]:
        """The number of each row's last known mark that is not after *time_s*."""
        return np.asarray((self._marks_s[rows] <= time_s[:, None]).sum(axis=1) - 1)

    def _rewind(self, rows: NDArray[np.int64], time_s: NDArray[np.float64]) -> None:
        """Put the windows of *rows* to the last known mark that is not after *time_s*."""
        mark = self._mark(rows, time_s)
        self._index[rows] = mark * _STRIDE - _SPAN
        self._ends_s[rows] = self._marks_s[rows, mark][:, None]
        self._advance(rows)
        self._advance(rows)

    def _advance(self, rows: NDArray[np.int64]) -> None:
        """Move the windows of *rows* on by half their span; a step is even, so that parity tells the state."""
        kept = self._ends_s[rows, _STEP:]
        self._since_s[rows] = self._ends_s[rows, _STEP - 1]
        self._index[rows] += _STEP
        index = self._index[rows, None] + np.arange(_STEP, _SPAN)
        self._ends_s[rows] = np.hstack([kept, self._follow(rows, kept[:, -1], index)])
        marked = rows[(self._index[rows] >= 0) & (self._index[rows] % _STRIDE == 0)]
        if marked.size:
            column = self._index[marked] // _STRIDE
            missing = int(column.max()) + 1 - self._marks_s.shape[1]
            if missing > 0:
                self._marks_s = np.pad(self._marks_s, ((0, 0), (0, missing)), constant_values=np.inf)
            self._marks_s[marked, column] = self._since_s[marked]


def _earliest(rows: NDArray[np.int64], time_s: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Each of *rows* once, with the least of its times."""
    unique, place = np.unique(rows, return_inverse=True)
    least_s = np.full(len(unique), np.inf)
    np.minimum.at(least_s, place, time_s)
    return unique, least_s


def availability(up: Lifetime, down: Lifetime) -> float:
    """The long-run share of time up, E[up] / (E[up] + E[down])."""
    return up.mean / (up.mean + down.mean)


def process_laws(up: Lifetime, down: Lifetime, start: Start = "stationary") -> tuple[Law, ...]:
    """What an alternating process with these sojourns claims."""

    def opened(streams: Streams, size: int) -> tuple[Alternating, NDArray[np.int64]]:
        rows = np.arange(size)
        return Alternating(rows, up, down, streams, start), rows

    def sojourn(wanted: bool, streams: Streams, size: int) -> NDArray[np.float64]:
        process, rows = opened(streams, size)
        begin_s = process.next_change(rows, 0.0)
        begin_s = np.where(process.up(rows, begin_s) == wanted, begin_s, process.next_change(rows, begin_s))
        return process.next_change(rows, begin_s) - begin_s

    laws = [
        Law(
            f"sojourn {word} in s",
            f"{law.law} with mean {law.mean:g} s, all sojourns independent",
            draw=partial(sojourn, wanted),
            mean=law.mean if law.provable(1) else None,
            variance=law.variance if law.provable(2) else None,
            cdf=None if law.law == "fixed" else law.cdf,
        )
        for word, wanted, law in (("up", True, up), ("down", False, down))
    ]
    return (*laws, *_stationary_laws(up, down, opened)) if start == "stationary" else tuple(laws)


def _stationary_laws(
    up: Lifetime, down: Lifetime, opened: Callable[[Streams, int], tuple[Alternating, NDArray[np.int64]]]
) -> tuple[Law, ...]:
    """What it claims besides when it starts stationary: the same at every instant."""
    share, instant_s = availability(up, down), 1.7 * (up.mean + down.mean)

    def state(streams: Streams, size: int) -> NDArray[np.float64]:
        process, rows = opened(streams, size)
        return process.up(rows, instant_s).astype(float)

    def rest(streams: Streams, size: int) -> NDArray[np.float64]:
        process, rows = opened(streams, size)
        return process.next_change(rows, instant_s) - instant_s

    state_law = Law(
        "state at any instant (1 is up)",
        "up with probability E[up] / (E[up] + E[down])",
        draw=state,
        mean=share,
        variance=share * (1.0 - share),
    )
    if max(up.moment(3), down.moment(3)) == np.inf:
        return (state_law,)
    first, second = (
        share * up.moment(power + 1) / ((power + 1) * up.mean)
        + (1.0 - share) * down.moment(power + 1) / ((power + 1) * down.mean)
        for power in (1, 2)
    )
    rest_law = Law(
        "time to the next change, from any instant, in s",
        "the equilibrium residual: E[R] = E[X²] / 2E[X], E[R²] = E[X³] / 3E[X] of the sojourn X that one is in",
        draw=rest,
        mean=first,
        variance=second - first**2 if max(up.moment(5), down.moment(5)) < np.inf else None,
    )
    return (state_law, rest_law)
