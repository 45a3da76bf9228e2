"""Whichever way training is computed, the same comes out of it."""

import numpy as np
import pytest
import torch
from support.learner_factory import USERS, a_round, draw_batches, learner, mixture, network, spec

from netfl.learning import minibatches
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.relay import Relay
from netfl.learning.minibatches import BatchSampler
from netfl.learning.model._manual_dense import DenseStack
from netfl.learning.objective.cvar import Cvar
from netfl.learning.server_state import ModelVersions
from netfl.learning.spec import LocalWork
from netfl.streams import Streams


@pytest.fixture
def passes(monkeypatch):
    """Collects the weights of every backward pass."""
    descend, seen = DenseStack.descend, []

    def counted(stack, weights, *more):
        seen.append(weights.clone())
        descend(stack, weights, *more)

    monkeypatch.setattr(DenseStack, "descend", counted)
    return seen


def relayed(one, rounds=4):
    for index in range(1, rounds + 1):
        one.step([a_round(index, (index % USERS, index - 1), oldest=index - 1)])
    return one.version(0)


@pytest.mark.parametrize("more", [{}, {"momentum": 0.5, "weight_decay": 0.1}])
def test_a_backward_pass_of_which_nothing_would_come_is_left_out(passes, more):
    """γ = 0: after a leap of t no loss exceeds it for a while.  Beside one that never rests nothing is left out."""
    told = spec(Cvar(alpha=0.3, lr_t=0.6), Relay(), local_steps=10, **more)
    alone = relayed(learner({"a": told}))
    assert 0 < len(passes) < 40
    assert all(weights.any() for weights in passes)
    passes.clear()
    beside = relayed(learner({"a": told, "b": spec(aggregation=Relay(), local_steps=10)}))
    assert len(passes) == 40
    assert any(not weights[0].any() for weights in passes)
    assert alone == pytest.approx(beside, rel=0, abs=1e-13)


def test_gathered_at_once_equals_step_by_step(monkeypatch):
    """Learners of every sort in two replicas, users of 23, 7, 1 and 59 examples."""
    found = []
    for limit in (0, 1 << 40):
        monkeypatch.setattr(minibatches, "_GATHERED", limit)
        one = learner(mixture(), (0, 1))
        for now in zip(network(0), network(1), strict=True):
            one.step(now)
        found.append(np.stack([one.version(lane) for lane in range(len(one.lanes))]))
    assert np.array_equal(*found)


@pytest.mark.parametrize("sizes", [(9, 9, 9), (1, 30, 7)])
def test_a_shuffle_is_the_order_of_its_words(sizes):
    users, bases, numbers = np.array([4, 0, 4]), np.array([7, 7, 8]), np.array([0, 3, 1])
    lines = np.transpose([[0, 1, 1], users, bases, sizes])
    found = draw_batches(BatchSampler([Streams(1), Streams(2)]), lines, LocalWork(None, 1, None), numbers)
    for place, size in enumerate(sizes):
        drawn = found.places[found.order.tolist().index(place), 0, :size]
        field = Streams((1, 2, 2)[place]).field("batches")
        index = int(bases[place]) * 2**32 + int(numbers[place])
        words = [field.words(int(users[place]), index, block) for block in range(8)]
        assert drawn.tolist() == np.argsort(np.ravel(words)[:size]).tolist()


@pytest.mark.parametrize(
    ("numbers", "lanes"),
    [
        ([1, 1, 1], [[0], [1], [2], [3], [4], [5]][:3]),
        ([1] * 6, [[0], [1], [2], [3], [4], [5]]),
        ([1, 1], [[0, 1, 2, 3, 4, 5]] * 2),
        ([1, 1], [[1, 4]] * 2),
        ([1, 1], [[0, 3], [2, 5]]),
        ([0, 1], [[0, 3], [0, 3]]),
    ],
)
def test_bases_are_those_of_their_users_lanes(numbers, lanes):
    """With and without a copy."""
    first, second = torch.randn(2, 6, 3)
    versions = ModelVersions(first, {})
    versions.add(second, {}, [a_round(1)])
    found = versions.of(np.array(numbers), np.array(lanes))
    expected = np.stack([(first, second)[number][own].numpy() for number, own in zip(numbers, lanes, strict=True)])
    assert np.array_equal(found.numpy(), expected)


def test_many_lanes_of_several_deliveries_equal_each_alone():
    """Two learners in three replicas, each of which hears another number of users."""
    told = {"a": spec(aggregation=Average()), "b": spec(Cvar(alpha=0.3, lr_t=0.1), Average(weights="equal"))}
    rounds = [a_round(1, (0, 0), (3, 0)), a_round(1), a_round(1, (2, 0), (1, 0), (0, 0))]
    together = learner(told, (0, 1, 2))
    together.step(rounds)
    for lane, (name, replica) in enumerate(together.lanes):
        alone = learner({name: told[name]}, (replica,))
        alone.step([rounds[replica]])
        assert together.version(lane) == pytest.approx(alone.version(0), rel=0, abs=1e-13)
