"""Random setups: each lane equals a run of its own, and a stop at any round changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.learner_factory import learning_task

from netfl.learning import checkpoint_file
from netfl.learning.aggregation.afl import Afl
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.average_all import AverageAll
from netfl.learning.aggregation.ca_fed import CaFed
from netfl.learning.aggregation.climb import Climb
from netfl.learning.aggregation.f3ast import F3ast
from netfl.learning.aggregation.fedadam import Fedadam
from netfl.learning.aggregation.fedasync import Fedasync
from netfl.learning.aggregation.fedau import Fedau
from netfl.learning.aggregation.fedavgm import Fedavgm
from netfl.learning.aggregation.fedbuff import Fedbuff
from netfl.learning.aggregation.fedstale import Fedstale
from netfl.learning.aggregation.fedvarp import Fedvarp
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.aggregation.qfedavg import Qfedavg
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.aggregation.superquantile import Superquantile
from netfl.learning.data import Dataset, Examples
from netfl.learning.data._augment import Augment
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
    Fedstale(beta=0.6),
    F3ast(beta=0.2),
    Qfedavg(q=0.7),
    Afl(lr_lambda=0.3),
    Superquantile(alpha=0.4),
    Climb(lr_lambda=9, epsilon=0, primal_rounds=2),
    CaFed(server_lr=0.3, b=0.2, s=0.3),
    Scaffold(server_lr=0.9),
    Fedavgm(momentum=0.5, inner=Scaffold()),
    Fedadam(server_lr=0.02, inner=Mifa()),
    Fedadam(server_lr=0.05, inner=Qfedavg(q=1)),
    Fedadam(server_lr=0.05, inner=Fedstale(weights="equal", empty_round="keep")),
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
    def features(count):
        if name == "lstm":
            return rng.integers(TOKENS, size=(count, *shape))
        return rng.standard_normal((count, *shape)).astype(np.float32)

    def labels(count):
        return rng.integers(CLASSES, size=count)

    augment = Augment(crop=1) if name == "moved cnn" else None
    return Dataset(features(60), labels(60), features(25), labels(25), CLASSES, augment=augment)


def trace(rng, users):
    """Draw rounds without deliveries, with repeated users and with stale bases; half of them state the needed bases."""
    all_deliveries = []
    for index in range(1, ROUNDS + 1):
        users_of_round = rng.integers(users, size=rng.integers(0, 5) * (rng.random() < 0.8))
        all_deliveries.append([(int(user), int(rng.integers(max(0, index - 4), index))) for user in users_of_round])
    rounds = []
    for index, deliveries in enumerate(all_deliveries, 1):
        needed = {base for later in all_deliveries[index:] for _, base in later if base < index}
        delivered = tuple(Delivery(user=user, base=base, sent_s=0.0, arrived_s=1.0) for user, base in deliveries)
        oldest = min(needed, default=index)
        stated = tuple(sorted(needed)) if rng.random() < 0.5 else None
        rounds.append(
            Round(
                index=index,
                opened_s=index - 1.0,
                closed_s=float(index),
                deliveries=delivered,
                oldest=oldest,
                needed=stated,
            )
        )
    return rounds


class RandomSetup:
    """Replicas with different data, users and rounds, and some learners."""

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
                datasets=[self.data[replica] for replica in replicas],
                splits=[self.splits[replica] for replica in replicas],
                evaluate=EvaluateSpec(every=2, metrics=METRICS),
                rare_classes=(1,),
                validation=[self.validation[replica] for replica in replicas],
                rounds=ROUNDS,
                streams=[self.streams[replica] for replica in replicas],
                device="cpu",
                first=replicas[0],
                tokens=TOKENS if self.name == "lstm" else None,
                dtype=dtype,
                all_learners=team,
            )
        )

    def at(self, index, replicas=None):
        return [self.rounds[replica][index - 1] for replica in (range(self.replicas) if replicas is None else replicas)]


def run_rounds(setup, learner, first=1, last=ROUNDS, replicas=None):
    """Return metrics and versions of the rounds from *first* to *last*."""
    results = []
    for index in range(first, last + 1):
        report = learner.step(setup.at(index, replicas))
        results.append((report.metrics, np.array([learner.version(lane) for lane in range(len(learner.lanes))])))
    return results


def assert_close(found, expected, tolerance):
    assert np.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True), (found, expected)


def compare_lanes_with_single_runs(seed, dtype=torch.float64, tolerance=1e-12):
    setup = RandomSetup(seed)
    whole = setup.learner(dtype=dtype)
    start_metrics, results = whole.start().metrics, run_rounds(setup, whole)
    for lane, (name, replica) in enumerate(whole.lanes):
        single = setup.learner([name], [replica], dtype)
        single_metrics = single.start().metrics
        for metric in single_metrics:
            assert_close(start_metrics[metric][lane], single_metrics[metric][0], tolerance * 10)
        for (metrics, versions), (metrics_alone, version) in zip(
            results, run_rounds(setup, single, replicas=[replica]), strict=True
        ):
            assert_close(versions[lane], version[0], tolerance)
            assert metrics_alone.keys() <= metrics.keys()
            for metric, values in metrics_alone.items():
                assert_close(metrics[metric][lane], values[0], tolerance * 10)


@pytest.mark.parametrize("seed", range(7))
@pytest.mark.quick_first
def test_lanes_equal_single_runs(seed):
    compare_lanes_with_single_runs(seed)


@pytest.mark.parametrize("seed", range(100, 103))
@pytest.mark.quick_first
def test_lanes_equal_single_runs_in_single_precision(seed):
    compare_lanes_with_single_runs(seed, torch.float32, 2e-4)


@pytest.mark.parametrize("seed", range(200, 205))
@pytest.mark.quick_first
def test_a_stop_changes_no_result(seed, tmp_path):
    setup = RandomSetup(seed)
    whole = setup.learner()
    expected = run_rounds(setup, whole)
    for stop in (1, 4):
        started, resumed = setup.learner(), setup.learner()
        run_rounds(setup, started, 1, stop)
        checkpoint = {"round": stop, "digest": "", "reports": [], "answers": {}, "learner": started.state()}
        with (tmp_path / "c.pt").open("wb") as file:
            checkpoint_file.save(file, checkpoint)
        resumed.restore(checkpoint_file.load(tmp_path / "c.pt")["learner"])
        for (metrics, versions), (expected_metrics, expected_versions) in zip(
            run_rounds(setup, resumed, stop + 1), expected[stop:], strict=True
        ):
            assert np.array_equal(versions, expected_versions)
            assert metrics.keys() == expected_metrics.keys()
            for name, values in metrics.items():
                assert np.array_equal(values, expected_metrics[name], equal_nan=True), name


@pytest.mark.parametrize("seed", [300, 303, 305, 306])
@pytest.mark.slow
def test_shards_and_the_whole_exchange_states(seed):
    setup = RandomSetup(seed)
    expected = run_rounds(setup, setup.learner())
    rng = np.random.default_rng(seed)
    started = setup.learner()
    run_rounds(setup, started, 1, 2)
    names, state = [*setup.specs], started.state()
    parts = shard_lanes(len(names), setup.replicas, int(rng.integers(2, 6)))
    states = []
    for part in parts:
        shard = setup.learner(
            [names[number] for number in part.learners], part.replicas, team=tuple(setup.specs.values())
        )
        shard.restore(split_state(state, part, setup.replicas))
        run_rounds(setup, shard, 3, 4, part.replicas)
        states.append(shard.state())
    merged = setup.learner()
    merged.restore(merge_states(states, parts, setup.replicas))
    for (metrics, versions), (expected_metrics, expected_versions) in zip(
        run_rounds(setup, merged, 5), expected[4:], strict=True
    ):
        assert_close(versions, expected_versions, 1e-12)
        for name, values in metrics.items():
            assert_close(values, expected_metrics[name], 1e-11)
