"""What all accesses that are given directly share: a clock of even rounds, and a fate for every update."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationInfo
from pydantic_core import PydanticCustomError

from netfl import streams
from netfl.access._rates import Chances, LabelCorrelated, correlated_rates
from netfl.access.selection import UserInfo
from netfl.access.selection._base import SelectionState, WithSelection, selection_faults
from netfl.access.selection.all import All
from netfl.errors import Fault, ModelError
from netfl.network.rates import chances_of
from netfl.registry import kind_of
from netfl.streams import Streams
from netfl.types import AccessContext, Delivery, LearnerReport, NullRecorder, Round, RoundBatch, ScenarioFacts
from netfl.units import Seconds

_BLOCK = 1 << 16
"""Numbers that are drawn at a time."""

_RECORDED = ("broadcast", "delivered", "superseded", "unfinished")
"""What happens in each round."""

_DRAWN_S = 5e-6
"""Processor time of a round that is drawn with many others."""

Censor = Callable[[int, NDArray[np.int64]], NDArray[np.bool_]]
"""Of a round, by its number, and the users whose updates would arrive in it, in that order: which ones pass."""


class DirectAccess(WithSelection):
    """An access that is told, round by round, who is heard; every user starts each round from its newest version."""

    first: Annotated[int, Field(ge=1)] | None = None
    """How many of those who could be heard are heard in a round; by default all of them."""
    round_length: Annotated[Seconds, Field(gt=0)] = 1.0
    """How long a round takes; round ``r`` closes at ``r`` times this."""

    @abstractmethod
    def heard(self, setting: AccessContext, most: int | None = None) -> Iterator[NDArray[np.int64]]:
        """Who could be heard in each of the wanted rounds, in the order in which they would be.

        Args:
            setting: the world.
            most: only so many are looked at; ``None`` for all, as where the server selects among them.
        """

    @property
    def at_once(self) -> bool:
        """Whether all rounds can be drawn at once where everybody may try."""
        return False

    def heard_at_once(self, setting: AccessContext, most: int | None = None) -> Iterator[NDArray[np.int64]] | None:
        """The same, ``[rounds, users]`` for many rounds at a time; ``None`` where rounds cannot be drawn so."""
        return None

    def blocks(self, setting: AccessContext) -> Iterator[RoundBatch] | None:
        """Where rounds can be drawn at once, everybody may try, and no event of each of the rounds is recorded."""
        if not self._everybody or any(map(setting.recorder.wants, _RECORDED)):
            return None
        told = self.heard_at_once(setting, self.first)
        return None if told is None else self._blocks_of(told, setting)

    def seconds(self, users: int, rounds: int, duration_s: float | None, *, counted: bool) -> float:
        """Little, where rounds are drawn at once."""
        if counted and self.at_once and self._everybody:
            return _DRAWN_S * rounds
        return super().seconds(users, rounds, duration_s, counted=counted)

    def rounds(self, setting: AccessContext) -> Generator[Round, LearnerReport | None, None]:
        """Put what `heard` says on the clock: the updates of a round arrive evenly spaced, the last as it closes."""
        yield from self.played(setting)

    def played(
        self, setting: AccessContext, censor: Censor | None = None
    ) -> Generator[Round, LearnerReport | None, None]:
        """The rounds, of whose updates *censor*, if there is one, lets only some through."""
        chooser = SelectionState(self.selection, UserInfo(setting.users, setting.streams.at("selection"), setting.held))
        everybody, reply = np.arange(setting.users), None
        for index, able in enumerate(self.heard(setting, self.first if chooser.everybody else None), start=1):
            chosen = everybody if chooser.everybody else chooser.choose(index, reply)
            users = (able if chooser.everybody else able[np.isin(able, chosen)])[: self.first]
            passed = np.ones(len(users), bool) if censor is None else censor(index, users)
            chooser.heard(index, users[passed])
            opened_s, closed_s, arrived_s = self._clock(index, len(users))
            _record(setting, index, chosen, users, passed, arrived_s, (opened_s, closed_s))
            reply = yield Round(
                index,
                opened_s,
                closed_s,
                tuple(
                    Delivery(user, index - 1, opened_s, time_s)
                    for user, time_s in zip(users[passed].tolist(), arrived_s[passed].tolist(), strict=True)
                ),
                oldest=index,
                uplink_bits=len(users) * setting.uplink_bits,
                downlink_bits=setting.downlink_bits,
                asks=chooser.asks(index + 1) if index < setting.rounds else {},
            )

    def _blocks_of(self, told: Iterator[NDArray[np.int64]], setting: AccessContext) -> Iterator[RoundBatch]:
        """Blocks of rounds in which everybody tries, and those are heard who are *told*."""
        done = 0
        for users in told:
            rounds, heard = users.shape
            index = np.arange(done + 1, done + rounds + 1)
            done += rounds
            opened_s, closed_s, arrived_s = self._clock(index, heard)
            delivered, one = np.full(rounds, heard), np.ones(rounds)
            _count(setting, index, delivered)
            yield RoundBatch(
                index=index,
                opened_s=opened_s,
                closed_s=closed_s,
                delivered=delivered,
                oldest=index,
                uplink_bits=one * (heard * setting.uplink_bits),
                downlink_bits=one * setting.downlink_bits,
                energy_j=one * np.nan,
                user=users.ravel(),
                base=np.repeat(index - 1, heard),
                sent_s=np.repeat(opened_s, heard),
                arrived_s=arrived_s.T.ravel(),
                attempts=np.ones(users.size, np.int64),
            )

    def _clock(self, index: Any, heard: int) -> tuple[Any, Any, NDArray[np.float64]]:
        """When rounds open and close, and when their updates arrive, ``[heard]`` or ``[heard, rounds]``."""
        opened_s, closed_s = (index - 1) * self.round_length, index * self.round_length
        return opened_s, closed_s, np.linspace(opened_s, closed_s, heard + 1)[1:]

    def heard_rates(
        self, users: int, streams: Streams, label_mix: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64] | None:
        """`rates`, where all who could be heard are."""
        return self.rates(users, streams) if self.hears_all(users) else None

    def hears_all(self, users: int) -> bool:
        """Whether all of so many *users* who could be heard are: nothing selects among them, and there is room."""
        return self._everybody and (self.first or users) >= users

    @property
    def coming(self) -> str | None:
        """The kind of process that those who could be heard are, as `process` would say it."""
        return None

    @property
    def process(self) -> str | None:
        """As of `coming`; not known where the server selects, or where room for a few leaves little of dependence."""
        if not self._everybody:
            return None
        if self.coming != "emergent-correlated" or self.first is None:
            return self.coming
        return "stationary" if self.first == 1 else None

    @property
    def _everybody(self) -> bool:
        """Whether the server lets everybody try."""
        return isinstance(self.selection, All)

    def most(self, users: int, rounds: int) -> int:
        """All that may try, or the first few."""
        return min(self.first or users, self.selection.most(users))

    def updates(self, users: int, rounds: int) -> int:
        """One in each round, where everybody may try."""
        return users * rounds if self._everybody else 0

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """More heard than there are; what is wrong with the selection."""
        if self.first is not None and self.first > facts.users:
            yield Fault("first", f"more than the {facts.users} users", self.first, "name at most the number of users")
        elif self.first is not None and self.first > (tried := self.selection.most(facts.users)):
            yield Fault("first", f"has no effect: only {tried} may try", self.first, "make it smaller, or leave it out")
        yield from selection_faults(self, facts)


def uniform_rows(field: streams.RandomField, users: NDArray[np.int64], rounds: int) -> Iterator[NDArray[np.float64]]:
    """A uniform number for each of *users*, for each round from 1 on; drawn in blocks, the same in any block."""
    size = max(1, _BLOCK // len(users))
    for start in range(1, rounds + 1, size):
        yield from field.uniform(users, np.arange(start, min(start + size, rounds + 1))[:, None])


def earliest(times: NDArray[np.float64], most: int | None) -> NDArray[np.int64]:
    """The places of the *most* least of *times*, or of all, in rising order: a sort of these alone.

    >>> earliest(np.array([3.0, 1.0, 2.0, 9.0]), 2).tolist()
    [1, 2]
    """
    if most is None or most >= len(times):
        return np.argsort(times)
    first = np.argpartition(times, most - 1)[:most]
    return np.asarray(first[np.argsort(times[first])])


def _record(
    setting: AccessContext,
    index: int,
    chosen: NDArray[np.int64],
    users: NDArray[np.int64],
    passed: NDArray[np.bool_],
    arrived_s: NDArray[np.float64],
    span_s: tuple[float, float],
) -> None:
    """Record the broadcast, and the one fate of each *chosen* user's update: those unheard the next overtakes."""
    opened_s, closed_s = span_s
    recorder = setting.recorder
    if recorder.wants("broadcast"):
        recorder.event("broadcast", opened_s, round=index, node="server", value=setting.downlink_bits)
    recorder.event("delivered", arrived_s[passed], round=index, user=users[passed], node="server")
    if not passed.all():
        lost = ~passed
        recorder.event("dropped", arrived_s[lost], round=index, user=users[lost], node="server", detail="censored")
    fate = "superseded" if index < setting.rounds else "unfinished"
    if not recorder.wants(fate):
        recorder.event(fate, np.broadcast_to(closed_s, len(chosen) - len(users)), round=index)
        return
    unheard = np.zeros(setting.users, bool)
    unheard[chosen] = True
    unheard[users] = False
    recorder.event(fate, closed_s, round=index, user=np.flatnonzero(unheard))


def _count(setting: AccessContext, index: NDArray[np.int64], delivered: NDArray[np.int64]) -> None:
    """Have the fates of all updates of some rounds counted, in which everybody tries; none of them is recorded."""
    left, last = setting.users - delivered, index == setting.rounds
    fates = (
        ("delivered", delivered.sum()),
        ("superseded", left[~last].sum()),
        ("unfinished", left[last].sum()),
    )
    for fate, number in fates:
        setting.recorder.event(fate, np.broadcast_to(0.0, int(number)), round=int(index[-1]))


# What the accesses share in which users come and go: their probabilities, and who of those present is heard.


_FIRST = 100
"""Users whose probabilities stand for all that a formula gives: those of the first differ most."""


class IntermittentAccess(DirectAccess):
    """An access whose users are there or not, round by round; those who are there are heard."""

    probability: Chances
    """How likely each user is to be there: one number for all; a list with one for each user; ``{zipf: s}``, which is
    ``p_i = highest * (i + 1) ** -s`` with ``highest: 1`` by default; or
    ``{label_correlated: {concentration: 0.1, minimum: 0.02, mean: 0.1}}``, which makes it follow the user's labels."""

    @abstractmethod
    def present(self, chances: NDArray[np.float64], rounds: int, streams: Streams) -> Iterator[NDArray[np.bool_]]:
        """Who is there, ``[users]``, in each round from 1 on."""

    def heard(self, setting: AccessContext, most: int | None = None) -> Iterator[NDArray[np.int64]]:
        """Those who are there, in random order."""
        return shuffled_users(self.present(self.chances(setting), setting.rounds, setting.streams), setting)

    def chances(self, setting: AccessContext) -> NDArray[np.float64]:
        """How likely each user is to be there, ``[users]``."""
        if not isinstance(self.probability, LabelCorrelated):
            return chances_of(self.probability, setting.users)
        if setting.label_mix is None:
            raise ModelError(kind_of(type(self)), "the users' label mix is wanted, and is not known")
        return correlated_rates(self.probability.label_correlated, setting.label_mix, setting.streams)

    @property
    def typical(self) -> float:
        """The probability of the first user, where all users have all labels alike."""
        if isinstance(self.probability, LabelCorrelated):
            return max(self.probability.label_correlated.minimum, self.probability.label_correlated.mean)
        return float(chances_of(self.probability, 1)[0])

    def rates(self, users: int, streams: Streams) -> NDArray[np.float64] | None:
        """How often each user is there, where it does not depend on labels; `first` keeps its order."""
        if isinstance(self.probability, LabelCorrelated):
            return None
        return self.shares(chances_of(self.probability, users))

    def heard_rates(
        self, users: int, streams: Streams, label_mix: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64] | None:
        """How often each user is there, where all who are there are heard; of users with such labels, if need be."""
        if not self.hears_all(users):
            return None
        if not isinstance(self.probability, LabelCorrelated) or label_mix is None:
            return self.rates(users, streams)
        return self.shares(correlated_rates(self.probability.label_correlated, label_mix, streams))

    def shares(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """In what share of the rounds users are there whose probabilities are *chances*: just so often."""
        return chances

    @property
    def listed(self) -> tuple[float, ...]:
        """The probabilities that are stated, of a formula those of the first users; empty where they follow labels."""
        if isinstance(self.probability, LabelCorrelated):
            return ()
        return tuple(chances_of(self.probability, 1 if isinstance(self.probability, float) else _FIRST).tolist())

    @property
    def always(self) -> bool:
        """Whether nobody is ever away, so that all rounds are alike."""
        return set(self.listed) == {1.0}

    @property
    def wants_label_mix(self) -> bool:
        """Whether the probabilities follow the users' labels."""
        return isinstance(self.probability, LabelCorrelated)

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """A list for another number of users, labels without data, more heard than there are."""
        if isinstance(self.probability, tuple) and len(self.probability) != facts.users:
            problem = f"{len(self.probability)} probabilities for {facts.users} users"
            yield Fault("probability", problem, remedy="give one for each user, or one number for all, or {zipf: 1.0}")
        if self.wants_label_mix and facts.classes is None:
            yield Fault("probability", "follows the users' labels, and there are no data", remedy="add data")
        yield from DirectAccess.faults(self, facts)


def shuffled_users(there: Iterable[NDArray[np.bool_]], setting: AccessContext) -> Iterator[NDArray[np.int64]]:
    """Those who are *there*, ``[users]`` for each round, in random order."""
    order = uniform_rows(setting.streams.field("order"), np.arange(setting.users), setting.rounds)
    for present, keys in zip(there, order, strict=True):
        users = np.flatnonzero(present)
        yield users[np.argsort(keys[users])]


# Times that are counted in seconds on the clock, or in rounds.


def parse_number(value: Any, info: ValidationInfo) -> Any:
    """*value*, unless it is a quantity such as ``2 h`` and the ``unit``, which was read before it, is rounds."""
    if isinstance(value, str) and info.data.get("unit") == "rounds":
        raise PydanticCustomError("unit", "a time, and the unit is rounds", {"remedy": "write a number of rounds"})
    return value


# Small worlds in which an access is asked for draws, to hold it to its laws.


def make_world(users: int, rounds: int, streams: Streams) -> AccessContext:
    """A world of *users* that nothing records, each with the same mix of ten labels."""
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
