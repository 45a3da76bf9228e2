"""Checks of a MAC from outside netfl, in each of its steps.

A wrong step does not fail by itself.  A user that sends twice, or in the past, only changes the results.  A loop
without waiting never ends.  A MAC may take such a step in any round, so that the checks last as long as the run.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import simpy
from numpy.typing import ArrayLike

from netfl.core.kinds import kind_of
from netfl.core.plugins import one_line_of
from netfl.errors import Fault, ScenarioError, is_explained
from netfl.network.mac import Mac
from netfl.network.periods import SLACK, after_rounding
from netfl.network.radio.cell import Cell
from netfl.types import Users

_MAX_YIELDS = 10_000
"""Times in a row that a MAC may yield without advancing the clock, in a cell of up to 1000 users."""


class CheckedCell(Cell):
    """A cell that checks what its MAC does.

    Args:
        mac: the MAC from outside netfl.
        parts: the first five arguments of `Cell`.
    """

    def __init__(self, mac: Mac, *parts: Any) -> None:
        arguments = (*parts, mac.declared)
        super().__init__(*arguments)
        self._mac = mac

    def serve(self) -> Generator[simpy.Event, Any, None]:
        """Run the MAC.

        Raises:
            ScenarioError: the MAC violates its contract, fails or ends; the key is that of the MAC.
        """
        try:
            yield from self._checked_events(self._mac.serve(self))
        except Exception as error:  # whatever the user's class does
            if is_explained(error):
                raise
            is_event = re.search("'(Event|Timeout|Process)' object", str(error))
            remedy = "write yield before cell.attempt() or cell.wait_for_backlog()" if is_event else "correct serve()"
            raise self._error(one_line_of(error, self._mac), None, remedy) from error
        problem = "it stopped serving its cell before the end of the run"
        raise self._error(problem, None, "put its steps into while True")

    def attempt(self, users: Users | Sequence[int], *, begin_s: float = 0.0, **options: Any) -> simpy.Event:
        self._check_users(users, max(begin_s, self.env.now))
        late_s = self.env.now - begin_s
        if begin_s and late_s > 2.0 * SLACK * self.env.now:
            problem = f"attempt() is given begin_s={begin_s:g}, which lies {late_s:.3g} s before now"
            raise self._error(problem, np.asarray(users).tolist(), "take next_slot and wait_until")
        if options.get("share") is not None:
            self._check_shares(users, options["share"])
        elif self._mac.divides_band:
            raise self._error("attempt() is given no share, but the MAC divides the band", None, "give share")
        return super().attempt(users, begin_s=begin_s, **options)

    def _check_shares(self, users: Users | Sequence[int], share: ArrayLike) -> None:
        """Check that radios can use their shares, and that those of all frames on the air add up to at most 1."""
        shares = np.broadcast_to(np.asarray(share, float), len(users))
        total = float(shares.sum() + self.shares_on_air().sum())
        if not (shares > 0.0).all():
            raise self._error("attempt() is given a share that is not positive", shares.tolist(), "give fractions")
        if total > 1.0 + SLACK:
            problem = f"the shares of the frames on the air add up to {total:.6g}, more than the band"
            raise self._error(problem, shares.tolist(), "give fractions that add up to at most 1")
        if (shares > self.max_shares(np.asarray(users, np.int64)) + SLACK).any():
            problem = "attempt() is given a share that is wider than the radio of its user"
            raise self._error(problem, shares.tolist(), "give at most cell.max_shares(users)")

    def _check_users(self, users: Users | Sequence[int], start_s: float) -> None:
        self._queue.refresh(self.env.now)
        values = np.asarray(users)
        remedy = f"give numbers from 0 to {self.size - 1}, each once"
        if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
            problem = f"users of type {values.dtype}"
            remedy = "give a list of numbers, of a mask np.flatnonzero(mask)"
        elif values.size and not 0 <= values.min() <= values.max() < self.size:
            problem = "users that are not in the cell"
        elif len(np.unique(values)) < len(values):
            problem = "a user twice"
        elif self.transmit_path.is_sending()[values].any():
            problem = "a user that is on the air"
            remedy = "take users of backlog()"
        elif (self.ready_s[values] > after_rounding(start_s)).any():
            problem = "a user that has no frame then"
            remedy = "take users of backlog() after each wait, in which a frame may be replaced or lost"
        else:
            return
        raise self._error(f"attempt() is given {problem}", values.tolist(), remedy)

    def _checked_events(self, serving: object) -> Generator[simpy.Event, Any, None]:
        """Pass on what the MAC yields, if these are events and take time."""
        if not isinstance(serving, Generator):
            remedy = "yield events in it, such as cell.wait_for_backlog()"
            raise self._error("serve() is not a generator", serving, remedy)
        resume, value = serving.send, None
        limit = max(_MAX_YIELDS, 10 * self.size)
        now_s = self.env.now
        yields = 0
        while True:
            try:
                event = resume(value)
            except StopIteration:
                return
            if not isinstance(event, simpy.Event):
                remedy = "yield an event; to wait some seconds, cell.env.timeout(seconds)"
                raise self._error("serve() yields what is not an event", event, remedy)
            if self.env.now > now_s:
                yields = 0
            yields += 1
            now_s = self.env.now
            if yields > limit:
                problem = f"serve() yields {limit:,} times in a row without advancing the clock"
                raise self._error(problem, None, "let each pass of its loop wait for a time, or attempt")
            try:
                resume, value = serving.send, (yield event)
            except Exception as error:  # an event that failed: the MAC may catch it
                resume, value = serving.throw, error

    def _error(self, problem: str, value: object, remedy: str) -> ScenarioError:
        """Return the error of a MAC that violates its contract now."""
        problem = f"{kind_of(type(self._mac))}, at {self.env.now:.6g} s of simulated time: {problem}"
        return ScenarioError([Fault("mac", problem, value, remedy)])
