"""Renewal outages compared with renewal theory; the false-alarm rate is 1e-6 per statistic."""

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
    """Hyperexponential distribution with balanced means: mean 35 and variance (2 · 35)²."""

    P = (1 + math.sqrt(3 / 5)) / 2

    def _cdf(self, x):
        return sum(p * -np.expm1(-2 * p * x / 35.0) for p in (self.P, 1 - self.P))


# distributions of SciPy, with parameters derived from the means
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


def open_renewal(up, down, users, **options):
    return Renewal(nodes="users", up=up, down=down, **options).open(star(users), STREAMS)


def list_changes(timeline, users, changes):
    """Return the first *changes* times of change of each user, ``[users, changes]``."""
    time_s, columns = np.zeros(users), []
    for _ in range(changes):
        time_s = timeline.next_change(np.arange(users), time_s)
        columns.append(time_s)
    return np.array(columns).T


@pytest.mark.parametrize(("up", "down"), PAIRS, ids=lambda law: law["distribution"])
class TestRenewal:
    @pytest.mark.quick_first
    def test_availability_is_constant(self, up, down):
        users = np.arange(20_000)
        timeline = open_renewal(up, down, 20_000)
        share = up["mean"] / (up["mean"] + down["mean"])
        for time_s in (0.0, 13.0, 77.0, 2000.0):
            share_up = timeline.up(users, time_s).mean()
            assert share_up == pytest.approx(share, abs=Z * math.sqrt(share * (1 - share) / 20_000))

    @pytest.mark.quick_first
    def test_sojourns_follow_distributions(self, up, down):
        for users, changes in ((4000, 4), (2, 4000)):
            timeline = open_renewal(up, down, users)
            ends = list_changes(timeline, users, changes)
            lengths = np.diff(ends, axis=1).ravel()
            is_up = timeline.up(np.repeat(np.arange(users), changes - 1), ends[:, :-1].ravel())
            for law, sample in ((up, lengths[is_up]), (down, lengths[~is_up])):
                if law["distribution"] == "fixed":
                    assert sample == pytest.approx(law["mean"])
                else:
                    assert stats.kstest(sample, TRUTH[law["distribution"]].cdf).pvalue > 1e-6
                    assert sample.mean() == pytest.approx(law["mean"], abs=Z * sample.std() / math.sqrt(len(sample)))

    def test_first_sojourn_is_in_equilibrium(self, up, down):
        timeline = open_renewal(up, down, 5000)
        users = np.arange(5000)
        remaining_s, is_up = timeline.next_change(users, 0.0), timeline.up(users, 0.0)
        for law, sample in ((up, remaining_s[is_up]), (down, remaining_s[~is_up])):
            assert stats.kstest(sample, equilibrium_cdf(law)).pvalue > 1e-6

    @pytest.mark.quick_first
    def test_share_of_time_up(self, up, down):
        """The asymptotic variance is (σd² mu² + σu² md²) / (mu + md)³ / T (Cox, Renewal Theory, §7.4)."""
        users, cycles = 40, 300
        (mu, md), (su, sd) = (
            (law["mean"] for law in (up, down)),
            (TRUTH[law["distribution"]].std() for law in (up, down)),
        )
        horizon_s = cycles * (mu + md)
        outages = CombinedOutages([open_renewal(up, down, users, start="up")])
        times_s, _, went_up = outages.changes(np.arange(users), 0.0, horizon_s)
        down_s = (
            np.where(went_up, times_s, -times_s).sum() + horizon_s * (~outages.up(np.arange(users), horizon_s)).sum()
        )
        share_up = 1.0 - down_s / (users * horizon_s)
        deviation = math.sqrt((sd**2 * mu**2 + su**2 * md**2) / (mu + md) ** 3 / (users * horizon_s))
        start_up = 2.0 / cycles  # the bias of a start in the up state
        assert share_up == pytest.approx(mu / (mu + md), abs=Z * deviation + start_up)

    @pytest.mark.slow
    def test_results_are_independent_of_earlier_queries(self, up, down):
        users = 30
        rng = np.random.default_rng(1)
        nodes, times = rng.integers(0, users, 500), rng.uniform(0, 20_000, 500)
        at_once = open_renewal(up, down, users)
        singly = open_renewal(up, down, users)
        states, ends = at_once.up(nodes, times), at_once.next_change(nodes, times)
        for i in rng.permutation(500):
            assert singly.up(nodes[[i]], times[i])[0] == states[i]
            assert singly.next_change(nodes[[i]], times[i])[0] == ends[i]
        assert (ends > times).all()
        assert (at_once.up(nodes, ends) != states).all()
        assert (at_once.up(nodes, np.nextafter(ends, 0)) == states).all()

    def test_more_users_do_not_change_others(self, up, down):
        few, many = open_renewal(up, down, 5), open_renewal(up, down, 50)
        assert (list_changes(few, 5, 40) == list_changes(many, 50, 40)[:5]).all()


@pytest.mark.parametrize(
    "law",
    [EXPONENTIAL, WEIBULL, LOGNORMAL, GAMMA, PARETO, UNIFORM, PHASES],
    ids=lambda law: law["distribution"],
)
def test_moments_and_distribution_match_scipy(law):
    model, truth = DurationDistribution(**law), TRUTH[law["distribution"]]
    grid = np.linspace(0, 400, 50)
    assert model.cdf(grid) == pytest.approx(truth.cdf(grid), abs=1e-12)
    for power in (1, 2, 3):
        integral = integrate.quad(lambda x: power * x ** (power - 1) * truth.sf(x), 0, np.inf, limit=500, epsabs=0)[0]  # noqa: B023
        assert model.moment(power) == pytest.approx(integral, rel=1e-4)


@pytest.mark.parametrize(
    "law",
    [EXPONENTIAL, WEIBULL, LOGNORMAL, GAMMA, PARETO, UNIFORM, PHASES],
    ids=lambda law: law["distribution"],
)
def test_draws_follow_distribution(law):
    sample = DurationDistribution(**law).draw(STREAMS.field("draws"), 0, np.arange(2000))
    assert stats.kstest(sample, TRUTH[law["distribution"]].cdf).pvalue > 1e-6


def test_hyperexponential_has_given_variation():
    assert math.sqrt(DurationDistribution(**PHASES).variance) == pytest.approx(2.0 * 35.0)


def test_pareto_without_variance_states_none():
    heavy = DurationDistribution(distribution="pareto", mean=10, shape=1.5)
    assert heavy.variance == math.inf
    model = Renewal(nodes="users", up=EXPONENTIAL, down=heavy)
    assert [law.mean is None for law in model.laws()] == [False, True, False]
    assert check_laws(model, STREAMS, DRAWS) == []


def equilibrium_cdf(law):
    """Return ∫ P(X > u) du / E[X] by quadrature on a fine grid."""
    grid = np.concatenate([[0.0], np.geomspace(1e-9, 1e5, 200_000)])
    integral = integrate.cumulative_simpson(TRUTH[law["distribution"]].sf(grid), x=grid, initial=0.0) / law["mean"]
    return lambda x: np.interp(x, grid, np.minimum(integral, 1.0))


class TestNodes:
    def test_start_up_begins_with_full_sojourn(self):
        timeline = open_renewal(FIXED, EXPONENTIAL, 50, start="up")
        assert timeline.up(np.arange(50), 0.0).all()
        assert (timeline.next_change(np.arange(50), 0.0) == 25.0).all()

    @pytest.mark.parametrize(
        ("nodes", "affected"),
        [
            ("users", {0, 1, 2}),
            ("routers", {4}),
            ("towers", {5, 6}),
            ([1, "tower:1"], {1, 6}),
            ("links", {7, 8, 9}),
            (["server-router:0", "router:0-tower:1", 2], {2, 7, 9}),
        ],
    )
    def test_only_selected_nodes_change(self, nodes, affected):
        layout = Tree(fanout=[1, 2], ring=10, radius=10).open(3, STREAMS)
        timeline = Renewal(nodes=nodes, up=EXPONENTIAL, down=FIXED).open(layout, STREAMS)
        ends = timeline.next_change(np.arange(layout.nodes), 0.0)
        assert set(np.flatnonzero(np.isfinite(ends))) == affected
        assert timeline.up(np.arange(layout.nodes), 1e6)[[n for n in range(layout.nodes) if n not in affected]].all()

    @pytest.mark.parametrize(
        ("nodes", "problem"),
        [
            ("routers", "no routers"),
            (["tower:7"], "did you mean 'tower:0'"),
            (["server"], "no such node"),
            (["tower:0-sever"], "did you mean 'tower:0-server'"),
            (["server-tower:1"], "did you mean 'server-tower:0'"),
        ],
    )
    def test_unknown_nodes_are_rejected(self, nodes, problem):
        with pytest.raises(ScenarioError, match=problem) as error:
            Renewal(nodes=nodes, up=EXPONENTIAL, down=FIXED).open(star(3), STREAMS)
        assert [fault.key for fault in error.value.faults] == ["nodes"]

    def test_unknown_users_are_rejected(self):
        model = Renewal(nodes=[0, 3, 9], up=EXPONENTIAL, down=FIXED)
        assert [fault.value for fault in model.faults(ScenarioFacts(users=4, rounds=1))] == [[9]]
        assert list(model.faults(ScenarioFacts(users=10, rounds=1))) == []

    @pytest.mark.parametrize("nodes", ["user", [], [-1], [1.5], 3, None])
    def test_invalid_node_selection_is_rejected(self, nodes):
        with pytest.raises(ScenarioError):
            Renewal(nodes=nodes, up=EXPONENTIAL, down=FIXED)

    @pytest.mark.parametrize(
        ("law", "problem"),
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
    def test_distribution_accepts_its_own_keys(self, law, problem):
        with pytest.raises(ScenarioError, match=problem):
            Renewal(nodes="users", up=law, down=FIXED)


@pytest.mark.slow
def test_results_are_independent_of_query_order():
    law = {"distribution": "exponential", "mean": 1.0}
    users, times_s = np.arange(5), np.linspace(0.0, 2000.0, 100)
    forward = open_renewal(law, law, 5)
    expected = {float(t): forward.next_change(users, t).tolist() for t in times_s}
    shuffled = open_renewal(law, law, 5)
    for t in np.random.default_rng(3).permutation(times_s):
        assert shuffled.next_change(users, t).tolist() == expected[float(t)]


@pytest.mark.slow
def test_repeated_look_ahead_reuses_steps(monkeypatch):
    steps, step = [], AlternatingRenewal._advance
    monkeypatch.setattr(AlternatingRenewal, "_advance", lambda self, rows: (steps.append(rows), step(self, rows)))
    law = {"distribution": "exponential", "mean": 1.0}
    timeline = open_renewal(law, law, 1)
    for now_s in range(300):
        timeline.up(np.array([0]), float(now_s))
        timeline.up(np.array([0]), now_s + 10_000.0)
    assert len(steps) < 10_300 / 8 + 300 * 2 * (16 + 3)


@pytest.mark.parametrize(
    "down", [{"distribution": "exponential", "mean": 0.5}, {"distribution": "pareto", "mean": 0.5, "shape": 1.5}]
)
@pytest.mark.slow
def test_leap_equals_steps(down, monkeypatch):
    far_s = 5_000.0 + 1_000.0 * np.arange(4)
    query_times_s = [*np.linspace(0.0, 7_000.0, 57), 20.0, 300.0, 6_000.0]
    up = {"distribution": "exponential", "mean": 1.5}

    def query_all(timeline, first_s):
        users = np.arange(4)
        results = [timeline.next_change(users, first_s).tolist()]
        return results + [
            [timeline.up(users, t).tolist(), timeline.next_change(users, t).tolist()] for t in query_times_s
        ]

    leaping = open_renewal(up, down, 4)
    expected = query_all(leaping, far_s)
    monkeypatch.setattr(AlternatingRenewal, "_leap", None)
    monkeypatch.setattr("netfl.network.outage._alternating_renewal._LEAP", 0)
    assert query_all(open_renewal(up, down, 4), far_s) == expected


def test_leap_takes_few_steps(monkeypatch):
    steps, step = [], AlternatingRenewal._advance
    monkeypatch.setattr(AlternatingRenewal, "_advance", lambda self, rows: (steps.append(rows), step(self, rows)))
    law = {"distribution": "exponential", "mean": 1.0}
    timeline = open_renewal(law, law, 3)
    assert (timeline.next_change(np.arange(3), 3e5) > 3e5).all()
    assert len(steps) < 200


@pytest.mark.slow
def test_overshooting_leap_is_not_repeated(monkeypatch):
    """A leap of 128 sojourns towards a time of about 150 mean sojourns sometimes overshoots."""
    calls, approach = [], AlternatingRenewal._approach

    def count_call(self, rows, time_s):
        calls.append(rows)
        assert len(calls) < 100
        approach(self, rows, time_s)

    monkeypatch.setattr(AlternatingRenewal, "_approach", count_call)
    law = {"distribution": "exponential", "mean": 1.0}
    timeline = open_renewal(law, law, 500)
    for user in range(500):
        calls.clear()
        assert timeline.next_change(np.array([user]), 160.0) > 160.0
