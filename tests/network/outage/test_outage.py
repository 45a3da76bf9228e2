"""Renewal outages against renewal theory; false-alarm rate 1e-6 per statistic."""

import math

import numpy as np
import pytest
from scipy import integrate, stats
from support.draw_counts import DRAWS

from netfl.errors import ScenarioError
from netfl.network.outage._alternating_renewal import AlternatingRenewal
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._distributions import DurationDistribution
from netfl.network.outage.renewal import Renewal
from netfl.network.topology.star import Star
from netfl.network.topology.tree import Tree
from netfl.streams import Streams
from netfl.testing.laws import check_laws
from netfl.types import ScenarioFacts

STREAMS = Streams(23)
Z = 4.9
EXPONENTIAL = {"distribution": "exponential", "mean": 100.0}
WEIBULL = {"distribution": "weibull", "mean": 40.0, "shape": 0.7}
LOGNORMAL = {"distribution": "lognormal", "mean": 60.0, "sigma": 0.8}
GAMMA = {"distribution": "gamma", "mean": 50.0, "shape": 2.5}
PARETO = {"distribution": "pareto", "mean": 30.0, "shape": 3.5}
UNIFORM = {"distribution": "uniform", "mean": 45.0, "width": 0.6}
PHASES = {"distribution": "hyperexponential", "mean": 35.0, "cv": 2.0}
FIXED = {"distribution": "fixed", "mean": 25.0}
PAIRS = [
    (EXPONENTIAL, FIXED),
    (WEIBULL, EXPONENTIAL),
    (LOGNORMAL, WEIBULL),
    (FIXED, LOGNORMAL),
    (FIXED, FIXED),
    (GAMMA, PARETO),
    (UNIFORM, PHASES),
]


class TwoPhases(stats.rv_continuous):
    """Balanced means: each phase contributes half of the mean; here with mean 35 and variance (2 · 35)²."""

    P = (1 + math.sqrt(3 / 5)) / 2

    def _cdf(self, x):
        return sum(p * -np.expm1(-2 * p * x / 35.0) for p in (self.P, 1 - self.P))


# SciPy's own laws, with their parameters worked out here from the means
TRUTH = {
    "exponential": stats.expon(scale=100.0),
    "weibull": stats.weibull_min(0.7, scale=40.0 / math.gamma(1 + 1 / 0.7)),
    "lognormal": stats.lognorm(0.8, scale=60.0 / math.exp(0.32)),
    "gamma": stats.gamma(2.5, scale=20.0),
    "pareto": stats.pareto(3.5, scale=30.0 * 2.5 / 3.5),
    "uniform": stats.uniform(18.0, 54.0),
    "hyperexponential": TwoPhases(a=0.0)(),
    "fixed": stats.uniform(25.0 - 1e-9, 2e-9),
}


def star(users):
    return Star(radius=1000).open(users, STREAMS)


def renewal(up, down, users, **more):
    return Renewal(nodes="users", up=up, down=down, **more).open(star(users), STREAMS)


def walk(timeline, users, changes):
    """The first *changes* instants of change of each user, ``[users, changes]``."""
    time_s, found = np.zeros(users), []
    for _ in range(changes):
        time_s = timeline.next_change(np.arange(users), time_s)
        found.append(time_s)
    return np.array(found).T


@pytest.mark.parametrize(("up", "down"), PAIRS, ids=lambda law: law["distribution"])
class TestRenewal:
    @pytest.mark.quick_first
    def test_availability_is_the_same_at_every_instant(self, up, down):
        users = np.arange(20_000)
        timeline = renewal(up, down, 20_000)
        share = up["mean"] / (up["mean"] + down["mean"])
        for time_s in (0.0, 13.0, 77.0, 2000.0):
            found = timeline.up(users, time_s).mean()
            assert found == pytest.approx(share, abs=Z * math.sqrt(share * (1 - share) / 20_000))

    @pytest.mark.quick_first
    def test_sojourns_follow_their_laws_over_nodes_and_over_time(self, up, down):
        for users, changes in ((4000, 4), (2, 4000)):
            timeline = renewal(up, down, users)
            ends = walk(timeline, users, changes)
            lengths = np.diff(ends, axis=1).ravel()
            is_up = timeline.up(np.repeat(np.arange(users), changes - 1), ends[:, :-1].ravel())
            for law, sample in ((up, lengths[is_up]), (down, lengths[~is_up])):
                if law["distribution"] == "fixed":
                    assert sample == pytest.approx(law["mean"])
                else:
                    assert stats.kstest(sample, TRUTH[law["distribution"]].cdf).pvalue > 1e-6
                    assert sample.mean() == pytest.approx(law["mean"], abs=Z * sample.std() / math.sqrt(len(sample)))

    def test_the_first_rest_of_a_sojourn_is_the_equilibrium_one(self, up, down):
        timeline = renewal(up, down, 5000)
        users = np.arange(5000)
        rest, is_up = timeline.next_change(users, 0.0), timeline.up(users, 0.0)
        for law, sample in ((up, rest[is_up]), (down, rest[~is_up])):
            assert stats.kstest(sample, equilibrium_cdf(law)).pvalue > 1e-6

    @pytest.mark.quick_first
    def test_share_of_time_up_of_one_long_run(self, up, down):
        """Its asymptotic variance is (σd² mu² + σu² md²) / (mu + md)³ / T (Cox, Renewal Theory, §7.4)."""
        users, cycles = 40, 300
        (mu, md), (su, sd) = (
            (law["mean"] for law in (up, down)),
            (TRUTH[law["distribution"]].std() for law in (up, down)),
        )
        horizon_s = cycles * (mu + md)
        outages = CombinedOutages([renewal(up, down, users, start="up")])
        when, _, went_up = outages.changes(np.arange(users), 0.0, horizon_s)
        down_s = np.where(went_up, when, -when).sum() + horizon_s * (~outages.up(np.arange(users), horizon_s)).sum()
        found = 1.0 - down_s / (users * horizon_s)
        deviation = math.sqrt((sd**2 * mu**2 + su**2 * md**2) / (mu + md) ** 3 / (users * horizon_s))
        start_up = 2.0 / cycles  # how much a start in the up state can shift the share
        assert found == pytest.approx(mu / (mu + md), abs=Z * deviation + start_up)

    @pytest.mark.slow
    def test_no_answer_depends_on_what_was_asked_before(self, up, down):
        users = 30
        rng = np.random.default_rng(1)
        nodes, times = rng.integers(0, users, 500), rng.uniform(0, 20_000, 500)
        at_once = renewal(up, down, users)
        singly = renewal(up, down, users)
        states, ends = at_once.up(nodes, times), at_once.next_change(nodes, times)
        for i in rng.permutation(500):
            assert singly.up(nodes[[i]], times[i])[0] == states[i]
            assert singly.next_change(nodes[[i]], times[i])[0] == ends[i]
        assert (ends > times).all()
        assert (at_once.up(nodes, ends) != states).all()
        assert (at_once.up(nodes, np.nextafter(ends, 0)) == states).all()

    def test_more_users_leave_the_others_fates(self, up, down):
        few, many = renewal(up, down, 5), renewal(up, down, 50)
        assert (walk(few, 5, 40) == walk(many, 50, 40)[:5]).all()


@pytest.mark.parametrize(
    "law",
    [EXPONENTIAL, WEIBULL, LOGNORMAL, GAMMA, PARETO, UNIFORM, PHASES],
    ids=lambda law: law["distribution"],
)
def test_moments_and_distribution_are_scipys(law):
    model, truth = DurationDistribution(**law), TRUTH[law["distribution"]]
    grid = np.linspace(0, 400, 50)
    assert model.cdf(grid) == pytest.approx(truth.cdf(grid), abs=1e-12)
    for power in (1, 2, 3):
        integral = integrate.quad(lambda x: power * x ** (power - 1) * truth.sf(x), 0, np.inf, limit=500, epsabs=0)[0]  # noqa: B023
        assert model.moment(power) == pytest.approx(integral, rel=1e-4)


def test_two_phases_have_the_variation_that_they_are_said_to_have():
    assert math.sqrt(DurationDistribution(**PHASES).variance) == pytest.approx(2.0 * 35.0)


def test_a_pareto_law_without_variance_claims_none():
    heavy = DurationDistribution(distribution="pareto", mean=10, shape=1.5)
    assert heavy.variance == math.inf
    model = Renewal(nodes="users", up=EXPONENTIAL, down=heavy)
    assert [law.mean is None for law in model.laws()] == [False, True, False]
    assert check_laws(model, STREAMS, DRAWS) == []


def equilibrium_cdf(law):
    """∫ P(X > u) du / E[X], by quadrature on a fine grid."""
    grid = np.concatenate([[0.0], np.geomspace(1e-9, 1e5, 200_000)])
    integral = integrate.cumulative_simpson(TRUTH[law["distribution"]].sf(grid), x=grid, initial=0.0) / law["mean"]
    return lambda x: np.interp(x, grid, np.minimum(integral, 1.0))


class TestRenewalsNodes:
    def test_start_up_begins_with_a_whole_sojourn(self):
        timeline = renewal(FIXED, EXPONENTIAL, 50, start="up")
        assert timeline.up(np.arange(50), 0.0).all()
        assert (timeline.next_change(np.arange(50), 0.0) == 25.0).all()

    @pytest.mark.parametrize(
        ("nodes", "struck"),
        [
            ("users", {0, 1, 2}),
            ("routers", {4}),
            ("towers", {5, 6}),
            ([1, "tower:1"], {1, 6}),
            ("links", {7, 8, 9}),
            (["server-router:0", "router:0-tower:1", 2], {2, 7, 9}),
        ],
    )
    def test_only_those_named_ever_change(self, nodes, struck):
        sites = Tree(fanout=[1, 2], ring=10, radius=10).open(3, STREAMS)
        timeline = Renewal(nodes=nodes, up=EXPONENTIAL, down=FIXED).open(sites, STREAMS)
        ends = timeline.next_change(np.arange(sites.nodes), 0.0)
        assert set(np.flatnonzero(np.isfinite(ends))) == struck
        assert timeline.up(np.arange(sites.nodes), 1e6)[[n for n in range(sites.nodes) if n not in struck]].all()

    @pytest.mark.parametrize(
        ("nodes", "told"),
        [
            ("routers", "no routers"),
            (["tower:7"], "did you mean 'tower:0'"),
            (["server"], "no such node"),
            (["tower:0-sever"], "did you mean 'tower:0-server'"),
            (["server-tower:1"], "did you mean 'server-tower:0'"),
        ],
    )
    def test_nodes_that_there_are_not(self, nodes, told):
        with pytest.raises(ScenarioError, match=told) as caught:
            Renewal(nodes=nodes, up=EXPONENTIAL, down=FIXED).open(star(3), STREAMS)
        assert [fault.key for fault in caught.value.faults] == ["nodes"]

    def test_users_that_there_are_not(self):
        model = Renewal(nodes=[0, 3, 9], up=EXPONENTIAL, down=FIXED)
        assert [fault.value for fault in model.faults(ScenarioFacts(users=4, rounds=1))] == [[9]]
        assert list(model.faults(ScenarioFacts(users=10, rounds=1))) == []

    @pytest.mark.parametrize("nodes", ["user", [], [-1], [1.5], 3, None])
    def test_no_nodes_at_all(self, nodes):
        with pytest.raises(ScenarioError):
            Renewal(nodes=nodes, up=EXPONENTIAL, down=FIXED)

    @pytest.mark.parametrize(
        ("law", "told"),
        [
            (
                {"distribution": "exponential", "mean": 1, "shape": 2},
                "shape: has no effect without distribution: weibull",
            ),
            ({"distribution": "weibull", "mean": 1}, "shape: missing; distribution: weibull needs it"),
            ({"distribution": "fixed", "mean": 1, "sigma": 1}, "sigma: has no effect"),
            ({"distribution": "lognormal", "mean": 1}, "sigma: missing"),
            ({"distribution": "fixed", "mean": 0}, "greater than 0"),
            ({"distribution": "pareto", "mean": 1, "shape": 1}, "shape is above 1"),
            ({"distribution": "gamma", "mean": 1}, "shape: missing; distribution: gamma needs it"),
            ({"distribution": "uniform", "mean": 1, "width": 1.5}, "less than or equal to 1"),
            ({"distribution": "hyperexponential", "mean": 1, "cv": 1}, "greater than 1"),
        ],
    )
    def test_each_law_takes_its_own_keys(self, law, told):
        with pytest.raises(ScenarioError, match=told):
            Renewal(nodes="users", up=law, down=FIXED)


@pytest.mark.slow
def test_any_order_of_asking_gives_the_same_instants_over_thousands_of_sojourns():
    law = {"distribution": "exponential", "mean": 1.0}
    users, times_s = np.arange(5), np.linspace(0.0, 2000.0, 100)
    forward = renewal(law, law, 5)
    expected = {float(t): forward.next_change(users, t).tolist() for t in times_s}
    shuffled = renewal(law, law, 5)
    for t in np.random.default_rng(3).permutation(times_s):
        assert shuffled.next_change(users, t).tolist() == expected[float(t)]


@pytest.mark.slow
def test_looking_far_ahead_again_and_again_does_not_walk_there_each_time(monkeypatch):
    steps, step = [], AlternatingRenewal._advance
    monkeypatch.setattr(AlternatingRenewal, "_advance", lambda self, rows: (steps.append(rows), step(self, rows)))
    law = {"distribution": "exponential", "mean": 1.0}
    timeline = renewal(law, law, 1)
    for now_s in range(300):
        timeline.up(np.array([0]), float(now_s))
        timeline.up(np.array([0]), now_s + 10_000.0)
    assert len(steps) < 10_300 / 8 + 300 * 2 * (16 + 3)


@pytest.mark.parametrize(
    "down", [{"distribution": "exponential", "mean": 0.5}, {"distribution": "pareto", "mean": 0.5, "shape": 1.5}]
)
@pytest.mark.slow
def test_a_leap_over_many_sojourns_ends_where_steps_do(down, monkeypatch):
    far_s = 5_000.0 + 1_000.0 * np.arange(4)
    asked_s = [*np.linspace(0.0, 7_000.0, 57), 20.0, 300.0, 6_000.0]
    up = {"distribution": "exponential", "mean": 1.5}

    def told(timeline, first_s):
        users = np.arange(4)
        found = [timeline.next_change(users, first_s).tolist()]
        return found + [[timeline.up(users, t).tolist(), timeline.next_change(users, t).tolist()] for t in asked_s]

    leaping = renewal(up, down, 4)
    found = told(leaping, far_s)
    monkeypatch.setattr(AlternatingRenewal, "_leap", None)
    monkeypatch.setattr("netfl.network.outage._alternating_renewal._LEAP", 0)
    assert told(renewal(up, down, 4), far_s) == found


def test_millions_of_sojourns_are_leapt_over(monkeypatch):
    steps, step = [], AlternatingRenewal._advance
    monkeypatch.setattr(AlternatingRenewal, "_advance", lambda self, rows: (steps.append(rows), step(self, rows)))
    law = {"distribution": "exponential", "mean": 1.0}
    timeline = renewal(law, law, 3)
    assert (timeline.next_change(np.arange(3), 3e5) > 3e5).all()
    assert len(steps) < 200


@pytest.mark.slow
def test_a_leap_that_goes_too_far_is_not_made_again(monkeypatch):
    """One of 128 sojourns towards a time that 150 of the mean would reach goes too far now and then."""
    looks, look = [], AlternatingRenewal._approach

    def counted(self, rows, time_s):
        looks.append(rows)
        assert len(looks) < 100
        look(self, rows, time_s)

    monkeypatch.setattr(AlternatingRenewal, "_approach", counted)
    law = {"distribution": "exponential", "mean": 1.0}
    timeline = renewal(law, law, 500)
    for user in range(500):
        looks.clear()
        assert timeline.next_change(np.array([user]), 160.0) > 160.0
