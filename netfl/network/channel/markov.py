"""Gain that follows a finite-state Markov chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.network.channel import BlockGain, LinkGain
from netfl.network.channel._markov_chain import MAX_STATES, Chain, MarkovChannel
from netfl.network.channel._motion_pace import COHERENCE_FACTOR, MotionPace
from netfl.network.layout import Layout
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Decibels


class Markov(MarkovChannel):
    """An independent finite-state Markov chain for each user, with a gain for each state.

    A state lasts one ``block``; the next follows by the row of ``transitions`` P, or of exp(Q · block) for a
    ``generator`` Q in 1/s.  The chain is stationary from the start, with the shares π = π P: a stay in state i lasts k
    blocks with probability P_ii^(k-1) (1 - P_ii), and k blocks apart the gains have the covariance
    Σ π_i g_i (P^k)_ij g_j - (Σ π_i g_i)².  The chain must reach every state from every other and not be periodic.
    H. S. Wang and N. Moayeri, "Finite-state Markov channel", IEEE Trans. Veh. Technol. 44(1), 1995.

    Example::

        kind: markov
        gains: [0 dB, -6 dB, -20 dB]
        transitions: [[0.9, 0.1, 0], [0.1, 0.8, 0.1], [0, 0.3, 0.7]]
        block: 100 ms
    """

    gains: Annotated[tuple[Decibels, ...], Field(min_length=2, max_length=MAX_STATES)]
    """Gain in each state."""

    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        chain = Chain(self.matrix, streams.field("state"))
        gains_db = np.array(self.gains)
        return BlockGain(lambda users, block: gains_db[chain.state(users, block)], self.block, max(self.gains))

    def motion_misfit(self, pace: MotionPace) -> str:
        shortest_s, longest_s = pace.coherences_s
        remedy = (
            "if its states are fading, choose block and transitions by this; if shadowing, take correlated_shadowing"
        )
        if self.block > longest_s * COHERENCE_FACTOR:
            return f"a state lasts for a block of {self.block:.3g} s at least, but {pace.coherences}; {remedy}"
        if self.coherence_s < shortest_s / COHERENCE_FACTOR:
            return f"a state is left after {self.coherence_s:.3g} s on average, but {pace.coherences}; {remedy}"
        return ""

    def laws(self) -> tuple[Law, ...]:
        return (self._law("gain in dB", np.array(self.gains)),)

    @property
    def _states(self) -> Sequence[float]:
        return self.gains
