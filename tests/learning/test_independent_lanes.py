"""Random runs: whatever learns beside a lane, it is as if it were alone; and whenever it stops, as if it had not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.learner_factory import learning_task

from netfl.learning import checkpoint_file
from netfl.learning.aggregation.afl import Afl
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.average_all import AverageAll
from netfl.learning.aggregation.fedadam import Fedadam
from netfl.learning.aggregation.fedasync import Fedasync
from netfl.learning.aggregation.fedau import Fedau
from netfl.learning.aggregation.fedavgm import Fedavgm
from netfl.learning.aggregation.fedbuff import Fedbuff
from netfl.learning.aggregation.fedvarp import Fedvarp
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.aggregation.qfedavg import Qfedavg
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.data import Dataset, Examples
from netfl.learning.data._images import Augment
from netfl.learning.learner import BatchedLearner
from netfl.learning.model.cnn import Cnn
from netfl.learning.model.logistic import Logistic
from netfl.learning.model.lstm import Lstm
from netfl.learning.model.mlp import Mlp
from netfl.learning.model.svm import Svm
from netfl.learning.objective.cvar import Cvar
from netfl.learning.objective.erm import Erm
from netfl.learning.objective.proximal import Proximal
from netfl.learning.objective.tilted import Tilted
from netfl.learning.schedule.constant import Constant
from netfl.learning.schedule.halving import Halving
from netfl.learning.schedule.step import Step
from netfl.learning.sharding import merge_states, shard_lanes, split_state
from netfl.learning.spec import EvaluateSpec, LearnerSpec
from netfl.streams import Streams
from netfl.types import Delivery, Round

CLASSES, TOKENS, ROUNDS = 3, 7, 6
MODELS = {
    "mlp": (Mlp(hidden=(4,), activation="tanh"), (3,)),
    "deep": (Mlp(hidden=(4, 3), activation="leaky_relu", output="softmax"), (3,)),
    "logistic": (Logistic(), (3,)),
    "svm": (Svm(), (3,)),
    "cnn": (Cnn(channels=(2,), kernel=3, padding=1, hidden=(4,)), (1, 4, 4)),
    "moved cnn": (Cnn(channels=(2,), kernel=3, padding=1), (2, 4, 4)),
    "lstm": (Lstm(embedding=2, hidden=3, layers=2), (4,)),
}
OBJECTIVES = [
    Erm(),
    Cvar(alpha=0.3, gamma=0.2, lr_t=0.1),
    Cvar(alpha=0.6, lr_t=0.3),
    Cvar(alpha=0.3, gamma=0.1, lr_t=0.2, per="sample"),
    Proximal(mu=0.6),
    Tilted(tau=1.5),
    Tilted(tau=-0.7),
]
RULES = [
    Average(),
    Average(weights="equal", server_lr=1.3),
    AverageAll(server_lr=2),
    Fedau(cutoff=3),
    Fedbuff(server_lr=0.8),
    Fedasync(alpha=0.6, staleness="hinge", a=0.5, b=1),
    Mifa(),
    Fedvarp(),
    Qfedavg(q=0.7),
    Afl(lr_lambda=0.3),
    Scaffold(server_lr=0.9),
    Fedavgm(momentum=0.5, inner=Scaffold()),
    Fedadam(server_lr=0.02, inner=Mifa()),
    Fedadam(server_lr=0.05, inner=Qfedavg(q=1)),
]
SCHEDULES = [Constant(), Constant(), Halving(every=2), Step(milestones=(1, 4), factor=0.3)]
METRICS = ("staleness", "weight", "gradient_norm", "weight_divergence", "validation")


def spec(rng):
    rule = RULES[rng.integers(len(RULES))]
    steps = bool(rng.integers(2))
    return LearnerSpec(
        objective=OBJECTIVES[rng.integers(len(OBJECTIVES))],
        aggregation=rule,
        schedule=SCHEDULES[rng.integers(len(SCHEDULES))],
        lr=float(rng.choice([0.03, 0.1, 0.2])),
        momentum=0.0 if "Scaffold" in repr(rule) else float(rng.choice([0.0, 0.5, 0.9])),
        weight_decay=float(rng.choice([0.0, 0.1])),
        batch_size="full" if rng.random() < 0.2 else int(rng.integers(1, 9)),
        local_steps=int(rng.integers(1, 6)) if steps else None,
        local_epochs=None if steps else int(rng.integers(1, 3)),
    )


def dataset(rng, name, shape):
    def some(count):
        if name == "lstm":
            return rng.integers(TOKENS, size=(count, *shape))
        return rng.standard_normal((count, *shape)).astype(np.float32)

    def labels(count):
        return rng.integers(CLASSES, size=count)

    augment = Augment(crop=1) if name == "moved cnn" else None
    return Dataset(some(60), labels(60), some(25), labels(25), CLASSES, augment=augment)


def trace(rng, users):
    """Nobody, users twice, stale bases; the oldest base that is still wanted is said as an access would say it."""
    lines = []
    for index in range(1, ROUNDS + 1):
        heard = rng.integers(users, size=rng.integers(0, 5) * (rng.random() < 0.8))
        lines.append([(int(user), int(rng.integers(max(0, index - 4), index))) for user in heard])
    rounds = []
    for index, own in enumerate(lines, 1):
        needed = {base for later in lines[index:] for _, base in later if base < index}
        heard = tuple(Delivery(user, base, 0.0, 1.0) for user, base in own)
        oldest = min(needed, default=index)
        told = tuple(sorted(needed)) if rng.random() < 0.5 else None
        rounds.append(Round(index, index - 1.0, float(index), heard, oldest, needed=told))
    return rounds


class World:
    """Replicas with data, users and rounds of their own, and some learners."""

    def __init__(self, seed, name=None, users=None):
        rng = np.random.default_rng(seed)
        self.name = name or [*MODELS][seed % len(MODELS)]
        self.model, shape = MODELS[self.name]
        self.replicas = int(rng.integers(1, 4))
        count = users or int(rng.integers(2, 7))
        self.specs = {f"l{number}": spec(rng) for number in range(rng.integers(2, 6))}
        shared = dataset(rng, self.name, shape)
        self.data = [shared if rng.random() < 0.5 else dataset(rng, self.name, shape) for _ in range(self.replicas)]
        self.splits, self.validation = [], []
        for data in self.data:
            cuts = np.sort(rng.choice(np.arange(1, 50), count - 1, replace=False))
            self.splits.append(np.split(rng.permutation(60)[:50], cuts))
            rows = np.arange(10)
            self.validation.append(Examples(data.test_x[rows], data.test_y[rows], rows % count))
        self.rounds = [trace(rng, count) for _ in range(self.replicas)]
        self.streams = [Streams(seed).at("learning", replica) for replica in range(self.replicas)]

    def learner(self, names=None, replicas=None, dtype=torch.float64, team=()):
        names, replicas = names or [*self.specs], range(self.replicas) if replicas is None else replicas
        return BatchedLearner(
            learning_task(
                learners={name: self.specs[name] for name in names},
                model=self.model,
                datasets=[self.data[one] for one in replicas],
                splits=[self.splits[one] for one in replicas],
                evaluate=EvaluateSpec(every=2, metrics=METRICS),
                rare_classes=(1,),
                validation=[self.validation[one] for one in replicas],
                rounds=ROUNDS,
                streams=[self.streams[one] for one in replicas],
                device="cpu",
                first=replicas[0],
                tokens=TOKENS if self.name == "lstm" else None,
                dtype=dtype,
                all_learners=team,
            )
        )

    def at(self, index, replicas=None):
        return [self.rounds[one][index - 1] for one in (range(self.replicas) if replicas is None else replicas)]


def play(world, learner, begin=1, end=ROUNDS, replicas=None):
    """Reports and versions of rounds *begin* … *end*."""
    told = []
    for index in range(begin, end + 1):
        report = learner.step(world.at(index, replicas))
        told.append((report.metrics, np.array([learner.version(lane) for lane in range(len(learner.lanes))])))
    return told


def near(found, expected, tolerance):
    assert np.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True), (found, expected)


def alone_equals_together(seed, dtype=torch.float64, tolerance=1e-12):
    world = World(seed)
    whole = world.learner(dtype=dtype)
    started, told = whole.start().metrics, play(world, whole)
    for lane, (name, replica) in enumerate(whole.lanes):
        one = world.learner([name], [replica], dtype)
        first = one.start().metrics
        for metric in first:
            near(started[metric][lane], first[metric][0], tolerance * 10)
        for (metrics, versions), (own, version) in zip(told, play(world, one, replicas=[replica]), strict=True):
            near(versions[lane], version[0], tolerance)
            assert own.keys() <= metrics.keys()
            for metric, values in own.items():
                near(metrics[metric][lane], values[0], tolerance * 10)


@pytest.mark.parametrize("seed", range(7))
@pytest.mark.quick_first
def test_lanes_of_all_sorts_are_what_each_is_alone(seed):
    alone_equals_together(seed)


@pytest.mark.parametrize("seed", range(100, 103))
@pytest.mark.quick_first
def test_so_they_are_in_single_precision(seed):
    alone_equals_together(seed, torch.float32, 2e-4)


@pytest.mark.parametrize("seed", range(200, 205))
@pytest.mark.quick_first
def test_stopping_anywhere_changes_nothing(seed, tmp_path):
    world = World(seed)
    whole = world.learner()
    expected = play(world, whole)
    for stop in (1, 4):
        begun, rest = world.learner(), world.learner()
        play(world, begun, 1, stop)
        own = {"round": stop, "digest": "", "reports": [], "answers": {}, "learner": begun.state()}
        with (tmp_path / "c.pt").open("wb") as file:
            checkpoint_file.save(file, own)
        rest.restore(checkpoint_file.load(tmp_path / "c.pt")["learner"])
        for (metrics, versions), (other, others) in zip(play(world, rest, stop + 1), expected[stop:], strict=True):
            assert np.array_equal(versions, others)
            assert metrics.keys() == other.keys()
            for name, values in metrics.items():
                assert np.array_equal(values, other[name], equal_nan=True), name


@pytest.mark.parametrize("seed", [300, 303, 305, 306])
@pytest.mark.slow
def test_parts_of_the_lanes_go_on_from_the_whole_and_the_whole_from_them(seed):
    world = World(seed)
    expected = play(world, world.learner())
    rng = np.random.default_rng(seed)
    begun = world.learner()
    play(world, begun, 1, 2)
    names, state = [*world.specs], begun.state()
    parts = shard_lanes(len(names), world.replicas, int(rng.integers(2, 6)))
    states = []
    for part in parts:
        own = world.learner([names[one] for one in part.learners], part.replicas, team=tuple(world.specs.values()))
        own.restore(split_state(state, part, world.replicas))
        play(world, own, 3, 4, part.replicas)
        states.append(own.state())
    rest = world.learner()
    rest.restore(merge_states(states, parts, world.replicas))
    for (metrics, versions), (other, others) in zip(play(world, rest, 5), expected[4:], strict=True):
        near(versions, others, 1e-12)
        for name, values in metrics.items():
            near(values, other[name], 1e-11)
