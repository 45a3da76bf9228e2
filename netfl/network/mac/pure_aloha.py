"""Pure ALOHA.

Next on the way of a frame: `netfl.network.mac._unslotted.UnslottedCell.serve` and `Cell.attempt`.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Annotated, Any, Literal

import numpy as np
import simpy
from pydantic import Field

from netfl.network.mac import BufferedDraws, Mac
from netfl.network.mac._unslotted import UnslottedCell
from netfl.network.radio.bench import BenchSetup, attempt_outcomes
from netfl.network.radio.cell import Cell
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law, StatisticClaim
from netfl.units import Seconds

_LAW_USERS, _LAW_LOAD = 20, 0.5
_MIN_ROWS, _ATTEMPTS_PER_ROW = 100, 200


class PureAloha(Mac):
    """Users send at once, and again an exponential time after a failure.

    Attempts that overlap collide.  A sender learns at the end of its attempt, when all of the frame has arrived at the
    tower, whether it was received.  Idle time changes nothing: a new update is sent at once.

    Exact: n users that are silent for exponential times of mean β, because they have nothing to send or back off, and
    then send for T, are independent of each other despite collisions; a sender finds another user silent with
    probability β / (β + T), and this user stays silent for T with exp(-T/β), so an attempt is received with probability
    (exp(-T/β) β / (β + T))^(n-1).  With G = n T / (β + T) attempts per airtime it tends to exp(-2G) for large n, and
    the throughput to G exp(-2G) (Abramson, AFIPS 1970).

    Example::

        kind: pure_aloha
        backoff: 2 s
        max_attempts: 20
    """

    backoff: Annotated[Seconds, Field(gt=0)]
    """Mean of the exponential time from a failure to the next attempt."""
    max_attempts: Annotated[int, Field(ge=1)] | None = None
    """Attempts after which an update is given up; ``null`` is no limit."""

    @property
    def attempt_limit(self) -> int | None:
        return self.max_attempts

    def max_frames_hz(self, airtime_s: float, longest_s: float, delay_s: float) -> float:
        if self.max_attempts is not None:  # frames that are given up leave, too
            return math.inf
        return 1.0 / airtime_s

    @property
    def observes(self) -> tuple[str, ...]:
        return ("rate_bps",)

    @property
    def observer(self) -> Literal["tower", "users"]:
        return "users"

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        unslotted = UnslottedCell(cell)
        cell.devices = unslotted
        pauses = BufferedDraws(cell.streams.field("backoff").exponential, cell.ids)

        def plan(users: Ints) -> Floats:
            start_s: Floats = np.maximum(cell.ready_s[users], unslotted.over_s[users])
            has_failed = unslotted.failures[users] > 0
            if has_failed.any():
                start_s[has_failed] = cell.env.now + self.backoff * pauses.next(users[has_failed])
            return start_s

        def send(users: Ints) -> None:
            unslotted.send(users, self.max_attempts, cell.airtimes_s(users))

        return unslotted.serve(plan, send)

    def laws(self) -> tuple[Law, ...]:
        """Claim the share of attempts that are received, (exp(-T/β) β / (β + T))^(n-1), at G = n T / (β + T)."""
        users = _LAW_USERS
        pause_s = self.backoff
        airtime_s = pause_s * _LAW_LOAD / (users - _LAW_LOAD)
        share = (math.exp(-airtime_s / pause_s) * pause_s / (pause_s + airtime_s)) ** (users - 1)

        def draw(streams: Streams, size: int) -> tuple[Floats, Floats]:
            rng = streams.rng("pauses")

            def next_ready(silent_users: Ints, now: float) -> Floats:
                return now + rng.exponential(pause_s, len(silent_users))

            rows = max(_MIN_ROWS, size // _ATTEMPTS_PER_ROW)
            span_s = _ATTEMPTS_PER_ROW * airtime_s / _LAW_LOAD
            return attempt_outcomes(BenchSetup(self, users, airtime_s, streams), next_ready, span_s, rows)

        statement = (
            f"(exp(-T/β) β / (β + T))^(n-1), n = {users} users that have something new as soon as they would try "
            f"again, {_LAW_LOAD:g} attempts per airtime T; tends to exp(-2G)"
        )
        claim = StatisticClaim("share", statement, draw, (share,))
        return (Law("attempts that are received", statement, statistics=(claim,)),)
