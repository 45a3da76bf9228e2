"""Time per round of Flower's FedAvg on netfl's grid, beside Flower's own simulation with Ray, in one run.

All run the same ServerApp and the same ClientApp: a convolutional net with batch normalisation, which trains two
passes over the digits of its user.  The strategy samples all 30 nodes in each round:

- *netfl, lazy*: the network of `rural_outage`, whose rounds close with the first update: one ClientApp a round.
- *netfl, all*: a network that delivers all updates, to compare the cost of as many trainings.
- *plain loop*: the same trainings without any grid or network.
- *Flower, Ray*: `flwr.simulation.run_simulation`, which trains on all nodes.

A round is the time between two evaluations at the server, which take no time here; the median counts.

    python benchmarks/flower.py --rounds 20
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from torch import nn
from torch.nn.functional import cross_entropy

import netfl
import netfl.flower
from netfl.simulation.setup import prepare_run

USERS, EPOCHS, BATCH, RATE = 30, 2, 16, 0.05
QUICK = {"partition.by": "distance", "record": "none", "tuning": None, "evaluate.validation": None}
AVERAGE = {"objective": "erm", "aggregation": "average", "local_epochs": EPOCHS, "batch_size": BATCH, "lr": RATE}
EVERYBODY = {
    "access": {"kind": "bernoulli", "probability": 1.0}, "partition": "iid", "learners": {"FedAvg": AVERAGE},
}  # fmt: skip


def make_net() -> nn.Module:
    """Return the net."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(64, 10),
    )  # fmt: skip


def train(state: dict[str, torch.Tensor], x: np.ndarray, y: np.ndarray) -> dict[str, torch.Tensor]:
    """Train the net from *state*, and return its new state."""
    net = make_net()
    net.load_state_dict(state)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    for _ in range(EPOCHS):
        for rows in torch.arange(len(y)).split(BATCH):
            if len(rows) > 1:
                optimizer.zero_grad()
                cross_entropy(net(torch.from_numpy(x)[rows]), torch.from_numpy(y)[rows]).backward()
                optimizer.step()
    return net.state_dict()


def client_of(file: str) -> ClientApp:
    """Return the ClientApp; the examples of user k are the arrays ``x<k>`` and ``y<k>`` of *file*."""
    app = ClientApp()

    @app.train()
    def run(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)
        user = context.node_config["partition-id"]
        with np.load(file) as arrays:
            x, y = arrays[f"x{user}"], arrays[f"y{user}"]
        state = train(message.content["arrays"].to_torch_state_dict(), x, y)
        metrics = MetricRecord({"num-examples": len(y)})
        return Message(RecordDict({"arrays": ArrayRecord(state), "metrics": metrics}), reply_to=message)

    return app


def server_of(rounds: int, times: list[float]) -> ServerApp:
    """Return the ServerApp, which notes the time of each evaluation."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        def evaluate(server_round: int, arrays: ArrayRecord) -> None:
            times.append(time.perf_counter())

        initial = ArrayRecord(make_net().state_dict())
        FedAvg(fraction_evaluate=0.0).start(grid, initial, num_rounds=rounds, timeout=1e9, evaluate_fn=evaluate)

    return app


def median_s(times: list[float]) -> float:
    """Return the median time of a round, without the first, which loads modules."""
    return statistics.median(np.diff(times)[1:])


def on_netfl(changes: dict[str, Any]) -> Callable[[int, str], float]:
    """Return a function that measures netfl's grid on `rural_outage` with *changes*."""

    def measure(rounds: int, file: str) -> float:
        times: list[float] = []
        overrides = QUICK | {"rounds": rounds} | changes
        if "partition" in changes:
            overrides.pop("partition.by")
        scenario = netfl.load("rural_outage", overrides)
        with tempfile.TemporaryDirectory() as folder:
            apps = server_of(rounds, times), client_of(file)
            netfl.flower.run(scenario, *apps, Path(folder) / "run", progress=False)
        return median_s(times)

    return measure


def on_ray(rounds: int, file: str) -> float:
    """Measure Flower's own simulation."""
    from flwr.simulation import run_simulation

    times: list[float] = []
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": os.cpu_count()}}
    run_simulation(server_of(rounds, times), client_of(file), USERS, backend_config=resources)
    return median_s(times)


def in_a_loop(rounds: int, file: str) -> float:
    """Measure the trainings of all users alone."""
    torch.set_num_threads(1)
    state, times = make_net().state_dict(), []
    with np.load(file) as arrays:
        data = [(arrays[f"x{user}"], arrays[f"y{user}"]) for user in range(USERS)]
    for _ in range(rounds + 1):
        times.append(time.perf_counter())
        for x, y in data:
            train(state, x, y)
    return median_s(times)


def main() -> None:
    """Measure all, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    setup = prepare_run(netfl.load("rural_outage", QUICK), replicas=range(1))
    dataset = setup.dataset
    assert dataset is not None
    cases: dict[str, tuple[int, Callable[[int, str], float]]] = {
        "Flower, Ray": (USERS, on_ray),
        "netfl, lazy": (1, on_netfl({})),
        "netfl, all": (USERS, on_netfl(EVERYBODY)),
        "plain loop": (USERS, in_a_loop),
    }
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "users.npz")
        named = {f"x{user}": dataset.train_x[rows] for user, rows in enumerate(setup.splits[0])}
        np.savez(file, **named, **{f"y{user}": dataset.train_y[rows] for user, rows in enumerate(setup.splits[0])})
        seconds = {name: measure(options.rounds, file) for name, (_, measure) in cases.items()}
    print(f"{'':12} {'trained':>8} {'s/round':>9} {'of Ray':>8}")
    for name, (trained, _) in cases.items():
        print(f"{name:12} {trained:8} {seconds[name]:9.4f} {seconds[name] / seconds['Flower, Ray']:8.3f}")


if __name__ == "__main__":
    main()
