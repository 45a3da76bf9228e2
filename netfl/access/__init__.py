'''The access family: which users' updates reach the server in each round — the Random Access Model (RAM).

An access is a generator of rounds.  It is given directly (`stationary`, `bernoulli`, `markov`, `cyclic`, ...), is a
recording (`replay`), or emerges from a simulated network (`network`).  All accesses share this interface, and learners
see only the rounds.

To write an access, add a file to this package, or a class to a package of your own, that derives from `Access`.

- `Access.rounds` gets an `AccessContext` and yields one `Round` after another, with the deliveries of that round.
- All random draws come from ``context.streams``, by name and index, so that equal contexts give equal rounds.
- Events go to ``context.recorder``; the outcome of every update is recorded once.  Their kinds are
  `netfl.types.KINDS`: another name is an error, and a word of the access itself is the ``detail`` of an event.
- Where other nodes than the server merge models, such as edges, rounds state their ``Round.merges``, and
  `Access.merging_nodes` their number.  `netfl.types.Merge` has the rules: each version has a number at its node.
  The guide ``docs/howto/edges.md`` has complete accesses.
- Metrics of the access itself, of ``context.recorder.final_metrics``, are declared by `AccessInfo.metrics`.
- `Access.info` states what the access needs and can do.  The default is an open loop that needs nothing.
- ``laws`` states the distributions that the draws follow; a test checks them.

A complete access, in which users take turns::

    class Turns(Access):
        """One user is delivered in each round, in turn.

        Example::

            kind: mylab.turns:Turns
            round_length: 10 s
        """

        round_length: Seconds = 10.0
        """Length of a round."""

        def rounds(self, context):
            for index in range(1, context.rounds + 1):
                opened_s, closed_s = (index - 1) * self.round_length, index * self.round_length
                user = index % context.users
                context.recorder.record(Event("delivered", closed_s, round=index, user=user, node="server"))
                update = Delivery(user=user, base=index - 1, sent_s=opened_s, arrived_s=closed_s)
                yield Round(index=index, opened_s=opened_s, closed_s=closed_s, deliveries=(update,), oldest=index)

        def max_deliveries(self, users, rounds):
            return 1

        def laws(self):
            return (Law.none("draws nothing"),)
'''

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from netfl.core.kinds import exported_models, kind_of
from netfl.core.plugins import Overridable, is_plugin
from netfl.core.spec import Spec
from netfl.errors import Fault, ModelError, model_errors
from netfl.streams import Streams
from netfl.types import (
    OUTCOMES,
    RARE_OUTCOMES,
    AccessContext,
    Floats,
    Ints,
    LearnerReport,
    ObservationAge,
    Round,
    RoundBatch,
    RoundLedger,
)

if TYPE_CHECKING:
    from netfl.network.layout import Layout


@dataclass(frozen=True, slots=True)
class AccessInfo:
    """Properties of an access that do not depend on the numbers of users and rounds.

    Args:
        needs_samples: `Access.rounds` reads ``AccessContext.samples``, the local work of each user.
        needs_label_mix: `Access.rounds` reads ``AccessContext.label_mix``, for the rates of users.
        has_parts_for_labels: a part of the access reads it: `Access.parts_that_need_labels`.
        needs_sample_counts: `Access.rounds` reads ``AccessContext.held``, the training examples of each user.
        is_closed_loop: the rounds depend on answers of the learners (``Round.queries``).
        learner: the learner whose answers count in a closed loop; ``None`` if there is only one.
        is_networked: the access simulates a network.
        can_resize_updates: the sizes of ``AccessContext.controls`` take effect.
        can_run_timed: the access accepts ``AccessContext.duration_s``: it then observes its own traffic in place of
            updates, cuts the time into ``AccessContext.rounds`` equal windows without deliveries, and records its
            metrics at the end.
        can_stop: the rounds end with the last one that closes at or before ``AccessContext.stop_s``.
        has_positions: users have positions.
        has_energy: the energy that users spend is simulated.
        has_ranking: `Access.ranking` is on record.
        has_selection: the server selects users; a caller can do so in its place by ``RoundControls.selected``.
        needs_early_selection: a caller that selects must do so from the first round on, because the access draws other
            numbers then.
        update_bits: size that the access gives to all updates and broadcasts; ``None`` for that of the learners.
        billing: sizes where the payloads of the learners differ, and `update_bits` does not replace them.  ``own``: an
            error, as the sizes decide the rounds.  ``largest``: all learners are billed the largest payload.
            ``recorded``: the costs are those of a recording, whatever the learners send.
        has_delays: the times of arrivals are those of the updates; otherwise they only have an order within a round.
        can_erase: deliveries may lack parts (``Delivery.received``).
        rare_outcomes: those of `netfl.types.RARE_OUTCOMES` in which updates can end.
        has_roaming: users can change their towers, so that deliveries have one (``Delivery.tower``).
        knows_lost: deliveries have ``Delivery.lost_bases`` if ``AccessContext.reports_lost`` asks for it.
        sums: the server gets the sums of updates in the air; rounds have ``Round.not_summed`` if
            ``AccessContext.reports_not_summed`` asks for it.
        link_values: fields of ``Delivery.link`` that deliveries have if ``AccessContext.reports_links`` asks for them;
            none if updates are not sent over the air.
        process: kind of the participation process that a diagnosis should find: ``stationary``, ``Markovian``,
            ``cyclic``, ``non-stationary`` or ``emergent-correlated``, or several causes such as ``cycle + drift``;
            ``None`` unless it is certain.
        metrics: names of the metrics of its own that it records at its end, in which ``*`` stands for any characters;
            those of the catalogue `netfl.results.metrics` are known.
    """

    needs_samples: bool = False
    needs_label_mix: bool = False
    has_parts_for_labels: bool = False
    needs_sample_counts: bool = False
    is_closed_loop: bool = False
    learner: str | None = None
    is_networked: bool = False
    can_resize_updates: bool = False
    can_run_timed: bool = False
    can_stop: bool = False
    has_positions: bool = False
    has_energy: bool = False
    has_ranking: bool = False
    has_selection: bool = False
    needs_early_selection: bool = False
    update_bits: float | None = None
    billing: Literal["own", "largest", "recorded"] = "largest"
    has_delays: bool = True
    can_erase: bool = False
    rare_outcomes: frozenset[str] = frozenset()
    has_roaming: bool = False
    knows_lost: bool = False
    sums: bool = False
    link_values: frozenset[str] = frozenset()
    process: str | None = None
    metrics: tuple[str, ...] = ()

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Outcomes in which updates can end."""
        return tuple(name for name in OUTCOMES if name not in RARE_OUTCOMES or name in self.rare_outcomes)

    @property
    def needs_data(self) -> bool:
        """The access needs the data set."""
        return self.needs_samples or self.needs_labels or self.needs_sample_counts

    @property
    def needs_labels(self) -> bool:
        """The access or a part of it needs the labels of the users' data."""
        return self.needs_label_mix or self.has_parts_for_labels


class Access(Spec):
    """The contract of an access."""

    @abstractmethod
    def rounds(self, context: AccessContext) -> Generator[Round, LearnerReport | None, None]:
        """Yield ``context.rounds`` rounds in order; the value sent back is the learner's report on the round.

        There are fewer if ``context.stop_s`` ends them (`AccessInfo.can_stop`).
        Draws come from ``context.streams`` only, so that equal contexts give equal rounds.
        """

    def open(self, context: AccessContext) -> OpenAccess:
        """Return the rounds as an object that a caller drives."""
        return OpenAccess(self, context, self.rounds(context))

    def rounds_within(self, stop_s: float) -> int | None:
        """Return how many rounds close at or before *stop_s*; ``None`` if that is known only once they are simulated.

        Where it is known, ``AccessContext.rounds`` is at most this number.
        """
        return None

    def round_batches(self, context: AccessContext) -> Iterator[RoundBatch] | None:
        """Yield and record the same rounds as arrays of many rounds; ``None`` if that is not faster.

        Used where nobody learns.  The number of rounds in a batch is the same in every replica.
        """
        return None

    @property
    def info(self) -> AccessInfo:
        """Needs and abilities of this access."""
        return AccessInfo()

    @property
    def parts_that_need_samples(self) -> Mapping[str, Spec]:
        """The models inside this access that need the numbers of examples that users hold, by key."""
        return {}

    @property
    def parts_that_need_labels(self) -> Mapping[str, Spec]:
        """The models inside this access that need the labels of the users' data, by key."""
        return {}

    @property
    def reporting_parts(self) -> Mapping[str, Spec]:
        """The parts that report metrics with their decisions (`netfl.types.Reported`), by their keys."""
        return {}

    @property
    def closed_loop_parts(self) -> Mapping[str, Spec]:
        """The parts that ask the learners, by their keys; an access that has any states ``is_closed_loop``."""
        return {}

    def observation_faults(self, ages: Mapping[str, ObservationAge]) -> Iterator[Fault]:
        """Yield the errors of values that a caller cannot observe with these *ages*; keys begin with ``observe``."""
        yield Fault("observe", "no policy can observe this access", kind_of(type(self)), "leave it out")

    @property
    def control_ranges(self) -> Mapping[str, tuple[float, float]]:
        """Lowest and highest value of each setting of users, by its name in ``RoundControls.mac``."""
        return {}

    def max_deliveries(self, users: int, rounds: int) -> int:
        """Return the largest possible number of deliveries in one of the *rounds*."""
        return users

    def merging_nodes(self, users: int) -> int:
        """Return how many nodes besides the server merge models, such as edges; they are numbered from 1.

        Only an access that states any may yield rounds with ``Round.merges``.
        """
        return 0

    def min_updates(self, users: int, rounds: int) -> int:
        """Return about how many updates there are at least; each has an outcome."""
        return 0

    def rates(self, users: int, streams: Streams) -> Floats | None:
        """Return how often each user is delivered, ``[users]``, up to a factor; ``None`` if unknown.

        With a selection, these are the rates without it.  *streams* are ``AccessContext.streams``: random rates are
        those that `rounds` uses.
        """
        return None

    def participation_rates(self, users: int, streams: Streams, label_mix: Floats | None = None) -> Floats | None:
        """Return the exact long-run share of rounds in which each user is delivered, ``[users]``; ``None`` if unknown.

        Unlike `rates`, which only order users, these can be compared with a recording.  Rates that follow the users'
        labels need *label_mix* (``AccessContext.label_mix``).
        """
        return None

    def ranking(self, context: AccessContext) -> Ints | None:
        """Return the users from the most to the least often delivered, if that is on record."""
        return None

    def user_columns(self, context: AccessContext) -> Mapping[str, NDArray[Any]]:
        """Return columns of the users table that this access knows, such as ``x_m`` and the first ``tower``."""
        return {}

    def node_columns(self, context: AccessContext) -> Mapping[str, NDArray[Any]]:
        """Return columns of the nodes table: ``node``, ``role``, ``x_m`` and ``y_m`` of towers, routers and server."""
        return {}

    def layout(self, context: AccessContext) -> Layout | None:
        """Return the positions and links of users, towers, routers and the server; ``None`` without a network."""
        return None

    def warnings(self, context: AccessContext) -> Iterator[str]:
        """Yield warnings about a valid configuration, before the first round."""
        yield from ()

    def notes(self, context: AccessContext) -> Iterator[str]:
        """Yield sentences on what the configuration gives a user, which `netfl check` prints."""
        yield from ()


@dataclass(slots=True)
class OpenAccess(Overridable):
    """The rounds of one replica, which a caller takes one by one.

    The loop of a run, `netfl.Simulation` and the grid for Flower drive an access in this way::

        access = scenario.access.open(context)
        while not access.is_done:
            round = access.next_round()
        access.finish()

    Keys of a `ScenarioError` are relative to the access.

    Args:
        access: the access.
        context: the context of the replica.
        rounds: the generator of the rounds, see `Access.rounds`.

    Attributes:
        last: the last round; ``None`` before the first.
        has_ended: whether ``context.stop_s`` has ended the rounds.
    """

    access: Access
    context: AccessContext
    rounds: Generator[Round, LearnerReport | None, None]
    last: Round | None = field(default=None, init=False)
    has_ended: bool = field(default=False, init=False)
    _ledger: RoundLedger = field(init=False)
    _is_plugin: bool = field(init=False)

    def __post_init__(self) -> None:
        access, users = self.access, self.context.users
        max_deliveries = access.max_deliveries(users, self.context.rounds)
        self._ledger = RoundLedger(users, access.merging_nodes(users), max_deliveries)
        self._is_plugin = is_plugin(access)

    @property
    def kind(self) -> str:
        """The ``kind`` of the access."""
        return kind_of(type(self.access))

    @property
    def time_s(self) -> float:
        """Simulated time: when the last round closed; 0 before the first."""
        if self.last is None:
            return 0.0
        return self.last.closed_s

    @property
    def round(self) -> int:
        """Number of the last round; 0 before the first."""
        if self.last is None:
            return 0
        return self.last.index

    @property
    def is_done(self) -> bool:
        """``True`` after the last round."""
        return self.has_ended or self.round >= self.context.rounds

    def next_round(self, report: LearnerReport | None = None) -> Round | None:
        """Return the next round; ``None`` if ``context.stop_s`` is reached before it closes.

        Args:
            report: the learners' report on the last round; only closed loops need it.

        Raises:
            ScenarioError: the scenario cannot be simulated.
            ModelError: a model failed, or the access has no more rounds.
        """
        if self.last is None:
            report = None  # a generator accepts a value only once it has started
        with model_errors(self.kind, self.time_s):
            try:
                self.last = self.rounds.send(report)
            except StopIteration:
                if self.context.stop_s is not None:
                    self.has_ended = True
                    return None
                problem = f"the network ends after round {self.round} of {self.context.rounds}"
                raise ModelError(self.kind, problem, time_s=self.time_s) from None
        self._check(self.last)
        return self.last

    def finish(self, report: LearnerReport | None = None) -> None:
        """End after the last round that the caller needs; outcomes and metrics that are due at the end are recorded.

        Args:
            report: the learners' report on the last round.

        Raises:
            ModelError: a model failed.
        """
        with model_errors(self.kind, self.time_s):
            if self.is_done:
                with suppress(StopIteration):
                    self.rounds.send(report)  # the access records what follows its last round
            else:
                self._end_early()
        self.close()

    def _check(self, round_: Round) -> None:
        """Check that a round is possible; of netfl's own accesses only its merges, which few have."""
        problem = ""
        if self._is_plugin:
            problem = self._ledger.delivery_problem(round_)
        problem = problem or self._ledger.add_merges(round_)
        if problem:
            raise ModelError(self.kind, problem, time_s=round_.closed_s)

    def _end_early(self) -> None:
        """Record what is due at the end, before the last round of the context; the generator would simulate another."""

    def close(self) -> None:
        """End at once: nothing more is recorded."""
        self.rounds.close()


__getattr__ = exported_models(__name__)
