"""Slotted ALOHA.

Next on the way of a frame: `netfl.network.mac._slotted.SlottedCell.serve` and `Cell.attempt`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
import simpy
from pydantic import Field, model_validator

from netfl.core.spec import check_one_of
from netfl.network.mac import BufferedDraws, IdleTime
from netfl.network.mac._bases import SlottedMac, channel_picker
from netfl.network.mac._hopping import DevicesThatHop, open_orders
from netfl.network.mac._slotted import NEVER, SlottedCell
from netfl.network.radio.bench import BenchSetup, carried_load_law, slot_successes
from netfl.network.radio.cell import Cell
from netfl.types import Bools, Floats, Ints, Law, Users

_MAX_DOUBLINGS = 10
_LAW_USERS, _LAW_LOAD = 50, 0.3


class Aloha(SlottedMac):
    """Slotted ALOHA with a fixed or an adaptive probability."""

    probability: Annotated[float, Field(gt=0, le=1)] | None = None
    """p, with which a user of the backlog sends in a slot; give either this or ``adaptive``."""
    adaptive: Literal["known", "pseudo_bayesian", "backoff"] | None = None
    """Rule by which p adapts."""

    @model_validator(mode="after")
    def _check_rule(self) -> Self:
        check_one_of(self, "probability", "adaptive")
        return self

    @property
    @abstractmethod
    def channel_count(self) -> int:
        """Number of channels, of which users pick one for each attempt."""

    @property
    def hops(self) -> str | tuple[int, ...]:
        """Order in which users take the channels, `netfl.network.mac._hopping.Hopping`."""
        return "random"

    @property
    def repeats_alike(self) -> bool:
        return self.probability == 1.0 and self.channel_count == 1

    @property
    def observes(self) -> tuple[str, ...]:
        if self.adaptive == "known":  # the number of users with a frame
            return ("backlog",)
        return ()

    @property
    def idle_time(self) -> IdleTime:
        return "expires" if self.adaptive == "pseudo_bayesian" else "no_effect"

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        channels = self.channel_count
        orders = open_orders(self.hops, cell.streams.field("hopping"), cell.ids, channels)
        pick: Callable[[Ints], Ints] | None = None
        if orders is not None:
            pick = orders.next
            cell.devices = orders
        elif channels > 1:
            pick = channel_picker(cell, channels)
        slotted = SlottedCell(cell, self.slot or cell.airtime_s, self.max_attempts, pick)
        if self.adaptive == "known":
            return serve_adaptive(slotted, KnownBacklog(channels))
        if self.adaptive == "pseudo_bayesian":
            return serve_adaptive(slotted, PseudoBayesian(channels))
        if self.adaptive == "backoff":
            backoff = _Backoff(slotted)
            cell.devices = backoff if orders is None else DevicesThatHop(orders, backoff)
            slotted.end_slot = backoff.count_failures
            return slotted.serve(backoff.choose)
        return slotted.serve(_geometric_gaps(cell, self.probability or 1.0))

    def _laws(self, formula: str, source: str) -> tuple[Law, ...]:
        """Claim the successes S per slot of n saturated users on M channels, or the load that the rule carries.

        E[S] = n p (1 - p/M)^(n-1), E[S (S-1)] = (M-1)/M n (n-1) p² (1 - 2p/M)^(n-2), Var S = E[S] + E[S (S-1)] - E[S]².
        """
        m = self.channel_count
        if self.adaptive == "backoff":
            return (Law.none("the number of runs of k failures has no closed form and grows without bound with n"),)
        if self.adaptive == "pseudo_bayesian":
            return (carried_load_law(self, self.slot or 1.0, _LAW_USERS * m, _LAW_LOAD * m),)
        if self.probability is None:  # the known backlog: p = M / n
            users = max(_LAW_USERS, 2 * m)
            p = min(1.0, m / users)
        else:
            users = min(round(m / self.probability), 100)
            p = self.probability
        mean = users * p * (1 - p / m) ** (users - 1)
        pairs = 0.0
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


class SlottedAloha(Aloha):
    """Each user of the backlog sends in each slot with probability p, until its update is received.

    Two or more frames in one slot collide.  With n saturated users a slot has a success with probability
    n p (1-p)^(n-1), independently of all others (Abramson, AFIPS 1970; Roberts, ACM CCR 5(2), 1975).
    The model draws the gaps between a user's attempts, which are geometric, so idle slots cost no time.

    p is fixed (``probability``) or ``adaptive``:

    - ``known``: p = 1/n, the optimum, for a tower that knows the backlog and announces it; users that are sending
      count.
    - ``pseudo_bayesian``: p = min(1, 1/v); every user estimates n by v, which becomes max(λ, v + λ - 1) after a slot
      that was idle or had a success and v + λ + 1/(e - 2) after a collision, λ = 1/e.  Stable for Poisson arrivals
      below 1/e per slot (Rivest, IEEE Trans. IT 33(3), 1987; Bertsekas and Gallager, Data Networks, 2nd ed., §4.2.3).
      A frame that fades alone looks like an idle slot.  The result of a slot is known when all frames that began in it
      have ended, propagation delay included.  A slot in which nobody begins counts as idle, also where a frame that
      outlasts its slot continues: v is then too small, and slots that hold a frame avoid it.
    - ``backoff``: p = 2^-k after k failures of the current update, k at most 10: binary exponential backoff (ibid.,
      §4.2.3).  A user that is cut off starts over.

    Users are independent: a frame that ends after its slot, by propagation delay or by its size, delays no other user,
    and collides with the frames that it overlaps.  Its sender learns the result at its end, and chooses again then.

    Idle time changes nothing, except that the estimate v of ``pseudo_bayesian`` falls by 1 - λ in each idle slot, to λ
    at least.  Failures of ``backoff`` are those of the current update, however long it waits.

    Example::

        kind: slotted_aloha
        probability: 0.05
        max_attempts: 50
    """

    @property
    def channel_count(self) -> int:
        return 1

    def laws(self) -> tuple[Law, ...]:
        return self._laws("n p (1-p)^(n-1)", " (Abramson 1970)")


def _geometric_gaps(cell: Cell, probability: float) -> Callable[[Ints, Ints], Ints]:
    """Return the choice of slots after gaps of k slots with probability p (1-p)^(k-1)."""
    gaps = BufferedDraws(partial(cell.streams.field("gap").geometric, probability), cell.ids)
    next_slot = np.full(cell.size, -1)

    def choose(users: Ints, first: Ints) -> Ints:
        is_over = next_slot[users] < first  # an unfinished gap is memoryless, and is used again
        drawing_users = users[is_over]
        next_slot[drawing_users] = first[is_over] - 1 + gaps.next(drawing_users).astype(np.int64)
        return next_slot[users]

    return choose


class _Backoff:
    """Gaps with p = 2^-k after k failures of the current update.

    Failures are those of a device, and move with it.  Its gap does not: the rest of a geometric one is as long as a
    gap that is drawn where the device goes.
    """

    def __init__(self, slotted: SlottedCell) -> None:
        cell = slotted.cell
        self._slotted = slotted
        self._cell = cell
        self._uniforms = BufferedDraws(cell.streams.field("gap").uniform, cell.ids)
        self._next_slot = np.full(cell.size, -1)
        self._failures = np.zeros(cell.size, np.int64)  # of the current update
        self._ready_s = np.full(cell.size, np.nan)  # of the current update

    def choose(self, users: Ints, first: Ints) -> Ints:
        """Return the slot at the end of each user's gap, not before its *first*."""
        ready_s = self._cell.ready_s[users]
        is_new_update = ready_s != self._ready_s[users]
        self._ready_s[users] = ready_s
        self._failures[users[is_new_update]] = 0

        # the gap is geometric: ⌈log U / log(1 - p)⌉ slots for a uniform U, with p = 2^-k
        is_over = is_new_update | (self._next_slot[users] < first)
        drawing_users = users[is_over]
        trials = np.log(self._uniforms.next(drawing_users))
        k = np.minimum(self._failures[drawing_users], _MAX_DOUBLINGS)
        with np.errstate(divide="ignore"):
            trials /= np.log1p(-(0.5**k))
        self._next_slot[drawing_users] = first[is_over] - 1 + np.maximum(np.ceil(trials), 1.0).astype(np.int64)
        return self._next_slot[users]

    def count_failures(self, users: Ints, received: Bools) -> None:
        """Note which frames of *users* have failed."""
        self._failures[users] = np.where(received, 0, self._failures[users] + 1)

    def take(self, users: Users) -> Mapping[str, Any]:
        """Take what is known of users who leave, as `DeviceState.take`."""
        self._slotted.report_results(users)
        is_of_update = self._cell.ready_s[users] == self._ready_s[users]
        row = {"failures": np.where(is_of_update, self._failures[users], 0)}
        self._failures[users] = 0
        self._ready_s[users] = np.nan
        return row

    def put(self, users: Users, row: Mapping[str, Any]) -> None:
        """Put back what is known of users who come, as `DeviceState.put`."""
        self._failures[users] = row["failures"]
        self._ready_s[users] = self._cell.ready_s[users]
        self._next_slot[users] = -1


class KnownBacklog:
    """Rule for users that know how many they are: each user of the backlog sends with probability channels / n.

    Args:
        channels: number of channels; the rule aims at one sender per channel on average.
    """

    def __init__(self, channels: int) -> None:
        self.channels = channels

    def probability(self, estimate: float, backlog: int) -> float:
        """Return the probability with which each user sends; *backlog* has those that are sending, too."""
        return self.channels / backlog

    def after_idle(self, estimate: float, slots: int) -> float:
        """Return the estimate of the backlog after a number of idle slots."""
        return estimate

    def after_attempts(self, estimate: float, collided: int) -> float:
        """Return the estimate of the backlog after a slot with attempts, with collisions on *collided* channels."""
        return estimate


class PseudoBayesian(KnownBacklog):
    """Rule for users that estimate the backlog from the feedback of each slot."""

    ARRIVALS = math.exp(-1.0)
    """New users per slot and channel that the estimate assumes: the capacity."""

    def probability(self, estimate: float, backlog: int) -> float:
        return self.channels / estimate

    def after_idle(self, estimate: float, slots: int) -> float:
        return max(self.channels * self.ARRIVALS, estimate - slots * self.channels * (1.0 - self.ARRIVALS))

    def after_attempts(self, estimate: float, collided: int) -> float:
        """Add 1 / (e - 2) per collision, and subtract one per channel without a collision."""
        arrivals = self.channels * self.ARRIVALS
        return max(arrivals, estimate + arrivals - (self.channels - collided) + collided / (math.e - 2.0))


class _State(NamedTuple):
    """Progress of adaptive access.

    Args:
        slot: the next slot.
        hazard: Σ -log(1 - p) over the slots before it.
        estimate: the rule's estimate of the backlog.
    """

    slot: int
    hazard: float
    estimate: float


@dataclass(slots=True, eq=False)
class _SlotFeedback:
    """Attempts that began in one slot.

    Args:
        sender_channels: channel of each sender that was connected.
        due_channels: channel of each user that was due, connected or not.
        end: event of their end.
        other_channels: channels of the frames of other slots that were on the air at the same time.
    """

    sender_channels: Ints
    due_channels: Ints
    end: simpy.Event
    other_channels: list[Ints]

    def collided(self) -> int:
        """Return the number of channels with collisions, once all frames have ended."""
        frames = np.bincount(np.concatenate([self.sender_channels, *self.other_channels]))  # of each channel
        received = np.asarray(self.end.value)
        successes = np.bincount(self.due_channels[received], minlength=len(frames))
        is_used = np.bincount(self.sender_channels, minlength=len(frames)) > 0
        return int(np.count_nonzero(is_used & (frames > 1) & (successes == 0)))


def serve_adaptive(slotted: SlottedCell, rule: KnownBacklog) -> Generator[simpy.Event, Any, None]:
    """Let all users of the backlog send in slot k with the same probability p_k of *rule*.

    Each user draws an exponential threshold E when it joins.  It sends in the first slot at whose end Σ -log(1 - p_k)
    since then is at least E, which has probability p_k in each slot, independently.

    The feedback of a slot is that on the frames that began in it, and comes when all of them have ended; the rule uses
    it from the next slot on.  A channel on which no frame of the slot was received counts as a collision if several
    began in it, or if frames of other slots were on the air at the same time.
    """
    cell = slotted.cell
    thresholds = BufferedDraws(cell.streams.field("hazard").exponential, cell.ids)
    joining_slot = np.full(cell.size, NEVER)  # slot in which each user joins the backlog
    targets = np.full(cell.size, np.inf)  # hazard at which each user sends; infinity outside of the backlog
    state = _State(0, 0.0, rule.after_idle(0.0, 1))
    outstanding: list[_SlotFeedback] = []
    senders = 0  # users whose frames are on the air and outlast their slots
    while True:
        # users with another frame, or after a failed attempt, leave the backlog and join again
        changed_users = cell.changes()
        if changed_users.size:
            state = _skip_idle_slots(rule, state, targets, senders, max(state.slot, cell.next_slot(slotted.slot_s)))
            joining_slot[changed_users] = NEVER
            targets[changed_users] = np.inf
            joining_users, first_slots = slotted.joining_slots(changed_users)
            joining_slot[joining_users] = first_slots

        # the rule learns the outcome of slots whose frames have ended
        for feedback in [slot_feedback for slot_feedback in outstanding if slot_feedback.end.processed]:
            outstanding.remove(feedback)
            state = state._replace(estimate=rule.after_attempts(state.estimate, feedback.collided()))

        # users that join now draw their thresholds
        new_users = np.flatnonzero(joining_slot <= state.slot)
        if new_users.size:
            targets[new_users] = state.hazard + thresholds.next(new_users)
            joining_slot[new_users] = NEVER

        # wait for the next slot in which a user sends or joins
        senders = int(np.count_nonzero(cell.transmit_path.is_sending()))
        ahead = _skip_idle_slots(rule, state, targets, senders, int(joining_slot.min()))
        start_s = slotted.start_s(ahead.slot)
        if start_s > cell.env.now:
            yield cell.wait_for_change(by_s=start_s)
            continue
        if ahead.slot == joining_slot.min():
            state = ahead
            continue

        # users whose thresholds are reached in this slot send
        backlog_size = senders + int(np.count_nonzero(targets < np.inf))
        hazard = ahead.hazard + _hazard(rule.probability(ahead.estimate, backlog_size))
        due_users = np.flatnonzero((targets <= hazard) & (targets < np.inf))
        targets[due_users] = np.inf
        due_channels = slotted.channels(due_users)
        end = slotted.send(due_users, ahead.slot, due_channels)
        is_sending = cell.transmit_path.is_sending()[due_users]  # the others are cut off
        if hazard == np.inf:  # p = 1 empties the backlog, and the sum starts again from before this slot
            hazard = ahead.hazard
        state = _State(ahead.slot + 1, hazard, ahead.estimate)

        # frames of slots whose outcome is outstanding overlap with these
        if is_sending.any():
            sender_channels = due_channels[is_sending]
            for feedback in outstanding:
                feedback.other_channels.append(sender_channels)
            overlapping = [feedback.sender_channels for feedback in outstanding]
            outstanding.append(_SlotFeedback(sender_channels, due_channels, end, overlapping))
        else:  # nobody sends in this slot
            state = state._replace(estimate=rule.after_attempts(state.estimate, 0))
        if slotted.is_clear_after(ahead.slot):  # one event in place of several
            yield end


def _skip_idle_slots(rule: KnownBacklog, state: _State, targets: Floats, senders: int, until: int) -> _State:
    """Return the state at the first slot in which a user begins to send, but at most at slot *until*.

    *senders* users are on the air until then.  They count in the backlog: with the others alone, a last one would send
    in every slot, and end each frame that outlasts its slot.
    """
    waiting = int(np.count_nonzero(targets < np.inf))
    backlog_size = senders + waiting
    slot, hazard, estimate = state
    if not waiting:
        if until < NEVER:
            estimate = rule.after_idle(estimate, until - slot)
        return _State(until, hazard, estimate)
    lowest_target = float(targets.min())
    while slot < until:
        next_hazard = hazard + _hazard(rule.probability(estimate, backlog_size))
        if next_hazard >= lowest_target:
            break
        slot += 1
        hazard = next_hazard
        estimate = rule.after_idle(estimate, 1)
    return _State(slot, hazard, estimate)


def _hazard(probability: float) -> float:
    """Return -log(1 - p); infinity from 1 on."""
    return -math.log1p(-probability) if probability < 1.0 else math.inf
