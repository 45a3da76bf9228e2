"""What slotted ALOHA on one channel and on many have in common: with which probability a user sends."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

import numpy as np
import simpy
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault, ModelError
from netfl.network.mac import Mac
from netfl.network.mac._random_draws import BufferedDraws
from netfl.network.periods import MAX_PERIOD, period_from, periods_from
from netfl.units import Seconds

if TYPE_CHECKING:
    from netfl.network.radio.cell import Cell


# What the slotted MACs share: time in slots, and a loop that wakes up for the slots in which somebody sends.


Slots = NDArray[np.int64]
NEVER = np.iinfo(np.int64).max


def serve_slots(
    cell: Cell,
    slot_s: float,
    choose: Callable[[Slots, Slots], Slots],
    limit: int | None,
    *,
    channel: Callable[[Slots], Slots] | None = None,
    ended: Callable[[Slots, NDArray[np.bool_]], None] | None = None,
) -> Generator[simpy.Event, Any, None]:
    """Own *cell*: slot k begins at k·slot_s, and in it send all who chose it.

    Slots in which the tower still hears the last attempt, as sound takes time to arrive, are passed over: whoever had
    chosen one of them chooses again.

    Args:
        cell: the cell.
        slot_s: length of a slot, one airtime at least.
        choose: ``choose(users, first)`` gives the slot in which each user sends next, not before its *first*.
        limit: attempts that an update has.
        channel: ``channel(users)`` gives the channel that each who sends now takes; one for all if not given.
        ended: ``ended(users, heard)`` is told at the end who of those who sent was received.
    """
    chosen = np.full(cell.size, NEVER)
    free = 0  # the first slot that has not been served
    while True:
        users = cell.changes()
        if users.size:
            chosen[users] = NEVER
            users = users[np.isfinite(cell.ready_s[users])]
            chosen[users] = choose(users, np.maximum(slots_from(cell.ready_s[users], slot_s), free))
        slot = int(chosen.min())
        start_s = slot * slot_s if slot < NEVER else np.inf
        if start_s > cell.env.now:
            yield cell.wait_for_change(by_s=start_s)
            continue
        users = np.flatnonzero(chosen == slot)
        on = 0 if channel is None else collapse_if_equal(channel(users))
        heard = yield cell.attempt(users, limit=limit, channel=on, begin_s=start_s)
        if ended is not None:
            ended(users, heard)
        free = next_free_slot(slot, cell.env.now, slot_s)
        if free > slot + 1:
            users = np.flatnonzero((chosen > slot) & (chosen < free))
            chosen[users] = choose(users, np.full(len(users), free))


def collapse_if_equal(each: NDArray[Any]) -> Any:
    """One figure for all where all are the same, with which it is quicker to send."""
    return each[0].item() if (each == each[0]).all() else each


def slots_from(time_s: NDArray[np.float64], slot_s: float) -> Slots:
    """The first slot that begins at or after each time.

    Raises:
        ModelError: one is too far to be counted.
    """
    if time_s.size:
        _check(time_s[time_s.argmax()], slot_s)  # a third of the time of max
    return periods_from(time_s, slot_s)


def slot_at(time_s: float, slot_s: float) -> int:
    """The same for one time."""
    _check(time_s, slot_s)
    return period_from(time_s, slot_s)


def _check(time_s: float, slot_s: float) -> None:
    """Refuse to count so many slots."""
    if time_s > MAX_PERIOD * slot_s:
        problem = (
            f"somebody sends after more than {MAX_PERIOD:.2g} slots of {slot_s:.3g} s, which is more than are counted"
        )
        raise ModelError("mac", f"{problem}; make slots longer, or training shorter (compute)")


def next_free_slot(slot: int, now_s: float, slot_s: float) -> int:
    """The first slot after *slot* that has not begun by *now_s*, when all that was sent in *slot* has been heard."""
    return max(slot + 1, slot_at(now_s, slot_s))


def slots_hz(slot_s: float, limit: int | None) -> float:
    """The most frames that leave a channel each second: one in each slot, unless several can be given up in one."""
    return 1.0 / slot_s if limit is None else np.inf


def too_short(slot_s: float | None, airtime_s: float) -> Iterator[Fault]:
    """The fault of a slot in which an update does not fit."""
    if slot_s is not None and slot_s < airtime_s:
        yield Fault("slot", f"an update takes {airtime_s:.6g} s on the air", slot_s, "make it longer, or leave it out")


# Slotted access whose probability of sending changes from slot to slot, alike for all who have something to send.


class AdaptiveRule(ABC):
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


class KnownBacklog(AdaptiveRule):
    """Everybody knows how many have something to send."""

    def probability(self, estimate: float, backlog: int) -> float:
        """Channels / n."""
        return self.channels / backlog


class PseudoBayesian(AdaptiveRule):
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
    cell: Cell, slot_s: float, rule: AdaptiveRule, limit: int | None, channel: Callable[[Slots], Slots]
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
    thresholds = BufferedDraws(cell.streams.field("hazard").exponential, cell.ids)
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
            yield cell.wait_for_change(by_s=start_s)
        elif then.slot == joins.min():
            state = then
        else:
            hazard, due = _due(rule, then, targets)
            targets[due] = np.inf
            collided = yield from _send(cell, due, limit, channel(due), start_s)
            state = _State(next_free_slot(then.slot, cell.env.now, slot_s), hazard, rule.heard(then.estimate, collided))


def _ahead(rule: AdaptiveRule, state: _State, targets: NDArray[np.float64], until: int) -> _State:
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


def _due(rule: AdaptiveRule, state: _State, targets: NDArray[np.float64]) -> tuple[float, Slots]:
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
    heard = yield cell.attempt(users, limit=limit, channel=collapse_if_equal(channel), begin_s=begin_s)
    senders = np.bincount(channel[sent])
    good = np.bincount(channel[heard], minlength=len(senders))
    return int(np.count_nonzero((senders > 1) & (good == 0)))


_MOST_DOUBLINGS = 10


class Aloha(Mac):
    """Slotted ALOHA with a probability that is fixed or adapts itself."""

    probability: Annotated[float, Field(gt=0, le=1)] | None = None
    """p, with which a user that has something to send does so in a slot; exactly one of this and ``adaptive``."""
    adaptive: Literal["known", "pseudo_bayesian", "backoff"] | None = None
    """How p adapts itself."""
    max_attempts: Annotated[int, Field(ge=1)] | None = None
    """Attempts after which an update is given up; ``null`` is no limit."""
    slot: Annotated[Seconds, Field(gt=0)] | None = None
    """Length of a slot; ``null`` takes the airtime of one update."""

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        """One way to say it."""
        if (self.probability is None) == (self.adaptive is None):
            raise ValueError("give probability or adaptive, exactly one of them")
        return self

    def most_hz(self, airtime_s: float, longest_s: float) -> float:
        """One in each slot, unless several can be given up in one."""
        return slots_hz(self.slot or longest_s, self.max_attempts)

    def misfits(self, airtime_s: float) -> Iterator[Fault]:
        """A slot that is too short."""
        yield from too_short(self.slot, airtime_s)

    def _serve(self, cell: Cell, channels: int) -> Generator[simpy.Event, Any, None]:
        """Own *cell*, whose users pick one of so many channels at random for each attempt."""
        slot_s, channel = self.slot or cell.airtime_s, channel_picker(cell, channels)
        if self.adaptive == "known":
            return serve_adaptive(cell, slot_s, KnownBacklog(channels), self.max_attempts, channel)
        if self.adaptive == "pseudo_bayesian":
            return serve_adaptive(cell, slot_s, PseudoBayesian(channels), self.max_attempts, channel)
        pick = channel if channels > 1 else None
        if self.adaptive == "backoff":
            choose, ended = _backoff(cell)
            return serve_slots(cell, slot_s, choose, self.max_attempts, channel=pick, ended=ended)
        return serve_slots(cell, slot_s, _fixed(cell, self.probability or 1.0), self.max_attempts, channel=pick)


def channel_picker(cell: Cell, channels: int) -> Callable[[Slots], Slots]:
    """The channel that each user takes for its next attempt."""
    luck = BufferedDraws(cell.streams.field("channel").uniform, cell.ids)

    def pick(users: Slots) -> Slots:
        if channels == 1:
            return np.zeros(len(users), np.int64)
        return (channels * luck.next(users)).astype(np.int64)

    return pick


def _fixed(cell: Cell, probability: float) -> Callable[[Slots, Slots], Slots]:
    """Draw for each user how many slots it lets pass before its next attempt."""
    gaps = BufferedDraws(partial(cell.streams.field("gap").geometric, probability), cell.ids)
    turn = np.full(cell.size, -1)

    def choose(users: Slots, first: Slots) -> Slots:
        over = turn[users] < first  # a gap that is not over has no memory of when it began: it serves on
        again = users[over]
        turn[again] = first[over] - 1 + gaps.next(again).astype(np.int64)
        return turn[users]

    return choose


def _backoff(cell: Cell) -> tuple[Callable[[Slots, Slots], Slots], Callable[[Slots, NDArray[np.bool_]], None]]:
    """The same with p = 2^-failures of the update at hand, and what counts the failures."""
    gaps, turn = BufferedDraws(cell.streams.field("gap").uniform, cell.ids), np.full(cell.size, -1)
    failures, ready_s = np.zeros(cell.size, np.int64), np.full(cell.size, np.nan)

    def choose(users: Slots, first: Slots) -> Slots:
        new = cell.ready_s[users] != ready_s[users]
        ready_s[users] = cell.ready_s[users]
        failures[users[new]] = 0
        over = new | (turn[users] < first)
        again, first = users[over], first[over]
        trials = np.log(gaps.next(again))
        doublings = np.minimum(failures[again], _MOST_DOUBLINGS)
        with np.errstate(divide="ignore"):
            trials /= np.log1p(-(0.5**doublings))
        turn[again] = first - 1 + np.maximum(np.ceil(trials), 1.0).astype(np.int64)
        return turn[users]

    def ended(users: Slots, heard: NDArray[np.bool_]) -> None:
        failures[users] = np.where(heard, 0, failures[users] + 1)

    return choose, ended
