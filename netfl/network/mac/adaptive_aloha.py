"""Multichannel slotted ALOHA in which who has more to tell is more likely to send."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import simpy
from numpy.typing import NDArray
from pydantic import Field

from netfl.claims import Figure
from netfl.errors import Fault
from netfl.network.mac import Mac
from netfl.network.mac._aloha import picker
from netfl.network.mac._bench import Bench, at_once
from netfl.network.mac._slots import Slots, slots_hz, too_short
from netfl.network.mac._weighted import filled, serve_weighted
from netfl.streams import Streams
from netfl.types import Facts, Law
from netfl.units import Seconds

if TYPE_CHECKING:
    from netfl.network.cell import Cell

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

    def faults(self, facts: Facts) -> Iterator[Fault]:
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
        slot_s, channel = self.slot or cell.airtime_s, picker(cell, self.channels)
        return serve_weighted(cell, slot_s, self._chances(cell), self.max_attempts, channel)

    def _chances(self, cell: Cell) -> Callable[[Slots], NDArray[np.float64]]:
        """The probabilities of the users of the backlog, by what the network last told."""

        def chances(users: Slots) -> NDArray[np.float64]:
            told = cell.told.get(self.follows)
            weights = np.ones(len(users)) if told is None else _known(told[users])
            return filled(weights, self.load * self.channels, self.least)

        return chances

    def laws(self) -> tuple[Law, ...]:
        """How often each user gets through, of users with fixed weights that always have something to send."""
        weights, slot_s = np.tile(_LAW_WEIGHTS, 2 * self.channels), self.slot or 1.0
        p = filled(weights, self.load * self.channels, self.least)
        means = np.array([each * np.prod(1 - np.delete(p, user) / self.channels) for user, each in enumerate(p)])
        shown = np.arange(len(_LAW_WEIGHTS))

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            bench = Bench(self, len(weights), slot_s, streams, at_once)
            bench.cell.told = {self.follows: weights}
            bench.env.run(until=(size + 0.5) * slot_s)
            slots = np.rint(np.array([heard_s for _, _, heard_s in bench.heard]) / slot_s).astype(np.int64) - 1
            rows = np.zeros((size, len(weights)))
            rows[slots, bench.users] = 1.0
            return rows[:, shown]

        statement = f"p_k Π (1 - p_j/M), j ≠ k, of {len(weights)} users that always have something to send, M = "
        at = [f"weight {weight:g}" for weight in _LAW_WEIGHTS]
        figure = Figure("gets through in a slot", f"{statement}{self.channels}", draw, means[shown].tolist(), at)
        return (Law("gets through in a slot", figure.formula, figures=(figure,)),)


def _known(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights, with the mean of those that are known and finite for the others; 1 for all where none is."""
    known = np.isfinite(weights)
    return np.where(known, weights, weights[known].mean() if known.any() else 1.0)
