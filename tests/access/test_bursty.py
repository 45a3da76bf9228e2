"""Bursts: shares, stationarity, the lengths of stays against their laws, and chains as a special case."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from netfl.access.bursty import Bursty
from netfl.access.markov import Markov
from netfl.errors import ScenarioError
from netfl.types import ScenarioFacts


def runs(there, inner=True):
    """The lengths of the whole runs of rounds there, of all users."""
    found = []
    for column in there.T:
        edges = np.flatnonzero(np.diff(np.concatenate([[0], column.astype(int), [0]])))
        own = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True)]
        found += [b - a for a, b in own if not inner or (a > 0 and b < len(column))]
    return np.array(found)


LAWS = [
    ({"distribution": "geometric", "mean": 4}, None),
    ({"distribution": "exponential", "mean": 2.5}, {"distribution": "fixed"}),
    ({"distribution": "fixed", "mean": 3}, {"distribution": "lognormal", "sigma": 1}),
    ({"distribution": "weibull", "mean": 6, "shape": 0.6}, {"distribution": "gamma", "shape": 3}),
    ({"distribution": "uniform", "mean": 2, "width": 1}, {"distribution": "pareto", "shape": 2.5}),
    ({"distribution": "hyperexponential", "mean": 5, "cv": 2}, {"distribution": "geometric"}),
]


@pytest.mark.parametrize(("stay", "away"), LAWS, ids=lambda one: "" if one is None else one["distribution"])
@pytest.mark.slow
def test_the_share_is_that_of_the_probability_in_every_round(make_setting, presence, stay, away):
    p = np.repeat([0.1, 0.5, 1.0], 3_000)
    access = Bursty(probability=tuple(p), presence=stay, absence=away)
    there = presence(access, make_setting(9_000, 30)).reshape(30, 3, 3_000)
    for at in (0, 1, 13, 29):
        for group, chance in enumerate((0.1, 0.5, 1.0)):
            assert stats.binomtest(int(there[at, group].sum()), 3_000, chance).pvalue > 1e-5


def test_geometric_stays_are_the_chains_of_markov(make_setting, presence):
    """Leaves with 1/4, comes with 1/(4 * (1/0.4 - 1)) = 1/6; and the future depends on the present alone."""
    access = Bursty(probability=0.4, presence={"distribution": "geometric", "mean": 4}, unit="rounds", round_length=7.0)
    there = presence(access, make_setting(300, 400))
    for state, leave in ((True, 1 / 4), (False, 1 / 6)):
        now, after = there[:-1] == state, there[1:] != state
        assert stats.binomtest(int((now & after).sum()), int(now.sum()), leave).pvalue > 1e-5
    before, now, after = there[:-2].ravel(), there[1:-1].ravel(), there[2:].ravel()
    table = [[(now & (before == past) & (after == next_)).sum() for next_ in (False, True)] for past in (False, True)]
    assert stats.chi2_contingency(table).pvalue > 1e-5
    on, off = Markov(probability=0.4, switch_on=1 / 6).switches(np.array([0.4]))
    assert (on[0], off[0]) == pytest.approx((1 / 6, 1 / 4))
    assert access.info.process == "Markovian"


def test_exponential_stays_leave_as_a_chain_looked_at_now_and_then_does(make_setting, presence):
    """P(away one round on | there) = (1 - p) (1 - exp(-(1/m + 1/m') L)) for mean stays m and times away m'."""
    access = Bursty(probability=0.25, presence={"distribution": "exponential", "mean": "40 s"}, round_length="30 s")
    there = presence(access, make_setting(300, 400))
    leave = 0.75 * (1 - math.exp(-30 / 40 - 30 / 120))
    now, after = there[:-1], ~there[1:]
    assert stats.binomtest(int((now & after).sum()), int(now.sum()), leave).pvalue > 1e-5


def test_fixed_stays_are_cycles(make_setting, presence):
    access = Bursty(probability=0.3, presence={"distribution": "fixed", "mean": 3}, unit="rounds")
    there = presence(access, make_setting(200, 100))
    assert (there[:90] == there[10:]).all()
    assert set(runs(there)) == {3}
    assert (there.sum(axis=0) == 30).all()


@pytest.mark.slow
def test_a_stay_covers_its_length_rounded_down_or_up(make_setting, presence):
    """A stay of 2.25 rounds covers 2 rounds three times in four, else 3."""
    far = Bursty(
        probability=0.02,
        presence={"distribution": "fixed", "mean": 2.25},
        absence={"distribution": "uniform", "width": 0.5},
    )
    found = runs(presence(far, make_setting(600, 2_000)))
    assert set(found) == {2, 3}
    assert stats.binomtest(int((found == 3).sum()), len(found), 0.25).pvalue > 1e-5


@pytest.mark.slow
def test_runs_of_pareto_stays_have_its_tail(make_setting, presence):
    """Of X + U rounded down, P(run >= k) = E[min(1, max(0, X + U - k + ...))]: integrated over the Pareto law."""
    mean, shape = 3.0, 2.5
    least = mean * (shape - 1) / shape
    access = Bursty(
        probability=0.1,
        presence={"distribution": "pareto", "mean": mean, "shape": shape},
        absence={"distribution": "uniform", "width": 0.2},
        unit="rounds",
    )
    found = runs(presence(access, make_setting(500, 3_000)))
    survival = lambda x: min(1.0, (least / x) ** shape) if x > 0 else 1.0  # noqa: E731
    for k in (3, 4, 6, 10):
        grid = np.linspace(k - 1, k, 2_001)
        wanted = np.mean([survival(x) for x in (grid[1:] + grid[:-1]) / 2])  # P(X + U >= k)
        assert stats.binomtest(int((found >= k).sum()), len(found), wanted).pvalue > 1e-5


def test_time_is_counted_as_the_unit_says(make_setting, hear):
    law = {"distribution": "weibull", "shape": 0.7}
    rounds = Bursty(probability=0.3, presence=law | {"mean": 4}, unit="rounds", round_length=30.0)
    seconds = Bursty(probability=0.3, presence=law | {"mean": "2 min"}, round_length=30.0)
    assert [set(one) for one in hear(rounds, make_setting(20, 200))] == [
        set(one) for one in hear(seconds, make_setting(20, 200))
    ]


@pytest.mark.slow
def test_the_first_rounds_do_not_depend_on_how_many_are_wanted(make_setting, hear):
    access = Bursty(probability=0.3, presence={"distribution": "gamma", "mean": 2, "shape": 0.5}, deliveries=3)
    assert hear(access, make_setting(40, 2_000))[:25] == hear(access, make_setting(40, 25))


def test_rates_are_the_probabilities(make_setting):
    access = Bursty(probability=[0.2, 0.4], presence={"distribution": "fixed", "mean": 3})
    assert access.rates(2, make_setting().streams).tolist() == [0.2, 0.4]
    assert access.info.process is None


@pytest.mark.parametrize(
    ("said", "loc", "told"),
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
def test_what_is_out_of_range_is_refused(said, loc, told):
    with pytest.raises(ScenarioError, match=told) as caught:
        Bursty(**{"probability": 0.5, "presence": {"distribution": "fixed", "mean": 3}} | said)
    assert caught.value.faults[0].key == ".".join(map(str, ("Bursty", *loc)))


@pytest.mark.parametrize(
    ("said", "told"),
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
def test_misfits_are_faults(said, told):
    access = Bursty(**{"probability": 0.5, "presence": {"distribution": "fixed", "mean": 3}, "absence": None} | said)
    found = [str(fault) for fault in access.faults(ScenarioFacts(users=3, rounds=9))]
    assert found[0].startswith(told)


def test_a_geometric_law_of_mean_one_is_always_one(make_setting, presence):
    access = Bursty(probability=0.5, presence={"distribution": "geometric", "mean": 1}, unit="rounds")
    there = presence(access, make_setting(50, 40))
    assert (there[1:] != there[:-1]).all()
    assert not [*access.faults(ScenarioFacts(users=50, rounds=40))]


def test_moments_of_the_geometric_law():
    stay = Bursty(probability=0.5, presence={"distribution": "geometric", "mean": 4}).presence
    law = stats.geom(0.25)
    assert [stay.moment(k) for k in (1, 2, 3, 4)] == pytest.approx([law.moment(k) for k in (1, 2, 3, 4)])
    assert stay.cdf(np.array([-1, 0.5, 1, 2.9, 7])) == pytest.approx(law.cdf([-1, 0.5, 1, 2.9, 7]))


def test_it_says_itself_again():
    access = Bursty(
        probability=0.5,
        presence={"distribution": "gamma", "mean": "1 min", "shape": 2},
        absence={"distribution": "geometric"},
    )
    assert Bursty.model_validate(access.model_dump(mode="json")) == access
