"""The selection of an access: the field, its validation, its state in a run, and sampling without replacement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from netfl import streams
from netfl.access import Access, AccessInfo
from netfl.access.selection import RoundInfo, Selection, Selector, UserInfo
from netfl.access.selection._observation import ANSWERED, ObservationSource, Observer
from netfl.access.selection.all import All
from netfl.errors import Fault, ModelError, NetflError, ScenarioError, prefix_faults, suggest
from netfl.registry import FamilyMember, Spec, kind_of, no_effect
from netfl.types import (
    OBSERVATIONS,
    AccessContext,
    Floats,
    Ints,
    LearnerReport,
    ObservationAge,
    Observed,
    RoundControls,
    ScenarioFacts,
    Users,
)

_WITHOUT_NETWORK = frozenset({"check_in", "age", "loss", "norm", "samples"})
"""Values that every access has."""
_REMEDIES = {
    "battery_j": "add access.outages: [{kind: battery, …}], or leave it out",
    "energy_j": "add access.energy, or leave it out",
    "snr_db": "add access.radio and access.channel, or leave it out",
    "rate_bps": "add access.radio and access.channel, or leave it out",
    "speed": "add access.compute, or leave it out",
}
"""Remedies for values that an access does not have."""


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

    @property
    def observable(self) -> frozenset[str]:
        """Names of the values that a policy can observe in this access."""
        return _WITHOUT_NETWORK

    def observation_faults(self, ages: Mapping[str, ObservationAge]) -> Iterator[Fault]:
        return self._age_faults({**self.selection.ages, **ages}, "observe")

    def _age_faults(self, ages: Mapping[str, ObservationAge], key: str) -> Iterator[Fault]:
        """Yield the errors of values that this access does not have, or that come with an answer to no call."""
        for name, age in ages.items():
            if name not in OBSERVATIONS:
                yield Fault(f"{key}.{name}", "no such observation", name, suggest(name, [*OBSERVATIONS]))
            elif name not in self.observable:
                remedy = _REMEDIES.get(
                    name, f"use access.kind: network, or one of {', '.join(sorted(self.observable))}"
                )
                yield Fault(f"{key}.{name}", "this scenario has no such values", None, remedy)
            elif age == "check_in" and "check_in" not in ages:
                remedy = f"add 'check_in: {{}}' to {key}, or use another age"
                yield Fault(f"{key}.{name}", "comes with an answer, but nobody is called", age, remedy)

    def selection_faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield a closed loop without a learner or with an ambiguous one, and a learner without effect.

        Errors of values that the selection observes come first.
        """
        selection = self.selection
        used = {*selection.observes, *selection.can_observe}
        unused = [name for name in selection.observe.ages if name not in used]
        for fault in self._age_faults(selection.ages, "selection.observe"):
            if fault.key.rpartition(".")[2] not in unused:
                yield fault
        for name in unused:
            remedy = "leave it out"
            if used:
                remedy = f"leave it out, or observe {' or '.join(sorted(used))}"
            yield Fault(f"selection.observe.{name}", "has no effect: this selection does not use it", None, remedy)
        info = self.info
        if info.is_closed_loop and not (facts.trained or facts.learners):
            part = next(iter(self.closed_loop_parts))
            yield Fault(part, "depends on the learners, but there are none", None, "add data, a model and learners")
            return
        if selection.needs_sample_counts and facts.classes is None:
            yield Fault("selection", "depends on the users' amounts of data, but there are no data", remedy="add data")
        if not info.is_closed_loop:
            yield from no_effect(self, ["learner"], "because the access does not use the learners")
        elif self.learner is None and len(facts.learners) > 1:
            problem = "several learners are given, but none is named"
            yield Fault("learner", problem, remedy=f"name one of {', '.join(facts.learners)}; all share its trace")
        elif self.learner is not None and facts.learners and self.learner not in facts.learners:
            yield Fault("learner", "no such learner", self.learner, suggest(self.learner, [*facts.learners]))

    def warnings(self, context: AccessContext) -> Iterator[str]:
        yield from super().warnings(context)
        ages = self.selection.ages
        seen = [name for name, age in ages.items() if age == "present" and not OBSERVATIONS[name].is_known]
        remedies = []
        if "check_in" in seen:
            if self.info.is_networked and not self.selection.observe.airtime_s:
                remedies.append("give check_in an airtime")
            else:  # it costs airtime, or it is part of the length of a round
                seen.remove("check_in")
        if {*seen} - {"check_in"}:
            remedies.append("give the others the age check_in or last_delivery, where they can have it")
        if seen:
            yield (
                f"access.selection.observe: the server sees the present {' and '.join(seen)} of users without cost or "
                f"delay, as no real server can; {', and '.join(remedies)}"
            )


class _View:
    """Observed values of one reader: the selection, or a caller that declares values of its own.

    Args:
        ages: the age of each value, by name.
        airtime_s: time of an answer to the call of the server.
        users: number of users.
        source: the simulated users; ``None`` where none of their values is observed.
    """

    def __init__(
        self, ages: Mapping[str, ObservationAge], airtime_s: float, users: int, source: ObservationSource | None
    ) -> None:
        self.ages = ages
        self.observer = Observer(ages, airtime_s, users, source)
        self.called: Mapping[str, Any] = {}  # values of the round to choose for, once users are called
        self.asked: Mapping[str, Ints] = {}  # the users of each question to the learners
        self.answers = {name: np.full(users, np.nan) for name in ANSWERED if name in ages}
        self._all_users = np.arange(users)

    def call(self) -> float:
        """Call the users; return how long their answers take."""
        self.called, answer_s = self.observer.call()
        return answer_s

    def questions(self, delivered: Ints) -> dict[str, Ints]:
        """Return the questions to the learners that follow from the ages; *delivered* are those of the last round."""
        users_of = {"present": self._all_users, "last_delivery": delivered}
        return {name: users_of[self.ages[name]] for name in self.answers}

    def note_answers(self, answers: Mapping[str, Floats]) -> None:
        """Note the learners' answers to the questions of this reader, ``[users]`` each."""
        for name, known in self.answers.items():
            if self.ages[name] == "present":
                known[:] = np.nan
            if name in answers and name in self.asked:
                users = self.asked[name]
                known[users] = answers[name][users]


class SelectionState:
    """The selection of one replica during a run.  Keys of errors are relative to the access.

    A caller may observe other values than the selection, or at other ages.  What each of them sees does not depend on
    the other: the learners get the questions of both, and the server calls the users once.  Only the time of this call
    is common: that of the larger airtime of an answer.

    Args:
        selection: the selection of the access.
        population: the users.
        controls: settings of a caller, which may select in its place; ``None`` without a caller.
        source: the simulated users, which the selection observes; ``None`` where it observes none of their values.

    Attributes:
        selects_all: all users are selected in every round.
    """

    def __init__(
        self,
        selection: Selection,
        population: UserInfo,
        controls: RoundControls | None = None,
        source: ObservationSource | None = None,
    ) -> None:
        can_be_replaced = controls is not None and controls.can_select
        self.selects_all = selection.selects_all and not can_be_replaced
        self._controls = controls
        self._name = kind_of(type(selection))
        self._users = population.size
        self._sample_counts = population.sample_counts
        self._own = _View(selection.ages, selection.observe.airtime_s, population.size, source)
        self._of_caller = self._own
        self._declared: Mapping[str, ObservationAge] = {}  # by the caller
        if controls is not None:
            controls.observe = self.observe
            self._declared = controls.observed_ages
        if controls is not None and self._declared:
            ages = {**selection.ages, **self._declared}
            self._of_caller = _View(ages, controls.answer_airtime_s, population.size, source)
        self._views = [self._own]
        if self._of_caller is not self._own:
            self._views.append(self._of_caller)
        with self._errors_of(f"{type(selection).__name__}.open"):
            self._selector = selection.open(population)
        self._last_round = np.zeros(population.size, np.int64)
        self._asked: dict[str, Ints] = {}
        self._delivered = np.empty(0, np.int64)
        self._duration_s = np.full(population.size, np.nan)
        self._round = 1
        self._answer_s: float | None = None  # how long the answers before the next round take, once users are called
        self._moment = RoundInfo(population.size, {})

    def call(self) -> float:
        """Call the users before the next round; return how long their answers take."""
        if self._answer_s is None:
            self._answer_s = max(view.call() for view in self._views)
        return self._answer_s

    def observe(self, report: LearnerReport | None) -> Observed:
        """Return what a caller observes before the next round, which opens after *report*."""
        self._note_answers(report)
        return self._round_info(self._of_caller, self._round)

    def choose(self, round: int, report: LearnerReport | None) -> Ints:
        """Return the users selected for *round*, which opens after *report*."""
        self._note_answers(report)
        self._moment = self._round_info(self._own, round)
        self._answer_s = None
        self._round = round + 1
        with self._errors_of(self._method("choose"), round):
            selected = np.asarray(self._selector.choose(self._moment))
        if selected.size and not self._is_valid(selected):
            problem = f"chose {selected!r} in round {round}: not distinct users in ascending order, from 0 to "
            remedy = "return user numbers, as np.flatnonzero(mask) does"
            raise ModelError(self._name, f"{problem}{self._users - 1}; {remedy}")
        if self._controls is not None and self._controls.selected is not None:
            return self._controls.selected  # the selection draws all the same, for the rounds in which it counts
        return selected.astype(np.int64)

    def deadline_s(self) -> float | None:
        """Return the deadline of the round that was chosen for; ``None`` for that of the scenario.

        Raises:
            ModelError: it is not a positive time.
        """
        if self._controls is not None and self._controls.deadline_s is not None:
            return self._controls.deadline_s
        with self._errors_of(self._method("deadline_s"), self._moment.round):
            deadline_s = self._selector.deadline_s(self._moment)
        if deadline_s is None:
            return None
        is_number = isinstance(deadline_s, int | float | np.integer | np.floating)
        if not is_number or not 0 < deadline_s < np.inf:
            problem = f"gave round {self._moment.round} the deadline {deadline_s!r}, which is not a positive time"
            raise ModelError(self._name, f"{problem}; return seconds above 0, or None for that of the scenario")
        return float(deadline_s)

    def note_arrival(self, user: int, duration_s: float) -> None:
        """Note the values that come with a delivery of *user*, *duration_s* after the round of its base opened."""
        self._duration_s[user] = duration_s
        for view in self._views:
            view.observer.note_arrival(user)

    def age(self, round: int) -> Ints:
        """Return the rounds since each user was last delivered, as *round* opens; *round* if never."""
        return np.asarray(round - self._last_round)

    def record_deliveries(self, round: int, users: Sequence[int] | Ints) -> None:
        """Note that *users* were delivered in *round*."""
        self._delivered = np.unique(np.asarray(users, np.int64))
        self._last_round[self._delivered] = round

    def queries(self, round: int) -> dict[str, tuple[int, ...]]:
        """Return the questions to the learners before *round*, as in ``Round.queries``: those of all readers."""
        asked = self._own.questions(self._delivered)
        with self._errors_of(self._method("queries"), round):
            chosen = self._selector.queries(round, self._delivered) or {}
            asked |= {question: np.asarray(users, np.int64) for question, users in chosen.items()}
        self._own.asked = asked
        if self._of_caller is not self._own:
            by_age = self._of_caller.questions(self._delivered)
            declared = {question: users for question, users in by_age.items() if question in self._declared}
            self._of_caller.asked = asked | declared
            for question, users in declared.items():
                asked = {**asked, question: np.union1d(asked.get(question, self._delivered[:0]), users)}
        self._asked = {question: users for question, users in asked.items() if len(users)}
        return {question: tuple(users.tolist()) for question, users in self._asked.items()}

    def _note_answers(self, report: LearnerReport | None) -> None:
        """Note the learners' answers to the questions of the last round."""
        answers = {}
        for question, users in self._asked.items():
            of_asked = None if report is None else report.answer(question)
            if of_asked is not None:
                answers[question] = np.full(self._users, np.nan)
                answers[question][users] = of_asked
        for view in self._views:
            view.note_answers(answers)

    def _round_info(self, view: _View, round: int) -> RoundInfo:
        """Return what the reader with this *view* observes before *round*."""
        self.call()
        values = dict(view.called)
        if "age" in view.ages:
            values["age"] = self.age(round)
        if "duration_s" in view.ages:
            values["duration_s"] = self._duration_s.copy()
        if "samples" in view.ages and self._sample_counts is not None:
            values["samples"] = self._sample_counts.copy()
        for name, known in view.answers.items():
            values[name] = known.copy()
        return RoundInfo(self._users, values, round)

    def _method(self, name: str) -> str:
        """Return the full name of a method of the selector, for errors."""
        return f"{type(self._selector).__name__}.{name}"

    @contextmanager
    def _errors_of(self, method: str, round: int | None = None) -> Iterator[None]:
        """Put the key of the selection before errors of the scenario; raise others with the *method* that failed."""
        when = "" if round is None else f" for round {round}"
        try:
            with prefix_faults("selection"):
                yield
        except (NetflError, OSError):
            raise
        except Exception as error:
            problem = f"{method} failed{when}: {type(error).__name__}: {error}; correct this method"
            raise ModelError(self._name, problem) from error

    def _is_valid(self, selected: Ints) -> bool:
        """Return whether *selected* are distinct users in ascending order."""
        if selected.dtype.kind != "i" or selected.ndim != 1:
            return False
        is_ascending = (np.diff(selected) > 0).all()
        return bool(is_ascending and selected[0] >= 0 and selected[-1] < self._users)


class FixedSizeSelection(Selection):
    """A selection of m users."""

    can_observe: ClassVar[tuple[str, ...]] = ("check_in",)
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


def selected_rounds(
    selector: Selector, users: int, rounds: int, loss: Floats | None = None, **values: Floats
) -> Floats:
    """Simulate selections without any delivery, for tests of distributions: 1 or 0, ``[rounds, users]``."""
    if loss is None:
        loss = np.full(users, np.nan)
    is_selected = np.zeros((rounds, users))
    for index, row in enumerate(is_selected, start=1):
        moment = RoundInfo(users, {"age": np.full(users, index), "loss": loss, **values}, index)
        row[selector.choose(moment)] = 1.0
    return is_selected


def among_candidates(moment: RoundInfo, weights: Floats) -> Floats:
    """Return the *weights* of the users that may be selected, and 0 for the others."""
    is_candidate = np.zeros(moment.users, bool)
    is_candidate[moment.candidates] = True
    return np.where(is_candidate, weights, 0.0)
