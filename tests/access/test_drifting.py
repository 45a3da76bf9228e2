"""Drift: the figures between knots by hand, frequencies in single rounds, and the accesses that it comes from."""

# ruff: noqa: E501 - a scenario stands on one line

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
    return [{"round": index, key: figures} for index, figures in pairs]


def course(index, access, users=3):
    return access.schedule(users, STREAMS).at(index).tolist()


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ("linear", {1: 0.7, 10: 0.7, 15: 0.55, 20: 0.4, 30: 0.1, 40: 0.2, 50: 0.3, 99: 0.3}),
        ("abrupt", {1: 0.7, 10: 0.7, 15: 0.7, 29: 0.7, 30: 0.1, 40: 0.1, 49: 0.1, 50: 0.3, 99: 0.3}),
        ("smooth", {1: 0.7, 10: 0.7, 15: 0.7 - 0.6 * 0.14644661, 20: 0.4, 30: 0.1, 40: 0.2, 50: 0.3, 99: 0.3}),
    ],
)
def test_between_knots(shape, wanted):
    access = Drifting(knots=knots((10, A), (30, B), (50, C)), shape=shape)
    assert [course(index, access)[0] for index in wanted] == pytest.approx([*wanted.values()])
    assert access.schedule(3, STREAMS).at([*wanted]).sum(axis=1) == pytest.approx(1)
    assert access.info.process == "non-stationary"


def test_a_course_that_repeats_goes_back_to_the_first_knot():
    access = Drifting(knots=knots((11, 0.8), (21, 0.2), key="probability"), repeat=20, shape="smooth")
    rounds = np.arange(1, 200)
    wanted = 0.5 + 0.3 * np.cos(2 * np.pi * (rounds - 11) / 20)
    assert access.schedule(1, STREAMS).at(rounds)[:, 0] == pytest.approx(wanted)
    assert access.info.process == "cyclic"
    assert access.rates(2, STREAMS).tolist() == pytest.approx([0.5, 0.5])
    square = access.model_copy(update={"shape": "abrupt", "repeat": 25})
    assert square.schedule(1, STREAMS).at(rounds)[:, 0] == pytest.approx(np.where((rounds - 11) % 25 < 10, 0.8, 0.2))


@pytest.mark.parametrize("shape", ["linear", "abrupt", "smooth"])
@pytest.mark.quick_first
def test_users_are_heard_as_often_as_stated_in_each_round(make_setting, hear, shape):
    """600 replicas of 12 rounds."""
    access = Drifting(knots=knots((2, A), (9, B)), shape=shape)
    counts = np.zeros((12, 3))
    for replica in range(600):
        for index, (user,) in enumerate(hear(access, make_setting(3, 12, replica=replica))):
            counts[index, user] += 1
    for index in range(12):
        x = np.clip((index + 1 - 2) / 7, 0, 1)
        w = {"linear": x, "abrupt": float(x == 1), "smooth": np.sin(np.pi * x / 2) ** 2}[shape]
        wanted = (1 - w) * np.array(A) + w * np.array(B)
        assert stats.chisquare(counts[index], 600 * wanted).pvalue > 1e-5


def test_users_are_there_as_often_as_stated_in_each_round(make_setting, presence):
    p, q = np.array([0.9, 0.5, 0.0]), np.array([0.1, 0.5, 1.0])
    each = 4_000
    access = Drifting(
        knots=knots((1, np.repeat(p, each).tolist()), (11, np.repeat(q, each).tolist()), key="probability")
    )
    there = presence(access, make_setting(3 * each, 11)).reshape(11, 3, each).sum(axis=2)
    for index in range(11):
        for count, chance in zip(there[index], p + (q - p) * index / 10, strict=True):
            assert stats.binomtest(int(count), each, chance).pvalue > 1e-5
    assert there[0, 2] == 0
    assert there[10, 2] == each


@pytest.mark.parametrize("first", [1, 2, 4])
def test_what_does_not_change_is_stationary(make_setting, hear, first):
    rho = [0.4, 0.3, 0.2, 0.1, 0.0]
    same = Drifting(knots=knots((1, rho), (9, rho)), deliveries=first)
    assert hear(same, make_setting(5, 300)) == hear(Stationary(rho=rho, deliveries=first), make_setting(5, 300))


def test_what_does_not_change_is_bernoulli(make_setting, hear):
    same = Drifting(knots=knots((1, 0.3), (9, [0.3] * 5), key="probability"))
    assert hear(same, make_setting(5, 300)) == hear(Bernoulli(probability=0.3), make_setting(5, 300))


def test_how_many_are_heard_by_default():
    assert Drifting(knots=knots((1, A), (5, B))).deliveries == 1
    assert Drifting(knots=knots((1, A), (5, B)), deliveries=2).max_deliveries(3, 9) == 2
    there = Drifting(knots=knots((1, 0.5), (5, 1.0), key="probability"))
    assert (there.deliveries, there.max_deliveries(7, 9)) == (None, 7)


def test_an_abrupt_change_between_zipf_and_random_rates(make_setting, hear):
    access = Drifting(knots=knots((1, {"zipf": 1}), (101, "random_simplex"), (201, "random_simplex")), shape="abrupt")
    figures = [np.array(course(index, access, 6)) for index in (1, 101, 201)]
    assert figures[0] == pytest.approx(np.array([60, 30, 20, 15, 12, 10]) / 147)
    assert all(not np.allclose(one, other) for one, other in pairwise(figures))
    world = make_setting(6, 300)
    assert (access.schedule(6, world.streams).at(300) == access.schedule(6, world.streams).at(201)).all()
    assert len(hear(access, world)) == 300


def test_rates_are_averages_up_to_the_last_knot():
    access = Drifting(knots=knots((1, A), (3, B)))
    assert access.rates(3, STREAMS).tolist() == pytest.approx([0.4, 0.2, 0.4])
    late = Drifting(knots=knots((3, A), (5, B)), shape="abrupt")
    assert late.rates(3, STREAMS).tolist() == pytest.approx([(4 * 0.7 + 0.1) / 5, 0.2, (4 * 0.1 + 0.7) / 5])
    assert late.rates(4, STREAMS) is None


def test_the_first_rounds_do_not_depend_on_how_many_are_wanted(make_setting, hear):
    access = Drifting(knots=knots((1, {"zipf": 2}), (3_000, {"zipf": 0})), deliveries=2)
    assert hear(access, make_setting(40, 4_000))[:25] == hear(access, make_setting(40, 25))


@pytest.mark.parametrize(
    "said",
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
def test_what_is_out_of_range_is_refused(said):
    with pytest.raises(ScenarioError) as caught:
        Drifting(**{"knots": knots((1, A), (5, B))} | said)
    assert {fault.key.split(".")[1] for fault in caught.value.faults} == set(said)


@pytest.mark.parametrize(
    ("said", "told"),
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
def test_misfits_are_faults(said, told):
    access = Drifting(**{"knots": knots((1, A), (5, B))} | said)
    found = [str(fault) for fault in access.faults(ScenarioFacts(users=3, rounds=10))]
    assert found[0].startswith(told)


def test_lists_for_others_are_told_by_a_scenario(tmp_path):
    text = "name: s\nusers: 4\nrounds: 9\naccess:\n  kind: drifting\n  knots:\n    - {round: 1, rho: [0.5, 0.5]}\n    - {round: 5, rho: [1.0]}\n"
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(ScenarioError) as caught:
        netfl.load(tmp_path / "s.yaml")
    assert [fault.key for fault in caught.value.faults] == ["access.knots.0.rho", "access.knots.1.rho"]
    assert caught.value.faults[1].where.endswith("s.yaml:8")


@pytest.mark.parametrize("said", [knots((1, A), (5, {"zipf": 1})), knots((1, 0.5), (5, A), key="probability")])
def test_it_says_itself_again(said):
    access = Drifting(knots=said, shape="smooth", repeat=9)
    assert Drifting.model_validate(access.model_dump(mode="json")) == access


@pytest.mark.parametrize("shape", ["linear", "smooth", "abrupt"])
@pytest.mark.parametrize(("at", "period"), [((1, 9), None), ((4, 5, 30), None), ((1, 2), 2), ((3, 8, 9), 17)])
def test_the_average_over_time_is_that_of_every_round(shape, at, period):
    stated = np.random.default_rng(len(at)).random((len(at), 5))
    course = RateSchedule(np.array(at), stated, shape, period)
    rounds = np.arange(1, at[-1] + 1) if period is None else np.arange(1, period + 1)
    np.testing.assert_allclose(course.mean(), course.at(rounds).mean(axis=0), rtol=1e-13)


def test_a_long_course_is_not_walked():
    course = RateSchedule(np.array([1, 10**15]), np.array([[1.0, 0.0], [0.0, 1.0]]), "linear")
    np.testing.assert_allclose(course.mean(), [0.5, 0.5], rtol=1e-12)
