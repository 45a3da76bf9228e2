"""Bases of accesses that are given directly: `DirectAccess` and, for users that come and go, `IntermittentAccess`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field, ValidationInfo

from netfl import streams
from netfl.access import AccessInfo
from netfl.access._rates import Chances, LabelCorrelated, correlated_rates
from netfl.access._with_selection import WithSelection
from netfl.access.selection import UserInfo
from netfl.access.selection._state import SelectionState
from netfl.core.columns import complete_columns
from netfl.core.kinds import kind_of
from netfl.core.rates import chances_of
from netfl.core.spec import no_effect
from netfl.core.spec_errors import invalid
from netfl.errors import Fault, ModelError
from netfl.network.periods import period_of
from netfl.streams import Streams
from netfl.types import (
    AccessContext,
    Bools,
    Delivery,
    Event,
    Floats,
    Ints,
    Law,
    LearnerReport,
    Round,
    RoundBatch,
    ScenarioFacts,
    Users,
)
from netfl.units import Seconds, clock_problem

_BLOCK = 1 << 16
"""Random numbers drawn at a time."""

_RECORDED = ("broadcast", "delivered", "superseded", "unfinished")
"""Kinds of events of each round."""

_STATED_USERS = 100
"""Users whose probabilities are listed in place of a formula; they differ most among the first."""

Censor = Callable[[int, Ints], Bools]
"""Maps a round's number and the users whose updates would arrive, in that order, to whether each update passes."""


class DirectAccess(WithSelection):
    """An access given by the users that can be delivered in each round; all users start from the newest version."""

    deliveries: Annotated[int, Field(ge=1)] | None = None
    """Largest number of users delivered in a round; by default all that can be."""
    round_length: Annotated[Seconds, Field(gt=0)] = 1.0
    """Length of a round; round ``r`` closes at ``r`` times this."""

    @abstractmethod
    def candidates(self, context: AccessContext, limit: int | None = None) -> Iterator[Ints]:
        """Yield the users that can be delivered in each round, in the order of arrival.

        Args:
            context: the run.
            limit: only the first *limit* users are read; ``None`` for all.
        """

    def candidate_batches(self, context: AccessContext, limit: int | None = None) -> Iterator[Ints] | None:
        """Yield the same for many rounds at a time, ``[rounds, users]``; ``None`` if not available."""
        return None

    @property
    def has_absent_users(self) -> bool:
        """Users that are no candidates are absent: they have no update in that round, and so no outcome.

        If not, all users have an update in every round, and `candidates` states which arrive first.
        """
        return True

    @property
    def candidate_process(self) -> str | None:
        """Kind of process of the candidates, as in ``AccessInfo.process``."""
        return None

    @property
    def info(self) -> AccessInfo:
        process = None  # a selection has a process of its own
        if self.selects_all:
            process = self.candidate_process
        if self.deliveries is not None:  # a limit hides most of the dependence
            if process == "emergent-correlated" and self.deliveries == 1:
                process = "stationary"
            elif process is not None and "correlat" in process:
                process = None
        return replace(
            super().info,
            process=process,
            can_resize_updates=True,
            has_delays=False,  # updates arrive evenly spaced
            needs_early_selection=self.deliveries == 1,  # without a selection it draws the only user itself
        )

    @property
    def selects_all(self) -> bool:
        """The server selects all users in every round."""
        return self.selection.selects_all

    def max_deliveries(self, users: int, rounds: int) -> int:
        return min(self.deliveries or users, self.selection.max_selected(users))

    def min_updates(self, users: int, rounds: int) -> int:
        if self.selects_all and not self.has_absent_users:
            return users * rounds
        return 0

    def rounds_within(self, stop_s: float) -> int | None:
        if self.selection.observe.airtime_s:
            return None  # a round is longer by the answers of its users
        return period_of(stop_s, self.round_length)

    def has_exact_rates(self, users: int) -> bool:
        """Return whether `rates` are exact: all candidates are delivered, without a selection or a lower limit."""
        return self.selects_all and (self.deliveries or users) >= users

    def participation_rates(self, users: int, streams: Streams, label_mix: Floats | None = None) -> Floats | None:
        if not self.has_exact_rates(users):
            return None
        return self.rates(users, streams)

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if problem := clock_problem(facts.rounds * self.round_length):
            yield Fault("round_length", problem, self.round_length, "make it shorter, or use fewer rounds")
        selected = self.selection.max_selected(facts.users)
        yield from facts.too_many_users("deliveries", self.deliveries)
        if selected < (self.deliveries or 0) <= facts.users:
            reason = f"because only {selected} users are selected"
            yield from no_effect(self, ["deliveries"], reason, "make it smaller, or leave it out")
        yield from self.selection_faults(facts)

    def rounds(
        self, context: AccessContext, censor: Censor | None = None
    ) -> Generator[Round, LearnerReport | None, None]:
        """Return the rounds; updates of a round arrive evenly spaced, the last as it closes.  *censor* drops some."""
        held = None
        if self.selection.needs_sample_counts:
            held = context.held
        label_mix = None
        if self.selection.needs_label_mix:
            label_mix = context.label_mix
        population = UserInfo(context.users, context.streams.at("selection"), held, label_mix=label_mix)
        source = _CandidateSource(self, context)
        selection = SelectionState(self.selection, population, context.controls, source, context.recorder)
        limit = None  # the first candidates may not be selected
        if selection.selects_all:
            limit = self.deliveries
        source.begin(limit)
        return self._rounds(context, censor, selection, source)

    def _rounds(
        self, context: AccessContext, censor: Censor | None, selection: SelectionState, source: _CandidateSource
    ) -> Generator[Round, LearnerReport | None, None]:
        recorder = context.recorder
        all_users = np.arange(context.users)
        has_absent_users = self.has_absent_users
        reply: LearnerReport | None = None
        answers_s = 0.0  # of all rounds so far, which are longer by them
        for index in range(1, context.rounds + 1):
            if not selection.selects_all:
                answers_s += selection.call()
            candidates = source.take()
            if candidates is None:
                return
            # the users that have an update, and those whose updates arrive
            if selection.selects_all:
                participants = candidates if has_absent_users else all_users
                users = candidates[: self.deliveries]
            else:
                selected = selection.choose(index, reply)
                present = candidates[np.isin(candidates, selected)]
                participants = present if has_absent_users else selected
                users = present[: self.deliveries]
            opened_s, closed_s, arrived_s = self._times(index, len(users), answers_s)
            if recorder.wants("broadcast"):
                recorder.record(Event("broadcast", opened_s, round=index, node="server", value=context.broadcast_bits))
            # of these, the users whose updates pass
            is_passed = np.ones(len(users), bool)
            if censor is not None:
                is_passed = censor(index, users)
            delivered = users[is_passed]
            delivered_s = arrived_s[is_passed]
            recorder.record(Event("delivered", delivered_s, round=index, user=delivered, node="server"))
            if len(delivered) < len(users):
                dropped = users[~is_passed]
                dropped_s = arrived_s[~is_passed]
                recorder.record(
                    Event("dropped", dropped_s, round=index, user=dropped, node="server", detail="censored")
                )
            _record_remaining(context, index, closed_s, participants, users)
            selection.record_deliveries(index, delivered)
            pairs = zip(delivered.tolist(), delivered_s.tolist(), strict=True)
            queries: Mapping[str, tuple[int, ...]] = {}
            if index < context.rounds:
                queries = selection.queries(index + 1)
            reply = yield Round(
                index=index,
                opened_s=opened_s,
                closed_s=closed_s,
                deliveries=tuple(
                    Delivery(user=user, base=index - 1, sent_s=opened_s, arrived_s=time_s) for user, time_s in pairs
                ),
                oldest=index,
                uplink_bits=context.bits_of(users),
                downlink_bits=context.broadcast_bits,
                queries=queries,
            )

    def round_batches(self, context: AccessContext) -> Iterator[RoundBatch] | None:
        """Available if rounds are drawn in batches, all users are selected, and no event of a round is recorded."""
        if not self.selects_all or any(map(context.recorder.wants, _RECORDED)):
            return None
        batches = self.candidate_batches(context, self.deliveries)
        if batches is None:
            return None
        return self._round_batches(batches, context)

    def _round_batches(self, batches: Iterator[Ints], context: AccessContext) -> Iterator[RoundBatch]:
        done = 0
        for users in batches:
            rounds, per_round = users.shape
            index = np.arange(done + 1, done + rounds + 1)
            done += rounds
            opened_s, closed_s, arrived_s = self._times(index, per_round)
            delivered = np.full(rounds, per_round)
            # only the counts of outcomes are wanted
            remaining = context.users - delivered
            is_last = index == context.rounds
            for outcome, count in (
                ("delivered", delivered.sum()),
                ("superseded", remaining[~is_last].sum()),
                ("unfinished", remaining[is_last].sum()),
            ):
                context.recorder.record(Event(outcome, np.broadcast_to(0.0, int(count)), round=int(index[-1])))
            of_rounds = {
                "round": index,
                "opened_s": opened_s,
                "closed_s": closed_s,
                "delivered": delivered,
                "oldest": index,
                "uplink_bits": per_round * context.uplink_bits,
                "downlink_bits": context.downlink_bits,
            }
            of_deliveries = {
                "user": users.ravel(),
                "base": np.repeat(index - 1, per_round),
                "sent_s": np.repeat(opened_s, per_round),
                "arrived_s": arrived_s.T.ravel(),
            }
            yield RoundBatch(
                complete_columns(Round, rounds, of_rounds), complete_columns(Delivery, users.size, of_deliveries)
            )

    def _times(self, index: Any, updates: int, delay_s: float = 0.0) -> tuple[Any, Any, Floats]:
        """Return when rounds open and close, and when updates arrive, ``[updates]`` or ``[updates, rounds]``."""
        opened_s = (index - 1) * self.round_length + delay_s
        closed_s = index * self.round_length + delay_s
        return opened_s, closed_s, np.linspace(opened_s, closed_s, updates + 1)[1:]


class _CandidateSource:
    """The candidates of each round, of which a selection can observe who is there before it chooses.

    Args:
        access: the access.
        context: the context of the replica.
    """

    def __init__(self, access: DirectAccess, context: AccessContext) -> None:
        self._access = access
        self._context = context
        self._rounds: Iterator[Ints] = iter(())
        self._next: Ints | None = None  # of the round that opens next, once it is drawn

    def begin(self, limit: int | None) -> None:
        """Begin the draws, of the first *limit* candidates of each round."""
        self._rounds = self._access.candidates(self._context, limit)

    def take(self) -> Ints | None:
        """Return the candidates of the next round; ``None`` after the last."""
        candidates = self._peek()
        self._next = None
        return candidates

    def observe(self, name: str, users: Users) -> Bools:
        """Return whether each of *users* is available in the next round; ``check_in`` is all that can be observed."""
        candidates = self._peek()
        if candidates is None or not self._access.has_absent_users:
            return np.ones(len(users), bool)
        return np.isin(users, candidates)

    def answer_time_s(self, users: Users, airtime_s: float) -> float:
        return len(users) * airtime_s

    def _peek(self) -> Ints | None:
        if self._next is None:
            self._next = next(self._rounds, None)
        return self._next


def _record_remaining(context: AccessContext, index: int, closed_s: float, participants: Ints, arrived: Ints) -> None:
    """Record the outcome of the updates of *participants* that have not *arrived* when round *index* closes."""
    outcome = "superseded"  # by the next round
    if index == context.rounds:
        outcome = "unfinished"
    if not context.recorder.wants(outcome):  # only their number
        times_s = np.broadcast_to(closed_s, len(participants) - len(arrived))
        context.recorder.record(Event(outcome, times_s, round=index))
        return
    remaining = np.zeros(context.users, bool)
    remaining[participants] = True
    remaining[arrived] = False
    context.recorder.record(Event(outcome, closed_s, round=index, user=np.flatnonzero(remaining)))


class IntermittentAccess(DirectAccess):
    """An access whose users are available or not in each round; available users are delivered in random order."""

    probability: Chances
    """Probability that each user is available: one number for all; a list with one for each user; ``{zipf: s}``, which
    is ``p_i = max_probability * (i + 1) ** -s`` with ``max_probability: 1`` by default; or
    ``{label_correlated: {concentration: 0.1, minimum: 0.02, mean: 0.1}}``, which makes it follow the user's labels."""

    @abstractmethod
    def availability(self, chances: Floats, rounds: int, streams: Streams) -> Iterator[Bools]:
        """Yield whether each user is available, ``[users]``, in each round from 1 on."""

    def candidates(self, context: AccessContext, limit: int | None = None) -> Iterator[Ints]:
        return shuffled_users(self.availability(self.chances(context), context.rounds, context.streams), context)

    def chances(self, context: AccessContext) -> Floats:
        """Return the probability that each user is available, ``[users]``."""
        if not isinstance(self.probability, LabelCorrelated):
            return chances_of(self.probability, context.users)
        if context.label_mix is None:
            raise ModelError(kind_of(type(self)), "the users' label mix is needed but unknown")
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
        users = _STATED_USERS
        if isinstance(self.probability, float):  # one for all
            users = 1
        return tuple(chances_of(self.probability, users).tolist())

    def availability_law(self, index: int, statement: str) -> Law:
        """State the probability that a user like the first is available in round *index*."""
        chances = np.array([self.typical_chance])
        share = float(self.shares(chances)[0])

        def draw(streams: Streams, size: int) -> Floats:
            return np.asarray([*self.availability(chances.repeat(size), index, streams)][-1], float)

        return Law(f"user available in round {index}", statement, draw, share, share * (1 - share))

    def shares(self, chances: Floats) -> Floats:
        """Return the long-run share of rounds in which users with these probabilities are available."""
        return chances

    def min_updates(self, users: int, rounds: int) -> int:
        """Return the mean number of updates: those of available users."""
        rates = self.rates(users, Streams(0))
        if rates is None or not self.selects_all:
            return 0
        return int(rates.sum() * rounds)

    def rates(self, users: int, streams: Streams) -> Floats | None:
        """Return how often each user is available, unless that depends on labels; `deliveries` keeps the order."""
        if isinstance(self.probability, LabelCorrelated):
            return None
        return self.shares(chances_of(self.probability, users))

    def participation_rates(self, users: int, streams: Streams, label_mix: Floats | None = None) -> Floats | None:
        if not self.has_exact_rates(users):
            return None
        if not isinstance(self.probability, LabelCorrelated) or label_mix is None:
            return self.rates(users, streams)
        return self.shares(correlated_rates(self.probability.label_correlated, label_mix, streams))

    @property
    def info(self) -> AccessInfo:
        return replace(super().info, needs_label_mix=isinstance(self.probability, LabelCorrelated))

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if isinstance(self.probability, tuple) and len(self.probability) != facts.users:
            problem = f"{len(self.probability)} probabilities for {facts.users} users"
            yield Fault("probability", problem, None, "give one for each user, or one number for all, or {zipf: 1.0}")
        if isinstance(self.probability, LabelCorrelated) and facts.classes is None:
            yield Fault("probability", "depends on the users' labels, but there are no data", remedy="add data")
        yield from super().faults(facts)


def uniform_rows(field: streams.RandomField, users: Ints, rounds: int) -> Iterator[Floats]:
    """Yield a uniform number for each of *users*, for each round from 1 on; drawn in blocks of any size."""
    size = max(1, _BLOCK // len(users))
    for start in range(1, rounds + 1, size):
        yield from field.uniform(users, np.arange(start, min(start + size, rounds + 1))[:, None])


def shuffled_users(availability: Iterable[Bools], context: AccessContext) -> Iterator[Ints]:
    """Yield the available users of each round in random order, from rows of flags, ``[users]``."""
    order = uniform_rows(context.streams.field("order"), np.arange(context.users), context.rounds)
    for is_available, keys in zip(availability, order, strict=True):
        users = np.flatnonzero(is_available)
        yield users[np.argsort(keys[users])]


def earliest(times: Floats, limit: int | None) -> Ints:
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
        raise invalid("a time, and the unit is rounds", "write a number of rounds")
    return value
