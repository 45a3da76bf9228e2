"""The tables of docs/reproduction as CSV: rows of an experiment, runs, margins of published values, and verdicts."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from agreement import margin
from claims import (
    UNTESTED,
    Claim,
    all_claims,
    answer,
    claims_of,
    has_order,
    has_row,
    is_diverged,
    is_shown,
    lacks_control,
)
from reproduction import ROOT, Experiment, Order, Result, Row
from run_results import compare, difference, estimate, lost_pairs, replicas_to_decide

FORMER = ROOT / "analysis/results/former_verdicts.csv"
"""The verdict of the former rule on every claim that was tested when the rule was changed.

The former rule called a value "yes" if it lay in the prediction interval of our replicas, to which it added the
published spread and half a unit of the last digit, and "open" if the prediction interval was wider than the effect.
"""
_ROW = (
    *("kind", "row", "setting", "published", "spread", "of", "ours", "half", "replicas", "last round"),
    *("difference", "q", "margin", "verdict", "decided by"),
)
_RUN = ("experiment", "run", "command", "rounds", "replicas", "planned", "diverged", "cpu hours", "gpu hours",
        "hours missing", "needs")  # fmt: skip
_MARGIN = ("experiment", "value", "published", "spread", "runs", "basis", "effect", "margin")
_VERDICT = ("experiment", "kind", "settings", "after results", "claim", "former", "verdict")


def rows_of(experiment: Experiment, results: Mapping[str, Result]) -> str:
    """Return all rows and orders of an experiment that have results, and the claims that have none."""
    claimed = [claim.item for claim in claims_of(experiment, results)]
    lines = [_row(experiment, row, results) for row in experiment.rows
             if row in claimed or has_row(row, results) or is_diverged(results, row)]  # fmt: skip
    lines += [_order(experiment, order, results) for order in experiment.orders
              if order in claimed or is_shown(order, results)]  # fmt: skip
    return _csv(_ROW, lines)


def _row(experiment: Experiment, row: Row, results: Mapping[str, Result]) -> list[str]:
    """Return the cells of a row."""
    found, last = estimate(results, row), estimate(results, row, last=True)
    digits = row.digits + 1
    cells = ["value", row.label, _setting(experiment, row), *_published(row)]
    ours = "diverged" if is_diverged(results, row) else _number(found.mean, digits)
    cells += [ours, _number(found.half, digits), str(found.replicas), _number(last.mean, digits)]
    if not experiment.is_claim(row):
        return [*cells, "", "", "", "", ""]
    compared = compare(results, row, experiment.effect(row))
    cells += [_number(compared.difference, digits), _number(compared.half, digits)]
    cells.append(_number(compared.margin, margin_digits(row)))
    return [*cells, answer(experiment, row, results), "" if compared.needed is None else str(compared.needed)]


def _order(experiment: Experiment, order: Order, results: Mapping[str, Result]) -> list[str]:
    """Return the cells of an order."""
    found, digits = difference(results, order), order.digits + 1
    cells = ["order", order.label, _setting(experiment, order), "", "", "", "", "", str(found.replicas), ""]
    cells += [_number(found.mean, digits), _number(found.half, digits), ""]
    needed = replicas_to_decide(found) if has_order(order, results) and not found.clear else None
    return [*cells, _order_verdict(experiment, order, results), "" if needed is None else str(needed)]


def _order_verdict(experiment: Experiment, order: Order, results: Mapping[str, Result]) -> str:
    """Return the verdict on an order, or why there is none."""
    if lacks_control(order, results):
        return "not run"
    verdict = answer(experiment, order, results)
    lost = lost_pairs(results, order)
    if verdict == UNTESTED and lost:
        return "diverged"
    return f"{verdict} (diverged in {lost} replicas)" if lost else verdict


def _setting(experiment: Experiment, item: Row | Order) -> str:
    """Return whether a row or an order has the settings of the authors."""
    return "authors" if experiment.is_authors(item) else "other"


def _published(row: Row) -> tuple[str, str, str]:
    """Return the published value of a row, its spread and its basis."""
    if row.published is None:
        return "", "", ""
    value = row.published.text or _number(row.published.value, row.digits)
    return value, _number(row.published.spread, row.digits), row.published.basis


def margin_digits(row: Row) -> int:
    """Return the decimal places of the margin of a row, of which a published value has half a unit of its last one."""
    return row.digits + 1 if row.digits else 1


def runs(experiments: Iterable[Experiment], results: Mapping[str, Mapping[str, Result]]) -> str:
    """Return all runs with their commands, their replicas and their hours."""
    return _csv(_RUN, (line for each in experiments for line in _runs_of(each, results[each.name])))


def _runs_of(experiment: Experiment, results: Mapping[str, Result]) -> Iterator[list[str]]:
    """Yield the runs of an experiment; shortened forms without a run are left out."""
    for name, part in experiment.parts.items():
        result = results.get(name)
        if result is None and not part.turn:
            continue
        missing = experiment.hours_missing(name, result) if part.turn else 0.0
        diverged = [f"{learner} in {count}" for learner, count in result.diverged.items()] if result else []
        yield [
            experiment.name,
            name,
            part.command,
            str(result.content["rounds"] if result else part.settings["rounds"]),
            str(len(result.replicas) if result else 0),
            str(part.replicas),
            "; ".join(diverged),
            _number(result.core_s / 3600 if result else 0.0, 2),
            _number(result.gpu_s / 3600 if result else 0.0, 2),
            _number(missing, 1),
            part.needs if missing else "",
        ]


def margins(experiments: Iterable[Experiment]) -> str:
    """Return the margin of every published value that is a claim; it depends on published values only."""
    lines = []
    for experiment in experiments:
        for row in experiment.rows:
            if row.published is None or not experiment.is_claim(row):
                continue
            effect = experiment.effect(row)
            value, spread, basis = _published(row)
            limit = _number(margin(row.published, effect), margin_digits(row))
            lines.append([experiment.name, row.label, value, spread, str(row.published.mean_of), basis,
                          _number(effect, row.digits), limit])  # fmt: skip
    return _csv(_MARGIN, lines)


def verdicts(experiments: Sequence[Experiment], results: Mapping[str, Mapping[str, Result]]) -> str:
    """Return the verdicts of the former rule and of this one on every claim that is tested."""
    former = former_verdicts()
    return _csv(_VERDICT, [
        [claim.experiment.name, claim.kind, claim.settings, "yes" if claim.is_after_results else "no",
         claim.item.label, former.get(key(claim), ""), claim.answer]
        for claim in all_claims(experiments, results)
        if claim.answer != UNTESTED
    ])  # fmt: skip


def former_verdicts() -> dict[tuple[str, str], str]:
    """Return the verdicts of the former rule, by experiment and claim."""
    with FORMER.open(encoding="utf-8", newline="") as file:
        return {(line["experiment"], line["claim"]): line["verdict"] for line in csv.DictReader(file)}


def key(claim: Claim) -> tuple[str, str]:
    """Return the experiment and the words of a claim."""
    return claim.experiment.name, claim.item.label


def _csv(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(lines)
    return text.getvalue()


def _number(value: float, digits: int) -> str:
    """Return a number as text; nothing for NaN."""
    return "" if math.isnan(value) else f"{value:.{digits}f}"
