"""Answers to the queries of an access: losses and update norms of users, independent of other lanes."""

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

ALL_USERS = tuple(range(USERS))


def with_queries(current, **queries):
    return replace(current, queries=queries)


def mean_loss(theta, rows, data=DATA):
    """Return the mean loss over *rows*, computed by PyTorch."""
    scores = torch_model(theta)(torch.tensor(data.train_x[rows]).double())
    return nn.functional.cross_entropy(scores, torch.tensor(data.train_y[rows])).item()


def update_norm(name, batched, user, replica=0, data=DATA):
    """Return the norm of the change of θ that *user* would make from the newest version."""
    relay = mixture()[name].model_copy(update={"aggregation": Relay()})
    alone = learner({name: relay}, (replica,), datasets=[data])
    lane = batched.lanes.index((name, replica))
    state, index = batched.state(), batched.state()["round"]
    versions = {"kept": {index: state["versions"]["kept"][index][lane][None]}, "messages": {index: {}}}
    alone.restore(alone.state() | {"round": index, "versions": versions})
    alone.step([a_round(index + 1, (user, index))])
    return np.linalg.norm(alone.version(0)[:-1] - batched.version(lane)[:-1])


@pytest.mark.quick_first
@pytest.mark.parametrize("name", mixture())
@pytest.mark.parametrize("limit", [None, 1], ids=["at once", "in parts"])
def test_answers_depend_only_on_the_feedback_lane(monkeypatch, name, limit):
    """Six learners in two replicas with different data. Each replica has different queries."""
    if limit is not None:
        monkeypatch.setattr(batch_limits, "_EXAMINED", 7)
        monkeypatch.setattr(batch_limits, "_TRAINED", limit)
    datasets = [examples(0), examples(1)]
    batched = learner(mixture(), (0, 1), datasets=datasets, feedback_learner=name)
    for first, second in zip(network(0, 4), network(1, 4), strict=True):
        report = batched.step(
            [with_queries(first, loss=(3, 0, 2), norm=(1,)), with_queries(second, norm=ALL_USERS, loss=(1, 1))],
        )
        for replica, queries in enumerate(({"loss": (3, 0, 2), "norm": (1,)}, {"loss": (1, 1), "norm": ALL_USERS})):
            found = report.answers[replica]
            assert found.keys() == queries.keys()
            theta = batched.version(batched.lanes.index((name, replica)))[:-1]
            losses = [mean_loss(theta, SPLIT[user], datasets[replica]) for user in queries["loss"]]
            norms = [update_norm(name, batched, user, replica, datasets[replica]) for user in queries["norm"]]
            assert found["loss"] == pytest.approx(losses, rel=1e-12)
            assert found["norm"] == pytest.approx(norms, rel=1e-10)
            assert report.to(replica).answer("norm") is found["norm"]


def test_norms_exclude_t():
    """The step on t is huge, but the norm excludes it."""
    specs = {"cvar": spec(Cvar(alpha=0.5, lr_t=1e6), Relay(), local_steps=7)}
    batched = learner(specs)
    (found,) = batched.step([with_queries(a_round(1), norm=(0,))]).answers
    before = batched.version(0)
    batched.step([a_round(2, (0, 1))])
    after = batched.version(0)
    assert abs(after[-1] - before[-1]) > 1e5
    assert found["norm"] == pytest.approx([np.linalg.norm((after - before)[:-1])])


def test_norms_equal_those_of_the_next_deliveries():
    """The next update uses the same batches, so its norm equals the answer."""
    batched = learner({"a": spec(aggregation=Relay())})
    report = batched.step([with_queries(a_round(1), norm=ALL_USERS)])
    for index, user in enumerate((3, 0, 1, 2, 0), start=2):
        before, expected = batched.version(0), report.answers[0]["norm"][user]
        report = batched.step([with_queries(a_round(index, (user, index - 1)), norm=ALL_USERS)])
        assert np.linalg.norm(batched.version(0) - before) == pytest.approx(expected, rel=1e-12)


def test_queries_change_no_result():
    quiet, asked = (learner(mixture(), (0, 1), feedback_learner="cvar") for _ in range(2))
    for first, second in zip(network(0, 7), network(1, 7), strict=True):
        quiet_report = quiet.step([first, second])
        asked_report = asked.step([with_queries(first, loss=ALL_USERS), with_queries(second, norm=ALL_USERS)])
        assert quiet_report.answers == ()
        assert {name: list(x) for name, x in quiet_report.metrics.items()} == {
            name: list(x) for name, x in asked_report.metrics.items()
        }
    for lane in range(len(quiet.lanes)):
        assert np.array_equal(quiet.version(lane), asked.version(lane))


def test_a_replica_without_queries_gets_no_answers():
    batched = learner({"a": spec()}, (0, 1))
    report = batched.step([a_round(1), with_queries(a_round(1), loss=(2,), norm=())])
    assert report.answers[0] == {}
    assert report.to(0).answer("loss") is None
    assert report.to(1).answer("loss").shape == (1,)
    assert report.to(1).answer("norm").shape == (0,)
    assert report.to(1).answer("height") is None


def test_queries_need_a_feedback_learner():
    batched = learner({"a": spec(), "b": spec()})
    with pytest.raises(ValueError, match="does not name a learner"):
        batched.step([with_queries(a_round(1), loss=(0,))])


def test_answers_that_are_not_finite_raise_an_error():
    batched = learner({"calm": spec(), "wild": spec(lr=1e200)}, (0, 1), model=Mlp(hidden=(5,)), feedback_learner="wild")
    with pytest.raises(ModelError, match=r"wild, replica 1, user 3: the norm of version 1 is not finite"):
        batched.step([a_round(1), with_queries(a_round(1), norm=(3,))])


def test_losses_are_computed_in_bounded_memory(monkeypatch):
    """No batch of examples exceeds the limit, and every example counts once."""
    sizes, batched = [], learner({"a": spec()}, model=TANH)
    monkeypatch.setattr(batch_limits, "_EXAMINED", 16)
    original = type(batched._architecture).open

    def recording_open(self, theta, **options):
        stack = original(self, theta, **options)
        scores = stack.scores
        stack.scores = lambda x: (sizes.append(x.shape[1]), scores(x))[1]
        return stack

    monkeypatch.setattr(type(batched._architecture), "open", recording_open)
    batched.step([with_queries(a_round(1), loss=ALL_USERS)])
    assert max(sizes) <= 16
    assert sum(sizes) == sum(map(len, SPLIT))


@pytest.mark.parametrize("device", ["cuda"])
def test_answers_on_the_accelerator(device):
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    cpu, accelerator = (learner(mixture(), (0, 1), feedback_learner="cvar", device=place) for place in ("cpu", device))
    for first, second in zip(network(0, 3), network(1, 3), strict=True):
        queries = [with_queries(first, loss=ALL_USERS, norm=ALL_USERS), with_queries(second, norm=(0,))]
        for cpu_answers, accelerator_answers in zip(
            cpu.step(queries).answers, accelerator.step(queries).answers, strict=True
        ):
            assert cpu_answers.keys() == accelerator_answers.keys()
            for question in cpu_answers:
                assert cpu_answers[question] == pytest.approx(accelerator_answers[question], rel=1e-9)
