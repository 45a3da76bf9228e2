"""An adversary on the way to the server that drops updates of some users."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.access import Access, AccessCost, AccessInfo
from netfl.access._direct import DirectAccess
from netfl.errors import Fault
from netfl.registry import FamilyMember, kind_of
from netfl.streams import Streams
from netfl.types import AccessContext, Law, LearnerReport, Round, ScenarioFacts


class Adversarial(Access):
    """Another direct access, of whose updates an adversary drops those of its target users.

    The access `of` decides which users take part and whose updates arrive, with its own `first`, `selection` and
    `round_length`.  Of these updates the adversary drops those of its targets, each with a `probability`, in the rounds
    from `begin` to `until`, every so many; at most `per_round` of them in a round, in the order of their arrival, and
    `budget` in all.  No other user is delivered instead.  The outcome is ``dropped``, with the detail ``censored``.

    An oblivious adversary targets the users that are ``listed``.  An adaptive adversary targets, in each round, the
    `size` users that have been delivered least often so far (``rarest``), or most often (``most_heard``); a fixed
    random order breaks ties.

    Example::

        kind: adversarial
        of: {kind: bernoulli, probability: 0.5}
        target: listed
        users: [0]
        probability: 0.8
    """

    of: Annotated[Access, FamilyMember()]
    """The access that the adversary acts on, a direct one; its keys are below its own ``kind``."""
    target: Literal["listed", "rarest", "most_heard"] = "listed"
    """Rule for the target users."""
    users: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] | None = None
    """The users that are ``listed``."""
    size: Annotated[int, Field(ge=1)] | None = None
    """Number of target users at a time, unless they are listed."""
    probability: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Probability that the adversary drops an update of a target."""
    per_round: Annotated[int, Field(ge=1)] | None = None
    """Largest number of updates dropped in one round; by default all of the targets'."""
    budget: Annotated[int, Field(ge=1)] | None = None
    """Largest number of updates dropped in all; by default without limit."""
    begin: Annotated[int, Field(ge=1)] = 1
    """The first round in which the adversary acts."""
    until: Annotated[int, Field(ge=1)] | None = None
    """The last such round; by default the last of all."""
    every: Annotated[int, Field(ge=1)] = 1
    """Distance between two rounds in which the adversary acts, counted from the first."""

    def rounds(self, context: AccessContext) -> Generator[Round, LearnerReport | None, None]:
        """Yield the rounds."""
        if not isinstance(self.of, DirectAccess):
            raise TypeError(f"{kind_of(type(self.of))} is not given directly")
        yield from self.of.play(context, _Censor(self, context.users, context.streams.at("adversary")))

    @property
    def info(self) -> AccessInfo:
        """Needs and abilities."""
        return replace(self.of.info, process=self._process)

    @property
    def _process(self) -> str | None:
        process = self.of.info.process
        if self.target != "listed" or process is None:
            return None
        if (self.budget, self.until, self.begin) != (None, None, 1):
            return "non-stationary"
        if self.per_round is not None:
            return None  # some targets come through because others do not
        return process if self.every == 1 else "cyclic" if process == "stationary" else None

    def max_deliveries(self, users: int, rounds: int) -> int:
        """Return the largest number of deliveries in a round."""
        return self.of.max_deliveries(users, rounds)

    def min_updates(self, users: int, rounds: int) -> int:
        """Return a lower bound on the number of updates."""
        return self.of.min_updates(users, rounds)

    def estimate_cost(self, users: int, rounds: int, duration_s: float | None, *, counted: bool) -> AccessCost:
        """Estimate the cost of the other access, whose rounds are never drawn in batches."""
        return self.of.estimate_cost(users, rounds, duration_s, counted=False)

    def rates(self, users: int, streams: Streams) -> NDArray[np.float64] | None:
        """Return the other access's rates, reduced for listed users; unknown with limits or adaptive targets."""
        rates = self.of.rates(users, streams)
        if rates is None or len(rates) != users or self.users is None or not self._is_steady:
            return None
        return self._reduced(rates)

    def participation_rates(
        self, users: int, streams: Streams, label_mix: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64] | None:
        """Return the other access's rates, reduced for listed users; unknown if two cycles interact."""
        rates = self.of.participation_rates(users, streams, label_mix)
        has_two_cycles = self.every > 1 and self.of.info.process == "cyclic"
        if rates is None or self.users is None or not self._is_steady or has_two_cycles:
            return None
        return self._reduced(rates)

    @property
    def _is_steady(self) -> bool:
        """The adversary acts in the same way from the first round to the last."""
        return (self.per_round, self.budget, self.until, self.begin) == (None, None, None, 1)

    def _reduced(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        dropped = np.where(np.isin(np.arange(len(rates)), self.users or ()), self.probability / self.every, 0.0)
        return np.asarray(rates * (1.0 - dropped))

    def acts(self, index: int) -> bool:
        """Return whether the adversary acts in round *index*."""
        within = self.begin <= index and (self.until is None or index <= self.until)
        return within and (index - self.begin) % self.every == 0

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield errors of the configuration."""
        if not isinstance(self.of, DirectAccess):
            problem = "not a direct access"
            yield Fault("of", problem, kind_of(type(self.of)), "take stationary, bernoulli, markov or the like")
        wanted, unused = ("users", "size") if self.target == "listed" else ("size", "users")
        if getattr(self, wanted) is None:
            yield Fault(wanted, f"missing; target: {self.target} needs it", None, "give it")
        if getattr(self, unused) is not None:
            yield Fault(unused, f"has no effect with target: {self.target}", getattr(self, unused), "leave it out")
        yield from facts.strangers("users", self.users or ())
        if len(set(self.users or ())) < len(self.users or ()):
            yield Fault("users", "a user is named twice", [*(self.users or ())], "name each once")
        targets = len(self.users or ()) or self.size or 0
        if targets > facts.users:
            yield Fault("size", f"more than the {facts.users} users", self.size, "name at most the number of users")
        if self.per_round is not None and 0 < targets <= self.per_round:
            problem = f"has no effect: the number of targets is {targets} at a time"
            yield Fault("per_round", problem, self.per_round, "make it less, or leave it out")
        if self.until is not None and self.until < self.begin:
            yield Fault("until", f"before it begins, in round {self.begin}", self.until, "make it later")
        if self.begin > facts.rounds:
            yield Fault("begin", f"never comes: there are {facts.rounds} rounds", self.begin, "make it earlier")

    def laws(self) -> tuple[Law, ...]:
        """Return the laws that a test checks."""
        q = self.probability

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            unlimited = Adversarial(of=self.of, users=(0,), probability=q)
            censor, target = _Censor(unlimited, 1, streams), np.array([0])
            return np.array([not censor(index, target)[0] for index in range(1, size + 1)], float)

        statement = "Bernoulli(probability), in the rounds in which it acts and as far as it can"
        return (Law("an update of a target held back", statement, draw, q, q * (1.0 - q)),)


class _Censor:
    """The adversary in one replica, called for each round in order."""

    def __init__(self, spec: Adversarial, users: int, streams: Streams) -> None:
        self._spec, self._field = spec, streams.field("success")
        self._delivered = np.zeros(users, np.int64)
        self._tie = streams.rng("tie").permutation(users)
        self._budget = np.inf if spec.budget is None else spec.budget

    def __call__(self, index: int, users: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of the *users*, in the order of arrival, come through in round *index*."""
        dropped = np.zeros(len(users), bool)
        if self._spec.acts(index) and self._budget > 0:
            is_target = np.zeros(len(self._delivered), bool)
            is_target[self._targets()] = True
            dropped = is_target[users]
            if self._spec.probability < 1.0:
                dropped &= self._field.uniform(users, index) < self._spec.probability
            limit = self._budget if self._spec.per_round is None else min(self._spec.per_round, self._budget)
            dropped &= np.cumsum(dropped) <= limit
            self._budget -= int(dropped.sum())
        self._delivered[users[~dropped]] += 1
        return ~dropped

    def _targets(self) -> NDArray[np.int64]:
        if self._spec.target == "listed":
            return np.array(self._spec.users, np.int64)
        count = self._delivered if self._spec.target == "rarest" else -self._delivered
        return np.lexsort((self._tie, count))[: self._spec.size]
