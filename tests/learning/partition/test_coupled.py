"""Partitions that depend on participation, and participation that depends on labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.small_network import SECTION

import netfl
from netfl.errors import ScenarioError
from netfl.learning.partition.by_class import ByClass
from netfl.learning.partition.dirichlet import Dirichlet
from netfl.learning.partition.iid import Iid
from netfl.learning.partition.natural import Natural
from netfl.learning.partition.ranked import Ranked
from netfl.learning.partition.rare_classes import RareClasses
from netfl.learning.partition.shards import Shards
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation.learners import build_learner
from netfl.simulation.setup import prepare_run
from netfl.streams import Streams
from netfl.types import ScenarioFacts

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(10), np.arange(400, 800, 40)))
ORDER = np.random.default_rng(1).permutation(20)
MIXED = Dirichlet(concentration=0.3)
INNER = [MIXED, Shards(per_user=1), ByClass(), Iid(sizes={"distribution": "power_law", "exponent": 1.5})]


def ranked_parts(partition, seed=3):
    """Return the parts in the order of participation, starting with the highest."""
    parts = partition.split(LABELS, 20, ORDER, Streams(seed))
    return [parts[user] for user in ORDER]


class TestRanked:
    @pytest.mark.parametrize("inner", INNER, ids=str)
    @pytest.mark.parametrize("options", [{}, {"classes": [9, 4]}, {"sizes": "rising"}, {"sizes": "falling"}])
    def test_parts_equal_those_of_the_inner_partition(self, inner, options):
        found = {tuple(part.tolist()) for part in ranked_parts(Ranked(inner=inner, **options))}
        assert found == {tuple(part.tolist()) for part in inner.split(LABELS, 20, None, Streams(3))}

    def test_parts_are_given_by_participation(self):
        lists = ByClass(classes=[[0, 1]] * 19 + [[2, 3, 4, 5, 6, 7, 8, 9]])
        labels_of_users = [set(LABELS[part].tolist()) for part in ranked_parts(Ranked(inner=lists))]
        assert labels_of_users == [{0, 1}] * 19 + [{2, 3, 4, 5, 6, 7, 8, 9}]

    def test_rare_labels_go_to_the_lowest_participation(self):
        shares = [np.isin(LABELS[part], [9, 4]).mean() for part in ranked_parts(Ranked(inner=MIXED, classes=[9, 4]))]
        assert shares == sorted(shares)
        assert (shares[0] < 0.05, shares[-1] > 0.5) == (True, True)

    def test_sizes_rise_or_fall(self):
        uneven = Iid(sizes={"distribution": "lognormal", "sigma": 1.0})
        rising, falling = (
            [len(part) for part in ranked_parts(Ranked(inner=uneven, sizes=sizes))] for sizes in ("rising", "falling")
        )
        assert rising == sorted(rising) == falling[::-1]
        assert rising[-1] > 5 * rising[0]

    @pytest.mark.parametrize(
        ("partition", "keys"),
        [
            (Ranked(inner=MIXED), []),
            (Ranked(inner=MIXED, classes=[9, 10]), ["classes.1"]),
            (Ranked(inner=MIXED, by="distance"), ["by"]),
            (Ranked(inner=MIXED, by="prerun"), []),
            (Ranked(inner=Natural()), ["inner"]),
            (Ranked(inner=RareClasses(classes=[9], users=3)), ["inner"]),
            (Ranked(inner=Ranked(inner=MIXED)), ["inner"]),
        ],
    )
    def test_settings_that_do_not_fit_are_errors(self, partition, keys):
        assert [error.key for error in partition.faults(ScenarioFacts(20, 10, classes=10, rho_known=True))] == keys

    @pytest.mark.parametrize("settings", [{"classes": [1], "sizes": "rising"}, {"classes": [1, 1]}, {"by": "luck"}])
    def test_invalid_settings_are_errors(self, settings):
        with pytest.raises(ScenarioError):
            Ranked(**{"inner": MIXED} | settings)

    def test_rare_labels_and_the_ranking_are_known(self):
        partition = Ranked(inner=MIXED, by="distance", classes=[9])
        assert Ranked(inner=MIXED).rare_labels == ()
        assert (
            partition.ranking_source,
            partition.rare_labels,
            partition.grouped_by,
            Ranked(inner=MIXED).rare_labels,
        ) == (
            "distance",
            (9,),
            "label",
            (),
        )


def scenario(**changes):
    settings = {
        "name": "coupled",
        "users": 12,
        "rounds": 40,
        "access": {"kind": "stationary", "rho": {"zipf": 1}, "deliveries": 1},
        "data": {"kind": "digits"},
        "partition": {"kind": "dirichlet", "concentration": 0.3},
        "model": {"kind": "logistic"},
        "learners": {"one": {"objective": "erm", "aggregation": "relay", "lr": 0.1, "batch_size": 8, "local_steps": 1}},
    }
    return validate(ScenarioDocument(settings | changes, "coupled"))


def ranked(by):
    return {"kind": "ranked", "inner": {"kind": "dirichlet", "concentration": 0.3}, "by": by, "classes": [9]}


def shares_of_nine(setup):
    return np.array([(setup.dataset.train_y[rows] == 9).mean() for rows in setup.splits[0]])


class TestCoupling:
    def test_by_rho(self):
        shares = shares_of_nine(prepare_run(scenario(partition=ranked("rho"))))
        assert (np.diff(shares) >= 0).all()

    def test_by_distance(self):
        setup = prepare_run(scenario(access=SECTION, partition=ranked("distance")))
        columns = setup.users(0)
        assert (np.diff(shares_of_nine(setup)[np.argsort(columns["distance_m"])]) >= 0).all()
        assert columns["rank"].tolist() == np.argsort(np.argsort(columns["distance_m"])).tolist()

    def test_by_prerun(self):
        setup = prepare_run(scenario(partition=ranked("prerun")))
        counts = np.zeros(12)
        for current in setup.scenario.access.rounds(setup.contexts[0]):
            counts[[delivery.user for delivery in current.deliveries]] += 1
        by_share = np.argsort(shares_of_nine(setup), kind="stable")
        assert (np.diff(counts[by_share]) <= 0).all()

    def test_circular_dependence_is_an_error(self):
        access = {"kind": "bernoulli", "probability": {"label_correlated": {}}}
        with pytest.raises(ScenarioError, match="which depends on the labels in the access 'bernoulli'"):
            scenario(access=access, partition=ranked("prerun"), learners={"one": LEARNER})


LEARNER = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 1}


@pytest.mark.parametrize(
    "process",
    [{"kind": "bernoulli"}, {"kind": "markov", "switch_on": 0.05}, {"kind": "cyclic", "cycle": 100}],
    ids=lambda process: process["kind"],
)
def test_participation_follows_the_labels_of_a_dirichlet_mix(process):
    """FedAU's p_n = max(0.02, 0.1 C <κ_n, q>) from the labels of users, and the resulting participation rates.

    Rounds are independent, except for the Markov process: neighbouring rounds have the correlation 1 - 0.05 / p, so
    the variance of a frequency is 40 p - 1 times as large.
    """
    access = process | {"probability": {"label_correlated": {"concentration": 0.1, "minimum": 0.02, "mean": 0.1}}}
    rounds = 4000
    validated = scenario(users=40, rounds=rounds, access=access, learners={"one": LEARNER}, partition={
        "kind": "dirichlet", "concentration": 0.1})  # fmt: skip
    setup = prepare_run(validated)
    labels, setting = setup.dataset.train_y, setup.contexts[0]
    mixes = np.array([[np.mean(labels[rows] == label) for label in range(10)] for rows in setup.splits[0]])
    preference = setting.streams.rng("labels").dirichlet([0.1] * 10)
    probabilities = np.array([max(0.02, min(1.0, 0.1 * 10 * sum(mix * preference))) for mix in mixes])
    assert (probabilities.min() == 0.02, probabilities.max() > 0.3) == (True, True)
    assert validated.access.chances(setting) == pytest.approx(probabilities, rel=1e-12)
    counts = np.zeros(40)
    for current in validated.access.rounds(setting):
        counts[[delivery.user for delivery in current.deliveries]] += 1
    frequency = counts / rounds
    if process["kind"] == "cyclic":
        assert frequency == pytest.approx(np.maximum(1, np.round(100 * probabilities)) / 100, abs=1e-12)
    else:
        spread = np.sqrt(probabilities * (1 - probabilities) / rounds * (40 if process["kind"] == "markov" else 1))
        assert (np.abs(frequency - probabilities) <= 4.5 * spread).all()


@pytest.mark.slow
def test_the_packaged_scenario_uses_the_probabilities_of_its_access(real_data):
    real_data("cifar10")
    setup = prepare_run(netfl.load(Path(__file__).parents[3] / "scenarios" / "learning" / "cifar_fedau.yaml"))
    (setting,), (rows,) = setup.contexts, setup.splits
    mixes = np.array(
        [np.bincount(setup.dataset.train_y[rows_of_user], minlength=10) / len(rows_of_user) for rows_of_user in rows]
    )
    probabilities = np.clip(0.1 * 10 * mixes @ setting.streams.rng("labels").dirichlet([0.1] * 10), 0.02, 1)
    lanes = build_learner(setup, "cpu").state()["servers"]["aggregations"]
    assert lanes[3]["weights"].numpy() == pytest.approx(1 / probabilities, rel=1e-6)
    assert probabilities[[6, 11]] == pytest.approx([0.1098, 0.8313], rel=1e-3)
