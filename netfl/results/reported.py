"""Metrics that plug-ins of a scenario report: their declarations, errors in these, and their entry of a manifest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from netfl.core.kinds import kind_of
from netfl.core.spec import Spec
from netfl.errors import Fault, suggest
from netfl.results.metrics import UNITS, is_declared
from netfl.scenario.scenario import Scenario
from netfl.types import Reported

_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
_UNITS = ("", *UNITS, "%", "%²")


def reporting_parts(scenario: Scenario) -> dict[str, Spec]:
    """Return the parts of *scenario* that report metrics, by their keys: aggregations, and parts of the access."""
    aggregations = {f"learners.{name}.aggregation": each.aggregation for name, each in scenario.learners.items()}
    parts: dict[str, Spec] = {key: rule for key, rule in aggregations.items() if rule.reports}
    return parts | {f"access.{key}": part for key, part in scenario.access.reporting_parts.items()}


def reported_entries(scenario: Scenario, *, learning: bool) -> list[dict[str, Any]]:
    """Return the entries ``reported`` of the manifest, from which `netfl.results.metrics.reported_metrics` follow.

    Args:
        scenario: the scenario of the run.
        learning: whether learners run, or the access alone.
    """
    entries: dict[str, dict[str, Any]] = {}
    for key, part in reporting_parts(scenario).items():
        is_learned = key.startswith("learners.")
        if is_learned and not learning:
            continue
        for metric in _declarations(part):
            entries.setdefault(metric.name, {**metric._asdict(), "is_learned": is_learned})
    return [*entries.values()]


def reported_faults(scenario: Scenario) -> Iterator[Fault]:
    """Yield the errors of declared metrics: not declarations, no names or units, or names that have another meaning."""
    owners: dict[str, tuple[str, Reported]] = {}
    for key, part in reporting_parts(scenario).items():
        kind = kind_of(type(part))
        for metric in _declarations(part):
            if not isinstance(metric, Reported):
                remedy = "write reports = (Reported(name, label),), with the comma of a tuple"
                yield Fault(key, f"its 'reports' holds {metric!r}, which is no Reported", kind, remedy)
                break
            yield from _declaration_faults(key, kind, metric)
            owner, other = owners.setdefault(metric.name, (key, metric))
            is_of_other_side = owner.startswith("learners.") != key.startswith("learners.")
            if other != metric or (is_of_other_side and owner != key):
                problem = f"reports '{metric.name}', which {owner} reports, too, with another meaning"
                remedy = "use another name, or the same label, unit and low_is_good in aggregations"
                yield Fault(key, problem, kind, remedy)
            elif not key.startswith("learners.") and owner != key:
                yield Fault(key, f"reports '{metric.name}', which {owner} reports, too", kind, "use another name")


def _declarations(part: Spec) -> Sequence[Reported]:
    declared: Sequence[Reported] = getattr(part, "reports", ())
    return declared


def _declaration_faults(key: str, kind: str, metric: Reported) -> Iterator[Fault]:
    """Yield the errors of one declaration of the part at *key*."""
    if not _NAME.fullmatch(metric.name):
        remedy = "use a name of letters, digits and underscores, such as sum_mse"
        yield Fault(key, f"reports {metric.name!r}, which is no name of a metric", kind, remedy)
    elif is_declared(metric.name):
        remedy = f"use another name, such as my_{metric.name}"
        yield Fault(key, f"reports '{metric.name}', but netfl has a metric of this name", kind, remedy)
    if metric.unit not in _UNITS:
        problem = f"reports '{metric.name}' in the unit '{metric.unit}', which netfl does not display"
        remedy = f"{suggest(metric.unit, [*filter(None, _UNITS)])}, or put the unit into the label"
        yield Fault(key, problem, kind, remedy)
