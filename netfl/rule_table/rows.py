"""Rows of the table: the values of a rule in a cell, and the files that store them, one for each cell.

A stored row counts only if it is of today's settings: those of the cell, and those of its rule.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from netfl.diagnosis.diagnose import diagnose
from netfl.diagnosis.reading import read_participation
from netfl.learning.spec import LearnerSpec
from netfl.results.atomic_write import write_text
from netfl.results.run_reader import Run
from netfl.results.same_settings import is_same
from netfl.rule_table.suite import Cell, Rule, portable, rows_folder, rules_of
from netfl.scenario.scenario import Scenario
from netfl.types import Floats

_SETTINGS = ("seed", "replicas", "users", "rounds", "access", "data", "partition", "model", "evaluate")
"""Sections of a scenario that all rules of a cell share, beside ``tuning``."""


@dataclass(frozen=True, slots=True)
class TableMetric:
    """A metric of the table.

    Args:
        name: its name in rows.
        label: its name in the table, with its unit.
        is_cost: whether the smallest value is the best; a cost that is never paid off counts as infinite.
        scale: factor of the values in the table.
    """

    name: str
    label: str
    is_cost: bool = False
    scale: float = 100.0

    def text(self, value: float) -> str:
        """Return a value in the unit of the label: accuracies with one decimal, costs with three digits."""
        scaled = self.scale * value
        if not np.isfinite(scaled):
            return "∞"
        if not self.is_cost:
            return f"{scaled:.1f}"
        rounded = float(f"{scaled:.3g}")
        return f"{rounded:g}"  # 3150, not 3.15e+03


METRICS = (
    TableMetric("rare_accuracy", "accuracy of the rare classes (%)"),
    TableMetric("accuracy", "accuracy of all classes (%)"),
    TableMetric("worst", "accuracy of the worst tenth of the users (%)"),
    TableMetric("time_s", "time to the target (h)", is_cost=True, scale=1 / 3600),
    TableMetric("energy_J", "energy to the target (J)", is_cost=True, scale=1.0),
)
"""Metrics of the table; costs are those of accesses with simulated time and energy."""
ACCURACIES = {"rare_accuracy": "rare_accuracy", "accuracy": "accuracy", "worst": "accuracy_users_worst10"}
"""Metrics of a run by those of the table; means over the evaluations in the last quarter of the rounds.

Without rare classes there is no accuracy of them.
"""


@dataclass(frozen=True)
class TableRow:
    """The values of a rule in a cell.

    Args:
        learner: the learner as it was stated, in plain data.
        ranges: ranges of its further keys.
        values: values by metric, ``[replicas]``; a cost is ``None`` in a replica that does not reach the target.
        chosen: chosen values by tuned key, ``[replicas]``.
        state: the state of the tuning in words.
        not_tuned: number of replicas whose tuning failed.
        core_s: processor time of the run in seconds.
        netfl: version of netfl.
        refused: why the access does not fit to the rule; then there are no values.
    """

    learner: Mapping[str, Any] = field(default_factory=dict)
    ranges: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, list[float | None]] = field(default_factory=dict)
    chosen: Mapping[str, list[float]] = field(default_factory=dict)
    state: str = ""
    not_tuned: int = 0
    core_s: float = 0.0
    netfl: str = ""
    refused: str = ""

    def array(self, metric: str) -> Floats | None:
        """Return the values of a metric, ``[replicas]``, infinite for a target that is not reached; or ``None``."""
        if metric not in self.values:
            return None
        return np.array([np.inf if value is None else value for value in self.values[metric]], float)

    def plain(self) -> dict[str, Any]:
        """Return the row as plain data, without what it does not have."""
        return {key: value for key, value in asdict(self).items() if value}


@dataclass(frozen=True)
class StoredCell:
    """The stored rows of a cell.

    Args:
        settings: settings that the rows share.
        access: statistics of the deliveries, see `describe_access`.
        rows: by the name of the rule.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    access: Mapping[str, Any] = field(default_factory=dict)
    rows: Mapping[str, TableRow] = field(default_factory=dict)

    def values(self, metric: str) -> dict[str, Floats]:
        """Return the values of a metric by rule, ``[replicas]`` each, of the rules that have them."""
        found = {name: row.array(metric) for name, row in self.rows.items()}
        return {name: values for name, values in found.items() if values is not None}


def shared_settings(scenario: Scenario) -> dict[str, Any]:
    """Return the settings of a scenario that all rules of its cell share."""
    plain = scenario.plain()
    settings = {key: plain[key] for key in _SETTINGS if key in plain}
    settings["tuning"] = {key: value for key, value in plain["tuning"].items() if key != "learners"}
    return dict(portable(settings))


def extract_row(scenario: Scenario, run: Run, core_s: float) -> TableRow:
    """Return the row of a finished run of one rule in a cell.

    Args:
        scenario: the scenario with the tuning.
        run: its run.
        core_s: processor time of the run in seconds.
    """
    (name,) = scenario.learners
    metrics = run.metrics
    last = metrics[(metrics["group"] == "") & (metrics["round"] >= 0.75 * metrics["round"].max())]
    means = last.groupby(["metric", "replica"], observed=True)["value"].mean()
    values: dict[str, list[float | None]] = {
        ours: means[theirs].round(5).tolist() for ours, theirs in ACCURACIES.items() if theirs in means
    }
    replicas = range(int(run.fact("replicas")))
    finals = run.final_metrics_of(replicas)
    (target,) = scenario.evaluation.targets
    for cost in costs_of(run):
        key = f"{name}.target:{target:g}.{cost}"
        values[cost] = [_rounded(final.get(key)) for final in finals]
    facts = run.fact("tuning")
    plain = scenario.plain()
    return TableRow(
        learner=portable(plain["learners"][name]),
        ranges=plain["tuning"]["learners"].get(name, {}),
        values=values,
        chosen={key: [float(f"{value:.4g}") for value in each] for key, each in facts["chosen"][name].items()},
        state=facts["state"],
        not_tuned=sum(map(bool, facts["problems"])),
        core_s=round(core_s, 1),
        netfl=run.manifest["versions"]["netfl"],
    )


def _rounded(cost: float | None) -> float | None:
    return None if cost is None or not np.isfinite(cost) else float(f"{cost:.6g}")


def costs_of(run: Run) -> tuple[str, ...]:
    """Return the costs that the access of a run has: time where it is that of a network, and energy if counted."""
    if run.scenario["access"]["kind"] not in {"network", "replay"}:
        return ()
    return ("time_s", "energy_J") if run.rounds["energy_J"].notna().any() else ("time_s",)


def describe_access(run: Run) -> dict[str, Any]:
    """Return what decides a cell beside its rates: statistics of the deliveries in the first replica.

    Rates are shares of rounds.  Rare users are the tenth of the users with the fewest deliveries; bursts and absences
    are mean lengths in rounds, and ages are as in `netfl ram`.
    """
    participation, _ = read_participation(run.folder, replica=0)
    found = diagnose(participation)
    shares = participation.delivered.mean(axis=0)
    order = np.argsort(shares, kind="stable")
    rare = order[: max(1, len(order) // 10)]
    others = order[len(rare) :]
    return {
        "process": str(found.verdict),
        "rate": _mean(shares[others]),
        "rare_rate": _mean(shares[rare]),
        "burst": _mean(found.stays.on[others]),
        "rare_burst": _mean(found.stays.on[rare]),
        "rare_absence": _mean(found.stays.off[rare]),
        "rare_age": _mean(found.waits.age[rare]),
        "correlation": _mean([found.dependence.correlation]),
        "deliveries_per_round": _mean(participation.delivered.sum(axis=1)),
    }


def _mean(values: Any) -> float | None:
    """Return the mean of the finite values with four digits; ``None`` without any."""
    finite = pd.Series(np.asarray(values, float)).replace([np.inf, -np.inf], np.nan).dropna()
    return None if finite.empty else float(f"{finite.mean():.4g}")


def read_cell(cell: Cell, folder: Path | None = None) -> StoredCell:
    """Return the stored rows of today's settings of a cell; those of the suite's rules, in its order.

    Args:
        cell: the cell.
        folder: folder of the files; by default that of the rows that come with netfl.
    """
    path = (folder or rows_folder()) / f"{cell.name}.json"
    if not path.exists():
        return StoredCell()
    content = json.loads(path.read_text(encoding="utf-8"))
    rules = rules_of(cell.dataset)
    reference = cell.scenario(rules[0])
    if not is_same(content["settings"], shared_settings(reference)):
        return StoredCell()
    rows = {}
    for rule in rules:
        if rule.name in content["rows"]:
            row = TableRow(**content["rows"][rule.name])
            if row.refused or _is_of_rule(row, rule):
                rows[rule.name] = row
    return StoredCell(content["settings"], content["access"], rows)


def _is_of_rule(row: TableRow, rule: Rule) -> bool:
    """Return whether a row is of today's settings of its rule; the centre of its step size follows from them."""
    learner = LearnerSpec.model_validate(rule.learner)
    ours = {**portable(learner.model_dump(mode="json")), "lr": row.learner["lr"]}
    return is_same(row.learner, ours, learner) and dict(row.ranges) == dict(rule.ranges)


def add_row(cell: Cell, rule: Rule, row: TableRow, run: Run | None, folder: Path | None = None) -> None:
    """Add a row to the file of its cell; rows of other settings are dropped.

    Args:
        cell: the cell.
        rule: the rule.
        row: its row.
        run: its run, whose deliveries describe the access if no row did before; ``None`` if the rule was refused.
        folder: folder of the files; by default that of the rows that come with netfl.
    """
    folder = folder or rows_folder()
    stored = read_cell(cell, folder)
    settings = stored.settings or shared_settings(cell.scenario(rules_of(cell.dataset)[0]))
    access = stored.access
    if not access and run is not None:
        access = describe_access(run)
    rows = {name: each.plain() for name, each in {**stored.rows, rule.name: row}.items()}
    text = ",\n".join(f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in rows.items())
    head = f' "settings": {json.dumps(settings)},\n "access": {json.dumps(access)},\n "rows": {{\n'
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / f"{cell.name}.json", f"{{\n{head}{text}\n }}\n}}\n")
