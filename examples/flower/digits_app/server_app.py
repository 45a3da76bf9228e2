"""The ServerApp: a strategy of Flower, and an evaluation on the test examples of the scenario."""

import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAdam, FedAvg, FedProx, QFedAvg

from digits_app import task
from netfl.flower import evaluation_data

app = ServerApp()


def make_strategy(name, config):
    """Return the strategy of that name; ClientApps do not evaluate."""
    if name == "FedAvg":
        return FedAvg(fraction_evaluate=0.0)
    if name == "FedProx":
        return FedProx(proximal_mu=0.1, fraction_evaluate=0.0)
    if name == "FedAdam":
        return FedAdam(eta=0.01, fraction_evaluate=0.0)
    if name == "QFedAvg":
        return QFedAvg(client_learning_rate=config["learning-rate"], q=0.1, fraction_evaluate=0.0)
    raise ValueError(f"there is no strategy {name}")


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the strategy."""
    config, data = context.run_config, evaluation_data(context)
    rounds, every = config["num-server-rounds"], config["evaluate-every"]

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        if server_round % every and server_round < rounds:
            return None
        net = task.Net()
        task.load_arrays(net, arrays)
        loss, accuracy = task.test(net, data)
        return MetricRecord({"loss": loss, "accuracy": accuracy})

    torch.manual_seed(0)
    make_strategy(config["strategy"], config).start(
        grid=grid,
        initial_arrays=ArrayRecord(task.arrays_of(task.Net())),
        num_rounds=rounds,
        timeout=3600,
        evaluate_fn=evaluate,
    )
