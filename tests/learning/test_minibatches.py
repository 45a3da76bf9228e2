"""Mini-batches: whole passes, random access, and fair shuffles."""

import numpy as np
import pytest
from scipy.stats import chi2
from support.learner_factory import draw_batches

from netfl.learning.minibatches import BatchSampler
from netfl.learning.spec import LocalWork
from netfl.streams import Streams

SHUFFLES = BatchSampler([Streams(1), Streams(2)])


def ask(lines, amount, shuffles=SHUFFLES):
    """Mini-batches for lines of (replica, user, base, size), as nested lists in the order of the lines."""
    found = draw_batches(shuffles, lines, amount)
    batches = [None] * len(lines)
    for row, line in enumerate(found.order):
        pairs = zip(found.places[row], found.counts[row], strict=True)
        batches[line] = [places[:count].tolist() for places, count in pairs if count]
        assert all(not places[count:].any() for places, count in zip(found.places[row], found.counts[row], strict=True))
    return batches


def test_an_epoch_is_every_example_once_and_its_last_batch_may_be_smaller():
    (batches,) = ask([(0, 3, 7, 10)], LocalWork(4, 2, None))
    assert [len(one) for one in batches] == [4, 4, 2] * 2
    first, second = ([place for one in part for place in one] for part in (batches[:3], batches[3:]))
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


def test_steps_take_as_many_passes_as_they_need():
    (steps,), (epochs,) = (ask([(0, 3, 7, 10)], amount) for amount in (LocalWork(4, None, 5), LocalWork(4, 2, None)))
    assert steps == epochs[:5]


def test_full_batches_and_batches_larger_than_what_there_is():
    full, large = (ask([(0, 1, 0, 5), (0, 2, 0, 3)], LocalWork(width, 2, None)) for width in (None, 100))
    assert full == large
    assert [sorted(one) for one in full[0]] == [[0, 1, 2, 3, 4]] * 2
    assert [sorted(one) for one in full[1]] == [[0, 1, 2]] * 2


@pytest.mark.parametrize("amount", [LocalWork(4, 3, None), LocalWork(4, None, 7), LocalWork(None, 2, None)])
def test_nobody_elses_training_changes_a_users_batches(amount):
    lines = [(0, 3, 7, 10), (1, 3, 7, 10), (0, 4, 7, 33), (0, 3, 8, 10), (1, 0, 0, 1)]
    together, reverse = ask(lines, amount), ask(lines[::-1], amount)[::-1]
    alone = [ask([line], amount)[0] for line in lines]
    assert together == reverse == alone
    if amount.batch_size is not None:
        assert len({str(together[line]) for line in (0, 1, 3)}) == 3


def test_those_with_the_most_steps_come_first():
    found = draw_batches(SHUFFLES, [(0, 0, 0, 5), (0, 1, 0, 50), (0, 2, 0, 20)], LocalWork(10, 1, None))
    assert found.order.tolist() == [1, 2, 0]
    assert found.counts.tolist() == [[10] * 5, [10, 10, 0, 0, 0], [5, 0, 0, 0, 0]]
    assert [*found.extents()] == [(3, 10), (2, 10), (1, 10), (1, 10), (1, 10)]
    assert not found.is_ordered


def test_every_example_is_as_likely_at_every_place():
    """Chi-square over 6 x 6 cells of 6,000 shuffles; false alarm 1e-4."""
    size, many = 6, 6000
    lines = [(0, user, 0, size) for user in range(many)]
    drawn = draw_batches(SHUFFLES, lines, LocalWork(None, 1, None)).places[:, 0]
    counts = np.stack([np.bincount(place, minlength=size) for place in drawn.T])
    statistic = ((counts - many / size) ** 2 / (many / size)).sum() * (size - 1) / size
    assert statistic < chi2.isf(1e-4, (size - 1) ** 2)


def test_who_starts_again_from_a_version_goes_on_with_the_next_passes():
    """Two passes of an update each: the first turn has passes 0 and 1, the third 4 and 5, as one of six passes has."""
    lines, how = [(0, 3, 7, 40)], LocalWork(10, 2, None)
    whole = draw_batches(SHUFFLES, lines, LocalWork(10, 6, None))
    for turn in range(3):
        found = draw_batches(SHUFFLES, lines, how, np.array([turn]))
        assert found.places.tolist() == whole.places[:, 8 * turn : 8 * turn + 8].tolist()
    assert draw_batches(SHUFFLES, lines, how).places.tolist() == whole.places[:, :8].tolist()
