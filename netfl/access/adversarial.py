"""An adversary on the way to the server, who holds back the updates of some users."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.access import Access
from netfl.access._direct import DirectAccess
from netfl.errors import Fault
from netfl.registry import FamilyMember, kind_of
from netfl.streams import Streams
from netfl.types import AccessContext, Law, LearnerReport, Round, ScenarioFacts


class Adversarial(Access):
    """Another direct access, of whose updates an adversary holds back those of the users that it is after.

    Who tries, and whose updates come through, the access `of` decides, with its own `first`, `selection` and
    `round_length`.  Of these updates the adversary drops those of its targets, each with a `probability`, in the rounds
    from `begin` to `until`, every so many; at most `per_round` of them in a round, in the order of their arrival, and
    `budget` in all.  Nobody else is heard in their place.  Their fate is ``dropped``, with the detail ``censored``.

    An oblivious adversary is after the users that are ``listed``.  An adaptive one is after the `size` users whom the
    server has heard least so far (``rarest``), or most (``most_heard``), anew in each round; between equals a fixed
    random order decides.

    Example::

        kind: adversarial
        of: {kind: bernoulli, probability: 0.5}
        target: listed
        users: [0]
        probability: 0.8
    """

    of: Annotated[Access, FamilyMember()]
    """The access that it interferes with, one that is given directly; its keys are below its own ``kind``."""
    target: Literal["listed", "rarest", "most_heard"] = "listed"
    """Whom it is after."""
    users: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] | None = None
    """The users that are ``listed``."""
    size: Annotated[int, Field(ge=1)] | None = None
    """How many users it is after at a time, if they are not listed."""
    probability: Annotated[float, Field(gt=0, le=1)] = 1.0
    """How likely it succeeds, update by update."""
    per_round: Annotated[int, Field(ge=1)] | None = None
    """How many updates it can hold back in one round; by default all of its targets'."""
    budget: Annotated[int, Field(ge=1)] | None = None
    """How many it can hold back in all; by default there is no end to it."""
    begin: Annotated[int, Field(ge=1)] = 1
    """The first round in which it acts."""
    until: Annotated[int, Field(ge=1)] | None = None
    """The last such round; by default the last of all."""
    every: Annotated[int, Field(ge=1)] = 1
    """It acts in every so-manyth round, counted from the first."""

    def rounds(self, setting: AccessContext) -> Generator[Round, LearnerReport | None, None]:
        """The other access's rounds, without what is held back."""
        yield from self._direct.played(setting, _Censor(self, setting.users, setting.streams.at("adversary")))

    def most(self, users: int, rounds: int) -> int:
        """As of the other access."""
        return self.of.most(users, rounds)

    def updates(self, users: int, rounds: int) -> int:
        """As of the other access."""
        return self.of.updates(users, rounds)

    def work(self, users: int, rounds: int, duration_s: float | None) -> float:
        """As of the other access."""
        return self.of.work(users, rounds, duration_s)

    def seconds(self, users: int, rounds: int, duration_s: float | None, *, counted: bool) -> float:
        """No round is only counted."""
        return self.of.seconds(users, rounds, duration_s, counted=False)

    def rates(self, users: int, streams: Streams) -> NDArray[np.float64] | None:
        """The other's rates, less what is held back of listed users; not known where limits or counts decide."""
        rates = self.of.rates(users, streams)
        if rates is None or len(rates) != users or self.users is None or not self._steady:
            return None
        return self._less(rates)

    def heard_rates(
        self, users: int, streams: Streams, label_mix: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64] | None:
        """As `rates`, of those at which the other's users are heard; not where two cycles meet."""
        rates = self.of.heard_rates(users, streams, label_mix)
        if rates is None or self.users is None or not self._steady or (self.every > 1 and self.of.process == "cyclic"):
            return None
        return self._less(rates)

    @property
    def process(self) -> str | None:
        """The other's, if the adversary always does the same; not known of one that goes by what was heard."""
        if self.target != "listed" or self.of.process is None:
            return None
        if (self.budget, self.until, self.begin) != (None, None, 1):
            return "non-stationary"
        if self.per_round is not None:
            return None  # of its targets some come through because others did not
        return self.of.process if self.every == 1 else "cyclic" if self.of.process == "stationary" else None

    @property
    def wants_label_mix(self) -> bool:
        """As of the other access."""
        return self.of.wants_label_mix

    @property
    def wants_samples(self) -> bool:
        """As of the other access."""
        return self.of.wants_samples

    @property
    def wants_held(self) -> bool:
        """As of the other access."""
        return self.of.wants_held

    @property
    def closed_loop(self) -> bool:
        """As of the other access."""
        return self.of.closed_loop

    @property
    def follows(self) -> str | None:
        """As of the other access."""
        return self.of.follows

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """An access that is not given directly; targets that are not said, or said twice over; keys without effect."""
        if not isinstance(self.of, DirectAccess):
            problem = "not an access that says itself, round by round, who is heard"
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
            problem = f"has no effect: it is after {targets} at a time"
            yield Fault("per_round", problem, self.per_round, "make it less, or leave it out")
        yield from self._window_faults(facts)

    def laws(self) -> tuple[Law, ...]:
        """How often an update of a target is held back."""
        q = self.probability

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            free = Adversarial(of=self.of, users=(0,), probability=q)
            censor, target = _Censor(free, 1, streams), np.array([0])
            return np.array([not censor(index, target)[0] for index in range(1, size + 1)], float)

        statement = "Bernoulli(probability), in the rounds in which it acts and as far as it can"
        return (Law("an update of a target held back", statement, draw, q, q * (1.0 - q)),)

    def acts(self, index: int) -> bool:
        """Whether it acts in a round."""
        within = self.begin <= index and (self.until is None or index <= self.until)
        return within and (index - self.begin) % self.every == 0

    @property
    def _direct(self) -> DirectAccess:
        """The other access."""
        if not isinstance(self.of, DirectAccess):
            raise TypeError(f"{kind_of(type(self.of))} is not given directly")
        return self.of

    @property
    def _steady(self) -> bool:
        """Whether it does the same all the time, or every time that it acts."""
        return (self.per_round, self.budget, self.until, self.begin) == (None, None, None, 1)

    def _less(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """*rates*, less what is held back of listed users."""
        held = np.where(np.isin(np.arange(len(rates)), self.users or ()), self.probability / self.every, 0.0)
        return np.asarray(rates * (1.0 - held))

    def _window_faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Rounds that never come."""
        if self.until is not None and self.until < self.begin:
            yield Fault("until", f"before it begins, in round {self.begin}", self.until, "make it later")
        if self.begin > facts.rounds:
            yield Fault("begin", f"never comes: there are {facts.rounds} rounds", self.begin, "make it earlier")


class _Censor:
    """The adversary at work in one replica; asked for each round in turn."""

    def __init__(self, spec: Adversarial, users: int, streams: Streams) -> None:
        self._spec, self._field = spec, streams.field("success")
        self._heard = np.zeros(users, np.int64)
        self._tie = streams.rng("tie").permutation(users)
        self._left = np.inf if spec.budget is None else spec.budget

    def __call__(self, index: int, users: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the *users*, in the order of arrival, come through in round *index*."""
        held = np.zeros(len(users), bool)
        if self._spec.acts(index) and self._left > 0:
            aimed_at = np.zeros(len(self._heard), bool)
            aimed_at[self._targets()] = True
            held = aimed_at[users]
            if self._spec.probability < 1.0:
                held &= self._field.uniform(users, index) < self._spec.probability
            most = self._left if self._spec.per_round is None else min(self._spec.per_round, self._left)
            held &= np.cumsum(held) <= most
            self._left -= int(held.sum())
        self._heard[users[~held]] += 1
        return ~held

    def _targets(self) -> NDArray[np.int64]:
        """Whom it is after now."""
        if self._spec.target == "listed":
            return np.array(self._spec.users, np.int64)
        count = self._heard if self._spec.target == "rarest" else -self._heard
        return np.lexsort((self._tie, count))[: self._spec.size]
