"""Stationary access (random access model, RAM): rates, distinct users, round times and outcomes."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from scipy import stats

from netfl.access.stationary import Stationary
from netfl.errors import ScenarioError
from netfl.streams import Streams
from netfl.types import ScenarioFacts

RHO30 = [
    *(0.0735, 0.0692, 0.0645, 0.0584, 0.0557, 0.0547, 0.0537, 0.0462, 0.0445, 0.0422, 0.0417, 0.0333, 0.0327, 0.0275),
    *(0.0267, 0.0261, 0.0258, 0.0244, 0.0241, 0.0240, 0.0215, 0.0185, 0.0181, 0.0180, 0.0176, 0.0170, 0.0169, 0.0107),
    *(0.0078, 0.0053),
]


@pytest.mark.slow
def test_delivery_counts_follow_the_rates(make_context, delivered_users):
    counts = np.bincount(
        [user for (user,) in delivered_users(Stationary(rho=RHO30), make_context(30, 40_000))], minlength=30
    )
    expected = np.array(RHO30) / sum(RHO30) * 40_000
    assert stats.chisquare(counts, expected).pvalue > 1e-4  # false alarm 1 in 10,000


@pytest.mark.slow
def test_rounds_are_independent(make_context, delivered_users):
    users = np.array([user for (user,) in delivered_users(Stationary(rho=[0.5, 0.3, 0.2]), make_context(3, 30_000))])
    table = np.zeros((3, 3))
    np.add.at(table, (users[:-1], users[1:]), 1)
    assert stats.chi2_contingency(table).pvalue > 1e-4


@pytest.mark.slow
def test_several_users_are_drawn_in_sequence_without_replacement(make_context, delivered_users):
    rho = np.array([0.6, 0.25, 0.1, 0.05])
    pairs = delivered_users(Stationary(rho=tuple(rho), deliveries=2), make_context(4, 40_000))
    counts = np.zeros((4, 4))
    np.add.at(counts, tuple(np.array(pairs).T), 1)
    expected = rho[:, None] * rho[None, :] / (1 - rho[:, None])
    off_diagonal = ~np.eye(4, dtype=bool)
    assert counts[~off_diagonal].sum() == 0
    assert stats.chisquare(counts[off_diagonal], expected[off_diagonal] * 40_000).pvalue > 1e-4


def test_users_of_rate_zero_are_never_delivered(make_context, delivered_users):
    assert set(delivered_users(Stationary(rho=[0.0, 1.0, 0.0]), make_context(3, 200))) == {(1,)}
    both = delivered_users(Stationary(rho=[0.5, 0.0, 0.5], deliveries=3), make_context(3, 200))
    assert {tuple(sorted(users)) for users in both} == {(0, 2)}
    assert len(set(both)) == 2


@pytest.mark.parametrize("first", [1, 3])
@pytest.mark.slow
def test_first_rounds_do_not_depend_on_the_number_of_rounds(make_context, delivered_users, first):
    access = Stationary(rho={"zipf": 1.0}, deliveries=first)
    long = delivered_users(access, make_context(50, 20_000 if first == 1 else 3_000))
    assert delivered_users(access, make_context(50, 37)) == long[:37]
    assert delivered_users(access, make_context(50, 37, replica=1)) != long[:37]


@pytest.mark.quick_first
@pytest.mark.parametrize("rounds", [1, 5, 16_384, 16_385, 16_386])
def test_candidate_batches_equal_candidates_with_one_delivery(make_context, delivered_users, rounds):
    access = Stationary(rho=[0.5, 0.3, 0.2])
    blocks = [*access.candidate_batches(make_context(3, rounds), 1)]
    assert all(block.shape[1] == 1 and len(block) for block in blocks)
    assert np.concatenate(blocks).tolist() == [[*users] for users in access.candidates(make_context(3, rounds), 1)]
    assert sum(map(len, blocks)) == rounds
    assert access.candidate_batches(make_context(3, rounds), 2) is None
    assert access.candidate_batches(make_context(3, rounds)) is None


@pytest.mark.parametrize(
    ("rho", "drawn", "delivered"),
    [
        ([0.0, 0.5, 0.5], 0.0, 1),
        ([0.5, 0.0, 0.5], 0.5, 2),
        ([0.1] * 10, 1 - 2.0**-53, 9),  # their sum in floating point is below 1
        ([0.5, 0.5, 0.0], 1 - 2.0**-53, 1),
    ],
)
def test_extreme_draws_never_select_users_of_rate_zero(make_context, constant_streams, rho, drawn, delivered):
    context = replace(make_context(len(rho), 3), streams=constant_streams(drawn))
    assert [users.tolist() for users in Stationary(rho=rho).candidates(context, 1)] == [[delivered]] * 3


def test_equal_draws_order_users_by_rate(make_context, constant_streams):
    context = replace(make_context(4, 3), streams=constant_streams(0.4))
    delivered = Stationary(rho=[0.2, 0.5, 0.0, 0.3], deliveries=3).candidates(context)
    assert [users.tolist() for users in delivered] == [[1, 3, 0]] * 3


def test_laws_of_the_first_delivery_are_bernoulli():
    """The shares are 0.5 and 0.2 of the rounds, the variances 0.25 and 0.16."""
    for law, share in zip(Stationary(rho=[0.5, 0.3, 0.2]).laws(), (0.5, 0.2), strict=True):
        assert (law.mean, law.variance) == pytest.approx((share, share * (1 - share)))
        drawn = law.draw(Streams(3), 4_000)
        assert set(drawn) == {0.0, 1.0}
        assert abs(drawn.mean() - share) < 4.5 * np.sqrt(share * (1 - share) / 4_000)


def test_zipf_and_random_simplex_rates(make_context):
    streams = make_context(4).streams
    harmonic = 1 + 1 / 4 + 1 / 9 + 1 / 16
    assert Stationary(rho={"zipf": 2}).rates(4, streams) == pytest.approx(
        np.array([1, 1 / 4, 1 / 9, 1 / 16]) / harmonic
    )
    drawn = Stationary(rho="random_simplex").rates(1000, streams)
    assert drawn.sum() == pytest.approx(1)
    assert (np.diff(drawn) <= 0).all()
    assert stats.kstest(drawn / drawn.max(), "uniform").pvalue > 1e-4


@pytest.mark.slow
def test_rounds_use_the_random_rates(make_context, delivered_users):
    access, context = Stationary(rho="random_simplex"), make_context(6, 20_000, seed=5)
    counts = np.bincount([user for (user,) in delivered_users(access, context)], minlength=6)
    assert stats.chisquare(counts, access.rates(6, context.streams) * 20_000).pvalue > 1e-4
    assert not np.allclose(access.rates(6, context.streams), access.rates(6, make_context(6, seed=6).streams))


def test_round_times_and_transmitted_bits(make_context):
    rounds = [*Stationary(rho=[0.5, 0.3, 0.2], deliveries=2, round_length="30 s").rounds(make_context(3, 3))]
    assert [(round_.index, round_.opened_s, round_.closed_s, round_.oldest) for round_ in rounds] == [
        (1, 0.0, 30.0, 1),
        (2, 30.0, 60.0, 2),
        (3, 60.0, 90.0, 3),
    ]
    for round_ in rounds:
        assert [delivery.base for delivery in round_.deliveries] == [round_.index - 1] * 2
        assert [delivery.sent_s for delivery in round_.deliveries] == [round_.opened_s] * 2
        assert [delivery.arrived_s for delivery in round_.deliveries] == [round_.opened_s + 15, round_.closed_s]
        assert [delivery.attempts for delivery in round_.deliveries] == [1, 1]
        assert (round_.uplink_bits, round_.downlink_bits) == (200.0, 70.0)


def test_every_update_has_one_outcome(make_context):
    context = make_context(5, 20)
    rounds = [*Stationary(rho={"zipf": 1}, deliveries=2).rounds(context)]
    outcomes = context.recorder.outcomes()
    assert set(outcomes) == {(user, at) for user in range(5) for at in range(1, 21)}
    for (user, at), kinds in outcomes.items():
        delivered = user in [delivery.user for delivery in rounds[at - 1].deliveries]
        assert kinds == ["delivered" if delivered else "superseded" if at < 20 else "unfinished"]
    assert [time for kind, time, *_ in context.recorder.rows if kind == "broadcast"] == [float(at) for at in range(20)]
    times = [time for _, time, *_ in context.recorder.rows]
    assert times == sorted(times)


@pytest.mark.slow
def test_candidates_scale_to_a_million_users_and_rounds(make_context):
    access = Stationary(rho={"zipf": 1.0})
    users = [candidates[0] for candidates in islice(access.candidates(make_context(10**6, 10**6)), 25)]
    assert len(set(users)) > 10


@pytest.mark.parametrize(
    ("rho", "message"),
    [
        ([0.5, 0.4, 0.05], "sum to 0.95, not to 1"),
        ([0.5, 0.502], "sum to 1.002, not to 1"),
        ([1.2, -0.2], "greater than or equal to 0"),
        ([], "has too few entries"),
        ("zipf", "unknown value"),
        (0.5, "not a list"),
        ({"zipf": -1}, "greater than or equal to 0"),
        ({"zpif": 1}, "unknown key"),
        ([float("nan"), 1.0], "finite"),
    ],
)
def test_invalid_rates_raise_an_error(rho, message):
    with pytest.raises(ScenarioError, match=message) as error:
        Stationary(rho=rho)
    assert error.value.faults[0].key.split(".")[1] == "rho"


def test_error_names_the_invalid_entry():
    with pytest.raises(ScenarioError) as error:
        Stationary(rho=[0.5, "much", 0.5])
    assert error.value.faults[0].key.endswith(".rho.1")


def test_rates_are_normalized_to_one(make_context):
    assert Stationary(rho=RHO30).rates(30, make_context().streams).sum() == pytest.approx(1, abs=1e-12)


def test_settings_that_do_not_fit_the_scenario_are_errors():
    kinds = {fault.key for fault in Stationary(rho=[0.5, 0.5], deliveries=4).faults(ScenarioFacts(users=3, rounds=1))}
    assert kinds == {"rho", "deliveries"}
    assert not [*Stationary(rho={"zipf": 1}, deliveries=3).faults(ScenarioFacts(users=3, rounds=1))]


@pytest.mark.parametrize("rho", [[0.5, 0.5], {"zipf": 1.5}, "random_simplex"])
def test_dump_and_validate_restore_the_access(rho):
    access = Stationary(rho=rho)
    assert Stationary.model_validate(access.model_dump(mode="json")) == access
