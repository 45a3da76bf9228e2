"""The duration of a scenario ends the run of an app, as it ends any other run."""

import pandas as pd
import pytest

pytestmark = pytest.mark.extra
pytest.importorskip("flwr", reason="netfl-sim[flower] is not installed")

from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp
from support.flower_apps import START, adding_client, arrays, averaging, server_of

import netfl
import netfl.flower
from netfl.errors import ScenarioError

RURAL = {
    "rounds": None, "duration": "3 min", "partition.by": "distance", "record": "all", "access.selection": "all",
    "evaluate": None, "tuning": None,
}  # fmt: skip
DIRECT = {"name": "direct", "users": 3, "access": {"kind": "bernoulli", "probability": 1.0, "round_length": "1 min"}}


def run_app(folder, scenario, rounds=500, server=None):
    server = server or server_of(averaging(), rounds)[0]
    return netfl.flower.run(scenario, server, adding_client()[0], folder, sizes="scenario", progress=False)


def test_run_ends_with_the_last_round_that_closes_in_time(tmp_path):
    scenario = netfl.load("rural_outage", RURAL)
    run = run_app(tmp_path / "run", scenario)
    trace = netfl.trace(scenario, tmp_path / "trace", progress=False)
    assert run.status == "done"
    for table in ("rounds", "deliveries", "events"):
        columns = trace.table(table).columns
        pd.testing.assert_frame_equal(trace.table(table), run.table(table)[columns], check_exact=True)
    last = run.rounds["round"].max()
    assert 1 < last == run.manifest["rounds_done"] == run.metrics["round"].max()
    assert run.rounds["closed_s"].max() <= 180
    assert (run.scenario["duration"], run.scenario.get("rounds")) == (180.0, None)
    assert "30 messages still waited for a reply when the app ended" in run.manifest["app_notes"]


def test_each_replica_has_a_clock_of_its_own(tmp_path):
    scenario = netfl.load("rural_outage", RURAL | {"replicas": 2})
    run = run_app(tmp_path / "run", scenario)
    trace = netfl.trace(scenario, tmp_path / "trace", progress=False)
    pd.testing.assert_frame_equal(trace.rounds, run.rounds[trace.rounds.columns], check_exact=True)
    assert set(run.rounds["replica"]) == {0, 1}


def test_the_first_of_rounds_and_duration_ends_the_run(tmp_path):
    early = run_app(tmp_path / "early", netfl.load("rural_outage", RURAL), rounds=2)
    assert (len(early.rounds), early.scenario["rounds"]) == (2, 2)
    both = run_app(tmp_path / "both", netfl.load("rural_outage", RURAL | {"rounds": 500}))
    assert (both.status, both.scenario["rounds"], both.manifest["rounds"]) == ("done", 500, 500)
    assert 1 < both.manifest["rounds_done"] < 20


def test_duration_of_fixed_rounds_ends_a_strategy_with_more_of_them(tmp_path):
    run = run_app(tmp_path / "run", DIRECT | {"duration": "5 min"})
    assert (run.status, len(run.rounds)) == ("done", 5)
    assert run.metrics.query("metric == 'train_loss'")["round"].tolist() == [1, 2, 3, 4, 5]


def test_duration_before_the_first_round_is_refused(tmp_path):
    scenario = netfl.load("rural_outage", RURAL | {"duration": "1 s"})
    with pytest.raises(ScenarioError, match=r"duration: .*round 1 of the ServerApp closes"):
        run_app(tmp_path / "run", scenario)
    assert not (tmp_path / "run").exists()


def test_pushed_messages_end_with_the_duration(tmp_path):
    server = ServerApp()

    @server.main()
    def main(grid, context):
        for _ in range(100):
            content = RecordDict({"arrays": arrays(START)})
            grid.push_messages([Message(content, node, "train") for node in grid.get_node_ids()])

    run = run_app(tmp_path / "run", DIRECT | {"duration": "5 min"}, server=server)
    assert (run.status, len(run.rounds)) == ("done", 5)
    assert "3 messages still waited for a reply when the app ended" in run.manifest["app_notes"]
