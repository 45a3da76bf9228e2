"""The section ``record``: events and model versions that a run stores, and the filter of stored events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import Field

from netfl.core.spec import ByForm, Spec, no_effect
from netfl.errors import Fault
from netfl.types import KINDS, Bools, EventKind, Ints, Outcome, ScenarioFacts
from netfl.units import UserNumbers

RECORDED: tuple[EventKind, ...] = (*get_args(Outcome), "broadcast", "sent", "failed", "moved", "down", "up")
"""Kinds of events that are stored by default."""


@dataclass(frozen=True)
class EventFilter:
    """The events that a run stores.  All events are counted, stored or not.

    Args:
        kinds: the kinds of events.
        users: mask of the users whose events are stored, ``[users]``; ``None`` for all.
            Events of nodes are stored anyway.
        every: store the events of the first round and of every ``every``-th round after it.
        attempts: store the attempts of the same users and rounds.
        links: store how deliveries came over the air, all of them.
    """

    kinds: frozenset[str]
    users: Bools | None = None
    every: int = 1
    attempts: bool = False
    links: bool = False

    def wants(self, kind: str, round: int) -> bool:
        """Return whether any event of *kind* in *round* is stored."""
        return kind in self.kinds and (round - 1) % self.every == 0

    def of_rounds(self, rounds: Ints) -> Bools:
        """Return the mask of stored rows, ``[rows]``, from the round of each row."""
        return np.asarray((rounds - 1) % self.every == 0)

    def of(self, users: Ints) -> Bools:
        """Return the mask of stored rows, ``[rows]``, from the user of each row (-1 for none)."""
        if self.users is None:
            return np.ones(users.shape, bool)
        return np.asarray((users < 0) | self.users[users])


def evenly_spaced(users: int, count: int) -> Ints:
    """Return *count* of *users* user numbers, evenly spaced, with the first and the last.

    >>> evenly_spaced(10, 4).tolist(), evenly_spaced(3, 5).tolist()
    ([0, 3, 6, 9], [0, 1, 2])
    """
    if count >= users:
        return np.arange(users)
    return np.round(np.linspace(0, users - 1, count)).astype(np.int64)


class RecordSpec(Spec):
    """Events and model versions that a run stores."""

    events: Annotated[Literal["all", "none"] | tuple[EventKind, ...], ByForm()] = RECORDED
    """Kinds of events to store.  By default ``received``, ``held``, ``missed``, ``trained``, ``queued``, ``forwarded``
    and ``sampled`` are not stored."""
    users: Annotated[Annotated[int, Field(ge=1)] | UserNumbers, ByForm()] | None = None
    """Users whose events are stored: a number of users, evenly spaced, or a list; all by default.  Counts, metrics and
    all other tables cover every user."""
    every: Annotated[int, Field(ge=1)] = 1
    """Store the events of the first round and of every ``every``-th round after it."""
    attempts: bool = False
    """Store the table ``attempts``: every attempt over the air of these users, in these rounds."""
    links: bool = False
    """Store the table ``links``: SNR, gain, mode, airtime and energy of every delivered update."""
    versions: Annotated[bool | Annotated[int, Field(ge=1)], ByForm()] = False
    """Keep every version of each learner's model in ``versions/<learner>-<replica>.safetensors``; a number n keeps the
    start, every n-th round and the last."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if self.versions and not facts.trained:
            problem = "there are no learners to keep versions of"
            yield Fault("versions", problem, self.versions, "leave it out")
        if isinstance(self.users, int) and self.users >= facts.users:
            reason = f"because there are {facts.users}"
            yield from no_effect(self, ["users"], reason, "leave it out, or make it smaller")
        if isinstance(self.users, tuple):
            yield from facts.unknown_users("users", self.users)
        if self.every > 1 and self.every >= facts.rounds:
            problem = f"only the first of the {facts.rounds} rounds would have events"
            yield Fault("every", problem, self.every, "make it smaller")
        if self.attempts and not facts.networked:
            yield from no_effect(self, ["attempts"], "without a network: nothing is sent over the air")
        if self.events in {"none", ()} and not self.attempts:
            yield from no_effect(self, ["users", "every"], "because neither events nor attempts are stored")

    def thinned(self, users: int) -> dict[str, int]:
        """Return the numbers of stored users and rounds, for display; empty if all are stored."""
        thinning = {}
        if isinstance(self.users, int):
            thinning = {"users": self.users, "of": users}
        elif self.users is not None:
            thinning = {"users": len(set(self.users)), "of": users}
        if self.every > 1:
            thinning["every"] = self.every
        return thinning

    def keeping(self, users: int) -> EventFilter:
        """Return the filter for the events of a run with *users* users."""
        kinds: Sequence[str]
        if self.events == "all":
            kinds = KINDS
        elif self.events == "none":
            kinds = ()
        else:
            kinds = self.events
        mask = None
        if self.users is not None:
            mask = np.zeros(users, bool)
            if isinstance(self.users, int):
                mask[evenly_spaced(users, self.users)] = True
            else:
                mask[list(self.users)] = True
        return EventFilter(frozenset(kinds), mask, self.every, self.attempts, self.links)
