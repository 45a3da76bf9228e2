"""Flower's FedAvg over a network equals netfl's learner, when ClientApps do the same local work on the same trace."""

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.extra
pytest.importorskip("flwr", reason="netfl-sim[flower] is not installed")

import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

import netfl
import netfl.flower
from netfl.learning.cohort import Cohort
from netfl.learning.minibatches import BatchSampler
from netfl.learning.spec import LocalWork
from netfl.streams import Streams
from netfl.types import Delivery, Round

BATCH, EPOCHS, RATE = 16, 5, 0.05
LEARNER = {"objective": "erm", "local_epochs": EPOCHS, "batch_size": BATCH, "lr": RATE}
ONE = {"access.round": {"kind": "first", "m": 1}, "learners": {"FedAvg": LEARNER | {"aggregation": "relay"}}}
SEVERAL = {"access.round": {"kind": "first", "m": 4}, "learners": {"FedAvg": LEARNER | {"aggregation": "average"}}}


def scenario_of(changes, rounds):
    model = {"kind": "mlp", "hidden": [32]}
    common = {"rounds": rounds, "partition.by": "distance", "evaluate": {"every": 1}, "tuning": None, "record": "all"}
    everyone = {"access.selection": "all"}  # as FedAvg samples all nodes
    return netfl.load("rural_outage", common | everyone | {"model": model} | changes)


def forward(parameters, x):
    """A network with one hidden layer."""
    w1, b1, w2, b2 = parameters
    return torch.relu(x @ w1.T + b1) @ w2.T + b2


def client_of(scenario):
    """A ClientApp that does the local work of netfl's learner in plain torch, with its mini-batches."""
    app, sampler = ClientApp(), BatchSampler([Streams(scenario.seed).at("replica", 0, "learning")])

    @app.train()
    def train(message, context):
        data, base = netfl.flower.user_data(context), message.content["config"]["server-round"] - 1
        delivery = Delivery(user=context.node_config["partition-id"], base=base, sent_s=0.0, arrived_s=0.0)
        cohort = Cohort.of([Round(index=base + 1, opened_s=0.0, closed_s=0.0, deliveries=(delivery,), oldest=0)])
        batches = sampler.draw(cohort, np.array([len(data.y)]), LocalWork(BATCH, EPOCHS, None))
        x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
        arrays = message.content["arrays"].to_numpy_ndarrays()
        parameters = [torch.tensor(array, requires_grad=True) for array in arrays]
        for places, count in zip(batches.places[0], batches.counts[0], strict=True):
            rows = places[:count]
            loss = torch.nn.functional.cross_entropy(forward(parameters, x[rows].flatten(1)), y[rows])
            gradients = torch.autograd.grad(loss, parameters)
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.sub_(RATE * gradient)
        record = ArrayRecord([parameter.detach().numpy() for parameter in parameters])
        metrics = MetricRecord({"num-examples": len(data.y)})
        return Message(RecordDict({"arrays": record, "metrics": metrics}), reply_to=message)

    return app


def server_of(scenario, rounds):
    """A ServerApp with Flower's FedAvg, which starts from the model that netfl starts from."""
    app = ServerApp()

    @app.main()
    def main(grid, context):
        data = netfl.flower.evaluation_data(context)
        x, y = torch.from_numpy(data.x).flatten(1), torch.from_numpy(data.y)
        architecture = scenario.model.open(data.x.shape[1:], 10, None)
        flat = architecture.start(Streams(scenario.seed).at("replica", 0, "learning", "start")).astype(np.float32)
        shapes = architecture.layout.values()
        parts = np.split(flat, np.cumsum([np.prod(shape, dtype=int) for shape in shapes])[:-1])

        def evaluate(server_round, arrays):
            scores = forward([torch.from_numpy(part) for part in arrays.to_numpy_ndarrays()], x)
            loss = torch.nn.functional.cross_entropy(scores, y).item()
            return MetricRecord({"accuracy": (scores.argmax(1) == y).double().mean().item(), "loss": loss})

        initial = ArrayRecord([part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)])
        FedAvg(fraction_evaluate=0.0).start(grid, initial, num_rounds=rounds, timeout=1e9, evaluate_fn=evaluate)

    return app


def run_both(changes, rounds, folder, sizes="scenario"):
    scenario = scenario_of(changes, rounds)
    own = netfl.run(scenario, folder / "own", device="cpu", progress=False)
    apps = server_of(scenario, rounds), client_of(scenario)
    return own, netfl.flower.run(scenario, *apps, folder / "flower", sizes=sizes, progress=False)


def metric_of(run, metric):
    rows = run.metrics[(run.metrics["metric"] == metric) & (run.metrics["group"] == "")]
    return rows.set_index("round")["value"]


@pytest.mark.parametrize(
    ("changes", "rounds"),
    [(ONE, 40), (SEVERAL, 40), pytest.param(ONE, 300, marks=pytest.mark.slow)],
)
def test_fedavg_equals_netfls_learner_round_by_round(changes, rounds, tmp_path):
    own, flower = run_both(changes, rounds, tmp_path)
    for table in ("rounds", "deliveries", "events", "users", "nodes"):
        pd.testing.assert_frame_equal(own.table(table), flower.table(table), check_exact=True)
    assert len(metric_of(flower, "accuracy")) == rounds + 1
    pd.testing.assert_series_equal(metric_of(own, "loss"), metric_of(flower, "loss"), rtol=1e-5)
    difference = (metric_of(own, "accuracy") - metric_of(flower, "accuracy")).abs()
    assert difference.max() <= 1 / 360 + 1e-9  # one test example, whose two best scores tie within a float32
    assert (difference == 0).mean() >= 0.99
    assert metric_of(own, "accuracy").iloc[-1] > 0.5
