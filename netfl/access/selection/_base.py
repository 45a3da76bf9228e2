"""What accesses share in which the server selects who may try."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl import streams
from netfl.access import Access
from netfl.access.selection import RoundInfo, Selection, Selector, UserInfo, Users
from netfl.access.selection.all import All
from netfl.errors import Fault, ModelError, ScenarioError, prefix_faults, suggest
from netfl.registry import FamilyMember, kind_of
from netfl.types import LearnerReport, ScenarioFacts


class WithSelection(Access):
    """An access in which the server selects who may try."""

    selection: Annotated[Selection, FamilyMember()] = All()
    """Whom the server lets try in each round; who of them is heard, this access decides."""
    learner: str | None = None
    """The learner whose answers a closed loop goes by, where there are several."""

    def work(self, users: int, rounds: int, duration_s: float | None) -> float:
        """Of those who may try."""
        return float(self.selection.most(users)) * rounds

    @property
    def closed_loop(self) -> bool:
        """Where the selection asks."""
        return self.selection.asking

    @property
    def follows(self) -> str | None:
        """The learner that is named."""
        return self.learner

    @property
    def wants_held(self) -> bool:
        """Where the selection does."""
        return self.selection.wants_held


def selection_faults(access: WithSelection, facts: ScenarioFacts) -> Iterator[Fault]:
    """A closed loop without a learner, or with several of which none is named; a learner that nobody listens to."""
    if access.wants_held and facts.classes is None:
        yield Fault("selection", "goes by how much data users hold, and there are no data", remedy="add data")
    if not access.closed_loop:
        if access.learner is not None:
            yield Fault("learner", "has no effect: nothing asks the learners", access.learner, "leave it out")
    elif access.learner is None and len(facts.learners) > 1:
        problem = "which of the learners decides who is heard is not said"
        yield Fault("learner", problem, remedy=f"name one of {', '.join(facts.learners)}; all share its trace")
    elif access.learner is not None and access.learner not in facts.learners:
        yield Fault("learner", "no such learner", access.learner, suggest(access.learner, [*facts.learners]))
    elif not facts.learners:
        yield Fault("", "who is heard depends on what is learned, and there are no learners", remedy="add learners")


class SelectionState:
    """The selection of one replica, round after round.

    Args:
        selection: who may try.
        population: what is known of the users.

    Raises:
        ScenarioError: the selection cannot work for them; keys relative to the access.
    """

    def __init__(self, selection: Selection, population: UserInfo) -> None:
        self.everybody = isinstance(selection, All)
        self._name, self._users = kind_of(type(selection)), population.size
        with prefix_faults("selection"):
            self._selector = selection.open(population)
        self._last = np.zeros(population.size, np.int64)
        self._asked = self._heard = np.empty(0, np.int64)

    def choose(self, round: int, report: LearnerReport | None) -> NDArray[np.int64]:
        """Who may try in *round*, which opens after *report*.

        Raises:
            ModelError: the selection gave what are no distinct users in rising order.
        """
        loss = np.full(self._users, np.nan)
        told = None if report is None else report.answer("loss")
        if told is not None and self._asked.size:
            loss[self._asked] = told
        chosen = np.asarray(self._selector.choose(RoundInfo(round, self.age(round), loss)))
        whole = chosen.dtype.kind == "i" and chosen.ndim == 1 and (np.diff(chosen) > 0).all()
        if chosen.size and not (whole and chosen[0] >= 0 and chosen[-1] < self._users):
            raise ModelError(self._name, f"chose {chosen!r} in round {round}: no distinct users in rising order")
        return chosen.astype(np.int64)

    def age(self, round: int) -> NDArray[np.int64]:
        """How many rounds ago each user was last heard, as *round* opens; *round* if never."""
        return np.asarray(round - self._last)

    def heard(self, round: int, users: Sequence[int] | NDArray[np.int64]) -> None:
        """*users* were heard in *round*."""
        self._heard = np.unique(np.asarray(users, np.int64))
        self._last[self._heard] = round

    def asks(self, round: int) -> dict[str, tuple[int, ...]]:
        """What is to be asked of the learners before *round*, as a `Round` says it."""
        wanted = self._selector.asks(round, self._heard)
        self._asked = np.asarray(wanted.get("loss", ()), np.int64)
        return {question: tuple(map(int, users)) for question, users in wanted.items() if len(users)}


# How users are drawn without replacement, and what the selections share that let a given number of them try.


class FixedSizeSelection(Selection):
    """A selection of m users."""

    m: Annotated[int, Field(ge=1)]
    """How many may try in a round."""

    def most(self, users: int) -> int:
        """So many."""
        return min(self.m, users)

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """More than there are."""
        if self.m > facts.users:
            yield Fault("m", f"more than the {facts.users} users", self.m, "name at most the number of users")


def weighted_sample(clocks: streams.RandomField, weights: NDArray[np.float64], round: int) -> Users:
    """All users of positive weight, in the order in which they are drawn one after another, in proportion to weight.

    Each runs an exponential clock whose rate is its weight; whose clock ends first is drawn first.
    """
    able = np.flatnonzero(weights > 0)
    return able[np.argsort(clocks.exponential(able, round) / weights[able], kind="stable")]


def sample_counts(population: UserInfo) -> NDArray[np.float64]:
    """How many examples each user holds.

    Raises:
        ScenarioError: that is not known.
    """
    if population.held is None:
        problem = "goes by how much data users hold, and there are no data"
        raise ScenarioError([Fault("", problem, None, "add data and partition")])
    return population.held


def miss_probability(size: float, others: int, places: int) -> float:
    """The probability that a user of weight *size* is not among the first *places* drawn, all others being of weight 1.

    Each draw that has missed it so far leaves one of the others less: Π (n - i) / (n - i + size), i < places.
    """
    left = others - np.arange(min(places, others + 1))
    return float(np.prod(left / (left + size)))


def selected_rounds(
    selector: Selector, users: int, rounds: int, loss: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Who may try (1 or 0) where nobody is ever heard, ``[rounds, users]``: to hold a selection to its laws."""
    told = np.full(users, np.nan) if loss is None else loss
    rows = np.zeros((rounds, users))
    for index, row in enumerate(rows, start=1):
        row[selector.choose(RoundInfo(index, np.full(users, index), told))] = 1.0
    return rows
