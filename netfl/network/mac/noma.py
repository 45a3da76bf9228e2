"""Non-orthogonal multiple access: the tower lets groups of users send at once, in the whole band."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import simpy
from pydantic import Field

from netfl.network.mac import Mac, TieBreaker
from netfl.network.periods import after_rounding
from netfl.network.radio.bench import BenchSetup, group_gains
from netfl.network.radio.cell import Cell
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law
from netfl.units import Seconds

_LAW_GROUPS = 3
_LAW_QUANTITY = "power gain of the weakest of the first group"


class Noma(Mac):
    """The tower divides the backlog into groups of users, which send one group after another, each at once.

    - ``near_far``: a group takes in turn the strongest and the weakest of the users that are left, by their SNRs.  For
      groups of 2 the strongest is with the weakest, the second with the last but one, and so on (Z. Ding, P. Fan and
      H. V. Poor, IEEE Trans. Veh. Technol. 65(8), 2016).
    - ``adjacent``: the strongest users are one group, the next ones another.
    - ``random``: a uniform draw; the tower reads no SNR.

    When all groups have sent, the tower divides the backlog again.  So each user that has something to send is served
    once in a division.  The last group can be smaller.  The next group is polled when the last frame of this one has
    arrived; a poll of a group takes ``poll``.  A user that has no frame any more when its group comes is left out.
    Users of equal SNR are ordered by a uniform draw.

    A group sends on one channel, so that the tower must receive several frames that overlap: with the interference
    `sic`, each user has the rate at which the tower decodes it after the others are cancelled, and with `sinr` that
    over the interference of all others.  A reception of one rate may be too fast for the group: its frames then collide
    at each repeat, as those of equal power do at a threshold of 0 dB.  With `sinr` and a reception that follows the
    SINR, the weaker users of a group have the rates that the stronger ones leave them, and their frames may outlast
    any deadline; `netfl check` warns of that.  Y. Saito et al., "Non-orthogonal multiple access (NOMA) for cellular
    future radio access", IEEE VTC Spring, 2013.

    For n saturated users under independent Rayleigh fading of mean 1, the weakest of the first group of g users has a
    power gain that is exponential with mean 1/n with ``near_far``, exponential with mean 1/g with ``random``, and the
    g-th largest of n exponentials with ``adjacent``: mean 1/g + 1/(g+1) + … + 1/n (order statistics, H. A. David and H.
    N. Nagaraja, 3rd ed., 2003, §2.5).

    Idle time changes nothing: what is left of a division ends with the backlog.

    Example::

        kind: noma
        group: 2
        pairing: near_far
        poll: 1 ms
    """

    sends_groups: ClassVar[bool] = True

    group: Annotated[int, Field(ge=2)] = 2
    """g, the number of users that send at once."""
    pairing: Literal["near_far", "adjacent", "random"] = "near_far"
    """The rule by which users become a group."""
    poll: Annotated[Seconds, Field(ge=0)] = 0.0
    """Duration of the poll of a group."""
    max_attempts: Annotated[int, Field(ge=1)] | None = None
    """Attempts after which an update is given up; ``null`` is no limit."""

    @property
    def attempt_limit(self) -> int | None:
        return self.max_attempts

    @property
    def observes(self) -> tuple[str, ...]:
        return () if self.pairing == "random" else ("snr_db",)

    @property
    def observation_s(self) -> float:
        return self.poll

    def max_frames_hz(self, airtime_s: float, longest_s: float, delay_s: float) -> float:
        """Return one group after each poll, if no frame is given up."""
        if self.max_attempts is not None:  # frames that are given up leave, too
            return math.inf
        return self.group / (self.poll + airtime_s)

    def usual_groups(self, mean_snr_db: Floats) -> list[Ints]:
        order = np.argsort(-mean_snr_db, kind="stable")
        if self.pairing == "near_far":
            order = _alternate(order)
        if self.pairing != "random":
            return self.cut(order)
        groups = -(-len(order) // self.group)
        return [order[first::groups] for first in range(groups)]  # evenly spaced: neither near and far nor adjacent

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        division = _Division(cell, self)
        env = cell.env
        while True:
            cell.changes()  # discard them: the backlog shows all that matters here
            backlog = cell.backlog()
            if not backlog.size:
                division.groups.clear()
                yield cell.wait_for_backlog()
                continue
            members = division.next_group(backlog)
            if self.poll:
                yield env.timeout(self.poll)
                # frames that were replaced or lost during the poll are left out
                members = members[cell.ready_s[members] <= after_rounding(env.now)]
            if members.size:
                yield cell.attempt(members, limit=self.max_attempts, is_group=True)

    def cut(self, order: Ints) -> list[Ints]:
        """Return the groups of users in this *order*; the last one can be smaller."""
        return [order[first : first + self.group] for first in range(0, len(order), self.group)]

    def laws(self) -> tuple[Law, ...]:
        g = self.group
        n = _LAW_GROUPS * g
        model = self.model_copy(update={"poll": 0.0})

        def draw(streams: Streams, size: int) -> Floats:
            gains = group_gains(BenchSetup(model, n, 1.0, streams), g, size * _LAW_GROUPS)
            return np.asarray(gains[::_LAW_GROUPS].min(axis=1))

        setting = f"of n = {n} users under independent Rayleigh fading of mean 1 that always have something to send"
        if self.pairing == "adjacent":
            terms = 1.0 / np.arange(g, n + 1)
            statement = f"mean 1/g + … + 1/n and variance 1/g² + … + 1/n² {setting}, in groups of g = {g}"
            variance = float(np.square(terms).sum())
            return (Law(_LAW_QUANTITY, statement, draw, mean=float(terms.sum()), variance=variance),)
        mean = 1.0 / n if self.pairing == "near_far" else 1.0 / g
        statement = f"P(gain ≤ x) = 1 - e^(-x / {mean:.4g}) {setting}, in groups of g = {g}"
        return (
            Law(
                _LAW_QUANTITY,
                statement,
                draw,
                mean=mean,
                variance=mean**2,
                cdf=lambda x: -np.expm1(-np.asarray(x) / mean),
            ),
        )


@dataclass(slots=True)
class _Division:
    """Groups into which the tower has divided the backlog, the next one first.

    Args:
        groups: groups that have not been polled.
    """

    cell: Cell
    mac: Noma
    groups: list[Ints] = field(default_factory=list)
    ties: TieBreaker = field(init=False)
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.ties = TieBreaker(self.cell)
        self.rng = self.cell.streams.rng("group")

    def next_group(self, backlog: Ints) -> Ints:
        """Return those of the next group that are in the *backlog*, of which there is one at least."""
        while True:
            if not self.groups:
                self._divide(backlog)
            members = self.groups.pop(0)
            is_waiting = np.isin(members, backlog)
            if is_waiting.any():
                return members[is_waiting]

    def _divide(self, backlog: Ints) -> None:
        """Divide the *backlog* into groups."""
        if self.mac.pairing == "random":
            order = self.rng.permutation(backlog)
        else:
            order = self._by_snr(backlog)
        if self.mac.pairing == "near_far":
            order = _alternate(order)
        self.groups = self.mac.cut(order)

    def _by_snr(self, backlog: Ints) -> Ints:
        """Return the users by their SNRs, the strongest first, and those of equal SNR in a random order."""
        left = backlog
        snr_db = self.cell.snr_db(backlog)
        order = []
        while left.size:
            user = self.ties.pick_largest(left, snr_db)
            order.append(user)
            is_left = left != user
            left = left[is_left]
            snr_db = snr_db[is_left]
        return np.array(order, np.int64)


def _alternate(order: Ints) -> Ints:
    """Return the first, the last, the second, the last but one … of *order*.

    Pairs of it are near and far; a larger group takes in turn from both ends.

    >>> _alternate(np.array([5, 6, 7, 8, 9])).tolist()
    [5, 9, 6, 8, 7]
    """
    half = (len(order) + 1) // 2
    alternating = np.empty_like(order)
    alternating[0::2] = order[:half]
    alternating[1::2] = order[: half - 1 : -1]
    return alternating
