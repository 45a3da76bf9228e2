"""Nodes that alternate between up and down for random times: an alternating renewal process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from netfl.network.outage import NodeAvailability
from netfl.network.outage._distributions import DurationDistribution
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints, Law

_STEP = 8
"""Changes by which a window moves on."""
_SPAN = 2 * _STEP
"""Changes in a window."""
_STRIDE = 16 * _STEP
"""Changes between two marks."""
_LEAP = 1 << 18
"""Sojourns that are drawn at once if the requested time is far away."""


@dataclass(frozen=True, slots=True)
class Sojourns:
    """The distributions of an alternating renewal process.

    Args:
        up: distribution of a sojourn up.
        down: distribution of a sojourn down.
        start: ``stationary``; ``up``, all up with a whole sojourn ahead; or the end of a first sojourn up, in s.
    """

    up: DurationDistribution
    down: DurationDistribution
    start: float | Literal["stationary", "up"] = "stationary"

    @property
    def share_up(self) -> float:
        """Long-run share of time up, E[up] / (E[up] + E[down])."""
        return self.up.mean / (self.up.mean + self.down.mean)

    def laws(self) -> tuple[Law, ...]:
        """Return the claims of the process."""

        def open_rows(rows: Ints, streams: Streams) -> AlternatingRenewal:
            return AlternatingRenewal(rows, self, streams)

        laws = sojourn_laws(self, open_rows)
        if self.start != "stationary":
            return laws
        up = self.up
        down = self.down
        share = self.share_up
        instant_s = 1.7 * (up.mean + down.mean)

        def state(streams: Streams, size: int) -> Floats:
            rows = np.arange(size)
            return open_rows(rows, streams).up(rows, instant_s).astype(float)

        def residual(streams: Streams, size: int) -> Floats:
            rows = np.arange(size)
            return open_rows(rows, streams).next_change(rows, instant_s) - instant_s

        def residual_moment(power: int) -> float:
            """Return E[R^n] = E[X^(n+1)] / ((n + 1) E[X]), the mean over the states of the current sojourn X."""
            if_up = up.moment(power + 1) / ((power + 1) * up.mean)
            if_down = down.moment(power + 1) / ((power + 1) * down.mean)
            return share * if_up + (1.0 - share) * if_down

        statement = "up with probability E[up] / (E[up] + E[down])"
        laws = (*laws, state_law("state at any instant (1 is up)", statement, state, share))
        if max(up.moment(3), down.moment(3)) == np.inf:  # the residual has no variance
            return laws
        mean = residual_moment(1)
        variance = None  # without a fourth moment of the residual it cannot be tested
        if max(up.moment(5), down.moment(5)) < np.inf:
            variance = residual_moment(2) - mean**2
        by_residual = Law(
            "time to the next change, from any instant, in s",
            "the equilibrium residual: E[R] = E[X²] / 2E[X], E[R²] = E[X³] / 3E[X] of the current sojourn X",
            draw=residual,
            mean=mean,
            variance=variance,
        )
        return (*laws, by_residual)


def state_law(quantity: str, statement: str, draw: Callable[[Streams, int], Floats], share: float) -> Law:
    """Return the claim that a node is up with probability *share*."""
    return Law(quantity, statement, draw=draw, mean=share, variance=share * (1.0 - share))


def sojourn_laws(
    sojourns: Sojourns, open_rows: Callable[[Ints, Streams], AlternatingRenewal], up: str = "up"
) -> tuple[Law, ...]:
    """Return the claims that sojourns up, on the clock of the process, and down have their distributions.

    Args:
        sojourns: the distributions.
        open_rows: ``open_rows(rows, streams)`` returns the process of nodes with these rows.
        up: name of the state up.
    """

    def draw(is_up: bool, streams: Streams, size: int) -> Floats:
        rows = np.arange(size)
        process = open_rows(rows, streams)
        # the first whole sojourn in this state begins with the first change or with the second
        first_change_s = process.next_change(rows, np.zeros(size))
        is_in_state = process.up(rows, first_change_s) == is_up
        begin_s = np.where(is_in_state, first_change_s, process.next_change(rows, first_change_s))
        end_s = process.next_change(rows, begin_s)
        if is_up and process.clock is not None:  # which measures sojourns up only
            return process.clock.read_s(rows, end_s) - process.clock.read_s(rows, begin_s)
        return end_s - begin_s

    def law(state: str, is_up: bool, distribution: DurationDistribution) -> Law:
        return Law(
            f"sojourn {state} in s",
            f"{distribution.distribution} with mean {distribution.mean:g} s, all sojourns independent",
            draw=partial(draw, is_up),
            mean=distribution.mean if distribution.provable(1) else None,
            variance=distribution.variance if distribution.provable(2) else None,
            cdf=None if distribution.distribution == "fixed" else distribution.cdf,
        )

    return law(up, True, sojourns.up), law("down", False, sojourns.down)


class SojournClock(Protocol):
    """A clock of each row that measures sojourns up, such as one whose speed varies over the day."""

    def read_s(self, rows: Ints, time_s: Floats) -> Floats:
        """Return the reading of each row's clock at *time_s*, ``[n]``."""

    def after_s(self, rows: Ints, time_s: Floats, amount_s: Floats) -> Floats:
        """Return when the clock of each row shows *amount_s* more than at *time_s*, ``[n]``."""


class AlternatingRenewal(NodeAvailability):
    """Alternating sojourns, drawn when they are asked for, in any order.

    A *row* is one process; nodes that share a row change together.  Sojourn k of a row is keyed by (row, k), and the
    instants of change are sums in the order of k, so no result depends on earlier calls.  Memory holds a window of each
    row's changes, and every 128th instant as a *mark*, from which earlier changes are drawn again.

    Args:
        row: row of each node, ``[nodes]``; -1 for nodes that are always up.
        sojourns: distributions of the sojourns, and the start.
        streams: source of random draws.
        clock: clock that measures sojourns up; ``None`` for the common clock.  With one, processes start up.
        origin_s: start of the processes, one time or one per row; earlier times must not be asked.
    """

    def __init__(
        self,
        row: Ints,
        sojourns: Sojourns,
        streams: Streams,
        *,
        clock: SojournClock | None = None,
        origin_s: ArrayLike = 0.0,
    ) -> None:
        rows = int(row.max(initial=-1)) + 1
        self._row = row
        self._sojourns = sojourns
        self._field = streams.field("sojourn")
        self.clock = clock
        starts_up, self._first_s = self._begin(rows, streams)
        # the last row stands for the nodes that are always up
        self._starts_up = np.append(starts_up, True)
        self._ends_s = np.full((rows + 1, _SPAN), np.inf)  # changes index … index + _SPAN - 1 of each row
        self._index = np.zeros(rows + 1, np.int64)
        since_s = np.append(np.broadcast_to(np.asarray(origin_s, float), rows), -np.inf)
        self._since_s = since_s  # change index - 1: begin of the window
        self._marks_s = since_s[:, None].copy()  # in column j, change j * _STRIDE - 1; infinity if unknown
        self._rewind(np.arange(rows), since_s[:-1].copy())

    def up(self, nodes: Ints, time_s: ArrayLike) -> Bools:
        return self._look(nodes, time_s)[0]

    def next_change(self, nodes: Ints, time_s: ArrayLike) -> Floats:
        return self._look(nodes, time_s)[1]

    def _lengths_s(self, rows: Ints, index: Ints) -> Floats:
        """Return the lengths of sojourns *index*, from 0; rows and index broadcast."""
        is_up = self._starts_up[rows] ^ (index % 2 == 1)  # states alternate
        row, number = np.broadcast_arrays(rows, index)
        lengths_s = np.empty(is_up.shape)
        for distribution, in_state in ((self._sojourns.up, is_up), (self._sojourns.down, ~is_up)):
            lengths_s[in_state] = distribution.draw(self._field, row[in_state], number[in_state])
        return np.where(index == 0, self._first_s[rows], lengths_s)  # the first may be under way

    def _follow(self, rows: Ints, from_s: Floats, index: Ints) -> Floats:
        """Return the ends of consecutive sojourns *index*, ``[n, k]``, of which the first begin at *from_s*."""
        lengths_s = self._lengths_s(rows[:, None], index)
        if self.clock is None:
            lengths_s[:, 0] += from_s  # the sums are instants, added in the order of the sojourns
            return np.cumsum(lengths_s, axis=1)
        ends_s = np.empty(index.shape)
        for column in range(index.shape[1]):  # one by one, as the clock's speed depends on the time
            length_s = lengths_s[:, column]
            is_up = self._starts_up[rows] ^ (index[:, column] % 2 == 1)
            end_s = np.where(is_up, self.clock.after_s(rows, from_s, length_s), from_s + length_s)
            ends_s[:, column] = end_s
            from_s = end_s
        return ends_s

    def _begin(self, rows: int, streams: Streams) -> tuple[Bools, Floats]:
        """Draw each row's first state and how long it lasts."""
        up = self._sojourns.up
        down = self._sojourns.down
        start = self._sojourns.start
        if start == "stationary":  # the current sojourns are under way
            starts_up = streams.rng("start").random(rows) < self._sojourns.share_up
            rest_of_up_s = up.residual(streams.at("rest of up"), rows)
            rest_of_down_s = down.residual(streams.at("rest of down"), rows)
            return starts_up, np.where(starts_up, rest_of_up_s, rest_of_down_s)
        all_up = np.ones(rows, bool)
        if start == "up":
            return all_up, up.draw(self._field, np.arange(rows), 0)
        return all_up, np.full(rows, start)

    def _look(self, nodes: Ints, time_s: ArrayLike) -> tuple[Bools, Floats]:
        """Return each node's state at *time_s*, and its end."""
        rows = self._row[nodes]
        time = np.broadcast_to(np.asarray(time_s, float), rows.shape)
        is_before = time < self._since_s[rows]  # of the window
        if is_before.any():
            self._rewind(*_earliest(rows[is_before], time[is_before]))
        is_up = np.empty(len(rows), bool)
        until_s = np.empty(len(rows))
        remaining: Ints = np.arange(len(rows))  # those whose windows may still end before their times
        while remaining.size:
            row = rows[remaining]
            at_s = time[remaining]
            ends_s = self._ends_s.take(row, axis=0)  # [n, _SPAN]
            is_inside = at_s < ends_s[:, -1]
            passed = (ends_s <= at_s[:, None]).argmin(axis=1)  # wrong outside of the window, and repeated below
            is_up[remaining] = self._starts_up[row] ^ (passed % 2 == 1)
            until_s[remaining] = ends_s[np.arange(len(row)), passed]
            if is_inside.all():
                break
            remaining = remaining[~is_inside]
            self._approach(*_earliest(row[~is_inside], at_s[~is_inside]))
        return is_up, until_s

    def _approach(self, rows: Ints, time_s: Floats) -> None:
        """Move the windows of *rows* towards *time_s*: to a mark on the way, by a leap, or by a step."""
        # a mark on the way, ahead of the window
        mark = self._mark(rows, time_s)
        has_mark = mark * _STRIDE > self._index[rows]
        if has_mark.any():
            self._rewind(rows[has_mark], time_s[has_mark])

        # where the next mark is known, the time is less than a stride away
        knows_next = np.isfinite(self._marks_s[rows]).sum(axis=1) > mark + 1
        is_near = knows_next & ~has_mark
        if is_near.any():
            self._advance(rows[is_near])

        # others leap together, as far as the nearest time allows
        is_far = ~(has_mark | is_near)
        if not is_far.any():
            return
        far_rows = rows[is_far]
        far_s = time_s[is_far]
        strides = self._strides_to(far_rows, far_s)
        if strides:
            self._leap(far_rows, far_s, strides)
        else:
            self._advance(far_rows)

    def _strides_to(self, rows: Ints, time_s: Floats) -> int:
        """Return the number of strides that all *rows* can leap towards *time_s*, probably without passing it."""
        if self.clock is not None:  # whose sojourns are added one by one
            return 0
        mean_s = (self._sojourns.up.mean + self._sojourns.down.mean) / 2
        nearest_s = float((time_s - self._ends_s[rows, -1]).min())
        sojourns = nearest_s / mean_s
        return int(min(0.9 * sojourns, _LEAP / len(rows))) // _STRIDE

    def _mark(self, rows: Ints, time_s: Floats) -> Ints:
        """Return the last known mark of each row up to *time_s*."""
        return np.asarray((self._marks_s[rows] <= time_s[:, None]).sum(axis=1) - 1)

    def _rewind(self, rows: Ints, time_s: Floats) -> None:
        """Move the windows of *rows* to their last known mark up to *time_s*."""
        mark = self._mark(rows, time_s)
        # an empty window that ends with the mark, which two advances of half a span replace
        self._index[rows] = mark * _STRIDE - _SPAN
        self._ends_s[rows] = self._marks_s[rows, mark][:, None]
        self._advance(rows)
        self._advance(rows)

    def _leap(self, rows: Ints, time_s: Floats, strides: int) -> None:
        """Move the windows of *rows* by many sojourns at once, and back to a mark where this is beyond *time_s*."""
        # the changes of the window and of all sojourns that are skipped, [n, _SPAN + skipped]
        skipped = strides * _STRIDE
        window_s = self._ends_s[rows]
        index = self._index[rows]
        new = index[:, None] + np.arange(_SPAN, _SPAN + skipped)
        ends_s = np.hstack([window_s, self._follow(rows, window_s[:, -1], new)])

        # the marks on the way, one a stride
        to_mark = _STRIDE - index % _STRIDE
        places = to_mark[:, None] - 1 + np.arange(0, skipped, _STRIDE)
        columns = (index + to_mark)[:, None] // _STRIDE + np.arange(strides)
        self._keep_marks(rows[:, None], columns, np.take_along_axis(ends_s, places, axis=1))

        # the new window
        self._ends_s[rows] = ends_s[:, skipped:]
        self._since_s[rows] = ends_s[:, skipped - 1]
        self._index[rows] = index + skipped
        is_beyond = self._since_s[rows] > time_s
        if is_beyond.any():
            self._rewind(rows[is_beyond], time_s[is_beyond])

    def _keep_marks(self, rows: Ints, columns: Ints, marks_s: Floats) -> None:
        """Keep marks, in a table that doubles where it is too narrow."""
        width = self._marks_s.shape[1]
        missing = int(columns.max()) + 1 - width
        if missing > 0:
            added = max(missing, width)
            self._marks_s = np.pad(self._marks_s, ((0, 0), (0, added)), constant_values=np.inf)
        self._marks_s[rows, columns] = marks_s

    def _advance(self, rows: Ints) -> None:
        """Move the windows of *rows* by half their span, an even number, so that parity gives the state."""
        kept_s = self._ends_s[rows, _STEP:]
        self._since_s[rows] = self._ends_s[rows, _STEP - 1]
        self._index[rows] += _STEP
        new = self._index[rows, None] + np.arange(_STEP, _SPAN)
        new_s = self._follow(rows, kept_s[:, -1], new)
        self._ends_s[rows] = np.hstack([kept_s, new_s])

        # a window that begins with a mark
        index = self._index[rows]
        at_mark = rows[(index >= 0) & (index % _STRIDE == 0)]
        if at_mark.size:
            self._keep_marks(at_mark, self._index[at_mark] // _STRIDE, self._since_s[at_mark])


def _earliest(rows: Ints, time_s: Floats) -> tuple[Ints, Floats]:
    """Return each of *rows* once, with the earliest of its times."""
    unique, place = np.unique(rows, return_inverse=True)
    earliest_s = np.full(len(unique), np.inf)
    np.minimum.at(earliest_s, place, time_s)
    return unique, earliest_s
