"""The words that the layers above share: deliveries, rounds, reports, what a model may know, what it claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.claims import Figure as Figure  # noqa: PLC0414 - the words of a claim are known here too
from netfl.claims import Law as Law  # noqa: PLC0414
from netfl.errors import Fault
from netfl.pulse import Pulse, unheard
from netfl.replies import Divergence as Divergence  # noqa: PLC0414 - what learners say is known here too
from netfl.replies import Report as Report  # noqa: PLC0414
from netfl.streams import Streams

FATES = (
    "delivered",
    "late",
    "discarded",
    "collided",
    "faded",
    "lost",
    "dropped",
    "given_up",
    "superseded",
    "unfinished",
)
"""How an update can end; every update ends in exactly one.

``delivered``: it reached the server in time and counted.  ``late``: it came after its round had closed, or from too old
a version.  ``discarded``: its round came to nothing.  ``collided``, ``faded``, ``lost``: its only attempt met another
sender, a fade, or an outage (of the user, its tower, or a router or link on the way).  ``given_up``: its last permitted
attempt failed (``detail``: of what).  ``dropped``: a queue or an adversary turned it away.  ``superseded``:
a newer version reached its user first, or a newer message its place in a relay.  ``unfinished``: the run ended before.
"""

KINDS = (*FATES, "broadcast", "received", "trained", "sent", "failed", "queued", "forwarded", "down", "up", "sampled")
"""Every kind of event that a trace can record: the fates, and the steps on the way to them."""

QUESTIONS = ("loss", "norm")
"""What an access may ask of the learners about users and the version that a round makes.

``loss``: the mean training loss of that version over all examples that a user holds.  ``norm``: the Euclidean norm of
the update, θ alone, that the user would make from that version.
"""

UPLINK_WORD_BITS = 32
"""Bits that carry one model parameter."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One update that reached the server and counted.

    Args:
        user: who trained it.
        base: the version of the global model that the user started from.
        sent_s: when its first attempt began, in seconds.
        arrived_s: when it reached the server, in seconds.
        attempts: how many attempts it took.
    """

    user: int
    base: int
    sent_s: float
    arrived_s: float
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Round:
    """What one round of one replica brought the server; its deliveries make version ``index``.

    Args:
        index: counted from 1; version 0 is the start, version r the server's model after round r.
        opened_s: when the server began to broadcast version ``index - 1``, in seconds.
        closed_s: when the server stopped waiting, in seconds.
        deliveries: in the order of their arrival; may be empty.
        oldest: the oldest version that a later delivery may still start from.
        uplink_bits: bits that users sent to get through, failed attempts included.
        downlink_bits: bits of the broadcast.
        asks: of a closed loop: what the access wants to know, by the name of a question (`QUESTIONS`), of which users,
            about the version that this round makes.
        needed: versions before `index` that later deliveries may still start from, if known better than by `oldest`.
        energy_j: joules that all users have spent from the beginning until this round closed; ``None``: nobody counts.
    """

    index: int
    opened_s: float
    closed_s: float
    deliveries: tuple[Delivery, ...]
    oldest: int
    uplink_bits: float = 0.0
    downlink_bits: float = 0.0
    asks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    needed: tuple[int, ...] | None = None
    energy_j: float | None = None


class Recorder(Protocol):
    """Takes the events of one replica as they happen."""

    def wants(self, kind: str) -> bool:
        """Whether events of *kind* are recorded: ask before computing what only a record needs."""

    def event(  # noqa: PLR0913 - the columns of the table
        self,
        kind: str,
        time_s: ArrayLike,
        *,
        round: int,
        user: ArrayLike = -1,
        node: str = "",
        value: ArrayLike = np.nan,
        detail: str = "",
    ) -> None:
        """Record one event, or one for each element where *time_s*, *user* or *value* are arrays.

        Args:
            kind: one of `KINDS`.
            time_s: simulated time, in seconds.
            round: the round in which it happened.
            user: the user concerned, -1 for none.
            node: the tower, router or server concerned, such as ``tower:0``.
            value: a figure: bits for ``sent``, SNR in dB for a failed attempt, and the like.
            detail: a word more, such as the cause of a failure.
        """

    def figures(self, values: Mapping[str, float]) -> None:
        """Tell the figures that this replica ended with, by name, such as ``throughput_bps``; once, at its end."""

    def spent(self, values: Mapping[str, NDArray[Any]]) -> None:
        """Tell what each user has spent, by the name of the column, ``[users]`` each; at most once, at the end."""


class Unrecorded:
    """A recorder that keeps nothing."""

    def wants(self, kind: str) -> bool:
        """Nothing is wanted."""
        return False

    def event(self, kind: str, time_s: ArrayLike, **told: Any) -> None:
        """Let it pass."""

    def figures(self, values: Mapping[str, Any]) -> None:
        """Let them pass."""

    spent = figures


@dataclass(frozen=True, slots=True)
class Setting:
    """What an access knows of the run that it serves: one replica's world.

    Args:
        users: the number of users.
        rounds: how many rounds are wanted.
        replica: which replica this is, from 0.
        streams: this replica's random streams for the access.
        samples: training samples that each user processes for one update, ``[users]``.
        uplink_bits: size of one update.
        downlink_bits: size of one broadcast.
        label_mix: shares of the labels in each user's data, ``[users, classes]``; only where the access asks.
        recorder: where events go.
        duration_s: how long a network is watched that serves no rounds but traffic alone; ``None`` where it serves
            rounds.  `rounds` is then the number of even windows that the time is cut into.
        warmup_s: how long at the start nothing counts for the figures.
        held: how many training examples each user holds, ``[users]``; ``None`` without data.
        pulse: called now and then while a round goes on, with how far it is; what it raises ends the round.
    """

    users: int
    rounds: int
    replica: int
    streams: Streams
    samples: NDArray[np.float64]
    uplink_bits: float
    downlink_bits: float
    recorder: Recorder
    label_mix: NDArray[np.float64] | None = None
    duration_s: float | None = None
    warmup_s: float = 0.0
    held: NDArray[np.float64] | None = None
    pulse: Callable[[Pulse], None] = unheard


@dataclass(frozen=True, slots=True)
class Facts:
    """What a model may know of its scenario when it says what is wrong with it, before anything runs.

    Args:
        users: the number of users.
        rounds: the number of rounds.
        classes: how many labels the data have; ``None`` without data.
        most: the largest number of deliveries that a round can bring.
        rho_known: whether the access states how often each user is heard, up to a factor.
        heard_known: whether it states in what share of the rounds each user is.
        placed: whether users have positions.
        ranked: whether the access has it on record who is heard how often.
        sized: whether the size of an update is known, from the model.
        trained: whether there are learners, whose work says how long a user computes.
        duration_s: how long traffic is watched; ``None`` where rounds are served.
        replicas: the number of replicas.
        learners: the learners' names.
        networked: whether who is heard emerges from a network.
        weighed: whether a learner's aggregation tells how much it weighs users.
    """

    users: int
    rounds: int
    classes: int | None = None
    most: int = 1
    rho_known: bool = False
    heard_known: bool = False
    placed: bool = False
    ranked: bool = False
    sized: bool = False
    trained: bool = False
    duration_s: float | None = None
    replicas: int = 1
    learners: tuple[str, ...] = ()
    networked: bool = False
    weighed: bool = False

    def strangers(self, key: str, named: Iterable[int | str]) -> Iterator[Fault]:
        """The fault, at *key*, of *named* users that there are not; names of other nodes pass."""
        found = [user for user in named if isinstance(user, int) and user >= self.users]
        if found:
            yield Fault(key, "no such users", found, f"users are numbered 0 to {self.users - 1}")
