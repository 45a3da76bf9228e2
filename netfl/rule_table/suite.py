"""The suites of the table: cells, rules, and the scenario in which a rule runs in a cell.

Each rule runs by itself.  So a row depends on its rule alone, and a row made later is paired with the stored ones: a
replica has the same data, first model and deliveries.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import netfl.scenario.yaml_document as documents
from netfl.core.plugins import import_plugin, is_plugin
from netfl.core.remedies import argument
from netfl.errors import Fault, ScenarioError, suggest
from netfl.files import local_path
from netfl.learning.aggregation.average import Average
from netfl.scenario.examples import FOLDER, examples_folder
from netfl.scenario.scenario import Scenario, load

_LOCAL_WORK = ("objective", "batch_size", "local_steps", "local_epochs")
"""Keys of the first rule of a suite that a rule has by default."""
_FIXED = ("lr", "step_of", "batch_size", "local_steps", "local_epochs")
"""Keys that are the same, or tuned in the same way, for all rules."""


@dataclass(frozen=True)
class Rule:
    """A rule of the table: a learner without its step size, and the ranges of its further keys.

    Args:
        name: its name in the table.
        learner: keys of a learner, as in a scenario.
        ranges: ranges of further keys to tune, as in ``tuning.learners``.
    """

    name: str
    learner: Mapping[str, Any]
    ranges: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """A column of the table: an access, with a data set.

    Args:
        dataset: name of the suite, such as ``digits``.
        access: name of the override block that has the access.
    """

    dataset: str
    access: str

    @property
    def name(self) -> str:
        """The name of the cell, such as ``digits.markov_fast``."""
        return f"{self.dataset}.{self.access}"

    def scenario(self, rule: Rule) -> Scenario:
        """Return the scenario in which *rule* runs in this cell.

        The centre of the range of its step size has the effective step of the suite's ``lr``: a rule that weighs a
        gradient by at most W begins with ``lr / W``; of an aggregation without a bound, W is that of the objective.

        Raises:
            ScenarioError: the access does not fit to the rule, or the rule has an error.
        """
        ranges = {rule.name: rule.ranges} if rule.ranges else {}
        changes = {"learners": {rule.name: {**rule.learner}}, "tuning.learners": ranges}
        scenario = load(_scenario_name(self.dataset), changes, [self.access])
        learner = scenario.learners[rule.name]
        weight = scenario.step_rule.weight(learner)
        if weight is None:  # of the aggregation: that of the objective counts
            average = learner.model_copy(update={"aggregation": Average(weights="equal")})
            weight = scenario.step_rule.weight(average) or 1.0
        centred = learner.model_copy(update={"lr": learner.step_size / weight})
        return scenario.model_copy(update={"learners": {rule.name: centred}})


@cache
def datasets() -> tuple[str, ...]:
    """Return the names of the suites, the digits first."""
    names = sorted(path.stem for path in (examples_folder() / "table").glob("*.yaml"))
    return tuple(sorted(names, key=lambda name: name != "digits"))


@cache
def _suite(dataset: str) -> Mapping[str, Any]:
    """Return the file of a suite as plain data."""
    return documents.read(examples_folder() / "table" / f"{dataset}.yaml").data


def _scenario_name(dataset: str) -> str:
    return f"table/{dataset}"


def cells_of(dataset: str) -> tuple[Cell, ...]:
    """Return the cells of a suite, in the order of its file."""
    return tuple(Cell(dataset, name) for name in _suite(dataset)["overrides"])


def rules_of(dataset: str) -> tuple[Rule, ...]:
    """Return the rules of a suite, in the order of its file."""
    suite = _suite(dataset)
    ranges = suite["tuning"].get("learners") or {}
    return tuple(Rule(name, learner, ranges.get(name, {})) for name, learner in suite["learners"].items())


def find_cells(names: str = "digits") -> list[Cell]:
    """Return the cells that *names* lists: suites, or cells such as ``digits.cyclic``, separated by commas.

    Raises:
        ScenarioError: there is no such suite or cell.
    """
    cells: dict[Cell, None] = {}
    for name in filter(None, (part.strip() for part in names.split(","))):
        found = [cell for cell in all_cells() if name in {cell.dataset, cell.name, cell.access}]
        if not found:
            known = [*datasets(), *(cell.name for cell in all_cells())]
            raise ScenarioError([Fault(argument("cells"), "no such cell of the table", name, suggest(name, known))])
        cells.update(dict.fromkeys(found))
    return [*cells]


def all_cells() -> Iterator[Cell]:
    """Yield the cells of all suites."""
    for dataset in datasets():
        yield from cells_of(dataset)


def read_rule(source: str, dataset: str, options: Mapping[str, Any], name: str | None = None) -> Rule:
    """Return the rule that a user names for a suite.

    Args:
        source: a rule of the suite; an aggregation, as a kind or ``module:Class``; or a YAML file with the keys of a
            learner and, below ``tuning``, ranges of further keys.
        dataset: the suite.
        options: values of keys of the aggregation.
        name: name in the table; by default that of the class or of the file.

    Raises:
        ScenarioError: the file cannot be read, or states a key that is the same for all rules.
    """
    rules = {rule.name: rule for rule in rules_of(dataset)}
    first = next(iter(rules.values()))
    local_work = {key: value for key, value in first.learner.items() if key in (*_LOCAL_WORK, "lr")}
    if source in rules and not options:
        return rules[source]
    ranges: Mapping[str, Any] = {}
    keys: dict[str, Any]
    if source.endswith((".yaml", ".yml")):
        path = local_path(source)
        keys = {**documents.read(path).data}
        ranges = keys.pop("tuning", {})
        _refuse_fixed(keys, source)
        default_name = path.stem
    else:
        keys = {"aggregation": source}
        default_name = source.rpartition(":")[2]
    if options:
        keys["aggregation"] = _with_options(keys.get("aggregation"), options)
    return Rule(name or default_name, local_work | keys, ranges)


def source_of(rule: Rule, dataset: str) -> str:
    """Return the text of the modules from outside netfl of which a rule is made; empty for netfl's own."""
    (learner,) = cells_of(dataset)[0].scenario(rule).learners.values()
    models = [learner.objective, learner.aggregation, *filter(None, [learner.device])]
    parts = [type(model) for model in models if is_plugin(model)]
    strategy = getattr(learner.aggregation, "strategy", None)  # of Flower
    if isinstance(strategy, str):
        parts.append(import_plugin(strategy))
    files = dict.fromkeys(filter(None, map(inspect.getsourcefile, parts)))
    return "\n".join(Path(file).read_text(encoding="utf-8") for file in files)


def _with_options(aggregation: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of an aggregation, or its kind, with further *options*."""
    if isinstance(aggregation, Mapping):
        return {**aggregation, **options}
    return {"kind": aggregation, **options}


def _refuse_fixed(keys: Mapping[str, Any], file: str) -> None:
    """Raise an error for keys that are the same for all rules, or tuned for all."""
    faults = []
    for key in _FIXED:
        if key in keys:
            remedy = "leave it out: the table tunes lr of all rules in the same way"
            if key not in {"lr", "step_of"}:
                remedy = "leave it out: all rules of the table have the same local work"
            faults.append(Fault(key, "is not free in the table", keys[key], remedy, file))
    if faults:
        raise ScenarioError(faults)


def portable(settings: Any) -> Any:
    """Return *settings* with the paths of files that come with netfl as on every machine, ``scenarios/…``."""
    folder = f"{examples_folder().parent}/"
    if isinstance(settings, Mapping):
        return {key: portable(value) for key, value in settings.items()}
    if isinstance(settings, list | tuple):
        return [portable(value) for value in settings]
    if isinstance(settings, str) and settings.startswith(f"{folder}{FOLDER}/"):
        return settings.removeprefix(folder)
    return settings


def rows_folder() -> Path:
    """Return the folder of the rows that come with netfl."""
    return examples_folder() / "table" / "rows"
