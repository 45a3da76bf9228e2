"""Runs of Flower apps into run directories; `netfl.flower.grid` is the network below them."""

from __future__ import annotations

import gc
import logging
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from netfl.core.remedies import changed
from netfl.errors import Fault, ModelError, NetflError, ScenarioError
from netfl.flower.client_calls import seeded
from netfl.flower.grid import CALL_LIMIT_S, Evaluation, GridObserver, NetworkGrid, Replies, Sizes, check_scenario
from netfl.flower.strategy_metrics import StrategyObserver, recorded_strategies
from netfl.flower.versions import check_flower
from netfl.results.atomic_write import write_text
from netfl.results.locking import locked
from netfl.results.manifest import Manifest, add_to_manifest
from netfl.results.run_reader import EXTENSION, Run, open_run
from netfl.results.run_writer import create_run_directory
from netfl.scenario.scenario import Scenario, ScenarioSource, as_scenario
from netfl.simulation.extend import merge_replicas
from netfl.simulation.progress import python_display
from netfl.simulation.run import OutageTracker, RunRecord, next_run_folder, recording
from netfl.simulation.setup import RunSetup, give_warnings, prepare_run
from netfl.types import (
    Divergence,
    Event,
    LearnerReport,
    NullRecorder,
    Recorder,
    Round,
    RunObserver,
    RunProgress,
    RunStart,
)

LOG_FILE = "flower.log"
"""File of a run directory that holds what Flower and the apps log."""

_LANE = "ServerApp"
"""Name of the learner if the ServerApp has no strategy."""

_COMMAND = "netfl flower run"


def run(
    scenario: ScenarioSource,
    server_app: ServerApp,
    client_app: ClientApp,
    out: str | Path | None = None,
    *,
    run_config: Mapping[str, bool | float | int | str] | None = None,
    sizes: Sizes = "messages",
    replies: Replies = "delivered",
    evaluation: Evaluation = "direct",
    max_update_bits: float | None = None,
    call_limit_s: float = CALL_LIMIT_S,
    name: str = "",
    observer: RunObserver | None = None,
    progress: bool = True,
) -> Run:
    """Run a ServerApp and a ClientApp over the network of *scenario*, into a run directory.

    The directory is that of any run: reports, comparisons and diagnoses work on it.  The learner of its metrics is the
    strategy.  Metrics that ``evaluate_fn`` computes have their names; those of the ClientApps have the prefix
    ``clients_``, and those of training ``train_``.  The ServerApp decides on the number of rounds, up to that of the
    scenario.  Replicas of the scenario run one after the other, each with a new call of the ServerApp.  The app draws
    reproducibly from the global generators of Python, NumPy and torch: they are seeded for each replica by the seed of
    the scenario, and restored at the end.

    Each of the `Run.warnings` is given once as a `netfl.NetflWarning`.  The manifest states what the app did that the
    network did not carry, or that led to no result: ``app_notes``.

    Args:
        scenario: a scenario, or any other input of `netfl.load`; its learners do not run.
        server_app: the ServerApp.
        client_app: the ClientApp of all users.
        out: the run directory; by default the next free one below ``runs``.
        run_config: ``context.run_config`` of the apps.
        sizes: as in `netfl.flower.NetworkGrid`.
        replies: as in `netfl.flower.NetworkGrid`.
        evaluation: as in `netfl.flower.NetworkGrid`.
        max_update_bits: as in `netfl.flower.NetworkGrid`.
        call_limit_s: as in `netfl.flower.NetworkGrid`.
        name: name of the app, for the manifest.
        observer: an observer of the run, which may stop it; the run then has the replicas that were finished.
        progress: show the progress on a terminal or in a notebook; an observer replaces it.

    Raises:
        ScenarioError: the scenario or the folder cannot be used, or it has fewer rounds than the ServerApp needs.
        ModelError: the ServerApp, or a model of the network, failed; the run directory holds the rounds before, and
            after an error of a later replica the replicas before.
        MachineError: the machine failed.
    """
    version = check_flower()
    scenario = _flower_scenario(as_scenario(scenario))
    if not 0 < call_limit_s < math.inf:
        raise ScenarioError([Fault("call_limit", "not a time above 0", call_limit_s, "give seconds, such as 3600")])
    options: dict[str, object] = {
        "run_config": run_config,
        "sizes": sizes,
        "replies": replies,
        "evaluation": evaluation,
        "max_update_bits": max_update_bits,
        "call_limit_s": call_limit_s,
    }
    facts: dict[str, object] = {
        "app": name or "MODULE",
        "flwr": version,
        "sizes": sizes,
        "replies": replies,
        "evaluation": evaluation,
    }
    if run_config:
        facts["run_config"] = dict(run_config)
    app = _App(server_app, client_app, name, options, facts, give_warnings(scenario))
    with (
        create_run_directory(next_run_folder(scenario, out)) as folder,
        python_display(observer, progress=progress) as display,
        _logged(folder / LOG_FILE),
        _frozen_heap(),
    ):
        _run_replica(scenario, 0, app, folder, display)
        for replica in range(1, scenario.replicas):
            if open_run(folder).status != "done":  # it was stopped
                break
            if not _add_replica(scenario, replica, app, folder, display):
                break
    return open_run(folder)


@dataclass(frozen=True)
class _App:
    """A ServerApp and a ClientApp, and how they run.

    Args:
        server: the ServerApp.
        client: the ClientApp.
        name: the name that the user gave.
        options: arguments of the grid.
        facts: facts for the manifest.
        warnings: warnings about the scenario.
    """

    server: ServerApp
    client: ClientApp
    name: str
    options: Mapping[str, Any]
    facts: Mapping[str, object]
    warnings: Sequence[str]


def _run_replica(scenario: Scenario, replica: int, app: _App, folder: Path, display: RunObserver) -> None:
    """Run one replica of *scenario* into *folder*."""
    alone = scenario.model_copy(update={"replicas": replica + 1})
    with seeded(alone.streams_of(replica).at("flower"), "strategy"), ExitStack() as resources:
        setup = prepare_run(alone, replicas=range(replica, replica + 1), pulse=display.on_progress)
        events = _LateRecorder()
        title = scenario.name
        if scenario.replicas > 1:
            title = f"{scenario.name}, replica {replica + 1} of {scenario.replicas}"
        driver = _Driver(setup, folder, title, display, app, resources, events)
        grid = NetworkGrid(alone, app.client, setup=setup.with_recorders([events]), observer=driver, **app.options)
        driver.grid = resources.enter_context(grid)
        with recorded_strategies(driver):
            _run_server(app, driver)
        driver.end()


def _run_server(app: _App, driver: _Driver) -> None:
    """Run the ServerApp on the grid of *driver*, until it ends, or an observer or the duration ends it.

    Raises:
        ScenarioError: an error before the first round.
        ModelError: an error later; the rounds so far are kept.
    """
    grid = driver.grid
    try:
        try:
            app.server(grid, grid.server_context())
        finally:
            driver.restore_folder()
        grid.finish()
    except ScenarioError as error:
        if not grid.round:
            raise
        raise ModelError("Flower", str(error), time_s=grid.time_s) from None
    except _TimeOverError:
        pass  # the app ends with the duration of the scenario
    except KeyboardInterrupt as error:
        if not driver.is_stopped:
            error.add_note("the rounds so far are kept, but the run of a Flower app cannot be continued")
            raise
    except (_StoppedError, NetflError, OSError):
        if not driver.is_stopped:
            raise
    except BaseException as error:
        logging.getLogger("flwr").exception("The ServerApp raised an exception")
        problem = f"{type(error).__name__}: {error}"
        model = f"ServerApp {app.name}".strip()
        raise ModelError(model, problem, time_s=grid.time_s) from error


def _add_replica(scenario: Scenario, replica: int, app: _App, folder: Path, display: RunObserver) -> bool:
    """Run a further replica, and append it to the run in *folder*; return whether it is done.

    A replica that is stopped, or fails, leaves the run as it was.
    """
    part = folder / EXTENSION
    part.mkdir()
    try:
        with locked(part):
            _run_replica(scenario, replica, app, part, display)
        added = open_run(part)
        is_done = added.status == "done"
        if is_done:
            _merge_replica(scenario, replica, folder, added)
        else:
            _note_end(folder, scenario, replica, "was stopped")
    except (ScenarioError, ModelError) as error:
        _note_end(folder, scenario, replica, f"failed: {error}")
        raise ModelError(f"replica {replica}", str(error)) from error.__cause__
    except KeyboardInterrupt:
        _note_end(folder, scenario, replica, "was stopped")
        raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return is_done


def _merge_replica(scenario: Scenario, replica: int, folder: Path, added: Run) -> None:
    """Append the run *added*, of one *replica*, to the run in *folder*."""
    before = open_run(folder)
    rounds = max(before.fact("rounds_done"), added.fact("rounds_done"))
    extended = scenario.model_copy(update={"replicas": replica + 1})
    facts = {"rounds_done": rounds, **_joined_facts(before, added, replica)}
    if scenario.stop_s is None:  # which leaves the number of rounds open
        extended = extended.model_copy(update={"rounds": rounds})
        facts["rounds"] = rounds
    merge_replicas(before, extended, replica, _COMMAND, facts)


def _note_end(folder: Path, scenario: Scenario, replica: int, reason: str) -> None:
    """Note that a run has fewer replicas than its scenario, as *replica* did not end."""
    notes = open_run(folder).manifest.get("app_notes", [])
    note = f"the run has {replica} of {scenario.replicas} replicas: replica {replica} {reason}"
    add_to_manifest(folder, app_notes=[*notes, note])


def _joined_facts(before: Run, added: Run, replica: int) -> dict[str, object]:
    """Return the errors and notes of an app in a run, with those of a further replica."""
    manifests = [before.manifest, added.manifest]
    calls = sum(manifest["app_calls"] for manifest in manifests)
    facts: dict[str, object] = {"app_calls": calls}
    errors = [manifest["app_errors"] for manifest in manifests if "app_errors" in manifest]
    if errors:
        first_error, _, _ = errors[0]
        facts["app_errors"] = [first_error, sum(count for _, count, _ in errors), calls]
    notes = [*before.manifest.get("app_notes", ())]
    notes += [f"{note} (replica {replica})" for note in added.manifest.get("app_notes", ())]
    if notes:
        facts["app_notes"] = notes
    return facts


class _StoppedError(BaseException):
    """An observer stops the run; an app does not catch it by accident."""


class _TimeOverError(BaseException):
    """The duration of the scenario is over; an app does not catch it by accident."""


class _LateRecorder:
    """Recorder that passes events on to that of the run, which opens with the first round."""

    def __init__(self) -> None:
        self.inner: Recorder = NullRecorder()

    def wants(self, kind: str) -> bool:
        """Return whether events of *kind* are recorded."""
        return self.inner.wants(kind)

    def record(self, event: Event) -> None:
        """Pass on one event or many."""
        self.inner.record(event)

    def final_metrics(self, values: Mapping[str, float]) -> None:
        """Pass on metrics of the replica."""
        self.inner.final_metrics(values)

    def round_metrics(self, round: int, values: Mapping[str, float]) -> None:
        """Pass on what a selection or an allocation reports."""
        self.inner.round_metrics(round, values)

    def add_rows(self, table: str, columns: Mapping[str, np.ndarray]) -> None:
        """Pass on rows of a table."""
        self.inner.add_rows(table, columns)


class _Driver(GridObserver, StrategyObserver):
    """Connection of a grid and of the strategies with the record of the run.

    The record opens when the first strategy starts, or with the first round, as the name of the strategy is that of
    the learner.
    """

    grid: NetworkGrid

    def __init__(
        self,
        setup: RunSetup,
        folder: Path,
        title: str,
        display: RunObserver,
        app: _App,
        resources: ExitStack,
        events: _LateRecorder,
    ) -> None:
        self._setup = setup
        self._folder = folder
        self._title = title
        self._display = display
        self._facts = app.facts
        self._warnings = app.warnings
        self._resources = resources
        self._events = events
        self._record: RunRecord | None = None
        self._manifest: Manifest | None = None
        self._outages: OutageTracker | None = None
        self._name = ""  # of the learner
        self._prefix = ""  # of the metrics of a further strategy
        self._lanes: list[tuple[str, int]] = []
        self._values: dict[str, float] = {}
        self._latest: dict[str, np.ndarray] = {}
        self._diverged: list[Divergence] = []
        self._planned = setup.scenario.planned_rounds
        self.is_stopped = False
        self._is_time_over = False

    def restore_folder(self) -> None:
        """Go back to the working directory, to which the paths of a run are relative, if the ServerApp left it."""
        self.grid.clients.folder.restore("the ServerApp")

    def on_strategy(self, name: str, rounds: int | None) -> None:
        self.restore_folder()
        if rounds is not None:
            self._plan(name, rounds)
        if self._record is None:
            self._open(name)
        self._prefix = "" if name == self._name else f"{name}."

    def on_values(self, values: Mapping[str, float]) -> None:
        self._values |= {f"{self._prefix}{name}": value for name, value in values.items()}
        if values:
            self.grid.activity.rounds_with_metrics.add(self.grid.round)

    def on_training(self) -> None:
        self.grid.activity.trainings += 1

    def on_aggregation(self, *, is_aggregated: bool) -> None:
        self.grid.activity.add_aggregation(is_aggregated=is_aggregated)

    def on_call(self) -> None:
        self.restore_folder()
        observers = [self._display] if self._record is None else self._record.observers
        if any(observer.stop for observer in observers):
            self.is_stopped = True
            raise _StoppedError

    def on_time_over(self) -> None:
        self._is_time_over = True
        raise _TimeOverError

    def before_round(self) -> None:
        if self._record is None:
            self._open(_LANE)
        self._report_values()
        self.on_call()  # the observers of these values may stop the run

    def after_round(self, round: Round) -> None:
        assert self._record is not None
        assert self._outages is not None
        progress = RunProgress(
            round=round.index,
            rounds=None if self._planned is None else max(self._planned, round.index),
            time_s=round.closed_s,
            delivered=tuple(delivery.user for delivery in round.all_deliveries()),
            down=self._outages.down,
            metrics=self._latest,
            lanes=self._lanes,
            results=[round],
            diverged=self._diverged,
            stop_s=self._setup.scenario.stop_s,
        )
        for observer in self._record.observers:
            observer.on_round(progress)
        if round.index == 2:  # a ClientApp has run, and loaded its modules
            gc.freeze()

    def end(self) -> None:
        """End the record of a run whose ServerApp ended, or was stopped."""
        if self._record is None:
            self._open(_LANE)
        assert self._record is not None
        assert self._manifest is not None
        self.grid.close()
        self._report_values()
        self._add_app_facts()
        if self.is_stopped:
            self._record.end("interrupted")
            return
        ends_early = 0 < self.grid.round < self._setup.scenario.steps
        if ends_early and not self._is_time_over:  # the app needed fewer rounds: the run is one of these
            scenario = self._setup.scenario.model_copy(update={"rounds": self.grid.round})
            write_text(self._folder / "scenario.yaml", scenario.to_yaml())
            self._record.writer.scenario = scenario
            self._manifest.add_facts(rounds=self.grid.round)
        self._record.end("done")

    def _plan(self, name: str, rounds: int) -> None:
        """Check that the scenario has the rounds that a strategy needs, and plan for them."""
        scenario = self._setup.scenario
        if scenario.rounds is not None:  # a duration alone sets no number: it ends the run whenever it is over
            available = scenario.rounds - self.grid.round
            if rounds > available:
                problem = f"{name} needs {rounds} rounds, and the scenario has {available} left"
                remedy = f"add {changed('rounds', self.grid.round + rounds)}, or let the strategy do fewer"
                raise ScenarioError([Fault("rounds", problem, scenario.rounds, remedy)])
        exchanges = 2 if self._facts["evaluation"] == "network" else 1
        self._planned = min(scenario.steps, self.grid.round + exchanges * rounds)

    def _open(self, name: str) -> None:
        """Open the record of the run, with the learner *name*."""
        scenario = self._setup.scenario
        replica = self._setup.replicas.start
        self._name = name
        self._lanes = [(name, replica)]
        self._manifest = Manifest(
            self._folder,
            scenario,
            learning=True,
            first=replica,
            warnings=self._warnings,
            facts={"flower": dict(self._facts), "learners": [name]},
        )
        start = RunStart(self._folder, self._title, self._planned, stop_s=scenario.stop_s, lanes=self._lanes)
        self._record = self._resources.enter_context(
            recording(self._setup, self._manifest, start, [], [self._display], _COMMAND)
        )
        self._resources.callback(self._add_app_facts)  # before the record ends, also after an error
        self._resources.callback(self._report_values)
        self._outages = OutageTracker(self._record.writer.recorders[0])
        self._events.inner = self._outages

    def _add_app_facts(self) -> None:
        """Add the errors of the ClientApp, and the notes on what the app did, to the manifest."""
        assert self._manifest is not None
        clients = self.grid.clients
        facts: dict[str, object] = {"app_calls": clients.calls}
        if clients.errors:
            facts["app_errors"] = [clients.errors[0], len(clients.errors), clients.calls]
        notes = [*self.grid.activity.notes(), *clients.folder.changes]
        if notes:
            facts["app_notes"] = notes
        self._manifest.add_facts(**facts)

    def _report_values(self) -> None:
        """Pass the metrics since the last round on to the observers."""
        if not self._values or self._record is None:
            return
        values = self._values
        self._values = {}
        number = self.grid.round
        broken = [name for name, value in values.items() if name.endswith("loss") and not math.isfinite(value)]
        if broken and not self._diverged:
            problem = f"the {broken[0]} after round {number} is not finite; a smaller step size may help"
            learner, replica = self._lanes[0]
            self._diverged.append(Divergence(learner, replica, number, None, problem))
        report = LearnerReport(number, {name: np.array([value]) for name, value in values.items()})
        self._latest = {**self._latest, **report.metrics}
        for observer in self._record.observers:
            observer.on_metrics(report, [self.grid.time_s])


def _flower_scenario(scenario: Scenario) -> Scenario:
    """Return *scenario* as a Flower app runs it: without an evaluation and a tuning of netfl's learners."""
    check_scenario(scenario)
    scenario = scenario.model_copy(update={"tuning": None})
    if scenario.evaluate is None:
        return scenario
    unused: dict[str, object] = {"choose": {}, "targets": (), "metrics": (), "levels": (), "validation": None}
    return scenario.model_copy(update={"evaluate": scenario.evaluate.model_copy(update=unused)})


@contextmanager
def _logged(path: Path) -> Iterator[None]:
    """Write what Flower logs to *path* in place of the terminal."""
    logger = logging.getLogger("flwr")
    handlers_before = logger.handlers[:]
    propagated_before = logger.propagate
    file = logging.FileHandler(path, encoding="utf-8", delay=True)
    file.setLevel(logging.INFO)
    file.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    logger.handlers[:] = [file]
    logger.propagate = False
    try:
        yield
    finally:
        logger.handlers[:] = handlers_before
        logger.propagate = propagated_before
        file.close()


@contextmanager
def _frozen_heap() -> Iterator[None]:
    """Exempt existing objects from garbage collection: Flower collects in each round, which else takes 0.3 s."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
