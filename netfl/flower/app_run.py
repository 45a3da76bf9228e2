"""Runs of Flower apps into run directories; `netfl.flower.grid` is the network below them."""

from __future__ import annotations

import gc
import logging
import math
import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from netfl.errors import Fault, ModelError, NetflError, ScenarioError
from netfl.flower.grid import Evaluation, GridObserver, NetworkGrid, Sizes, check_scenario
from netfl.flower.strategy_metrics import StrategyObserver, recorded_strategies
from netfl.flower.versions import check_flower
from netfl.results.atomic_write import write_text
from netfl.results.manifest import Manifest
from netfl.results.run_reader import Run, open_run
from netfl.results.run_writer import create_run_directory
from netfl.scenario.scenario import Scenario, ScenarioSource, as_scenario
from netfl.simulation.progress import python_display
from netfl.simulation.run import OutageTracker, RunRecord, next_run_folder, recording
from netfl.simulation.setup import RunSetup, prepare_run, warnings
from netfl.streams import Streams
from netfl.types import Divergence, Event, LearnerReport, Recorder, Round, RunObserver, RunProgress, RunStart

if TYPE_CHECKING:
    pass

LOG_FILE = "flower.log"
"""File of a run directory that holds what Flower and the apps log."""

_LANE = "ServerApp"
"""Name of the learner if the ServerApp has no strategy."""


def run(
    scenario: ScenarioSource,
    server_app: ServerApp,
    client_app: ClientApp,
    out: str | Path | None = None,
    *,
    run_config: Mapping[str, bool | float | int | str] | None = None,
    sizes: Sizes = "arrays",
    evaluation: Evaluation = "direct",
    max_update_bits: float | None = None,
    name: str = "",
    observer: RunObserver | None = None,
    progress: bool = True,
) -> Run:
    """Run a ServerApp and a ClientApp over the network of *scenario*, into a run directory.

    The directory is that of any run: reports, comparisons and diagnoses work on it.  The learner of its metrics is the
    strategy.  Metrics that ``evaluate_fn`` computes have their names; those of the ClientApps have the prefix
    ``clients_``, and those of training ``train_``.  The ServerApp decides on the number of rounds, up to that of the
    scenario.  The app draws reproducibly from Python's and NumPy's global generators, whose state is restored at the
    end; other generators, such as torch's, are those of the app.

    Args:
        scenario: a scenario, or any other input of `netfl.load`; its learners do not run, and only the first replica is
            simulated.
        server_app: the ServerApp.
        client_app: the ClientApp of all users.
        out: the run directory; by default the next free one below ``runs``.
        run_config: ``context.run_config`` of the apps.
        sizes: as in `netfl.flower.NetworkGrid`.
        evaluation: as in `netfl.flower.NetworkGrid`.
        max_update_bits: as in `netfl.flower.NetworkGrid`.
        name: name of the app, for the manifest.
        observer: an observer of the run, which may stop it.
        progress: show the progress on a terminal or in a notebook; an observer replaces it.

    Raises:
        ScenarioError: the scenario or the folder cannot be used, or it has fewer rounds than the ServerApp needs.
        ModelError: the ServerApp, or a model of the network, failed; the run directory holds the rounds before.
        MachineError: the machine failed.
    """
    version = check_flower()
    scenario = _flower_scenario(as_scenario(scenario))
    facts = {
        "app": name or "MODULE",
        "flwr": version,
        "sizes": sizes,
        "evaluation": evaluation,
        **({"run_config": dict(run_config)} if run_config else {}),
    }
    with (
        create_run_directory(next_run_folder(scenario, out)) as folder,
        python_display(observer, progress=progress) as display,
        _logged(folder / LOG_FILE),
        _seeded(Streams(scenario.seed).at("flower")),
        _frozen_heap(),
        ExitStack() as resources,
    ):
        setup = prepare_run(scenario, replicas=range(1), pulse=display.on_progress)
        events = _LateRecorder()
        driver = _Driver(setup, folder, display, facts, resources, events)
        grid = driver.grid = resources.enter_context(
            NetworkGrid(
                scenario,
                client_app,
                run_config=run_config,
                sizes=sizes,
                evaluation=evaluation,
                max_update_bits=max_update_bits,
                setup=setup.with_recorders([events]),
                observer=driver,
            )
        )
        with recorded_strategies(driver):
            try:
                server_app(grid, grid.server_context())
            except ScenarioError as error:
                if not grid.round:
                    raise
                raise ModelError("Flower", str(error), time_s=grid.time_s) from None  # the rounds so far are kept
            except (_StoppedError, NetflError, OSError, KeyboardInterrupt):
                if not driver.is_stopped:
                    raise
            except BaseException as error:
                logging.getLogger("flwr").exception("The ServerApp raised an exception")
                problem = f"{type(error).__name__}: {error}"
                raise ModelError(f"ServerApp {name}".strip(), problem, time_s=grid.time_s) from error
        driver.end()
    return open_run(folder)


class _StoppedError(BaseException):
    """An observer stops the run; an app does not catch it by accident."""


class _LateRecorder:
    """Recorder that passes events on to that of the run, which opens with the first round."""

    def __init__(self) -> None:
        self.inner: Recorder | None = None

    def wants(self, kind: str) -> bool:
        """Return whether events of *kind* are recorded."""
        return self.inner is not None and self.inner.wants(kind)

    def record(self, event: Event) -> None:
        """Pass on one event or many."""
        if self.inner is not None:
            self.inner.record(event)

    def final_metrics(self, values: Mapping[str, float]) -> None:
        """Pass on metrics of the replica."""
        if self.inner is not None:
            self.inner.final_metrics(values)

    def add_rows(self, table: str, columns: Mapping[str, np.ndarray]) -> None:
        """Pass on rows of a table."""
        if self.inner is not None:
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
        display: RunObserver,
        facts: Mapping[str, object],
        resources: ExitStack,
        events: _LateRecorder,
    ) -> None:
        self._setup, self._folder, self._display, self._facts = setup, folder, display, facts
        self._resources, self._events = resources, events
        self._record: RunRecord | None = None
        self._manifest: Manifest | None = None
        self._outages: OutageTracker | None = None
        self._name = self._prefix = ""
        self._values: dict[str, float] = {}
        self._latest: dict[str, np.ndarray] = {}
        self._diverged: list[Divergence] = []
        self._planned = setup.scenario.steps
        self.is_stopped = False

    def on_strategy(self, name: str, rounds: int) -> None:
        available = self._setup.scenario.steps - self.grid.round
        if rounds > available:
            problem = f"{name} needs {rounds} rounds, and the scenario has {available} left"
            remedy = f"add --set rounds={self.grid.round + rounds}, or let the strategy do fewer"
            raise ScenarioError([Fault("rounds", problem, self._setup.scenario.steps, remedy)])
        exchanges = 2 if self._facts["evaluation"] == "network" else 1
        self._planned = self.grid.round + min(available, exchanges * rounds)
        if self._record is None:
            self._open(name)
        self._prefix = "" if name == self._name else f"{name}."

    def on_values(self, values: Mapping[str, float]) -> None:
        self._values |= {f"{self._prefix}{name}": value for name, value in values.items()}

    def before_round(self) -> None:
        if self._record is None:
            self._open(_LANE)
        self._report_values()
        assert self._record is not None
        if any(observer.stop for observer in self._record.observers):
            self.is_stopped = True
            raise _StoppedError

    def after_round(self, round: Round) -> None:
        assert self._record is not None
        assert self._outages is not None
        progress = RunProgress(
            round=round.index,
            rounds=max(self._planned, round.index),
            time_s=round.closed_s,
            delivered=tuple(delivery.user for delivery in round.deliveries),
            down=self._outages.down,
            metrics=self._latest,
            lanes=[(self._name, 0)],
            results=[round],
            diverged=self._diverged,
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
        self._report_values()
        if self.is_stopped:
            self.grid.close()
            self._record.end("interrupted")
            return
        self.grid.finish()
        if 0 < self.grid.round < self._setup.scenario.steps:
            scenario = self._setup.scenario.model_copy(update={"rounds": self.grid.round})
            write_text(self._folder / "scenario.yaml", scenario.to_yaml())
            self._record.writer.scenario = scenario
            self._manifest.add_facts(rounds=self.grid.round)
        if self.grid.app_errors:
            failures = [self.grid.app_errors[0], len(self.grid.app_errors), self.grid.app_calls]
            self._manifest.add_facts(app_errors=failures)
        self._record.end("done")

    def _open(self, name: str) -> None:
        """Open the record of the run, with the learner *name*."""
        scenario, self._name = self._setup.scenario, name
        facts = {"flower": dict(self._facts), "learners": [name]}
        self._manifest = Manifest(self._folder, scenario, learning=True, warnings=[*warnings(scenario)], facts=facts)
        start = RunStart(self._folder, scenario.name, self._planned, lanes=[(name, 0)])
        self._record = self._resources.enter_context(
            recording(self._setup, self._manifest, start, [], [self._display], "netfl flower run")
        )
        self._resources.callback(self._report_values)  # before the record ends, also after an error
        self._outages = OutageTracker(self._record.writer.recorders[0])
        self._events.inner = self._outages

    def _report_values(self) -> None:
        """Pass the metrics since the last round on to the observers."""
        if self._values and self._record is not None:
            report = LearnerReport(self.grid.round, {name: np.array([value]) for name, value in self._values.items()})
            broken = [name for name in self._values if name.endswith("loss") and not math.isfinite(self._values[name])]
            if broken and not self._diverged:
                problem = f"the {broken[0]} after round {self.grid.round} is not finite; a smaller step size may help"
                self._diverged.append(Divergence(self._name, 0, self.grid.round, None, problem))
            self._values = {}
            self._latest = {**self._latest, **report.metrics}
            for observer in self._record.observers:
                observer.on_metrics(report, [self.grid.time_s])


def _flower_scenario(scenario: Scenario) -> Scenario:
    """Return *scenario* as a Flower app runs it: one replica, and no evaluation of netfl's learners."""
    check_scenario(scenario)
    changes: dict[str, object] = {"replicas": 1}
    if scenario.evaluate is not None:
        unused: dict[str, object] = {"choose": {}, "targets": (), "metrics": (), "levels": (), "validation": None}
        changes["evaluate"] = scenario.evaluate.model_copy(update=unused)
    return scenario.model_copy(update=changes)


@contextmanager
def _logged(path: Path) -> Iterator[None]:
    """Write what Flower logs to *path* in place of the terminal."""
    logger = logging.getLogger("flwr")
    handlers, propagates = logger.handlers[:], logger.propagate
    file = logging.FileHandler(path, encoding="utf-8", delay=True)
    file.setLevel(logging.INFO)
    file.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    logger.handlers[:], logger.propagate = [file], False
    try:
        yield
    finally:
        logger.handlers[:], logger.propagate = handlers, propagates
        file.close()


@contextmanager
def _frozen_heap() -> Iterator[None]:
    """Exempt existing objects from garbage collection: Flower collects in each round, which else takes 0.3 s."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _seeded(streams: Streams) -> Iterator[None]:
    """Seed the global generators of Python and NumPy, with which strategies sample, and restore them at the end."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    words = streams.rng("strategy").integers(0, 2**32, 2).tolist()
    random.seed(words[0])
    np.random.seed(words[1])  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
