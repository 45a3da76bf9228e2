"""Tuning before a run: the candidates of all learners are trained in passes, and the best of each learner is chosen.

A pass is a run of its own, in ``tuning/pass-1`` of the run directory and so on.  Its learners are the candidates, which
are lanes of one batch, its replicas have other seeds than those of the run, and all its metrics are on validation
examples.  The choice follows from the tables of the passes, so that a run that continues makes it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from netfl.errors import Fault, ModelError, ScenarioError
from netfl.learning.effective_steps import Learners, StepRule
from netfl.learning.spec import LearnerSpec
from netfl.learning.tuning import (
    Candidate,
    TuningChoice,
    TuningSpec,
    candidates_of,
    choose_candidates,
    last_quarter_means,
    name_candidates,
)
from netfl.remedies import call, function
from netfl.results.differing_keys import differing_keys
from netfl.results.digests import check_files, pass_folder
from netfl.results.run_reader import Run, open_run
from netfl.results.statistics import interval
from netfl.results.tables import MemoryTable
from netfl.scenario.scenario import Scenario, validate
from netfl.scenario.yaml_document import ScenarioDocument, parse
from netfl.types import SMALLER_STEP, Floats

RunPass = Callable[[Scenario, Path], Run]
"""Function that performs a pass in a folder, or continues it there, and returns its run."""


@dataclass(frozen=True)
class TunedRun:
    """A scenario as it runs, and how it came from the scenario that the user wrote.

    Args:
        scenario: the scenario that runs: its learners have the chosen settings.
        stated: the scenario as written, which the run directory keeps.
        facts: entry ``tuning`` of the manifest; empty without tuning.
        candidates: rows of the table ``candidates``; ``None`` without tuning.
        seconds: wall-clock time of the passes.
    """

    scenario: Scenario
    stated: Scenario
    facts: Mapping[str, Any] = field(default_factory=dict)
    candidates: pa.Table | None = None
    seconds: float = 0.0


def pass_scenario(scenario: Scenario, candidates: Sequence[Candidate]) -> Scenario:
    """Return the scenario of a pass: its learners are *candidates*, on validation replicas and validation examples."""
    assert scenario.tuning is not None
    names = name_candidates(candidates)
    learners = {
        name: candidate.apply(scenario.learners[candidate.learner])
        for name, candidate in zip(names, candidates, strict=True)
    }
    without: dict[str, Any] = {"metrics": (), "targets": (), "sets": {}, "levels": (), "choose": {}}
    changes = {
        "description": f"A pass of the tuning of {scenario.name}: its learners are candidates.",
        "learners": learners,
        "replicas": scenario.tuning.replicas,
        "replica_seed": validation_seed(scenario),
        "evaluate": scenario.evaluation.model_copy(update={"on": "validation", **without}),
        "record": "none",
        "track": (),
        "tuning": None,
        "sweep": None,
        "overrides": {},
    }
    of_pass = scenario.model_copy(update=changes)
    if scenario.tuning.keys:
        _check_pass(scenario, of_pass)
    return of_pass


def _check_pass(scenario: Scenario, of_pass: Scenario) -> None:
    """Refuse candidates that cannot run together, such as those of different local work in a network.

    Raises:
        ScenarioError: with the first error of *of_pass*, located at the further keys of *scenario*.
    """
    try:
        validate(ScenarioDocument(of_pass.plain()))
    except ScenarioError as error:
        fault = error.faults[0]
        problem = f"the candidates cannot run together: {fault.key}: {fault.problem}"
        for name in of_pass.learners:
            if fault.key.startswith(f"learners.{name}."):
                key = fault.key.removeprefix(f"learners.{name}.")
                problem = f"the candidate '{name}' cannot run: {key}: {fault.problem}"
        raise ScenarioError(scenario.located([Fault("tuning.keys", problem, None, fault.remedy)])) from None


def smallest_steps(scenario: Scenario) -> dict[str, LearnerSpec]:
    """Return the learners of a scenario with tuning, each with the smallest step size that a candidate may have."""
    assert scenario.tuning is not None
    rule = scenario.step_rule
    centres = scenario.tuning.centres(scenario.learners, rule)
    candidates = candidates_of(scenario.tuning, centres, scenario.tuning.lowest_exponents[:1])
    tuned = {each.learner: each.apply(scenario.learners[each.learner]) for each in reversed(candidates)}
    return rule.derive({**scenario.learners, **tuned})


def validation_seed(scenario: Scenario) -> int:
    """Return the seed of the validation replicas, which is a random function of that of the replicas of the run."""
    return int(scenario.streams_of(0).rng("tuning").integers(2**63))


def lowest_pass(scenario: Scenario) -> Scenario:
    """Return a pass of as many candidates as the first one of a scenario with tuning, with the smallest step sizes."""
    assert scenario.tuning is not None
    centres = scenario.tuning.centres(scenario.learners, scenario.step_rule)
    return pass_scenario(scenario, candidates_of(scenario.tuning, centres, scenario.tuning.lowest_exponents))


def tune_learners(scenario: Scenario, folder: Path, run_pass: RunPass) -> TunedRun | None:
    """Choose the settings of all learners of *scenario* by passes in *folder*; ``None`` if a pass was stopped.

    The grids are widened until the best ``lr`` of each learner lies inside, at most `MAX_WIDENINGS` times; each further
    pass trains the new candidates only.

    Raises:
        ModelError: all candidates of all learners diverged.
    """
    tuning = scenario.tuning
    assert tuning is not None
    rule = scenario.step_rule
    centres = tuning.centres(scenario.learners, rule)
    grid = tuning.first_grid
    values: dict[Candidate, Floats] = {}
    passes: dict[Candidate, int] = {}
    seconds = 0.0
    for number in count(1):
        trained = {candidate.exponent for candidate in values}
        exponents = [exponent for exponent in grid.exponents if exponent not in trained]
        candidates = candidates_of(tuning, centres, exponents)
        of_pass = pass_scenario(scenario, candidates)
        run = run_pass(of_pass, pass_folder(folder, number))
        if run.status != "done":
            return None
        _check_is_pass(run, of_pass)
        values |= read_criterion(run, tuning, candidates)
        passes |= dict.fromkeys(candidates, number)
        seconds += float(run.fact("timings")["total_s"])
        choice = choose_candidates(tuning, grid, number - 1, values)
        if choice.is_over:
            break
        grid = choice.next_grid(tuning)
    if len(choice.diverged) == len(choice.best):
        raise ModelError("tuning", f"{choice.sentence(tuning).removeprefix('not tuned: ')}; {SMALLER_STEP}")
    chosen = {name: candidate.apply(scenario.learners[name]) for name, candidate in choice.best.items()}
    learners = rule.derive({**scenario.learners, **chosen})
    return TunedRun(
        scenario=scenario.model_copy(update={"learners": learners, "tuning": None}),
        stated=scenario,
        facts=_facts(tuning, choice, number),
        candidates=_candidate_table(rule, scenario.learners, values, passes, choice),
        seconds=round(seconds, 3),
    )


def _check_is_pass(run: Run, of_pass: Scenario) -> None:
    """Refuse a finished pass of another scenario: that of the run was changed between its start and its resumption.

    When checkpoints are written may change.

    Raises:
        ScenarioError: with the first keys that differ.
    """
    differing = differing_keys([run.scenario, parse(of_pass.to_yaml(), "the scenario of a pass")])
    changed = [
        f"{key} is {of_file} there, and {of_run} here"
        for key, (of_file, of_run) in differing.items()
        if key.partition(".")[0] != "checkpoint"
    ]
    if not changed:
        return
    problem = f"the scenario of this run is not that of its pass in {run.folder}: {'; '.join(changed[:2])}"
    remedy = f"restore scenario.yaml, or start a new run with {function('run')}"
    raise ScenarioError([Fault("tuning", problem, None, remedy, str(run.folder.parents[1] / "scenario.yaml"))])


def finished_tuning(scenario: Scenario, folder: Path) -> TunedRun:
    """Return the tuning of the finished run in *folder* again, from the tables of its passes.

    Raises:
        ScenarioError: a pass is missing, not finished, or one of another scenario.
        MachineError: a file of a pass is not the one that the pass wrote.
    """

    def read_pass(_: Scenario, place: Path) -> Run:
        run = open_run(place)
        if run.status != "done":
            remedy = f"finish it: {call('resume', place)}"
            raise ScenarioError([Fault("", f"{place} is not finished ({run.status})", None, remedy)])
        check_files(run)
        return run

    tuned = tune_learners(scenario, folder, read_pass)
    assert tuned is not None
    return tuned


def read_criterion(run: Run, tuning: TuningSpec, candidates: Sequence[Candidate]) -> dict[Candidate, Floats]:
    """Return the criterion of each candidate of a finished pass, ``[replicas]``; NaN where training diverged."""
    names = name_candidates(candidates)
    diverged = {(entry["learner"], entry["replica"]) for entry in run.manifest.get("diverged", [])}
    metrics = run.metrics
    is_criterion = (metrics["metric"] == tuning.criterion.metric) & (metrics["group"] == "")
    rows = metrics[is_criterion].astype({"learner": str})
    by_replica = []
    for replica in range(tuning.replicas):
        of_replica = rows[rows["replica"] == replica]
        table = of_replica.pivot_table(index="round", columns="learner", values="value").reindex(columns=names)
        means = np.full(len(names), np.nan)
        if len(table):
            means = last_quarter_means(table.index.to_numpy(), table.to_numpy())
        has_diverged = np.array([(name, replica) in diverged for name in names])
        by_replica.append(np.where(has_diverged | ~np.isfinite(means), np.nan, means))
    return dict(zip(candidates, np.stack(by_replica, axis=1), strict=True))


def _facts(tuning: TuningSpec, choice: TuningChoice, passes: int) -> dict[str, Any]:
    """Return the entry ``tuning`` of the manifest."""
    return {
        "by": tuning.by,
        "state": choice.sentence(tuning),
        "is_tuned": choice.is_inside,
        "candidates": len(choice.grid.exponents) * len(tuning.settings),
        "replicas": tuning.replicas,
        "passes": passes,
        "chosen": {name: candidate.values for name, candidate in choice.best.items()},
    }


def _candidate_table(
    rule: StepRule,
    learners: Learners,
    values: Mapping[Candidate, Floats],
    passes: Mapping[Candidate, int],
    choice: TuningChoice,
) -> pa.Table:
    """Return the table ``candidates``: learner by learner, further settings by further settings, by rising ``lr``."""
    best = {*choice.best.values()}
    names = [*learners]
    # the first pass has all learners and settings in their order, which sorting keeps
    stated = {name: [each.settings for each in values if each.learner == name] for name in names}
    ordered = sorted(
        values,
        key=lambda each: (names.index(each.learner), stated[each.learner].index(each.settings), each.lr),
    )
    rows = []
    for candidate in ordered:
        step = rule.step(candidate.apply(learners[candidate.learner]))
        replicas = values[candidate]
        diverged = int(np.isnan(replicas).sum())
        mean = interval([] if diverged else replicas)
        rows.append(
            (
                candidate.learner,
                passes[candidate],
                candidate.lr,
                np.nan if step is None else step,
                ", ".join(f"{key}={value}" for key, value in candidate.settings),
                mean.mean,
                mean.half,
                len(replicas),
                diverged,
                int(candidate in best),
            )
        )
    table = MemoryTable("candidates")
    table.append([*zip(*rows, strict=True)])
    return table.read()
