"""Partitions: all examples are assigned once, sizes are even, and labels go to the right users."""

from __future__ import annotations

import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.learning.partition.by_class import ByClass
from netfl.learning.partition.iid import Iid
from netfl.learning.partition.rare_classes import RareClasses
from netfl.streams import Streams
from netfl.types import ScenarioFacts

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(10), np.arange(100, 200, 10)))  # 100 … 190 of each
ORDER = np.random.default_rng(1).permutation(30)


def spread(sizes):
    return max(sizes) - min(sizes)


@pytest.mark.parametrize(
    ("partition", "users"),
    [
        (Iid(), 7),
        (ByClass(), 10),
        (ByClass(), 4),
        (ByClass(), 23),
        (ByClass(classes=[[0, 1, 2], [3, 4, 5, 6], [0, 7, 8, 9]]), 3),
        (RareClasses(classes=[8, 9], users=3), 30),
    ],
)
def test_every_example_is_assigned_once(partition, users):
    parts = partition.split(LABELS, users, ORDER, Streams(3))
    assert len(parts) == users
    assert np.sort(np.concatenate(parts)).tolist() == list(range(len(LABELS)))
    assert all(part.dtype == np.int64 for part in parts)


@pytest.mark.parametrize("partition", [Iid(), ByClass(), RareClasses(classes=[9], users=3)])
def test_partitions_depend_only_on_their_streams(partition):
    parts, same, other_seed = (partition.split(LABELS, 30, ORDER, Streams(seed)) for seed in (1, 1, 2))
    assert [part.tolist() for part in parts] == [part.tolist() for part in same]
    assert [part.tolist() for part in parts] != [part.tolist() for part in other_seed]


def test_iid_parts_have_even_sizes_and_labels():
    parts = Iid().split(LABELS, 7, None, Streams(1))
    assert spread([len(part) for part in parts]) <= 1
    counts = np.array([np.bincount(LABELS[part], minlength=10) for part in parts])
    expected = len(LABELS) / 7 * np.bincount(LABELS) / len(LABELS)
    assert ((counts - expected) ** 2 / expected).sum() < 110  # 54 degrees of freedom: false alarm below 1 in 50,000


def test_iid_parts_have_the_counts_that_are_given():
    parts = Iid(counts=[10, 200, 30]).split(LABELS, 3, None, Streams(1))
    assert [len(part) for part in parts] == [10, 200, 30]
    used = np.concatenate(parts)
    assert len(np.unique(used)) == 240
    assert used.max() > 1000  # drawn from all rows


def test_counts_that_do_not_fit():
    with pytest.raises(ScenarioError, match="counts: 2 numbers of examples for 3 users; give one for each user"):
        Iid(counts=[1, 2]).split(LABELS, 3, None, Streams(1))
    with pytest.raises(ScenarioError, match=f"counts: users hold 5000 examples, but the data have {len(LABELS)}"):
        Iid(counts=[4999, 1]).split(LABELS, 2, None, Streams(1))
    with pytest.raises(ScenarioError, match="sizes and counts both give"):
        Iid(counts=[1], sizes={"distribution": "lognormal", "sigma": 1})


def test_as_many_users_as_classes_get_one_class_each():
    parts = ByClass().split(LABELS, 10, None, Streams(1))
    assert [set(LABELS[part].tolist()) for part in parts] == [{label} for label in range(10)]


def test_fewer_users_get_classes_in_turn():
    parts = ByClass().split(LABELS, 4, None, Streams(1))
    assert [set(LABELS[part].tolist()) for part in parts] == [{0, 4, 8}, {1, 5, 9}, {2, 6}, {3, 7}]


def test_more_users_share_classes_evenly():
    parts = ByClass().split(LABELS, 23, None, Streams(1))
    assert [set(LABELS[part].tolist()) for part in parts] == [{user % 10} for user in range(23)]
    assert sorted(len(parts[user]) for user in (0, 10, 20)) == [33, 33, 34]


def test_listed_classes_go_to_the_listed_users():
    parts = ByClass(classes=[[0], [1], [2, 3]]).split(LABELS[LABELS < 4], 3, None, Streams(1))
    labels_of_users = [set(LABELS[LABELS < 4][part].tolist()) for part in parts]
    assert labels_of_users == [{0}, {1}, {2, 3}]


def test_rare_classes_go_to_the_lowest_participation():
    parts = RareClasses(classes=[9, 4], users=3).split(LABELS, 30, ORDER, Streams(1))
    rare, other_users = ORDER[-3:], ORDER[:-3]
    counts = np.array([np.bincount(LABELS[part], minlength=10) for part in parts])
    assert counts[np.ix_(other_users, [4, 9])].sum() == 0
    assert counts[rare].sum() == counts[np.ix_(rare, [4, 9])].sum() == 140 + 190
    assert spread(counts[rare, 4]) <= 1
    assert spread(counts[rare, 9]) <= 1
    assert spread([len(parts[user]) for user in other_users]) <= 1
    expected = counts[other_users].sum(axis=0)[:4] / 27
    assert ((counts[other_users, :4] - expected) ** 2 / expected).sum() < 175  # 104 degrees of freedom, 1 in 50,000


def test_users_without_an_example_are_named():
    with pytest.raises(ScenarioError, match=r"for 2 of 6 users: 4, 5;"):
        Iid().split(LABELS[:4], 6, None, Streams(1))
    with pytest.raises(ScenarioError, match=r"for 988 of 1000 users: .*, …"):
        Iid().split(LABELS[:12], 1000, None, Streams(1))
    with pytest.raises(ScenarioError, match="1 of 30 users: "):
        RareClasses(classes=[0], users=2).split(np.append(np.arange(1, 200), 0), 30, ORDER, Streams(1))


def test_ranking_sources_and_rare_labels():
    rare = RareClasses(classes=[8, 9], users=3, by="distance")
    assert (rare.ranking_source, rare.rare_labels) == ("distance", (8, 9))
    assert (Iid().ranking_source, Iid().rare_labels, ByClass().ranking_source) == (None, (), None)


def test_labels_without_users_are_an_error():
    partition = ByClass(classes=[[0, 2], [3]])
    (error,) = partition.faults(ScenarioFacts(2, 10, classes=5))
    assert (error.problem, error.value) == ("no user holds 2 of the 5 labels", [1, 4])
    assert not [*partition.faults(ScenarioFacts(2, 10, classes=None))]
    assert [error.key for error in partition.faults(ScenarioFacts(2, 10, classes=3))] == ["classes.1.0", "classes"]


@pytest.mark.parametrize(
    ("partition", "keys"),
    [
        (RareClasses(classes=[8, 9], users=3), []),
        (RareClasses(classes=[8, 10], users=3), ["classes.1"]),
        (RareClasses(classes=range(10), users=3), ["classes"]),
        (RareClasses(classes=range(12), users=3), ["classes.10", "classes.11", "classes"]),
        (RareClasses(classes=[9], users=30), ["users"]),
        (RareClasses(classes=[9], users=3, by="distance"), ["by"]),
        (RareClasses(classes=[9], users=3, by="prerun"), []),
        (ByClass(), []),
        (ByClass(classes=[[0, 1], [2, 11]]), ["classes", "classes.1.1", "classes"]),
    ],
)
def test_settings_that_do_not_fit_are_errors(partition, keys):
    assert [error.key for error in partition.faults(ScenarioFacts(30, 10, classes=10, rho_known=True))] == keys


def test_ranking_by_rho_needs_a_known_rho():
    (error,) = RareClasses(classes=[9], users=3).faults(ScenarioFacts(30, 10, classes=10, placed=True))
    assert (error.key, error.value) == ("by", "rho")
    assert "distance or prerun" in error.remedy


@pytest.mark.parametrize(
    "make",
    [
        lambda: RareClasses(classes=[], users=1),
        lambda: RareClasses(classes=[1, 1], users=1),
        lambda: RareClasses(classes=[1], users=0),
        lambda: RareClasses(classes=[1], users=1, by="luck"),
        lambda: ByClass(classes=[[0], []]),
        lambda: ByClass(classes=[[0, 0]]),
    ],
)
def test_invalid_settings_are_errors(make):
    with pytest.raises(ScenarioError):
        make()
