"""The comparison of users and blocks chosen together: shares by hand, and the tables of the page."""

from pathlib import Path

import blocks
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from support.inline_sweep_engine import Here

import netfl

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/reproduction/block_assignment.md"


def test_the_tables_of_the_page_are_those_of_the_stored_results():
    page = PAGE.read_text(encoding="utf-8").splitlines()
    assert not set(blocks.tables(blocks.read_results())) - set(page)


def test_every_method_has_five_replicas_at_each_number_of_blocks():
    results = blocks.read_results()
    for number in blocks.BLOCKS:
        for method in blocks.METHODS:
            assert [*blocks.values(results, "digits", number, method).index] == [0, 1, 2, 3, 4]


def test_gains_are_paired_by_replica():
    joint = np.array([0.50, 0.70, 0.90])
    random = np.array([0.40, 0.55, 0.85])
    rows = [(12, "joint", False, replica, 0.0, joint[replica], 0.1) for replica in (1, 2, 0)]
    rows += [(12, "a", False, replica, 0.0, random[replica], 0.1) for replica in range(3)]
    found = blocks.gain(pd.DataFrame(rows, columns=blocks._COLUMNS), "accuracy", 12, "a")
    differences = 100.0 * (joint - random)
    assert found.mean == pytest.approx(differences.mean())
    low, _ = stats.t.interval(0.95, 2, differences.mean(), stats.sem(differences))
    assert found.mean - found.half == pytest.approx(low)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Return a sweep of the joint choice and of random users, with the scenario of the page at a small size."""
    limits = {"kind": "block_assignment", "deadline": "500 ms", "budget": "3 mJ"}
    small = {
        "rounds": 10,
        "replicas": 2,
        "tuning.trials": 3,
        "tuning.replicas": 1,
        "data": "digits",
        "partition.counts": [10, 20, 30, 40, 50, 40, 30, 20, 10, 20, 30, 40, 50, 60, 10],
        "sweep": {"access.allocation": [limits, limits | {"method": "random", "redraw": True}]},
    }
    scenario = netfl.load(ROOT / "scenarios/beyond/block_assignment.yaml", small)
    return netfl.sweep(scenario, tmp_path_factory.mktemp("blocks") / "sweep", engine=Here(), progress=False)


@pytest.mark.slow
def test_the_share_of_digits_is_that_of_the_deliveries(sweep, monkeypatch):
    monkeypatch.setattr(blocks, "FIRST_ROUND", 10)
    found = blocks.extract(sweep)
    assert found["method"].tolist() == ["joint", "joint", "b", "b"]
    assert found["redraw"].tolist() == [False, False, True, True]
    for row in found.itertuples():
        trace = sweep.points["trace"][0 if row.method == "joint" else 1]
        users = sweep.users[(sweep.users["trace"] == trace) & (sweep.users["replica"] == row.replica)]
        samples = dict(zip(users["user"], users["samples"], strict=True))
        deliveries = sweep.deliveries[sweep.deliveries["trace"] == trace]
        arrived = deliveries[deliveries["replica"] == row.replica]["user"]
        assert row.digits == pytest.approx(sum(samples[user] for user in arrived) / 10 / sum(samples.values()))


@pytest.mark.slow
def test_a_sweep_of_another_scenario_is_refused(sweep, monkeypatch):
    monkeypatch.setattr(
        type(sweep), "scenario_at", lambda self, point: netfl.load(ROOT / "scenarios/rural_outage.yaml")
    )
    with pytest.raises(ValueError, match="not of 'block_assignment'"):
        blocks.extract(sweep)
