"""What does not fit into memory is refused before it begins, with the figures."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import netfl
from netfl.errors import ScenarioError
from netfl.learning import memory
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.objective.erm import Erm
from netfl.learning.spec import LearnerSpec
from netfl.learning.workers.pool import ParallelLearner
from netfl.learning.workers.ray_cluster import Cluster
from netfl.simulation import learners as schooling
from netfl.simulation.setup import prepare_run

LOAD = memory.MemoryEstimate(users=250, max_deliveries=10, parameters=552_874, replicas=8)
GB = 10**9


def learners(aggregation):
    return {"mine": LearnerSpec(objective=Erm(), aggregation=aggregation, lr=0.1, batch_size=10, local_steps=1)}


def needed(aggregation, load):
    """The gigabytes that a refusal tells."""
    with pytest.raises(ScenarioError) as refused:
        memory.check_memory(learners(aggregation), load, 1)
    return float(re.search(r"needs (\d+\.\d) GB", refused.value.faults[0].problem)[1])


def test_a_table_of_each_user_that_does_not_fit_is_refused_with_the_figures():
    """4 bytes of 552,875 numbers: 251 x 8 in tables, 6 x 8 of lanes, 5 x 10 heard, 6 x 15 at once: 4.86 GB."""
    with pytest.raises(ScenarioError) as refused:
        memory.check_memory(learners(Mifa()), LOAD, 42 * GB // 10)
    (fault,) = refused.value.faults
    assert fault.key == "learners.mine.aggregation"
    assert "needs 4.9 GB of memory, and 4.2 GB are there: for 250 users and 552,874 parameters" in fault.problem
    assert "'mifa' keeps 4.4 GB of users" in fault.problem
    assert "up to 10 who are heard together take 0.1 GB" in fault.problem
    memory.check_memory(learners(Mifa()), LOAD, 5 * GB)


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
    processes = 0.3 * 2**20 / 1e6 * 2 if "workers" in more else 0.0
    assert needed(Mifa(), replace(LOAD, **more)) == pytest.approx(4 * 552_875 * models / GB + processes, abs=0.06)


def test_examples_count_where_they_are_copied():
    assert needed(Average(), replace(LOAD, example_bytes=3 * GB)) == pytest.approx(
        3 + needed(Average(), LOAD), abs=0.11
    )


def test_a_rule_that_remembers_nothing_makes_less_of_what_is_heard():
    load = replace(LOAD, max_deliveries=250)
    assert needed(Average(), load) == pytest.approx(4 * 552_875 * (6 * 8 + 3 * 250 + 6 * 15) / GB, abs=0.06)


def test_a_rule_that_keeps_nothing_is_not_blamed_for_it():
    with pytest.raises(ScenarioError, match="'average' keeps nothing of users"):
        memory.check_memory(learners(Average()), LOAD, GB // 10)


def test_where_nobody_knows_how_much_there_is_nothing_is_refused():
    memory.check_memory(learners(Mifa()), replace(LOAD, users=10**9), None)


def test_on_a_processor_it_is_the_systems_memory_that_counts(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 17)
    assert memory.free_memory(torch.device("cpu")) == 17


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


def test_a_run_is_held_against_what_is_there(monkeypatch):
    """3 replicas of 2 learners of 387 numbers, of which one user a round is heard, with twins."""
    loads, check = [], memory.check_memory
    monkeypatch.setattr(memory, "check_memory", lambda *told: (loads.append(told[1]), check(*told)))
    fig2a = Path(__file__).parents[2] / "scenarios/paper/fig2a.yaml"
    staged = prepare_run(netfl.load(fig2a, {"evaluate.metrics": ["weight_divergence"]}, ["full"]))
    monkeypatch.setattr(memory, "available", lambda: 0)
    with pytest.raises(ScenarioError, match=r"learners\.FedAvg\.aggregation: the run needs 0\.0 GB.* 387 parameters"):
        schooling.build_learner(staged, "cpu")
    assert loads == [memory.MemoryEstimate(users=3, max_deliveries=1, parameters=387, replicas=3, has_baseline=True)]
    with pytest.raises(ScenarioError, match="387 parameters"):
        schooling.build_learner(staged, "cpu", workers=99)
    assert loads[1].workers == 6, "there are no more workers than lanes"


def test_a_run_by_ray_on_this_machine_is_refused_before_ray_starts(monkeypatch):
    """Each of its workers has the examples for itself; on a cluster elsewhere nobody knows what is there."""
    monkeypatch.setitem(sys.modules, "ray", None)  # nothing may ask for it
    staged = prepare_run(
        netfl.load("scenarios/rural_outage.yaml", {"rounds": 2, "replicas": 2, "partition.by": "distance"})
    )
    monkeypatch.setattr(memory, "available", lambda: 0)
    loads, check = [], memory.check_memory
    monkeypatch.setattr(memory, "check_memory", lambda *told: (loads.append(told[1]), check(*told)))
    with pytest.raises(ScenarioError, match=r"the run needs .* GB of memory, and 0\.0 GB are there"):
        schooling.build_learner(staged, workers=4, cluster=Cluster())
    assert loads[-1].workers == 4
    assert loads[-1].example_bytes == 4 * 4 * (staged.dataset.train_x.size + staged.dataset.test_x.size)
    assert isinstance(schooling.build_learner(staged, workers=4, cluster=Cluster("auto")), ParallelLearner)


def test_workers_that_are_too_many_are_told_apart_from_what_does_not_fit_at_all():
    load = replace(LOAD, workers=8)
    memory.check_memory(learners(Average()), load, 5 * GB)
    with pytest.raises(ScenarioError) as refused:
        memory.check_memory(learners(Average()), load, 2 * GB)
    (fault,) = refused.value.faults
    assert (fault.key, fault.value) == ("--workers", 8)
    assert fault.remedy == "take fewer: one process needs 0.4 GB"
