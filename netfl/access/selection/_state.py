"""State of a selection during a run: what it has observed, what it asks, and whom it selects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from netfl.access.selection import RoundInfo, Selection, Selector, UserInfo
from netfl.access.selection._observation import ANSWERED, ObservationSource, Observer
from netfl.core.kinds import kind_of
from netfl.core.plugin_answers import PluginMethod
from netfl.core.plugins import one_line_of
from netfl.errors import Fault, ScenarioError, is_explained, prefix_faults
from netfl.types import (
    DECLARE,
    UNDECLARED,
    Floats,
    Ints,
    LearnerReport,
    NullRecorder,
    ObservationAge,
    Observed,
    Recorder,
    RoundControls,
    reported_problem,
)


class _ReaderView:
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
        self.values: Mapping[str, Any] = {}  # those of the users in the round to choose for, once they are called
        self.asked: Mapping[str, Ints] = {}  # the users of each question to the learners
        self.answers = {name: np.full(users, np.nan) for name in ANSWERED if name in ages}
        self._all_users = np.arange(users)

    def call(self) -> float:
        """Call the users; return how long their answers take."""
        self.values, answer_s = self.observer.call()
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
        recorder: receiver of the metrics that the selection reports.

    Attributes:
        selects_all: all users are selected in every round.
    """

    def __init__(
        self,
        selection: Selection,
        population: UserInfo,
        controls: RoundControls | None = None,
        source: ObservationSource | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        can_be_replaced = controls is not None and controls.can_select
        self.selects_all = selection.selects_all and not can_be_replaced
        self._selection = selection
        self._reports = selection.reports
        self._recorder = recorder or NullRecorder()
        self._controls = controls
        self._users = population.size
        self._sample_counts = population.sample_counts
        self._view = _ReaderView(selection.ages, selection.observe.airtime_s, population.size, source)
        self._caller_view = self._view
        self._views = [self._view]
        self._declared: Mapping[str, ObservationAge] = {}  # by the caller
        if controls is not None:
            controls.observe = self.observe
            self._declared = controls.observed_ages
        if controls is not None and self._declared:
            ages = {**selection.ages, **self._declared}
            self._caller_view = _ReaderView(ages, controls.answer_airtime_s, population.size, source)
            self._views.append(self._caller_view)
        with self._errors_of(selection, "open"):
            selector: object = selection.open(population)
        if not isinstance(selector, Selector):
            raise self._method("open").error(f"gives {type(selector).__name__}", "return a Selector")
        if not self._reports and type(selector).metrics is not Selector.metrics:
            raise ScenarioError([Fault("selection", UNDECLARED, kind_of(type(selection)), DECLARE)])
        self._selector = selector
        self._last_round = np.zeros(population.size, np.int64)
        self._asked: Mapping[str, Ints] = {}  # by all readers
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
        return self._round_info(self._caller_view, self._round)

    def choose(self, round: int, report: LearnerReport | None) -> Ints:
        """Return the users selected for *round*, which opens after *report*."""
        self._note_answers(report)
        self._moment = self._round_info(self._view, round)
        self._answer_s = None
        self._round = round + 1
        with self._errors_of(self._selector, "choose", round):
            selected = np.asarray(self._selector.choose(self._moment))
        if selected.size and not self._is_valid(selected):
            chosen = np.array2string(selected, separator=", ", threshold=10)
            problem = f"gives {chosen}, which are not distinct users in ascending order, from 0 to {self._users - 1}"
            raise self._method("choose", round).error(problem, "return user numbers, as np.flatnonzero(mask) does")
        if self._reports:
            self._report(round)
        if self._controls is not None and self._controls.selected is not None:
            return self._controls.selected  # the selection draws all the same, for the rounds in which it counts
        return selected.astype(np.int64)

    def _report(self, round: int) -> None:
        """Record the metrics that the selection reports with its choice for *round*.

        Raises:
            ScenarioError: they are not those that it declares, or not finite numbers.
        """
        with self._errors_of(self._selector, "metrics", round):
            values = self._selector.metrics()
        problem = reported_problem(self._reports, values, numbers=True)
        if problem is not None:
            raise self._method("metrics", round).error(*problem)
        self._recorder.round_metrics(round, values)

    def deadline_s(self) -> float | None:
        """Return the deadline of the round that was chosen for; ``None`` for that of the scenario.

        Raises:
            ScenarioError: it is not a positive time.
        """
        if self._controls is not None and self._controls.deadline_s is not None:
            return self._controls.deadline_s
        with self._errors_of(self._selector, "deadline_s", self._moment.round):
            deadline_s = self._selector.deadline_s(self._moment)
        if deadline_s is None:
            return None
        is_number = isinstance(deadline_s, int | float | np.integer | np.floating)
        if not is_number or not 0 < deadline_s < np.inf:
            problem = f"gives {deadline_s!r}, which is not a positive time"
            remedy = "return seconds above 0, or None for that of the scenario"
            raise self._method("deadline_s", self._moment.round).error(problem, remedy)
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
        asked = self._view.questions(self._delivered)
        with self._errors_of(self._selector, "queries", round):
            chosen = self._selector.queries(round, self._delivered) or {}
            asked |= {question: np.asarray(users, np.int64) for question, users in chosen.items()}
        self._view.asked = asked
        if self._caller_view is not self._view:
            asked = self._add_questions_of_caller(asked)
        self._asked = {question: users for question, users in asked.items() if len(users)}
        return {question: tuple(users.tolist()) for question, users in self._asked.items()}

    def _add_questions_of_caller(self, asked: Mapping[str, Ints]) -> dict[str, Ints]:
        """Return the questions that the selection has *asked* together with those of the caller."""
        by_age = self._caller_view.questions(self._delivered)
        declared = {question: users for question, users in by_age.items() if question in self._declared}
        self._caller_view.asked = {**asked, **declared}
        together = dict(self._caller_view.asked)
        for question in asked.keys() & declared.keys():
            together[question] = np.union1d(asked[question], declared[question])
        return together

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

    def _round_info(self, view: _ReaderView, round: int) -> RoundInfo:
        """Return what the reader with this *view* observes before *round*."""
        self.call()
        values = dict(view.values)
        if "age" in view.ages:
            values["age"] = self.age(round)
        if "duration_s" in view.ages:
            values["duration_s"] = self._duration_s.copy()
        if "samples" in view.ages and self._sample_counts is not None:
            values["samples"] = self._sample_counts.copy()
        for name, known in view.answers.items():
            values[name] = known.copy()
        return RoundInfo(self._users, values, round)

    @contextmanager
    def _errors_of(self, part: Selection | Selector, method: str, round: int | None = None) -> Iterator[None]:
        """Put the key of the selection before errors of the scenario; raise others with the *method* that failed."""
        try:
            with prefix_faults("selection"):
                yield
        except Exception as error:
            if is_explained(error) or isinstance(error, OSError):
                raise
            raise self._method(method, round).error(f"fails: {one_line_of(error, part)}") from error

    def _method(self, name: str, round: int | None = None) -> PluginMethod:
        """Return a method of the selection, or of its selector as it is called for *round*."""
        circumstance = "" if round is None else f" for round {round}"
        return PluginMethod(self._selection, name, "correct this method", "selection", circumstance)

    def _is_valid(self, selected: Ints) -> bool:
        """Return whether *selected* are distinct users in ascending order."""
        if selected.dtype.kind != "i" or selected.ndim != 1:
            return False
        is_ascending = (np.diff(selected) > 0).all()
        return bool(is_ascending and selected[0] >= 0 and selected[-1] < self._users)
