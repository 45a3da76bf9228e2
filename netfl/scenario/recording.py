"""The section ``record``: events and model versions that a run stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import numpy as np
from pydantic import BeforeValidator, Field, TypeAdapter

from netfl.errors import Fault
from netfl.registry import LiteralOr, Spec
from netfl.scenario.event_filter import EventFilter, evenly_spaced
from netfl.types import FATES, KINDS, ScenarioFacts

if TYPE_CHECKING:
    from netfl.access import Access

EventKind = Literal[
    "delivered", "late", "discarded", "collided", "faded", "lost", "dropped", "given_up", "superseded", "unfinished",
    "broadcast", "received", "trained", "sent", "failed", "queued", "forwarded", "down", "up", "sampled",
]  # fmt: skip
"""One of `netfl.types.KINDS`."""

RECORDED: tuple[EventKind, ...] = (*cast(Any, FATES), "broadcast", "sent", "failed", "down", "up")
"""Kinds of events that are stored by default."""

MAX_EVENTS = 10**9
"""Largest number of events that a run may store, as far as it is known before the run."""

_LIST: TypeAdapter[tuple[int, ...]] = TypeAdapter(
    Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
)
_NUMBER: TypeAdapter[int] = TypeAdapter(Annotated[int, Field(ge=1)])


def _read_users(value: object) -> object:
    """Validate a list or a number, so that a fault names the entry."""
    return value if value is None else (_LIST if isinstance(value, list | tuple) else _NUMBER).validate_python(value)


class RecordSpec(Spec):
    """Events and model versions that a run stores."""

    events: Annotated[Literal["all", "none"] | tuple[EventKind, ...], LiteralOr(tuple[EventKind, ...])] = RECORDED
    """Kinds of events to store."""
    users: Annotated[int | tuple[int, ...] | None, BeforeValidator(_read_users)] = None
    """Users whose events are stored: a number of users, evenly spaced, or a list; all by default.  Counts, metrics and
    all other tables cover every user."""
    every: Annotated[int, Field(ge=1)] = 1
    """Store the events of the first round and of every ``every``-th round after it."""
    versions: bool | Annotated[int, Field(ge=1)] = False
    """Keep every version of each learner's model in ``versions/<learner>-<replica>.safetensors``; a number n keeps the
    start, every n-th round and the last."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield keys without effect and unknown users."""
        if self.versions and not facts.trained:
            problem = "there are no learners whose versions could be kept"
            yield Fault("versions", problem, self.versions, "leave it out")
        if isinstance(self.users, int) and self.users >= facts.users:
            yield Fault("users", f"has no effect: there are {facts.users}", self.users, "leave it out, or make it less")
        if isinstance(self.users, tuple):
            yield from facts.strangers("users", self.users)
        if self.every > 1 and self.every >= facts.rounds:
            problem = f"only the first of the {facts.rounds} rounds would have events"
            yield Fault("every", problem, self.every, "make it less")
        for name, is_set in (("users", self.users is not None), ("every", self.every > 1)):
            if is_set and self.events in {"none", ()}:
                yield Fault(name, "has no effect: no events are stored", getattr(self, name), "leave it out")

    def thinned(self, users: int) -> dict[str, int]:
        """Return the numbers of stored users and rounds, for display; empty if all are stored."""
        stored = self.users if isinstance(self.users, int) else len(set(self.users or ()))
        thinning = {"users": stored, "of": users} if self.users is not None else {}
        return thinning | ({"every": self.every} if self.every > 1 else {})

    def keeping(self, users: int) -> EventFilter:
        """Return the filter for the events of a run with *users* users."""
        kinds = KINDS if self.events == "all" else () if self.events == "none" else self.events
        if self.users is None:
            return EventFilter(frozenset(kinds), None, self.every)
        mask = np.zeros(users, bool)
        mask[evenly_spaced(users, self.users) if isinstance(self.users, int) else list(self.users)] = True
        return EventFilter(frozenset(kinds), mask, self.every)


def too_many(record: RecordSpec, access: Access, facts: ScenarioFacts) -> Iterator[Fault]:
    """Yield a fault if more outcomes of updates would be stored than `MAX_EVENTS`."""
    rows = access.min_updates(facts.users, facts.rounds) * facts.replicas // record.every
    if isinstance(record.users, int):
        rows = rows * record.users // facts.users
    elif record.users is not None:
        rows = rows * len(record.users) // facts.users
    if rows > MAX_EVENTS and (record.events == "all" or "superseded" in record.events):
        problem = f"the fates of {rows:,} updates would be stored, most of them superseded: more than {MAX_EVENTS:,}"
        yield Fault("record", problem, None, "say record: none, or thin them: record: {users: 1000, every: 100}")
