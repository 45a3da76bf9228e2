"""Flower's older strategies and clients: one exchange for all clients of a round."""

import copy

import numpy as np
import pytest

pytestmark = pytest.mark.extra
pytest.importorskip("flwr", reason="netfl-sim[flower] is not installed")

from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg

import netfl.flower

LEARNER = {"objective": "erm", "aggregation": "average", "local_epochs": 1, "batch_size": 16, "lr": 0.05}
RURAL = {
    "rounds": 40, "partition.by": "distance", "record": "all", "access.round": {"kind": "first", "m": 5},
    "access.selection": "all", "learners": {"FedAvg": LEARNER}, "tuning": None,
}  # fmt: skip


class Adding(NumPyClient):
    """A client that adds one, and that can fail."""

    def __init__(self, user, calls):
        self.user, self.calls = user, calls

    def fit(self, parameters, config):
        self.calls.append(self.user)
        if config.get("failing") == self.user:
            raise ZeroDivisionError
        return [value + 1 for value in parameters], self.user + 1, {"work": float(self.user)}

    def evaluate(self, parameters, config):
        return 0.5, 1, {"accuracy": float(parameters[0][0])}


def client_of(calls):
    return ClientApp(lambda context: Adding(context.node_config["partition-id"], calls).to_client())


def weighted(values):
    total = sum(count for count, _ in values)
    names = values[0][1]
    return {name: sum(count * metrics[name] for count, metrics in values) / total for name in names}


class Recording(FedAvg):
    """FedAvg that notes the results and failures of each round."""

    def __init__(self, **options):
        super().__init__(
            initial_parameters=ndarrays_to_parameters([np.zeros(3)]),
            fit_metrics_aggregation_fn=weighted,
            evaluate_metrics_aggregation_fn=weighted,
            evaluate_fn=lambda number, values, config: (0.1 * number, {"accuracy": float(values[0][0])}),
            **options,
        )
        self.counts, self.failures, self.final = [], [], None

    def aggregate_fit(self, server_round, results, failures):
        self.counts.append((len(results), len(failures)))
        self.failures += failures
        parameters, metrics = super().aggregate_fit(server_round, results, failures)
        if parameters is not None:
            self.final = parameters_to_ndarrays(parameters)[0]
        return parameters, metrics


def run_app(folder, strategy, calls, rounds=4, timeout=None, **changes):
    def server_fn(context):
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=rounds, round_timeout=timeout))

    scenario = netfl.load("rural_outage", copy.deepcopy(RURAL) | changes)
    app = ServerApp(server_fn=server_fn)
    return netfl.flower.run(scenario, app, client_of(calls), folder, sizes="scenario", progress=False)


def test_a_round_of_an_older_strategy_is_one_round_of_the_network(tmp_path):
    strategy, calls = Recording(), []
    run = run_app(tmp_path / "run", strategy, calls)
    assert len(run.rounds) == 4
    assert calls == run.deliveries["user"].tolist()
    assert strategy.counts == [(5, 25)] * 4
    assert strategy.final == pytest.approx([4.0] * 3)
    assert "update outstanding when the round closed" in str(strategy.failures[0]) or "not reached" in str(
        strategy.failures[0]
    )


def test_metrics_of_an_older_strategy_are_recorded(tmp_path):
    run = run_app(tmp_path / "run", Recording(), [])
    values = run.metrics.pivot_table(index="round", columns="metric", values="value", observed=True)
    assert set(run.metrics["learner"]) == {"Recording"}
    assert values["accuracy"].to_dict() == pytest.approx({0: 0.0, 1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0})
    assert values["loss"].tolist() == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])
    assert values["clients_accuracy"].dropna().tolist() == pytest.approx([1.0, 2.0, 3.0, 4.0])
    assert values["clients_loss"].dropna().tolist() == [0.5] * 4
    users = run.deliveries.query("round == 1")["user"].to_numpy()
    assert values["train_work"][1] == pytest.approx(np.average(users, weights=users + 1))


def test_metrics_by_group_are_recorded_each(tmp_path):
    def by_parity(values):
        works = {parity: [each["work"] for _, each in values if each["work"] % 2 == parity] for parity in (0, 1)}
        return {"work": {name: sum(works[parity]) for parity, name in enumerate(("even", "odd"))}, "kind": "sums"}

    strategy = Recording()
    strategy.fit_metrics_aggregation_fn = by_parity
    run = run_app(tmp_path / "run", strategy, [], rounds=1)
    rows = run.metrics[run.metrics["metric"] == "train_work"].set_index("group")["value"]
    users = run.deliveries["user"]
    assert rows.to_dict() == {f"item:{name}": users[users % 2 == k].sum() for k, name in enumerate(("even", "odd"))}


def test_clients_that_fail_are_failures(tmp_path):
    calls = []
    plain = run_app(tmp_path / "plain", Recording(), calls)
    user = int(plain.deliveries["user"].iloc[0])
    strategy = Recording(on_fit_config_fn=lambda number: {"failing": user})
    run = run_app(tmp_path / "run", strategy, [])
    assert run.manifest["app_errors"][0] == f"user {user}: ZeroDivisionError: "
    delivered = run.deliveries.groupby("round")["user"].agg(lambda users: 5 - (users == user).sum())
    assert [count for count, _ in strategy.counts] == delivered.tolist()


def test_the_timeout_of_a_round_is_simulated_time(tmp_path):
    strategy = Recording()
    run = run_app(tmp_path / "run", strategy, [], timeout=11.0)
    rows = run.deliveries.merge(run.rounds[["round", "opened_s"]], on="round")
    in_time = (rows["arrived_s"] - rows["opened_s"] <= 11.0).groupby(rows["round"]).sum()
    assert [count for count, _ in strategy.counts] == in_time.tolist()
    assert min(in_time) < 5


def test_clients_can_give_the_initial_parameters(tmp_path):
    class Asking(FedAvg):
        pass

    class Giving(Adding):
        def get_parameters(self, config):
            return [np.full(3, 7.0)]

    client = ClientApp(lambda context: Giving(context.node_config["partition-id"], []).to_client())
    seen = []
    strategy = Asking(evaluate_fn=lambda number, values, config: seen.append(float(values[0][0])))
    app = ServerApp(server_fn=lambda context: ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=2)))
    netfl.flower.run(netfl.load("rural_outage", copy.deepcopy(RURAL)), app, client, tmp_path / "run", progress=False)
    assert seen == [7.0, 8.0, 9.0]
