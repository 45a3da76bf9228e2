'''Traffic family: packets beside the updates, or instead of them, to study a network alone.

Each *sender*, a user, a router or a tower, has its own source: a generator of blocks of arrival times, in order.  It
may be endless, as the network takes only the blocks that it needs.

To add a model, write a file in this package, or a class in your own package, that derives from `Traffic`.  A complete
one::

    class Pairs(Traffic):
        """Packets that arrive in pairs at a constant interval.

        Example::

            kind: mylab.pairs:Pairs
            every: 1 s
            size: {distribution: fixed, mean: 100 B}
        """

        every: Annotated[Seconds, Field(gt=0)]
        """Time between pairs."""

        def times_s(self, link_bps, rng):
            for pair in itertools.count():
                yield np.full(2, pair * self.every)

        def laws(self):
            return (Law.none("draws no times"),)
'''

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from netfl.core.kinds import exported_models, stream_keys
from netfl.core.spec import Spec
from netfl.errors import Fault, ScenarioError
from netfl.network.traffic._packet_size import Size
from netfl.streams import Streams
from netfl.types import Floats

Block = tuple[Floats, Floats]
"""Arrival times of packets in order, in s, and their sizes in bits, ``[n]`` both."""
MAX_RATE_HZ = 1e9
"""Most packets per second of one sender: those of 64 bytes fill 512 Gbit/s, and a second of them runs for an hour."""
MAX_BLOCK = 1 << 16
"""Packets of a block at most, which is held in memory as a whole."""


class Traffic(Spec):
    """Base class of traffic models."""

    name: Annotated[str, Field(pattern=r"^[^\W\d_][\w -]*$", max_length=50)] | None = None
    """Name of this class of traffic in tables and metrics; by default its kind, with a number from the second on."""
    size: Size = Size()
    """Distribution of the packet size: ``{distribution: fixed, mean: 1500 B}``, or ``exponential``."""
    source: Literal["users", "towers", "routers"] = "users"
    """Senders: users, over the air; or every tower or router, to its own output port."""
    destination: Literal["server", "tower"] = "server"
    """Destination: the server, or the tower, after the air."""
    priority: Annotated[int, Field(ge=0)] = 0
    """Priority class for queues that use priorities; 0 is first."""
    buffer: Annotated[int, Field(ge=1)] | None = None
    """Maximum number of packets of a user, with the one being sent; more are dropped.  ``null`` is no limit."""

    @property
    def is_saturated(self) -> bool:
        """``True`` if a sender always has another packet, so that there are no arrival times."""
        return False

    @abstractmethod
    def times_s(self, link_bps: float, rng: np.random.Generator) -> Iterator[Floats]:
        """Yield blocks of the arrival times of one sender's packets, in order, in s.

        Args:
            link_bps: rate of the sender's link or of the air, in the slowest mode of the reception.
            rng: generator for this sender's draws.
        """

    def rate_hz(self, link_bps: float) -> float | None:
        """Return the mean arrival rate of one sender in packets per second; ``None`` if it is unknown."""
        return None

    def check_rate(self, link_bps: float, key: str) -> None:
        """Refuse more packets per second than a run can play, such as those of a high load on a fast link.

        Args:
            link_bps: as in `rate_hz`.
            key: key of this model in the network.

        Raises:
            ScenarioError: the rate is above `MAX_RATE_HZ`.
        """
        rate_hz = self.rate_hz(link_bps)
        if rate_hz is not None and rate_hz > MAX_RATE_HZ:
            problem = f"{rate_hz:.3g} packets per second of a sender at {link_bps:.3g} bit/s, more than {MAX_RATE_HZ:g}"
            raise ScenarioError([Fault(key, problem, None, "lower its load or rate, or send larger packets")])

    def first_times_s(self, senders: Sequence[int], link_bps: float, streams: Streams) -> Floats:
        """Return the arrival of the first packet of each sender, by `blocks`; infinity if there is none, ``[n]``.

        A network asks for these of all users when it is built, and for the rest when a user sends its first packet.
        """
        firsts_s = []
        for sender in senders:
            blocks = self.blocks(sender, link_bps, streams)
            block_starts_s = (float(times_s[0]) for times_s, _ in blocks if len(times_s))
            firsts_s.append(next(block_starts_s, np.inf))
        return np.array(firsts_s, float)

    def blocks(self, sender: int, link_bps: float, streams: Streams) -> Iterator[Block]:
        """Yield blocks of the arrival times and sizes of one sender's packets.

        Args:
            sender: node number of the sender.
            link_bps: rate of the sender's link or of the air, in the slowest mode of the reception.
            streams: streams of the traffic model.
        """
        sizes = None
        if self.size.is_drawn:
            sizes = streams.rng("sizes", sender)
        for times_s in self.times_s(link_bps, streams.rng("times", sender)):
            yield times_s, self.size.draw(sizes, len(times_s))


def class_names(traffic: Sequence[Traffic]) -> list[str]:
    """Return the names of classes of traffic: those given, else the kind, numbered from the second of a kind on.

    >>> from netfl.network.traffic import Saturated
    >>> class_names([Saturated(name="video"), Saturated(), Saturated()])
    ['video', 'saturated:1', 'saturated:2']
    """
    keys = stream_keys(traffic)
    defaults = [f"{kind}:{number}" if number else kind for number, kind in keys]
    return [model.name or default for model, default in zip(traffic, defaults, strict=True)]


__getattr__ = exported_models(__name__)
