"""Parallel training: workers compute what one process computes, and report errors as one process does."""

import os
import signal
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from support.learner_factory import DATA, SPLIT, TANH, a_round, learner, learning_task, mixture, network, spec

from netfl.errors import MachineError, ModelError
from netfl.learning.learner import BatchedLearner
from netfl.learning.objective.cvar import Cvar
from netfl.learning.parallel_learner import ParallelLearner
from netfl.learning.spec import EvaluateSpec
from netfl.simulation.workers.messages import RemoteError
from netfl.simulation.workers.process import process_workers
from netfl.streams import Streams
from netfl.types import LearnerReport

ROUNDS = 7


def task(specs, replicas=3, **changes):
    settings = {
        "learners": specs,
        "model": TANH,
        "datasets": [DATA] * replicas,
        "splits": [SPLIT] * replicas,
        "evaluate": EvaluateSpec(every=3),
        "rare_classes": (2,),
        "rounds": ROUNDS,
        "streams": [Streams(5).at(replica) for replica in range(replicas)],
        "device": "cpu",
        "dtype": torch.float64,
    }
    return learning_task(**(settings | changes))


def parallel_learner(workers, task):
    return ParallelLearner(workers, task, process_workers)


def network_rounds(replicas=3, rounds=ROUNDS):
    return list(zip(*(islice(network(replica, rounds), rounds) for replica in range(replicas)), strict=True))


def reports(batched, rounds):
    return [batched.start(), *(batched.step(current) for current in rounds)]


@pytest.fixture(scope="module")
def alone():
    """Reports, versions and state of the mixture in three replicas, in one process."""
    batched = BatchedLearner(task(mixture()))
    alone_reports = reports(batched, network_rounds())
    return alone_reports, [batched.version(lane) for lane in range(len(batched.lanes))], batched.state()


@pytest.mark.slow
def test_the_first_worker_states_how_models_are_trained():
    settings = task(mixture(), dtype=torch.float32, products="tf32")
    expected = BatchedLearner(settings).training_method
    assert "TF32" in expected
    team = parallel_learner(2, settings)
    assert team.training_method == ""  # no worker runs yet
    with team.working():
        team.step(network_rounds()[0])  # its report is pending
        assert (team.training_method, team.gpu) == (expected, "")


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.slow
def test_workers_equal_one_process(alone, workers):
    team = parallel_learner(workers, task(mixture()))
    with team.working():
        found = reports(team, network_rounds())
        versions = [team.version(lane) for lane in range(len(team.lanes))]
        labels = team.predict(7, DATA.test_x)
        state = team.state()
    assert [(report.round, [*report.metrics]) for report in found] == [
        (report.round, [*report.metrics]) for report in alone[0]
    ]
    assert [name for name in found[0].metrics if name.startswith("cvar/")] == [
        f"cvar/alpha:{level}" for level in ("0.1", "0.3", "0.5")
    ]
    for report, expected in zip(found, alone[0], strict=True):
        for name, values in report.metrics.items():
            np.testing.assert_allclose(values, expected.metrics[name], rtol=1e-9, atol=1e-12)
    for version, expected in zip(versions, alone[1], strict=True):
        np.testing.assert_allclose(version, expected, rtol=1e-10, atol=1e-14)
    assert labels.shape == DATA.test_y.shape
    assert state["lanes"] == alone[2]["lanes"]
    assert torch.equal(state["metrics"]["deliveries"], alone[2]["metrics"]["deliveries"])


@pytest.mark.slow
def test_workers_and_one_process_exchange_states(alone):
    rounds = network_rounds()
    before = BatchedLearner(task(mixture()))
    for current in rounds[:3]:
        before.step(current)
    team = parallel_learner(2, task(mixture()))
    with team.working():
        team.restore(before.state())
        for current in rounds[3:5]:
            team.step(current)
        state = team.state()
    after = BatchedLearner(task(mixture()))
    after.restore(state)
    for current in rounds[5:]:
        after.step(current)
    for lane, expected in enumerate(alone[1]):
        np.testing.assert_allclose(after.version(lane), expected, rtol=1e-10, atol=1e-14)


@pytest.mark.slow
def test_divergence_in_a_worker_is_reported_and_others_continue():
    specs, rounds = {"calm": spec(), "wild": spec(lr=1e200, local_steps=4)}, network_rounds(2)
    batched, team = BatchedLearner(task(specs, 2)), parallel_learner(2, task(specs, 2))
    expected = reports(batched, rounds)
    with team.working():
        found = reports(team, rounds)
        versions = [team.version(lane) for lane in range(4)]
    assert len(batched.diverged) == 2
    assert sorted(team.diverged, key=str) == sorted(batched.diverged, key=str)
    assert sorted((lost for report in found for lost in report.diverged), key=str) == sorted(batched.diverged, key=str)
    assert np.isnan(found[-1].metrics["loss"]).tolist() == [False, False, True, True]
    assert found[-1].metrics["loss"][:2] == pytest.approx(expected[-1].metrics["loss"][:2])
    for lane in range(4):
        assert versions[lane] == pytest.approx(batched.version(lane))
    restored, state = parallel_learner(2, task(specs, 2)), batched.state()
    with restored.working():
        restored.restore(state)
        assert sorted(restored.diverged, key=str) == sorted(batched.diverged, key=str)


@pytest.mark.slow
def test_divergence_of_all_lanes_raises_the_error_of_one_process():
    specs, rounds = (
        {"wild": spec(lr=1e200, local_steps=4)},
        [[a_round(index, (3, index - 1))] * 2 for index in (1, 2, 3)],
    )
    with pytest.raises(ModelError) as expected:
        reports(BatchedLearner(task(specs, 2)), rounds)
    team = parallel_learner(2, task(specs, 2))
    with team.working(), pytest.raises(ModelError) as found:
        reports(team, rounds)
    assert str(expected.value) == str(found.value)


@pytest.mark.slow
def test_queries_are_answered_by_the_worker_of_the_feedback_learner():
    specs, plain = {"a": spec(), "b": spec(Cvar(alpha=0.3, lr_t=0.1))}, a_round(1, (3, 0), (1, 0))
    queried = [plain, replace(plain, queries={"loss": (0, 2), "norm": (1,)}), plain]
    expected = BatchedLearner(task(specs, feedback_learner="b")).step(queried)
    team = parallel_learner(6, task(specs, feedback_learner="b"))
    with team.working():
        found = team.step(queried)
    assert [{name: list(values) for name, values in answer.items()} for answer in found.answers] == [
        {name: pytest.approx(list(values)) for name, values in answer.items()} for answer in expected.answers
    ]
    assert [len(answer) for answer in found.answers] == [0, 2, 0]


@pytest.mark.slow
def test_a_killed_worker_is_reported_and_the_others_end():
    team = parallel_learner(3, task({"a": spec()}))
    with pytest.raises(MachineError, match=r"worker 2 of 3 was killed by signal 9 .*netfl\.resume"), team.working():
        processes = [worker._process.pid for worker in team._workers]
        os.kill(processes[1], signal.SIGKILL)
        for current in network_rounds():
            team.step(current)
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


@pytest.mark.slow
def test_a_round_out_of_order_raises_the_error_of_the_worker():
    team = parallel_learner(2, task({"a": spec()}))
    with team.working(), pytest.raises(ValueError, match="round 1 of ") as error:
        for current in network_rounds()[1:]:
            team.step(current)
    assert "learner.py" in error.value.__notes__[0]


class OddError(Exception):
    """An exception that cannot be created from its message."""

    def __init__(self, first, *, second):
        super().__init__(f"{first} and {second}")
        self.first = first


def test_exceptions_keep_their_type_where_possible():
    found = RemoteError.of(ModelError("a", "went wrong", user=3, time_s=2.0)).error()
    assert (type(found), str(found), found.user) == (ModelError, "a, user 3, at 2 s of simulated time: went wrong", 3)
    odd = RemoteError.of(OddError(1, second=lambda: 0)).error()
    assert str(odd).startswith("1 and")

    class LocalError(Exception):
        pass

    assert str(RemoteError.of(LocalError("lost")).error()) == "LocalError: lost"


@pytest.mark.slow
def test_a_report_that_is_not_due_is_empty():
    team = parallel_learner(2, task({"a": spec()}, evaluate=EvaluateSpec(every=4)))
    with team.working():
        found = reports(team, network_rounds())
    assert [report.round for report in found] == list(range(ROUNDS + 1))
    assert [report.round for report in found if report.metrics] == [0, 4, 7]
    assert found[1] == LearnerReport(1)
    assert learner({"a": spec()}).start().metrics.keys() == found[0].metrics.keys()
