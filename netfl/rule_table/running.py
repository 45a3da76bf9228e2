"""Runs of rules in the cells of the table."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from warnings import catch_warnings, simplefilter

from netfl.errors import NetflWarning, ScenarioError
from netfl.results.locking import is_locked
from netfl.results.run_reader import Run, open_run
from netfl.rule_table.rows import TableRow, extract_row
from netfl.rule_table.suite import Cell, Rule, cells_of, source_of
from netfl.scenario.scenario import Scenario
from netfl.simulation.run import resume, run


def run_or_continue(scenario: Scenario, place: Path, device: str = "auto") -> Run | None:
    """Run a scenario in a folder, or continue its run there; ``None`` if another process runs it or it was stopped."""
    if place.exists() and is_locked(place):
        return None
    if place.exists() and not (place / "manifest.json").exists():  # killed before it had anything to continue from
        shutil.rmtree(place)
    if not place.exists():
        done = run(scenario, place, device=device, progress=False)
    else:
        done = open_run(place)
        if done.status != "done":
            done = resume(place, device=device, progress=False)
    return done if done.status == "done" else None


def check_rule(rule: Rule, cells: Sequence[Cell]) -> None:
    """Check a rule in the first cell of each suite, whose access fits to any rule.

    Raises:
        ScenarioError: the rule has an error, with keys relative to its learner.
    """
    for dataset in dict.fromkeys(cell.dataset for cell in cells):
        try:
            cells_of(dataset)[0].scenario(rule)
        except ScenarioError as error:
            prefix = f"learners.{rule.name}."
            where = f"rule '{rule.name}'"
            faults = [replace(fault, key=fault.key.removeprefix(prefix), where=where) for fault in error.faults]
            raise ScenarioError(faults) from error.__cause__


def run_row(cell: Cell, rule: Rule, folder: Path) -> tuple[TableRow, Run | None] | None:
    """Run a rule, which is right by itself (`check_rule`), in a cell below *folder*, or continue its run.

    Returns:
        The row and its run, without a run if the access does not fit to the rule; ``None`` if another process has the
        run, or it was stopped.
    """
    try:
        scenario = cell.scenario(rule)
    except ScenarioError as error:
        if not all(fault.key.startswith("learners.") for fault in error.faults):  # such as a recording that is missing
            raise
        return TableRow(refused=error.faults[0].problem), None
    begin_s = time.process_time()
    done = run_or_continue(scenario, folder / _run_name(cell, rule), "cpu")
    if done is None:
        return None
    return extract_row(scenario, done, time.process_time() - begin_s), done


def _run_name(cell: Cell, rule: Rule) -> str:
    """Return the name of a run directory, which is another one if the rule or its source changes."""
    name = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in rule.name)
    made_of = json.dumps([rule.learner, rule.ranges, source_of(rule, cell.dataset)])
    return f"{cell.name}.{name}.{sha256(made_of.encode()).hexdigest()[:8]}"


def _run_alone(cell: Cell, rule: Rule, folder: Path) -> TableRow | None:
    """Return the row of a rule in a cell, in a process of its own."""
    with catch_warnings():
        simplefilter("ignore", NetflWarning)  # which each candidate of each replica would repeat
        done = run_row(cell, rule, folder)
    return None if done is None else done[0]


def run_rows(cells: Sequence[Cell], rule: Rule, folder: Path, workers: int) -> Iterator[tuple[Cell, TableRow | None]]:
    """Run a rule in several cells, as many at a time as there are *workers*, and yield each row when it is done."""
    if workers == 1:
        for cell in cells:
            yield cell, _run_alone(cell, rule, folder)
        return
    os.environ["OMP_NUM_THREADS"] = "1"  # of the processes, which share the cores
    with ProcessPoolExecutor(min(workers, len(cells)), mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(_run_alone, cell, rule, folder): cell for cell in cells}
        for future in as_completed(futures):
            yield futures[future], future.result()
