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
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from netfl.core.remedies import call, function
from netfl.errors import Fault, ModelError, ScenarioError
from netfl.learning.candidates import LR, MAX_KEYS, Candidate, LogRange, Search, name_candidates, value_at
from netfl.learning.effective_steps import Learners, StepRule
from netfl.learning.spec import LearnerSpec
from netfl.learning.tuning import (
    CRITERIA,
    MAX_WIDENINGS,
    Score,
    TuningChoice,
    TuningSpec,
    beats_constant,
    choose_candidate,
    in_last_quarter,
    last_quarter_means,
    tuning_state,
)
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


def pass_scenario(scenario: Scenario, candidates: Sequence[Candidate], replica: int = 0) -> Scenario:
    """Return the scenario of a pass: its learners are *candidates*, on validation replicas and validation examples.

    Args:
        scenario: the scenario with tuning.
        candidates: the candidates.
        replica: the replica of the run that is tuned, if each is tuned by itself.
    """
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
        "replica_seed": validation_seed(scenario, replica),
        "evaluate": scenario.evaluation.model_copy(update={"on": "validation", **without}),
        "record": "none",
        "track": (),
        "tuning": None,
        "sweep": None,
        "overrides": {},
    }
    of_pass = scenario.model_copy(update=changes)
    if scenario.tuning.keys or scenario.tuning.learners:
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
        key = "tuning.keys" if scenario.tuning is not None and scenario.tuning.keys else "tuning.learners"
        raise ScenarioError(scenario.located([Fault(key, problem, None, fault.remedy)])) from None


def smallest_steps(scenario: Scenario) -> dict[str, LearnerSpec]:
    """Return the learners of a scenario with tuning, each with the smallest step size that a candidate may have."""
    smallest: dict[str, Candidate] = {}
    for candidate in _lowest_candidates(scenario):
        known = smallest.get(candidate.learner)
        if known is None or candidate.lr < known.lr:
            smallest[candidate.learner] = candidate
    tuned = {name: each.apply(scenario.learners[name]) for name, each in smallest.items()}
    return scenario.step_rule.derive({**scenario.learners, **tuned})


def validation_seed(scenario: Scenario, replica: int = 0) -> int:
    """Return the seed of the validation replicas, which is a random function of that of a replica of the run."""
    return int(scenario.streams_of(replica).rng("tuning").integers(2**63))


def lowest_pass(scenario: Scenario) -> Scenario:
    """Return a pass of as many candidates as the first one of a scenario with tuning, with the smallest step sizes."""
    return pass_scenario(scenario, _lowest_candidates(scenario))


def _lowest_candidates(scenario: Scenario) -> list[Candidate]:
    """Return the candidates of a first pass whose range of ``lr`` is that of the last pass below."""
    tuning = scenario.tuning
    assert tuning is not None
    searches = _next_searches(scenario, tuning.searches(scenario.learners), {}, replica=0)
    lowered = MAX_WIDENINGS * tuning.trials
    return tuning.candidates(searches, scenario.learners, scenario.step_rule, lowered=lowered)


def _next_searches(
    scenario: Scenario, searches: Mapping[str, Search], wider: Mapping[str, Mapping[str, LogRange]], replica: int
) -> dict[str, Search]:
    """Return *searches* with the places of a further pass; those of one learner may be *wider*.

    All learners have the same shift of their sequences, so that equal rules have equal candidates.
    """
    assert scenario.tuning is not None
    shift = scenario.streams_of(replica).rng("candidates").random(MAX_KEYS + 1)
    trials = scenario.tuning.trials
    return {name: each.next_pass(trials, wider.get(name, {}), shift) for name, each in searches.items()}


def tune_learners(scenario: Scenario, folder: Path, run_pass: RunPass, replica: int | None = None) -> TunedRun | None:
    """Choose the settings of all learners of *scenario* by passes in *folder*; ``None`` if a pass was stopped.

    While the best candidate of any learner is at an edge, further passes follow, at most `MAX_WIDENINGS`; each of them
    trains as many new candidates of every learner as the first.

    Args:
        scenario: the scenario with tuning.
        folder: the run directory.
        run_pass: performs a pass.
        replica: the replica that is tuned by itself; ``None`` for one choice for all.

    Raises:
        ModelError: all candidates of all learners diverged.
    """
    tuning = scenario.tuning
    assert tuning is not None
    rule = scenario.step_rule
    searches: Mapping[str, Search] = tuning.searches(scenario.learners)
    wider: Mapping[str, Mapping[str, LogRange]] = {}
    scores: dict[Candidate, Score] = {}
    passes: dict[Candidate, int] = {}
    seconds = 0.0
    for number in count(1):
        searches = _next_searches(scenario, searches, wider, replica or 0)
        candidates = tuning.candidates(searches, scenario.learners, rule)
        of_pass = pass_scenario(scenario, candidates, replica or 0)
        run = run_pass(of_pass, pass_folder(folder, number, replica))
        if run.status != "done":
            return None
        _check_is_pass(run, of_pass)
        scores |= read_scores(run, tuning, candidates)
        passes |= dict.fromkeys(candidates, number)
        seconds += float(run.fact("timings")["total_s"])
        choice = _choose(scenario, searches, scores, number)
        if choice.is_over:
            break
        wider = {name: each.wider for name, each in choice.learners.items()}
    if all(each.problem == "diverged" for each in choice.learners.values()):
        raise ModelError("tuning", f"{choice.problem(tuning)}; {SMALLER_STEP}")
    chosen = {candidate.learner: candidate.apply(scenario.learners[candidate.learner]) for candidate in choice.chosen}
    learners = rule.derive({**scenario.learners, **chosen})
    return TunedRun(
        scenario=scenario.model_copy(update={"learners": learners, "tuning": None}),
        stated=scenario,
        facts=_facts(scenario, choice),
        candidates=_candidate_table(rule, scenario.learners, scores, passes, choice, replica),
        seconds=round(seconds, 3),
    )


def _choose(
    scenario: Scenario, searches: Mapping[str, Search], scores: Mapping[Candidate, Score], passes: int
) -> TuningChoice:
    """Return the choices of all learners after a number of *passes*."""
    tuning = scenario.tuning
    assert tuning is not None
    choices = {}
    for name, search in searches.items():
        of_learner = {each: score for each, score in scores.items() if each.learner == name}
        choices[name] = choose_candidate(tuning, scenario.learners[name], search, of_learner)
    evaluations = max(score.evaluations for score in scores.values())
    return TuningChoice(choices, passes, passes * tuning.trials * len(tuning.settings), evaluations)


def _check_is_pass(run: Run, of_pass: Scenario) -> None:
    """Refuse a finished pass of another scenario: that of the run was changed between its start and its resumption.

    When checkpoints are written may change.  A pass of an earlier version is refused, too: its candidates were
    compared by another rule.

    Raises:
        ScenarioError: with the first keys that differ.
    """
    if "validation_examples" not in run.manifest:
        problem = "this pass was made by an earlier version, which had another rule of tuning"
        remedy = f"start a new run with {function('run')}"
        raise ScenarioError([Fault("tuning", problem, None, remedy, str(run.folder))])
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


def finished_tuning(scenario: Scenario, folder: Path, replica: int | None = None) -> TunedRun:
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

    tuned = tune_learners(scenario, folder, read_pass, replica)
    assert tuned is not None
    return tuned


def read_scores(run: Run, tuning: TuningSpec, candidates: Sequence[Candidate]) -> dict[Candidate, Score]:
    """Return the score of each candidate of a finished pass."""
    names = name_candidates(candidates)
    diverged = {(entry["learner"], entry["replica"]) for entry in run.manifest.get("diverged", [])}
    has_diverged = np.array([[(name, replica) in diverged for replica in range(tuning.replicas)] for name in names])
    criterion = tuning.criterion
    values = _last_means(run, criterion.metric, "", names)
    values[has_diverged | ~np.isfinite(values)] = np.nan
    floors: dict[str, Floats] = {
        name: _last_means(run, CRITERIA[name].metric, "", names).mean(axis=1) for name in tuning.floor
    }
    evaluated = run.metrics["round"].unique()
    evaluations = int(in_last_quarter(evaluated).sum()) * tuning.replicas
    if criterion.is_loss:
        learns = values.mean(axis=1) < _start_values(run, criterion.metric, "", names).mean(axis=1)
        over_classes = np.full(len(names), np.nan)
        gains = np.empty((len(names), 0))
    else:
        learns, over_classes, gains = _gains(run, names)
    scores = {}
    for number, candidate in enumerate(candidates):
        scores[candidate] = Score(
            values=values[number],
            learns=bool(learns[number]),
            over_classes=float(over_classes[number]),
            gains=tuple(gains[number].tolist()),
            floors={name: float(means[number]) for name, means in floors.items()},
            evaluations=evaluations,
        )
    return scores


def _gains(run: Run, names: Sequence[str]) -> tuple[NDArray[np.bool_], Floats, Floats]:
    """Return what the candidates of a pass have learned of the classes, by their accuracies on validation examples.

    The accuracy of a class is the mean over the last quarter of the evaluations and over the validation replicas.

    Returns:
        Whether each candidate tells classes apart, ``[candidates]``; the mean of its accuracies of all classes,
        ``[candidates]``; and what it is above the best constant answer in this mean, and in the share of right answers,
        ``[candidates, 2]``.
    """
    counts = np.array(run.fact("validation_examples"))
    present = np.flatnonzero(counts)
    examples = counts[present]
    accuracies = [_last_means(run, "accuracy", f"class:{label}", names).mean(axis=1) for label in present]
    at_start = [_start_values(run, "accuracy", f"class:{label}", names).mean(axis=1) for label in present]
    by_class = np.stack(accuracies, axis=1)
    start = np.stack(at_start, axis=1)
    learns = [beats_constant(row, base, examples) for row, base in zip(by_class, start, strict=True)]
    over_classes = by_class.mean(axis=1)
    shares = examples / examples.sum()
    gains = np.stack([over_classes - 1 / len(present), by_class @ shares - shares.max()], axis=1)
    return np.array(learns), over_classes, gains


def _last_means(run: Run, metric: str, group: str, names: Sequence[str]) -> Floats:
    """Return a metric of each candidate over the last quarter of the evaluations, ``[candidates, replicas]``."""

    def mean_of(table: pd.DataFrame) -> Floats:
        if table.empty:
            return np.full(len(names), np.nan)
        return last_quarter_means(table.index.to_numpy(), table.to_numpy())

    return np.stack([mean_of(table) for table in _by_replica(run, metric, group, names)], axis=1)


def _start_values(run: Run, metric: str, group: str, names: Sequence[str]) -> Floats:
    """Return a metric of each candidate in version 0, ``[candidates, replicas]``."""
    return np.stack([table.to_numpy()[0] for table in _by_replica(run, metric, group, names)], axis=1)


def _by_replica(run: Run, metric: str, group: str, names: Sequence[str]) -> list[pd.DataFrame]:
    """Return a metric in each replica of a pass: a row for each evaluation, a column for each candidate."""
    metrics = run.metrics
    rows = metrics[(metrics["metric"] == metric) & (metrics["group"] == group)].astype({"learner": str})
    tables = []
    for replica in range(int(run.fact("replicas"))):
        of_replica = rows[rows["replica"] == replica]
        table = of_replica.pivot_table(index="round", columns="learner", values="value")
        tables.append(table.reindex(columns=[*names]))
    return tables


def _facts(scenario: Scenario, choice: TuningChoice) -> dict[str, Any]:
    """Return the entry ``tuning`` of the manifest of a run, or of that of one replica."""
    tuning = scenario.tuning
    assert tuning is not None
    lists: dict[str, list[Any]] = {
        "passes": [choice.passes],
        "candidates": [choice.candidates],
        "problems": [choice.problem(tuning)],
    }
    chosen: dict[str, dict[str, Any]] = {}
    for name, each in choice.learners.items():
        if each.best is not None:
            chosen[name] = each.best.values
        else:  # it runs as given
            keys = [*tuning.keys, *tuning.learners.get(name, {})]
            chosen[name] = {LR: scenario.learners[name].step_size}
            chosen[name] |= {key: value_at(scenario.learners[name], key) for key in keys}
    scalars: dict[str, Any]
    if tuning.per == "run":
        scalars = {key: values[0] for key, values in lists.items()}
    else:
        scalars = {**lists}
        chosen = {name: {key: [value] for key, value in settings.items()} for name, settings in chosen.items()}
    return {
        "by": tuning.by,
        "per": tuning.per,
        **tuning_facts(scenario, lists, choice.evaluations),
        "trials": tuning.trials,
        "evaluations": choice.evaluations,
        "replicas": tuning.replicas,
        **scalars,
        "chosen": chosen,
    }


def tuning_facts(scenario: Scenario, lists: Mapping[str, Sequence[Any]], evaluations: int) -> dict[str, Any]:
    """Return the state of tuning, and whether it has succeeded, by facts of each replica that is tuned by itself."""
    assert scenario.tuning is not None
    state = tuning_state(scenario.tuning, scenario.learners, lists["problems"], lists["candidates"], evaluations)
    return {"state": state, "is_tuned": not any(lists["problems"])}


def _candidate_table(
    rule: StepRule,
    learners: Learners,
    scores: Mapping[Candidate, Score],
    passes: Mapping[Candidate, int],
    choice: TuningChoice,
    replica: int | None,
) -> pa.Table:
    """Return the table ``candidates``: learner by learner, setting by setting of the keys, by rising ``lr``."""
    names = [*learners]
    # candidates stand in the order of the settings of the keys, which sorting keeps
    stated = {name: [each.listed for each in scores if each.learner == name] for name in names}
    ordered = sorted(
        scores,
        key=lambda each: (names.index(each.learner), stated[each.learner].index(each.listed), each.lr),
    )
    rows = []
    for candidate in ordered:
        step = rule.step(candidate.apply(learners[candidate.learner]))
        score = scores[candidate]
        diverged = int(np.isnan(score.values).sum())
        mean = interval([] if diverged else score.values)
        rows.append(
            (
                replica or 0,
                candidate.learner,
                passes[candidate],
                candidate.lr,
                np.nan if step is None else step,
                ", ".join(f"{key}={value}" for key, value in candidate.settings),
                mean.mean,
                mean.half,
                len(score.values),
                diverged,
                score.over_classes,
                int(candidate in choice.learners[candidate.learner].alive),
                int(candidate in choice.chosen),
            )
        )
    table = MemoryTable("candidates")
    table.append([*zip(*rows, strict=True)])
    return table.read()
