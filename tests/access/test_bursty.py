"""Bursty access: stationary shares, run lengths against their distributions, and Markov chains as a special case."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from netfl.access.bursty import Bursty
from netfl.access.markov import Markov
from netfl.errors import ScenarioError
from netfl.types import ScenarioFacts


def run_lengths(available, complete_only=True):
    """Return the lengths of the runs of available rounds of all users."""
    lengths = []
    for column in available.T:
        edges = np.flatnonzero(np.diff(np.concatenate([[0], column.astype(int), [0]])))
        intervals = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True)]
        lengths += [b - a for a, b in intervals if not complete_only or (a > 0 and b < len(column))]
    return np.array(lengths)


LAWS = [
    ({"distribution": "geometric", "mean": 4}, None),
    ({"distribution": "exponential", "mean": 2.5}, {"distribution": "fixed"}),
    ({"distribution": "fixed", "mean": 3}, {"distribution": "lognormal", "sigma": 1}),
    ({"distribution": "weibull", "mean": 6, "shape": 0.6}, {"distribution": "gamma", "shape": 3}),
    ({"distribution": "uniform", "mean": 2, "width": 1}, {"distribution": "pareto", "shape": 2.5}),
    ({"distribution": "hyperexponential", "mean": 5, "cv": 2}, {"distribution": "geometric"}),
]


@pytest.mark.parametrize(
    ("stay", "away"), LAWS, ids=lambda settings: "" if settings is None else settings["distribution"]
)
@pytest.mark.slow
def test_share_of_available_users_is_stationary(make_context, delivery_matrix, stay, away):
    p = np.repeat([0.1, 0.5, 1.0], 3_000)
    access = Bursty(probability=tuple(p), presence=stay, absence=away)
    available = delivery_matrix(access, make_context(9_000, 30)).reshape(30, 3, 3_000)
    for at in (0, 1, 13, 29):
        for group, chance in enumerate((0.1, 0.5, 1.0)):
            assert stats.binomtest(int(available[at, group].sum()), 3_000, chance).pvalue > 1e-5


def test_geometric_stays_reproduce_the_markov_chain(make_context, delivery_matrix):
    """The chain leaves with 1/4 and returns with 1/(4 * (1/0.4 - 1)) = 1/6; it has no further memory."""
    access = Bursty(probability=0.4, presence={"distribution": "geometric", "mean": 4}, unit="rounds", round_length=7.0)
    available = delivery_matrix(access, make_context(300, 400))
    for state, leave in ((True, 1 / 4), (False, 1 / 6)):
        now, after = available[:-1] == state, available[1:] != state
        assert stats.binomtest(int((now & after).sum()), int(now.sum()), leave).pvalue > 1e-5
    before, now, after = available[:-2].ravel(), available[1:-1].ravel(), available[2:].ravel()
    table = [[(now & (before == past) & (after == next_)).sum() for next_ in (False, True)] for past in (False, True)]
    assert stats.chi2_contingency(table).pvalue > 1e-5
    on, off = Markov(probability=0.4, switch_on=1 / 6).switches(np.array([0.4]))
    assert (on[0], off[0]) == pytest.approx((1 / 6, 1 / 4))
    assert access.info.process == "Markovian"


def test_exponential_stays_match_a_sampled_markov_process(make_context, delivery_matrix):
    """P(absent next round | present) = (1 - p) (1 - exp(-(1/m + 1/m') L)), mean presence m, mean absence m'."""
    access = Bursty(probability=0.25, presence={"distribution": "exponential", "mean": "40 s"}, round_length="30 s")
    available = delivery_matrix(access, make_context(300, 400))
    leave = 0.75 * (1 - math.exp(-30 / 40 - 30 / 120))
    now, after = available[:-1], ~available[1:]
    assert stats.binomtest(int((now & after).sum()), int(now.sum()), leave).pvalue > 1e-5


def test_fixed_stays_are_periodic(make_context, delivery_matrix):
    access = Bursty(probability=0.3, presence={"distribution": "fixed", "mean": 3}, unit="rounds")
    available = delivery_matrix(access, make_context(200, 100))
    assert (available[:90] == available[10:]).all()
    assert set(run_lengths(available)) == {3}
    assert (available.sum(axis=0) == 30).all()


@pytest.mark.slow
def test_stay_covers_its_length_rounded_down_or_up(make_context, delivery_matrix):
    """A stay of 2.25 rounds covers 2 rounds with probability 3/4, otherwise 3."""
    access = Bursty(
        probability=0.02,
        presence={"distribution": "fixed", "mean": 2.25},
        absence={"distribution": "uniform", "width": 0.5},
    )
    lengths = run_lengths(delivery_matrix(access, make_context(600, 2_000)))
    assert set(lengths) == {2, 3}
    assert stats.binomtest(int((lengths == 3).sum()), len(lengths), 0.25).pvalue > 1e-5


@pytest.mark.slow
def test_run_lengths_of_pareto_stays_have_a_pareto_tail(make_context, delivery_matrix):
    """A run is X + U rounded down, so P(run >= k) is P(X + U >= k), integrated over the Pareto distribution."""
    mean, shape = 3.0, 2.5
    minimum = mean * (shape - 1) / shape
    access = Bursty(
        probability=0.1,
        presence={"distribution": "pareto", "mean": mean, "shape": shape},
        absence={"distribution": "uniform", "width": 0.2},
        unit="rounds",
    )
    lengths = run_lengths(delivery_matrix(access, make_context(500, 3_000)))
    survival = lambda x: min(1.0, (minimum / x) ** shape) if x > 0 else 1.0  # noqa: E731
    for k in (3, 4, 6, 10):
        grid = np.linspace(k - 1, k, 2_001)
        expected = np.mean([survival(x) for x in (grid[1:] + grid[:-1]) / 2])  # P(X + U >= k)
        assert stats.binomtest(int((lengths >= k).sum()), len(lengths), expected).pvalue > 1e-5


def test_unit_selects_rounds_or_seconds(make_context, delivered_users):
    distribution = {"distribution": "weibull", "shape": 0.7}
    rounds = Bursty(probability=0.3, presence=distribution | {"mean": 4}, unit="rounds", round_length=30.0)
    seconds = Bursty(probability=0.3, presence=distribution | {"mean": "2 min"}, round_length=30.0)
    assert [set(users) for users in delivered_users(rounds, make_context(20, 200))] == [
        set(users) for users in delivered_users(seconds, make_context(20, 200))
    ]


@pytest.mark.slow
def test_first_rounds_do_not_depend_on_the_number_of_rounds(make_context, delivered_users):
    access = Bursty(probability=0.3, presence={"distribution": "gamma", "mean": 2, "shape": 0.5}, deliveries=3)
    assert delivered_users(access, make_context(40, 2_000))[:25] == delivered_users(access, make_context(40, 25))


def test_rates_equal_the_probabilities(make_context):
    access = Bursty(probability=[0.2, 0.4], presence={"distribution": "fixed", "mean": 3})
    assert access.rates(2, make_context().streams).tolist() == [0.2, 0.4]
    assert access.info.process is None


@pytest.mark.parametrize(
    ("overrides", "path", "message"),
    [
        ({"absence": {"distribution": "fixed", "mean": 4}}, ("absence", "mean"), "is determined by the probability"),
        ({"presence": {"distribution": "fixed"}}, ("presence", "mean"), "missing|Field required"),
        ({"presence": {"distribution": "fixed", "mean": 0}}, ("presence", "mean"), "greater than 0"),
        ({"presence": {"distribution": "weibull", "mean": 3}}, ("presence", "shape"), "distribution: weibull needs it"),
        (
            {"absence": {"distribution": "geometric", "shape": 3}},
            ("absence", "shape"),
            "no effect without distribution: weibull",
        ),
        ({"absence": {"distribution": "poisson"}}, ("absence", "distribution"), "unknown value"),
        ({"presence": {"distribution": "fixed", "mean": "2 s"}, "unit": "rounds"}, ("presence",), "unit is rounds"),
    ],
)
def test_values_out_of_range_raise_an_error(overrides, path, message):
    with pytest.raises(ScenarioError, match=message) as error:
        Bursty(**{"probability": 0.5, "presence": {"distribution": "fixed", "mean": 3}} | overrides)
    assert error.value.faults[0].key == ".".join(map(str, ("Bursty", *path)))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"presence": {"distribution": "fixed", "mean": 5e-4}},
            "presence.mean: less than a thousandth of a round, 1 s",
        ),
        ({"presence": {"distribution": "geometric", "mean": 0.5}}, "presence.mean: geometric times are at least 1"),
        (
            {"presence": {"distribution": "geometric", "mean": 1.5}, "probability": [0.5, 0.7, 1.0]},
            "probability: users would be away",
        ),
        ({"probability": [0.5, 0.5]}, "probability: 2 probabilities for 3 users"),
    ],
)
def test_settings_that_do_not_fit_the_scenario_are_errors(overrides, message):
    access = Bursty(
        **{"probability": 0.5, "presence": {"distribution": "fixed", "mean": 3}, "absence": None} | overrides
    )
    lengths = [str(fault) for fault in access.faults(ScenarioFacts(users=3, rounds=9))]
    assert lengths[0].startswith(message)


def test_geometric_distribution_of_mean_one_is_constant(make_context, delivery_matrix):
    access = Bursty(probability=0.5, presence={"distribution": "geometric", "mean": 1}, unit="rounds")
    available = delivery_matrix(access, make_context(50, 40))
    assert (available[1:] != available[:-1]).all()
    assert not [*access.faults(ScenarioFacts(users=50, rounds=40))]


def test_geometric_distribution_matches_scipy():
    stay = Bursty(probability=0.5, presence={"distribution": "geometric", "mean": 4}).presence
    distribution = stats.geom(0.25)
    assert [stay.moment(k) for k in (1, 2, 3, 4)] == pytest.approx([distribution.moment(k) for k in (1, 2, 3, 4)])
    assert stay.cdf(np.array([-1, 0.5, 1, 2.9, 7])) == pytest.approx(distribution.cdf([-1, 0.5, 1, 2.9, 7]))


def test_dump_and_validate_restore_the_access():
    access = Bursty(
        probability=0.5,
        presence={"distribution": "gamma", "mean": "1 min", "shape": 2},
        absence={"distribution": "geometric"},
    )
    assert Bursty.model_validate(access.model_dump(mode="json")) == access
