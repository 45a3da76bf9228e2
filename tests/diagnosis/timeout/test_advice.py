"""Deadlines and quorums that minimise the time to a target, against closed forms."""

import math

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from netfl.diagnosis.timeout import Arrivals, TimeoutOptions, TimeoutRule, advise, progress
from netfl.diagnosis.timeout.advice import RuleSearch
from netfl.errors import ScenarioError

MEAN_S = 10.0
OFFSET_S = 5.0
"""Times are exponential with this mean, after a constant download and training."""


def drawn(rounds, users, seed=1):
    times_s = OFFSET_S + np.random.default_rng(seed).exponential(MEAN_S, (rounds, users))
    return Arrivals.of_table(times_s)


def exact_s(deadline_s, users, critical, full_rounds=100.0):
    """Time to the target by numerical integration and the binomial distribution, with a quorum of 1."""

    def arrived(time_s):
        return 1.0 - math.exp(-max(time_s - OFFSET_S, 0.0) / MEAN_S)

    round_s = integrate.quad(lambda time_s: 1.0 - arrived(time_s) ** users, 0.0, deadline_s, points=[OFFSET_S])[0]
    mean_progress = 0.0
    for updates in range(1, users + 1):
        made = (updates / (updates + critical)) * ((users + critical) / users)
        mean_progress += made * stats.binom.pmf(updates, users, arrived(deadline_s))
    return full_rounds * round_s / mean_progress


def test_progress_of_two_rounds_by_hand():
    """Three users; the deadline of 4 s gets one of round 1 and all of round 2, which closes before."""
    arrivals = Arrivals.of_table(np.array([[2.0, 5.0, 9.0], [1.0, 2.0, 3.0]]))
    found = RuleSearch(arrivals, TimeoutOptions(critical=2.0, full_rounds=10.0)).expect(TimeoutRule(4.0))
    assert found.round_s == (4.0 + 3.0) / 2
    assert found.updates == (1 + 3) / 2
    first = (1 / 3) / (3 / 5)
    assert found.time_s == pytest.approx(10.0 * 7.0 / (first + 1.0))
    assert found.rounds == pytest.approx(found.time_s / found.round_s)


@pytest.mark.slow
@pytest.mark.parametrize(("users", "critical"), [(20, 10.0), (20, 2.0), (50, 30.0), (5, 0.5)])
def test_deadline_of_exponential_times_is_that_of_the_closed_form(users, critical):
    options = TimeoutOptions(critical=critical, quorum=1.0, include=0.0)
    advice = advise(drawn(400, users), options)
    best = optimize.minimize_scalar(exact_s, bounds=(OFFSET_S + 0.1, 100.0), args=(users, critical), method="bounded")
    advised_s = exact_s(advice.best.rule.deadline_s, users, critical)
    assert best.fun * (1.0 - 1e-6) <= advised_s < 1.01 * best.fun
    assert advice.best.time_s == pytest.approx(advised_s, rel=0.03)


@pytest.mark.slow
def test_quorum_without_a_deadline_lasts_as_long_as_its_order_statistic():
    """The k-th of n exponential times has the mean of the sum of 1 / (n - i), i < k, in means."""
    users = 10
    for wanted in (3, 8, 10):
        found = RuleSearch(drawn(4000, users), TimeoutOptions()).expect(TimeoutRule(1e6, wanted / users))
        exact = OFFSET_S + MEAN_S * sum(1.0 / (users - place) for place in range(wanted))
        assert found.round_s == pytest.approx(exact, rel=0.02)
        assert found.updates == wanted


@pytest.mark.slow
def test_interval_contains_the_exact_time_as_often_as_it_states():
    rule = TimeoutRule(12.0)
    exact = exact_s(12.0, 20, 10.0)
    hits = 0
    for seed in range(200):
        found = RuleSearch(drawn(100, 20, seed), TimeoutOptions(seed=seed)).expect(rule)
        hits += found.low_s <= exact <= found.high_s
    assert stats.binomtest(hits, 200, 0.95).pvalue > 1e-3, hits


def test_times_in_another_unit_give_the_same_rule():
    times_s = np.random.default_rng(1).gamma(2.0, 1.0, (50, 6))
    first = advise(Arrivals.of_table(times_s)).best
    second = advise(Arrivals.of_table(64.0 * times_s)).best
    assert second.rule.quorum == first.rule.quorum
    assert second.rule.deadline_s == pytest.approx(64.0 * first.rule.deadline_s, rel=0.01)


def test_time_between_rounds_makes_longer_rounds_worthwhile():
    arrivals = drawn(100, 10)
    options = TimeoutOptions(critical=2.0, quorum=1.0)
    without = advise(arrivals, options).best
    with_overhead = advise(arrivals, TimeoutOptions(critical=2.0, quorum=1.0, overhead_s=20.0)).best
    assert with_overhead.rule.deadline_s > without.rule.deadline_s
    assert with_overhead.round_s > 20.0 + without.round_s


def test_losses_that_the_server_knows_end_a_round():
    """One of three updates is lost after 2 s: the server that knows waits until 3 s, the other until its deadline."""
    table = np.array([[1.0, 3.0, np.inf]] * 2)
    unknown = Arrivals.of_table(table)
    known = Arrivals(unknown.round, unknown.user, unknown.arrived_s, unknown.sizes, np.array([3.0, 3.0]), unknown.names)
    rule = TimeoutRule(10.0)
    assert RuleSearch(unknown, TimeoutOptions()).expect(rule).round_s == 10.0
    assert RuleSearch(known, TimeoutOptions()).expect(rule).round_s == 3.0


def slow_user_arrivals():
    """Nine users that take 1 to 2 s, and one that takes 20 s."""
    times_s = np.random.default_rng(1).uniform(1.0, 2.0, (50, 10))
    times_s[:, 9] = 20.0
    return Arrivals.of_table(times_s)


def test_slow_user_is_left_out_only_if_it_may_be():
    arrivals = slow_user_arrivals()
    advice = advise(arrivals)
    assert advice.best.rule.deadline_s < 2.5
    assert list(advice.best.never) == ["9"]
    assert advice.everyone.rule.deadline_s == 20.0
    assert advice.everyone.never == []
    assert advice.everyone.time_s > advice.best.time_s
    everyone = advise(arrivals, TimeoutOptions(include=1.0))
    assert everyone.best.rule == advice.everyone.rule
    assert everyone.everyone is None
    with pytest.raises(ScenarioError, match=r"include.*so many users are in time at no deadline.*raise quorum"):
        advise(arrivals, TimeoutOptions(include=1.0, quorum=0.5))


def test_update_at_the_instant_of_the_deadline_is_in_time():
    arrivals = Arrivals.of_table(np.array([[1.0, 6.24 * (1.0 + 1e-14)]] * 3))
    assert RuleSearch(arrivals, TimeoutOptions()).expect(TimeoutRule(6.24)).updates == 2


def test_attempts_that_late_updates_took_do_not_count():
    arrivals = slow_user_arrivals()
    attempts = np.where(arrivals.user == 9, 12, 1 + arrivals.user % 3)
    counted = Arrivals(
        arrivals.round, arrivals.user, arrivals.arrived_s, arrivals.sizes, arrivals.over_s, arrivals.names, attempts
    )
    assert advise(counted).max_attempts == 3
    assert advise(arrivals).max_attempts is None


@pytest.mark.slow
def test_curve_has_the_recommended_deadline_and_rises_on_both_sides():
    advice = advise(drawn(200, 20), TimeoutOptions(quorum=1.0))
    curve = advice.curve
    best = curve[np.isclose(curve["deadline_s"], advice.best.rule.deadline_s)].iloc[0]
    assert best["time_s"] == pytest.approx(advice.best.time_s)
    assert curve["time_s"].iloc[0] > 2.0 * best["time_s"]
    assert curve["time_s"].iloc[-1] > 1.2 * best["time_s"]
    assert (curve["low_s"] <= curve["time_s"]).all()
    assert (curve["never"].diff().dropna() <= 0).all()
    low_s, high_s = advice.deadlines_s
    assert low_s <= 1.01 * best["deadline_s"]
    assert best["deadline_s"] <= 1.01 * high_s


def test_progress_has_its_limits():
    updates = np.arange(11)
    sizes = np.full(11, 10)
    assert progress(updates, sizes, 0.0).tolist() == [0.0, *[1.0] * 10]
    assert progress(updates, sizes, 1e9) == pytest.approx(updates / 10)


def test_what_cannot_be_advised_on_is_an_error():
    one_user = Arrivals.of_table(np.array([[1.0], [2.0]]))
    with pytest.raises(ScenarioError, match=r"no round has two users.*give a row"):
        advise(one_user)
    with pytest.raises(ScenarioError, match="no update arrives"):
        advise(Arrivals.of_table(np.full((3, 3), np.inf)))
    options = TimeoutOptions(critical=-1, exponent=0, full_rounds=0, quorum=2, include=-0.1, overhead_s=math.nan)
    with pytest.raises(ScenarioError) as raised:
        advise(one_user, options)
    assert [fault.key for fault in raised.value.faults] == [
        "critical", "exponent", "full_rounds", "quorum", "include", "overhead_s"
    ]  # fmt: skip


def test_doubtful_advice_has_notes():
    assert advise(drawn(10, 5)).notes == ["10 rounds are few: the interval may be too narrow."]
    table = np.full((40, 4), 3.0)
    table[:, 3] = np.inf
    (note,) = advise(Arrivals.of_table(table)).notes
    assert "latest arrival" in note
