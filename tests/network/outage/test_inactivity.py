"""Sojourns on a clock that varies over the day, compared with integrated hazards and solved equations."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from netfl.errors import ScenarioError
from netfl.network.outage._daily import DiurnalClock, mean_share_up
from netfl.network.outage.diurnal_rate import DiurnalRate
from netfl.network.outage.inactivity import Inactivity
from netfl.network.topology.star import Star
from netfl.streams import Streams
from netfl.types import ScenarioFacts

STREAMS = Streams(59)
HOUR, DAY = 3600.0, 86400.0
WEIGHTS = (1.0, 0.0, 4.0, 6.0, 3.0)
Z = 4.9


def star(users):
    return Star(radius=1000).open(users, STREAMS)


def speed(time_s):
    """Return r(t), the weights over their mean."""
    return WEIGHTS[int(time_s % DAY / (DAY / 5))] / (sum(WEIGHTS) / 5)


def integrate_speed(a, b):
    """Return ∫ r(t) dt as a sum over seconds."""
    return sum(speed(t + 0.5) for t in np.arange(a, b, 1.0))


class TestClock:
    CLOCK = DiurnalClock(WEIGHTS, DAY, np.array([0.0, 2 * HOUR]), np.array([1.0, 2.5]))

    def test_clock_reads_integral_of_speed(self):
        for start, end in ((0, 30_000), (20_000, 40_000), (80_000, 200_000)):
            readings = [self.CLOCK.read_s(np.array([0]), np.array([float(t)]))[0] for t in (start, end)]
            assert readings[1] - readings[0] == pytest.approx(integrate_speed(start, end), abs=5)
        shifted = self.CLOCK.read_s(np.array([1, 1]), np.array([2 * HOUR, 12 * HOUR]))
        assert np.diff(shifted) == pytest.approx(2.5 * integrate_speed(0, 10 * HOUR), abs=10)

    def test_after_is_inverse_and_skips_pauses(self):
        rng = np.random.default_rng(1)
        rows, start, amount = (
            rng.integers(0, 2, 5000),
            rng.uniform(-5 * DAY, 50 * DAY, 5000),
            rng.exponential(DAY, 5000),
        )
        end = self.CLOCK.after_s(rows, start, amount)
        assert (end > start).all()
        elapsed = self.CLOCK.read_s(rows, end) - self.CLOCK.read_s(rows, start)
        assert elapsed == pytest.approx(amount, abs=1e-4)
        is_paused = ((end - np.array([0.0, 2 * HOUR])[rows]) % DAY * 5 // DAY) == 1
        assert not is_paused.any()


@pytest.mark.slow
def test_share_up_solves_kolmogorov_equation():
    up_s, down_s = 2 * HOUR, 1.5 * HOUR
    derivative = lambda t, p: (1 - p) / down_s - speed(t) / up_s * p  # noqa: E731
    solution = integrate.solve_ivp(
        derivative, (0, 6 * DAY), [1.0], max_step=60.0, rtol=1e-9, atol=1e-11, dense_output=True
    ).sol
    for part, share_up in enumerate(mean_share_up(WEIGHTS, DAY, up_s, down_s)):
        instants = 5 * DAY + (part + (np.arange(2000) + 0.5) / 2000) * DAY / 5
        assert share_up == pytest.approx(solution(instants)[0].mean(), abs=1e-5)


class TestDiurnalRate:
    def rate(self, users, **overrides):
        repair = {"distribution": "exponential", "mean": "90 min"}
        overrides = {"nodes": "users", "mean_time_to_failure": "2 h", "weights": WEIGHTS, "repair": repair} | overrides
        return DiurnalRate(**overrides).open(star(users), STREAMS)

    @pytest.mark.parametrize("start_s", [0.0, 3 * DAY])
    @pytest.mark.slow
    def test_share_up_is_periodic_solution(self, start_s):
        timeline, users = self.rate(20_000), np.arange(20_000)
        derivative = lambda t, p: (1 - p) / 5400 - speed(t) / 7200 * p  # noqa: E731
        solution = integrate.solve_ivp(derivative, (0, 6 * DAY), [1.0], max_step=60.0, dense_output=True).sol
        for hour in (0, 4, 9, 12, 16, 20, 23):
            p = float(solution(5 * DAY + hour * HOUR)[0])
            share_up = timeline.up(users, start_s + hour * HOUR).mean()
            assert share_up == pytest.approx(p, abs=Z * math.sqrt(p * (1 - p) / 20_000))

    def test_share_up_obeys_renewal_equation(self):
        """p(t) + ∫ λ(s) p(s) ds over the last repair time = 1: users that are down failed within it."""
        timeline, users = self.rate(20_000, repair={"distribution": "fixed", "mean": "3 h"}), np.arange(20_000)
        for hour in (10.0, 17.5):
            instants = (hour + 24) * HOUR - 3 * HOUR * (np.arange(60) + 0.5) / 60
            failing = np.mean([speed(t) / 7200 * timeline.up(users, t).mean() for t in instants]) * 3 * HOUR
            up = timeline.up(users, (hour + 24) * HOUR).mean()
            assert up + failing == pytest.approx(1.0, abs=0.02)

    @pytest.mark.slow
    def test_failures_and_repairs_follow_distributions(self):
        timeline = self.rate(2000, start="up", repair={"distribution": "gamma", "mean": 1800, "shape": 2})
        users, at_s = np.arange(2000), np.zeros(2000)
        assert timeline.up(users, 0.0).all()
        hazards, repairs = [], []
        for _ in range(3):
            fails_s = timeline.next_change(users, at_s)
            hazards += [integrate_speed(a, b) / 7200 for a, b in zip(at_s[:60], fails_s[:60], strict=True)]
            at_s = timeline.next_change(users, fails_s)
            repairs.append(at_s - fails_s)
        assert stats.kstest(hazards, stats.expon.cdf).pvalue > 1e-6
        assert stats.kstest(np.concatenate(repairs), stats.gamma(2, scale=900).cdf).pvalue > 1e-6

    def test_no_failures_at_intensity_0(self):
        timeline, users = self.rate(3000), np.arange(3000)
        for day in range(3):
            up = timeline.up(users, day * DAY + DAY / 5)
            ends_s = timeline.next_change(users, day * DAY + DAY / 5)
            assert (ends_s[up] >= day * DAY + 2 * DAY / 5).all()

    @pytest.mark.slow
    def test_results_are_independent_of_earlier_queries(self):
        rng = np.random.default_rng(1)
        nodes, times = rng.integers(0, 20, 300), rng.uniform(0, 90 * DAY, 300)
        at_once, singly = self.rate(20, spread="6 h"), self.rate(20, spread="6 h")
        states, ends = at_once.up(nodes, times), at_once.next_change(nodes, times)
        for i in rng.permutation(300):
            assert singly.up(nodes[[i]], times[i])[0] == states[i]
            assert singly.next_change(nodes[[i]], times[i])[0] == ends[i]
        assert (at_once.up(nodes, ends) != states).all()
        assert self.rate(50, spread="6 h").next_change(np.arange(20), 3e6).tolist() == (
            at_once.next_change(np.arange(20), 3e6).tolist()
        )

    @pytest.mark.parametrize("weights", [[], [1, -1]])
    def test_invalid_weights_are_rejected(self, weights):
        with pytest.raises(ScenarioError):
            self.rate(1, weights=weights)


class TestInactivity:
    IDLE, USE = (
        {"distribution": "weibull", "mean": "1 h", "shape": 0.6},
        {"distribution": "lognormal", "mean": "6 min", "sigma": 1.2},
    )

    def test_default_is_alternating_renewal_process(self):
        timeline = Inactivity(gap=self.IDLE, session=self.USE).open(star(20_000), STREAMS)
        share = 60 / 66
        for time_s in (0.0, 5 * HOUR):
            share_up = timeline.up(np.arange(20_000), time_s).mean()
            assert share_up == pytest.approx(share, abs=Z * math.sqrt(share * (1 - share) / 20_000))

    @pytest.mark.slow
    def test_diversity_of_users(self):
        """The log of the sessions per day of each user has the spread σ plus that of counting."""
        gaps = {"distribution": "exponential", "mean": "30 min"}
        model = Inactivity(gap=gaps, session={"distribution": "fixed", "mean": 1}, diversity=0.7)
        timeline, users = model.open(star(400), STREAMS), np.arange(400)
        counts, at_s = np.zeros(400), np.zeros(400)
        while (at_s < 20 * DAY).any():
            at_s = timeline.next_change(users, at_s)
            counts += (at_s < 20 * DAY) & ~timeline.up(users, at_s)
        rates = np.log(counts / (20 * 48))
        assert rates.mean() == pytest.approx(0.0, abs=Z * 0.7 / 20)
        assert rates.std() == pytest.approx(0.7, abs=Z * 0.7 / math.sqrt(800))

    def test_availability_varies_over_day(self):
        weights = [1.0] * 8 + [12.0] * 12 + [1.0] * 4
        model = Inactivity(gap=self.IDLE, session={"distribution": "exponential", "mean": "2 h"}, weights=weights)
        timeline, users = model.open(star(4000), STREAMS), np.arange(4000)
        night, day = (timeline.up(users, DAY + hour * HOUR).mean() for hour in (7, 19))
        assert night > 2 * day

    def test_other_nodes_are_rejected(self):
        model = Inactivity(nodes="towers", gap=self.IDLE, session=self.USE)
        assert [fault.problem for fault in model.faults(ScenarioFacts(users=3, rounds=1))] == ["only users have owners"]
        assert (
            list(Inactivity(nodes=[0, 2], gap=self.IDLE, session=self.USE).faults(ScenarioFacts(users=3, rounds=1)))
            == []
        )
