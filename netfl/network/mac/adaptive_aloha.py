"""Multichannel slotted ALOHA in which who has more to tell is more likely to send."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import simpy
from numpy.typing import NDArray
from pydantic import Field

from netfl.errors import Fault
from netfl.network.mac import Mac
from netfl.network.mac._random_draws import BufferedDraws
from netfl.network.mac._slotted import (
    NEVER,
    Slots,
    channel_picker,
    collapse_if_equal,
    next_free_slot,
    slot_at,
    slots_from,
    slots_hz,
    too_short,
)
from netfl.network.mac._test_bench import MacTestBench, saturated_users
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts, StatisticClaim
from netfl.units import Seconds

if TYPE_CHECKING:
    from netfl.network.radio.cell import Cell


# Slotted access in which each user has its own probability of sending, which may change from slot to slot.


Floats = NDArray[np.float64]


def scale_probabilities(weights: Floats, total: float, least: float) -> Floats:
    """Probabilities ``p_k = min(1, max(f, c w_k))`` whose sum is *total*, or 1 for all if they are fewer than that.

    The floor f is *least* of what each had if all had the same.  The sum is a piecewise linear function of c, and is
    solved for it exactly.  Users of weight 0 have the floor; where all others have 1 already, they share what is left.

    >>> scale_probabilities(np.array([1.0, 2.0, 5.0]), 1.0, 0.0).tolist()
    [0.125, 0.25, 0.625]
    >>> scale_probabilities(np.array([0.0, 1.0, 30.0]), 1.5, 0.5).tolist()
    [0.25, 0.25, 1.0]

    Args:
        weights: the weights, none negative.
        total: what they are to sum to, above 0.
        least: the floor in relation to the even probability, 0 to 1.
    """
    users, most = len(weights), float(weights.max())
    total = min(total, float(users))
    floor = least * total / users
    shares = weights / most if most > 0 else weights
    p = np.full(users, floor)
    above = shares > 0
    w = shares[above]
    zeros = users - len(w)
    if len(w) + zeros * floor <= total:
        p[above], p[~above] = 1.0, (total - len(w)) / max(zeros, 1)
    else:
        p[above] = np.clip(_factor(w, floor, total - zeros * floor) * w, floor, 1.0)
    return p


def _factor(w: Floats, floor: float, total: float) -> float:
    """The c at which the sum of min(1, max(floor, c w)) is *total*, which it is somewhere.

    Each user leaves the floor at floor/w and reaches 1 at 1/w; between two such bends the sum is linear.
    """
    bends = np.sort(np.concatenate([floor / w, 1.0 / w]))
    place = bisect_right(range(len(bends)), total, key=lambda bend: np.clip(bends[bend] * w, floor, 1.0).sum()) - 1
    last = float(bends[max(place, 0)])
    full, low = 1.0 / w <= last, floor / w > last
    free = ~(full | low)
    if not free.any():
        return last
    return float((total - np.count_nonzero(full) - floor * np.count_nonzero(low)) / w[free].sum())


def serve_weighted(
    cell: Cell,
    slot_s: float,
    chances: Callable[[Slots], Floats],
    limit: int | None,
    channel: Callable[[Slots], Slots],
) -> Generator[simpy.Event, Any, None]:
    """Own *cell*: in each slot user k of the backlog sends with a probability p_k, independently of all others.

    Each draws an exponential number when it joins, and sends in the first slot at whose end Σ -log(1 - p_k) since then
    is that or more.  As long as nobody joins or leaves, the p_k stay, and idle slots are passed over in one step.

    Args:
        cell: the cell.
        slot_s: length of a slot, one airtime at least.
        chances: ``chances(users)`` gives the p_k of the users of the backlog; asked whenever that may have changed.
        limit: attempts that an update has.
        channel: ``channel(users)`` gives the channel that each who sends now takes.
    """
    thresholds = BufferedDraws(cell.streams.field("hazard").exponential, cell.ids)
    joins, left = np.full(cell.size, NEVER), np.full(cell.size, np.inf)
    hazard = np.zeros(cell.size)
    slot = 0  # the next that has not been served or passed over
    while True:
        until = max(slot, slot_at(cell.env.now, slot_s))
        left -= (until - slot) * hazard
        slot, users = until, cell.changes()
        if users.size:
            joins[users], left[users] = NEVER, np.inf
            users = users[np.isfinite(cell.ready_s[users])]
            joins[users] = slots_from(cell.ready_s[users], slot_s)
        new = np.flatnonzero(joins <= slot)
        left[new], joins[new] = thresholds.next(new), NEVER
        there = np.flatnonzero(left < np.inf)
        hazard[:] = 0.0
        if there.size:
            hazard[there] = _hazards(chances(there))
        then = min(slot + _idle(left[there], hazard[there]), int(joins.min()))
        start_s = then * slot_s if then < NEVER else np.inf
        if start_s > cell.env.now:
            yield cell.wait_for_change(by_s=start_s)
            continue
        due = there[left[there] <= hazard[there]]
        left -= hazard
        left[due] = np.inf
        yield cell.attempt(due, limit=limit, channel=collapse_if_equal(channel(due)), begin_s=start_s)
        slot = next_free_slot(slot, cell.env.now, slot_s)


def _hazards(p: Floats) -> Floats:
    """-log(1 - p), and for p = 1 more than any threshold."""
    with np.errstate(divide="ignore"):
        return np.minimum(-np.log1p(-p), _SURE)


_SURE = 1e3
"""A hazard that no exponential number exceeds."""


def _idle(left: Floats, hazard: Floats) -> int:
    """How many slots pass before the one in which the first of them sends."""
    slots = np.divide(left, hazard, out=np.full(len(left), np.inf), where=hazard > 0)
    first = float(np.min(np.ceil(slots), initial=np.inf))
    return max(int(first) - 1, 0) if first < NEVER else NEVER


_LAW_WEIGHTS = (1.0, 2.0, 4.0, 8.0)


class AdaptiveAloha(Mac):
    """Slotted ALOHA on M channels in which a user's probability of sending follows what its update is worth.

    In each slot user k of the backlog sends with ``p_k = min(1, max(f, c w_k))``, on one of the channels picked at
    random, where c makes the sum of all p_k ``load · M``, or as near to that as so many users can come.  The weight w_k
    is, as each round opens,

    - ``norm``: the size ‖θ_k - θ‖ of the update that the user would make of the newest version;
    - ``loss``: the mean training loss of the newest version over its data;
    - ``age``: the rounds since it was last heard, which needs no learner.

    The floor f is ``least`` times what each had if all had the same, so that nobody starves.  Weights that are not
    known count as the mean of those that are; where none is, all have the same.  The tower is taken to know the backlog
    and the weights, and to tell the users c before each slot.

    Of all probabilities between f and 1 with that sum these maximise ``Σ w_k log p_k``: chances to send are shared out
    in proportional fairness with weights w.  User k gets through in a slot with ``p_k Π_{j≠k} (1 - p_j/M)``; where the
    p_k are small, that is nearly in proportion to w_k, and a load of 1 carries the most, M/e in a slot.

    After J. Choi and S. R. Pokhrel, "Federated learning with multichannel ALOHA", IEEE Wireless Commun. Lett. 9(4),
    2020, and R. Valente da Silva, J. Choi, J. Park, G. Brante and R. Demo Souza, "Multichannel ALOHA optimization for
    federated learning with multiple models", IEEE Wireless Commun. Lett. 11(10), 2022, who let access probabilities
    follow the sizes of local updates; the rule above is not theirs to the letter.

    Example::

        kind: adaptive_aloha
        channels: 3
        follows: norm
    """

    channels: Annotated[int, Field(ge=1)]
    """M."""
    follows: Literal["norm", "loss", "age"]
    """What the weights are."""
    load: Annotated[float, Field(gt=0)] = 1.0
    """How many are to send on each channel in a slot, in the mean."""
    least: Annotated[float, Field(ge=0, le=1)] = 0.1
    """The least probability of a user, in relation to what it had if all had the same; 1 makes all the same."""
    max_attempts: Annotated[int, Field(ge=1)] | None = None
    """Attempts after which an update is given up; ``null`` is no limit."""
    slot: Annotated[Seconds, Field(gt=0)] | None = None
    """Length of a slot; ``null`` takes the airtime of one update."""

    @property
    def heeds(self) -> frozenset[str]:
        """The weights."""
        return frozenset({self.follows})

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Weights of updates where there are none."""
        if facts.duration_s is not None:
            problem = "has no effect with a duration, in which no rounds are served"
            yield Fault("follows", problem, self.follows, "take mac.kind: multichannel_aloha with adaptive: known")

    def most_hz(self, airtime_s: float, longest_s: float) -> float:
        """One in each slot of a channel, unless several can be given up in one."""
        return self.channels * slots_hz(self.slot or longest_s, self.max_attempts)

    def misfits(self, airtime_s: float) -> Iterator[Fault]:
        """A slot that is too short."""
        yield from too_short(self.slot, airtime_s)

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """Each as its weight says."""
        slot_s, channel = self.slot or cell.airtime_s, channel_picker(cell, self.channels)
        return serve_weighted(cell, slot_s, self._chances(cell), self.max_attempts, channel)

    def _chances(self, cell: Cell) -> Callable[[Slots], NDArray[np.float64]]:
        """The probabilities of the users of the backlog, by what the network last told."""

        def chances(users: Slots) -> NDArray[np.float64]:
            told = cell.user_metrics.get(self.follows)
            weights = np.ones(len(users)) if told is None else _known(told[users])
            return scale_probabilities(weights, self.load * self.channels, self.least)

        return chances

    def laws(self) -> tuple[Law, ...]:
        """How often each user gets through, of users with fixed weights that always have something to send."""
        weights, slot_s = np.tile(_LAW_WEIGHTS, 2 * self.channels), self.slot or 1.0
        p = scale_probabilities(weights, self.load * self.channels, self.least)
        means = np.array([each * np.prod(1 - np.delete(p, user) / self.channels) for user, each in enumerate(p)])
        shown = np.arange(len(_LAW_WEIGHTS))

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            bench = MacTestBench(self, len(weights), slot_s, streams, saturated_users)
            bench.cell.user_metrics = {self.follows: weights}
            bench.env.run(until=(size + 0.5) * slot_s)
            slots = np.rint(np.array([heard_s for _, _, heard_s in bench.heard]) / slot_s).astype(np.int64) - 1
            rows = np.zeros((size, len(weights)))
            rows[slots, bench.users] = 1.0
            return rows[:, shown]

        statement = f"p_k Π (1 - p_j/M), j ≠ k, of {len(weights)} users that always have something to send, M = "
        at = [f"weight {weight:g}" for weight in _LAW_WEIGHTS]
        figure = StatisticClaim(
            "gets through in a slot", f"{statement}{self.channels}", draw, means[shown].tolist(), at
        )
        return (Law("gets through in a slot", figure.formula, figures=(figure,)),)


def _known(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights, with the mean of those that are known and finite for the others; 1 for all where none is."""
    known = np.isfinite(weights)
    return np.where(known, weights, weights[known].mean() if known.any() else 1.0)
