"""Slotted access: time in slots, and ALOHA with a fixed or an adaptive probability of sending."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

import numpy as np
import simpy
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault, ModelError
from netfl.network.mac import Bools, Floats, Ints, Mac
from netfl.network.mac._random_draws import BufferedDraws
from netfl.network.mac._test_bench import BenchSetup, carried_load_law, slot_successes
from netfl.network.periods import MAX_PERIOD, period_from, periods_from
from netfl.types import Law
from netfl.units import Seconds

if TYPE_CHECKING:
    from netfl.network.radio.cell import Cell

NEVER = np.iinfo(np.int64).max
_MAX_DOUBLINGS = 10
_LAW_USERS, _LAW_LOAD = 50, 0.3


@dataclass(frozen=True, slots=True)
class SlottedCell:
    """A cell whose time is divided into slots: slot k begins at k·slot_s.

    Args:
        cell: the cell.
        slot_s: length of a slot, at least one airtime.
        max_attempts: attempts that an update has; ``None`` is no limit.
        pick_channel: ``pick_channel(users)`` returns the channel of each sender; ``None`` if there is one channel only.
    """

    cell: Cell
    slot_s: float
    max_attempts: int | None = None
    pick_channel: Callable[[Ints], Ints] | None = None

    def channels(self, users: Ints) -> Ints:
        """Return the channel on which each of *users* sends now."""
        return np.zeros(len(users), np.int64) if self.pick_channel is None else self.pick_channel(users)

    def start_s(self, slot: int) -> float:
        """Return the start of a slot; infinity for ``NEVER``."""
        return slot * self.slot_s if slot < NEVER else np.inf

    def joining_slots(self, users: Ints) -> tuple[Ints, Ints]:
        """Return those of *users* that have a frame, now or later, and the first slot of each."""
        users = users[np.isfinite(self.cell.ready_s[users])]
        return users, first_slots_from(self.cell.ready_s[users], self.slot_s)

    def next_free_slot(self, slot: int) -> int:
        """Return the first slot after *slot* that has not begun, when all frames of *slot* have arrived."""
        return next_free_slot(slot, self.cell.env.now, self.slot_s)


def serve_slots(
    slotted: SlottedCell,
    choose: Callable[[Ints, Ints], Ints],
    end_slot: Callable[[Ints, Bools], None] | None = None,
) -> Generator[simpy.Event, Any, None]:
    """Let each user send in the slots that it chooses.

    Slots in which the last frames still arrive at the tower, because of propagation delay, are skipped: users that had
    chosen one of them choose again.

    Args:
        slotted: the cell.
        choose: ``choose(users, first)`` returns the next slot of each user, not before its *first*.
        end_slot: ``end_slot(users, received)`` is called after each slot with its senders.
    """
    cell, limit, has_channels = slotted.cell, slotted.max_attempts, slotted.pick_channel is not None
    chosen = np.full(cell.size, NEVER)
    free = 0  # first slot that has not been served
    while True:
        users = cell.changes()
        if users.size:
            chosen[users] = NEVER
            users, first = slotted.joining_slots(users)
            chosen[users] = choose(users, np.maximum(first, free))
        slot = int(chosen.min())
        start_s = slotted.start_s(slot)
        if start_s > cell.env.now:
            yield cell.wait_for_change(by_s=start_s)
            continue
        users = np.flatnonzero(chosen == slot)
        channel = collapse_if_equal(slotted.channels(users)) if has_channels else 0
        received = yield cell.attempt(users, limit=limit, channel=channel, begin_s=start_s)
        if end_slot is not None:
            end_slot(users, received)
        free = slotted.next_free_slot(slot)
        if free > slot + 1:
            users = np.flatnonzero((chosen > slot) & (chosen < free))
            chosen[users] = choose(users, np.full(len(users), free))


def collapse_if_equal(values: NDArray[Any]) -> Any:
    """Return one value if all are equal, because the cell is faster with it; else *values*."""
    return values[0].item() if (values == values[0]).all() else values


def first_slots_from(time_s: Floats, slot_s: float) -> Ints:
    """Return the first slot that begins at or after each time.

    Raises:
        ModelError: a time is too late for slots to be counted.
    """
    if time_s.size:
        _check_countable(time_s[time_s.argmax()], slot_s)  # a third of the time of max
    return periods_from(time_s, slot_s)


def first_slot_from(time_s: float, slot_s: float) -> int:
    """Return the first slot that begins at or after a time."""
    _check_countable(time_s, slot_s)
    return period_from(time_s, slot_s)


def _check_countable(time_s: float, slot_s: float) -> None:
    if time_s > MAX_PERIOD * slot_s:
        problem = (
            f"somebody sends after more than {MAX_PERIOD:.2g} slots of {slot_s:.3g} s, which is more than are counted"
        )
        raise ModelError("mac", f"{problem}; make slots longer, or training shorter (compute)")


def next_free_slot(slot: int, now_s: float, slot_s: float) -> int:
    """Return the first slot after *slot* that begins at or after *now_s*."""
    return max(slot + 1, first_slot_from(now_s, slot_s))


def max_slot_frames_hz(slot_s: float, max_attempts: int | None) -> float:
    """Return the highest rate of frames that leave one channel: one per slot, unless several can be given up in one."""
    return 1.0 / slot_s if max_attempts is None else np.inf


def slot_faults(slot_s: float | None, airtime_s: float) -> Iterator[Fault]:
    """Yield an error if an update does not fit into a slot."""
    if slot_s is not None and slot_s < airtime_s:
        yield Fault("slot", f"an update takes {airtime_s:.6g} s on the air", slot_s, "make it longer, or leave it out")


class AdaptiveRule(ABC):
    """A rule that adapts the probability of sending, which is the same for all users of the backlog.

    Args:
        channels: number of channels; the rule aims at one sender per channel on average.
    """

    def __init__(self, channels: int) -> None:
        self.channels = channels

    @abstractmethod
    def probability(self, estimate: float, backlog: int) -> float:
        """Return the probability with which each user sends."""

    def after_idle(self, estimate: float, slots: int) -> float:
        """Return the estimate of the backlog after a number of idle slots."""
        return estimate

    def after_attempts(self, estimate: float, collided: int) -> float:
        """Return the estimate of the backlog after a slot with attempts, with collisions on *collided* channels."""
        return estimate


class KnownBacklog(AdaptiveRule):
    """Every user knows the number of users n of the backlog: p = channels / n."""

    def probability(self, estimate: float, backlog: int) -> float:
        """Return channels / n."""
        return self.channels / backlog


class PseudoBayesian(AdaptiveRule):
    """Every user estimates the backlog from the feedback of each slot."""

    ARRIVALS = math.exp(-1.0)
    """New users per slot and channel that the estimate assumes: the capacity."""

    def probability(self, estimate: float, backlog: int) -> float:
        """Return channels / estimate."""
        return self.channels / estimate

    def after_idle(self, estimate: float, slots: int) -> float:
        """Subtract one and add the arrivals, per slot and channel."""
        return max(self.channels * self.ARRIVALS, estimate - slots * self.channels * (1.0 - self.ARRIVALS))

    def after_attempts(self, estimate: float, collided: int) -> float:
        """Add 1 / (e - 2) per collision, and subtract one per channel without a collision."""
        arrivals = self.channels * self.ARRIVALS
        return max(arrivals, estimate + arrivals - (self.channels - collided) + collided / (math.e - 2.0))


class _State(NamedTuple):
    """Progress of adaptive access.

    Attributes:
        slot: next slot.
        hazard: Σ -log(1 - p) over the slots so far.
        estimate: estimate of the rule.
    """

    slot: int
    hazard: float
    estimate: float


_END = _State(NEVER, 0.0, 0.0)


def serve_adaptive(slotted: SlottedCell, rule: AdaptiveRule) -> Generator[simpy.Event, Any, None]:
    """Let all users of the backlog send in slot k with the same probability p_k of *rule*.

    Each user draws an exponential threshold E when it joins.  It sends in the first slot at whose end Σ -log(1 - p_k)
    since then is at least E, which has probability p_k in each slot, independently.
    """
    cell = slotted.cell
    thresholds = BufferedDraws(cell.streams.field("hazard").exponential, cell.ids)
    joins, targets = np.full(cell.size, NEVER), np.full(cell.size, np.inf)
    state = _State(0, 0.0, rule.after_idle(0.0, 1))
    while True:
        users = cell.changes()
        if users.size:
            now = max(state.slot, first_slot_from(cell.env.now, slotted.slot_s))
            state = _skip_idle_slots(rule, state, targets, now)
            joins[users], targets[users] = NEVER, np.inf
            users, first = slotted.joining_slots(users)
            joins[users] = first
        new = np.flatnonzero(joins <= state.slot)
        if new.size:
            targets[new] = state.hazard + thresholds.next(new)
            joins[new] = NEVER
        ahead = _skip_idle_slots(rule, state, targets, int(joins.min()))
        start_s = slotted.start_s(ahead.slot)
        if start_s > cell.env.now:
            yield cell.wait_for_change(by_s=start_s)
        elif ahead.slot == joins.min():
            state = ahead
        else:
            hazard, due = _due(rule, ahead, targets)
            targets[due] = np.inf
            collided = yield from _send(slotted, due, start_s)
            state = _State(slotted.next_free_slot(ahead.slot), hazard, rule.after_attempts(ahead.estimate, collided))


def _skip_idle_slots(rule: AdaptiveRule, state: _State, targets: Floats, until: int) -> _State:
    """Return the state at the first slot in which a user sends, but at most at slot *until*."""
    backlog, lowest = int(np.count_nonzero(targets < np.inf)), float(targets.min())
    slot, hazard, estimate = state
    if not backlog:
        return state._replace(slot=until, estimate=rule.after_idle(estimate, until - slot)) if until < NEVER else _END
    while slot < until:
        next_hazard = hazard + _hazard(rule.probability(estimate, backlog))
        if next_hazard >= lowest:
            break
        slot, hazard, estimate = slot + 1, next_hazard, rule.after_idle(estimate, 1)
    return _State(slot, hazard, estimate)


def _due(rule: AdaptiveRule, state: _State, targets: Floats) -> tuple[float, Ints]:
    """Return the hazard after the slot of *state*, and the users that send in it."""
    hazard = state.hazard + _hazard(rule.probability(state.estimate, int(np.count_nonzero(targets < np.inf))))
    due = np.flatnonzero((targets <= hazard) & (targets < np.inf))
    return hazard if hazard < np.inf else state.hazard, due


def _hazard(probability: float) -> float:
    """Return -log(1 - p); infinity from 1 on."""
    return -math.log1p(-probability) if probability < 1.0 else math.inf


def _send(slotted: SlottedCell, users: Ints, start_s: float) -> Generator[simpy.Event, Bools, int]:
    """Let *users* send; return the number of channels on which several did and none was received."""
    cell, channel = slotted.cell, slotted.channels(users)
    has_sent = cell.connected(users)
    received = yield cell.attempt(
        users, limit=slotted.max_attempts, channel=collapse_if_equal(channel), begin_s=start_s
    )
    senders = np.bincount(channel[has_sent])
    successes = np.bincount(channel[received], minlength=len(senders))
    return int(np.count_nonzero((senders > 1) & (successes == 0)))


class Aloha(Mac):
    """Slotted ALOHA with a fixed or an adaptive probability."""

    probability: Annotated[float, Field(gt=0, le=1)] | None = None
    """p, with which a user of the backlog sends in a slot; give either this or ``adaptive``."""
    adaptive: Literal["known", "pseudo_bayesian", "backoff"] | None = None
    """How p adapts itself."""
    max_attempts: Annotated[int, Field(ge=1)] | None = None
    """Attempts after which an update is given up; ``null`` is no limit."""
    slot: Annotated[Seconds, Field(gt=0)] | None = None
    """Length of a slot; ``null`` takes the airtime of one update."""

    @model_validator(mode="after")
    def _check_rule(self) -> Self:
        if (self.probability is None) == (self.adaptive is None):
            raise ValueError("give probability or adaptive, exactly one of them")
        return self

    def max_frames_hz(self, airtime_s: float, max_airtime_s: float) -> float:
        """Return one frame per slot, unless several can be given up in one."""
        return max_slot_frames_hz(self.slot or max_airtime_s, self.max_attempts)

    def airtime_faults(self, airtime_s: float) -> Iterator[Fault]:
        """Yield an error if the slot is too short."""
        yield from slot_faults(self.slot, airtime_s)

    def _serve(self, cell: Cell, channels: int) -> Generator[simpy.Event, Any, None]:
        """Serve *cell*, whose users pick one of the channels at random for each attempt."""
        pick = channel_picker(cell, channels) if channels > 1 else None
        slotted = SlottedCell(cell, self.slot or cell.airtime_s, self.max_attempts, pick)
        if self.adaptive == "known":
            return serve_adaptive(slotted, KnownBacklog(channels))
        if self.adaptive == "pseudo_bayesian":
            return serve_adaptive(slotted, PseudoBayesian(channels))
        if self.adaptive == "backoff":
            return serve_slots(slotted, *_backoff(cell))
        return serve_slots(slotted, _geometric_gaps(cell, self.probability or 1.0))

    def _laws(self, m: int, formula: str, source: str) -> tuple[Law, ...]:
        """Claim the throughput on *m* channels, of a saturated cell or under Poisson arrivals."""
        if self.adaptive == "backoff":
            return (Law.none("how often k failures come in a row has no closed form, and grows without bounds with n"),)
        if self.adaptive == "pseudo_bayesian":
            return (carried_load_law(self, self.slot or 1.0, _LAW_USERS * m, _LAW_LOAD * m),)
        users = max(_LAW_USERS, 2 * m) if self.probability is None else min(round(m / self.probability), 100)
        p = min(1.0, m / users) if self.probability is None else self.probability
        mean, pairs = users * p * (1 - p / m) ** (users - 1), 0.0
        if m > 1 and users > 1:
            pairs = (m - 1) / m * users * (users - 1) * p**2 * (1 - 2 * p / m) ** (users - 2)
        return (
            Law(
                "successes per slot",
                f"{formula} with n = {users} users that always have something to send{source}",
                lambda streams, size: slot_successes(BenchSetup(self, users, self.slot or 1.0, streams), size),
                mean=mean,
                variance=mean + pairs - mean**2,
            ),
        )


def channel_picker(cell: Cell, channels: int) -> Callable[[Ints], Ints]:
    """Return the function that draws the channel of each user's next attempt."""
    uniforms = BufferedDraws(cell.streams.field("channel").uniform, cell.ids)
    return lambda users: (channels * uniforms.next(users)).astype(np.int64)


def _geometric_gaps(cell: Cell, probability: float) -> Callable[[Ints, Ints], Ints]:
    """Draw the number of slots to each user's next attempt."""
    gaps = BufferedDraws(partial(cell.streams.field("gap").geometric, probability), cell.ids)
    next_slot = np.full(cell.size, -1)

    def choose(users: Ints, first: Ints) -> Ints:
        is_over = next_slot[users] < first  # an unfinished gap is memoryless, and is used again
        drawing = users[is_over]
        next_slot[drawing] = first[is_over] - 1 + gaps.next(drawing).astype(np.int64)
        return next_slot[users]

    return choose


def _backoff(cell: Cell) -> tuple[Callable[[Ints, Ints], Ints], Callable[[Ints, Bools], None]]:
    """Draw gaps with p = 2^-failures of the current update; return this function and the one that counts failures."""
    gaps, next_slot = BufferedDraws(cell.streams.field("gap").uniform, cell.ids), np.full(cell.size, -1)
    failures, ready_s = np.zeros(cell.size, np.int64), np.full(cell.size, np.nan)

    def choose(users: Ints, first: Ints) -> Ints:
        is_new = cell.ready_s[users] != ready_s[users]
        ready_s[users] = cell.ready_s[users]
        failures[users[is_new]] = 0
        is_over = is_new | (next_slot[users] < first)
        drawing, first = users[is_over], first[is_over]
        trials = np.log(gaps.next(drawing))
        doublings = np.minimum(failures[drawing], _MAX_DOUBLINGS)
        with np.errstate(divide="ignore"):
            trials /= np.log1p(-(0.5**doublings))
        next_slot[drawing] = first - 1 + np.maximum(np.ceil(trials), 1.0).astype(np.int64)
        return next_slot[users]

    def count_failures(users: Ints, received: Bools) -> None:
        failures[users] = np.where(received, 0, failures[users] + 1)

    return choose, count_failures
