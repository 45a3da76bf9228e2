"""Multichannel slotted ALOHA in which users with more valuable updates are more likely to send."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import simpy
from pydantic import Field

from netfl.core.spec import no_effect
from netfl.errors import Fault
from netfl.network.mac import BufferedDraws
from netfl.network.mac._bases import SlottedMac, channel_picker
from netfl.network.mac._slotted import NEVER, SlottedCell
from netfl.network.radio.bench import BenchSetup, MacTestBench, saturated_users
from netfl.network.radio.cell import Cell
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law, ScenarioFacts, StatisticClaim

_CERTAIN = 1e3
"""A hazard that no exponential threshold exceeds."""
_LAW_WEIGHTS = (1.0, 2.0, 4.0, 8.0)


class AdaptiveAloha(SlottedMac):
    """Slotted ALOHA on M channels in which a user's probability of sending follows the value of its update.

    In each slot user k of the backlog sends with ``p_k = min(1, max(f, c w_k))``, on a random channel.  The factor c
    makes the sum of all p_k ``load · M``, or as close to it as the number of users allows.  The weight w_k is, when the
    round opens,

    - ``norm``: the size ‖θ_k - θ‖ of the update that the user would make of the newest version;
    - ``loss``: the mean training loss of the newest version over its data;
    - ``age``: the rounds since its last delivery, which needs no learner.

    The floor f is ``min_probability`` times the probability that each user had if all had the same, so no user starves.
    Unknown weights count as the mean of the known ones; without any known weight all users have the same probability.
    The model assumes that the tower knows the backlog and the weights, and announces c before each slot.

    Of all probabilities between f and 1 with that sum, these maximise ``Σ w_k log p_k``: a proportionally fair share
    with weights w.  User k is received in a slot with ``p_k Π_{j≠k} (1 - p_j/M)``; for small p_k this is nearly
    proportional to w_k, and a load of 1 maximises the throughput, M/e per slot.

    After J. Choi and S. R. Pokhrel, "Federated learning with multichannel ALOHA", IEEE Wireless Commun. Lett. 9(4),
    2020, and R. Valente da Silva, J. Choi, J. Park, G. Brante and R. Demo Souza, "Multichannel ALOHA optimization for
    federated learning with multiple models", IEEE Wireless Commun. Lett. 11(10), 2022, in which access probabilities
    follow the sizes of local updates; the rule above differs in detail.

    Idle time changes nothing: probabilities depend on the present backlog and on the weights of the round.

    Example::

        kind: adaptive_aloha
        channels: 3
        metric: norm
    """

    channels: Annotated[int, Field(ge=1)]
    """M."""
    metric: Literal["norm", "loss", "age"]
    """The metric that weights the users."""
    load: Annotated[float, Field(gt=0)] = 1.0
    """Mean number of senders per channel and slot."""
    min_probability: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Lowest probability of a user, relative to equal probabilities; 1 makes all equal."""

    @property
    def channel_count(self) -> int:
        return self.channels

    @property
    def user_metrics(self) -> frozenset[str]:
        return frozenset({self.metric})

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if facts.duration_s is not None:
            remedy = "use mac.kind: multichannel_aloha with adaptive: known"
            yield from no_effect(self, ["metric"], "without access.round: no rounds are served", remedy)

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        pick = channel_picker(cell, self.channels) if self.channels > 1 else None
        slotted = SlottedCell(cell, self.slot or cell.airtime_s, self.max_attempts, pick)
        return serve_weighted(slotted, partial(self._probabilities, cell))

    def _probabilities(self, cell: Cell, users: Ints) -> Floats:
        """Return p_k of each of *users*, the backlog, ``[n]``."""
        weights = np.ones(len(users))
        metric = cell.user_metrics.get(self.metric)
        if metric is not None:
            known = metric[users]
            is_known = np.isfinite(known)
            if is_known.any():
                weights = np.where(is_known, known, known[is_known].mean())
        return scale_probabilities(weights, self.load * self.channels, self.min_probability)

    def laws(self) -> tuple[Law, ...]:
        """Claim that user k is received in a slot with p_k Π (1 - p_j/M), j ≠ k."""
        weights = np.tile(_LAW_WEIGHTS, 2 * self.channels)
        slot_s = self.slot or 1.0
        p = scale_probabilities(weights, self.load * self.channels, self.min_probability)
        means = np.array([p[k] * np.prod(1 - np.delete(p, k) / self.channels) for k in range(len(p))])
        shown = np.arange(len(_LAW_WEIGHTS))

        def draw(streams: Streams, size: int) -> Floats:
            bench = MacTestBench(BenchSetup(self, len(weights), slot_s, streams), saturated_users)
            bench.cell.user_metrics = {self.metric: weights}
            bench.env.run(until=(size + 0.5) * slot_s)
            ends_s = np.array([received_s for _, _, received_s in bench.deliveries])
            rows = np.zeros((size, len(weights)))
            rows[np.rint(ends_s / slot_s).astype(np.int64) - 1, bench.users] = 1.0
            return rows[:, shown]

        statement = f"p_k Π (1 - p_j/M), j ≠ k, of {len(weights)} users that always have something to send, M = "
        labels = [f"weight {weight:g}" for weight in _LAW_WEIGHTS]
        claim = StatisticClaim(
            "delivered in a slot", f"{statement}{self.channels}", draw, means[shown].tolist(), labels
        )
        return (Law("delivered in a slot", claim.formula, statistics=(claim,)),)


def scale_probabilities(weights: Floats, total: float, min_share: float) -> Floats:
    """Return probabilities ``p_k = min(1, max(f, c w_k))`` of sum *total*; 1 for all if there are fewer users.

    The floor f is *min_share* times the probability of each if all had the same.  The sum is a piecewise linear
    function of c, solved exactly.  Users of weight 0 have the floor; if all others have 1, they share the rest.

    >>> scale_probabilities(np.array([1.0, 2.0, 5.0]), 1.0, 0.0).tolist()
    [0.125, 0.25, 0.625]
    >>> scale_probabilities(np.array([0.0, 1.0, 30.0]), 1.5, 0.5).tolist()
    [0.25, 0.25, 1.0]

    Args:
        weights: weights, 0 or more.
        total: wanted sum, above 0.
        min_share: floor relative to equal probabilities, 0 to 1.
    """
    users = len(weights)
    highest = float(weights.max())
    total = min(total, float(users))
    floor = min_share * total / users
    shares = weights / highest if highest > 0 else weights
    p = np.full(users, floor)
    is_positive = shares > 0
    w = shares[is_positive]
    zeros = users - len(w)
    if len(w) + zeros * floor <= total:  # even with p = 1 for all positive weights, some of the sum is left
        p[is_positive] = 1.0
        p[~is_positive] = (total - len(w)) / max(zeros, 1)
    else:
        c = _factor(w, floor, total - zeros * floor)
        p[is_positive] = np.clip(c * w, floor, 1.0)
    return p


def _factor(w: Floats, floor: float, total: float) -> float:
    """Return the c for which the sum of min(1, max(floor, c w)) is *total*.

    Each user leaves the floor at c = floor/w and reaches 1 at c = 1/w; between two such bends the sum is linear in c:
    total = n_one + n_floor · floor + c Σ w over the users in between.
    """
    bends = np.sort(np.concatenate([floor / w, 1.0 / w]))

    def sum_at(bend: int) -> float:
        return float(np.clip(bends[bend] * w, floor, 1.0).sum())

    # the last bend at which the sum is at most the total
    place = bisect_right(range(len(bends)), total, key=sum_at) - 1
    last_bend = float(bends[max(place, 0)])
    is_one = 1.0 / w <= last_bend
    is_floor = floor / w > last_bend
    is_between = ~(is_one | is_floor)
    if not is_between.any():
        return last_bend
    return float((total - np.count_nonzero(is_one) - floor * np.count_nonzero(is_floor)) / w[is_between].sum())


def serve_weighted(slotted: SlottedCell, probabilities: Callable[[Ints], Floats]) -> Generator[simpy.Event, Any, None]:
    """Let user k of the backlog send in each slot with probability p_k, independently of all others.

    Each user draws an exponential threshold when it joins.  It sends in the first slot at whose end Σ -log(1 - p_k)
    since then reaches the threshold.  While the backlog is the same, the p_k are too, and idle slots are skipped in one
    step.

    Args:
        slotted: the cell.
        probabilities: ``probabilities(users)`` returns the p_k of the backlog, and of users whose frames are on the
            air; called whenever they may have changed.
    """
    cell = slotted.cell
    thresholds = BufferedDraws(cell.streams.field("hazard").exponential, cell.ids)
    joining_slot = np.full(cell.size, NEVER)  # slot in which each user joins the backlog
    hazard_left = np.full(cell.size, np.inf)  # of each user's threshold; infinity outside of the backlog
    hazard = np.zeros(cell.size)  # -log(1 - p_k); without effect outside of the backlog
    slot = 0  # the next that has not been served or skipped
    while True:
        # the hazard of idle slots counts
        present_slot = max(slot, cell.next_slot(slotted.slot_s))
        hazard_left -= (present_slot - slot) * hazard
        slot = present_slot

        # users with another frame, or after a failed attempt, join again
        changed_users = cell.changes()
        if changed_users.size:
            joining_slot[changed_users] = NEVER
            hazard_left[changed_users] = np.inf
            joining_users, first_slots = slotted.joining_slots(changed_users)
            joining_slot[joining_users] = first_slots
        new_users = np.flatnonzero(joining_slot <= slot)
        hazard_left[new_users] = thresholds.next(new_users)
        joining_slot[new_users] = NEVER

        # the backlog gives the hazard of each slot until somebody sends or joins; it has those who are sending, too
        waiting = hazard_left < np.inf
        backlog = np.flatnonzero(waiting)
        if backlog.size:
            contending = np.flatnonzero(waiting | cell.transmit_path.is_sending())
            hazard[contending] = _hazards(probabilities(contending))
        next_slot = min(slot + _idle_slots(hazard_left[backlog], hazard[backlog]), int(joining_slot.min()))
        start_s = slotted.start_s(next_slot)
        if start_s > cell.env.now:
            yield cell.wait_for_change(by_s=start_s)
            continue

        # users whose thresholds are reached in this slot send
        due_users = backlog[hazard_left[backlog] <= hazard[backlog]]
        hazard_left -= hazard
        hazard_left[due_users] = np.inf
        end = slotted.send(due_users, slot, slotted.channels(due_users))
        slot += 1
        if slotted.is_clear_after(slot - 1):  # one event in place of several
            yield end


def _hazards(p: Floats) -> Floats:
    """Return -log(1 - p); for p = 1 more than any threshold."""
    with np.errstate(divide="ignore"):
        return np.minimum(-np.log1p(-p), _CERTAIN)


def _idle_slots(hazard_left: Floats, hazard: Floats) -> int:
    """Return the number of slots before the first one in which a user sends."""
    slots = np.divide(hazard_left, hazard, out=np.full(len(hazard_left), np.inf), where=hazard > 0)
    first = float(np.min(np.ceil(slots), initial=np.inf))
    return max(int(first) - 1, 0) if first < NEVER else NEVER
