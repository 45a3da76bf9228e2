"""A what-if: the same network, in which some users are spared something that keeps others from being heard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from netfl.errors import Fault
from netfl.network.compute import as_tuple
from netfl.network.message import Message
from netfl.registry import Spec
from netfl.streams import Streams
from netfl.types import ScenarioFacts

CAUSES = ("contention", "fading", "outage", "queue", "compute")
"""What can cost a user its deliveries."""

Named = Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(as_tuple)]


class Exemptions(Spec):
    """Users who are spared a cause of losses and delays; all that is drawn for all others stays what it was.

    What happens without a cause, compared to what happens with it, is what that cause cost: random numbers are keyed by
    what they are for, so both are the same world but for that.  Others fare differently only where they meet the
    spared: in rounds that close with the first few, in queues, and on a medium that there is one less to share with.

    On a way down through the network, ``downlink``, the same holds for copies of a version that are for spared users
    alone; towers still send all copies in turn.

    Example::

        contention: [3, 5]
        fading: 3
    """

    contention: Named = ()
    """Users with a medium of their own: at the same tower, by the same MAC, but they meet nobody and nobody meets
    them, and no scheduler serves another first.  They take nothing from the others, whose slots and turns stay."""
    fading: Named = ()
    """Users whose signal is always enough, in the fastest mode.  What it does to others, and what they do to it, stays:
    it is held against them as it is, and no longer against noise."""
    outage: Named = ()
    """Users for whom nothing is ever down: themselves, their tower, and what is between it and the server."""
    queue: Named = ()
    """Users whose updates and packets go from their tower to the server without waiting and without being dropped;
    each link takes them for bits / rate and its delay, beside all else that is on it."""
    compute: Named = ()
    """Users who train for as short a time as the one who trains for the shortest."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Nobody, or users that there are not."""
        if not any(getattr(self, cause) for cause in CAUSES):
            yield Fault("", "has no effect: nobody is spared anything", None, "name users, or leave it out")
        for cause in CAUSES:
            yield from facts.strangers(cause, getattr(self, cause))

    def among(self, cause: str, users: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of *users* are spared *cause*, ``[n]``."""
        return np.isin(users, getattr(self, cause))

    def marking(self, sink: Callable[[Message], None]) -> Callable[[Message], None]:
        """*sink*, but that messages of spared users say so before they come to it."""
        if not self.queue and not self.outage:
            return sink

        def take(message: Message) -> None:
            message.bypass_queue, message.ignore_outages = message.user in self.queue, message.user in self.outage
            sink(message)

        return take


NO_EXEMPTIONS = Exemptions()
"""No user is exempt."""


@dataclass(frozen=True, slots=True)
class IsolatedStreams(Streams):
    """The streams of a cell for one of its users, who is alone on a medium of its own.

    What is drawn for each user is the same as in the cell; what is drawn for whoever comes next is not.

    Args:
        user: the user's number in the whole network.
    """

    user: int = 0

    @classmethod
    def of(cls, streams: Streams, user: int) -> IsolatedStreams:
        """Those of *streams* for *user*."""
        return cls(streams.seed, streams.path, user)

    def rng(self, *names: str | int) -> np.random.Generator:
        """A generator of its own."""
        return Streams.rng(self, *names, "aside", self.user)
