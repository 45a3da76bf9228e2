"""Bases of accesses that are given directly: `DirectAccess` and, for users that come and go, `IntermittentAccess`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationInfo
from pydantic_core import PydanticCustomError

from netfl import streams
from netfl.access import AccessCost, AccessInfo
from netfl.access._rates import Chances, LabelCorrelated, correlated_rates
from netfl.access.selection import UserInfo
from netfl.access.selection._base import SelectionState, WithSelection
from netfl.access.selection.all import All
from netfl.errors import Fault, ModelError
from netfl.network.rates import chances_of
from netfl.registry import kind_of
from netfl.streams import Streams
from netfl.types import AccessContext, Delivery, LearnerReport, NullRecorder, Round, RoundBatch, ScenarioFacts
from netfl.units import Seconds

_BLOCK = 1 << 16
"""Random numbers drawn at a time."""

_RECORDED = ("broadcast", "delivered", "superseded", "unfinished")
"""Kinds of events of each round."""

_DRAWN_S = 5e-6
"""Processor time of a round that is drawn in a batch."""

_STATED_USERS = 100
"""Users whose probabilities stand for those of a formula, which differ most among the first."""

Censor = Callable[[int, NDArray[np.int64]], NDArray[np.bool_]]
"""Maps a round's number and the users whose updates would arrive, in that order, to whether each update passes."""


class DirectAccess(WithSelection):
    """An access given by the users that can be delivered in each round; all users start from the newest version."""

    first: Annotated[int, Field(ge=1)] | None = None
    """Largest number of users delivered in a round; by default all that can be."""
    round_length: Annotated[Seconds, Field(gt=0)] = 1.0
    """Length of a round; round ``r`` closes at ``r`` times this."""

    @abstractmethod
    def candidates(self, context: AccessContext, limit: int | None = None) -> Iterator[NDArray[np.int64]]:
        """Yield the users that can be delivered in each round, in the order of arrival.

        Args:
            context: the run.
            limit: only the first *limit* users are read; ``None`` for all.
        """

    @property
    def has_candidate_batches(self) -> bool:
        """`candidate_batches` is available if all users are selected."""
        return False

    def candidate_batches(self, context: AccessContext, limit: int | None = None) -> Iterator[NDArray[np.int64]] | None:
        """Yield the same for many rounds at a time, ``[rounds, users]``; ``None`` if not available."""
        return None

    @property
    def candidate_process(self) -> str | None:
        """Kind of process of the candidates, as in ``AccessInfo.process``."""
        return None

    @property
    def info(self) -> AccessInfo:
        """Needs and abilities."""
        process = self.candidate_process if self.selects_all else None
        if process == "emergent-correlated" and self.first is not None:
            process = "stationary" if self.first == 1 else None  # a limit hides most of the dependence
        return replace(super().info, process=process)

    @property
    def selects_all(self) -> bool:
        """The server selects all users in every round."""
        return isinstance(self.selection, All)

    def delivers_all(self, users: int) -> bool:
        """Return whether all candidates are delivered: no selection and no limit below *users*."""
        return self.selects_all and (self.first or users) >= users

    def max_deliveries(self, users: int, rounds: int) -> int:
        """Return the largest number of deliveries in a round."""
        return min(self.first or users, self.selection.max_selected(users))

    def min_updates(self, users: int, rounds: int) -> int:
        """Return a lower bound on the number of updates."""
        return users * rounds if self.selects_all else 0

    def participation_rates(
        self, users: int, streams: Streams, label_mix: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64] | None:
        """Return the share of rounds in which each user is delivered, if exact."""
        return self.rates(users, streams) if self.delivers_all(users) else None

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield errors of the configuration."""
        if self.first is not None and self.first > facts.users:
            yield Fault("first", f"more than the {facts.users} users", self.first, "name at most the number of users")
        elif self.first is not None and self.first > (selected := self.selection.max_selected(facts.users)):
            problem = f"has no effect: only {selected} users are selected"
            yield Fault("first", problem, self.first, "make it smaller, or leave it out")
        yield from self.selection_faults(facts)

    def estimate_cost(self, users: int, rounds: int, duration_s: float | None, *, counted: bool) -> AccessCost:
        """Estimate the cost, which is small if rounds are drawn in batches."""
        cost = super().estimate_cost(users, rounds, duration_s, counted=counted)
        if counted and self.has_candidate_batches and self.selects_all:
            return replace(cost, seconds=_DRAWN_S * rounds)
        return cost

    def rounds(self, context: AccessContext) -> Generator[Round, LearnerReport | None, None]:
        """Yield the rounds."""
        yield from self.play(context)

    def play(
        self, context: AccessContext, censor: Censor | None = None
    ) -> Generator[Round, LearnerReport | None, None]:
        """Yield the rounds; updates of a round arrive evenly spaced, the last as it closes.

        Args:
            context: the run.
            censor: drops some of the updates.
        """
        population = UserInfo(context.users, context.streams.at("selection"), context.held)
        selection = SelectionState(self.selection, population)
        all_users, reply = np.arange(context.users), None
        candidates = self.candidates(context, self.first if selection.selects_all else None)
        for index, able in enumerate(candidates, start=1):
            selected = all_users if selection.selects_all else selection.choose(index, reply)
            users = (able if selection.selects_all else able[np.isin(able, selected)])[: self.first]
            passed = np.ones(len(users), bool) if censor is None else censor(index, users)
            selection.record_deliveries(index, users[passed])
            opened_s, closed_s, arrived_s = self._times(index, len(users))
            _Outcomes(index, selected, users, passed).record(context, opened_s, closed_s, arrived_s)
            reply = yield Round(
                index,
                opened_s,
                closed_s,
                tuple(
                    Delivery(user, index - 1, opened_s, time_s)
                    for user, time_s in zip(users[passed].tolist(), arrived_s[passed].tolist(), strict=True)
                ),
                oldest=index,
                uplink_bits=len(users) * context.uplink_bits,
                downlink_bits=context.downlink_bits,
                asks=selection.queries(index + 1) if index < context.rounds else {},
            )

    def round_batches(self, context: AccessContext) -> Iterator[RoundBatch] | None:
        """Available if rounds are drawn in batches, all users are selected, and no event of a round is recorded."""
        if not self.selects_all or any(map(context.recorder.wants, _RECORDED)):
            return None
        batches = self.candidate_batches(context, self.first)
        return None if batches is None else self._round_batches(batches, context)

    def _round_batches(self, batches: Iterator[NDArray[np.int64]], context: AccessContext) -> Iterator[RoundBatch]:
        done = 0
        for users in batches:
            rounds, per_round = users.shape
            index = np.arange(done + 1, done + rounds + 1)
            done += rounds
            opened_s, closed_s, arrived_s = self._times(index, per_round)
            delivered, ones = np.full(rounds, per_round), np.ones(rounds)
            _count_outcomes(context, index, delivered)
            yield RoundBatch(
                index=index,
                opened_s=opened_s,
                closed_s=closed_s,
                delivered=delivered,
                oldest=index,
                uplink_bits=ones * (per_round * context.uplink_bits),
                downlink_bits=ones * context.downlink_bits,
                energy_j=ones * np.nan,
                user=users.ravel(),
                base=np.repeat(index - 1, per_round),
                sent_s=np.repeat(opened_s, per_round),
                arrived_s=arrived_s.T.ravel(),
                attempts=np.ones(users.size, np.int64),
            )

    def _times(self, index: Any, updates: int) -> tuple[Any, Any, NDArray[np.float64]]:
        """Return when rounds open and close, and when updates arrive, ``[updates]`` or ``[updates, rounds]``."""
        opened_s, closed_s = (index - 1) * self.round_length, index * self.round_length
        return opened_s, closed_s, np.linspace(opened_s, closed_s, updates + 1)[1:]


@dataclass(frozen=True, slots=True)
class _Outcomes:
    """Outcomes of the updates of one round.

    Args:
        index: the round.
        selected: users that train.
        users: users whose updates arrive, in that order.
        passed: whether each of these updates passes the censor.
    """

    index: int
    selected: NDArray[np.int64]
    users: NDArray[np.int64]
    passed: NDArray[np.bool_]

    def record(self, context: AccessContext, opened_s: float, closed_s: float, arrived_s: NDArray[np.float64]) -> None:
        """Record the broadcast and one outcome for each selected user."""
        index, recorder = self.index, context.recorder
        if recorder.wants("broadcast"):
            recorder.event("broadcast", opened_s, round=index, node="server", value=context.downlink_bits)
        recorder.event("delivered", arrived_s[self.passed], round=index, user=self.users[self.passed], node="server")
        if not self.passed.all():
            lost = ~self.passed
            dropped = self.users[lost]
            recorder.event("dropped", arrived_s[lost], round=index, user=dropped, node="server", detail="censored")
        outcome = "superseded" if index < context.rounds else "unfinished"
        if not recorder.wants(outcome):
            recorder.event(outcome, np.broadcast_to(closed_s, len(self.selected) - len(self.users)), round=index)
            return
        remaining = np.zeros(context.users, bool)
        remaining[self.selected] = True
        remaining[self.users] = False
        recorder.event(outcome, closed_s, round=index, user=np.flatnonzero(remaining))


def _count_outcomes(context: AccessContext, index: NDArray[np.int64], delivered: NDArray[np.int64]) -> None:
    """Count the outcomes of all updates in rounds where all users are selected and no event is recorded."""
    remaining, is_last = context.users - delivered, index == context.rounds
    counts = (
        ("delivered", delivered.sum()),
        ("superseded", remaining[~is_last].sum()),
        ("unfinished", remaining[is_last].sum()),
    )
    for outcome, count in counts:
        context.recorder.event(outcome, np.broadcast_to(0.0, int(count)), round=int(index[-1]))


class IntermittentAccess(DirectAccess):
    """An access whose users are available or not in each round; available users are delivered in random order."""

    probability: Chances
    """Probability that each user is available: one number for all; a list with one for each user; ``{zipf: s}``, which
    is ``p_i = highest * (i + 1) ** -s`` with ``highest: 1`` by default; or
    ``{label_correlated: {concentration: 0.1, minimum: 0.02, mean: 0.1}}``, which makes it follow the user's labels."""

    @abstractmethod
    def availability(self, chances: NDArray[np.float64], rounds: int, streams: Streams) -> Iterator[NDArray[np.bool_]]:
        """Yield whether each user is available, ``[users]``, in each round from 1 on."""

    def candidates(self, context: AccessContext, limit: int | None = None) -> Iterator[NDArray[np.int64]]:
        """Yield the available users in random order."""
        return shuffled_users(self.availability(self.chances(context), context.rounds, context.streams), context)

    def chances(self, context: AccessContext) -> NDArray[np.float64]:
        """Return the probability that each user is available, ``[users]``."""
        if not isinstance(self.probability, LabelCorrelated):
            return chances_of(self.probability, context.users)
        if context.label_mix is None:
            raise ModelError(kind_of(type(self)), "the users' label mix is needed, and is unknown")
        return correlated_rates(self.probability.label_correlated, context.label_mix, context.streams)

    @property
    def typical_chance(self) -> float:
        """Probability of the first user, if all users have the same label mix."""
        if isinstance(self.probability, LabelCorrelated):
            return max(self.probability.label_correlated.minimum, self.probability.label_correlated.mean)
        return float(chances_of(self.probability, 1)[0])

    @property
    def stated_chances(self) -> tuple[float, ...]:
        """Probabilities in the scenario, or of the first users by its formula; empty if they follow labels."""
        if isinstance(self.probability, LabelCorrelated):
            return ()
        return tuple(chances_of(self.probability, 1 if isinstance(self.probability, float) else _STATED_USERS).tolist())

    def shares(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the long-run share of rounds in which users with these probabilities are available."""
        return chances

    def rates(self, users: int, streams: Streams) -> NDArray[np.float64] | None:
        """Return how often each user is available, unless that depends on labels; `first` keeps the order."""
        if isinstance(self.probability, LabelCorrelated):
            return None
        return self.shares(chances_of(self.probability, users))

    def participation_rates(
        self, users: int, streams: Streams, label_mix: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64] | None:
        """Return the share of rounds in which each user is delivered, if exact."""
        if not self.delivers_all(users):
            return None
        if not isinstance(self.probability, LabelCorrelated) or label_mix is None:
            return self.rates(users, streams)
        return self.shares(correlated_rates(self.probability.label_correlated, label_mix, streams))

    @property
    def info(self) -> AccessInfo:
        """Needs and abilities."""
        return replace(super().info, needs_label_mix=isinstance(self.probability, LabelCorrelated))

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield errors of the configuration."""
        if isinstance(self.probability, tuple) and len(self.probability) != facts.users:
            problem = f"{len(self.probability)} probabilities for {facts.users} users"
            yield Fault("probability", problem, remedy="give one for each user, or one number for all, or {zipf: 1.0}")
        if isinstance(self.probability, LabelCorrelated) and facts.classes is None:
            yield Fault("probability", "follows the users' labels, and there are no data", remedy="add data")
        yield from super().faults(facts)


def uniform_rows(field: streams.RandomField, users: NDArray[np.int64], rounds: int) -> Iterator[NDArray[np.float64]]:
    """Yield a uniform number for each of *users*, for each round from 1 on; drawn in blocks of any size."""
    size = max(1, _BLOCK // len(users))
    for start in range(1, rounds + 1, size):
        yield from field.uniform(users, np.arange(start, min(start + size, rounds + 1))[:, None])


def shuffled_users(availability: Iterable[NDArray[np.bool_]], context: AccessContext) -> Iterator[NDArray[np.int64]]:
    """Yield the available users of each round in random order, from rows of flags, ``[users]``."""
    order = uniform_rows(context.streams.field("order"), np.arange(context.users), context.rounds)
    for is_available, keys in zip(availability, order, strict=True):
        users = np.flatnonzero(is_available)
        yield users[np.argsort(keys[users])]


def earliest(times: NDArray[np.float64], limit: int | None) -> NDArray[np.int64]:
    """Return the indices of the *limit* smallest *times* in ascending order, or of all; sorts only these.

    >>> earliest(np.array([3.0, 1.0, 2.0, 9.0]), 2).tolist()
    [1, 2]
    """
    if limit is None or limit >= len(times):
        return np.argsort(times)
    first = np.argpartition(times, limit - 1)[:limit]
    return np.asarray(first[np.argsort(times[first])])


def parse_number(value: Any, info: ValidationInfo) -> Any:
    """Reject a quantity such as ``2 h`` if the field ``unit``, which is read before, is rounds."""
    if isinstance(value, str) and info.data.get("unit") == "rounds":
        raise PydanticCustomError("unit", "a time, and the unit is rounds", {"remedy": "write a number of rounds"})
    return value


def make_context(users: int, rounds: int, streams: Streams) -> AccessContext:
    """Return a context without a recorder, in which all users have the same mix of ten labels, for tests of laws."""
    return AccessContext(
        users=users,
        rounds=rounds,
        replica=0,
        streams=streams,
        samples=np.ones(users),
        uplink_bits=1.0,
        downlink_bits=1.0,
        recorder=NullRecorder(),
        label_mix=np.full((users, 10), 0.1),
    )
