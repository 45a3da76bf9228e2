"""What does not fit into memory is refused before it begins, with the figures."""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

import netfl
from netfl.errors import ScenarioError
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.objective.erm import Erm
from netfl.learning.parallel_learner import ParallelLearner
from netfl.learning.spec import LearnerSpec
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation import learners as learner_module
from netfl.simulation import memory
from netfl.simulation.dry_run import DryRun
from netfl.simulation.setup import prepare_run
from netfl.simulation.workers.ray_cluster import Cluster
from netfl.streams import Streams

GB = 10**9


def learners(aggregation):
    return {"mine": LearnerSpec(objective=Erm(), aggregation=aggregation, lr=0.1, batch_size=10, local_steps=1)}


def estimate(aggregation, **sizes):
    """The estimate for 8 replicas of 552,874 parameters."""
    common = {"users": 250, "max_deliveries": 10, "parameters": 552_874, "replicas": 8}
    return memory.MemoryEstimate(learners=learners(aggregation), **common | sizes)


@pytest.mark.parametrize(
    ("more", "models"),
    [
        ({}, 251 * 8 + 6 * 8 + 5 * 10 + 6 * 15),
        ({"max_deliveries": 250}, 251 * 8 + 6 * 8 + 5 * 250 + 6 * 15),
        ({"max_deliveries": 1}, 251 * 8 + 6 * 8 + 5 * 1 + 6 * 8),
        ({"has_baseline": True}, 251 * 8 + 8 * 8 + 5 * 10 + 6 * 15),
        ({"workers": 2}, 251 * 8 + 6 * 8 + 2 * (5 * 10 + 6 * 15)),
    ],
)
def test_all_that_is_held_at_once_counts(more, models):
    """Tables of users, lanes, updates and models that train at once, at 4 bytes a number."""
    processes = 2 * 300 * 2**20 if "workers" in more else 0
    assert estimate(Mifa(), **more).total_bytes == pytest.approx(4 * 552_875 * models + processes, rel=1e-3)


def test_examples_count_where_they_are_copied():
    copied = estimate(Average(), example_bytes=3 * GB)
    assert copied.total_bytes == 3 * GB + estimate(Average()).total_bytes


def test_an_aggregation_without_a_state_needs_less_for_each_update():
    average = estimate(Average(), max_deliveries=250)
    assert average.state_bytes == 0
    assert average.update_bytes == 4 * 552_875 * 3 * 250
    assert average.total_bytes == 4 * 552_875 * (6 * 8 + 3 * 250 + 6 * 15)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell a process's own peak")
@pytest.mark.slow
def test_many_users_at_once_take_the_models_of_one_lane_and_a_piece():
    """What a round takes at its peak is no more than what is counted for it: 200 users x 2 learners of 50,890 numbers.

    Side by side all of them with their momentum are 400 models, six times over.
    """
    found = subprocess.run([sys.executable, "-c", ROUND], check=True, capture_output=True, text=True)
    taken, counted = map(int, found.stdout.split())
    assert 0 < taken < counted < 400 * 50_890 * 4 * 3


ROUND = """
import numpy as np
from netfl.learning import batch_limits
from netfl.learning.aggregation.average import Average
from netfl.learning.data import Dataset
from netfl.learning.learner import BatchedLearner, LearningTask
from netfl.learning.model.mlp import Mlp
from netfl.learning.objective.erm import Erm
from netfl.learning.spec import EvaluateSpec, LearnerSpec
from netfl.learning.user_data import ReplicaData
from netfl.streams import Streams
from netfl.types import Delivery, Round

batch_limits._TRAINED = 1 << 20
spec = LearnerSpec(objective=Erm(), aggregation=Average(), lr=0.1, batch_size=2, local_steps=2, momentum=0.5)
x = np.zeros((400, 784), np.float32)
data = Dataset(x, np.arange(400) % 10, x[:10], np.arange(10), 10)
replica = ReplicaData(0, data, np.array_split(np.arange(400), 200), Streams(0))
one = BatchedLearner(LearningTask(learners={"a": spec, "b": spec}, model=Mlp(hidden=(64,)), replicas=[replica],
    evaluate=EvaluateSpec(every=10), rounds=10, device="cpu"))
peak = lambda: int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) * 1024
def hear(index, users):
    one.step([Round(index, 0.0, 1.0, tuple(Delivery(user, index - 1, 0.0, 1.0) for user in range(users)), index - 1)])
hear(1, 1)
before = peak()
hear(2, 200)
model = 50_890 + 1
print(peak() - before, 4 * model * (3 * 200 + 6 * (2**20 // model)))
"""


GROUPS = {
    "cgroup v2": ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    "cgroup v1": (
        "sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize(("limit", "left"), [("5000", 3300), ("max", 8 << 10), (str(1 << 62), 8 << 10)])
def test_what_is_left_is_the_least_that_the_machine_and_the_group_have(tmp_path, group, limit, left):
    folder, most, used, spare = GROUPS[group]
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:  99 kB\nMemAvailable:    8 kB\n")
    assert memory.available(tmp_path) == 8 << 10
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / most).write_text(limit)
    (tmp_path / folder / used).write_text("2000")
    (tmp_path / folder / "memory.stat").write_text(f"anon 1700\n{spare} 300\n")
    assert memory.available(tmp_path) == left


@pytest.fixture
def estimates(monkeypatch):
    """The estimates that a run is checked against."""
    found, total = [], memory.MemoryEstimate.total_bytes.fget
    monkeypatch.setattr(memory.MemoryEstimate, "total_bytes", property(lambda one: (found.append(one), total(one))[1]))
    return found


def test_a_run_is_checked_against_the_free_memory(monkeypatch, estimates):
    """3 replicas of 2 learners of 387 numbers, of which one user per round is delivered, with baselines."""
    fig2a = Path(__file__).parents[2] / "scenarios/paper/fig2a.yaml"
    setup = prepare_run(netfl.load(fig2a, {"evaluate.metrics": ["weight_divergence"]}, ["full"]))
    monkeypatch.setattr(memory, "available", lambda: 0)
    with pytest.raises(ScenarioError, match=r"learners: they need 0\.000\d+ GB of memory, but 0 GB .* 387 parameters"):
        learner_module.build_learner(setup, "cpu")
    assert estimates[-1] == memory.MemoryEstimate(
        learners=setup.scenario.learners, users=3, max_deliveries=1, parameters=387, replicas=3, has_baseline=True
    )
    with pytest.raises(ScenarioError, match="387 parameters"):
        learner_module.build_learner(setup, "cpu", workers=99)
    assert estimates[-1].workers == 6, "there are no more workers than lanes"


def test_nothing_is_refused_where_the_free_memory_is_unknown(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: None)
    setup = prepare_run(netfl.load(Path(__file__).parents[2] / "scenarios/paper/fig2a.yaml"))
    memory.check_learners(setup, "cpu", 10**6, None)


def test_a_run_by_ray_on_this_machine_is_refused_before_ray_starts(monkeypatch, estimates):
    """Each of its workers has the examples for itself; on a cluster elsewhere nobody knows what is there."""
    monkeypatch.setitem(sys.modules, "ray", None)  # nothing may ask for it
    setup = prepare_run(
        netfl.load("scenarios/rural_outage.yaml", {"rounds": 2, "replicas": 2, "partition.by": "distance"})
    )
    monkeypatch.setattr(memory, "available", lambda: 0)
    with pytest.raises(ScenarioError, match=r"they need .* GB of memory, but 0 GB are available"):
        learner_module.build_learner(setup, workers=Cluster(workers=4))
    assert estimates[-1].workers == 4
    assert estimates[-1].example_bytes == 4 * 4 * (setup.dataset.train_x.size + setup.dataset.test_x.size)
    assert isinstance(learner_module.build_learner(setup, workers=Cluster("auto", workers=4)), ParallelLearner)


DIRECT = {"access": {"kind": "bernoulli", "probability": 0.5}, "users": 20, "rounds": 30}
BLOBS = {"kind": "blobs", "centers": [[0, 0], [3, 3]]}
LEARNING = {
    "data": BLOBS, "partition": "iid", "model": "logistic",
    "learners": {"a": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 4, "local_steps": 5}},
}  # fmt: skip


def made(**said):
    return validate(ScenarioDocument({"name": "x"} | said, "x"))


def test_users_that_no_memory_holds_are_refused_before_it_starts():
    scenario = made(**DIRECT | {"users": 10**7, "rounds": 1, "replicas": 10**6, "record": "none"})
    with pytest.raises(ScenarioError, match=r"users: they need 4e\+06 GB of memory, .*use fewer users or replicas"):
        prepare_run(scenario, learning=False)


@pytest.mark.parametrize(
    "data",
    [BLOBS | {"samples": 10**12}, {"kind": "synthetic", "users": 10**11}, {"kind": "synthetic", "users": 10**10}],
)
def test_made_up_examples_that_no_memory_holds_are_refused_before_it_starts(data):
    scenario = made(**DIRECT, **LEARNING | {"data": data})
    with pytest.raises(ScenarioError, match=r"data: they need [\d.,e+]+ GB of memory, but .* are available.*use fewer"):
        prepare_run(scenario)
    prepare_run(scenario, learning=False)


def test_made_up_examples_take_the_memory_that_is_told():
    for data in (BLOBS | {"samples": 1000}, {"kind": "synthetic", "users": 60, "sigma": 1}):
        family = made(**DIRECT, **LEARNING | {"data": data}).data
        family.load(Streams(0))  # imports what it needs
        tracemalloc.start()
        family.load(Streams(0))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert 0.5 * most < family.memory < 2 * most


def test_fewer_deliveries_take_less_memory():
    """Three models of six float32, and as many copies of those that train at once, for each delivery."""
    scenario = made(**DIRECT, **LEARNING)
    less, more = memory.estimate_memory(scenario, 6), memory.estimate_memory(scenario)
    assert 450e6 < less < more == memory.estimate_memory(scenario, 20) < 451e6


def test_a_run_that_needs_more_than_is_free_is_warned_of(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 10**9)
    assert [*DryRun(1.0, 9e8).warnings()] == []
    (warning,) = DryRun(1.0, 2e9).warnings()
    assert warning == "large: the run needs about 2 GB of memory, but 1 GB are available"


@pytest.mark.parametrize("key", ["users", "rounds", "replicas"])
def test_numbers_beyond_all_machines_are_faults_at_once(key):
    with pytest.raises(ScenarioError, match=f"{key}: should be less than"):
        made(**DIRECT | {key: 10**30})
