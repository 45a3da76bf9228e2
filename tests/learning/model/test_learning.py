"""Deep models in the learner: a single user equals SGD, and lanes are independent."""

import numpy as np
import pytest
import torch
from support.learner_factory import a_round, learning_task, spec
from torch import nn

from netfl.learning.data import Dataset
from netfl.learning.learner import BatchedLearner
from netfl.learning.model.cnn import Cnn
from netfl.learning.model.lstm import Lstm
from netfl.learning.model.module import Module
from netfl.learning.model.resnet8 import Resnet8
from netfl.learning.model.svm import Svm
from netfl.learning.objective.cvar import Cvar
from netfl.learning.spec import EvaluateSpec
from netfl.streams import Streams

CLASSES, TOKENS, ROUNDS, EPOCHS, LR = 3, 5, 4, 2, 0.2
CASES = {
    "cnn": (Cnn(channels=(2, 3), hidden=(4,), activation="leaky_relu"), (2, 6, 6), None),
    "lstm": (Lstm(embedding=2, hidden=3), (5,), TOKENS),
    "resnet8": (Resnet8(width=2, groups=1), (2, 6, 6), None),
    "svm": (Svm(), (4,), None),
    "module": (
        Module(module="support.plugin_modules:Small", args={"width": 3, "inputs": 4, "classes": CLASSES}),
        (4,),
        None,
    ),
}


def examples(shape, tokens):
    rng = np.random.default_rng(7)
    x = rng.standard_normal((80, *shape)) if tokens is None else rng.integers(tokens, size=(80, *shape))
    y = rng.integers(CLASSES, size=80)
    return Dataset(x[:60].astype(np.float32), y[:60], x[60:].astype(np.float32), y[60:], CLASSES)


def learner(name, specs, split, replicas=(0,), dtype=torch.float64):
    model, shape, tokens = CASES[name]
    return BatchedLearner(
        learning_task(
            learners=specs,
            model=model,
            datasets=[examples(shape, tokens)] * len(replicas),
            splits=[split] * len(replicas),
            evaluate=EvaluateSpec(every=2),
            rare_classes=(),
            rounds=ROUNDS,
            streams=[Streams(5).at(replica) for replica in replicas],
            device="cpu",
            tokens=tokens,
            dtype=dtype,
        )
    )


class LetterLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(TOKENS, 2), nn.LSTM(2, 3, 2, batch_first=True)
        self.out = nn.Linear(3, CLASSES)

    def forward(self, x):
        return self.out(self.lstm(self.embed(x.long()))[0][:, -1])


def reference(name):
    if name == "lstm":
        return LetterLstm().double()
    layers = [nn.Conv2d(2, 2, 3, padding=1), nn.LeakyReLU(), nn.MaxPool2d(2), nn.Conv2d(2, 3, 3, padding=1)]
    layers += [nn.LeakyReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3, 4), nn.LeakyReLU(), nn.Linear(4, CLASSES)]
    return nn.Sequential(*layers).double()


@pytest.mark.parametrize("name", ["cnn", "lstm"])
def test_one_user_equals_sgd(name):
    batched = learner(name, {"a": spec(lr=LR, batch_size="full", local_steps=3)}, [np.arange(60)])
    module, data = reference(name), examples(*CASES[name][1:])
    nn.utils.vector_to_parameters(torch.tensor(batched.version(0)[:-1]), module.parameters())
    optimiser = torch.optim.SGD(module.parameters(), lr=LR)
    x, y = torch.tensor(data.train_x).double(), torch.tensor(data.train_y)
    for index in range(1, ROUNDS + 1):
        batched.step([a_round(index, (0, index - 1), oldest=index - 1)])
        for _ in range(3):
            optimiser.zero_grad()
            nn.functional.cross_entropy(module(x), y).backward()
            optimiser.step()
    expected = nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
    assert np.abs(batched.version(0)[:-1] - expected).max() < 1e-12
    assert np.abs(expected - learner(name, {"a": spec()}, [np.arange(60)]).version(0)[:-1]).max() > 1e-2


def mixture():
    return {
        "erm": spec(batch_size=4, local_epochs=EPOCHS),
        "risky": spec(Cvar(alpha=0.3, lr_t=0.5), batch_size=4, local_epochs=EPOCHS),
        "drawn": spec(lr=0.02, batch_size=4, local_epochs=EPOCHS, momentum=0.5, weight_decay=0.1),
        "steps": spec(batch_size=7, local_steps=3),
    }


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_lanes_equal_single_runs(name):
    split = [np.arange(0, 23), np.arange(23, 30), np.arange(30, 31), np.arange(31, 60)]

    def round_of(replica, index):
        users = np.random.default_rng((replica, index)).permutation(4)[: 1 + (replica + index) % 3]
        return a_round(index, *((int(user), index - 1) for user in users), oldest=index - 1)

    def run(specs, replicas):
        batched = learner(name, specs, split, replicas)
        for index in range(1, ROUNDS + 1):
            batched.step([round_of(replica, index) for replica in replicas])
        return {lane: batched.version(number) for number, lane in enumerate(batched.lanes)}

    together = run(mixture(), (0, 1))
    assert len(together) == 8
    for name_of_learner, learner_spec in mixture().items():
        for replica in (0, 1):
            ((_, alone),) = run({name_of_learner: learner_spec}, (replica,)).items()
            assert np.abs(together[name_of_learner, replica] - alone).max() < 1e-12
    assert not np.isclose(together["erm", 0], together["steps", 0]).all()
