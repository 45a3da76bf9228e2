"""Drifting access: values between knots, frequencies per round, and the stationary special cases."""

# ruff: noqa: E501 - a scenario is written on one line

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import netfl
from netfl.access.bernoulli import Bernoulli
from netfl.access.drifting import Drifting, RateSchedule
from netfl.access.stationary import Stationary
from netfl.errors import ScenarioError
from netfl.streams import Streams
from netfl.types import ScenarioFacts

A, B, C = [0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3]
STREAMS = Streams(1)


def knots(*pairs, key="rho"):
    return [{"round": index, key: values} for index, values in pairs]


def rates_at(index, access, users=3):
    return access.schedule(users, STREAMS).at(index).tolist()


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("linear", {1: 0.7, 10: 0.7, 15: 0.55, 20: 0.4, 30: 0.1, 40: 0.2, 50: 0.3, 99: 0.3}),
        ("abrupt", {1: 0.7, 10: 0.7, 15: 0.7, 29: 0.7, 30: 0.1, 40: 0.1, 49: 0.1, 50: 0.3, 99: 0.3}),
        ("smooth", {1: 0.7, 10: 0.7, 15: 0.7 - 0.6 * 0.14644661, 20: 0.4, 30: 0.1, 40: 0.2, 50: 0.3, 99: 0.3}),
    ],
)
def test_values_between_knots_follow_the_shape(shape, expected):
    access = Drifting(knots=knots((10, A), (30, B), (50, C)), shape=shape)
    assert [rates_at(index, access)[0] for index in expected] == pytest.approx([*expected.values()])
    assert access.schedule(3, STREAMS).at([*expected]).sum(axis=1) == pytest.approx(1)
    assert access.info.process == "non-stationary"


def test_repeated_schedule_returns_to_the_first_knot():
    access = Drifting(knots=knots((11, 0.8), (21, 0.2), key="probability"), repeat=20, shape="smooth")
    rounds = np.arange(1, 200)
    expected = 0.5 + 0.3 * np.cos(2 * np.pi * (rounds - 11) / 20)
    assert access.schedule(1, STREAMS).at(rounds)[:, 0] == pytest.approx(expected)
    assert access.info.process == "cyclic"
    assert access.rates(2, STREAMS).tolist() == pytest.approx([0.5, 0.5])
    square = access.model_copy(update={"shape": "abrupt", "repeat": 25})
    assert square.schedule(1, STREAMS).at(rounds)[:, 0] == pytest.approx(np.where((rounds - 11) % 25 < 10, 0.8, 0.2))


@pytest.mark.parametrize("shape", ["linear", "abrupt", "smooth"])
@pytest.mark.quick_first
def test_delivery_frequencies_match_the_rates_in_each_round(make_context, delivered_users, shape):
    access = Drifting(knots=knots((2, A), (9, B)), shape=shape)
    counts = np.zeros((12, 3))
    for replica in range(600):
        for index, (user,) in enumerate(delivered_users(access, make_context(3, 12, replica=replica))):
            counts[index, user] += 1
    for index in range(12):
        x = np.clip((index + 1 - 2) / 7, 0, 1)
        w = {"linear": x, "abrupt": float(x == 1), "smooth": np.sin(np.pi * x / 2) ** 2}[shape]
        expected = (1 - w) * np.array(A) + w * np.array(B)
        assert stats.chisquare(counts[index], 600 * expected).pvalue > 1e-5


def test_availability_matches_the_probabilities_in_each_round(make_context, delivery_matrix):
    p, q = np.array([0.9, 0.5, 0.0]), np.array([0.1, 0.5, 1.0])
    group_size = 4_000
    access = Drifting(
        knots=knots((1, np.repeat(p, group_size).tolist()), (11, np.repeat(q, group_size).tolist()), key="probability")
    )
    available = delivery_matrix(access, make_context(3 * group_size, 11)).reshape(11, 3, group_size).sum(axis=2)
    for index in range(11):
        for count, chance in zip(available[index], p + (q - p) * index / 10, strict=True):
            assert stats.binomtest(int(count), group_size, chance).pvalue > 1e-5
    assert available[0, 2] == 0
    assert available[10, 2] == group_size


@pytest.mark.parametrize("first", [1, 2, 4])
def test_constant_rates_reproduce_stationary(make_context, delivered_users, first):
    rho = [0.4, 0.3, 0.2, 0.1, 0.0]
    same = Drifting(knots=knots((1, rho), (9, rho)), deliveries=first)
    assert delivered_users(same, make_context(5, 300)) == delivered_users(
        Stationary(rho=rho, deliveries=first), make_context(5, 300)
    )


def test_constant_probabilities_reproduce_bernoulli(make_context, delivered_users):
    same = Drifting(knots=knots((1, 0.3), (9, [0.3] * 5), key="probability"))
    assert delivered_users(same, make_context(5, 300)) == delivered_users(
        Bernoulli(probability=0.3), make_context(5, 300)
    )


def test_default_number_of_deliveries():
    assert Drifting(knots=knots((1, A), (5, B))).deliveries == 1
    assert Drifting(knots=knots((1, A), (5, B)), deliveries=2).max_deliveries(3, 9) == 2
    available = Drifting(knots=knots((1, 0.5), (5, 1.0), key="probability"))
    assert (available.deliveries, available.max_deliveries(7, 9)) == (None, 7)


def test_abrupt_change_between_zipf_and_random_rates(make_context, delivered_users):
    access = Drifting(knots=knots((1, {"zipf": 1}), (101, "random_simplex"), (201, "random_simplex")), shape="abrupt")
    values = [np.array(rates_at(index, access, 6)) for index in (1, 101, 201)]
    assert values[0] == pytest.approx(np.array([60, 30, 20, 15, 12, 10]) / 147)
    assert all(not np.allclose(before, after) for before, after in pairwise(values))
    context = make_context(6, 300)
    assert (access.schedule(6, context.streams).at(300) == access.schedule(6, context.streams).at(201)).all()
    assert len(delivered_users(access, context)) == 300


def test_rates_average_the_rounds_up_to_the_last_knot():
    access = Drifting(knots=knots((1, A), (3, B)))
    assert access.rates(3, STREAMS).tolist() == pytest.approx([0.4, 0.2, 0.4])
    late = Drifting(knots=knots((3, A), (5, B)), shape="abrupt")
    assert late.rates(3, STREAMS).tolist() == pytest.approx([(4 * 0.7 + 0.1) / 5, 0.2, (4 * 0.1 + 0.7) / 5])
    assert late.rates(4, STREAMS) is None


def test_first_rounds_do_not_depend_on_the_number_of_rounds(make_context, delivered_users):
    access = Drifting(knots=knots((1, {"zipf": 2}), (3_000, {"zipf": 0})), deliveries=2)
    assert delivered_users(access, make_context(40, 4_000))[:25] == delivered_users(access, make_context(40, 25))


@pytest.mark.parametrize(
    "overrides",
    [
        {"knots": knots((1, A))},
        {"knots": [{"round": 0, "rho": A}, {"round": 2, "rho": B}]},
        {"knots": knots((1, A), (5, [0.5, 0.4]))},
        {"knots": knots((1, 0.5), (5, 1.5), key="probability")},
        {"knots": knots((1, 0.5), (5, {"label_correlated": {}}), key="probability")},
        {"shape": "cubic"},
        {"repeat": 1},
        {"deliveries": 0},
    ],
)
def test_values_out_of_range_raise_an_error(overrides):
    with pytest.raises(ScenarioError) as error:
        Drifting(**{"knots": knots((1, A), (5, B))} | overrides)
    assert {fault.key.split(".")[1] for fault in error.value.faults} == set(overrides)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"knots": [{"round": 1}, {"round": 2}]}, "knots.0: neither rho nor probability"),
        ({"knots": [{"round": 1, "rho": A, "probability": 0.5}, {"round": 2, "rho": A}]}, "knots.0: both rho and prob"),
        ({"knots": [{"round": 1, "rho": A}, {"round": 2, "probability": 0.5}]}, "knots.1: rates in one knot, prob"),
        ({"knots": knots((1, A), (5, [0.5, 0.5]))}, "knots.1.rho: 2 values for 3 users; give one for each user"),
        ({"knots": knots((5, A), (5, B))}, "knots: their rounds are not ascending ([5, 5])"),
        ({"knots": knots((5, A), (2, B))}, "knots: their rounds are not ascending ([5, 2])"),
        ({"knots": knots((10, A), (22, B))}, "knots: nothing changes in the 10 rounds ([10, 22])"),
        ({"repeat": 4}, "repeat: not longer than the time between the first and the last knot, 4 rounds (4)"),
        ({"deliveries": 4}, "deliveries: more than the 3 users"),
    ],
)
def test_settings_that_do_not_fit_the_scenario_are_errors(overrides, message):
    access = Drifting(**{"knots": knots((1, A), (5, B))} | overrides)
    messages = [str(fault) for fault in access.faults(ScenarioFacts(users=3, rounds=10))]
    assert messages[0].startswith(message)


def test_rates_of_wrong_length_are_errors_of_the_scenario(tmp_path):
    text = "name: s\nusers: 4\nrounds: 9\naccess:\n  kind: drifting\n  knots:\n    - {round: 1, rho: [0.5, 0.5]}\n    - {round: 5, rho: [1.0]}\n"
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(ScenarioError) as error:
        netfl.load(tmp_path / "s.yaml")
    assert [fault.key for fault in error.value.faults] == ["access.knots.0.rho", "access.knots.1.rho"]
    assert error.value.faults[1].where.endswith("s.yaml:8")


@pytest.mark.parametrize("knot_list", [knots((1, A), (5, {"zipf": 1})), knots((1, 0.5), (5, A), key="probability")])
def test_dump_and_validate_restore_the_access(knot_list):
    access = Drifting(knots=knot_list, shape="smooth", repeat=9)
    assert Drifting.model_validate(access.model_dump(mode="json")) == access


@pytest.mark.parametrize("shape", ["linear", "smooth", "abrupt"])
@pytest.mark.parametrize(("at", "period"), [((1, 9), None), ((4, 5, 30), None), ((1, 2), 2), ((3, 8, 9), 17)])
def test_mean_of_a_schedule_equals_the_average_over_rounds(shape, at, period):
    stated = np.random.default_rng(len(at)).random((len(at), 5))
    schedule = RateSchedule(np.array(at), stated, shape, period)
    rounds = np.arange(1, at[-1] + 1) if period is None else np.arange(1, period + 1)
    np.testing.assert_allclose(schedule.mean(), schedule.at(rounds).mean(axis=0), rtol=1e-13)


def test_mean_of_a_long_schedule_is_computed_in_closed_form():
    schedule = RateSchedule(np.array([1, 10**15]), np.array([[1.0, 0.0], [0.0, 1.0]]), "linear")
    np.testing.assert_allclose(schedule.mean(), [0.5, 0.5], rtol=1e-12)
