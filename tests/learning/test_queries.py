"""What an access is told of users: their losses and how far they would move, whatever else is learned beside."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.learner_factory import (
    DATA,
    SPLIT,
    TANH,
    USERS,
    a_round,
    examples,
    learner,
    mixture,
    network,
    spec,
    torch_model,
)
from torch import nn

from netfl.errors import ModelError
from netfl.learning import batch_limits
from netfl.learning.aggregation.relay import Relay
from netfl.learning.model.mlp import Mlp
from netfl.learning.objective.cvar import Cvar

EVERYBODY = tuple(range(USERS))


def asking(now, **asks):
    return replace(now, queries=asks)


def mean_loss(theta, rows, data=DATA):
    """PyTorch's, over all *rows* at once."""
    scores = torch_model(theta)(torch.tensor(data.train_x[rows]).double())
    return nn.functional.cross_entropy(scores, torch.tensor(data.train_y[rows])).item()


def moved(name, one, user, replica=0, data=DATA):
    """How far *user* moves θ if it is heard next, from the newest version: by a learner that relays it."""
    told = mixture()[name].model_copy(update={"aggregation": Relay()})
    alone = learner({name: told}, (replica,), datasets=[data])
    lane = one.lanes.index((name, replica))
    state, index = one.state(), one.state()["round"]
    versions = {"kept": {index: state["versions"]["kept"][index][lane][None]}, "messages": {index: {}}}
    alone.restore(alone.state() | {"round": index, "versions": versions})
    alone.step([a_round(index + 1, (user, index))])
    return np.linalg.norm(alone.version(0)[:-1] - one.version(lane)[:-1])


@pytest.mark.quick_first
@pytest.mark.parametrize("name", mixture())
@pytest.mark.parametrize("room", [None, 1], ids=["at once", "in parts"])
def test_answers_are_those_of_one_lane_whatever_runs_beside_it(monkeypatch, name, room):
    """Six learners in two replicas with data of their own; each replica's access asks something else."""
    if room is not None:
        monkeypatch.setattr(batch_limits, "_EXAMINED", 7)
        monkeypatch.setattr(batch_limits, "_TRAINED", room)
    datasets = [examples(0), examples(1)]
    one = learner(mixture(), (0, 1), datasets=datasets, feedback_learner=name)
    for first, second in zip(network(0, 4), network(1, 4), strict=True):
        report = one.step(
            [asking(first, loss=(3, 0, 2), norm=(1,)), asking(second, norm=EVERYBODY, loss=(1, 1))],
        )
        for replica, asked in enumerate(({"loss": (3, 0, 2), "norm": (1,)}, {"loss": (1, 1), "norm": EVERYBODY})):
            found = report.answers[replica]
            assert found.keys() == asked.keys()
            theta = one.version(one.lanes.index((name, replica)))[:-1]
            losses = [mean_loss(theta, SPLIT[user], datasets[replica]) for user in asked["loss"]]
            norms = [moved(name, one, user, replica, datasets[replica]) for user in asked["norm"]]
            assert found["loss"] == pytest.approx(losses, rel=1e-12)
            assert found["norm"] == pytest.approx(norms, rel=1e-10)
            assert report.to(replica).answer("norm") is found["norm"]


def test_a_norm_is_that_of_theta_alone():
    """With a huge step on t, which the norm leaves out."""
    told = {"cvar": spec(Cvar(alpha=0.5, lr_t=1e6), Relay(), local_steps=7)}
    one = learner(told)
    (found,) = one.step([asking(a_round(1), norm=(0,))]).answers
    before = one.version(0)
    one.step([a_round(2, (0, 1))])
    after = one.version(0)
    assert abs(after[-1] - before[-1]) > 1e5
    assert found["norm"] == pytest.approx([np.linalg.norm((after - before)[:-1])])


def test_what_was_asked_is_what_is_delivered():
    """The norm of an update that is delivered next: the same batches, so the same figure."""
    one = learner({"a": spec(aggregation=Relay())})
    report = one.step([asking(a_round(1), norm=EVERYBODY)])
    for index, user in enumerate((3, 0, 1, 2, 0), start=2):
        before, expected = one.version(0), report.answers[0]["norm"][user]
        report = one.step([asking(a_round(index, (user, index - 1)), norm=EVERYBODY)])
        assert np.linalg.norm(one.version(0) - before) == pytest.approx(expected, rel=1e-12)


def test_asking_changes_nothing():
    quiet, asked = (learner(mixture(), (0, 1), feedback_learner="cvar") for _ in range(2))
    for first, second in zip(network(0, 7), network(1, 7), strict=True):
        one = quiet.step([first, second])
        other = asked.step([asking(first, loss=EVERYBODY), asking(second, norm=EVERYBODY)])
        assert one.answers == ()
        assert {name: list(x) for name, x in one.metrics.items()} == {
            name: list(x) for name, x in other.metrics.items()
        }
    for lane in range(len(quiet.lanes)):
        assert np.array_equal(quiet.version(lane), asked.version(lane))


def test_a_replica_that_asks_nothing_is_told_nothing():
    one = learner({"a": spec()}, (0, 1))
    report = one.step([a_round(1), asking(a_round(1), loss=(2,), norm=())])
    assert report.answers[0] == {}
    assert report.to(0).answer("loss") is None
    assert report.to(1).answer("loss").shape == (1,)
    assert report.to(1).answer("norm").shape == (0,)
    assert report.to(1).answer("height") is None


def test_who_answers_must_be_known():
    one = learner({"a": spec(), "b": spec()})
    with pytest.raises(ValueError, match="does not name a learner"):
        one.step([asking(a_round(1), loss=(0,))])


def test_what_is_not_finite_is_told():
    one = learner({"calm": spec(), "wild": spec(lr=1e200)}, (0, 1), model=Mlp(hidden=(5,)), feedback_learner="wild")
    with pytest.raises(ModelError, match=r"wild, replica 1, user 3: the norm of version 1 is not finite"):
        one.step([a_round(1), asking(a_round(1), norm=(3,))])


def test_losses_of_many_users_are_asked_in_bounded_memory(monkeypatch):
    """No batch of examples is larger than allowed, and every example counts once."""
    seen, one = [], learner({"a": spec()}, model=TANH)
    monkeypatch.setattr(batch_limits, "_EXAMINED", 16)
    opened = type(one._architecture).open

    def watched(self, theta, **how):
        stack = opened(self, theta, **how)
        scores = stack.scores
        stack.scores = lambda x: (seen.append(x.shape[1]), scores(x))[1]
        return stack

    monkeypatch.setattr(type(one._architecture), "open", watched)
    one.step([asking(a_round(1), loss=EVERYBODY)])
    assert max(seen) <= 16
    assert sum(seen) == sum(map(len, SPLIT))


@pytest.mark.parametrize("device", ["cuda"])
def test_answers_on_the_accelerator(device):
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    here, there = (learner(mixture(), (0, 1), feedback_learner="cvar", device=where) for where in ("cpu", device))
    for first, second in zip(network(0, 3), network(1, 3), strict=True):
        asked = [asking(first, loss=EVERYBODY, norm=EVERYBODY), asking(second, norm=(0,))]
        for one, other in zip(here.step(asked).answers, there.step(asked).answers, strict=True):
            assert one.keys() == other.keys()
            for question in one:
                assert one[question] == pytest.approx(other[question], rel=1e-9)
