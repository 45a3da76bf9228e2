"""Mini-batches: complete epochs, random access, and uniform shuffles."""

import numpy as np
import pytest
from scipy.stats import chi2
from support.learner_factory import draw_batches

from netfl.learning.minibatches import BatchSampler
from netfl.learning.spec import LocalWork
from netfl.streams import Streams

SHUFFLES = BatchSampler([Streams(1), Streams(2)])


def batches_of(jobs, amount, shuffles=SHUFFLES):
    """Return the mini-batches of jobs of (replica, user, base, size), as nested lists in the order of the jobs."""
    drawn = draw_batches(shuffles, jobs, amount)
    batches = [None] * len(jobs)
    for row, job in enumerate(drawn.order):
        pairs = zip(drawn.places[row], drawn.counts[row], strict=True)
        batches[job] = [indices[:count].tolist() for indices, count in pairs if count]
        assert all(
            not indices[count:].any() for indices, count in zip(drawn.places[row], drawn.counts[row], strict=True)
        )
    return batches


def test_an_epoch_contains_every_example_once():
    (batches,) = batches_of([(0, 3, 7, 10)], LocalWork(4, 2, None))
    assert [len(batch) for batch in batches] == [4, 4, 2] * 2
    first, second = ([index for batch in part for index in batch] for part in (batches[:3], batches[3:]))
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


def test_steps_use_as_many_epochs_as_needed():
    (steps,), (epochs,) = (
        batches_of([(0, 3, 7, 10)], amount) for amount in (LocalWork(4, None, 5), LocalWork(4, 2, None))
    )
    assert steps == epochs[:5]


def test_batches_larger_than_the_data_are_full_batches():
    full, large = (batches_of([(0, 1, 0, 5), (0, 2, 0, 3)], LocalWork(width, 2, None)) for width in (None, 100))
    assert full == large
    assert [sorted(batch) for batch in full[0]] == [[0, 1, 2, 3, 4]] * 2
    assert [sorted(batch) for batch in full[1]] == [[0, 1, 2]] * 2


@pytest.mark.parametrize("amount", [LocalWork(4, 3, None), LocalWork(4, None, 7), LocalWork(None, 2, None)])
def test_batches_do_not_depend_on_other_users(amount):
    jobs = [(0, 3, 7, 10), (1, 3, 7, 10), (0, 4, 7, 33), (0, 3, 8, 10), (1, 0, 0, 1)]
    together, reverse = batches_of(jobs, amount), batches_of(jobs[::-1], amount)[::-1]
    alone = [batches_of([job], amount)[0] for job in jobs]
    assert together == reverse == alone
    if amount.batch_size is not None:
        assert len({str(together[job]) for job in (0, 1, 3)}) == 3


def test_jobs_are_sorted_by_steps():
    found = draw_batches(SHUFFLES, [(0, 0, 0, 5), (0, 1, 0, 50), (0, 2, 0, 20)], LocalWork(10, 1, None))
    assert found.order.tolist() == [1, 2, 0]
    assert found.counts.tolist() == [[10] * 5, [10, 10, 0, 0, 0], [5, 0, 0, 0, 0]]
    assert found.layout.extents == ((3, 10), (2, 10), (1, 10), (1, 10), (1, 10))
    assert not found.layout.is_ordered


def test_shuffles_are_uniform():
    """Chi-square test over 6 x 6 cells of 6,000 shuffles, with false alarm rate 1e-4."""
    size, shuffles = 6, 6000
    jobs = [(0, user, 0, size) for user in range(shuffles)]
    drawn = draw_batches(SHUFFLES, jobs, LocalWork(None, 1, None)).places[:, 0]
    counts = np.stack([np.bincount(position, minlength=size) for position in drawn.T])
    statistic = ((counts - shuffles / size) ** 2 / (shuffles / size)).sum() * (size - 1) / size
    assert statistic < chi2.isf(1e-4, (size - 1) ** 2)


def test_repeated_updates_from_one_version_use_the_next_passes():
    """Each update has two passes. Updates 1 and 3 use passes 0 and 1, and 4 and 5, of a single update of six passes."""
    jobs, work = [(0, 3, 7, 40)], LocalWork(10, 2, None)
    whole = draw_batches(SHUFFLES, jobs, LocalWork(10, 6, None))
    for repeat in range(3):
        found = draw_batches(SHUFFLES, jobs, work, np.array([repeat]))
        assert found.places.tolist() == whole.places[:, 8 * repeat : 8 * repeat + 8].tolist()
    assert draw_batches(SHUFFLES, jobs, work).places.tolist() == whole.places[:, :8].tolist()
