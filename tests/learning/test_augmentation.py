"""Augmentation inside mini-batches: the definition of a move, its distribution, and its independence of other users."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from learning.test_learner import run_rounds
from scipy.stats import chi2
from support.learner_factory import (
    CLASSES,
    SPLIT,
    USERS,
    a_round,
    draw_batches,
    learner,
    network,
    read_back,
    spec,
)
from torch import nn

from netfl.errors import ScenarioError
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.relay import Relay
from netfl.learning.cohort import Cohort
from netfl.learning.data import Dataset
from netfl.learning.data._augment import Augment
from netfl.learning.minibatches import BatchSampler
from netfl.learning.model.logistic import Logistic
from netfl.learning.objective.cvar import Cvar
from netfl.learning.spec import LocalWork
from netfl.learning.user_data import Augmentation
from netfl.streams import Streams

SHAPE = (2, 4, 5)
CROP_AND_FLIP = Augment(crop=2)


def make_images(seed=0, augment=CROP_AND_FLIP):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((120, *SHAPE)).astype(np.float32), rng.integers(CLASSES, size=120)
    return Dataset(x[:90], y[:90], x[90:], y[90:], CLASSES, augment=augment)


DATA = make_images()


def image_learner(specs, replicas=(0,), **changes):
    return learner(specs, replicas, **{"model": Logistic(), "datasets": [DATA] * len(replicas)} | changes)


def augmentation(augment, replicas=1):
    return Augmentation(augment, SHAPE, [Streams(5).at(replica) for replica in range(replicas)], torch.device("cpu"))


def cut_out(image, move, crop):
    """Frame an image with zeros, crop it at the position of *move*, and flip it if *move* says so."""
    flip, down, right = np.unravel_index(move, (2, 2 * crop + 1, 2 * crop + 1))
    framed = np.pad(image, ((0, 0), (crop, crop), (crop, crop)))
    cropped = framed[:, down : down + image.shape[1], right : right + image.shape[2]]
    return cropped[:, :, ::-1] if flip else cropped


@pytest.mark.parametrize("crop", [0, 1, 2, 6])
def test_a_move_is_a_crop_and_a_flip(crop):
    count = 2 * (2 * crop + 1) ** 2
    x = np.random.default_rng(1).standard_normal((count, *SHAPE))
    moved = augmentation(Augment(crop=crop)).apply(torch.tensor(x), torch.arange(count)).numpy()
    assert (moved == np.stack([cut_out(image, move, crop) for move, image in enumerate(x)])).all()


def draw_moves(jobs, amount, augment=CROP_AND_FLIP, repeats=None):
    """Return the moves of jobs of (replica, user, base, size), ``[jobs]`` of ``[steps, width]``, -1 beyond the end."""
    replicas, users, bases, _ = np.array(jobs).T
    shuffles = BatchSampler([Streams(5).at(0), Streams(5).at(1)])
    batches = draw_batches(shuffles, jobs, amount, repeats)
    moves = augmentation(augment, 2).draw(Cohort(replicas, users, bases, (), repeats), batches).numpy().swapaxes(0, 1)
    is_used = np.arange(moves.shape[2]) < batches.counts[..., None]
    return np.where(is_used, moves, -1)[np.argsort(batches.order)]


@pytest.mark.parametrize(
    ("augment", "count"), [(CROP_AND_FLIP, 50), (Augment(crop=2, flip=False), 25), (Augment(crop=0), 2)]
)
def test_moves_are_uniform(augment, count):
    """Chi-square test over all moves and over pairs of neighbouring moves, with false alarm rate 1e-4 each."""
    found = draw_moves([(0, user, 0, 1000) for user in range(20)], LocalWork(100, 1, None), augment).ravel()
    assert (found.min(), found.max()) == (0, count - 1)
    pairs = found[::2] * count + found[1::2]
    for cells, count_of_cells in (
        (np.bincount(found, minlength=count), count),
        (np.bincount(pairs, minlength=count**2), count**2),
    ):
        expected = cells.sum() / count_of_cells
        assert ((cells - expected) ** 2 / expected).sum() < chi2.isf(1e-4, count_of_cells - 1)


@pytest.mark.parametrize("amount", [LocalWork(4, 3, None), LocalWork(4, None, 7), LocalWork(None, 2, None)])
def test_moves_do_not_depend_on_other_users(amount):
    jobs = [(0, 3, 7, 10), (1, 3, 7, 10), (0, 4, 7, 33), (0, 3, 8, 10), (1, 0, 0, 1)]
    together, reverse = draw_moves(jobs, amount), draw_moves(jobs[::-1], amount)[::-1]
    assert (together == reverse).all()
    for job, moves in zip(jobs, together, strict=True):
        (alone,) = draw_moves([job], amount)
        assert (moves[: alone.shape[0], : alone.shape[1]] == alone).all()
    assert len({str(together[job].tolist()) for job in range(4)}) == 4


def test_moves_do_not_depend_on_the_batch_size():
    """The position in the update determines the move, so learners with different batch sizes see the same moves."""
    parts = [draw_moves([(0, 3, 7, 12)], LocalWork(width, 2, None))[0].ravel() for width in (3, 4, 12, None)]
    assert all((part[part >= 0] == parts[0]).all() for part in parts)
    first, second = np.split(parts[0], 2)
    assert (first != second).any()


def test_repeated_updates_from_one_version_draw_new_moves():
    job, work = [(0, 3, 7, 10)], LocalWork(10, 2, None)
    moves = [draw_moves(job, work, repeats=np.array([repeat])).tolist() for repeat in range(3)]
    assert moves[0] == draw_moves(job, work).tolist()
    assert len(set(map(str, moves))) == 3


def test_one_user_equals_sgd_of_pytorch_on_augmented_images():
    batched = image_learner({"a": spec(batch_size=8, local_epochs=2)})
    module = nn.Sequential(nn.Flatten(), nn.Linear(40, CLASSES)).double()
    nn.utils.vector_to_parameters(torch.tensor(batched.version(0)[:-1]), module.parameters())
    batched.step([a_round(1, (3, 0))])
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05)
    size, work = len(SPLIT[3]), LocalWork(8, 2, None)
    batches = draw_batches(BatchSampler([Streams(5).at(0)]), [(0, 3, 0, size)], work)
    (moves,) = draw_moves([(0, 3, 0, size)], work)
    for indices, count, user_moves in zip(batches.places[0], batches.counts[0], moves, strict=True):
        rows = SPLIT[3][indices[:count]]
        x = np.stack([cut_out(DATA.train_x[row], move, 2) for row, move in zip(rows, user_moves, strict=False)])
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(torch.tensor(x).double()), torch.tensor(DATA.train_y[rows])).backward()
        optimiser.step()
    expected = nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
    assert batched.version(0)[:-1] == pytest.approx(expected, rel=0, abs=1e-12)


def mixture():
    return {
        "erm": spec(),
        "cvar": spec(Cvar(alpha=0.3, gamma=0.2, lr_t=0.1)),
        "steps": spec(local_steps=5, batch_size=16),
        "full": spec(batch_size="full", local_steps=3),
    }


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-5)])
@pytest.mark.quick_first
def test_batched_equals_one_by_one(dtype, tolerance):
    together = image_learner(mixture(), (0, 1), dtype=dtype)
    versions = run_rounds(together, (0, 1))
    for (name, replica), version in zip(together.lanes, versions, strict=True):
        (expected,) = run_rounds(image_learner({name: mixture()[name]}, (replica,), dtype=dtype), (replica,))
        assert version == pytest.approx(expected, rel=0, abs=tolerance)
        (unaugmented,) = run_rounds(
            image_learner({name: mixture()[name]}, (replica,), datasets=[replace(DATA, augment=None)]), (replica,)
        )
        assert np.abs(version - unaugmented).max() > 1e-3


def test_padded_batches_equal_single_users():
    together = image_learner({"a": spec(aggregation=Average(weights="equal"), batch_size=10)})
    together.step([a_round(1, *((user, 0) for user in range(USERS)))])
    alone = []
    for user in range(USERS):
        single = image_learner({"a": spec(aggregation=Relay(), batch_size=10)})
        single.step([a_round(1, (user, 0))])
        alone.append(single.version(0))
    assert together.version(0) == pytest.approx(np.mean(alone, axis=0), rel=0, abs=1e-13)


def test_lazy_equals_eager():
    """Train all users from all versions, and aggregate those that are delivered."""
    lazy = image_learner({"a": spec()})
    versions = [lazy.version(0)]
    for (current,) in zip(network(0, 4), strict=True):
        trained = {}
        for user, base in product(range(USERS), range(current.index)):
            reference = image_learner({"a": spec(aggregation=Relay())})
            kept = {"kept": {base: torch.tensor(versions[base])[None]}, "messages": {base: {}}}
            reference.restore(reference.state() | {"round": base, "versions": kept})
            reference.step([a_round(base + 1, (user, base))])
            trained[user, base] = reference.version(0)
        models = [trained[delivery.user, delivery.base] for delivery in current.deliveries]
        sizes = [len(SPLIT[delivery.user]) for delivery in current.deliveries]
        versions.append(np.average(models, axis=0, weights=sizes) if models else versions[-1])
        lazy.step([current])
        assert lazy.version(0) == pytest.approx(versions[-1], rel=0, abs=1e-12)


def test_a_restored_learner_continues_identically():
    whole, stopped, resumed = (image_learner(mixture()) for _ in range(3))
    rounds = [*network(0)]
    for current in rounds:
        whole.step([current])
    for current in rounds[:3]:
        stopped.step([current])
    resumed.restore(read_back(stopped.state()))
    for current in rounds[3:]:
        resumed.step([current])
    assert all((resumed.version(lane) == whole.version(lane)).all() for lane in range(4))


def test_evaluation_and_user_losses_use_original_images():
    augmented, plain = (
        image_learner({"a": spec()}, datasets=[make_images(augment=augment)]) for augment in (CROP_AND_FLIP, None)
    )
    query = replace(a_round(1), queries={"loss": [0, 3]})
    results = [(batched.start().metrics, batched.step([query]).answers) for batched in (augmented, plain)]
    for name, value in results[0][0].items():
        assert (value == results[1][0][name]).all()
    assert (results[0][1][0]["loss"] == results[1][1][0]["loss"]).all()


@pytest.mark.parametrize("settings", [{"crop": -1}, {"turn": 3}, {"crop": 65}])
def test_invalid_settings_are_errors(settings):
    with pytest.raises(ScenarioError):
        Augment(**settings)
