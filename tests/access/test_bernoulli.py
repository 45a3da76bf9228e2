"""Coins: how often, how independent, who is cut, and probabilities that follow labels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from netfl.access.bernoulli import Bernoulli
from netfl.access.cyclic import Cyclic
from netfl.access.markov import Markov
from netfl.errors import ScenarioError
from netfl.types import ScenarioFacts


@pytest.mark.slow
def test_each_user_is_there_with_its_own_probability(make_setting, presence):
    p = np.array([0.9, 0.5, 0.1, 0.02])
    there = presence(Bernoulli(probability=tuple(p)), make_setting(4, 20_000))
    z = (there.mean(axis=0) - p) / np.sqrt(p * (1 - p) / 20_000)
    assert np.abs(z).max() < 4.5  # false alarm below 1 in 30,000


@pytest.mark.slow
def test_users_and_rounds_are_independent(make_setting, presence):
    there = presence(Bernoulli(probability=0.3), make_setting(2, 40_000)).astype(float)
    pairs = [(there[:, 0], there[:, 1]), (there[:-1, 0], there[1:, 0])]
    for one, other in pairs:
        assert abs(np.corrcoef(one, other)[0, 1]) < 4.5 / np.sqrt(len(one))


@pytest.mark.slow
def test_the_first_few_of_those_there_are_an_even_choice(make_setting, hear):
    rounds = hear(Bernoulli(probability=[1.0] * 4, deliveries=2), make_setting(4, 30_000))
    counts = np.zeros((4, 4))
    np.add.at(counts, tuple(np.array(rounds).T), 1)
    assert np.trace(counts) == 0
    assert stats.chisquare(counts[~np.eye(4, dtype=bool)]).pvalue > 1e-4


def test_all_are_heard_where_fewer_are_there(make_setting, hear):
    everyone = hear(Bernoulli(probability=0.4), make_setting(6, 300))
    cut = hear(Bernoulli(probability=0.4, deliveries=3), make_setting(6, 300))
    assert cut == [one[:3] for one in everyone]
    assert {len(one) for one in everyone} >= {0, 1, 2, 3, 4}


def test_an_empty_round_is_a_round(make_setting):
    world = make_setting(2, 50)
    rounds = [*Bernoulli(probability=0.2).rounds(world)]
    empty = [one for one in rounds if not one.deliveries]
    assert empty
    assert {one.uplink_bits for one in empty} == {0.0}
    assert len(world.recorder.outcomes()) == 100


@pytest.mark.quick_first
@pytest.mark.parametrize("model", [Bernoulli, Markov, Cyclic])
def test_the_first_rounds_do_not_depend_on_how_many_are_wanted(make_setting, hear, model):
    access = model(probability=0.3)
    assert hear(access, make_setting(40, 4_000))[:25] == hear(access, make_setting(40, 25))


@pytest.mark.parametrize("model", [Bernoulli, Markov, Cyclic])
def test_probabilities_that_follow_labels(make_setting, model):
    mix = np.random.default_rng(3).dirichlet(np.full(10, 0.1), 250)
    access = model(probability={"label_correlated": {}})
    chances = access.chances(make_setting(250, label_mix=mix))
    liking = make_setting().streams.rng("labels").dirichlet([0.1] * 10)
    expected = [max(0.02, 0.1 * 10 * sum(k * q for k, q in zip(row, liking, strict=True))) for row in mix]
    assert chances == pytest.approx(np.minimum(expected, 1))
    assert chances.min() == 0.02
    assert access.info.needs_label_mix
    assert access.rates(250, make_setting().streams) is None


def test_no_probability_exceeds_one(make_setting):
    access = Bernoulli(probability={"label_correlated": {"mean": 1.0}})
    assert access.chances(make_setting(10, label_mix=np.eye(10))).max() == 1.0


@pytest.mark.parametrize("probability", [0.0, 1.5, "often", [0.5, 0.0], {"label_correlated": {"mean": 0}}, []])
def test_probabilities_that_are_none_are_refused(probability):
    with pytest.raises(ScenarioError) as caught:
        Bernoulli(probability=probability)
    assert {fault.key.split(".")[1] for fault in caught.value.faults} == {"probability"}


def test_misfits_are_faults():
    facts = ScenarioFacts(users=3, rounds=1)
    assert [fault.key for fault in Bernoulli(probability=[0.5, 0.5], deliveries=9).faults(facts)] == [
        "probability",
        "deliveries",
    ]
    assert [fault.key for fault in Bernoulli(probability={"label_correlated": {}}).faults(facts)] == ["probability"]
    assert not [*Bernoulli(probability=0.5, deliveries=3).faults(facts)]


@pytest.mark.parametrize("probability", [0.5, 1, [0.5, 0.5], {"label_correlated": {"mean": 0.2}}])
def test_it_says_itself_again(probability):
    access = Bernoulli(probability=probability)
    assert Bernoulli.model_validate(access.model_dump(mode="json")) == access


def test_rates_and_the_most(make_setting):
    streams = make_setting().streams
    assert Bernoulli(probability=[0.2, 0.4]).rates(2, streams).tolist() == [0.2, 0.4]
    assert Bernoulli(probability=0.2).rates(3, streams).tolist() == [0.2] * 3
    assert (
        Bernoulli(probability=0.2).max_deliveries(7, 99),
        Bernoulli(probability=0.2, deliveries=2).max_deliveries(7, 99),
    ) == (7, 2)
