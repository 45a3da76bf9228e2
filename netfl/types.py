"""Types that the packages exchange: deliveries, rounds, learner reports, run observers, and what a model may know."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.columns import ColumnHint, Int32, to_arrays
from netfl.errors import Fault, ScenarioError, __version__
from netfl.streams import Streams

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

Outcome = Literal[
    "delivered", "late", "discarded", "collided", "faded", "lost", "dropped", "given_up", "superseded", "unfinished",
]  # fmt: skip
OUTCOMES: tuple[str, ...] = get_args(Outcome)
"""Outcomes of an update; every update ends in exactly one.

``delivered``: it reached the server in time and was aggregated.  ``late``: it came after its round had closed, or from
a version that is too old.  ``discarded``: its round was void.  ``collided``, ``faded``, ``lost``: its only attempt met
another sender, a fade, or an outage (of the user, its tower, or a router or link on the way).  ``lost`` with the
``detail`` battery: its user had too little energy to train it.  ``given_up``: its last permitted attempt failed
(``detail``: the reason).  ``dropped``: a queue or an adversary turned it away.  ``superseded``: a newer version reached
its user first, its user was not selected for the next round, or a newer message took its place in a relay.
``unfinished``: the run ended before.
"""

EventKind = Literal[
    Outcome, "broadcast", "received", "missed", "trained", "sent", "failed", "queued", "forwarded", "down", "up",
    "sampled",
]  # fmt: skip
KINDS: tuple[str, ...] = get_args(EventKind)
"""Kinds of events that a trace can record: the outcomes, and the steps on the way to them."""

QUERIES = ("loss", "norm")
"""What an access may ask of the learners about a user and the version that a round makes.

``loss``: the mean training loss of that version over all examples of the user.  ``norm``: the Euclidean norm of the
update, θ alone, that the user would make from that version.
"""

UPLINK_WORD_BITS = 32
"""Bits that carry one model parameter."""

FORMAT = 1
"""Format number of scenario files, run directories, tables and sweep folders; a file without a number has format 1.

It increases whenever an older file would be misread or could not be read.
"""

STAMP = {b"netfl.format": str(FORMAT).encode()}
"""Metadata of a Parquet table that states its format."""


def check_format(number: object, where: str) -> None:
    """Refuse a file that a newer netfl has written, before anything in it is misread.

    Args:
        number: the ``format`` that the file states; only an integer counts.
        where: the file, and the line where that is known.

    Raises:
        ScenarioError: *number* is greater than `FORMAT`.
    """
    if isinstance(number, int) and number > FORMAT:
        problem = f"newer than {FORMAT}, the newest format that netfl {__version__} reads"
        raise ScenarioError([Fault("format", problem, number, "install a newer version of netfl", where)])


@dataclass(frozen=True, slots=True)
class Delivery:
    """An update that reached the server in time and was aggregated; a row of the table ``deliveries``.

    Each field is a column (`netfl.columns`).  A field that is added needs a default.

    Args:
        user: the user that trained it.
        base: the version of the global model that the user started from.
        sent_s: start of its first attempt, in seconds; with packets, of the first packet.
        arrived_s: arrival at the server, in seconds; with packets, of the last packet.
        attempts: number of attempts that it took; with packets, of all packets.
    """

    user: int
    base: int
    sent_s: float
    arrived_s: float
    attempts: Int32 = 1


@dataclass(frozen=True, slots=True)
class Round:
    """One round of one replica, and a row of the table ``rounds``; its deliveries make version ``index``.

    Args:
        index: number of the round, counted from 1; version 0 is the start, version r the server's model after round r.
        opened_s: start of the broadcast of the version before the round, in seconds.
        closed_s: when the server stopped waiting, in seconds.
        deliveries: in the order of their arrival; may be empty.
        oldest: the oldest version that a later delivery may still start from.
        uplink_bits: bits that users sent, failed attempts included.
        downlink_bits: bits of the broadcast.
        queries: in a closed loop, the users whom each of the `QUERIES` to the learners is about, for the version that
            this round makes.
        needed: versions before `index` that later deliveries may still start from, if known better than by `oldest`.
        energy_j: joules that all users have spent until this round closed; ``None`` without an energy model.
    """

    index: Annotated[int, ColumnHint(name="round")]
    opened_s: float
    closed_s: float
    deliveries: Annotated[tuple[Delivery, ...], ColumnHint("delivered", "int32", "number of delivered updates", len)]
    oldest: int
    uplink_bits: float = 0.0
    downlink_bits: float = 0.0
    queries: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    needed: tuple[int, ...] | None = None
    energy_j: Annotated[
        float | None,
        ColumnHint(
            "energy_J",
            "double",
            "joules that all users have spent until this round closed; NaN without an energy model",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class RoundBatch:
    """Consecutive rounds as arrays, with their deliveries end to end.

    Accesses use it where they draw many rounds at once and no learner answers in between.

    Args:
        rounds: columns of `Round` by name, ``[rounds]`` each; the numbers of the rounds rise by one.
        deliveries: columns of `Delivery` by name, ``[deliveries]`` each.
    """

    rounds: Mapping[str, NDArray[Any]]
    deliveries: Mapping[str, NDArray[Any]]

    @classmethod
    def of(cls, rounds: Sequence[Round]) -> RoundBatch:
        """Return a batch of *rounds*, one at least."""
        deliveries = [delivery for each in rounds for delivery in each.deliveries]
        return cls(to_arrays(Round, rounds), to_arrays(Delivery, deliveries))

    @property
    def index(self) -> Ints:
        """Numbers of the rounds, ``[rounds]``."""
        return self.rounds["round"]

    @property
    def closed_s(self) -> Floats:
        """When each round closed, ``[rounds]``."""
        return self.rounds["closed_s"]

    @property
    def delivered(self) -> Ints:
        """Number of deliveries of each round, ``[rounds]``."""
        return self.rounds["delivered"]

    @property
    def user(self) -> Ints:
        """User of each delivery, ``[deliveries]``."""
        return self.deliveries["user"]

    @property
    def tables(self) -> Mapping[str, Mapping[str, NDArray[Any]]]:
        """Columns of the tables ``rounds`` and ``deliveries``, without the replica."""
        numbers = np.repeat(self.index, self.delivered)
        return {"rounds": self.rounds, "deliveries": {"round": numbers, **self.deliveries}}


@dataclass(frozen=True, slots=True)
class Divergence:
    """A lane whose training diverged: from then on it does not change and reports no metrics.

    Args:
        learner: the lane's learner.
        replica: the lane's replica.
        round: the round whose version could not be made or evaluated.
        user: the user whose update was not finite; ``None`` where the version itself was not.
        problem: the reason in words.
    """

    learner: str
    replica: int
    round: int
    user: int | None
    problem: str


@dataclass(frozen=True, slots=True)
class LearnerReport:
    """Report of the learners after a round: metrics by name, each an array over lanes.

    A name is ``metric`` or ``metric/group``, such as ``accuracy`` or ``accuracy/class:9``.  A round without an
    evaluation has no metrics.  A value that a lane does not have, or not since it diverged, is NaN.

    Args:
        round: the round, from 1; 0 before the first.
        metrics: the values.
        answers: for each replica the answers to `Round.queries`, by query, one value for each user in it, in the same
            order; empty without queries.  An access receives the answers of its own replica only.
        diverged: the lanes whose training diverged in this round.
    """

    round: int
    metrics: Mapping[str, Floats] = field(default_factory=dict)
    answers: tuple[Mapping[str, Floats], ...] = ()
    diverged: tuple[Divergence, ...] = ()

    def to(self, place: int) -> LearnerReport:
        """Return the report that the access of the replica at *place* receives."""
        return LearnerReport(self.round, self.metrics, self.answers[place : place + 1])

    def answer(self, question: str) -> Floats | None:
        """Return the answer to *question*; ``None`` if there is none."""
        return self.answers[0].get(question) if self.answers else None


class Event(NamedTuple):
    """One event, or one for each element where *time_s*, *user* or *value* are arrays.

    Args:
        kind: one of `KINDS`.
        time_s: simulated time, in seconds.
        round: the round in which it happened.
        user: the user concerned, -1 for none.
        node: the tower, router or server concerned, such as ``tower:0``.
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


class Recorder(Protocol):
    """Receiver of the events of one replica."""

    def wants(self, kind: str) -> bool:
        """Return whether events of *kind*, or rows of the table ``attempts``, are recorded.

        Ask before computing what only a record needs.
        """

    def record(self, event: Event) -> None:
        """Record an event, or several at once."""

    def final_metrics(self, values: Mapping[str, float]) -> None:
        """Record metrics of the whole replica by name, such as ``throughput_bps``; called once, at its end."""

    def add_rows(self, table: str, columns: Mapping[str, NDArray[Any]]) -> None:
        """Record rows of a table, by column, ``[rows]`` each.

        ``attempts``: those that have ended; called now and then.  ``energy`` and ``users``: what each user has spent,
        and counts of its attempts, ``[users]``; called at most once, at the end.
        """


class NullRecorder:
    """Recorder that keeps nothing."""

    def wants(self, kind: str) -> bool:
        """Return False."""
        return False

    def record(self, event: Event) -> None:
        """Ignore the event."""

    def final_metrics(self, values: Mapping[str, Any]) -> None:
        """Ignore the values."""

    def add_rows(self, table: str, columns: Mapping[str, Any]) -> None:
        """Ignore the rows."""


@dataclass(frozen=True, slots=True)
class RoundProgress:
    """State of a round that is still open.

    Args:
        round: its number, from 1.
        time_s: simulated time.
        attempts: transmissions that have ended so far.
        failed_attempts: failed transmissions in this round since the last delivery.
    """

    round: int
    time_s: float
    attempts: int
    failed_attempts: int


def ignore_progress(pulse: RoundProgress) -> None:
    """Ignore the progress of a round."""


@dataclass(frozen=True, slots=True)
class RunStart:
    """Facts about a run that starts or continues.

    Args:
        folder: the run directory.
        name: the scenario's name.
        rounds: the number of rounds.
        duration_s: the simulated time of a run that has traffic in place of rounds; ``None`` otherwise.
        lanes: learner and replica of each lane; empty in a trace.
        checkpoint_round: the round of the checkpoint that the run continues from; ``None`` without one.
        training: a sentence about how models are trained; empty for the usual way.
    """

    folder: Path
    name: str
    rounds: int
    duration_s: float | None = None
    lanes: Sequence[tuple[str, int]] = ()
    checkpoint_round: int | None = None
    training: str = ""


@dataclass(frozen=True, slots=True)
class RunProgress:
    """State of a run after a round, or after a batch of rounds.

    Args:
        round: the last round that closed.
        rounds: the number of rounds of the run.
        time_s: simulated time of the first replica.
        delivered: users with a delivery in that round, in the first replica.
        down: nodes such as ``tower:0``, and users, that are down in the first replica, where outages are recorded.
        metrics: the newest evaluation, by metric over lanes; empty before the first.
        lanes: learner and replica of each lane.
        results: the round, or the batch of rounds, of each replica.
        diverged: the lanes whose training has diverged so far.
    """

    round: int
    rounds: int
    time_s: float
    delivered: tuple[int, ...] = ()
    down: tuple[int | str, ...] = ()
    metrics: Mapping[str, Floats] = field(default_factory=dict)
    lanes: Sequence[tuple[str, int]] = ()
    results: Sequence[Round] | Sequence[RoundBatch] = ()
    diverged: Sequence[Divergence] = ()


class RunObserver:
    """Observer of a run; derive from it and override what is needed.

    The run directory, the checkpoints, the trackers and the progress display are observers of the same loop.

    Attributes:
        stop: set it to stop the run before its next round; ``netfl resume`` continues such a run.
    """

    stop: bool = False

    def on_start(self, start: RunStart) -> None:
        """Observe the start of a run, before its first round."""

    def on_progress(self, progress: RoundProgress) -> None:
        """Observe an open round, also of rounds before the run that a data partition needs; called often."""

    def on_round(self, progress: RunProgress) -> None:
        """Observe the end of a round, or of a batch of rounds."""

    def on_metrics(self, report: LearnerReport, closed_s: Sequence[float]) -> None:
        """Observe an evaluation, that of version 0 included; *closed_s* is the simulated time of each replica."""

    def on_end(self, status: str, error: BaseException | None = None) -> None:
        """Observe the end of a run: *status* is ``done``, ``interrupted`` or, with its *error*, ``failed``."""


@dataclass(frozen=True, slots=True)
class Payload:
    """Sizes of one update and of one broadcast of a learner.

    Args:
        uplink_bits: size of an update.
        downlink_bits: size of a broadcast.
    """

    uplink_bits: float
    downlink_bits: float

    def __str__(self) -> str:
        """Return the sizes in words.

        >>> print(Payload(64000.0, 32000.0))
        64,000 bits up and 32,000 bits down
        """
        return f"{self.uplink_bits:,.0f} bits up and {self.downlink_bits:,.0f} bits down"


@dataclass(slots=True)
class RoundControls:
    """Settings that the caller of an open access may change before each round.

    Sizes are those of values before compression, without headers.

    Args:
        design_bits: size of the largest update and of a broadcast, for which the access is designed; ``None`` for that
            of the scenario.
        update_bits: size of the updates that users begin from now on, ``[users]``; ``None`` for the design size.
        broadcast_bits: size of the broadcasts from now on; ``None`` for the design size.
        mac: settings of users for a MAC that its caller controls, by name, ``[users]`` each.
        can_select: whether the caller may give `selected`; it is stated before the access is opened, as an access may
            save draws for users that nobody selects.
        selected: the users that may take part in the next round, distinct and in rising order; ``None`` for the
            selection of the access.
    """

    design_bits: float | None = None
    update_bits: Floats | None = None
    broadcast_bits: float | None = None
    mac: Mapping[str, Floats] = field(default_factory=dict)
    can_select: bool = False
    selected: Ints | None = None


@dataclass(frozen=True, slots=True)
class AccessContext:
    """Context of an access: the replica that it serves.

    Args:
        users: the number of users.
        rounds: the number of rounds.
        replica: the number of the replica, from 0.
        streams: this replica's random streams for the access.
        samples: training samples that each user processes for one update, ``[users]``.
        uplink_bits: size of one update.
        downlink_bits: size of one broadcast.
        recorder: receiver of the events.
        label_mix: shares of the labels in each user's data, ``[users, classes]``; only where the access needs it.
        duration_s: how long a network with traffic in place of rounds is simulated; ``None`` with rounds.  `rounds` is
            then the number of equal windows of that time.
        warmup_s: time at the start that does not count in the metrics.
        held: number of training examples of each user, ``[users]``; ``None`` without data.
        pulse: called now and then with the progress of the open round; an exception that it raises ends the round.
        controls: settings that a caller changes before each round; ``None`` in a run.
    """

    users: int
    rounds: int
    replica: int
    streams: Streams
    samples: Floats
    uplink_bits: float
    downlink_bits: float
    recorder: Recorder
    label_mix: Floats | None = None
    duration_s: float | None = None
    warmup_s: float = 0.0
    held: Floats | None = None
    pulse: Callable[[RoundProgress], None] = ignore_progress
    controls: RoundControls | None = None

    def bits_of(self, users: Ints) -> float:
        """Return the size of the updates of *users* together."""
        sizes = None if self.controls is None else self.controls.update_bits
        return len(users) * self.uplink_bits if sizes is None else float(sizes[users].sum())

    @property
    def broadcast_bits(self) -> float:
        """Size of the next broadcast."""
        bits = None if self.controls is None else self.controls.broadcast_bits
        return self.downlink_bits if bits is None else bits


@dataclass(frozen=True, slots=True)
class ScenarioFacts:
    """Facts about the scenario that a model may use when it validates itself, before anything runs.

    Args:
        users: the number of users.
        rounds: the number of rounds.
        classes: number of labels in the data; ``None`` without data.
        max_deliveries: the largest number of deliveries in a round.
        rho_known: whether the access states each user's participation rate, up to a factor.
        participation_known: whether it states each user's participation rate exactly.
        placed: whether users have positions.
        ranked: whether the access has a recorded order of the users by participation.
        sized: whether the model gives the size of an update.
        trained: whether there are learners, whose work gives the computing time of a user.
        duration_s: simulated time of a run with traffic in place of rounds; ``None`` with rounds.
        replicas: the number of replicas.
        learners: the learners' names.
        networked: whether participation emerges from a network.
        weighed: whether a learner's aggregation states the weights of users.
    """

    users: int
    rounds: int
    classes: int | None = None
    max_deliveries: int = 1
    rho_known: bool = False
    participation_known: bool = False
    placed: bool = False
    ranked: bool = False
    sized: bool = False
    trained: bool = False
    duration_s: float | None = None
    replicas: int = 1
    learners: tuple[str, ...] = ()
    networked: bool = False
    weighed: bool = False

    def unknown_users(self, key: str, nodes: Iterable[int | str]) -> Iterator[Fault]:
        """Yield the error, at *key*, of users among *nodes* that do not exist; names of other nodes pass."""
        unknown = [user for user in nodes if isinstance(user, int) and user >= self.users]
        if unknown:
            yield Fault(key, "no such users", unknown, f"users are numbered 0 to {self.users - 1}")

    def too_many_users(self, key: str, number: int | None) -> Iterator[Fault]:
        """Yield the error, at *key*, of a *number* of users above the number of all."""
        if number is not None and number > self.users:
            yield Fault(key, f"more than the {self.users} users", number, "use at most the number of users")


Rows = NDArray[np.float64]
"""Independent rows of estimates, ``[rows, statistics]``."""


@dataclass(frozen=True, slots=True)
class StatisticClaim:
    """Claim about a statistic of a model: an autocorrelation, a level-crossing rate, a throughput, a loss.

    `netfl.testing.laws` makes the usual claims about time series.

    Args:
        name: the statistic, such as ``autocorrelation``.
        formula: the claim in words or a formula, short enough for a table.
        draw: ``draw(streams, size)`` returns independent rows of estimates, ``[rows, statistics]``, about as many as
            *size* draws give; or a pair of such arrays, where the statistic is the ratio of their means.
        means: the claimed mean of each column, or of each ratio, ``[statistics]``.
        at: the place of each column in words, such as ``lag 0.1 s``; for messages.
    """

    name: str
    formula: str
    draw: Callable[[Streams, int], Rows | tuple[Rows, Rows]]
    means: Sequence[float]
    at: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Law:
    """Claim of a model about the distribution of its draws, and a way to draw; a generic test checks it.

    Args:
        quantity: what is drawn, with its unit, such as ``power gain`` or ``share of time up``.
        statement: the claim in words and formula, with its source.
        draw: ``draw(streams, size)`` returns at least *size* independent draws; ``None`` only without a closed form.
        mean: the claimed mean.
        variance: the claimed variance.
        cdf: the claimed distribution function.
        distribution: the claimed distribution as a frozen SciPy distribution, which gives mean, variance and cdf where
            they are omitted; or its name alone.
        statistics: further claims, such as an autocorrelation at several lags.
    """

    quantity: str
    statement: str
    draw: Callable[[Streams, int], NDArray[np.float64]] | None = None
    mean: float | None = None
    variance: float | None = None
    cdf: Callable[[NDArray[np.float64]], Any] | None = None
    distribution: Any = None
    statistics: tuple[StatisticClaim, ...] = ()

    def __post_init__(self) -> None:
        """Take mean, variance and cdf from the distribution, where it has them."""
        frozen = self.distribution
        if frozen is None or isinstance(frozen, str):
            return
        for name, moment in (("mean", float(frozen.mean())), ("variance", float(frozen.var()))):
            if getattr(self, name) is None and math.isfinite(moment):
                object.__setattr__(self, name, moment)
        if self.cdf is None:
            object.__setattr__(self, "cdf", frozen.cdf)

    @classmethod
    def none(cls, reason: str) -> Law:
        """Return the statement that nothing is random, or that there is no closed form, with the *reason*."""
        return cls("none", reason)

    def claims(self) -> list[tuple[str, str]]:
        """Return each claim as a name and a short text.

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
        rows += [(claim.name, claim.formula) for claim in self.statistics]
        return rows or [("none", self.statement)]

    @property
    def _signature(self) -> str:
        """The SciPy call that makes the distribution, such as ``gamma(2, scale=0.5)``."""
        frozen = self.distribution
        values = [f"{value:.6g}" for value in frozen.args]
        values += [f"{key}={value:.6g}" for key, value in frozen.kwds.items()]
        return f"{frozen.dist.name}({', '.join(values)})"
