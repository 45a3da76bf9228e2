"""Runs of the map of CVaR's gain: cell by cell, until their rows are stored.

A cell whose rows are stored in analysis/results/cvar_map is not run again; one that was stopped or killed continues.
The corners come first, and then each time the cell that is farthest from all before, so that a coarse map comes first.
Several processes may work on one map: each cell belongs to the process that runs it.

    python analysis/map_campaign.py --list          the cells in their order, with what is stored and the hours left
    python analysis/map_campaign.py --hours 3       run cells, start none after three hours, and write the page
    python analysis/findings.py                     write the page from the stored rows
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import cvar_map
import findings
import pandas as pd
from campaign_options import read_options, run_until
from chosen_candidates import AT_EDGE, NONE_LEARNS, read_choices
from cvar_map import CELLS, CORE_HOURS, LEARNERS, Cell, run_order, stored_rows
from reproduction import settings_of

from netfl.results.atomic_write import atomic_write
from netfl.results.run_reader import Run
from netfl.rule_table.running import run_or_continue


def run_cell(cell: Cell, folder: Path) -> Run | None:
    """Run a cell below *folder*, or continue its run; ``None`` if another process runs it."""
    return run_or_continue(cell.scenario, folder / cell.name)


def extract_rows(cell: Cell, run: Run, core_s: float = 0.0) -> dict[str, Any]:
    """Return the content of the stored rows of a finished run of *cell*.

    Accuracies are means over the evaluations in the last quarter of the rounds, as those by which learners are tuned.

    Args:
        cell: the cell.
        run: its run.
        core_s: processor time of the run, of its last part if it was continued.
    """
    metrics = run.metrics[(run.metrics["group"] == "") & (run.metrics["round"] >= 0.75 * run.metrics["round"].max())]
    means = metrics.groupby(["metric", "learner", "replica"], observed=True)["value"].mean()
    candidates = run.table("candidates")
    learners = {}
    for learner in LEARNERS:
        values = {metric: means[metric, learner].round(5).tolist() for metric in ("accuracy", "rare_accuracy")}
        learners[learner] = {**values, **tuning_of(candidates, learner)}
    return {
        "settings": settings_of(cell.scenario.plain()),
        "netfl": run.manifest["versions"]["netfl"],
        "core_s": round(core_s, 1),
        "learners": learners,
    }


def tuning_of(candidates: pd.DataFrame, learner: str) -> dict[str, list[Any]]:
    """Return how a learner was tuned, by replica: the columns of the stored rows.

    They are ``validation``, the criterion of the chosen candidate; ``learns`` and ``at_edge``, the state of the choice;
    and ``chosen``, the candidate in words.
    """
    choices = read_choices(candidates, learner).values()
    return {
        "validation": [choice.criterion for choice in choices],
        "learns": [int(choice.state != NONE_LEARNS) for choice in choices],
        "at_edge": [int(choice.state == AT_EDGE) for choice in choices],
        "chosen": [str(choice) for choice in choices],
    }


def store_rows(cell: Cell, content: Mapping[str, Any]) -> None:
    """Store the rows of a cell, with a line for each learner."""
    cvar_map.RESULTS.mkdir(parents=True, exist_ok=True)
    head = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items() if key != "learners"]
    learners = [f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in content["learners"].items()]
    text = ",\n ".join([*head, '"learners": {\n' + ",\n".join(learners) + "\n }"])
    with atomic_write(cvar_map.RESULTS / f"{cell.name}.json") as part:
        part.write_text(f"{{\n {text}\n}}\n", encoding="utf-8")


def run_map(folder: Path, should_start: Callable[[], bool], report: Callable[[str], None]) -> None:
    """Run the cells that have no rows, in their order, as long as *should_start*."""
    for cell in run_order():
        if cell.rows is not None:
            continue
        if not should_start():
            return
        begin_s = time.process_time()
        run = run_cell(cell, folder)
        if run is None:
            report(f"{cell.name}: another process runs it")
            continue
        core_s = time.process_time() - begin_s
        store_rows(cell, extract_rows(cell, run, core_s))
        report(f"{cell.name}: done, {core_s / 60:.1f} min of one core")


def plan_lines() -> Iterator[str]:
    """Yield the plan as lines of text: the cells in their order."""
    rows = stored_rows()
    known = [each.core_hours for each in rows.values()]
    hours = sum(known) / len(known) if known else CORE_HOURS / len(CELLS)
    for cell in run_order():
        state = f"done, {rows[cell].core_hours:.2f} h" if cell in rows else f"about {hours:.2f} h"
        yield f"{cell.name:34} {state}"
    left = hours * (len(CELLS) - len(rows))
    yield f"{len(rows)} of {len(CELLS)} cells, {sum(known):.2f} h done, about {left:.2f} h left"


def main() -> None:
    """Print the plan, or run cells and write the page."""
    options = read_options(__doc__, Path("runs/cvar_map"))
    if options.list:
        print("\n".join(plan_lines()))
        return
    run_until(options, run_map)
    print(findings.write_page())


if __name__ == "__main__":
    main()
