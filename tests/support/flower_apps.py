"""Flower apps for tests: a ClientApp that counts its calls, and ServerApps with given strategies."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="netfl-sim[flower] is not installed")

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

START = np.zeros((4, 5), np.float32)
"""The initial array of the model."""


def arrays(*values):
    """Return an `ArrayRecord` of float32 arrays."""
    return ArrayRecord([np.asarray(value, np.float32) for value in values])


def adding_client(step=1.0, size=None):
    """Return a ClientApp that adds *step* to every number, and the list of the users that it ran for.

    A user counts its calls in its context.  With *size*, replies have a second array of so many numbers.
    """
    app, calls = ClientApp(), []

    @app.train()
    def train(message, context):
        user = context.node_config["partition-id"]
        calls.append(user)
        count = context.state.metric_records.get("calls", MetricRecord({"count": 0}))["count"] + 1
        context.state["calls"] = MetricRecord({"count": count})
        (value,) = message.content["arrays"].to_numpy_ndarrays()[:1]
        more = [] if size is None else [np.zeros(size)]
        metrics = MetricRecord({"num-examples": user + 1, "train_loss": 0.5, "calls": count})
        return Message(RecordDict({"arrays": arrays(value + step, *more), "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        metrics = MetricRecord({"num-examples": 1, "accuracy": 0.25})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    @app.query()
    def query(message, context):
        metrics = MetricRecord({"user": context.node_config["partition-id"]})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app, calls


def server_of(strategy, rounds, *, timeout=1e9, evaluate=None, start=START):
    """Return a ServerApp that runs *strategy*, and the list that receives its result."""
    app, results = ServerApp(), []

    @app.main()
    def main(grid, context):
        results.append(strategy.start(grid, arrays(start), num_rounds=rounds, timeout=timeout, evaluate_fn=evaluate))

    return app, results


def averaging(**options):
    """Return Flower's FedAvg without an evaluation by ClientApps."""
    return FedAvg(**{"fraction_evaluate": 0.0, "min_train_nodes": 1, "min_available_nodes": 1, **options})
