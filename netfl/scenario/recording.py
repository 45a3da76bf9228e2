"""What a scenario says of the events and versions that its run keeps."""

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
"""What is stored by default."""

MOST = 10**9
"""Events that a run stores at most, as far as that can be told before it."""

_LIST: TypeAdapter[tuple[int, ...]] = TypeAdapter(
    Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
)
_NUMBER: TypeAdapter[int] = TypeAdapter(Annotated[int, Field(ge=1)])


def _read_users(value: object) -> object:
    """Choose by what is written, so that a fault names the very entry."""
    return value if value is None else (_LIST if isinstance(value, list | tuple) else _NUMBER).validate_python(value)


class RecordSpec(Spec):
    """What a run keeps beside its tables."""

    events: Annotated[Literal["all", "none"] | tuple[EventKind, ...], LiteralOr(tuple[EventKind, ...])] = RECORDED
    """Which kinds of events the trace stores."""
    users: Annotated[int | tuple[int, ...] | None, BeforeValidator(_read_users)] = None
    """Whose events it stores: those of so many users, evenly spaced by number, or of those that are listed; by default
    everybody's.  Counts, figures and all other tables are of everybody."""
    every: Annotated[int, Field(ge=1)] = 1
    """Of which rounds it stores events: of the first, and of every so-manyth after it."""
    versions: bool | Annotated[int, Field(ge=1)] = False
    """Whether every version of every learner's model is kept, in ``versions/<learner>-<replica>.safetensors``; a number
    n keeps the start, that of every n-th round, and the last."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Versions of nothing; users that there are not; fewer events of none at all."""
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
        for name, said in (("users", self.users is not None), ("every", self.every > 1)):
            if said and self.events in {"none", ()}:
                yield Fault(name, "has no effect: no events are stored", getattr(self, name), "leave it out")

    def thinned(self, users: int) -> dict[str, int]:
        """What is left out of the events of so many *users*, by kinds apart; empty where nothing is."""
        named = self.users if isinstance(self.users, int) else len(set(self.users or ()))
        told = {"users": named, "of": users} if self.users is not None else {}
        return told | ({"every": self.every} if self.every > 1 else {})

    def keeping(self, users: int) -> EventFilter:
        """What is stored of the events of so many *users*."""
        kinds = KINDS if self.events == "all" else () if self.events == "none" else self.events
        if self.users is None:
            return EventFilter(frozenset(kinds), None, self.every)
        mask = np.zeros(users, bool)
        mask[evenly_spaced(users, self.users) if isinstance(self.users, int) else list(self.users)] = True
        return EventFilter(frozenset(kinds), mask, self.every)


def too_many(record: RecordSpec, access: Access, facts: ScenarioFacts) -> Iterator[Fault]:
    """The fault of more fates of updates than a run should store."""
    rows = access.min_updates(facts.users, facts.rounds) * facts.replicas // record.every
    if isinstance(record.users, int):
        rows = rows * record.users // facts.users
    elif record.users is not None:
        rows = rows * len(record.users) // facts.users
    if rows > MOST and (record.events == "all" or "superseded" in record.events):
        problem = f"the fates of {rows:,} updates would be stored, most of them superseded: more than {MOST:,}"
        yield Fault("record", problem, None, "say record: none, or thin them: record: {users: 1000, every: 100}")
