"""Bernoulli access: frequencies, independence, delivery limits, and label-correlated probabilities."""

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
def test_each_user_is_available_with_its_probability(make_context, delivery_matrix):
    p = np.array([0.9, 0.5, 0.1, 0.02])
    available = delivery_matrix(Bernoulli(probability=tuple(p)), make_context(4, 20_000))
    z = (available.mean(axis=0) - p) / np.sqrt(p * (1 - p) / 20_000)
    assert np.abs(z).max() < 4.5  # false alarm below 1 in 30,000


@pytest.mark.slow
def test_users_and_rounds_are_independent(make_context, delivery_matrix):
    available = delivery_matrix(Bernoulli(probability=0.3), make_context(2, 40_000)).astype(float)
    pairs = [(available[:, 0], available[:, 1]), (available[:-1, 0], available[1:, 0])]
    for first, second in pairs:
        assert abs(np.corrcoef(first, second)[0, 1]) < 4.5 / np.sqrt(len(first))


@pytest.mark.slow
def test_limited_deliveries_are_a_uniform_choice(make_context, delivered_users):
    rounds = delivered_users(Bernoulli(probability=[1.0] * 4, deliveries=2), make_context(4, 30_000))
    counts = np.zeros((4, 4))
    np.add.at(counts, tuple(np.array(rounds).T), 1)
    assert np.trace(counts) == 0
    assert stats.chisquare(counts[~np.eye(4, dtype=bool)]).pvalue > 1e-4


def test_all_available_users_are_delivered_below_the_limit(make_context, delivered_users):
    all_available = delivered_users(Bernoulli(probability=0.4), make_context(6, 300))
    limited = delivered_users(Bernoulli(probability=0.4, deliveries=3), make_context(6, 300))
    assert limited == [users[:3] for users in all_available]
    assert {len(users) for users in all_available} >= {0, 1, 2, 3, 4}


def test_round_without_deliveries_is_a_round(make_context):
    context = make_context(2, 50)
    rounds = [*Bernoulli(probability=0.2).rounds(context)]
    empty = [round_ for round_ in rounds if not round_.deliveries]
    assert empty
    assert {round_.uplink_bits for round_ in empty} == {0.0}
    assert len(context.recorder.outcomes()) == sum(len(round_.deliveries) for round_ in rounds)


def test_absent_users_have_no_update(make_context):
    """Two of the available users are delivered; the updates of the others end as the next version comes."""
    context = make_context(10, 40)
    rounds = [*Bernoulli(probability=0.4, deliveries=2).rounds(context)]
    available = Bernoulli(probability=0.4).candidates(make_context(10, 40))
    outcomes = context.recorder.outcomes()
    for round_, users in zip(rounds, available, strict=True):
        delivered = {delivery.user for delivery in round_.deliveries}
        others = {"superseded" if round_.index < 40 else "unfinished"}
        for user in range(10):
            kinds = set(outcomes.get((user, round_.index), ()))
            expected = {"delivered"} if user in delivered else others if user in users else set()
            assert kinds == expected, (round_.index, user)


@pytest.mark.quick_first
@pytest.mark.parametrize("model", [Bernoulli, Markov, Cyclic])
def test_first_rounds_do_not_depend_on_the_number_of_rounds(make_context, delivered_users, model):
    access = model(probability=0.3)
    assert delivered_users(access, make_context(40, 4_000))[:25] == delivered_users(access, make_context(40, 25))


@pytest.mark.parametrize("model", [Bernoulli, Markov, Cyclic])
def test_label_correlated_probabilities(make_context, model):
    mix = np.random.default_rng(3).dirichlet(np.full(10, 0.1), 250)
    access = model(probability={"label_correlated": {}})
    chances = access.chances(make_context(250, label_mix=mix))
    label_weights = make_context().streams.rng("labels").dirichlet([0.1] * 10)
    expected = [max(0.02, 0.1 * 10 * sum(k * q for k, q in zip(row, label_weights, strict=True))) for row in mix]
    assert chances == pytest.approx(np.minimum(expected, 1))
    assert chances.min() == 0.02
    assert access.info.needs_label_mix
    assert access.rates(250, make_context().streams) is None


def test_label_correlated_probabilities_are_at_most_one(make_context):
    access = Bernoulli(probability={"label_correlated": {"mean": 1.0}})
    assert access.chances(make_context(10, label_mix=np.eye(10))).max() == 1.0


@pytest.mark.parametrize("probability", [0.0, 1.5, "often", [0.5, 0.0], {"label_correlated": {"mean": 0}}, []])
def test_invalid_probabilities_raise_an_error(probability):
    with pytest.raises(ScenarioError) as error:
        Bernoulli(probability=probability)
    assert {fault.key.split(".")[1] for fault in error.value.faults} == {"probability"}


def test_settings_that_do_not_fit_the_scenario_are_errors():
    facts = ScenarioFacts(users=3, rounds=1)
    assert [fault.key for fault in Bernoulli(probability=[0.5, 0.5], deliveries=9).faults(facts)] == [
        "probability",
        "deliveries",
    ]
    assert [fault.key for fault in Bernoulli(probability={"label_correlated": {}}).faults(facts)] == ["probability"]
    assert not [*Bernoulli(probability=0.5, deliveries=3).faults(facts)]


@pytest.mark.parametrize("probability", [0.5, 1, [0.5, 0.5], {"label_correlated": {"mean": 0.2}}])
def test_dump_and_validate_restore_the_access(probability):
    access = Bernoulli(probability=probability)
    assert Bernoulli.model_validate(access.model_dump(mode="json")) == access


def test_rates_and_max_deliveries(make_context):
    streams = make_context().streams
    assert Bernoulli(probability=[0.2, 0.4]).rates(2, streams).tolist() == [0.2, 0.4]
    assert Bernoulli(probability=0.2).rates(3, streams).tolist() == [0.2] * 3
    assert (
        Bernoulli(probability=0.2).max_deliveries(7, 99),
        Bernoulli(probability=0.2, deliveries=2).max_deliveries(7, 99),
    ) == (7, 2)
