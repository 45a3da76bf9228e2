"""Searches: Optuna chooses the values of the next trial from the results before.

Each trial is a point of the sweep, which the same tasks run as those of other sweeps.  Optuna's journal in the folder
of the sweep holds the trials, so a search continues after a stop.  Trials that were running are completed first.  The
sampler of each trial has a seed of its own, so its values depend only on the number of the trial and the results before
it: with one worker, a search that was stopped has the trials of one that was not.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, Literal

from netfl.core.remedies import argument
from netfl.errors import Fault, ScenarioError, suggest
from netfl.results.formatting import is_learned
from netfl.results.metrics import Metric, reported_metrics, with_reported
from netfl.results.reported import reported_entries
from netfl.results.run_reader import Run, open_run
from netfl.results.statistics import LAST_ROUND, LAST_TENTH, metric_of
from netfl.scenario.scenario import Scenario
from netfl.scenario.sweep_axes import Choice, Draw, Integer, LogUniform, SearchSpec, Uniform
from netfl.streams import Streams
from netfl.sweeps.index import FinishedCells, PointEntry, SearchEntry, SweepIndex, TrialEntry, point_entry
from netfl.sweeps.plan import NETWORK, NEUTRAL_KEYS, Cell, Point, Task, make_point, task_folder, tasks_of
from netfl.sweeps.task import TaskUpdate

JOURNAL = "optuna.journal"
"""File of the sweep's folder with the trials, as Optuna stores them."""
_PLAIN = (bool, int, float, str)


@dataclass
class _Trial:
    """A trial that has started, with its point and the tasks that it waits for."""

    number: int
    handle: Any
    """Trial of Optuna."""
    point: Point | None = None
    problem: str = ""
    """Reason why the values are not possible."""
    waiting: set[str] = field(default_factory=set)
    curve: dict[int, dict[str, float]] = field(default_factory=dict)
    """Watched values of each round by task."""
    reported: set[int] = field(default_factory=set)


class Search:
    """The trials of a scenario's search.

    Args:
        scenario: a scenario whose sweep is *spec*.
        spec: the search.
        index: index of the folder.
        learning: with learners, or the accesses alone.
        observe: receives the number of a trial when it starts, with its tasks, and when it ends.

    Attributes:
        reported: metrics that plug-ins of the scenario report.

    Raises:
        ScenarioError: Optuna is not installed, the metric does not belong to one learner or the network, or its
            plug-in states the other direction.
    """

    def __init__(
        self,
        scenario: Scenario,
        spec: SearchSpec,
        index: SweepIndex,
        observe: Callable[[int, Sequence[Task]], None],
        *,
        learning: bool,
    ) -> None:
        self._scenario = scenario
        self._spec = spec
        self._index = index
        self._learning = learning
        self._observe = observe
        self._optuna = import_optuna()
        self.reported = reported_metrics(reported_entries(scenario, learning=learning))
        check_direction(spec, self.reported)
        with with_reported(self.reported):
            self._learner = _learner_of(spec, [*scenario.learners] if learning else [])
        self._finished: FinishedCells = index.finished_cells()
        self._running: dict[str, Task] = {}
        self._trials: dict[int, _Trial] = {}
        self._values = {path: _Values(axis) for path, axis in spec.parameters.items()}
        self._study = self._open_study(index.folder)
        index.plan(scenario, [], spec.names)
        index.search = SearchEntry(
            metric=spec.metric,
            learner=self._learner,
            direction=spec.direction,
            trials=spec.trials,
            paths={name: path for path, name in spec.names.items()},
            entries=[],
        )
        stored_trials = [self._restore(stored) for stored in self._study.get_trials(deepcopy=False)]
        self._unfinished = [trial for trial in stored_trials if self.entries[trial.number].state == "running"]

    @property
    def entries(self) -> list[TrialEntry]:
        """Entries of the trials that were started, in their order."""
        assert self._index.search is not None
        return self._index.search.entries

    def tasks(self) -> Iterator[Task]:
        """Yield the tasks of all trials; each trial is chosen when its tasks are about to start."""
        yield from self._start(self._unfinished)
        while len(self.entries) < self._spec.trials:
            batch = min(self._spec.batch, self._spec.trials - len(self.entries))
            yield from self._start([self._ask() for _ in range(batch)])

    def on_update(self, update: TaskUpdate) -> bool:
        """Take the update of a task; return whether it must end early, as all its trials are pruned."""
        trials = [trial for trial in self._trials.values() if update.task in trial.waiting]
        if update.values:
            for trial in trials:
                self._watch(trial, update)
        if update.ended:
            task = self._running.pop(update.task, None)
            if task is not None and not (update.stopped or update.error):
                self._finished.add(task.key, task)
            for trial in trials:
                if update.error:
                    self._end(trial, "failed", error=update.error)
                elif not update.stopped:
                    trial.waiting.discard(update.task)
                    self._end_complete(trial)
        return bool(trials) and not any(trial.number in self._trials for trial in trials)

    def _open_study(self, folder: Path) -> Any:
        """Return Optuna's study for this search in *folder*: an existing one, if nothing but the number has changed."""
        optuna = self._optuna
        spec = self._spec

        # its name identifies all that the values of a trial depend on
        settings = self._scenario.plain()
        for key in NEUTRAL_KEYS:
            del settings[key]
        space = spec.model_dump(mode="json", include={"metric", "learner", "direction", "parameters"})
        content = json.dumps([settings, self._scenario.replicas, space, self._learning], sort_keys=True)
        digest = blake2b(content.encode(), digest_size=6).hexdigest()
        name = f"{self._scenario.name} {digest}"

        journal = optuna.storages.journal
        file = str(folder / JOURNAL)
        lock = journal.JournalFileOpenLock(file)
        storage = optuna.storages.JournalStorage(journal.JournalFileBackend(file, lock_obj=lock))
        pruners = {
            "none": optuna.pruners.NopPruner,
            "median": optuna.pruners.MedianPruner,
            "successive_halving": optuna.pruners.SuccessiveHalvingPruner,
        }
        with _quiet(optuna):
            return optuna.create_study(
                storage=storage,
                study_name=name,
                direction=spec.direction,
                load_if_exists=True,
                pruner=pruners[spec.pruner](),
            )

    def _sampler(self, number: int) -> Any:
        """Return the sampler of a trial, whose draws depend on nothing but its number."""
        samplers = self._optuna.samplers
        seed = int(Streams(self._spec.seed).at("search").rng(number).integers(2**31))
        if self._spec.sampler == "random":
            return samplers.RandomSampler(seed=seed)
        if self._spec.sampler == "gp":
            return samplers.GPSampler(seed=seed)
        return samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)

    def _ask(self) -> _Trial:
        """Return a new trial, with the values that the sampler chooses."""
        with _quiet(self._optuna):
            self._study.sampler = self._sampler(len(self.entries))
            distributions = {path: values.distribution(self._optuna) for path, values in self._values.items()}
            handle = self._study.ask(distributions)
        self.entries.append(TrialEntry())
        return self._place(_Trial(handle.number, handle), handle.params)

    def _restore(self, stored: Any) -> _Trial:
        """Return a trial of the journal."""
        state = {"COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed"}.get(stored.state.name, "running")
        tasks_and_error = stored.user_attrs
        self.entries.append(TrialEntry.model_validate({"state": state, "value": stored.value, **tasks_and_error}))
        handle = stored
        if state == "running":  # what is stored cannot be continued
            with _quiet(self._optuna):
                handle = self._optuna.trial.Trial(self._study, stored._trial_id)
        trial = _Trial(stored.number, handle, reported={*stored.intermediate_values})
        return self._place(trial, stored.params)

    def _place(self, trial: _Trial, stored: Mapping[str, Any]) -> _Trial:
        """Add the point of a trial, with the values that Optuna has *stored*, to the index."""
        values = {path: self._values[path].value(stored[path]) for path in self._values}
        try:
            trial.point = make_point(values, self._scenario.at(values), self._learning)
            entry = point_entry(trial.point, self._spec.names)
        except ScenarioError as error:  # the values do not fit together
            trial.problem = str(error)
            by_axis = {self._spec.names[path]: value for path, value in values.items()}
            entry = PointEntry(values=by_axis, trace="", lanes={}, levels=[], choices=[])
        self._index.points.append(entry)
        return trial

    def _start(self, trials: Sequence[_Trial]) -> Iterator[Task]:
        """Yield the tasks that *trials* need beside those that are done or running; end trials that need none."""
        self._trials |= {trial.number: trial for trial in trials}
        for trial in trials:
            if trial.problem:
                self._end(trial, "failed", error=trial.problem)

        # tasks for the cells that no other task has or will have
        running = FinishedCells()
        for key, task in self._running.items():
            running.add(key, task)

        def find_task(cell: Cell) -> str | None:
            return self._finished.find(cell) or running.find(cell)

        watched = ""
        if self._spec.pruner != "none":
            watched = metric_of(self._spec.metric)
        points = [trial.point for trial in trials if trial.point is not None]
        added = []
        for planned in tasks_of(points, find_task, self._spec.lanes):
            task = planned.model_copy(update={"watched": watched})
            added.append(task)
            self._running[task.key] = task
            running.add(task.key, task)
            self._index.tasks[task.key] = task

        # the tasks of each trial
        trials = [trial for trial in trials if trial.point is not None]
        for trial in trials:
            keys = {find_task(cell) for cell in self._cells(trial)}
            entry = self.entries[trial.number]
            entry.tasks = sorted(key for key in keys if key is not None)
            trial.waiting = {*entry.tasks} & self._running.keys()
            trial.handle.set_user_attr("tasks", entry.tasks)
            self._observe(trial.number, [task for task in added if task.key in trial.waiting])
        self._index.write_json()
        for trial in trials:
            self._end_complete(trial)
        yield from added

    def _cells(self, trial: _Trial) -> Iterator[Cell]:
        assert trial.point is not None
        for lane, replica in product(trial.point.lanes.values(), range(self._scenario.replicas)):
            yield lane, replica, trial.point.levels

    def _watch(self, trial: _Trial, update: TaskUpdate) -> None:
        """Report a watched value when all tasks with the learner have sent it, and end the trial if it is poor."""
        assert trial.point is not None
        lane = trial.point.lanes[self._learner]
        tasks = {key: self._running[key] for key in trial.waiting if lane in self._running[key].lanes}
        if update.task not in tasks or update.round in trial.reported:
            return
        name = tasks[update.task].lanes[lane]
        of_round = trial.curve.setdefault(update.round, {})
        of_round[update.task] = update.values[name]
        if of_round.keys() != tasks.keys():
            return

        # the mean over the replicas of all tasks
        replicas = {key: task.stop - task.first for key, task in tasks.items()}
        value = sum(of_round[key] * number for key, number in replicas.items()) / sum(replicas.values())
        trial.reported.add(update.round)
        if math.isnan(value):
            return
        trial.handle.report(value, update.round)
        if trial.handle.should_prune():
            self._end(trial, "pruned", value)

    def _end_complete(self, trial: _Trial) -> None:
        """End a trial whose tasks are all done, with its value."""
        if trial.waiting or trial.number not in self._trials:
            return
        values = [self._final_value(trial, replica) for replica in range(self._scenario.replicas)]
        value = sum(values) / len(values)
        if self._spec.pruner != "none":
            self._report_curve(trial)
        if math.isnan(value):
            self._end(trial, "failed", error=f"{self._spec.metric} is not a number: training diverged")
        else:
            self._end(trial, "done", value)

    def _end(
        self, trial: _Trial, state: Literal["done", "pruned", "failed"], value: float | None = None, error: str = ""
    ) -> None:
        del self._trials[trial.number]
        entry = self.entries[trial.number]
        entry.state = state
        entry.value = value
        entry.error = error
        if error:
            trial.handle.set_user_attr("error", error)
        states = self._optuna.trial.TrialState
        optuna_state = {"done": states.COMPLETE, "pruned": states.PRUNED, "failed": states.FAIL}[state]
        final_value = value if state == "done" else None  # that of a pruned trial was reported
        with _quiet(self._optuna):
            self._study.tell(trial.number, final_value, optuna_state)
        self._index.write_json()
        self._observe(trial.number, ())

    def _final_value(self, trial: _Trial, replica: int) -> float:
        """Return the metric of a complete trial in one replica."""
        run, name = self._run(trial, replica)
        table = run.final_metrics
        table = table[table["replica"] == replica]
        final_values = dict(zip(table["metric"].astype(str), table["value"].astype(float), strict=True))
        metric = self._spec.metric
        prefix = ""
        owner = "of the network"
        if self._learner:
            prefix = f"{name}."
            owner = f"of learner '{self._learner}'"
        for ending in ("", LAST_TENTH, LAST_ROUND):
            text = f"{prefix}{metric}{ending}"
            if text in final_values:
                return float(final_values[text])
        if metric in final_values:  # of the network, though it was looked for at a learner
            return float(final_values[metric])
        metrics = [metric_of(text.removeprefix(prefix)) for text in final_values if text.startswith(prefix)]
        raise ScenarioError([Fault("sweep.metric", f"no such metric {owner}", metric, suggest(metric, metrics))])

    def _report_curve(self, trial: _Trial) -> None:
        """Report the values of all evaluations that a complete trial did not send itself, for the pruner."""
        metric, _, group = metric_of(self._spec.metric).partition("/")
        values: dict[int, list[float]] = {}
        for replica in range(self._scenario.replicas):
            run, name = self._run(trial, replica)
            table = run.metrics
            is_of_lane = (table["replica"] == replica) & (table["learner"] == name)
            is_metric = (table["metric"] == metric) & (table["group"] == group)
            table = table[is_of_lane & is_metric]
            for index, value in zip(table["round"], table["value"], strict=True):
                values.setdefault(int(index), []).append(float(value))
        if not values:
            problem = f"has no effect: '{self._spec.metric}' is not evaluated during a run"
            raise ScenarioError([Fault("sweep.pruner", problem, self._spec.pruner, "leave it out")])
        for index, of_replicas in values.items():
            mean = sum(of_replicas) / len(of_replicas)
            if index and index not in trial.reported and not math.isnan(mean):
                trial.handle.report(mean, index)

    def _run(self, trial: _Trial, replica: int) -> tuple[Run, str]:
        """Return the run that has a replica of a complete trial, and the learner's name there."""
        assert trial.point is not None
        lane = trial.point.lanes[self._learner or next(iter(trial.point.lanes))]
        key = self._finished.find((lane, replica, trial.point.levels))
        assert key is not None
        return open_run(task_folder(self._index.folder, key)), self._index.tasks[key].lanes[lane]


class _Values:
    """The values of a parameter, and the distribution that Optuna knows; values that it cannot store are JSON there."""

    def __init__(self, axis: Draw) -> None:
        self._axis = axis
        self._choices: Mapping[Any, Any] = {}
        if isinstance(axis, Choice):
            is_plain = all(isinstance(value, _PLAIN) or value is None for value in axis.choice)
            if is_plain:
                self._choices = {value: value for value in axis.choice}
            else:
                self._choices = {json.dumps(value): value for value in axis.choice}

    def distribution(self, optuna: Any) -> Any:
        """Return Optuna's distribution."""
        axis = self._axis
        kinds = optuna.distributions
        if isinstance(axis, Uniform):
            return kinds.FloatDistribution(*axis.uniform)
        if isinstance(axis, LogUniform):
            return kinds.FloatDistribution(*axis.log_uniform, log=True)
        if isinstance(axis, Integer):
            return kinds.IntDistribution(*axis.integer)
        return kinds.CategoricalDistribution([*self._choices])

    def value(self, stored: Any) -> Any:
        """Return the value of the parameter that Optuna has *stored*."""
        if self._choices:
            return self._choices[stored]
        return stored


def import_optuna() -> Any:
    """Import Optuna, which is optional, or raise a `ScenarioError`."""
    try:
        return import_module("optuna")
    except ImportError:
        problem = "needs optuna, which is not installed"
        remedy = "pip install 'netfl-sim[optuna]'"
        raise ScenarioError([Fault("sweep.engine", problem, "optuna", remedy)]) from None


def check_direction(spec: SearchSpec, reported: Sequence[Metric]) -> None:
    """Refuse a direction that the plug-in that reports the metric contradicts.

    Raises:
        ScenarioError: the worst value would be the best.
    """
    name = metric_of(spec.metric)
    for metric in reported:
        if metric.name != name or metric.low_is_good is None:
            continue
        best = "minimize" if metric.low_is_good else "maximize"
        if spec.direction != best:
            problem = f"contradicts the plug-in that reports '{name}': low_is_good is {metric.low_is_good}"
            raise ScenarioError([Fault("sweep.direction", problem, spec.direction, f"write direction: {best}")])


def _learner_of(spec: SearchSpec, learners: list[str]) -> str:
    """Return the learner that has the metric, or may have it; empty for a metric of the network.

    Raises:
        ScenarioError: several learners have it, or none.
    """
    if spec.learner is not None and spec.learner in learners:
        return spec.learner
    if len(learners) == 1:
        return learners[0]
    name, _, _ = metric_of(spec.metric).partition("/")
    is_of_learner = spec.learner is not None or is_learned(name)
    if not is_of_learner:
        return NETWORK
    if not learners:
        problem = "is a metric of learners, and the sweep runs the network alone"
        remedy = f"leave out {argument('learning=False', '--trace')}"
        raise ScenarioError([Fault("sweep.metric", problem, spec.metric, remedy)])
    remedy = f"name one of {', '.join(learners)}"
    raise ScenarioError([Fault("sweep.learner", "missing; several learners have the metric", None, remedy)])


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Keep Optuna's messages and its warnings of experimental features off the terminal."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore", category=optuna.exceptions.ExperimentalWarning):
            yield
    finally:
        optuna.logging.set_verbosity(level)
