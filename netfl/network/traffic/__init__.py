'''The traffic family: packets that come beside the updates, or in place of them, to study a network alone.

Each *sender*, a user or a router or a tower, has a source of its own.  A source is written as a generator of blocks:
the instants at which packets come, in order.  It may go on for ever; no more is taken of it than is needed.

A complete one::

    class Pairs(Traffic):
        """Packets that come two at a time, at even distances.

        Example::

            kind: mylab.pairs:Pairs
            every: 1 s
            size: {law: fixed, mean: 100 B}
        """

        every: Annotated[Seconds, Field(gt=0)]
        """Time from pair to pair."""

        def times_s(self, mean_bits, link_bps, rng):
            for pair in itertools.count():
                yield np.full(2, pair * self.every)

        def laws(self):
            return (Law.none("draws no times"),)
'''

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.network.traffic._packet_size import Size
from netfl.registry import Spec
from netfl.streams import Streams

Block = tuple[NDArray[np.float64], NDArray[np.float64]]
"""When packets come, in order, and their sizes in bits."""


class Traffic(Spec):
    """The contract of a kind of traffic."""

    size: Size = Size()
    """The law of the packets' sizes: ``{law: fixed, mean: 1500 B}``, or ``exponential``."""
    enters: Literal["users", "towers", "routers"] = "users"
    """Who sends it: users, over the air; or every tower or router itself, to its own output port."""
    leaves: Literal["server", "tower"] = "server"
    """Where it has arrived: at the server, or as soon as the air is behind it."""
    priority: Annotated[int, Field(ge=0)] = 0
    """For queues that know priorities: 0 goes first."""
    buffer: Annotated[int, Field(ge=1)] | None = None
    """Packets that a user can hold, the one being sent included; more are dropped.  ``null`` is no limit."""

    @property
    def saturated(self) -> bool:
        """Whether a sender always has another packet, so that there are no instants."""
        return False

    @abstractmethod
    def times_s(self, mean_bits: float, link_bps: float, rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
        """The instants at which packets of one sender come, in order, block by block.

        Args:
            mean_bits: their mean size.
            link_bps: the rate of what they load: the sender's link or the air.
            rng: for this sender's draws.
        """

    def rate_hz(self, link_bps: float) -> float | None:
        """Packets that come each second to one sender, in the mean; ``None`` where that is not known."""
        return None

    def blocks(self, sender: int, link_bps: float, streams: Streams) -> Iterator[Block]:
        """Instants and sizes of the packets of one sender, block by block.

        Args:
            sender: its node number.
            link_bps: as in `times_s`.
            streams: those of the traffic.
        """
        sizes = streams.rng("sizes", sender)
        for times_s in self.times_s(self.size.mean, link_bps, streams.rng("times", sender)):
            yield times_s, self.size.draw(sizes, len(times_s))
