"""Partitions by label mixes, sizes, shards and natural users, compared with separate computations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from netfl.errors import ScenarioError
from netfl.learning.partition._allocation import Sizes, whole_portions
from netfl.learning.partition.dirichlet import Dirichlet
from netfl.learning.partition.iid import Iid
from netfl.learning.partition.shards import Shards
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation.setup import prepare_run
from netfl.streams import Streams
from netfl.types import ScenarioFacts

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(10), np.arange(400, 800, 40)))
POWER, LOGNORMAL = (
    {"distribution": "power_law", "exponent": 1.5},
    {"distribution": "lognormal", "sigma": 1.0, "min_samples": 3},
)


def label_counts(parts, labels=LABELS):
    """Return the number of examples of each label for each user."""
    return np.array([np.bincount(labels[part], minlength=10) for part in parts])


@pytest.mark.parametrize(
    "partition",
    [
        Iid(sizes=POWER),
        Iid(sizes=LOGNORMAL),
        Shards(),
        Shards(per_user=1),
        Shards(per_user=3, stratified=False),
        Dirichlet(concentration=0.5),
        Dirichlet(concentration=0.5, by="labels"),
        Dirichlet(concentration=0.3, by="draws"),
        Dirichlet(concentration=0.3, by="draws", sizes=LOGNORMAL),
    ],
    ids=str,
)
class TestEveryPartition:
    def test_every_example_is_assigned_once(self, partition):
        parts = partition.split(LABELS, 30, None, Streams(3))
        assert len(parts) == 30
        assert all(len(part) and part.dtype == np.int64 for part in parts)
        assert np.sort(np.concatenate(parts)).tolist() == list(range(len(LABELS)))

    def test_partitions_depend_only_on_their_streams(self, partition):
        parts, same, other_seed = (partition.split(LABELS, 30, None, Streams(seed)) for seed in (1, 1, 2))
        assert [part.tolist() for part in parts] == [part.tolist() for part in same]
        assert [part.tolist() for part in parts] != [part.tolist() for part in other_seed]

    def test_users_without_an_example_are_named(self, partition):
        with pytest.raises(ScenarioError, match=r"users"):
            partition.split(LABELS[:4], 6, None, Streams(1))


def test_portions_differ_from_shares_by_at_most_one():
    rng = np.random.default_rng(0)
    for _ in range(100):
        total, shares = int(rng.integers(0, 10_000)), rng.exponential(size=37) ** 4
        counts = whole_portions(total, shares)
        assert counts.sum() == total
        assert np.abs(counts - total * shares / shares.sum()).max() <= 1
        assert counts.min() >= 0


class TestSizes:
    def test_sizes_are_the_minimum_and_a_share_of_the_rest(self):
        for settings in (POWER, LOGNORMAL):
            sizes = Sizes(**settings)
            weights, counts = sizes.draw_weights(Streams(4), 50), sizes.draw_counts(Streams(4), 50, 10_000)
            assert counts.sum() == 10_000
            min_samples = settings.get("min_samples", 1)
            assert np.abs(counts - min_samples - (10_000 - 50 * min_samples) * weights / weights.sum()).max() <= 1
            assert counts.min() >= min_samples

    def test_weights_do_not_depend_on_the_number_of_users(self):
        assert (Sizes(**POWER).draw_weights(Streams(4), 50)[:7] == Sizes(**POWER).draw_weights(Streams(4), 7)).all()

    @pytest.mark.parametrize(
        ("settings", "distribution"),
        [
            (POWER, stats.pareto(1.5)),
            (LOGNORMAL, stats.lognorm(1.0)),
            ({"distribution": "lognormal", "sigma": 2}, stats.lognorm(2)),
        ],
    )
    def test_weights_follow_their_distribution(self, settings, distribution):
        assert stats.kstest(Sizes(**settings).draw_weights(Streams(5), 5000), distribution.cdf).pvalue > 1e-5

    def test_too_few_examples_are_an_error(self):
        with pytest.raises(ScenarioError, match=r"sizes\.min_samples: 30 users cannot hold this many of 80 examples"):
            Iid(sizes=LOGNORMAL).split(LABELS[:80], 30, None, Streams(1))

    @pytest.mark.parametrize(
        "settings",
        [
            {"distribution": "power_law"},
            {"distribution": "lognormal", "exponent": 1},
            {"distribution": "lognormal", "sigma": 1, "exponent": 1},
            {"law": "zipf", "exponent": 1},
            {"distribution": "lognormal", "sigma": 1, "min_samples": 0},
        ],
    )
    def test_invalid_settings_are_errors(self, settings):
        with pytest.raises(ScenarioError):
            Iid(sizes=settings)


class TestShards:
    def test_two_shards_have_different_labels(self):
        """20 shards of single labels give each of 10 users two different labels."""
        labels = np.random.default_rng(1).permutation(np.repeat(np.arange(10), 60))
        for seed in range(20):
            counts = np.array(label_counts(Shards(per_user=2).split(labels, 10, None, Streams(seed)), labels))
            assert (np.sort(counts, axis=1)[:, -2:] == 30).all()
            assert (counts.sum(axis=1) == 60).all()

    def test_one_shard_has_one_label(self):
        labels = np.random.default_rng(1).permutation(np.repeat(np.arange(10), 60))
        labels_of_users = label_counts(Shards(per_user=1).split(labels, 10, None, Streams(1)), labels).argmax(axis=1)
        assert sorted(labels_of_users) == list(range(10))
        assert labels_of_users.tolist() != list(range(10))

    def test_random_shards_may_have_equal_labels(self):
        """P(both shards of a user have one label) = 1/19.

        1000 users give between 25 and 87 with probability 1 - 1e-5.
        """
        labels = np.repeat(np.arange(10), 60)
        splits = [Shards(stratified=False).split(labels, 10, None, Streams(seed)) for seed in range(100)]
        single_label_users = sum((label_counts(parts, labels).max(axis=1) == 60).sum() for parts in splits)
        assert 25 <= single_label_users <= 87

    def test_more_shards_than_labels_are_an_error(self):
        assert [error.key for error in Shards(per_user=11).faults(ScenarioFacts(10, 1, classes=10))] == ["per_user"]
        assert [*Shards(per_user=11, stratified=False).faults(ScenarioFacts(10, 1, classes=10))] == []
        assert [*Shards(per_user=10).faults(ScenarioFacts(10, 1, classes=10))] == []


class TestDirichlet:
    def test_by_mixes_splits_labels_in_proportion_to_mixes(self):
        dirichlet = Dirichlet(concentration=0.5)
        mixes = dirichlet.draw_mixes(Streams(3), 30, 10)
        expected = np.bincount(LABELS) * mixes / mixes.sum(axis=0)
        assert np.abs(label_counts(dirichlet.split(LABELS, 30, None, Streams(3))) - expected).max() <= 1

    def test_by_labels_splits_each_label_separately(self):
        dirichlet = Dirichlet(concentration=0.5, by="labels")
        expected = np.bincount(LABELS) * dirichlet.draw_mixes(Streams(3), 10, 30).T
        assert np.abs(label_counts(dirichlet.split(LABELS, 30, None, Streams(3))) - expected).max() <= 1

    def test_by_draws_gives_the_requested_sizes(self):
        even = Dirichlet(concentration=0.3, by="draws").split(LABELS, 30, None, Streams(3))
        assert max(map(len, even)) - min(map(len, even)) <= 1
        uneven = Dirichlet(concentration=0.3, by="draws", sizes=LOGNORMAL).split(LABELS, 30, None, Streams(3))
        sizes = Sizes(**LOGNORMAL).draw_counts(Streams(3).at("sizes"), 30, len(LABELS))
        assert [len(part) for part in uneven] == sizes.tolist()

    @pytest.mark.slow
    def test_by_draws_follows_the_mix_of_the_first_user(self):
        """Chi-square test over seeds: the counts of the first user are multinomial."""
        dirichlet, labels = Dirichlet(concentration=2.0, by="draws"), np.repeat(np.arange(4), 5000)
        statistic = degrees_of_freedom = 0.0
        for seed in range(40):
            first = int(Streams(seed).rng("draws").permutation(400)[0])
            mix = dirichlet.draw_mixes(Streams(seed), 400, 4)[first]
            counts = label_counts(dirichlet.split(labels, 400, None, Streams(seed)), labels)[first, :4]
            statistic += ((counts - 50 * mix) ** 2 / np.maximum(50 * mix, 1e-9))[mix > 0.02].sum()
            degrees_of_freedom += (mix > 0.02).sum() - 1
        assert stats.chi2.sf(statistic, degrees_of_freedom) > 1e-5
        assert stats.chi2.cdf(statistic, degrees_of_freedom) > 1e-5

    def test_mixes_have_the_moments_of_the_dirichlet_distribution(self):
        """Mean 1/C, variance (C-1)/(C²(Cα+1)), covariance -1/(C²(Cα+1))."""
        for alpha in (0.1, 1.0, 10.0):
            mixes = Dirichlet(concentration=alpha).draw_mixes(Streams(1), 40_000, 5)
            expected = np.eye(5) / 5 - 1 / 25
            found = np.cov(mixes.T) * (5 * alpha + 1)
            assert np.abs(mixes.mean(axis=0) - 0.2).max() < 5 * np.sqrt(0.16 / (5 * alpha + 1) / 40_000)
            assert np.abs(found - expected).max() < 0.01

    def test_concentration_ranges_from_iid_to_single_labels(self):
        labels = np.repeat(np.arange(10), 600)
        even = label_counts(Dirichlet(concentration=1e6).split(labels, 10, None, Streams(1)), labels)
        assert np.abs(even - 60).max() <= 1
        pure = label_counts(Dirichlet(concentration=1e-2, by="draws").split(labels, 10, None, Streams(1)), labels)
        assert np.median(pure.max(axis=1) / 600) > 0.8

    def test_mixes_do_not_depend_on_the_number_of_users(self):
        dirichlet = Dirichlet(concentration=0.1)
        assert (dirichlet.draw_mixes(Streams(1), 50, 10)[:7] == dirichlet.draw_mixes(Streams(1), 7, 10)).all()

    @pytest.mark.parametrize("settings", [{"concentration": 0}, {"sizes": POWER}, {"by": "luck"}])
    def test_invalid_settings_are_errors(self, settings):
        with pytest.raises(ScenarioError):
            Dirichlet(**{"concentration": 1.0} | settings)


def scenario(**changes):
    settings = {
        "name": "a",
        "users": 12,
        "rounds": 2,
        "access": {"kind": "bernoulli", "probability": 0.5},
        "data": {"kind": "synthetic", "users": 12},
        "partition": {"kind": "natural"},
        "model": {"kind": "logistic"},
        "learners": {
            "one": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 1}
        },
    }
    return validate(ScenarioDocument(settings | changes, "a"))


class TestNatural:
    def test_users_keep_their_examples(self):
        setup = prepare_run(scenario(replicas=2))
        for rows in setup.splits:
            assert [set(setup.dataset.train_user[rows_of_user].tolist()) for rows_of_user in rows] == [
                {user} for user in range(12)
            ]
        assert setup.users(0)["samples"].sum() == len(setup.dataset.train_y)

    def test_another_number_of_users_is_an_error(self):
        with pytest.raises(ScenarioError, match="partition: the data have 12 users, the scenario has 5; set users: 12"):
            prepare_run(scenario(users=5))

    def test_data_without_users_are_an_error(self):
        with pytest.raises(ScenarioError, match="partition: these data have no users"):
            prepare_run(scenario(data={"kind": "digits"}))
