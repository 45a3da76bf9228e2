"""The ClientApp: it trains on the examples that the scenario gives to the user."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits_app import task
from netfl.flower import user_data

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model of the message, and return it."""
    net, data, config = task.Net(), user_data(context), context.run_config
    task.load_arrays(net, message.content["arrays"])
    options = message.content["config"]
    generator = torch.Generator().manual_seed(options["server-round"] * 10_000 + context.node_config["partition-id"])
    loss = task.train(
        net,
        data,
        config["local-epochs"],
        config["batch-size"],
        config["learning-rate"],
        options.get("proximal-mu", 0.0),
        generator,
    )
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(data.y)})
    return Message(RecordDict({"arrays": ArrayRecord(task.arrays_of(net)), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the model of the message on the examples of the user."""
    net, data = task.Net(), user_data(context)
    task.load_arrays(net, message.content["arrays"])
    loss, accuracy = task.test(net, data)
    metrics = MetricRecord({"loss": loss, "accuracy": accuracy, "num-examples": len(data.y)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
