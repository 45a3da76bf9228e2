"""MACs with a schedule of the tower: round robin, priorities, maximum SNR and proportional fairness."""

import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.network.mac.max_snr import MaxSnr
from netfl.network.mac.priority import Priority
from netfl.network.mac.proportional_fair import ProportionalFair
from netfl.network.mac.round_robin import RoundRobin
from netfl.network.radio.bench import BenchSetup, MacTestBench, poisson_cell, saturated_users, service_turns
from netfl.network.radio.medium import Medium
from netfl.streams import Streams
from netfl.types import ScenarioFacts


def run_updates(simulation, mac, versions, until_s):
    """Run *mac* with version i at versions[i], and return (user, sent_s) of the delivered updates."""
    simulation.env.process(mac.serve(simulation.cell))
    for version, at_s in enumerate(versions):
        simulation.tower.schedule_broadcast(version, at_s)
    simulation.env.run(until=until_s)
    return [(message.user, message.sent_s) for _, message in simulation.sent_on]


class ConstantMedium(Medium):
    """Medium with constant SNRs."""

    def __init__(self, gains):
        Medium.__init__(self, 1.0)
        self._snr_db = 10 * np.log10(gains)

    def snr_db(self, ids, tower, time_s):
        return self._snr_db[ids]


class RayleighMedium(Medium):
    """Rayleigh fading with one gain per airtime of 1 s and a mean for each user."""

    def __init__(self, means, seed):
        Medium.__init__(self, 1.0)
        self._means, self._field = np.array(means), Streams(seed).field("gain")

    def snr_db(self, ids, tower, time_s):
        return 10 * np.log10(self._means[ids] * self._field.exponential(ids, round(time_s)))


def winners(mac, medium, users, count):
    """Return the user served in each of *count* turns, and the bench."""
    bench = MacTestBench(BenchSetup(mac, users, 1.0, Streams(1)), saturated_users, medium)
    bench.env.run(until=count + 0.5)
    return np.array(bench.users), bench


def test_round_robin_skips_users_without_backlog(make_cell):
    """Users 0 and 2 are ready at 0, user 1 at 2.5 and user 3 at 8.2; polling takes 0.5 s."""
    simulation = make_cell(4, compute_s=[0.0, 2.5, 0.0, 8.2])
    assert run_updates(simulation, RoundRobin(poll=0.5), [0.0], 30.0) == [(0, 0.5), (2, 2.0), (1, 3.5), (3, 8.7)]


def test_round_robin_repeats_failed_user_after_others(make_cell):
    simulation = make_cell(3, snr_db=lambda users, time_s: [-9.0 if time_s < 1 else 0.0])
    assert run_updates(simulation, RoundRobin(), [0.0], 30.0) == [(1, 1.0), (2, 2.0), (0, 0.0)]
    assert simulation.recorder.events("sent")[-1] == (3.0, 0)


def test_round_robin_polls_down_user_once(make_cell):
    """User 0 does not answer for an airtime, and is polled again when it is up."""
    simulation = make_cell(2, plan={0: [(0.5, 9.0)]}, compute_s=1.0)
    assert run_updates(simulation, RoundRobin(), [0.0], 30.0) == [(1, 2.0), (0, 9.0)]


@pytest.mark.parametrize("load", [0.4, 0.8])
@pytest.mark.quick_first
def test_round_robin_is_work_conserving(load):
    """The mean wait equals that of M/D/1, ρ T / (2 (1 - ρ)), with 30 users."""
    cell, event_log = poisson_cell(BenchSetup(RoundRobin(), 30, 1.0, Streams(2)), load)
    cell.env.run(until=20_000)
    delays_s = np.array(event_log.packets.delays_s)
    batches = delays_s[: len(delays_s) // 40 * 40].reshape(40, -1).mean(axis=1)
    theory = 1.0 + load / (2 * (1 - load))
    assert abs(batches.mean() - theory) < 4.5 * batches.std() / np.sqrt(40)


def test_recorded_changes_do_not_accumulate():
    _, bench = winners(RoundRobin(), None, 3, 100)
    assert bench.cell.changes().size <= 3


def test_max_snr_serves_best_current_user(make_cell):
    """User 0 is best from 1.5 s on, user 2 before; user 1 comes last."""
    simulation = make_cell(
        3, snr_db=lambda users, time_s: 10.0 + np.array([0, 1, 2])[users] * (-1 if time_s > 1.5 else 1)
    )
    assert run_updates(simulation, MaxSnr(), [1.0], 30.0) == [(2, 1.0), (0, 2.0), (1, 3.0)]


@pytest.mark.parametrize("n", [1, 2, 10])
@pytest.mark.quick_first
def test_diversity_gain_is_harmonic_number(n):
    served_users, gain = service_turns(BenchSetup(MaxSnr(), n, 0.5, Streams(n)), 4000)
    assert abs(gain.mean() - np.sum(1 / np.arange(1, n + 1))) < 4.5 * gain.std() / np.sqrt(4000)
    assert np.abs(np.bincount(served_users, minlength=n) / 4000 - 1 / n).max() < 4.5 * np.sqrt(0.25 / 4000)


def test_proportional_fair_shares_turns_equally_on_constant_channels():
    """Σ log A is largest for equal shares of time, for any rates."""
    served_users, _ = winners(ProportionalFair(window=200.0), ConstantMedium([100.0, 1.0, 0.01]), 3, 3000)
    assert np.abs(np.bincount(served_users[600:]) / 2400 - 1 / 3).max() < 0.01


@pytest.mark.slow
def test_proportional_fair_gives_equal_diversity_gain():
    """At low SNRs with means 1:30, each user has half of the turns at H_2 = 1.5 times its mean."""
    means, count = np.array([1e-4, 3e-3]), 6000
    medium = RayleighMedium(means, 4)
    served_users, _ = winners(ProportionalFair(window=2000.0), medium, 2, count)
    gains = [
        10 ** (medium.snr_db(np.array([user]), "", turn)[0] / 10) for turn, user in enumerate(served_users)
    ] / means[served_users]
    settled = np.arange(count) > 1000
    for user in (0, 1):
        own_turns = settled & (served_users == user)
        assert abs(own_turns.sum() / settled.sum() - 0.5) < 0.03
        assert abs(gains[own_turns].mean() - 1.5) < 4.5 * gains[own_turns].std() / np.sqrt(own_turns.sum()) + 0.01


def test_proportional_fair_matches_definition():
    """The turns equal those of a loop over the definition."""
    gains, window = np.array([3.0, 2.0, 0.5]), 5.0
    served_users, _ = winners(ProportionalFair(window=window), ConstantMedium(gains), 3, 60)
    rates, average, expected = np.log2(1 + gains), [0.0, 0.0, 0.0], []
    for _ in range(60):
        merit = [rate / throughput if throughput else np.inf for rate, throughput in zip(rates, average, strict=True)]
        turn = merit.index(max(merit))
        expected.append(turn)
        average = [
            throughput * np.exp(-1 / window) + (1 - np.exp(-1 / window)) * rates[user] * (user == turn)
            for user, throughput in enumerate(average)
        ]
    assert served_users.tolist() == expected


def proportional_fair_turns(users, window, rates_at, turns):
    """Return the turns (user, start_s) by the definition; *rates_at* gives the rates and turn lengths of all users."""
    average, now_s, turns_ = [0.0] * users, 0.0, []
    for _ in range(turns):
        rates, lengths_s = rates_at(now_s)
        merit = [rate / throughput if throughput else np.inf for rate, throughput in zip(rates, average, strict=True)]
        turn = merit.index(max(merit))
        turns_.append((turn, now_s))
        decay = np.exp(-lengths_s[turn] / window)
        average = [
            throughput * decay + (1 - decay) * rates[user] * (user == turn) for user, throughput in enumerate(average)
        ]
        now_s += lengths_s[turn]
    return turns_


@pytest.mark.slow
def test_proportional_fair_matches_definition_with_fading():
    medium, users = RayleighMedium([3.0, 2.0, 0.5, 1.0], 7), np.arange(4)
    served_users, _ = winners(ProportionalFair(window=5.0), medium, 4, 300)
    expected = proportional_fair_turns(
        4, 5.0, lambda at_s: (np.log2(1 + 10 ** (medium.snr_db(users, "", at_s) / 10)), [1.0] * 4), 300
    )
    assert served_users.tolist() == [user for user, _ in expected]
    assert (np.bincount(served_users) > 40).all()


class ModeMedium(Medium):
    """Medium with three modes, which users use in turn."""

    modes, LENGTHS_S = 3, (1.0, 1.7, 3.1)

    def airtime_s(self, bits, mode=0):
        return self.LENGTHS_S[mode]

    def choose(self, ids, tower, time_s, boost_db=0.0):
        return (ids + int(time_s / 2.3)) % 3


def test_proportional_fair_by_airtime_matches_definition():
    """R is one over the airtime in the current mode, which is also the length of the turn."""
    medium = ModeMedium(1.0)

    def rates_at(at_s):
        lengths_s = [medium.LENGTHS_S[(user + int(at_s / 2.3)) % 3] for user in range(4)]
        return [1 / length_s for length_s in lengths_s], lengths_s

    expected = proportional_fair_turns(4, 20.0, rates_at, 100)
    served_users, bench = winners(ProportionalFair(window=20.0, rate="airtime"), medium, 4, expected[-1][1])
    assert served_users.tolist()[:99] == [user for user, _ in expected][:99]
    assert [sent_s for _, sent_s, _ in bench.deliveries][:99] == pytest.approx([at_s for _, at_s in expected][:99])


@pytest.mark.parametrize("users", [1, 3])
def test_proportional_fair_starts_with_each_user_once(make_cell, users):
    """This also holds after a pause so long that the averages have decayed."""
    simulation = make_cell(users)
    delivered = run_updates(simulation, ProportionalFair(window=0.1), [2.5, 77.0, 900.0], 1000.0)
    assert delivered == [(user, at_s + user) for at_s in (2.5, 77.0, 900.0) for user in range(users)]


def test_proportional_fair_shares_equally_at_extreme_snr():
    """log(1 + x) is x for small x, and log x for large ones: turns have the same merit for all users."""
    medium = ConstantMedium(np.ones(4))
    medium._snr_db = np.array([-3000.0, -180.0, 10.0, 5000.0])
    served_users, _ = winners(ProportionalFair(window=200.0), medium, 4, 400)
    assert np.bincount(served_users) == pytest.approx([100] * 4, abs=2)


def test_proportional_fair_skips_user_with_rate_zero():
    with np.errstate(divide="ignore"):
        medium = ConstantMedium(np.array([1.0, 0.0, 2.0]))
    served_users, _ = winners(ProportionalFair(window=200.0), medium, 3, 40)
    assert np.bincount(served_users).tolist() == [20, 0, 20]
    assert set(winners(ProportionalFair(window=200.0), ConstantMedium(np.array([1e-320])), 1, 4)[0]) == {0}


def test_proportional_fair_by_airtime_is_round_robin_for_equal_users():
    served_users, _ = winners(ProportionalFair(window=50.0, rate="airtime"), None, 4, 40)
    assert np.bincount(served_users).tolist() == [10, 10, 10, 10]


def test_strict_priority_serves_largest_weights_first(make_cell):
    """Weights 1, 5, 5, 1: users 1 and 2 in turn while they have updates, then 0 and 3."""
    simulation = make_cell(4)
    mac = Priority(weights=[1, 5, 5, 1], by="strict")
    delivered = run_updates(simulation, mac, [0.0, 2.5], 30.0)
    assert [user for user, _ in delivered] == [1, 2, 0, 1, 2, 3, 0]


def test_stride_scheduling_is_within_one_turn_of_shares():
    weights = np.array([7.0, 3.0, 2.0, 0.5])
    served_users, _ = winners(Priority(weights=list(weights), by="stride"), None, 4, 500)
    turns = np.cumsum(served_users[:, None] == np.arange(4), axis=0)
    for first in range(4):
        for second in range(first):
            both = turns[:, first] + turns[:, second]
            expected = both * weights[first] / (weights[first] + weights[second])
            assert np.abs(turns[:, first] - expected).max() <= 1.0 + 1e-9


def test_late_user_gets_no_credit(make_cell):
    """User 1 is ready at 6; then users 0 and 1 of equal weight alternate."""
    simulation = make_cell(2, compute_s=[0.0, 6.0], snr_db=lambda users, time_s: [-9.0] * len(users))
    run_updates(simulation, Priority(weights={}, by="stride"), [0.0], 14.0)
    assert [user for _, user in simulation.recorder.events("sent")][:12] == [0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1]


def test_lottery_is_among_users_with_backlog(make_cell):
    """With weights 9 and 1 of users 0 and 2, the first turn is user 0's with probability 0.9."""
    first = []
    for seed in range(300):
        simulation = make_cell(3, compute_s=[0.0, 99.0, 0.0], seed=seed)
        first.append(run_updates(simulation, Priority(weights=[9, 50, 1], by="lottery"), [0.0], 5.0)[0][0])
    assert set(first) == {0, 2}
    assert abs(np.mean(np.array(first) == 0) - 0.9) < 4.5 * np.sqrt(0.09 / 300)


def test_default_weight_is_1():
    served_users, _ = winners(Priority(weights={1: 3.0}, by="stride"), None, 3, 50)
    assert np.bincount(served_users).tolist() == [10, 30, 10]


def test_weights_of_unknown_users_are_rejected():
    for duration_s in (None, 10.0):
        [fault] = Priority(weights={7: 2.0, 4: 1.0}).faults(ScenarioFacts(users=5, rounds=1, duration_s=duration_s))
        assert (fault.key, fault.value) == ("weights", [7])
    with pytest.raises(ScenarioError):
        Priority(weights=[1, 0])
