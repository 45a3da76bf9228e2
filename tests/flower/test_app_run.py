"""Runs of Flower apps: their run directories are those of any run."""

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.extra
pytest.importorskip("flwr", reason="netfl-sim[flower] is not installed")

import flwr.serverapp.strategy as strategies
from flwr.app import Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from support.flower_apps import START, adding_client, arrays, averaging, server_of
from support.stop_run import StopAfter

import netfl
import netfl.flower
from netfl.errors import MachineError, ModelError, ScenarioError

SHORT = {
    "rounds": 40, "partition.by": "distance", "record": "all", "evaluate": {"every": 5}, "access.selection": "all",
    "tuning": None,
}  # fmt: skip
"""Every user takes part, as the strategies sample all nodes."""
TABLES = ("rounds", "deliveries", "events", "users", "nodes")


def rural(**changes):
    return netfl.load("rural_outage", SHORT | changes)


def run_app(folder, strategy=None, *, rounds=12, scenario=None, evaluate=None, client=None, **options):
    server, _ = server_of(strategy or averaging(), rounds, evaluate=evaluate, timeout=options.pop("timeout", 1e9))
    client = client or adding_client()[0]
    return netfl.flower.run(scenario or rural(), server, client, folder, progress=False, **options)


def accuracy_of(server_round, record):
    """The accuracy by `evaluate_fn`: the number in the arrays, in percent, every fourth round."""
    value = float(record.to_numpy_ndarrays()[0][0, 0])
    return None if server_round % 4 else MetricRecord({"accuracy": value / 100, "loss": 1.0})


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return run_app(tmp_path_factory.mktemp("done") / "run", evaluate=accuracy_of, sizes="scenario")


def test_tables_are_those_of_a_trace_of_as_many_rounds(done, tmp_path):
    trace = netfl.trace(rural(rounds=12), tmp_path / "trace", progress=False)
    assert done.status == "done"
    for table in TABLES:
        columns = trace.table(table).columns  # the users of a trace have no data
        pd.testing.assert_frame_equal(trace.table(table), done.table(table)[columns], check_exact=True)
    common = {name: value for name, value in done.summary.items() if not name.startswith("FedAvg.")}
    assert common == trace.summary
    assert (done.scenario["rounds"], done.manifest["rounds"], done.manifest["rounds_done"]) == (12, 12, 12)
    assert done.manifest["flower"]["sizes"] == "scenario"


def test_metrics_of_the_strategy_are_recorded_as_those_of_a_learner(done):
    metrics = done.metrics
    assert set(metrics["learner"]) == {"FedAvg"} == set(done.learners)
    by_round = metrics.pivot_table(index="round", columns="metric", values="value")
    assert by_round["accuracy"].dropna().to_dict() == {0: 0.0, 4: 0.04, 8: 0.08, 12: 0.12}
    assert by_round["train_loss"].dropna().to_dict() == dict.fromkeys(range(1, 13), 0.5)
    closed_s = done.rounds.set_index("round")["closed_s"].to_dict() | {0: 0.0}
    assert (metrics["time_s"] == metrics["round"].map(closed_s)).all()
    assert done.summary["FedAvg.accuracy.last_tenth"] == pytest.approx(0.12)
    assert done.summary["FedAvg.train_loss.last_tenth"] == 0.5


def test_metrics_of_clients_have_their_own_names(tmp_path):
    run = run_app(tmp_path / "run", averaging(fraction_evaluate=1.0), rounds=3, evaluate=accuracy_of)
    means = run.metrics.groupby("metric", observed=True)["value"].mean().to_dict()
    assert set(means) == {"accuracy", "loss", "train_loss", "train_calls", "clients_accuracy"}
    assert means["clients_accuracy"] == pytest.approx(0.25)


def test_reports_comparisons_and_replays_accept_the_run(done, tmp_path):
    from netfl import report
    from netfl.diagnosis import diagnose
    from netfl.diagnosis.reading import participation_of_run

    page = report.write(done, tmp_path / "report.html").read_text()
    assert "FedAvg" in page
    _, _, results = page.partition("</header>")  # below the description, which names both learners of the scenario
    assert "FED-CVaR-AVG" not in results.split("The scenario, as resolved")[0]
    report.picture(done)
    other = run_app(tmp_path / "other", strategies.FedAvgM(fraction_evaluate=0.0), evaluate=accuracy_of)
    compared = netfl.compare([done.folder, other.folder])
    assert {"FedAvg", "FedAvgM"} <= set(compared["learner"])
    report.write_several([done.folder, other.folder], tmp_path / "both.html")
    replay = {"name": "again", "users": 30, "rounds": 12, "access": {"kind": "replay", "run": str(done.folder)}}
    again = netfl.trace(replay, tmp_path / "again", progress=False)
    assert again.deliveries["user"].tolist() == done.deliveries["user"].tolist()
    assert diagnose(participation_of_run(done, 0)) is not None


def test_a_run_without_server_evaluation_has_a_report(tmp_path):
    from netfl import report

    run = run_app(tmp_path / "run", averaging(fraction_evaluate=1.0), rounds=3)
    assert "clients accuracy" in report.write(run).read_text()


@pytest.mark.parametrize("name", ["FedAvg", "FedProx", "FedAdam", "FedYogi", "FedAvgM", "FedMedian", "QFedAvg"])
def test_strategies_of_flower_run_unmodified(name, tmp_path):
    options = {"FedProx": {"proximal_mu": 0.1}, "QFedAvg": {"client_learning_rate": 0.1}}.get(name, {})
    strategy = getattr(strategies, name)(fraction_evaluate=0.0, **options)
    start = netfl.load({"name": "d", "users": 6, "rounds": 5, "access": {"kind": "bernoulli", "probability": 0.7}})
    run = run_app(tmp_path / "run", strategy, rounds=5, scenario=start, evaluate=accuracy_of)
    assert set(run.metrics["learner"]) == {name}
    assert run.metrics.query("metric == 'accuracy' and round == 4")["value"].iloc[0] > 0


def test_a_stopped_run_keeps_its_rounds_and_metrics(done, tmp_path):
    stopped = run_app(tmp_path / "run", evaluate=accuracy_of, sizes="scenario", observer=StopAfter(7))
    assert (stopped.status, stopped.manifest["rounds_done"]) == ("interrupted", 7)
    for table in ("rounds", "deliveries", "metrics"):
        expected = done.table(table).query("round <= 7").reset_index(drop=True)
        pd.testing.assert_frame_equal(stopped.table(table), expected, check_categorical=False)
    with pytest.raises(ScenarioError, match="is one of a Flower app, which cannot be continued"):
        netfl.resume(stopped.folder)


def test_a_finished_run_cannot_be_extended(done):
    with pytest.raises(ScenarioError, match="is one of a Flower app, which cannot be extended"):
        netfl.extend(done.folder, 2)


def test_a_server_that_fails_keeps_what_was_recorded(tmp_path):
    def failing(server_round, record):
        if server_round == 5:
            raise ZeroDivisionError("five")
        return accuracy_of(server_round, record)

    with pytest.raises(ModelError, match=r"ServerApp mine, at [\d.]+ s of simulated time: ZeroDivisionError: five"):
        run_app(tmp_path / "run", evaluate=failing, name="mine")
    failed = netfl.open_run(tmp_path / "run")
    assert failed.status == "failed"
    assert "five" in failed.manifest["error"]
    assert failed.rounds["round"].tolist() == [1, 2, 3, 4, 5]
    assert failed.metrics.query("metric == 'train_loss'")["round"].tolist() == [1, 2, 3, 4, 5]


def test_an_error_of_the_scenario_in_the_middle_keeps_what_was_recorded(tmp_path):
    app = ClientApp()

    @app.train()
    def train(message, context):
        padding = np.zeros(100 * message.content["config"]["server-round"])
        metrics = MetricRecord({"num-examples": 1})
        return Message(RecordDict({"arrays": arrays(padding), "metrics": metrics}), reply_to=message)

    with pytest.raises(ModelError, match=r"max_update_bits: the largest update has grown from \d+ to \d+ bits"):
        run_app(tmp_path / "run", client=app)
    failed = netfl.open_run(tmp_path / "run")
    assert (failed.status, failed.rounds["round"].tolist()) == ("failed", [1])


def test_an_evaluation_that_returns_no_record_is_named(tmp_path):
    with pytest.raises(ModelError, match="TypeError: evaluate_fn returned float instead of a MetricRecord"):
        run_app(tmp_path / "run", evaluate=lambda server_round, record: 0.5)
    assert "Traceback" in (tmp_path / "run/flower.log").read_text()


@pytest.mark.parametrize("broken", [8, 12])
def test_a_loss_that_is_not_finite_is_reported_once(broken, tmp_path):
    def evaluate(server_round, record):
        return MetricRecord({"accuracy": 0.5, "loss": float("nan") if server_round >= broken else 1.0})

    done = run_app(tmp_path / "run", evaluate=evaluate)
    problem = f"the loss after round {broken} is not finite; a smaller step size may help"
    assert done.diverged == [f"FedAvg, replica 0: {problem}"]
    assert done.status == "done"


def test_a_report_names_the_app_and_its_failures(tmp_path):
    from netfl import report

    app = ClientApp()
    app.train()(lambda message, context: 1 / 0)
    page = report.write(run_app(tmp_path / "run", client=app, name="mine")).read_text()
    assert "The learner is the Flower app mine, with flwr" in page
    assert "The ClientApp failed 12 times of 12, first with user" in page


def test_more_rounds_than_the_scenario_has_are_refused_before_any(tmp_path):
    with pytest.raises(ScenarioError, match=r"rounds: FedAvg needs 41 rounds, and the scenario has 40 left"):
        run_app(tmp_path / "run", rounds=41)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_not_empty_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ScenarioError, match="already exists and is not empty"):
        run_app(tmp_path)


def test_sampling_follows_the_seed_and_leaves_the_global_generators_alone(tmp_path):
    states = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    runs = [
        run_app(tmp_path / f"{seed}-{again}", averaging(fraction_train=0.3), scenario=rural(seed=seed))
        for seed, again in ((3, 0), (3, 1), (4, 0))
    ]
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states  # noqa: NPY002
    first, again, other = (run.events for run in runs)
    pd.testing.assert_frame_equal(first, again)
    assert not first.equals(other)
    received = first.query("kind == 'received'").groupby("round")["user"].nunique()
    assert received.max() <= 9


def test_flower_is_as_it_was_after_a_run(done, caplog):
    from flwr.server import server as legacy
    from flwr.server.history import History

    for function in (strategies.Strategy.start, legacy.fit_clients, legacy.Server.fit, History.add_loss_centralized):
        assert function.__module__.startswith("flwr.")
    log = (done.folder / "flower.log").read_text()
    assert "aggregate_train: Received 1 results and 29 failures" in log


def test_nothing_of_flower_reaches_the_terminal(tmp_path, capfd):
    run_app(tmp_path / "run")
    assert capfd.readouterr() == ("", "")


def test_a_server_without_strategy_records_its_rounds(tmp_path):
    server = ServerApp()

    @server.main()
    def main(grid, context):
        for _ in range(context.run_config["exchanges"]):
            content = RecordDict({"arrays": arrays(START)})
            grid.send_and_receive([Message(content, node, "train") for node in grid.get_node_ids()])

    client, calls = adding_client()
    config = {"exchanges": 3}
    run = netfl.flower.run(
        rural(), server, client, tmp_path / "run", run_config=config, sizes="scenario", progress=False
    )
    assert (run.status, len(run.rounds), len(calls)) == ("done", 3, 3)
    assert run.metrics.empty


def test_apps_get_the_data_of_the_scenario(tmp_path):
    server, client, held = ServerApp(), ClientApp(), {}

    @client.query()
    def query(message, context):
        data = netfl.flower.user_data(context)
        held[context.node_config["partition-id"]] = np.bincount(data.y, minlength=10)
        assert data.x.dtype == np.float32
        assert context.node_config["num-partitions"] == 30
        return Message(RecordDict(), reply_to=message)

    @server.main()
    def main(grid, context):
        assert netfl.flower.evaluation_data(context).x.shape == (360, 1, 8, 8)
        with pytest.raises(ScenarioError, match="a ServerApp has no examples of a user; use evaluation_data"):
            netfl.flower.user_data(context)
        grid.send_and_receive([Message(RecordDict(), node, "query") for node in grid.get_node_ids()])

    run = netfl.flower.run(rural(), server, client, tmp_path / "run", progress=False)
    counts = run.users.set_index("user")[[f"class:{label}" for label in range(10)]]
    assert {user: row.tolist() for user, row in held.items()} == {user: [*row] for user, row in counts.T.items()}


def test_apps_of_users_have_the_labels_that_these_give(tmp_path):
    server, client, held, tested = ServerApp(), ClientApp(), {}, {}

    @client.query()
    def query(message, context):
        user = context.node_config["partition-id"]
        held[user] = np.bincount(netfl.flower.user_data(context).y, minlength=10).tolist()
        tested[user] = netfl.flower.evaluation_data(context).y
        return Message(RecordDict(), reply_to=message)

    @server.main()
    def main(grid, context):
        tested["server"] = netfl.flower.evaluation_data(context).y
        grid.send_and_receive([Message(RecordDict(), node, "query") for node in grid.get_node_ids()])

    blocks = {"dialect": {"users": [4], "relabel": {3: 5, 5: 3}}, "remote": {"users": [7], "classes": [9]}}
    scenario = rural(partition={"kind": "blocks", "blocks": blocks})
    run = netfl.flower.run(scenario, server, client, tmp_path / "run", progress=False)
    counts = run.users.set_index("user")[[f"class:{label}" for label in range(10)]]
    assert held == {user: [*row] for user, row in counts.T.items()}
    labels = tested["server"]
    swapped = np.where(labels == 3, 5, np.where(labels == 5, 3, labels))
    assert tested[4].tolist() == swapped.tolist() != labels.tolist()
    assert all(tested[user].tolist() == labels.tolist() for user in range(30) if user != 4)
    assert run.users.set_index("user")["block"][[4, 7, 0]].tolist() == ["dialect", "remote", ""]


def test_missing_data_and_foreign_contexts_are_explained(tmp_path):
    from flwr.app import Context, RecordDict

    foreign = Context(run_id=1, node_id=2, node_config={}, state=RecordDict(), run_config={})
    with pytest.raises(ScenarioError, match="start the app with netfl flower run"):
        netfl.flower.user_data(foreign)
    server = ServerApp()

    @server.main()
    def main(grid, context):
        netfl.flower.evaluation_data(context)

    bare = {"name": "bare", "users": 3, "rounds": 2, "access": {"kind": "bernoulli", "probability": 0.5}}
    with pytest.raises(ScenarioError, match="evaluation_data: the scenario has no data; add data and partition"):
        netfl.flower.run(bare, server, adding_client()[0], tmp_path / "run", progress=False)


def test_a_full_disk_is_an_error_of_the_machine(tmp_path, monkeypatch):
    from netfl.results.tables import TableWriter

    def full(self, *_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(TableWriter, "finish", full)
    with pytest.raises(MachineError, match="No space left on device"):
        run_app(tmp_path / "run")


def test_no_torch_is_imported():
    code = (
        "import sys, tempfile; sys.path.insert(0, 'tests')\n"
        "import netfl.flower\n"
        "from support.flower_apps import adding_client, averaging, server_of\n"
        "client, _ = adding_client(); server, _ = server_of(averaging(), 3)\n"
        "changes = {'partition.by': 'distance', 'rounds': 3}\n"
        "import netfl; scenario = netfl.load('rural_outage', changes)\n"
        "netfl.flower.run(scenario, server, client, tempfile.mkdtemp() + '/run', progress=False)\n"
        "assert 'torch' not in sys.modules\n"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)


def test_manifest_is_json_with_the_app(done):
    manifest = json.loads((done.folder / "manifest.json").read_text())
    assert manifest["learners"] == ["FedAvg"]
    assert manifest["flower"]["evaluation"] == "direct"
