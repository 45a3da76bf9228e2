"""MACs of which the tower says who sends: round robin, priorities, opportunistic and proportionally fair."""

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


def play(world, mac, versions, until_s):
    """(user, sent_s) of what got through; version i comes at versions[i]."""
    world.env.process(mac.serve(world.cell))
    for version, at_s in enumerate(versions):
        world.tower.schedule_broadcast(version, at_s)
    world.env.run(until=until_s)
    return [(message.user, message.sent_s) for _, message in world.sent_on]


class Still(Medium):
    """Constant SNRs."""

    def __init__(self, gains):
        Medium.__init__(self, 1.0)
        self._snr_db = 10 * np.log10(gains)

    def snr_db(self, ids, tower, time_s):
        return self._snr_db[ids]


class Faded(Medium):
    """Rayleigh fading, anew in each airtime of 1 s, with means of their own."""

    def __init__(self, means, seed):
        Medium.__init__(self, 1.0)
        self._means, self._field = np.array(means), Streams(seed).field("gain")

    def snr_db(self, ids, tower, time_s):
        return 10 * np.log10(self._means[ids] * self._field.exponential(ids, round(time_s)))


def winners(mac, medium, users, count):
    """Who is served in each of *count* turns."""
    bench = MacTestBench(BenchSetup(mac, users, 1.0, Streams(1)), saturated_users, medium)
    bench.env.run(until=count + 0.5)
    return np.array(bench.users), bench


def test_round_robin_skips_those_who_have_nothing(make_cell):
    """Users 0 and 2 are ready at 0, user 1 at 2.5 and user 3 at 8.2; asking takes 0.5 s."""
    world = make_cell(4, compute_s=[0.0, 2.5, 0.0, 8.2])
    assert play(world, RoundRobin(poll=0.5), [0.0], 30.0) == [(0, 0.5), (2, 2.0), (1, 3.5), (3, 8.7)]


def test_round_robin_comes_back_to_who_failed_after_the_others(make_cell):
    world = make_cell(3, snr_db=lambda users, time_s: [-9.0 if time_s < 1 else 0.0])
    assert play(world, RoundRobin(), [0.0], 30.0) == [(1, 1.0), (2, 2.0), (0, 0.0)]
    assert world.memory.of("sent")[-1] == (3.0, 0)


def test_round_robin_asks_nobody_who_is_cut_off_twice(make_cell):
    """User 0 does not answer for an airtime, and is asked again when it is back."""
    world = make_cell(2, plan={0: [(0.5, 9.0)]}, compute_s=1.0)
    assert play(world, RoundRobin(), [0.0], 30.0) == [(1, 2.0), (0, 9.0)]


@pytest.mark.parametrize("load", [0.4, 0.8])
@pytest.mark.quick_first
def test_round_robin_works_whenever_there_is_work(load):
    """The mean wait of M/D/1, ρ T / (2 (1 - ρ)), by conservation, with 30 users in turn."""
    cell, ledger = poisson_cell(BenchSetup(RoundRobin(), 30, 1.0, Streams(2)), load)
    cell.env.run(until=20_000)
    told = np.array(ledger.packets.delays_s)
    batches = told[: len(told) // 40 * 40].reshape(40, -1).mean(axis=1)
    theory = 1.0 + load / (2 * (1 - load))
    assert abs(batches.mean() - theory) < 4.5 * batches.std() / np.sqrt(40)


def test_a_schedule_that_has_no_memory_of_all_that_has_changed():
    """What the cell tells of changes is taken note of, so that it does not pile up."""
    _, bench = winners(RoundRobin(), None, 3, 100)
    assert bench.cell.changes().size <= 3


def test_max_snr_takes_the_best_of_the_moment(make_cell):
    """User 0 is best from 1.5 s on, user 2 before; user 1 comes last."""
    world = make_cell(3, snr_db=lambda users, time_s: 10.0 + np.array([0, 1, 2])[users] * (-1 if time_s > 1.5 else 1))
    assert play(world, MaxSnr(), [1.0], 30.0) == [(2, 1.0), (0, 2.0), (1, 3.0)]


@pytest.mark.parametrize("n", [1, 2, 10])
@pytest.mark.quick_first
def test_the_diversity_gain_is_the_harmonic_number(n):
    who, gain = service_turns(BenchSetup(MaxSnr(), n, 0.5, Streams(n)), 4000)
    assert abs(gain.mean() - np.sum(1 / np.arange(1, n + 1))) < 4.5 * gain.std() / np.sqrt(4000)
    assert np.abs(np.bincount(who, minlength=n) / 4000 - 1 / n).max() < 4.5 * np.sqrt(0.25 / 4000)


def test_proportional_fair_shares_the_turns_of_constant_channels_evenly():
    """However unequal the rates: Σ log A is largest for equal shares of time."""
    who, _ = winners(ProportionalFair(window=200.0), Still([100.0, 1.0, 0.01]), 3, 3000)
    assert np.abs(np.bincount(who[600:]) / 2400 - 1 / 3).max() < 0.01


@pytest.mark.slow
def test_proportional_fair_gives_everybody_the_same_gain_over_its_own_mean():
    """Low SNRs of means 1:30: half of the turns each, at H_2 = 1.5 times one's own mean."""
    means, count = np.array([1e-4, 3e-3]), 6000
    medium = Faded(means, 4)
    who, _ = winners(ProportionalFair(window=2000.0), medium, 2, count)
    gains = [10 ** (medium.snr_db(np.array([user]), "", at)[0] / 10) for at, user in enumerate(who)] / means[who]
    late = np.arange(count) > 1000
    for user in (0, 1):
        mine = late & (who == user)
        assert abs(mine.sum() / late.sum() - 0.5) < 0.03
        assert abs(gains[mine].mean() - 1.5) < 4.5 * gains[mine].std() / np.sqrt(mine.sum()) + 0.01


def test_proportional_fair_step_by_step():
    """The averages as the definition has them, in a loop of its own: same turns."""
    gains, window = np.array([3.0, 2.0, 0.5]), 5.0
    who, _ = winners(ProportionalFair(window=window), Still(gains), 3, 60)
    rates, average, expected = np.log2(1 + gains), [0.0, 0.0, 0.0], []
    for _ in range(60):
        merit = [rate / had if had else np.inf for rate, had in zip(rates, average, strict=True)]
        turn = merit.index(max(merit))
        expected.append(turn)
        average = [
            had * np.exp(-1 / window) + (1 - np.exp(-1 / window)) * rates[user] * (user == turn)
            for user, had in enumerate(average)
        ]
    assert who.tolist() == expected


def fairly(users, window, rates_at, turns):
    """Whose turn it is by the definition, each ``(user, begins_s)``: *rates_at* gives (R, length of a turn) of all."""
    average, now_s, told = [0.0] * users, 0.0, []
    for _ in range(turns):
        rates, lengths_s = rates_at(now_s)
        merit = [rate / had if had else np.inf for rate, had in zip(rates, average, strict=True)]
        turn = merit.index(max(merit))
        told.append((turn, now_s))
        fade = np.exp(-lengths_s[turn] / window)
        average = [had * fade + (1 - fade) * rates[user] * (user == turn) for user, had in enumerate(average)]
        now_s += lengths_s[turn]
    return told


@pytest.mark.slow
def test_proportional_fair_step_by_step_as_channels_fade():
    medium, users = Faded([3.0, 2.0, 0.5, 1.0], 7), np.arange(4)
    who, _ = winners(ProportionalFair(window=5.0), medium, 4, 300)
    expected = fairly(4, 5.0, lambda at_s: (np.log2(1 + 10 ** (medium.snr_db(users, "", at_s) / 10)), [1.0] * 4), 300)
    assert who.tolist() == [user for user, _ in expected]
    assert (np.bincount(who) > 40).all()


class Modes(Medium):
    """Three modes, which users take in turn as time goes by."""

    modes, LENGTHS_S = 3, (1.0, 1.7, 3.1)

    def airtime_s(self, bits, mode=0):
        return self.LENGTHS_S[mode]

    def choose(self, ids, tower, time_s, boost_db=0.0):
        return (ids + int(time_s / 2.3)) % 3


def test_proportional_fair_by_airtimes_step_by_step():
    """R is one over the airtime in the mode of the moment, and turns are as long as that."""
    medium = Modes(1.0)

    def rates_at(at_s):
        lengths_s = [medium.LENGTHS_S[(user + int(at_s / 2.3)) % 3] for user in range(4)]
        return [1 / length_s for length_s in lengths_s], lengths_s

    expected = fairly(4, 20.0, rates_at, 100)
    who, bench = winners(ProportionalFair(window=20.0, rate="airtime"), medium, 4, expected[-1][1])
    assert who.tolist()[:99] == [user for user, _ in expected][:99]
    assert [sent_s for _, sent_s, _ in bench.deliveries][:99] == pytest.approx([at_s for _, at_s in expected][:99])


@pytest.mark.parametrize("users", [1, 3])
def test_proportional_fair_begins_with_each_user_once(make_cell, users):
    """Whenever that is, and again after so long a time that all that was had is as good as forgotten."""
    world = make_cell(users)
    heard = play(world, ProportionalFair(window=0.1), [2.5, 77.0, 900.0], 1000.0)
    assert heard == [(user, at_s + user) for at_s in (2.5, 77.0, 900.0) for user in range(users)]


def test_proportional_fair_shares_evenly_however_weak_or_strong_users_are():
    """log(1 + x) is x for small x, and log x for large ones: a turn is as much for each of them."""
    medium = Still(np.ones(4))
    medium._snr_db = np.array([-3000.0, -180.0, 10.0, 5000.0])
    who, _ = winners(ProportionalFair(window=200.0), medium, 4, 400)
    assert np.bincount(who) == pytest.approx([100] * 4, abs=2)


def test_proportional_fair_by_no_rate_at_all_waits_for_the_others():
    with np.errstate(divide="ignore"):
        medium = Still(np.array([1.0, 0.0, 2.0]))
    who, _ = winners(ProportionalFair(window=200.0), medium, 3, 40)
    assert np.bincount(who).tolist() == [20, 0, 20]
    assert set(winners(ProportionalFair(window=200.0), Still(np.array([1e-320])), 1, 4)[0]) == {0}


def test_proportional_fair_by_airtimes_is_round_robin_where_all_are_alike():
    who, _ = winners(ProportionalFair(window=50.0, rate="airtime"), None, 4, 40)
    assert np.bincount(who).tolist() == [10, 10, 10, 10]


def test_strict_priority_lets_the_others_wait(make_cell):
    """Weights 1, 5, 5, 1: users 1 and 2 in turn, while they have anything; then 0 and 3."""
    world = make_cell(4)
    mac = Priority(weights=[1, 5, 5, 1], by="strict")
    heard = play(world, mac, [0.0, 2.5], 30.0)
    assert [user for user, _ in heard] == [1, 2, 0, 1, 2, 3, 0]


def test_strides_are_never_more_than_one_turn_from_any_share():
    weights = np.array([7.0, 3.0, 2.0, 0.5])
    who, _ = winners(Priority(weights=list(weights), by="stride"), None, 4, 500)
    had = np.cumsum(who[:, None] == np.arange(4), axis=0)
    for one in range(4):
        for other in range(one):
            both = had[:, one] + had[:, other]
            due = both * weights[one] / (weights[one] + weights[other])
            assert np.abs(had[:, one] - due).max() <= 1.0 + 1e-9


def test_who_comes_late_starts_where_the_others_are(make_cell):
    """User 1 is ready at 6; users 0 and 1 of one weight then have turns alternately: nothing is made up for."""
    world = make_cell(2, compute_s=[0.0, 6.0], snr_db=lambda users, time_s: [-9.0] * len(users))
    play(world, Priority(weights={}, by="stride"), [0.0], 14.0)
    assert [user for _, user in world.memory.of("sent")][:12] == [0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1]


def test_lottery_among_those_who_have_something(make_cell):
    """Weights 9 and 1 of users 0 and 2: the first turn of many cells is user 0's nine times in ten."""
    first = []
    for seed in range(300):
        world = make_cell(3, compute_s=[0.0, 99.0, 0.0], seed=seed)
        first.append(play(world, Priority(weights=[9, 50, 1], by="lottery"), [0.0], 5.0)[0][0])
    assert set(first) == {0, 2}
    assert abs(np.mean(np.array(first) == 0) - 0.9) < 4.5 * np.sqrt(0.09 / 300)


def test_weights_of_users_that_are_not_named_are_1():
    who, _ = winners(Priority(weights={1: 3.0}, by="stride"), None, 3, 50)
    assert np.bincount(who).tolist() == [10, 30, 10]


def test_weights_of_users_that_there_are_not():
    for duration_s in (None, 10.0):
        [fault] = Priority(weights={7: 2.0, 4: 1.0}).faults(ScenarioFacts(users=5, rounds=1, duration_s=duration_s))
        assert (fault.key, fault.value) == ("weights", [7])
    with pytest.raises(ScenarioError):
        Priority(weights=[1, 0])
