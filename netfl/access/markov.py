"""Users that come and go as two-state Markov chains."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from netfl.access._direct import IntermittentAccess, uniform_rows
from netfl.streams import Streams
from netfl.types import Bools, Floats, Law
from netfl.units import PositiveProbability

_MAX_STAY = 8
"""Rounds at which the distribution of stays is truncated."""


class Markov(IntermittentAccess):
    """Each user alternates between available and away, a two-state Markov chain in stationarity.

    ``P(away -> there) = s`` and ``P(there -> away) = s (1 / p_n - 1)``; where the latter exceeds 1, both are scaled
    down until it is 1.  The first state is drawn from ``p_n``, which is therefore the share of rounds at all times
    (``markov-s`` of Wang and Ji, "A lightweight method for tackling unknown participation statistics in federated
    averaging", ICLR 2024).  A stay lasts ``1 / P(there -> away)`` rounds in the mean, geometrically distributed.

    Example::

        kind: markov
        probability: [0.6, 0.3, 0.1]
        switch_on: 0.05
    """

    switch_on: PositiveProbability = 0.05
    """Probability that a user that is away is available in the next round, before any scaling; the smaller, the longer
    users stay and stay away."""

    def availability(self, chances: Floats, rounds: int, streams: Streams) -> Iterator[Bools]:
        on, off = self.switches(chances)
        threshold = chances
        for draws in uniform_rows(streams.field("present"), np.arange(len(chances)), rounds):
            is_available = draws < threshold
            yield is_available
            threshold = np.where(is_available, 1.0 - off, on)

    def switches(self, chances: Floats) -> tuple[Floats, Floats]:
        """Return each user's probabilities of coming and of leaving."""
        # in stationarity as many users come as leave
        flow = np.minimum(self.switch_on * (1.0 - chances), chances)
        on = np.divide(flow, 1.0 - chances, out=np.ones_like(chances), where=chances < 1)
        return on, flow / chances

    @property
    def candidate_process(self) -> str:
        """Without memory, so stationary, if coming is as likely as staying."""
        on, off = self.switches(np.array(self.stated_chances))
        if self.stated_chances and np.allclose(on + off, 1.0):
            return "stationary"
        return "Markovian"

    def laws(self) -> tuple[Law, ...]:
        p = self.typical_chance
        _, off = self.switches(np.array([p]))
        leave = float(off[0])

        def stays(streams: Streams, size: int) -> Floats:
            users = int((size + 6 * size**0.5 + 40) / p)  # of which *size* are available in the first round
            is_available = np.array([*self.availability(np.full(users, p), _MAX_STAY, streams)])  # [rounds, users]
            rounds_of_stay = np.cumprod(is_available[:, is_available[0]], axis=0).sum(axis=0)
            return np.asarray(rounds_of_stay, float)

        mean: float = _MAX_STAY
        if leave > 0:  # Σ (1 - leave)^k, k = 0 … _MAX_STAY - 1
            mean = (1 - (1 - leave) ** _MAX_STAY) / leave
        return (
            self.availability_law(20, "Bernoulli(p): the chain starts and stays stationary"),
            Law("rounds of a stay", f"geometric, by memorylessness from any round on; cut at {_MAX_STAY}", stays, mean),
        )
