"""Nodes that alternate between up and down for times drawn from two laws: an alternating renewal process."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.outage import NodeAvailability
from netfl.network.outage._distributions import DurationDistribution
from netfl.network.outage._diurnal_clock import DiurnalClock
from netfl.streams import Streams

Start = float | Literal["stationary", "up"]

_STEP = 8
_SPAN = 2 * _STEP
_STRIDE = 16 * _STEP
_LEAP = 1 << 18
"""Sojourns that are drawn at once where the time asked for is far away."""


class AlternatingRenewal(NodeAvailability):
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

    def __init__(
        self,
        row: NDArray[np.int64],
        up: DurationDistribution,
        down: DurationDistribution,
        streams: Streams,
        start: Start = "stationary",
        *,
        clock: DiurnalClock | None = None,
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
        """Move the windows of *rows* on towards *time_s*: to a mark on the way there, by a leap, or a step."""
        mark = self._mark(rows, time_s)
        ahead = mark * _STRIDE > self._index[rows]
        near = ~ahead & (np.isfinite(self._marks_s[rows]).sum(axis=1) > mark + 1)  # the mark that comes next is known
        if ahead.any():
            self._rewind(rows[ahead], time_s[ahead])
        if near.any():
            self._advance(rows[near])
        rows, time_s = rows[~(ahead | near)], time_s[~(ahead | near)]
        far = self._clock is None and len(rows) > 0
        mean_s = (self._up.mean + self._down.mean) / 2
        to_go = float((time_s - self._ends_s[rows, -1]).min()) / mean_s if far else 0.0
        strides = int(min(0.9 * to_go, _LEAP / max(1, len(rows)))) // _STRIDE
        if strides:
            self._leap(rows, time_s, strides)
        elif len(rows):
            self._advance(rows)

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

    def _leap(self, rows: NDArray[np.int64], time_s: NDArray[np.float64], strides: int) -> None:
        """Move the windows of *rows* on by many sojourns at once, and back to a mark where that was beyond *time_s*."""
        skipped, window_s, index = strides * _STRIDE, self._ends_s[rows], self._index[rows]
        further_s = self._follow(rows, window_s[:, -1], index[:, None] + np.arange(_SPAN, _SPAN + skipped))
        ends_s = np.hstack([window_s, further_s])
        to_mark = _STRIDE - index % _STRIDE
        places = np.arange(0, skipped, _STRIDE)
        marks_s = np.take_along_axis(ends_s, to_mark[:, None] - 1 + places, axis=1)
        self._keep(rows[:, None], (index + to_mark)[:, None] // _STRIDE + np.arange(strides), marks_s)
        self._ends_s[rows], self._since_s[rows] = ends_s[:, skipped:], ends_s[:, skipped - 1]
        self._index[rows] = index + skipped
        beyond = self._since_s[rows] > time_s
        if beyond.any():
            self._rewind(rows[beyond], time_s[beyond])

    def _keep(self, rows: NDArray[np.int64], columns: NDArray[np.int64], marks_s: NDArray[np.float64]) -> None:
        """Remember marks of *rows*."""
        missing = int(columns.max()) + 1 - self._marks_s.shape[1]
        if missing > 0:
            room = max(missing, self._marks_s.shape[1])
            self._marks_s = np.pad(self._marks_s, ((0, 0), (0, room)), constant_values=np.inf)
        self._marks_s[rows, columns] = marks_s

    def _advance(self, rows: NDArray[np.int64]) -> None:
        """Move the windows of *rows* on by half their span; a step is even, so that parity tells the state."""
        kept = self._ends_s[rows, _STEP:]
        self._since_s[rows] = self._ends_s[rows, _STEP - 1]
        self._index[rows] += _STEP
        index = self._index[rows, None] + np.arange(_STEP, _SPAN)
        self._ends_s[rows] = np.hstack([kept, self._follow(rows, kept[:, -1], index)])
        marked = rows[(self._index[rows] >= 0) & (self._index[rows] % _STRIDE == 0)]
        if marked.size:
            self._keep(marked, self._index[marked] // _STRIDE, self._since_s[marked])


def _earliest(rows: NDArray[np.int64], time_s: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Each of *rows* once, with the least of its times."""
    unique, place = np.unique(rows, return_inverse=True)
    least_s = np.full(len(unique), np.inf)
    np.minimum.at(least_s, place, time_s)
    return unique, least_s


def availability(up: DurationDistribution, down: DurationDistribution) -> float:
    """The long-run share of time up, E[up] / (E[up] + E[down])."""
    return up.mean / (up.mean + down.mean)
