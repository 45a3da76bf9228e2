"""Runs of the table of rules: a rule in a cell at a time, until all rows are stored in scenarios/table/rows.

A row that is stored is not run again; a run that was stopped or killed continues.  The cells of the hypotheses come
first.  Several processes may work on one table: each run belongs to the process that makes it.

    python analysis/table_campaign.py --list        the rows in their order, with what is stored and the hours left
    python analysis/table_campaign.py --hours 3     run rows, start none after three hours, and write the page
    python analysis/table_page.py                   write the page from the stored rows
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import table_page
from campaign_options import read_options, run_until
from filelock import FileLock
from table_reversals import HYPOTHESES

from netfl.rule_table.rows import add_row, read_cell
from netfl.rule_table.running import run_row
from netfl.rule_table.suite import Cell, Rule, all_cells, rules_of

CORE_HOURS = 80 / 3600
"""Hours of one core for a rule in a cell, the budget of the table; those of stored rows replace it."""


def run_order() -> list[tuple[Cell, Rule]]:
    """Return all rules in all cells: those of the hypotheses first, then suite by suite and cell by cell."""
    cells = [*all_cells()]
    first = [each.cell for each in HYPOTHESES]
    cells.sort(key=lambda cell: first.index(cell.name) if cell.name in first else len(first))
    return [(cell, rule) for cell in cells for rule in rules_of(cell.dataset)]


def run_table(folder: Path, should_start: Callable[[], bool], report: Callable[[str], None]) -> None:
    """Run the rules that have no row in a cell, in their order, as long as *should_start*.

    The directories of runs whose rows are stored are removed, as their passes take much space.
    """
    for cell, rule in run_order():
        if rule.name in read_cell(cell).rows:
            continue
        if not should_start():
            return
        done = run_row(cell, rule, folder)
        if done is None:
            report(f"{cell.name}, {rule.name}: another process runs it")
            continue
        row, run = done
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{cell.name}.lock"):
            add_row(cell, rule, row, run)
        if run is not None:
            shutil.rmtree(run.folder)
        report(f"{cell.name}, {rule.name}: {row.refused or f'{row.core_s / 60:.1f} min of one core'}")


def plan_lines() -> Iterator[str]:
    """Yield the plan as lines of text: the rows in their order."""
    stored = {cell: read_cell(cell).rows for cell in all_cells()}
    known = [row.core_s / 3600 for rows in stored.values() for row in rows.values() if not row.refused]
    hours = sum(known) / len(known) if known else CORE_HOURS
    left = 0
    for cell, rule in run_order():
        row = stored[cell].get(rule.name)
        if row is None:
            left += 1
            state = f"about {3600 * hours:.0f} s"
        else:
            state = f"done, {row.refused or f'{row.core_s:.0f} s'}"
        yield f"{cell.name:28} {rule.name:18} {state}"
    total = len(run_order())
    yield f"{total - left} of {total} rows, {sum(known):.2f} h done, about {hours * left:.2f} h left"


def main() -> None:
    """Print the plan, or run rows and write the page."""
    options = read_options(__doc__, Path("runs/table"))
    if options.list:
        print("\n".join(plan_lines()))
        return
    run_until(options, run_table)
    print(table_page.write_page())


if __name__ == "__main__":
    main()
