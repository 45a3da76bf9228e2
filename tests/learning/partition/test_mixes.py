"""Partitions by mixes, sizes, shards and the data's own users, against independent computations."""

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


def table(parts, labels=LABELS):
    """How many examples of each label each user holds."""
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
    def test_every_example_is_given_once(self, partition):
        parts = partition.split(LABELS, 30, None, Streams(3))
        assert len(parts) == 30
        assert all(len(part) and part.dtype == np.int64 for part in parts)
        assert np.sort(np.concatenate(parts)).tolist() == list(range(len(LABELS)))

    def test_the_streams_alone_decide(self, partition):
        one, same, other = (partition.split(LABELS, 30, None, Streams(seed)) for seed in (1, 1, 2))
        assert [part.tolist() for part in one] == [part.tolist() for part in same]
        assert [part.tolist() for part in one] != [part.tolist() for part in other]

    def test_users_without_an_example_are_named(self, partition):
        with pytest.raises(ScenarioError, match=r"users"):
            partition.split(LABELS[:4], 6, None, Streams(1))


def test_portions_are_within_one_of_their_shares():
    rng = np.random.default_rng(0)
    for _ in range(100):
        total, shares = int(rng.integers(0, 10_000)), rng.exponential(size=37) ** 4
        counts = whole_portions(total, shares)
        assert counts.sum() == total
        assert np.abs(counts - total * shares / shares.sum()).max() <= 1
        assert counts.min() >= 0


class TestSizes:
    def test_a_users_size_is_the_least_and_its_share_of_the_rest(self):
        for said in (POWER, LOGNORMAL):
            sizes = Sizes(**said)
            weights, counts = sizes.draw_weights(Streams(4), 50), sizes.draw_counts(Streams(4), 50, 10_000)
            assert counts.sum() == 10_000
            least = said.get("min_samples", 1)
            assert np.abs(counts - least - (10_000 - 50 * least) * weights / weights.sum()).max() <= 1
            assert counts.min() >= least

    def test_a_users_weight_does_not_depend_on_the_others(self):
        assert (Sizes(**POWER).draw_weights(Streams(4), 50)[:7] == Sizes(**POWER).draw_weights(Streams(4), 7)).all()

    @pytest.mark.parametrize(
        ("said", "law"),
        [
            (POWER, stats.pareto(1.5)),
            (LOGNORMAL, stats.lognorm(1.0)),
            ({"distribution": "lognormal", "sigma": 2}, stats.lognorm(2)),
        ],
    )
    def test_weights_follow_their_law(self, said, law):
        assert stats.kstest(Sizes(**said).draw_weights(Streams(5), 5000), law.cdf).pvalue > 1e-5

    def test_too_few_examples_are_a_fault(self):
        with pytest.raises(ScenarioError, match=r"sizes\.min_samples: 30 users cannot hold this many of 80 examples"):
            Iid(sizes=LOGNORMAL).split(LABELS[:80], 30, None, Streams(1))

    @pytest.mark.parametrize(
        "said",
        [
            {"distribution": "power_law"},
            {"distribution": "lognormal", "exponent": 1},
            {"distribution": "lognormal", "sigma": 1, "exponent": 1},
            {"law": "zipf", "exponent": 1},
            {"distribution": "lognormal", "sigma": 1, "min_samples": 0},
        ],
    )
    def test_what_cannot_be_is_refused(self, said):
        with pytest.raises(ScenarioError):
            Iid(sizes=said)


class TestShards:
    def test_two_parts_of_different_labels(self):
        """The 2-class case: 20 parts of even labels, two of different labels to each of 10 users."""
        labels = np.random.default_rng(1).permutation(np.repeat(np.arange(10), 60))
        for seed in range(20):
            counts = np.array(table(Shards(per_user=2).split(labels, 10, None, Streams(seed)), labels))
            assert (np.sort(counts, axis=1)[:, -2:] == 30).all()
            assert (counts.sum(axis=1) == 60).all()

    def test_one_part_is_one_label(self):
        labels = np.random.default_rng(1).permutation(np.repeat(np.arange(10), 60))
        held = table(Shards(per_user=1).split(labels, 10, None, Streams(1)), labels).argmax(axis=1)
        assert sorted(held) == list(range(10))
        assert held.tolist() != list(range(10))

    def test_dealt_at_random_a_user_may_get_one_label_twice(self):
        """P(a user's two of 20 parts are of one label) = 1/19: 100 x 10 users, between 25 and 87 but for 1e-5."""
        labels = np.repeat(np.arange(10), 60)
        splits = [Shards(stratified=False).split(labels, 10, None, Streams(seed)) for seed in range(100)]
        alone = sum((table(parts, labels).max(axis=1) == 60).sum() for parts in splits)
        assert 25 <= alone <= 87

    def test_more_parts_than_labels_cannot_be_apart(self):
        assert [fault.key for fault in Shards(per_user=11).faults(ScenarioFacts(10, 1, classes=10))] == ["per_user"]
        assert [*Shards(per_user=11, stratified=False).faults(ScenarioFacts(10, 1, classes=10))] == []
        assert [*Shards(per_user=10).faults(ScenarioFacts(10, 1, classes=10))] == []


class TestDirichlet:
    def test_by_mixes_each_user_takes_of_each_label_in_proportion_to_its_mix(self):
        made = Dirichlet(concentration=0.5)
        mixes = made.draw_mixes(Streams(3), 30, 10)
        expected = np.bincount(LABELS) * mixes / mixes.sum(axis=0)
        assert np.abs(table(made.split(LABELS, 30, None, Streams(3))) - expected).max() <= 1

    def test_by_labels_each_label_has_its_own_shares(self):
        made = Dirichlet(concentration=0.5, by="labels")
        expected = np.bincount(LABELS) * made.draw_mixes(Streams(3), 10, 30).T
        assert np.abs(table(made.split(LABELS, 30, None, Streams(3))) - expected).max() <= 1

    def test_by_draws_sizes_are_as_asked_for(self):
        even = Dirichlet(concentration=0.3, by="draws").split(LABELS, 30, None, Streams(3))
        assert max(map(len, even)) - min(map(len, even)) <= 1
        uneven = Dirichlet(concentration=0.3, by="draws", sizes=LOGNORMAL).split(LABELS, 30, None, Streams(3))
        sizes = Sizes(**LOGNORMAL).draw_counts(Streams(3).at("sizes"), 30, len(LABELS))
        assert [len(part) for part in uneven] == sizes.tolist()

    @pytest.mark.slow
    def test_by_draws_the_mixes_are_the_users_own_while_there_is_enough(self):
        """The counts of the user who comes first are multinomial: a chi-square over seeds."""
        made, labels = Dirichlet(concentration=2.0, by="draws"), np.repeat(np.arange(4), 5000)
        above = below = 0.0
        for seed in range(40):
            first = int(Streams(seed).rng("draws").permutation(400)[0])
            mix = made.draw_mixes(Streams(seed), 400, 4)[first]
            counts = table(made.split(labels, 400, None, Streams(seed)), labels)[first, :4]
            above += ((counts - 50 * mix) ** 2 / np.maximum(50 * mix, 1e-9))[mix > 0.02].sum()
            below += (mix > 0.02).sum() - 1
        assert stats.chi2.sf(above, below) > 1e-5
        assert stats.chi2.cdf(above, below) > 1e-5

    def test_mixes_have_the_closed_moments(self):
        """Mean 1/C, variance (C-1)/(C²(Cα+1)), covariance -1/(C²(Cα+1))."""
        for alpha in (0.1, 1.0, 10.0):
            mixes = Dirichlet(concentration=alpha).draw_mixes(Streams(1), 40_000, 5)
            known = np.eye(5) / 5 - 1 / 25
            found = np.cov(mixes.T) * (5 * alpha + 1)
            assert np.abs(mixes.mean(axis=0) - 0.2).max() < 5 * np.sqrt(0.16 / (5 * alpha + 1) / 40_000)
            assert np.abs(found - known).max() < 0.01

    def test_large_concentrations_are_iid_and_small_ones_pure(self):
        labels = np.repeat(np.arange(10), 600)
        even = table(Dirichlet(concentration=1e6).split(labels, 10, None, Streams(1)), labels)
        assert np.abs(even - 60).max() <= 1
        pure = table(Dirichlet(concentration=1e-2, by="draws").split(labels, 10, None, Streams(1)), labels)
        assert np.median(pure.max(axis=1) / 600) > 0.8

    def test_a_users_mix_does_not_depend_on_how_many_there_are(self):
        made = Dirichlet(concentration=0.1)
        assert (made.draw_mixes(Streams(1), 50, 10)[:7] == made.draw_mixes(Streams(1), 7, 10)).all()

    @pytest.mark.parametrize("wrong", [{"concentration": 0}, {"sizes": POWER}, {"by": "luck"}])
    def test_what_cannot_be_is_refused(self, wrong):
        with pytest.raises(ScenarioError):
            Dirichlet(**{"concentration": 1.0} | wrong)


def scenario(**changes):
    said = {
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
    return validate(ScenarioDocument(said | changes, "a"))


class TestNatural:
    def test_users_hold_what_is_theirs(self):
        setup = prepare_run(scenario(replicas=2))
        for rows in setup.splits:
            assert [set(setup.dataset.train_user[own].tolist()) for own in rows] == [{user} for user in range(12)]
        assert setup.users(0)["samples"].sum() == len(setup.dataset.train_y)

    def test_numbers_that_differ_are_a_fault(self):
        with pytest.raises(ScenarioError, match="partition: the data have 12 users, the scenario has 5; set users: 12"):
            prepare_run(scenario(users=5))

    def test_data_without_users_are_a_fault(self):
        with pytest.raises(ScenarioError, match="partition: these data have no users"):
            prepare_run(scenario(data={"kind": "digits"}))
