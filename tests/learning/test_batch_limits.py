"""Limits of batches change memory and speed, but no result."""

import numpy as np
import pytest
import torch
from support.learner_factory import USERS, a_round, draw_batches, learner, mixture, network, spec

from netfl.learning import batch_loader
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.relay import Relay
from netfl.learning.minibatches import BatchSampler
from netfl.learning.model._manual_dense import DenseStack
from netfl.learning.model_versions import ModelVersions
from netfl.learning.objective.cvar import Cvar
from netfl.learning.spec import LocalWork
from netfl.streams import Streams


@pytest.fixture
def backward_passes(monkeypatch):
    """Collect the weights of every backward pass."""
    descend, collected = DenseStack.descend, []

    def record(stack, weights, *args):
        collected.append(weights.clone())
        descend(stack, weights, *args)

    monkeypatch.setattr(DenseStack, "descend", record)
    return collected


def relay_rounds(batched, rounds=4):
    for index in range(1, rounds + 1):
        batched.step([a_round(index, (index % USERS, index - 1), oldest=index - 1)])
    return batched.version(0)


@pytest.mark.parametrize("options", [{}, {"momentum": 0.5, "weight_decay": 0.1}])
def test_backward_passes_without_weight_are_skipped(backward_passes, options):
    """With γ = 0, no loss exceeds t for some steps after t rises.

    A second learner with nonzero weights needs every pass.
    """
    cvar_spec = spec(Cvar(alpha=0.3, lr_t=0.6), Relay(), local_steps=10, **options)
    alone = relay_rounds(learner({"a": cvar_spec}))
    assert 0 < len(backward_passes) < 40
    assert all(weights.any() for weights in backward_passes)
    backward_passes.clear()
    with_erm = relay_rounds(learner({"a": cvar_spec, "b": spec(aggregation=Relay(), local_steps=10)}))
    assert len(backward_passes) == 40
    assert any(not weights[0].any() for weights in backward_passes)
    assert alone == pytest.approx(with_erm, rel=0, abs=1e-13)


def test_the_gather_limit_changes_no_result(monkeypatch):
    """Various learners in two replicas, with users of 23, 7, 1 and 59 examples."""
    found = []
    for limit in (0, 1 << 40):
        monkeypatch.setattr(batch_loader, "_GATHERED", limit)
        batched = learner(mixture(), (0, 1))
        for current in zip(network(0), network(1), strict=True):
            batched.step(current)
        found.append(np.stack([batched.version(lane) for lane in range(len(batched.lanes))]))
    assert np.array_equal(*found)


@pytest.mark.parametrize("sizes", [(9, 9, 9), (1, 30, 7)])
def test_a_shuffle_sorts_its_random_words(sizes):
    users, bases, repeats = np.array([4, 0, 4]), np.array([7, 7, 8]), np.array([0, 3, 1])
    jobs = np.transpose([[0, 1, 1], users, bases, sizes])
    found = draw_batches(BatchSampler([Streams(1), Streams(2)]), jobs, LocalWork(None, 1, None), repeats)
    for position, size in enumerate(sizes):
        order_of_user = found.places[found.order.tolist().index(position), 0, :size]
        field = Streams((1, 2, 2)[position]).field("batches")
        index = int(bases[position]) * 2**32 + int(repeats[position])
        words = [field.words(int(users[position]), index, block) for block in range(8)]
        assert order_of_user.tolist() == np.argsort(np.ravel(words)[:size]).tolist()


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
def test_bases_are_taken_from_the_lanes_of_each_user(numbers, lanes):
    """Some cases copy the versions and some return a view."""
    first, second = torch.randn(2, 6, 3)
    versions = ModelVersions(first, {})
    versions.add(second, {}, [a_round(1)])
    found = versions.of(np.array(numbers)[:, None], np.array(lanes))
    expected = np.stack(
        [(first, second)[number][lanes_of_user].numpy() for number, lanes_of_user in zip(numbers, lanes, strict=True)]
    )
    assert np.array_equal(found.numpy(), expected)
    of_members = np.tile(np.array(numbers)[:, None], len(lanes[0]))
    assert np.array_equal(versions.of(of_members, np.array(lanes)).numpy(), expected)


def test_lanes_with_several_deliveries_equal_single_runs():
    """Two learners in three replicas with different numbers of deliveries."""
    specs = {"a": spec(aggregation=Average()), "b": spec(Cvar(alpha=0.3, lr_t=0.1), Average(weights="equal"))}
    rounds = [a_round(1, (0, 0), (3, 0)), a_round(1), a_round(1, (2, 0), (1, 0), (0, 0))]
    together = learner(specs, (0, 1, 2))
    together.step(rounds)
    for lane, (name, replica) in enumerate(together.lanes):
        alone = learner({name: specs[name]}, (replica,))
        alone.step([rounds[replica]])
        assert together.version(lane) == pytest.approx(alone.version(0), rel=0, abs=1e-13)
