"""Names of the tables of runs and sweeps."""

import pytest

import netfl
from netfl.errors import ScenarioError
from netfl.results.run_reader import Run


def test_a_table_that_no_run_has_is_an_error(tmp_path):
    with pytest.raises(ScenarioError) as raised:
        Run(tmp_path).table("event")
    assert str(raised.value) == "no such table ('event'); did you mean 'events'?"


@pytest.mark.parametrize("name", ["rounds", "events", "attempts", "users", "nodes", "energy", "regions", "points"])
def test_a_table_that_this_run_lacks_is_empty(name, tmp_path):
    assert Run(tmp_path).table(name).empty


def test_a_sweep_has_the_tables_of_its_runs(tmp_path):
    scenario = {
        "name": "x", "users": 2, "rounds": 2, "access": {"kind": "bernoulli", "probability": 0.5},
        "sweep": {"access.probability": [0.5]},
    }  # fmt: skip
    sweep = netfl.sweep(scenario, tmp_path, engine=_NoEngine())
    with pytest.raises(ScenarioError, match="no such table"):
        sweep.table("delivery")
    assert sweep.table("deliveries").empty


class _NoEngine:
    def run(self, tasks, folder, report, stop):
        """Run nothing."""
