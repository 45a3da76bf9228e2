"""Workers learn what one process learns; what goes wrong in one of them is told as if it had happened here."""

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


def said(specs, replicas=3, **changes):
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


def workers_of(workers, task):
    return ParallelLearner(workers, task, process_workers)


def rounds_of(replicas=3, rounds=ROUNDS):
    return list(zip(*(islice(network(replica, rounds), rounds) for replica in range(replicas)), strict=True))


def reports(learning, rounds):
    return [learning.start(), *(learning.step(now) for now in rounds)]


@pytest.fixture(scope="module")
def alone():
    """The mixture in three replicas, in one process: its reports, its versions and its state."""
    one = BatchedLearner(said(mixture()))
    told = reports(one, rounds_of())
    return told, [one.version(lane) for lane in range(len(one.lanes))], one.state()


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.slow
def test_what_workers_learn_is_what_one_process_learns(alone, workers):
    team = workers_of(workers, said(mixture()))
    with team.working():
        told = reports(team, rounds_of())
        versions = [team.version(lane) for lane in range(len(team.lanes))]
        labels = team.predict(7, DATA.test_x)
        state = team.state()
    assert [(one.round, [*one.metrics]) for one in told] == [(one.round, [*one.metrics]) for one in alone[0]]
    assert [name for name in told[0].metrics if name.startswith("cvar/")] == [
        f"cvar/alpha:{level}" for level in ("0.1", "0.3", "0.5")
    ]
    for one, other in zip(told, alone[0], strict=True):
        for name, values in one.metrics.items():
            np.testing.assert_allclose(values, other.metrics[name], rtol=1e-9, atol=1e-12)
    for one, other in zip(versions, alone[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-14)
    assert labels.shape == DATA.test_y.shape
    assert state["lanes"] == alone[2]["lanes"]
    assert torch.equal(state["metrics"]["deliveries"], alone[2]["metrics"]["deliveries"])


@pytest.mark.slow
def test_a_state_of_one_process_is_gone_on_from_by_workers_and_the_other_way_round(alone):
    rounds = rounds_of()
    before = BatchedLearner(said(mixture()))
    for now in rounds[:3]:
        before.step(now)
    team = workers_of(2, said(mixture()))
    with team.working():
        team.restore(before.state())
        for now in rounds[3:5]:
            team.step(now)
        state = team.state()
    after = BatchedLearner(said(mixture()))
    after.restore(state)
    for now in rounds[5:]:
        after.step(now)
    for lane, other in enumerate(alone[1]):
        np.testing.assert_allclose(after.version(lane), other, rtol=1e-10, atol=1e-14)


@pytest.mark.slow
def test_a_lane_that_diverges_in_a_worker_is_told_and_a_worker_whose_lanes_all_do_goes_on():
    specs, rounds = {"calm": spec(), "wild": spec(lr=1e200, local_steps=4)}, rounds_of(2)
    one, team = BatchedLearner(said(specs, 2)), workers_of(2, said(specs, 2))
    expected = reports(one, rounds)
    with team.working():
        told = reports(team, rounds)
        versions = [team.version(lane) for lane in range(4)]
    assert len(one.diverged) == 2
    assert sorted(team.diverged, key=str) == sorted(one.diverged, key=str)
    assert sorted((lost for report in told for lost in report.diverged), key=str) == sorted(one.diverged, key=str)
    assert np.isnan(told[-1].metrics["loss"]).tolist() == [False, False, True, True]
    assert told[-1].metrics["loss"][:2] == pytest.approx(expected[-1].metrics["loss"][:2])
    for lane in range(4):
        assert versions[lane] == pytest.approx(one.version(lane))
    again, kept = workers_of(2, said(specs, 2)), one.state()
    with again.working():
        again.restore(kept)
        assert sorted(again.diverged, key=str) == sorted(one.diverged, key=str)


@pytest.mark.slow
def test_where_no_lane_is_left_the_run_ends_as_with_one_process():
    specs, rounds = (
        {"wild": spec(lr=1e200, local_steps=4)},
        [[a_round(index, (3, index - 1))] * 2 for index in (1, 2, 3)],
    )
    with pytest.raises(ModelError) as one:
        reports(BatchedLearner(said(specs, 2)), rounds)
    team = workers_of(2, said(specs, 2))
    with team.working(), pytest.raises(ModelError) as other:
        reports(team, rounds)
    assert str(one.value) == str(other.value)


@pytest.mark.slow
def test_what_an_access_asks_is_answered_by_the_worker_whose_learner_it_follows():
    specs, calm = {"a": spec(), "b": spec(Cvar(alpha=0.3, lr_t=0.1))}, a_round(1, (3, 0), (1, 0))
    asking = [calm, replace(calm, queries={"loss": (0, 2), "norm": (1,)}), calm]
    expected = BatchedLearner(said(specs, feedback_learner="b")).step(asking)
    team = workers_of(6, said(specs, feedback_learner="b"))
    with team.working():
        told = team.step(asking)
    assert [{name: list(own) for name, own in one.items()} for one in told.answers] == [
        {name: pytest.approx(list(own)) for name, own in one.items()} for one in expected.answers
    ]
    assert [len(one) for one in told.answers] == [0, 2, 0]


@pytest.mark.slow
def test_a_worker_that_is_killed_is_told_and_leaves_no_other_behind():
    team = workers_of(3, said({"a": spec()}))
    with pytest.raises(MachineError, match=r"worker 2 of 3 was killed by signal 9 .*netfl resume"), team.working():
        processes = [worker._process.pid for worker in team._workers]
        os.kill(processes[1], signal.SIGKILL)
        for now in rounds_of():
            team.step(now)
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


@pytest.mark.slow
def test_a_round_that_is_not_due_is_raised_here_as_it_was_there():
    team = workers_of(2, said({"a": spec()}))
    with team.working(), pytest.raises(ValueError, match="round 1 of ") as raised:
        for now in rounds_of()[1:]:
            team.step(now)
    assert "learner.py" in raised.value.__notes__[0]


class OddError(Exception):
    """Cannot be made from what it says."""

    def __init__(self, one, *, other):
        super().__init__(f"{one} and {other}")
        self.one = one


def test_exceptions_arrive_as_what_they_were_wherever_that_can_be():
    found = RemoteError.of(ModelError("a", "went wrong", user=3, time_s=2.0)).error()
    assert (type(found), str(found), found.user) == (ModelError, "a, user 3, at 2 s of simulated time: went wrong", 3)
    odd = RemoteError.of(OddError(1, other=lambda: 0)).error()
    assert str(odd).startswith("1 and")

    class HereError(Exception):
        pass

    assert str(RemoteError.of(HereError("lost")).error()) == "HereError: lost"


@pytest.mark.slow
def test_a_report_that_is_not_due_is_empty():
    team = workers_of(2, said({"a": spec()}, evaluate=EvaluateSpec(every=4)))
    with team.working():
        told = reports(team, rounds_of())
    assert [report.round for report in told] == list(range(ROUNDS + 1))
    assert [report.round for report in told if report.metrics] == [0, 4, 7]
    assert told[1] == LearnerReport(1)
    assert learner({"a": spec()}).start().metrics.keys() == told[0].metrics.keys()
