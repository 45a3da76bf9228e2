"""Runs of the map: what is stored of a cell, the order, cells that are stored, killed, or run by another process."""

import json
import os
import subprocess
import sys
import time

import cvar_map
import map_campaign
import numpy as np
import pandas as pd
import pytest
from cvar_map import CELLS, LEARNERS, run_order

import netfl
from netfl.results.locking import locked


def candidates(rows):
    """Return a table of candidates from (replica, learner, lr, settings, value, chosen)."""
    return pd.DataFrame(rows, columns=["replica", "learner", "lr", "settings", "value", "chosen"])


def test_the_stored_tuning_is_that_of_each_replica():
    grid = [0.1 * 2.0**step for step in range(7)]
    rows = [(0, "FedAvg", lr, "", 0.5 + 0.01 * place, int(place == 6)) for place, lr in enumerate(grid)]
    rows += [(1, "FedAvg", lr, "", 0.7 - 0.01 * place, int(place == 1)) for place, lr in enumerate(grid)]
    rows += [(2, "FedAvg", lr, "", 0.5, 0) for lr in grid]  # none learns
    rows += [(0, "FedAU", 3.0, "aggregation.cutoff=9", 0.9, 1)]
    found = map_campaign.tuning_of(candidates(rows), "FedAvg")
    assert found == {
        "validation": [0.56, 0.69, None],
        "learns": [1, 1, 0],
        "at_edge": [1, 0, 0],
        "chosen": ["lr=6.4", "lr=0.2", ""],
    }


@pytest.mark.parametrize(("lr_t", "cutoff", "at_edge"), [(0.01, 50, 0), (1e-4, 50, 1), (0.01, 500, 1), (0.01, 400, 1)])
def test_each_dimension_has_an_edge(lr_t, cutoff, at_edge):
    ends = [(lr, f"objective.lr_t={t}, aggregation.cutoff={k}") for lr, t, k in ((0.01, 1e-4, 5), (10.0, 0.1, 500))]
    rows = [(0, "both", lr, settings, 0.6, 0) for lr, settings in ends]
    rows.append((0, "both", 0.3, f"objective.lr_t={lr_t}, aggregation.cutoff={cutoff}", 0.7, 1))
    assert map_campaign.tuning_of(candidates(rows), "both")["at_edge"] == [at_edge]


@pytest.fixture
def runs(monkeypatch, tmp_path):
    """Stored rows in a folder of their own; cells whose run is imitated, in their order."""
    monkeypatch.setattr(cvar_map, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(cvar_map, "is_same", lambda *_: True)
    started = []

    def run(cell, folder):
        started.append(cell)
        return f"run of {cell.name}"

    learner = {"accuracy": [0.7] * 3, "validation": [0.7] * 3, "at_edge": [0] * 3, "learns": [1] * 3}
    content = {"settings": {}, "core_s": 720.0, "learners": dict.fromkeys(LEARNERS, learner)}
    monkeypatch.setattr(map_campaign, "run_cell", run)
    monkeypatch.setattr(map_campaign, "extract_rows", lambda cell, run, core_s: content)
    return started


def test_cells_run_in_their_order_and_never_twice(runs, tmp_path):
    budget = iter([True, True, False])
    map_campaign.run_map(tmp_path, lambda: next(budget), lambda line: None)
    assert runs == run_order()[:2]
    map_campaign.run_map(tmp_path, lambda: True, lambda line: None)
    assert runs == run_order()
    assert set(cvar_map.stored_rows()) == set(CELLS)
    assert cvar_map.stored_rows()[CELLS[0]].values("MIFA").tolist() == [0.7] * 3
    map_campaign.run_map(tmp_path, lambda: True, lambda line: None)
    assert len(runs) == len(CELLS)


def test_the_plan_has_the_hours_that_are_left(runs, tmp_path):
    budget = iter([True, False])
    map_campaign.run_map(tmp_path, lambda: next(budget), lambda line: None)
    *cells, total = map_campaign.plan_lines()
    assert len(cells) == len(CELLS)
    assert cells[0].endswith("done, 0.20 h")
    assert cells[1].endswith("about 0.20 h")
    assert total == "1 of 30 cells, 0.20 h done, about 5.80 h left"


def test_rows_of_another_scenario_are_not_those_of_the_cell(runs, tmp_path, monkeypatch):
    budget = iter([True, False])
    map_campaign.run_map(tmp_path, lambda: next(budget), lambda line: None)
    monkeypatch.setattr(cvar_map, "is_same", lambda *_: False)
    assert cvar_map.stored_rows() == {}


def test_a_stored_file_is_json_with_a_line_for_each_learner(runs, tmp_path):
    budget = iter([True, False])
    map_campaign.run_map(tmp_path, lambda: next(budget), lambda line: None)
    (path,) = (tmp_path / "results").iterdir()
    text = path.read_text()
    assert json.loads(text)["core_s"] == 720.0
    assert len(text.splitlines()) == len(LEARNERS) + 6


def test_a_cell_that_another_process_runs_is_left_to_it(tmp_path):
    cell = CELLS[0]
    (tmp_path / cell.name).mkdir()
    with locked(tmp_path / cell.name):
        assert map_campaign.run_cell(cell, tmp_path) is None


def test_seeds_of_the_cells_are_those_of_one_scenario_and_shares_sum_to_one():
    for cell in CELLS:
        scenario = cell.scenario
        assert [*scenario.learners] == [*LEARNERS]
        assert np.sum(scenario.access.rho) == pytest.approx(1.0)
        assert scenario.access.rho[-1] * cvar_map.USERS == pytest.approx(cell.n_rho)
        assert scenario.data.centers[1][0] == cell.distance
        assert scenario.replicas == 10
        assert scenario.tuning.per == "replica"
        for name, learner in scenario.learners.items():
            if name.startswith("CVaR"):
                assert name.startswith(cvar_map.cvar(learner.objective.alpha))
                assert learner.objective.gamma == 0.1


SHORT = {
    "rounds": 40,
    "replicas": 2,
    "evaluate.every": 4,
    "tuning.trials": 3,
    "tuning.replicas": 1,
    "data.samples": 300,
}
RUN = """
import sys
from pathlib import Path
import cvar_map, map_campaign, netfl
scenario = netfl.load(cvar_map.SCENARIO, {changes})
cvar_map.Cell.scenario = property(lambda cell: scenario)
map_campaign.run_cell(cvar_map.CELLS[17], Path({folder!r}))
"""


@pytest.mark.slow
@pytest.mark.thorough
def test_a_cell_that_was_killed_continues_to_the_same_rows(monkeypatch, tmp_path):
    cell = CELLS[17]
    scenario = netfl.load(cvar_map.SCENARIO, SHORT)
    monkeypatch.setattr(cvar_map.Cell, "scenario", property(lambda cell: scenario))
    monkeypatch.setattr(cvar_map, "RESULTS", tmp_path / "results")
    code = RUN.format(changes=SHORT, folder=str(tmp_path / "killed"))
    environment = {**os.environ, "PYTHONPATH": str(cvar_map.ROOT / "analysis")}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment)
    started = tmp_path / "killed" / cell.name / "tuning/replica-1"  # after the first replica is tuned
    while not started.exists():
        assert process.poll() is None, "the run ended before it was killed"
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert (tmp_path / "killed" / cell.name / "manifest.json").exists()  # what was tuned is not lost
    rows = map_campaign.extract_rows(cell, map_campaign.run_cell(cell, tmp_path / "killed"))
    whole = map_campaign.extract_rows(cell, map_campaign.run_cell(cell, tmp_path / "whole"))
    assert rows["learners"] == whole["learners"]
    assert rows["settings"] == whole["settings"]
    for learner, values in rows["learners"].items():
        assert {name: len(column) for name, column in values.items()} == dict.fromkeys(values, 2), learner
    map_campaign.store_rows(cell, rows)
    assert cell.rows.values("MIFA").tolist() == rows["learners"]["MIFA"]["accuracy"]
    assert cell.rows.best_rival in cvar_map.RIVALS
