"""The selection of an access: the field, its validation, its state in a run, and sampling without replacement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl import streams
from netfl.access import Access, AccessInfo
from netfl.access.selection import RoundInfo, Selection, Selector, UserInfo
from netfl.access.selection.all import All
from netfl.errors import Fault, ModelError, ScenarioError, prefix_faults, suggest
from netfl.registry import FamilyMember, Spec, kind_of, no_effect
from netfl.types import Floats, Ints, LearnerReport, RoundControls, ScenarioFacts, Users


class WithSelection(Access):
    """An access in which the server selects the users of a round."""

    selection: Annotated[Selection, FamilyMember()] = All()
    """Users that the server allows to take part in each round; the access decides which of them are delivered."""
    learner: str | None = None
    """The learner whose answers count in a closed loop, if there are several."""

    @property
    def closed_loop_parts(self) -> Mapping[str, Spec]:
        if self.selection.needs_learner_metrics:
            return {"selection": self.selection}
        return {}

    @property
    def info(self) -> AccessInfo:
        return replace(
            super().info,
            needs_sample_counts=self.selection.needs_sample_counts,
            is_closed_loop=bool(self.closed_loop_parts),
            learner=self.learner,
            has_selection=True,
        )

    def selection_faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield a closed loop without a learner or with an ambiguous one, and a learner without effect."""
        info = self.info
        if info.needs_sample_counts and facts.classes is None:
            yield Fault("selection", "depends on the users' amounts of data, but there are no data", remedy="add data")
        if not info.is_closed_loop:
            yield from no_effect(self, ["learner"], "because the access does not use the learners")
        elif self.learner is None and len(facts.learners) > 1:
            problem = "several learners are given, but none is named"
            yield Fault("learner", problem, remedy=f"name one of {', '.join(facts.learners)}; all share its trace")
        elif self.learner is not None and self.learner not in facts.learners:
            yield Fault("learner", "no such learner", self.learner, suggest(self.learner, [*facts.learners]))
        elif not facts.learners:
            yield Fault("", "the access depends on the learners, but there are none", remedy="add learners")


class SelectionState:
    """The selection of one replica during a run.  Keys of errors are relative to the access.

    Args:
        selection: the selection of the access.
        population: the users.
        controls: settings of a caller, which may select in its place; ``None`` without a caller.

    Attributes:
        selects_all: all users are selected in every round.
    """

    def __init__(self, selection: Selection, population: UserInfo, controls: RoundControls | None = None) -> None:
        can_be_replaced = controls is not None and controls.can_select
        self.selects_all = isinstance(selection, All) and not can_be_replaced
        self._controls = controls
        self._name = kind_of(type(selection))
        self._users = population.size
        with prefix_faults("selection"):
            self._selector = selection.open(population)
        self._last_round = np.zeros(population.size, np.int64)
        self._asked = np.empty(0, np.int64)
        self._delivered = np.empty(0, np.int64)

    def choose(self, round: int, report: LearnerReport | None) -> Ints:
        """Return the users selected for *round*, which opens after *report*."""
        moment = RoundInfo(round, self.age(round), self._losses(report))
        selected = np.asarray(self._selector.choose(moment))
        if selected.size and not self._is_valid(selected):
            raise ModelError(self._name, f"chose {selected!r} in round {round}: not distinct users in ascending order")
        if self._controls is not None and self._controls.selected is not None:
            return self._controls.selected  # the selection draws all the same, for the rounds in which it counts
        return selected.astype(np.int64)

    def age(self, round: int) -> Ints:
        """Return the rounds since each user was last delivered, as *round* opens; *round* if never."""
        return np.asarray(round - self._last_round)

    def record_deliveries(self, round: int, users: Sequence[int] | Ints) -> None:
        """Note that *users* were delivered in *round*."""
        self._delivered = np.unique(np.asarray(users, np.int64))
        self._last_round[self._delivered] = round

    def queries(self, round: int) -> dict[str, tuple[int, ...]]:
        """Return the questions to the learners before *round*, as in ``Round.queries``."""
        questions = self._selector.queries(round, self._delivered)
        self._asked = np.asarray(questions.get("loss", ()), np.int64)
        return {question: tuple(map(int, users)) for question, users in questions.items() if len(users)}

    def _losses(self, report: LearnerReport | None) -> Floats:
        """Return the losses of the users that were asked, ``[users]``; NaN for the others."""
        losses = np.full(self._users, np.nan)
        if report is None:
            return losses
        answers = report.answer("loss")
        if answers is not None and self._asked.size:
            losses[self._asked] = answers
        return losses

    def _is_valid(self, selected: Ints) -> bool:
        """Return whether *selected* are distinct users in ascending order."""
        if selected.dtype.kind != "i" or selected.ndim != 1:
            return False
        is_ascending = (np.diff(selected) > 0).all()
        return bool(is_ascending and selected[0] >= 0 and selected[-1] < self._users)


class FixedSizeSelection(Selection):
    """A selection of m users."""

    m: Annotated[int, Field(ge=1)]
    """Number of users selected in a round."""

    def max_selected(self, users: int) -> int:
        return min(self.m, users)

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from facts.too_many_users("m", self.m)


def weighted_sample(clocks: streams.RandomField, weights: Floats, round: int) -> Users:
    """Order all users of positive weight as successive draws in proportion to weight would.

    Each user runs an exponential clock whose rate is its weight; the earliest clock is drawn first.
    """
    candidates = np.flatnonzero(weights > 0)
    times = clocks.exponential(candidates, round) / weights[candidates]  # Exp(w_k)
    return candidates[np.argsort(times, kind="stable")]


def sample_counts(population: UserInfo) -> Floats:
    """Return the training examples of each user."""
    if population.sample_counts is None:
        problem = "depends on the users' amounts of data, but there are no data"
        raise ScenarioError([Fault("", problem, None, "add data and partition")])
    return population.sample_counts


def selected_rounds(selector: Selector, users: int, rounds: int, loss: Floats | None = None) -> Floats:
    """Simulate selections without any delivery, for tests of distributions: 1 or 0, ``[rounds, users]``."""
    if loss is None:
        loss = np.full(users, np.nan)
    is_selected = np.zeros((rounds, users))
    for index, row in enumerate(is_selected, start=1):
        moment = RoundInfo(index, np.full(users, index), loss)
        row[selector.choose(moment)] = 1.0
    return is_selected
