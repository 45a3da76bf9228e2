"""The command ``netfl table``: the table of rules, and the row of a rule of your own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netfl.cli.app import NoPlugins, Quiet, app, echo, number_option, path_option
from netfl.cli.common import exit_interrupted, handle_errors
from netfl.errors import Fault, ScenarioError

if TYPE_CHECKING:
    from netfl.rule_table.rows import TableMetric, TableRow
    from netfl.rule_table.suite import Cell, Rule


@app.command()
@handle_errors
def table(
    rule: Annotated[
        str | None,
        typer.Argument(
            metavar="[RULE]",
            help="A rule of your own: an aggregation as module:Class, or a YAML file with the keys of a learner. "
            "Without it, the stored table is printed.",
            show_default=False,
        ),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Give a key of the aggregation a value, which is YAML."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the row. Default: that of the class or file.")] = None,
    cells: Annotated[
        str, typer.Option(metavar="NAMES", help="Cells, accesses or data sets, separated by commas.")
    ] = "digits",
    metric: Annotated[str, typer.Option(help="The metric of the stored table.")] = "rare_accuracy",
    workers: Annotated[int, number_option(minimum=1, help="Number of cells that run at the same time.")] = 1,
    out: Annotated[
        Path | None, path_option("DIR", "Folder of the runs and of the row. Default: runs/table-NAME.")
    ] = None,
    flower: Annotated[bool, typer.Option("--flower", help="RULE is a strategy of Flower, as module:Class.")] = False,
    quiet: Quiet = False,
    no_plugins: NoPlugins = False,
) -> None:
    """Print the table of rules under all accesses, or run a rule of your own in it and print its row."""
    from netfl.rule_table.rows import METRICS
    from netfl.rule_table.suite import find_cells

    chosen = find_cells(cells)
    if rule is None:
        known = {each.name: each for each in METRICS}
        if metric not in known:
            remedy = f"use one of: {', '.join(known)}"
            raise ScenarioError([Fault("--metric", "no such metric of the table", metric, remedy)])
        _refuse_row_options({"--set": sets, "--name": name, "--out": out, "--flower": flower or None})
        _print_table(chosen, known[metric])
        return
    options = _read_options(sets or [])
    if flower:
        source, options = "netfl.flower.strategy_rule:StrategyRule", {"strategy": rule, "options": options}
        name = name or rule.rpartition(":")[2]
    else:
        source = rule
    _run_rule(source, options, name, chosen, workers, out, quiet)


def _refuse_row_options(options: Mapping[str, object]) -> None:
    """Raise an error for options that need a rule."""
    for option, value in options.items():
        if value is not None:
            raise ScenarioError([Fault(option, "has no effect without a rule", None, "name a rule, or leave it out")])


def _read_options(sets: list[str]) -> dict[str, Any]:
    """Return the values of ``--set KEY=VALUE``."""
    from netfl.scenario.yaml_document import parse

    values = {}
    for assignment in sets:
        key, equals, text = assignment.partition("=")
        if not (equals and key):
            raise ScenarioError([Fault("--set", "not of the form KEY=VALUE", assignment, "write --set server_lr=2")])
        values[key] = parse(text, f"--set {key}")
    return values


def _print_table(cells: list[Cell], metric: TableMetric) -> None:
    """Print the stored values of a metric: a block for each cell, its rules from the best on."""
    from netfl.rule_table.ranking import rank_rules
    from netfl.rule_table.rows import read_cell

    for cell in cells:
        stored = read_cell(cell)
        ranks = rank_rules(stored.values(metric.name), is_cost=metric.is_cost)
        echo(f"{cell.name}: {metric.label}")
        if not ranks:
            echo("  no stored rows")
        for name, rank in sorted(ranks.items(), key=lambda entry: entry[1].rank):
            mark = "" if not stored.rows[name].not_tuned else " *"
            echo(f"  {name:18} {_value_text(metric, rank)}{mark}")
        for name, row in stored.rows.items():
            if row.refused:
                echo(f"  {name:18} -  {row.refused}")


def _value_text(metric: TableMetric, rank: Any) -> str:
    """Return a value with its interval and its rank in words."""
    from math import isinf

    if isinf(rank.value):
        value = "  not reached        "
    else:
        value = f"{metric.text(rank.value):>6} [{metric.text(rank.low)}, {metric.text(rank.high)}]"
    place = f"{rank.first}" if rank.first == rank.last else f"{rank.first} to {rank.last}"
    return f"{value:22} rank {rank.rank} ({place})"


def _run_rule(
    source: str, options: Mapping[str, Any], name: str | None, cells: list[Cell], workers: int, out: Path | None,
    quiet: bool,
) -> None:  # fmt: skip
    """Run a rule in *cells*, print its values beside the stored ones, and write its row."""
    from netfl.rule_table.handed_in import write_row
    from netfl.rule_table.running import check_rule, run_rows
    from netfl.rule_table.suite import read_rule

    by_dataset: dict[str, list[Cell]] = {}
    for cell in cells:
        by_dataset.setdefault(cell.dataset, []).append(cell)
    rules = {dataset: read_rule(source, dataset, options, name) for dataset in by_dataset}
    for dataset, its_cells in by_dataset.items():
        check_rule(rules[dataset], its_cells)
    rule = next(iter(rules.values()))
    folder = out or Path("runs") / f"table-{rule.name.replace(' ', '_')}"
    rows: dict[Cell, TableRow] = {}
    unfinished = []
    for dataset, its_cells in by_dataset.items():
        for cell, row in run_rows(its_cells, rules[dataset], folder, workers):
            if row is None:
                unfinished.append(cell.name)
                continue
            rows[cell] = row
            if not quiet:
                _print_row(cell, rules[dataset], row)
    path = write_row(folder, rule, rows)
    if not quiet:
        echo(f"row: {path}")
    if unfinished:
        exit_interrupted("repeat the command to continue", f"before {', '.join(unfinished)} ended")


def _print_row(cell: Cell, rule: Rule, row: TableRow) -> None:
    """Print the values of a rule in a cell, with its rank among the stored ones, and the best of these."""
    from netfl.rule_table.ranking import rank_rules
    from netfl.rule_table.rows import METRICS, read_cell

    if row.refused:
        echo(f"{cell.name}: does not fit: {row.refused}")
        return
    stored = read_cell(cell)
    echo(f"{cell.name} ({row.core_s:.0f} s of one core)")
    width = max(len(metric.label) for metric in METRICS)
    for metric in METRICS:
        values = row.array(metric.name)
        if values is None:
            continue
        others = {name: each for name, each in stored.values(metric.name).items() if name != rule.name}
        ranks = rank_rules({rule.name: values, **others}, is_cost=metric.is_cost)
        line = f"  {metric.label:{width}} {_value_text(metric, ranks[rule.name])} of {len(ranks)}"
        if others:
            best = min(others, key=lambda other: ranks[other].rank)
            line += f"; best stored: {best} {metric.text(ranks[best].value)}"
        echo(line)
    if row.not_tuned:
        echo(f"  {row.state}")
