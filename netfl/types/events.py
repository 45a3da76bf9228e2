"""Events on the way of updates, their kinds, and what records them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

Outcome = Literal[
    "delivered", "late", "discarded", "collided", "faded", "lost", "dropped", "given_up", "superseded", "not_trained",
    "unfinished", "left", "not_summed",
]  # fmt: skip
OUTCOMES: tuple[str, ...] = get_args(Outcome)
"""Outcomes of an update; every update ends in exactly one.

``delivered``: it reached the server, or another node that merges, in time and was aggregated.  ``late``: it came after
its round had closed, or from a version that is too old.  ``discarded``: its round was void.  ``collided``, ``faded``,
``lost``: its only attempt met another sender, a fade, or an outage (of the user, its tower, or a router or link on the
way).  ``lost`` with the ``detail`` battery: its user had too little energy to train it.  ``given_up``: its last
permitted attempt failed (``detail``: the reason).  ``dropped``: a queue or an adversary turned it away.
``not_summed``: the sum in the air of its round was made without it, as its channel was bad or it came too late.
``left``: its user went to another tower, and left it behind (`association`, ``on_move: drop``).
``superseded``: a newer version reached its user first, its user was not selected for the next round, or a newer message
took its place in a relay.  ``not_trained``: its user decided not to train from the version.  ``unfinished``: the run
ended before.
"""

RARE_OUTCOMES = frozenset({"not_trained", "left", "not_summed"})
"""Outcomes that only updates of some accesses can have (`netfl.access.AccessInfo.rare_outcomes`)."""

EventKind = Literal[
    Outcome, "broadcast", "received", "held", "missed", "trained", "sent", "failed", "queued", "forwarded", "moved",
    "down", "up", "sampled",
]  # fmt: skip
KINDS: tuple[str, ...] = get_args(EventKind)
"""Kinds of events that a trace can record: the outcomes, and the steps on the way to them.

A model adds no kind: it records an event of the kind that comes closest, with a word of its own in `Event.detail`.
"""

_DECLARED_KINDS = frozenset(KINDS)

ADDED_TABLES = ("attempts", "energy", "users")
"""Tables that `Recorder.add_rows` accepts."""


class Event(NamedTuple):
    """One event, or one for each element where *time_s*, *user* or *value* are arrays.

    Args:
        kind: one of `KINDS`.
        time_s: simulated time, in seconds.
        round: the round in which it happened.
        user: the user concerned, -1 for none.
        node: the tower, router or server concerned, such as ``tower:0``; of an access of your own, any text.
        value: bits for ``sent``, SNR in dB for a failed attempt, and the like.
        detail: one more word, such as the cause of a failure.
        traffic: class of traffic of a packet; empty for an update.
    """

    kind: str
    time_s: ArrayLike
    round: int
    user: ArrayLike = -1
    node: str = ""
    value: ArrayLike = np.nan
    detail: str = ""
    traffic: str = ""


def check_kind(kind: str) -> None:
    """Check that *kind* is one of `KINDS`.

    Raises:
        ValueError: it is none of them; its events would be lost in silence.
    """
    if kind not in _DECLARED_KINDS:
        kinds = ", ".join(KINDS)
        raise ValueError(f"no kind of events ('{kind}'); name one of {kinds}, with a word of your own as its detail")


def check_table(table: str) -> None:
    """Check that *table* is one of `ADDED_TABLES`.

    Raises:
        ValueError: it is none of them; its rows would be lost in silence.
    """
    if table not in ADDED_TABLES:
        raise ValueError(f"no table to add rows to ('{table}'); name one of {', '.join(ADDED_TABLES)}")


class Recorder(Protocol):
    """Receiver of the events of one replica.

    A name that is not declared is a ValueError, whether or not it would be recorded.
    """

    def wants(self, kind: str) -> bool:
        """Return whether events of *kind*, or rows of the table ``attempts``, are recorded.

        Ask before computing what only a record needs.
        """

    def record(self, event: Event) -> None:
        """Record an event of one of `KINDS`, or several at once."""

    def final_metrics(self, values: Mapping[str, float]) -> None:
        """Record metrics of the whole replica by name, such as ``throughput_bps``; called once, at its end."""

    def round_metrics(self, round: int, values: Mapping[str, float]) -> None:
        """Record what a selection or an allocation reports with a decision for *round*; see `netfl.types.Reported`.

        It is called for each decision of a model that declares `Selection.reports` or `Allocation.reports`.
        """

    def add_rows(self, table: str, columns: Mapping[str, NDArray[Any]]) -> None:
        """Record rows of one of `ADDED_TABLES`, by column, ``[rows]`` each.

        ``attempts``: those that have ended; called now and then.  ``energy`` and ``users``: what each user has spent,
        and counts of its attempts, ``[users]``; called at most once, at the end.
        """


class NullRecorder:
    """Recorder that keeps nothing."""

    def wants(self, kind: str) -> bool:
        """Return False, for a declared kind and for ``attempts``."""
        if kind != "attempts":
            check_kind(kind)
        return False

    def record(self, event: Event) -> None:
        """Ignore an event of a declared kind."""
        check_kind(event.kind)

    def final_metrics(self, values: Mapping[str, float]) -> None:
        """Ignore the metrics."""

    def round_metrics(self, round: int, values: Mapping[str, float]) -> None:
        """Ignore the metrics."""

    def add_rows(self, table: str, columns: Mapping[str, NDArray[Any]]) -> None:
        """Ignore the rows of a declared table."""
        check_table(table)
