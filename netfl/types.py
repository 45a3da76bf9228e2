"""The words that the layers above share: deliveries, rounds, reports, what a model may know, what it claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.errors import Fault, ScenarioError, __version__
from netfl.streams import Streams

# What a model claims of what it draws, readable by a machine: its law, and figures such as correlations over time.


Rows = NDArray[np.float64]
"""Independent rows of estimates, ``[rows, figures]``."""


@dataclass(frozen=True, slots=True)
class StatisticClaim:
    """What a law claims beside its draws' own moments: an autocorrelation, a level-crossing rate, a throughput, a loss.

    `netfl.testing.laws` makes the usual ones over time.

    Args:
        name: what it is, such as ``autocorrelation``.
        formula: the claim in words or a formula, short enough for a table.
        draw: ``draw(streams, size)`` gives independent rows of estimates, ``[rows, figures]``, about as many as work
            out at *size* draws; or a pair of such arrays, where the figure is the ratio of their means.
        means: the claimed mean of each column, or of each ratio, ``[figures]``.
        at: where each column is taken, in words, such as ``lag 0.1 s``; for messages.
    """

    name: str
    formula: str
    draw: Callable[[Streams, int], Rows | tuple[Rows, Rows]]
    means: Sequence[float]
    at: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Law:
    """One claim of a model about what it draws, with the way to draw it; the generic law test holds it to that.

    Args:
        quantity: what is drawn, with its unit, such as ``power gain`` or ``share of time up``.
        statement: the claim in words and formula, with its source.
        draw: ``draw(streams, size)`` gives at least *size* independent draws; ``None`` only without a closed form.
        mean: the claimed mean.
        variance: the claimed variance.
        cdf: the claimed distribution function.
        distribution: the claimed law as a frozen SciPy distribution, from which mean, variance and cdf follow where
            they are not given; or its name alone.
        figures: what else is claimed.
    """

    quantity: str
    statement: str
    draw: Callable[[Streams, int], NDArray[np.float64]] | None = None
    mean: float | None = None
    variance: float | None = None
    cdf: Callable[[NDArray[np.float64]], Any] | None = None
    distribution: Any = None
    figures: tuple[StatisticClaim, ...] = ()

    def __post_init__(self) -> None:
        """Mean, variance and cdf of the distribution, where it has them."""
        known = self.distribution
        if known is None or isinstance(known, str):
            return
        for name, found in (("mean", float(known.mean())), ("variance", float(known.var()))):
            if getattr(self, name) is None and math.isfinite(found):
                object.__setattr__(self, name, found)
        if self.cdf is None:
            object.__setattr__(self, "cdf", known.cdf)

    @classmethod
    def none(cls, reason: str) -> Law:
        """The statement that there is nothing random, or no closed form, and why."""
        return cls("none", reason)

    def claims(self) -> list[tuple[str, str]]:
        """Each claim as a name and a short text.

        >>> Law("power gain", "exponential", mean=1.0, distribution="expon").claims()
        [('distribution', 'expon'), ('mean', '1')]
        >>> Law.none("nothing is drawn").claims()
        [('none', 'nothing is drawn')]
        """
        rows = []
        if self.distribution is not None:
            rows.append(("distribution", self.distribution if isinstance(self.distribution, str) else self._signature))
        elif self.cdf is not None:
            rows.append(("distribution", "P(X ≤ x) in closed form"))
        for name, value in (("mean", self.mean), ("variance", self.variance)):
            if value is not None:
                rows.append((name, f"{value:.6g}"))
        rows += [(figure.name, figure.formula) for figure in self.figures]
        return rows or [("none", self.statement)]

    @property
    def _signature(self) -> str:
        """A frozen distribution as SciPy would be asked for it, such as ``gamma(2, scale=0.5)``."""
        known = self.distribution
        told = [f"{value:.6g}" for value in known.args] + [f"{key}={value:.6g}" for key, value in known.kwds.items()]
        return f"{known.dist.name}({', '.join(told)})"


# How far a round is while it goes on.


@dataclass(frozen=True, slots=True)
class RoundProgress:
    """How far a round is that is not over.

    Args:
        round: which, from 1.
        time_s: simulated time.
        attempts: transmissions that have ended so far.
        vain: how many of them have failed in this round since anybody was heard.
    """

    round: int
    time_s: float
    attempts: int
    vain: int


def ignore_progress(pulse: RoundProgress) -> None:
    """Nobody wants to know how far a round is."""


# What learners say after a round: figures, answers, and who diverged.


@dataclass(frozen=True, slots=True)
class Divergence:
    """A lane whose training diverged: it stands still from then on, and says nothing any more.

    Args:
        learner: the lane's learner.
        replica: the lane's replica.
        round: the round whose version it could not make, or could not evaluate.
        user: whose update was not finite; ``None`` where it was the version itself.
        problem: in words.
    """

    learner: str
    replica: int
    round: int
    user: int | None
    problem: str


@dataclass(frozen=True, slots=True)
class LearnerReport:
    """What the learner found after a round: figures by name, each an array over lanes.

    A name is ``metric`` or ``metric/group``, such as ``accuracy`` or ``accuracy/class:9``.  Empty after a round
    that was not evaluated.  A figure that a lane does not have, or no longer since it diverged, is NaN.

    Args:
        round: the round, from 1; 0 before the first.
        metrics: the figures.
        answers: for each replica what its access asked after the round, a figure for each user that it asked of, in
            that order; empty where nobody asked.  An access is sent its own replica's alone.
        diverged: the lanes whose training diverged in this round.
    """

    round: int
    metrics: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    answers: tuple[Mapping[str, NDArray[np.float64]], ...] = ()
    diverged: tuple[Divergence, ...] = ()

    def to(self, place: int) -> LearnerReport:
        """What the access of the replica at *place* is sent."""
        return LearnerReport(self.round, self.metrics, self.answers[place : place + 1])

    def answer(self, question: str) -> NDArray[np.float64] | None:
        """What an access was told on *question*; ``None`` if nothing."""
        return self.answers[0].get(question) if self.answers else None


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

    def event(
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


class NullRecorder:
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
class AccessContext:
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
    pulse: Callable[[RoundProgress], None] = ignore_progress


@dataclass(frozen=True, slots=True)
class ScenarioFacts:
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


# Rounds in a row as arrays: for accesses that draw many at once, where nobody learns or answers in between.


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RoundBatch:
    """Rounds in a row, ``[rounds]`` each, and their deliveries laid end to end, ``[deliveries]`` each.

    Args:
        index: the rounds' numbers, which rise by one.
        opened_s: as of `netfl.types.Round`, and so are `closed_s`, `oldest`, `uplink_bits` and `downlink_bits`.
        closed_s: when each closed.
        delivered: how many deliveries each has.
        oldest: the oldest version that later deliveries may start from.
        uplink_bits: bits sent up in each.
        downlink_bits: bits sent down in each.
        energy_j: joules spent until each closed; NaN where nobody counts.
        user: as of `netfl.types.Delivery`, and so are the others.
        base: the version that each update started from.
        sent_s: when its first attempt began.
        arrived_s: when it reached the server.
        attempts: how many attempts it took.
    """

    index: Ints
    opened_s: Floats
    closed_s: Floats
    delivered: Ints
    oldest: Ints
    uplink_bits: Floats
    downlink_bits: Floats
    energy_j: Floats
    user: Ints
    base: Ints
    sent_s: Floats
    arrived_s: Floats
    attempts: Ints

    @classmethod
    def of(cls, rounds: Sequence[Round]) -> RoundBatch:
        """A block of these *rounds*, one at least."""
        told = [
            (each.user, each.base, each.sent_s, each.arrived_s, each.attempts)
            for one in rounds
            for each in one.deliveries
        ]
        user, base, sent_s, arrived_s, attempts = zip(*told, strict=True) if told else ((),) * 5
        return cls(
            index=_ints([one.index for one in rounds]),
            opened_s=_floats([one.opened_s for one in rounds]),
            closed_s=_floats([one.closed_s for one in rounds]),
            delivered=_ints([len(one.deliveries) for one in rounds]),
            oldest=_ints([one.oldest for one in rounds]),
            uplink_bits=_floats([one.uplink_bits for one in rounds]),
            downlink_bits=_floats([one.downlink_bits for one in rounds]),
            energy_j=_floats([np.nan if one.energy_j is None else one.energy_j for one in rounds]),
            user=_ints(user),
            base=_ints(base),
            sent_s=_floats(sent_s),
            arrived_s=_floats(arrived_s),
            attempts=_ints(attempts),
        )

    @property
    def of_rounds(self) -> tuple[NDArray[Any], ...]:
        """The columns of the table ``rounds``, less the replica."""
        spans = (self.index, self.opened_s, self.closed_s, self.delivered, self.oldest)
        return (*spans, self.uplink_bits, self.downlink_bits, self.energy_j)

    @property
    def of_deliveries(self) -> tuple[NDArray[Any], ...]:
        """The columns of the table ``deliveries``, less the replica."""
        rounds = np.repeat(self.index, self.delivered)
        return rounds, self.user, self.base, self.sent_s, self.arrived_s, self.attempts


def _ints(values: Any) -> Ints:
    """Whole numbers."""
    return np.array(values, np.int64)


def _floats(values: Any) -> Floats:
    """Numbers."""
    return np.array(values, np.float64)


# Which netfl this is, and which version of its files it writes.


FORMAT = 1
"""Of all that netfl reads and writes: scenario files, run directories and their tables, folders of sweeps.

It is one higher whenever a file of before would be read as something else, or not at all.  What says none is of 1.
"""

STAMP = {b"netfl.format": str(FORMAT).encode()}
"""How a Parquet table says it, in its metadata."""


def check_format(said: object, where: str) -> None:
    """Refuse what a newer netfl has written, before anything in it is misread.

    Args:
        said: the ``format`` that it says; only a whole number counts.
        where: the file, and the line where that is known.

    Raises:
        ScenarioError: it is newer than `FORMAT`.
    """
    if isinstance(said, int) and said > FORMAT:
        problem = f"newer than {FORMAT}, the newest format that netfl {__version__} reads"
        raise ScenarioError([Fault("format", problem, said, "install a newer netfl", where)])
