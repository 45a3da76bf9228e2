"""Small learners, rounds to train on, and their model in plain PyTorch."""

import io

import numpy as np
import torch
from torch import nn

from netfl.learning.aggregation.average import Average
from netfl.learning.cohort import Cohort
from netfl.learning.data import Dataset
from netfl.learning.learner import BatchedLearner, LearningTask
from netfl.learning.model.mlp import Mlp
from netfl.learning.objective.cvar import Cvar
from netfl.learning.objective.erm import Erm
from netfl.learning.sharding import merge_states, shard_lanes, split_state
from netfl.learning.spec import EvaluateSpec, LearnerSpec
from netfl.learning.user_data import ReplicaData
from netfl.streams import Streams
from netfl.types import Delivery, Round

CLASSES, USERS = 3, 4
SPLIT = [np.arange(0, 23), np.arange(23, 30), np.arange(30, 31), np.arange(31, 90)]
TANH = Mlp(hidden=(5,), activation="tanh")


def examples(seed=0):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((120, 2)).astype(np.float32), rng.integers(CLASSES, size=120)
    return Dataset(x[:90], y[:90], x[90:], y[90:], CLASSES)


DATA = examples()


def spec(objective=None, aggregation=None, lr=0.05, batch_size=8, **amount):
    return LearnerSpec(
        objective=objective or Erm(),
        aggregation=aggregation or Average(),
        lr=lr,
        batch_size=batch_size,
        **(amount or {"local_epochs": 2}),
    )


def read_back(state):
    """Return a state of a learner as a file gives it back."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def split_and_merged(state, specs, replicas, parts):
    """Return a state of a learner that went to *parts* workers and came back."""
    shards = shard_lanes(specs, replicas, parts)
    return merge_states([split_state(state, shard, replicas) for shard in shards], shards, replicas)


def learning_task(*, datasets, splits, streams, validation=(), first=0, **options):
    """Return a task whose replicas are given as columns."""
    columns = zip(datasets, splits, streams, validation or [None] * len(splits), strict=True)
    replicas = [ReplicaData(number, *parts) for number, parts in enumerate(columns, start=first)]
    return LearningTask(replicas=replicas, **options)


def draw_batches(sampler, rows, work, repeats=None):
    """Return the mini-batches of users given as rows of (replica, user, base, size)."""
    replicas, users, bases, sizes = np.array(rows).T
    return sampler.draw(Cohort(replicas, users, bases, (), repeats), sizes, work)


def learner(specs, replicas=(0,), model=TANH, datasets=None, dtype=torch.float64, **changes):
    settings = {
        "learners": specs,
        "model": model,
        "datasets": datasets or [DATA] * len(replicas),
        "splits": [SPLIT] * len(replicas),
        "evaluate": EvaluateSpec(every=3),
        "rare_classes": (2,),
        "rounds": 7,
        "streams": [Streams(5).at(replica) for replica in replicas],
        "device": "cpu",
        "dtype": dtype,
    }
    return BatchedLearner(learning_task(**(settings | changes)))


def a_round(index, *deliveries, oldest=0):
    """Return a round with deliveries given as (user, base)."""
    deliveries_ = tuple(Delivery(user=user, base=base, sent_s=0.0, arrived_s=1.0) for user, base in deliveries)
    return Round(index=index, opened_s=index - 1.0, closed_s=float(index), deliveries=deliveries_, oldest=oldest)


def network(replica, rounds=6):
    """Yield random rounds with several deliveries, old base versions and some empty rounds."""
    rng = np.random.default_rng(replica)
    for index in range(1, rounds + 1):
        users = rng.permutation(USERS)[: rng.integers(0, USERS)]
        yield a_round(index, *((int(user), int(rng.integers(max(0, index - 3), index))) for user in users))


def mixture():
    """Return learners of several groups, one of which has two objectives."""
    return {
        "erm": spec(),
        "cvar": spec(Cvar(alpha=0.3, gamma=0.2, lr_t=0.1)),
        "erm fast": spec(lr=0.2, aggregation=Average(weights="equal")),
        "cvar steps": spec(Cvar(alpha=0.5, lr_t=0.05), local_steps=5),
        "cvar risky": spec(Cvar(alpha=0.1, lr_t=0.2)),
        "full": spec(batch_size="full", local_steps=3),
    }


def torch_model(theta, output="logits", activation=nn.Tanh):
    layers = [nn.Linear(2, 5), activation(), nn.Linear(5, CLASSES)] + [nn.Softmax(1)] * (output == "softmax")
    module = nn.Sequential(*layers).double()
    nn.utils.vector_to_parameters(torch.tensor(theta), module.parameters())
    return module


def flat(module):
    """Return all parameters of *module* as one vector."""
    return torch.cat([part.detach().flatten() for part in module.parameters()])


def stored(stack, like):
    """Return the parameters of *stack*, in the shape of *like*."""
    buffer = torch.empty_like(like)
    stack.store(buffer)
    return buffer
