"""Data coupled to participation: parts by who is heard how often, and who is there by what it holds."""

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


def heard(partition, seed=3):
    """The parts in the order of who is heard, from the most to the least often."""
    parts = partition.split(LABELS, 20, ORDER, Streams(seed))
    return [parts[user] for user in ORDER]


class TestRanked:
    @pytest.mark.parametrize("inner", INNER, ids=str)
    @pytest.mark.parametrize("more", [{}, {"classes": [9, 4]}, {"sizes": "rising"}, {"sizes": "falling"}])
    def test_the_parts_are_those_of_the_other(self, inner, more):
        found = {tuple(part.tolist()) for part in heard(Ranked(inner=inner, **more))}
        assert found == {tuple(part.tolist()) for part in inner.split(LABELS, 20, None, Streams(3))}

    def test_as_given_the_most_heard_gets_the_first(self):
        lists = ByClass(classes=[[0, 1]] * 19 + [[2, 3, 4, 5, 6, 7, 8, 9]])
        held = [set(LABELS[part].tolist()) for part in heard(Ranked(inner=lists))]
        assert held == [{0, 1}] * 19 + [{2, 3, 4, 5, 6, 7, 8, 9}]

    def test_labels_are_with_those_heard_least(self):
        shares = [np.isin(LABELS[part], [9, 4]).mean() for part in heard(Ranked(inner=MIXED, classes=[9, 4]))]
        assert shares == sorted(shares)
        assert (shares[0] < 0.05, shares[-1] > 0.5) == (True, True)

    def test_sizes_rise_or_fall(self):
        uneven = Iid(sizes={"distribution": "lognormal", "sigma": 1.0})
        rising, falling = (
            [len(part) for part in heard(Ranked(inner=uneven, sizes=which))] for which in ("rising", "falling")
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
    def test_misfits_are_faults(self, partition, keys):
        assert [fault.key for fault in partition.faults(ScenarioFacts(20, 10, classes=10, rho_known=True))] == keys

    @pytest.mark.parametrize("wrong", [{"classes": [1], "sizes": "rising"}, {"classes": [1, 1]}, {"by": "luck"}])
    def test_what_cannot_be_is_refused(self, wrong):
        with pytest.raises(ScenarioError):
            Ranked(**{"inner": MIXED} | wrong)

    def test_it_knows_what_is_rare(self):
        made = Ranked(inner=MIXED, by="distance", classes=[9])
        assert Ranked(inner=MIXED).rare_labels == ()
        assert (made.ranking_source, made.rare_labels, made.grouped_by, Ranked(inner=MIXED).rare_labels) == (
            "distance",
            (9,),
            "label",
            (),
        )


def scenario(**changes):
    said = {
        "name": "coupled",
        "users": 12,
        "rounds": 40,
        "access": {"kind": "stationary", "rho": {"zipf": 1}, "deliveries": 1},
        "data": {"kind": "digits"},
        "partition": {"kind": "dirichlet", "concentration": 0.3},
        "model": {"kind": "logistic"},
        "learners": {"one": {"objective": "erm", "aggregation": "relay", "lr": 0.1, "batch_size": 8, "local_steps": 1}},
    }
    return validate(ScenarioDocument(said | changes, "coupled"))


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

    def test_by_a_run_of_the_access_alone(self):
        setup = prepare_run(scenario(partition=ranked("prerun")))
        counts = np.zeros(12)
        for one in setup.scenario.access.rounds(setup.contexts[0]):
            counts[[delivery.user for delivery in one.deliveries]] += 1
        by_share = np.argsort(shares_of_nine(setup), kind="stable")
        assert (np.diff(counts[by_share]) <= 0).all()

    def test_what_follows_labels_cannot_lead_them(self):
        follows = {"kind": "bernoulli", "probability": {"label_correlated": {}}}
        with pytest.raises(ScenarioError, match="depends on the participation, which depends on the partition"):
            scenario(access=follows, partition=ranked("prerun"), learners={"one": LEARNER})


LEARNER = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 1}


@pytest.mark.parametrize(
    "process",
    [{"kind": "bernoulli"}, {"kind": "markov", "switch_on": 0.05}, {"kind": "cyclic", "cycle": 100}],
    ids=lambda one: one["kind"],
)
def test_participation_follows_the_labels_of_a_dirichlet_mix(process):
    """FedAU's p_n = max(0.02, 0.1 C <κ_n, q>), from the labels that users are dealt, and how often they then are heard.

    Rounds apart are independent but for the Markov process, whose correlation of neighbours is 1 - 0.05 / p: the
    variance of a frequency is 40 p - 1 times as large.
    """
    access = process | {"probability": {"label_correlated": {"concentration": 0.1, "minimum": 0.02, "mean": 0.1}}}
    rounds = 4000
    made = scenario(users=40, rounds=rounds, access=access, learners={"one": LEARNER}, partition={
        "kind": "dirichlet", "concentration": 0.1})  # fmt: skip
    setup = prepare_run(made)
    labels, setting = setup.dataset.train_y, setup.contexts[0]
    mixes = np.array([[np.mean(labels[rows] == label) for label in range(10)] for rows in setup.splits[0]])
    liking = setting.streams.rng("labels").dirichlet([0.1] * 10)
    known = np.array([max(0.02, min(1.0, 0.1 * 10 * sum(mix * liking))) for mix in mixes])
    assert (known.min() == 0.02, known.max() > 0.3) == (True, True)
    assert made.access.chances(setting) == pytest.approx(known, rel=1e-12)
    counts = np.zeros(40)
    for one in made.access.rounds(setting):
        counts[[delivery.user for delivery in one.deliveries]] += 1
    frequency = counts / rounds
    if process["kind"] == "cyclic":
        assert frequency == pytest.approx(np.maximum(1, np.round(100 * known)) / 100, abs=1e-12)
    else:
        spread = np.sqrt(known * (1 - known) / rounds * (40 if process["kind"] == "markov" else 1))
        assert (np.abs(frequency - known) <= 4.5 * spread).all()


@pytest.mark.slow
def test_the_shipped_scenario_knows_the_probabilities_of_its_access(real_data):
    real_data("cifar10")
    setup = prepare_run(netfl.load(Path(__file__).parents[3] / "scenarios" / "learning" / "cifar_fedau.yaml"))
    (setting,), (rows,) = setup.contexts, setup.splits
    mixes = np.array([np.bincount(setup.dataset.train_y[own], minlength=10) / len(own) for own in rows])
    known = np.clip(0.1 * 10 * mixes @ setting.streams.rng("labels").dirichlet([0.1] * 10), 0.02, 1)
    lanes = build_learner(setup, "cpu").state()["servers"]["aggregations"]
    assert lanes[3]["weights"].numpy() == pytest.approx(1 / known, rel=1e-6)
    assert known[[6, 11]] == pytest.approx([0.1098, 0.8313], rel=1e-3)
