"""Strategies that leave Flower's own loop: names, metrics, replicas, seeds, waits, and notes on what they did."""

import threading
import time

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.extra
pytest.importorskip("flwr", reason="netfl-sim[flower] is not installed")

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from support.flower_apps import adding_client, arrays, averaging, server_of

import netfl
import netfl.flower
from netfl.errors import ModelError, ScenarioError
from netfl.flower import node_waits
from netfl.types import RunObserver

LOSSLESS = {"name": "x", "users": 3, "rounds": 9, "access": {"kind": "bernoulli", "probability": 1.0}}
START = np.zeros(3, np.float32)


def run_main(main, folder, client=None, scenario=LOSSLESS, **options):
    server = ServerApp()
    server.main()(main)
    client = client or adding_client()[0]
    return netfl.flower.run(scenario, server, client, folder, progress=False, **options)


def values_of(run, metric):
    rows = run.metrics[run.metrics["metric"] == metric]
    return rows.groupby("replica")["value"].agg(list).to_dict()


class OwnLoop(FedAvg):
    """A strategy with a loop of its own, and another one for its evaluation."""

    def start(self, grid, initial_arrays, num_rounds, evaluate_fn=None):
        for number in range(1, num_rounds + 1):
            replies = grid.send_and_receive(self.configure_train(number, initial_arrays, ConfigRecord(), grid))
            initial_arrays, _ = self.aggregate_train(number, replies)
            evaluate_fn(number, initial_arrays)


class Wrapping(OwnLoop):
    """A strategy that extends the loop and the aggregation of another one."""

    def start(self, *args, **kwargs):
        return super().start(*args, **kwargs)

    def aggregate_train(self, server_round, replies):
        result, metrics = super().aggregate_train(server_round, replies)
        return result, MetricRecord({**metrics, "train_loss": 7.0})


def evaluate_fn(server_round, record):
    return MetricRecord({"accuracy": 0.1 * server_round})


@pytest.mark.parametrize(("strategy", "loss"), [(OwnLoop, 0.5), (Wrapping, 7.0)])
def test_a_strategy_with_its_own_start_has_its_name_and_metrics(strategy, loss, tmp_path):
    run = run_main(
        lambda grid, context: strategy(fraction_evaluate=0.0).start(grid, arrays(START), 3, evaluate_fn=evaluate_fn),
        tmp_path / "run",
    )
    assert run.manifest["learners"] == [strategy.__name__]
    assert values_of(run, "train_loss") == {0: pytest.approx([loss] * 3)}
    assert values_of(run, "accuracy") == {0: pytest.approx([0.1, 0.2, 0.3])}
    with pytest.raises(ScenarioError, match=f"rounds: {strategy.__name__} needs 10 rounds"):
        run_main(lambda grid, context: strategy().start(grid, arrays(START), 10), tmp_path / "long")


def test_a_loop_outside_the_strategy_is_observed_as_well(tmp_path):
    def main(grid, context):
        class Local(FedAvg):
            pass

        strategy, model = Local(fraction_evaluate=0.0), arrays(START)
        for number in (1, 2):
            replies = grid.send_and_receive(strategy.configure_train(number, model, ConfigRecord(), grid))
            model, _ = strategy.aggregate_train(number, replies)

    run = run_main(main, tmp_path / "run")
    assert run.manifest["learners"] == ["Local"]
    assert values_of(run, "train_loss") == {0: pytest.approx([0.5, 0.5])}
    assert "app_notes" not in run.manifest


def test_a_strategy_that_wraps_another_counts_once(tmp_path):
    def main(grid, context):
        inner = averaging()
        strategy = DifferentialPrivacyServerSideFixedClipping(inner, 0.0, 1e9, num_sampled_clients=3)
        strategy.start(grid, arrays(START), num_rounds=2)

    run = run_main(main, tmp_path / "run")
    assert run.manifest["learners"] == ["DifferentialPrivacyServerSideFixedClipping"]
    assert values_of(run, "train_loss") == {0: pytest.approx([0.5, 0.5])}


def drawing_app():
    """Return an app whose ServerApp and ClientApp draw from Python, NumPy and torch, and the list of the draws."""
    import random

    import torch

    client, draws = ClientApp(), []

    def draw():
        return [random.random(), float(np.random.rand()), torch.rand(1).item()]  # noqa: NPY002

    @client.train()
    def train(message, context):
        draws.append((context.node_config["partition-id"], draw()))
        metrics = MetricRecord({"num-examples": 1, "train_draw": draws[-1][1][2]})
        return Message(RecordDict({"arrays": message.content["arrays"], "metrics": metrics}), reply_to=message)

    def main(grid, context):
        draws.append((-1, draw()))
        averaging().start(grid, arrays(START), num_rounds=2)

    return main, client, draws


def test_replicas_have_seeds_of_their_own_and_a_seed_repeats_them(tmp_path):
    import torch

    main, client, draws = drawing_app()
    before = torch.get_rng_state()
    several = LOSSLESS | {"replicas": 3}
    run = run_main(main, tmp_path / "run", client, several)
    assert torch.equal(torch.get_rng_state(), before)
    first, count = [*draws], len(draws)
    again = run_main(main, tmp_path / "again", client, several)
    run_main(main, tmp_path / "other", client, several | {"seed": 5})
    assert draws[count : 2 * count] == first
    assert len({value for _, triple in draws[:count] + draws[2 * count :] for value in triple}) == 6 * count

    assert (run.status, run.manifest["replicas"], run.summary["replicas"]) == ("done", 3, 3)
    for table in ("rounds", "deliveries", "metrics"):
        assert sorted(run.table(table)["replica"].unique()) == [0, 1, 2]
        pd.testing.assert_frame_equal(run.table(table), again.table(table))
    assert len({tuple(values) for values in values_of(run, "train_draw").values()}) == 3
    assert run.summary["FedAvg.train_draw.last_tenth.ci95"] > 0
    alone = run_main(main, tmp_path / "alone", client)
    assert values_of(alone, "train_draw")[0] == values_of(run, "train_draw")[0]
    from netfl import report

    assert "Means over 3 replicas; ±" in report.write(run).read_text()


def test_errors_and_notes_of_all_replicas_are_joined(tmp_path):
    client = ClientApp()
    client.train()(lambda message, context: 1 / 0)
    server, _ = server_of(averaging(), 2)
    run = netfl.flower.run(LOSSLESS | {"replicas": 3}, server, client, tmp_path / "run", progress=False)
    first, *numbers = run.manifest["app_errors"]
    assert (first.endswith("ZeroDivisionError: division by zero"), numbers) == (True, [18, 18])
    aggregated = "the strategy aggregated in 0 of 2 rounds"
    assert {aggregated, f"{aggregated} (replica 1)", f"{aggregated} (replica 2)"} < {*run.manifest["app_notes"]}


def test_a_replica_that_fails_leaves_those_before(tmp_path):
    mains = []

    def main(grid, context):
        mains.append(1)
        if len(mains) == 3:
            raise ZeroDivisionError("third")
        averaging().start(grid, arrays(START), num_rounds=2)

    with pytest.raises(ModelError, match=r"replica 2.*ZeroDivisionError: third"):
        run_main(main, tmp_path / "run", scenario=LOSSLESS | {"replicas": 4})
    run = netfl.open_run(tmp_path / "run")
    assert (run.status, run.manifest["replicas"]) == ("done", 2)
    assert "the run has 2 of 4 replicas: replica 2 failed: " in run.manifest["app_notes"][-1]
    assert not (run.folder / "extension").exists()


@pytest.mark.parametrize("option", ["min_available_nodes", "min_train_nodes"])
def test_a_strategy_that_waits_for_more_nodes_is_refused(option, tmp_path, monkeypatch):
    from flwr.serverapp.strategy import strategy_utils

    monkeypatch.setattr(strategy_utils, "sleep", lambda seconds: time.sleep(0.01))
    monkeypatch.setattr(node_waits, "MIN_PAUSE_S", 0.005)
    server, _ = server_of(averaging(**{option: 4}), 2)
    with pytest.raises(ScenarioError, match=r"users: .* more nodes.*\(3\); lower min_available_nodes"):
        netfl.flower.run(LOSSLESS, server, adding_client()[0], tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_an_older_strategy_that_waits_for_more_clients_is_refused(tmp_path):
    from flwr.common import ndarrays_to_parameters
    from flwr.server import ServerApp, ServerAppComponents, ServerConfig
    from flwr.server.strategy import FedAvg

    strategy = FedAvg(min_available_clients=4, initial_parameters=ndarrays_to_parameters([START]))
    app = ServerApp(server_fn=lambda context: ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=2)))
    with pytest.raises(ScenarioError, match=r"users: the strategy waits for 4 clients.*\(3\)"):
        netfl.flower.run(LOSSLESS, app, adding_client()[0], tmp_path / "run", progress=False)


class StopSoon(RunObserver):
    """Asks the run to stop, as SIGTERM does, once it is under way."""

    def __init__(self):
        threading.Timer(0.3, lambda: setattr(self, "stop", True)).start()


def test_a_request_to_stop_ends_a_wait(tmp_path):
    def main(grid, context):
        grid.push_messages([Message(RecordDict(), node, "train") for node in grid.get_node_ids()])
        while len(list(grid.get_node_ids())) < 99:
            time.sleep(0.01)

    run = run_main(main, tmp_path / "run", observer=StopSoon())
    assert run.status == "interrupted"
    assert "3 messages still waited for a reply when the app ended" in run.manifest["app_notes"]


def test_what_the_app_did_past_the_network_is_noted(tmp_path):
    from netfl import report

    class Never(FedAvg):
        def aggregate_train(self, server_round, replies):
            return None, None

    client = ClientApp()

    @client.train()
    def train(message, context):
        return Message(RecordDict({"x": ConfigRecord({"b": bytes(125_000)})}), reply_to=message)

    client.query()(train)

    def main(grid, context):
        strategy = Never(fraction_evaluate=0.0)
        for number in range(1, 4):
            messages = strategy.configure_train(number, ArrayRecord(), ConfigRecord(), grid)
            strategy.aggregate_train(number, grid.send_and_receive(messages))
        grid.send_and_receive([Message(RecordDict(), node, "query") for node in grid.get_node_ids()])

    run = run_main(main, tmp_path / "run", client)
    assert run.manifest["app_notes"] == [
        "3 of 3 exchanges carried no arrays",
        "3 of 3 rounds have no metric",
        "the strategy aggregated in 0 of 3 rounds",
        "messages that bypassed the network: 3 query, 3 Mbit with their replies",
    ]
    assert run.rounds["uplink_bits"].tolist() == [3 * 8 * 125_001] * 3
    assert "Note on the app: the strategy aggregated in 0 of 3 rounds." in report.write(run).read_text()


def test_rounds_that_a_workflow_gives_up_before_the_aggregation_are_noted(tmp_path):
    def main(grid, context):
        strategy = FedAvg(fraction_evaluate=0.0)
        for number in (1, 2, 3):
            replies = grid.send_and_receive(strategy.configure_train(number, arrays(START), ConfigRecord(), grid))
            if number == 2:
                strategy.aggregate_train(number, replies)

    run = run_main(main, tmp_path / "run")
    assert "the strategy aggregated in 1 of 3 rounds" in run.manifest["app_notes"]
