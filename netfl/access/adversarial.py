"""An adversary on the way to the server that drops updates of some users."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from netfl.access import Access, AccessInfo
from netfl.access._direct import DirectAccess
from netfl.core.family_members import FamilyMember
from netfl.core.kinds import kind_of
from netfl.core.spec import OnlyWith, Spec, no_effect
from netfl.errors import Fault
from netfl.streams import Streams
from netfl.types import AccessContext, Bools, Floats, Ints, Law, LearnerReport, ObservationAge, Round, ScenarioFacts
from netfl.units import PositiveProbability, UserNumbers


class Adversarial(Access):
    """Another direct access, of whose updates an adversary drops those of its target users.

    The access `inner` decides which users take part and whose updates arrive, with its own `deliveries`, `selection`
    and `round_length`.  Of these updates the adversary drops those of its targets, each with a `probability`, in the
    rounds from `first_round` to `last_round`, every so many; at most `per_round` of them in a round, in the order of
    their arrival, and `budget` in all.  No other user is delivered instead.  The outcome is ``dropped``, with the
    detail ``censored``.

    An oblivious adversary targets the users that are ``listed``.  An adaptive adversary targets, in each round, the
    `size` users that have been delivered least often so far (``rarest``), or most often (``most_delivered``); a fixed
    random order breaks ties.

    Example::

        kind: adversarial
        inner: {kind: bernoulli, probability: 0.5}
        target: listed
        users: [0]
        probability: 0.8
    """

    inner: Annotated[Access, FamilyMember()]
    """The access that the adversary acts on, a direct one; its keys are below its own ``kind``."""
    target: Literal["listed", "rarest", "most_delivered"] = "listed"
    """Rule for the target users."""
    users: Annotated[UserNumbers | None, OnlyWith("target", "listed", needed=True)] = None
    """The users that are ``listed``."""
    size: Annotated[Annotated[int, Field(ge=1)] | None, OnlyWith("target", "rarest", "most_delivered", needed=True)] = (
        None
    )
    """Number of target users at a time, unless they are listed."""
    probability: PositiveProbability = 1.0
    """Probability that the adversary drops an update of a target."""
    per_round: Annotated[int, Field(ge=1)] | None = None
    """Largest number of updates dropped in one round; by default all of the targets'."""
    budget: Annotated[int, Field(ge=1)] | None = None
    """Largest number of updates dropped in all; by default without limit."""
    first_round: Annotated[int, Field(ge=1)] = 1
    """The first round in which the adversary acts."""
    last_round: Annotated[int, Field(ge=1)] | None = None
    """The last such round; by default the last of all."""
    every: Annotated[int, Field(ge=1)] = 1
    """Distance between two rounds in which the adversary acts, counted from the first."""

    def rounds(self, context: AccessContext) -> Generator[Round, LearnerReport | None, None]:
        if not isinstance(self.inner, DirectAccess):
            raise TypeError(f"{kind_of(type(self.inner))} is not a direct access")
        return self.inner.rounds(context, _Censor(self, context.users, context.streams.at("adversary")))

    @property
    def closed_loop_parts(self) -> Mapping[str, Spec]:
        return {f"inner.{key}": part for key, part in self.inner.closed_loop_parts.items()}

    @property
    def parts_that_need_samples(self) -> Mapping[str, Spec]:
        return {f"inner.{key}": part for key, part in self.inner.parts_that_need_samples.items()}

    @property
    def parts_that_need_labels(self) -> Mapping[str, Spec]:
        return {f"inner.{key}": part for key, part in self.inner.parts_that_need_labels.items()}

    @property
    def info(self) -> AccessInfo:
        return replace(self.inner.info, process=self._process)

    @property
    def _process(self) -> str | None:
        """The process of the deliveries, see ``AccessInfo.process``."""
        process = self.inner.info.process
        if self.target != "listed" or process is None:
            return None
        if not self._acts_throughout:
            return "non-stationary"
        if self.per_round is not None:  # some targets come through because others do not
            return None
        if self.every == 1:
            return process
        if process == "stationary":  # the only cycle is that of the adversary
            return "cyclic"
        return None

    @property
    def _acts_throughout(self) -> bool:
        """The adversary acts from the first round to the last, without a budget."""
        return self.first_round == 1 and self.last_round is None and self.budget is None

    def warnings(self, context: AccessContext) -> Iterator[str]:
        for text in self.inner.warnings(context):
            yield text.replace("access.", "access.inner.", 1)

    def observation_faults(self, ages: Mapping[str, ObservationAge]) -> Iterator[Fault]:
        return self.inner.observation_faults(ages)

    def rounds_within(self, stop_s: float) -> int | None:
        return self.inner.rounds_within(stop_s)

    def max_deliveries(self, users: int, rounds: int) -> int:
        return self.inner.max_deliveries(users, rounds)

    def min_updates(self, users: int, rounds: int) -> int:
        return self.inner.min_updates(users, rounds)

    def rates(self, users: int, streams: Streams) -> Floats | None:
        return self._reduced(self.inner.rates(users, streams))

    def participation_rates(self, users: int, streams: Streams, label_mix: Floats | None = None) -> Floats | None:
        if self.every > 1 and "cycl" in (self.inner.info.process or ""):  # two cycles, whose phases matter
            return None
        return self._reduced(self.inner.participation_rates(users, streams, label_mix))

    def _reduced(self, rates: Floats | None) -> Floats | None:
        """Return *rates* without the dropped updates; unknown with limits or adaptive targets."""
        if rates is None or self.users is None:
            return None
        if self.per_round is not None or not self._acts_throughout:
            return None
        is_target = np.isin(np.arange(len(rates)), self.users)
        dropped_share = np.where(is_target, self.probability / self.every, 0.0)
        return np.asarray(rates * (1.0 - dropped_share))

    def acts(self, index: int) -> bool:
        """Return whether the adversary acts in round *index*."""
        if index < self.first_round:
            return False
        if self.last_round is not None and index > self.last_round:
            return False
        return (index - self.first_round) % self.every == 0

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if not isinstance(self.inner, DirectAccess):
            remedy = "use stationary, bernoulli, markov or another direct access"
            yield Fault("inner", "not a direct access", kind_of(type(self.inner)), remedy)
        listed = self.users or ()
        yield from facts.unknown_users("users", listed)
        if len(set(listed)) < len(listed):
            yield Fault("users", "a user is named twice", [*listed], "name each once")
        targets = len(listed) or self.size or 0
        yield from facts.too_many_users("size", self.size)
        if self.per_round is not None and 0 < targets <= self.per_round:
            reason = f"because the number of targets is {targets} at a time"
            yield from no_effect(self, ["per_round"], reason, "make it less, or leave it out")
        if self.last_round is not None and self.last_round < self.first_round:
            problem = f"before it begins, in round {self.first_round}"
            yield Fault("last_round", problem, self.last_round, "make it later")
        if self.first_round > facts.rounds:
            problem = f"is after the last round, {facts.rounds}"
            yield Fault("first_round", problem, self.first_round, "make it earlier")

    def laws(self) -> tuple[Law, ...]:
        q = self.probability

        def draw(streams: Streams, size: int) -> Floats:
            unlimited = Adversarial(inner=self.inner, users=(0,), probability=q)
            censor = _Censor(unlimited, 1, streams)
            target = np.array([0])
            return np.array([not censor(index, target)[0] for index in range(1, size + 1)], float)

        statement = "Bernoulli(probability), in the rounds in which it acts and within its limits"
        return (Law("an update of a target held back", statement, draw, q, q * (1.0 - q)),)


class _Censor:
    """The adversary in one replica, called for each round in order."""

    def __init__(self, spec: Adversarial, users: int, streams: Streams) -> None:
        self._spec = spec
        self._field = streams.field("success")
        self._delivered = np.zeros(users, np.int64)
        self._tie = streams.rng("tie").permutation(users)
        self._budget: float = np.inf
        if spec.budget is not None:
            self._budget = spec.budget

    def __call__(self, index: int, users: Ints) -> Bools:
        """Return which of the *users*, in the order of arrival, come through in round *index*."""
        dropped = np.zeros(len(users), bool)
        if self._spec.acts(index) and self._budget > 0:
            is_target = np.zeros(len(self._delivered), bool)
            is_target[self._targets()] = True
            dropped = is_target[users]
            if self._spec.probability < 1.0:
                dropped &= self._field.uniform(users, index) < self._spec.probability
            limit = self._budget
            if self._spec.per_round is not None:
                limit = min(self._spec.per_round, self._budget)
            dropped &= np.cumsum(dropped) <= limit  # the first to arrive
            self._budget -= int(dropped.sum())
        self._delivered[users[~dropped]] += 1
        return ~dropped

    def _targets(self) -> Ints:
        """Return the target users, given the deliveries so far."""
        if self._spec.target == "listed":
            return np.array(self._spec.users, np.int64)
        rank = self._delivered
        if self._spec.target == "most_delivered":
            rank = -self._delivered
        return np.lexsort((self._tie, rank))[: self._spec.size]
