"""Slotted access whose probability of sending changes from slot to slot, alike for all who have something to send."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from netfl.network.mac._draws import Draws
from netfl.network.mac._slots import NEVER, Slots, after, alike, slot_at, slots_from

if TYPE_CHECKING:
    from netfl.network.cell import Cell


class Rule(ABC):
    """How the probability follows from the number of users with something to send, or from what is heard.

    Args:
        channels: the number of channels, each of which is to be used by one in the mean.
    """

    def __init__(self, channels: int) -> None:
        self.channels = channels

    @abstractmethod
    def probability(self, estimate: float, backlog: int) -> float:
        """With which each sends."""

    def idle(self, estimate: float, slots: int) -> float:
        """The estimate after so many idle slots."""
        return estimate

    def heard(self, estimate: float, collided: int) -> float:
        """The estimate after a slot in which so many channels had collisions."""
        return estimate


class Known(Rule):
    """Everybody knows how many have something to send."""

    def probability(self, estimate: float, backlog: int) -> float:
        """Channels / n."""
        return self.channels / backlog


class PseudoBayesian(Rule):
    """Everybody estimates it from what the tower hears in each slot."""

    ARRIVALS = math.exp(-1.0)
    """New ones in each slot and channel that the estimate assumes: the most that can be carried."""

    def probability(self, estimate: float, backlog: int) -> float:
        """Channels / estimate."""
        return self.channels / estimate

    def idle(self, estimate: float, slots: int) -> float:
        """One less in each slot and channel."""
        return max(self.channels * self.ARRIVALS, estimate - slots * self.channels * (1.0 - self.ARRIVALS))

    def heard(self, estimate: float, collided: int) -> float:
        """1 / (e - 2) more for each collision, and one less for each channel without."""
        least = self.channels * self.ARRIVALS
        return max(least, estimate + least - (self.channels - collided) + collided / (math.e - 2.0))


class _State(NamedTuple):
    """Where time stands.

    Attributes:
        slot: the slot that comes next.
        hazard: Σ -log(1 - p) over the slots so far.
        estimate: that of the rule.
    """

    slot: int
    hazard: float
    estimate: float


def serve_adaptive(
    cell: Cell, slot_s: float, rule: Rule, limit: int | None, channel: Callable[[Slots], Slots]
) -> Generator[simpy.Event, Any, None]:
    """Own *cell*: in slot k all who have something to send do so with the same probability p_k.

    Each draws an exponential number E when it joins, and sends in the first slot at whose end Σ -log(1 - p_k) since
    then is E or more: that is so in each slot with probability p_k, independently.

    Args:
        cell: the cell.
        slot_s: length of a slot, one airtime at least.
        rule: what p is.
        limit: attempts that an update has.
        channel: ``channel(users)`` gives the channel that each who sends now takes.
    """
    thresholds = Draws(cell.streams.field("hazard").exponential, cell.ids)
    joins, targets = np.full(cell.size, NEVER), np.full(cell.size, np.inf)
    state = _State(0, 0.0, rule.idle(0.0, 1))
    while True:
        users = cell.changes()
        if users.size:
            state = _ahead(rule, state, targets, max(state.slot, slot_at(cell.env.now, slot_s)))
            joins[users], targets[users] = NEVER, np.inf
            users = users[np.isfinite(cell.ready_s[users])]
            joins[users] = slots_from(cell.ready_s[users], slot_s)
        new = np.flatnonzero(joins <= state.slot)
        if new.size:
            targets[new] = state.hazard + thresholds.next(new)
            joins[new] = NEVER
        then = _ahead(rule, state, targets, int(joins.min()))
        start_s = then.slot * slot_s if then.slot < NEVER else np.inf
        if start_s > cell.env.now:
            yield cell.change(by_s=start_s)
        elif then.slot == joins.min():
            state = then
        else:
            hazard, due = _due(rule, then, targets)
            targets[due] = np.inf
            collided = yield from _send(cell, due, limit, channel(due), start_s)
            state = _State(after(then.slot, cell.env.now, slot_s), hazard, rule.heard(then.estimate, collided))


def _ahead(rule: Rule, state: _State, targets: NDArray[np.float64], until: int) -> _State:
    """The state at the first slot from that of *state* on in which somebody sends, but not beyond slot *until*."""
    backlog, least = int(np.count_nonzero(targets < np.inf)), float(targets.min())
    slot, hazard, estimate = state
    if not backlog:
        return state._replace(slot=until, estimate=rule.idle(estimate, until - slot)) if until < NEVER else _END
    while slot < until:
        further = hazard + _hazard(rule.probability(estimate, backlog))
        if further >= least:
            break
        slot, hazard, estimate = slot + 1, further, rule.idle(estimate, 1)
    return _State(slot, hazard, estimate)


_END = _State(NEVER, 0.0, 0.0)


def _due(rule: Rule, state: _State, targets: NDArray[np.float64]) -> tuple[float, Slots]:
    """Who sends in the slot of *state*, and the hazard after it for those who do not."""
    further = state.hazard + _hazard(rule.probability(state.estimate, int(np.count_nonzero(targets < np.inf))))
    due = np.flatnonzero((targets <= further) & (targets < np.inf))
    return further if further < np.inf else state.hazard, due


def _hazard(probability: float) -> float:
    """-log(1 - p); infinite from 1 on."""
    return -math.log1p(-probability) if probability < 1.0 else math.inf


def _send(
    cell: Cell, users: Slots, limit: int | None, channel: Slots, begin_s: float
) -> Generator[simpy.Event, NDArray[np.bool_], int]:
    """Let *users* send; on how many channels several did and none was received."""
    sent = cell.connected(users)
    heard = yield cell.attempt(users, limit=limit, channel=alike(channel), begin_s=begin_s)
    senders = np.bincount(channel[sent])
    good = np.bincount(channel[heard], minlength=len(senders))
    return int(np.count_nonzero((senders > 1) & (good == 0)))
