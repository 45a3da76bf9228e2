"""Apps over a network that loses nothing give the weights and bits that they have without one.

Compared are apps that leave the usual path: pushes, bytes, contexts with a state, secure aggregation.
"""

from copy import deepcopy

import numpy as np
import pytest

pytestmark = pytest.mark.extra
pytest.importorskip("flwr", reason="netfl-sim[flower] is not installed")

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg as LegacyFedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from support.small_network import PLAIN

from netfl.flower import NetworkGrid
from netfl.flower.grid import FIRST_NODE
from netfl.flower.message_sizes import message_bits
from netfl.flower.versions import task_identity

USERS = 4
DIRECT = {"kind": "bernoulli", "probability": 1.0}
NETWORK = PLAIN | {"kind": "network", "round": {"kind": "first", "m": USERS}, "compute": {"speed": 2.0, "samples": 1}}


class PlainGrid:
    """A grid without a network, on which each node answers each message in turn, as in Flower's simulation."""

    def __init__(self, client_app):
        self._client_app = client_app
        self._contexts = {
            FIRST_NODE + user: Context(1, FIRST_NODE + user, {"partition-id": user}, RecordDict(), {})
            for user in range(USERS)
        }
        self._replies, self.train_bits, self._count = {}, [], 0
        self.run = type("Run", (), {"run_id": 1})()

    def get_node_ids(self):
        return [*self._contexts]

    def push_messages(self, messages):
        numbers, bits = [], 0.0
        for message in messages:
            self._count += 1
            message.metadata.__dict__["_message_id"] = str(self._count)
            reply = deepcopy(self._client_app(deepcopy(message), self._contexts[message.metadata.dst_node_id]))
            self._replies[str(self._count)] = reply
            bits += message_bits(reply) if message.metadata.message_type.startswith("train") else 0.0
            numbers.append(str(self._count))
        if bits:
            self.train_bits.append(bits)
        return numbers

    def pull_messages(self, numbers):
        return [self._replies.pop(number) for number in numbers if number in self._replies]

    def send_and_receive(self, messages, *, timeout=None):
        return self.pull_messages(self.push_messages(messages))


def vertical():
    """Return an app whose server pushes gradients, and asks for embeddings; the weights stay at the clients."""
    client = ClientApp()

    @client.query()
    def embed(message, context):
        weight = context.state.array_records.get("w", ArrayRecord([np.ones(2)])).to_numpy_ndarrays()[0]
        return Message(RecordDict({"e": ArrayRecord([weight * context.node_config["partition-id"]])}), reply_to=message)

    @client.train()
    def step(message, context):
        weight = context.state.array_records.get("w", ArrayRecord([np.ones(2)])).to_numpy_ndarrays()[0]
        context.state["w"] = ArrayRecord([weight - message.content["g"].to_numpy_ndarrays()[0]])
        return Message(RecordDict(), reply_to=message)

    def main(grid, context):
        for _ in range(3):
            asked = [Message(RecordDict(), node, "query") for node in grid.get_node_ids()]
            embeddings = {
                reply.metadata.src_node_id: reply.content["e"].to_numpy_ndarrays()[0]
                for reply in grid.send_and_receive(asked)
            }
            total = sum(embeddings.values())
            grid.push_messages(
                [Message(RecordDict({"g": ArrayRecord([0.1 * total])}), node, "train") for node in embeddings]
            )
        return total

    return main, client


def bytes_only():
    """Return an app whose model is bytes that grow, in a ConfigRecord, more for users of higher numbers."""
    client = ClientApp()

    @client.train()
    def train(message, context):
        model = message.content["model"]["bytes"] + bytes([context.node_config["partition-id"]] * 50)
        model += bytes(10 * context.node_config["partition-id"])
        return Message(RecordDict({"model": ConfigRecord({"bytes": model})}), reply_to=message)

    def main(grid, context):
        model = b""
        for _ in range(3):
            record = RecordDict({"model": ConfigRecord({"bytes": model})})
            replies = grid.send_and_receive([Message(record, node, "train") for node in grid.get_node_ids()])
            model = max(reply.content["model"]["bytes"] for reply in replies)
        return np.frombuffer(model, np.uint8)

    return main, client


def personal():
    """Return an app in which a part of the model stays in the context of each node."""
    client = ClientApp()

    @client.train()
    def train(message, context):
        mine = context.state.metric_records.get("mine", MetricRecord({"x": 0.0}))["x"] + 1.0
        context.state["mine"] = MetricRecord({"x": mine})
        shared = message.content["arrays"].to_numpy_ndarrays()[0] * 0.5 + mine
        return Message(RecordDict({"arrays": ArrayRecord([shared])}), reply_to=message)

    def main(grid, context):
        model = np.zeros(3)
        for _ in range(4):
            record = RecordDict({"arrays": ArrayRecord([model])})
            replies = grid.send_and_receive([Message(record, node, "train") for node in grid.get_node_ids()])
            model = np.mean([reply.content["arrays"].to_numpy_ndarrays()[0] for reply in replies], axis=0)
        return model

    return main, client


class Adding(NumPyClient):
    def __init__(self, user):
        self._user = user

    def fit(self, parameters, config):
        return [value + 0.1 * self._user for value in parameters], 10 + self._user, {}


def secure():
    """Return an app whose updates are masked, and aggregated in four exchanges."""
    client = ClientApp(lambda context: Adding(context.node_config["partition-id"]).to_client(), mods=[secaggplus_mod])

    def main(grid, context):
        class Keeping(LegacyFedAvg):
            def aggregate_fit(self, server_round, results, failures):
                self.parameters, metrics = super().aggregate_fit(server_round, results, failures)
                return self.parameters, metrics

        strategy = Keeping(fraction_evaluate=0.0, initial_parameters=ndarrays_to_parameters([np.zeros(200)]))
        legacy = LegacyContext(context, config=ServerConfig(num_rounds=2), strategy=strategy)
        workflow = SecAggPlusWorkflow(num_shares=3, reconstruction_threshold=2, max_weight=100)
        DefaultWorkflow(fit_workflow=workflow)(grid, legacy)
        return parameters_to_ndarrays(strategy.parameters)[0]

    return main, client


@pytest.mark.parametrize("access", [DIRECT, NETWORK], ids=["direct", "network"])
@pytest.mark.parametrize("app", [vertical, bytes_only, personal, secure])
def test_weights_and_bits_are_those_without_a_network(app, access):
    main, client = app()
    plain = PlainGrid(client)
    with task_identity(1, 1):
        expected = main(plain, Context(1, 0, {}, RecordDict(), {}))

    main, client = app()
    scenario = {"name": "lossless", "users": USERS, "rounds": 20, "access": deepcopy(access)}
    rounds = []
    with NetworkGrid(scenario, client, max_update_bits=1e5) as grid:
        grid._observer.after_round = rounds.append
        weights = main(grid, grid.server_context())
        grid.finish()
    assert weights == pytest.approx(expected, abs=1e-4 if app is secure else 1e-12)
    bits = [each.uplink_bits for each in rounds]
    assert bits == pytest.approx(plain.train_bits, rel=0.02 if app is secure else 1e-12)  # keys differ by some bytes
    assert not grid.clients.errors
