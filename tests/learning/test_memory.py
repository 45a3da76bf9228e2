"""What does not fit into memory is refused before it begins, with the figures."""

import pytest

from netfl.errors import ScenarioError
from netfl.learning import memory
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.objective.erm import Erm
from netfl.learning.settings import LearnerSpec

USERS, PARAMETERS, REPLICAS = 250, 552_874, 8


def learners(aggregation):
    return {"mine": LearnerSpec(objective=Erm(), aggregation=aggregation, lr=0.1, batch_size=10, local_steps=1)}


def room(monkeypatch, gigabytes):
    monkeypatch.setattr(memory, "available", lambda: None if gigabytes is None else int(gigabytes * 1e9))


def test_a_table_of_each_user_that_does_not_fit_is_refused_with_the_figures(monkeypatch):
    """4 bytes of 251 rows of 552,875 numbers in 8 replicas are 4.44 GB; 6 models in each 0.11 GB."""
    room(monkeypatch, 4.2)
    with pytest.raises(ScenarioError) as refused:
        memory.check(learners(Mifa()), USERS, PARAMETERS, REPLICAS, 1)
    (fault,) = refused.value.faults
    assert fault.key == "learners.mine.aggregation"
    assert "needs 4.5 GB of memory, and 4.2 GB are there: for 250 users and 552,874 parameters" in fault.problem
    assert "'mifa' keeps 4.4 GB in 8 replicas" in fault.problem
    room(monkeypatch, 5.0)
    memory.check(learners(Mifa()), USERS, PARAMETERS, REPLICAS, 1)


def test_workers_count(monkeypatch):
    room(monkeypatch, 5.0)
    with pytest.raises(ScenarioError, match=r"needs 5\.2 GB"):
        memory.check(learners(Mifa()), USERS, PARAMETERS, REPLICAS, 2)


def test_a_rule_that_keeps_nothing_is_not_blamed_for_it(monkeypatch):
    room(monkeypatch, 0.1)
    with pytest.raises(ScenarioError, match="'average' keeps nothing of users"):
        memory.check(learners(Average()), USERS, PARAMETERS, REPLICAS, 1)


def test_where_nobody_knows_how_much_there_is_nothing_is_refused(monkeypatch):
    room(monkeypatch, None)
    memory.check(learners(Mifa()), 10**9, PARAMETERS, REPLICAS, 1)


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
