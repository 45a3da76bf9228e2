"""Pictures moved inside the mini-batch: what a move is, how moves are drawn, and that nobody else has a say in them."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from learning.test_learner import play
from scipy.stats import chi2
from support.learner_factory import CLASSES, SPLIT, USERS, a_round, draw_batches, learner, network, spec
from torch import nn

from netfl.errors import ScenarioError
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.relay import Relay
from netfl.learning.cohort import Cohort
from netfl.learning.data import Dataset
from netfl.learning.data._images import Augment
from netfl.learning.minibatches import BatchSampler
from netfl.learning.model.logistic import Logistic
from netfl.learning.objective.cvar import Cvar
from netfl.learning.spec import LocalWork
from netfl.learning.user_data import Augmentation
from netfl.streams import Streams

SHAPE = (2, 4, 5)
BOTH = Augment(crop=2)


def pictures(seed=0, augment=BOTH):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((120, *SHAPE)).astype(np.float32), rng.integers(CLASSES, size=120)
    return Dataset(x[:90], y[:90], x[90:], y[90:], CLASSES, augment=augment)


DATA = pictures()


def school(specs, replicas=(0,), **changes):
    return learner(specs, replicas, **{"model": Logistic(), "datasets": [DATA] * len(replicas)} | changes)


def of(augment, replicas=1):
    return Augmentation(augment, SHAPE, [Streams(5).at(one) for one in range(replicas)], torch.device("cpu"))


def cut_out(picture, move, crop):
    """A picture framed with zeros, cut out at the place that *move* says, and perhaps mirrored."""
    flip, down, right = np.unravel_index(move, (2, 2 * crop + 1, 2 * crop + 1))
    framed = np.pad(picture, ((0, 0), (crop, crop), (crop, crop)))
    found = framed[:, down : down + picture.shape[1], right : right + picture.shape[2]]
    return found[:, :, ::-1] if flip else found


@pytest.mark.parametrize("crop", [0, 1, 2, 6])
def test_a_move_is_a_crop_of_the_framed_picture_and_a_flip(crop):
    count = 2 * (2 * crop + 1) ** 2
    x = np.random.default_rng(1).standard_normal((count, *SHAPE))
    moved = of(Augment(crop=crop)).apply(torch.tensor(x), torch.arange(count)).numpy()
    assert (moved == np.stack([cut_out(one, move, crop) for move, one in enumerate(x)])).all()


def drawn(lines, amount, augment=BOTH, turns=None):
    """The moves of lines of (replica, user, base, size), ``[lines]`` of ``[steps, width]`` with -1 beyond the end."""
    replicas, users, bases, _ = np.array(lines).T
    shuffles = BatchSampler([Streams(5).at(0), Streams(5).at(1)])
    batches = draw_batches(shuffles, lines, amount, turns)
    moves = of(augment, 2).draw(Cohort(replicas, users, bases, (), turns), batches).numpy().swapaxes(0, 1)
    there = np.arange(moves.shape[2]) < batches.counts[..., None]
    return np.where(there, moves, -1)[np.argsort(batches.order)]


@pytest.mark.parametrize(("augment", "count"), [(BOTH, 50), (Augment(crop=2, flip=False), 25), (Augment(crop=0), 2)])
def test_every_move_is_as_likely(augment, count):
    """Chi-square over all moves, and over pairs of moves of neighbours; false alarm 1e-4 each."""
    found = drawn([(0, user, 0, 1000) for user in range(20)], LocalWork(100, 1, None), augment).ravel()
    assert (found.min(), found.max()) == (0, count - 1)
    pairs = found[::2] * count + found[1::2]
    for cells, many in (
        (np.bincount(found, minlength=count), count),
        (np.bincount(pairs, minlength=count**2), count**2),
    ):
        expected = cells.sum() / many
        assert ((cells - expected) ** 2 / expected).sum() < chi2.isf(1e-4, many - 1)


@pytest.mark.parametrize("amount", [LocalWork(4, 3, None), LocalWork(4, None, 7), LocalWork(None, 2, None)])
def test_nobody_elses_training_changes_a_users_moves(amount):
    lines = [(0, 3, 7, 10), (1, 3, 7, 10), (0, 4, 7, 33), (0, 3, 8, 10), (1, 0, 0, 1)]
    together, reverse = drawn(lines, amount), drawn(lines[::-1], amount)[::-1]
    assert (together == reverse).all()
    for line, moves in zip(lines, together, strict=True):
        (alone,) = drawn([line], amount)
        assert (moves[: alone.shape[0], : alone.shape[1]] == alone).all()
    assert len({str(together[line].tolist()) for line in range(4)}) == 4


def test_an_example_is_moved_alike_however_batches_are_cut():
    """The how manieth example of the update it is decides, so that learners with other batch sizes are paired."""
    parts = [drawn([(0, 3, 7, 12)], LocalWork(width, 2, None))[0].ravel() for width in (3, 4, 12, None)]
    assert all((part[part >= 0] == parts[0]).all() for part in parts)
    first, second = np.split(parts[0], 2)
    assert (first != second).any()


def test_who_starts_again_from_a_version_sees_its_pictures_moved_anew():
    line, how = [(0, 3, 7, 10)], LocalWork(10, 2, None)
    turns = [drawn(line, how, turns=np.array([turn])).tolist() for turn in range(3)]
    assert turns[0] == drawn(line, how).tolist()
    assert len(set(map(str, turns))) == 3


def test_one_user_is_plain_sgd_on_moved_pictures_in_pytorch():
    one = school({"a": spec(batch_size=8, local_epochs=2)})
    module = nn.Sequential(nn.Flatten(), nn.Linear(40, CLASSES)).double()
    nn.utils.vector_to_parameters(torch.tensor(one.version(0)[:-1]), module.parameters())
    one.step([a_round(1, (3, 0))])
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05)
    size, how = len(SPLIT[3]), LocalWork(8, 2, None)
    batches = draw_batches(BatchSampler([Streams(5).at(0)]), [(0, 3, 0, size)], how)
    (moves,) = drawn([(0, 3, 0, size)], how)
    for places, count, own in zip(batches.places[0], batches.counts[0], moves, strict=True):
        rows = SPLIT[3][places[:count]]
        x = np.stack([cut_out(DATA.train_x[row], move, 2) for row, move in zip(rows, own, strict=False)])
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(torch.tensor(x).double()), torch.tensor(DATA.train_y[rows])).backward()
        optimiser.step()
    expected = nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
    assert one.version(0)[:-1] == pytest.approx(expected, rel=0, abs=1e-12)


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
    together = school(mixture(), (0, 1), dtype=dtype)
    versions = play(together, (0, 1))
    for (name, replica), version in zip(together.lanes, versions, strict=True):
        (expected,) = play(school({name: mixture()[name]}, (replica,), dtype=dtype), (replica,))
        assert version == pytest.approx(expected, rel=0, abs=tolerance)
        (still,) = play(school({name: mixture()[name]}, (replica,), datasets=[replace(DATA, augment=None)]), (replica,))
        assert np.abs(version - still).max() > 1e-3


def test_padded_equals_not_padded():
    together = school({"a": spec(aggregation=Average(weights="equal"), batch_size=10)})
    together.step([a_round(1, *((user, 0) for user in range(USERS)))])
    alone = []
    for user in range(USERS):
        one = school({"a": spec(aggregation=Relay(), batch_size=10)})
        one.step([a_round(1, (user, 0))])
        alone.append(one.version(0))
    assert together.version(0) == pytest.approx(np.mean(alone, axis=0), rel=0, abs=1e-13)


def test_lazy_equals_eager():
    """Everybody trains from every version that is about; the delivered are picked afterwards."""
    lazy = school({"a": spec()})
    versions = [lazy.version(0)]
    for (now,) in zip(network(0, 4), strict=True):
        trained = {}
        for user, base in product(range(USERS), range(now.index)):
            alone = school({"a": spec(aggregation=Relay())})
            kept = {"kept": {base: torch.tensor(versions[base])[None]}, "messages": {base: {}}}
            alone.restore(alone.state() | {"round": base, "versions": kept})
            alone.step([a_round(base + 1, (user, base))])
            trained[user, base] = alone.version(0)
        models = [trained[one.user, one.base] for one in now.deliveries]
        sizes = [len(SPLIT[one.user]) for one in now.deliveries]
        versions.append(np.average(models, axis=0, weights=sizes) if models else versions[-1])
        lazy.step([now])
        assert lazy.version(0) == pytest.approx(versions[-1], rel=0, abs=1e-12)


def test_going_on_from_a_kept_state_changes_nothing():
    whole, first, second = (school(mixture()) for _ in range(3))
    rounds = [*network(0)]
    for now in rounds:
        whole.step([now])
    for now in rounds[:3]:
        first.step([now])
    kept = io.BytesIO()
    torch.save(first.state(), kept)
    kept.seek(0)
    second.restore(torch.load(kept, weights_only=True))
    for now in rounds[3:]:
        second.step([now])
    assert all((second.version(lane) == whole.version(lane)).all() for lane in range(4))


def test_evaluation_and_the_losses_of_users_see_pictures_as_they_are():
    moved, still = (school({"a": spec()}, datasets=[pictures(augment=augment)]) for augment in (BOTH, None))
    asked = replace(a_round(1), queries={"loss": [0, 3]})
    figures = [(one.start().metrics, one.step([asked]).answers) for one in (moved, still)]
    for name, value in figures[0][0].items():
        assert (value == figures[1][0][name]).all()
    assert (figures[0][1][0]["loss"] == figures[1][1][0]["loss"]).all()


@pytest.mark.parametrize("wrong", [{"crop": -1}, {"turn": 3}, {"crop": 65}])
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(ScenarioError):
        Augment(**wrong)
