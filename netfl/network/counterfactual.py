"""Counterfactual networks, in which some users are exempt from a cause of losses and delays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, Field

from netfl.errors import Fault
from netfl.network.compute import as_tuple
from netfl.network.message import Message
from netfl.registry import Spec
from netfl.streams import Streams
from netfl.types import Bools, Ints, ScenarioFacts

CAUSES = ("contention", "fading", "outage", "queue", "compute")
"""Causes of missed deliveries."""

UserNumbers = Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(as_tuple)]


class Exemptions(Spec):
    """Users that are exempt from causes of losses and delays.

    The difference between a run with a cause and one without it is the effect of that cause.  Random numbers are keyed
    by their purpose, so that both runs draw the same numbers for everything else.  Other users are affected only where
    they meet exempt ones: in rounds that close with the first few, in queues, and on a medium with one user less.

    On a downlink over the network the same holds for copies of a version that are for exempt users only; towers still
    send all copies one after the other.

    Example::

        contention: [3, 5]
        fading: 3
    """

    contention: UserNumbers = ()
    """Users with a medium of their own: same tower and MAC, but without interference from and to others, and without
    waiting for others in a schedule.  The slots and turns of the others stay."""
    fading: UserNumbers = ()
    """Users whose signal always suffices, in the fastest mode.  Interference from and to others stays: the signal is
    compared with that of others, and no longer with noise."""
    outage: UserNumbers = ()
    """Users without outages: of themselves, their tower, and the route from it to the server."""
    queue: UserNumbers = ()
    """Users whose updates and packets neither wait at ports nor are dropped; each link takes bits / rate and its delay,
    beside all other messages on it."""
    compute: UserNumbers = ()
    """Users whose training takes as long as that of the fastest user."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if not any(getattr(self, cause) for cause in CAUSES):
            yield Fault("", "has no effect because no user is exempt from a cause", None, "list users, or leave it out")
        for cause in CAUSES:
            yield from facts.unknown_users(cause, getattr(self, cause))

    def among(self, cause: str, users: Ints) -> Bools:
        """Return whether each of *users* is exempt from *cause*, ``[n]``."""
        return np.isin(users, getattr(self, cause))

    def mark_messages(self, sink: Callable[[Message], None]) -> Callable[[Message], None]:
        """Return a sink that marks the messages of exempt users before it passes them to *sink*."""
        if not self.queue and not self.outage:
            return sink

        def take(message: Message) -> None:
            message.bypass_queue = message.user in self.queue
            message.ignore_outages = message.user in self.outage
            sink(message)

        return take


NO_EXEMPTIONS = Exemptions()
"""No user is exempt."""


@dataclass(frozen=True, slots=True)
class IsolatedStreams(Streams):
    """Random streams of a cell for its user number *user* in the network, which has a medium of its own.

    Draws for each user are those of the cell; draws in the order of events are not.
    """

    user: int = 0

    def rng(self, *names: str | int) -> np.random.Generator:
        return Streams.rng(self, *names, "aside", self.user)
