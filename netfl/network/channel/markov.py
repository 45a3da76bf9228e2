"""A channel in one of several states, such as good, fair and bad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from netfl.network.channel import LinkGain
from netfl.network.channel._gains import BlockGain
from netfl.network.channel._markov_chain import STATES, Chain, MarkovChannel
from netfl.network.layout import Layout
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Decibels


class Markov(MarkovChannel):
    """Each user's own finite-state Markov chain, with a gain for each state; users are independent.

    A state is held for a ``block``; the next one follows by the row of ``transitions`` P, or of exp(Q · block) for a
    ``generator`` Q in 1/s.  It starts stationary, with the shares π = π P, and stays so: a stay in state i lasts k
    blocks with probability P_ii^(k-1) (1 - P_ii), and k blocks apart the gains have the covariance
    Σ π_i g_i (P^k)_ij g_j - (Σ π_i g_i)².  The chain must reach every state from every other and not be periodic.
    H. S. Wang and N. Moayeri, "Finite-state Markov channel", IEEE Trans. Veh. Technol. 44(1), 1995.

    Example::

        kind: markov
        gains: [0 dB, -6 dB, -20 dB]
        transitions: [[0.9, 0.1, 0], [0.1, 0.8, 0.1], [0, 0.3, 0.7]]
        block: 100 ms
    """

    gains: Annotated[tuple[Decibels, ...], Field(min_length=2, max_length=STATES)]
    """The gain in each state."""

    def open(self, sites: Layout, streams: Streams) -> LinkGain:
        """States keyed by (user, block)."""
        chain, gains_db = Chain(self.matrix, streams.field("state")), np.array(self.gains)

        def draw_db(users: NDArray[np.int64], block: ArrayLike) -> NDArray[np.float64]:
            return np.asarray(gains_db[chain.state(users, block)])

        return BlockGain(draw_db, self.block, max(self.gains))

    def laws(self) -> tuple[Law, ...]:
        """Stationary, with the chain's transitions."""
        return (self._law("gain in dB", np.array(self.gains)),)

    @property
    def _states(self) -> Sequence[float]:
        """The gains."""
        return self.gains
