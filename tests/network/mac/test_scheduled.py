"""MACs with a schedule of the tower: round robin, priorities, maximum SNR and proportional fairness."""

import numpy as np
import pytest
import simpy

import netfl
from netfl.errors import ScenarioError
from netfl.network.mac import TieBreaker
from netfl.network.mac._bases import TowerScheduler
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
    """User 0 does not answer, which takes no time beyond the poll, and is polled again when it is up."""
    simulation = make_cell(2, plan={0: [(0.5, 9.0)]}, compute_s=1.0)
    assert run_updates(simulation, RoundRobin(), [0.0], 30.0) == [(1, 1.0), (0, 9.0)]


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


def check_proportional_fair(served_users, starts_s, window, rates_at):
    """Check each turn against the definition; *rates_at* gives the rates and turn lengths of all users at a time.

    Equal values of R / A, as of users never served, may be served in any order.
    """
    average, now_s = np.zeros(int(max(served_users)) + 1), 0.0
    for user, start_s in zip(served_users, starts_s, strict=True):
        rates, lengths_s = (np.array(values, float)[: len(average)] for values in rates_at(now_s))
        with np.errstate(divide="ignore"):
            merit = rates / average
        assert merit[user] >= merit.max() * (1.0 - 1e-9)
        assert start_s == pytest.approx(now_s)
        decay = np.exp(-lengths_s[user] / window)
        average *= decay
        average[user] += (1 - decay) * rates[user]
        now_s += lengths_s[user]


def starts_of(bench):
    return [sent_s for _, sent_s, _ in bench.deliveries]


def test_proportional_fair_matches_definition():
    gains = np.array([3.0, 2.0, 0.5])
    served_users, bench = winners(ProportionalFair(window=5.0), ConstantMedium(gains), 3, 60)
    check_proportional_fair(served_users, starts_of(bench), 5.0, lambda at_s: (np.log2(1 + gains), [1.0] * 3))
    assert np.bincount(served_users).min() > 15


@pytest.mark.slow
def test_proportional_fair_matches_definition_with_fading():
    medium, users = RayleighMedium([3.0, 2.0, 0.5, 1.0], 7), np.arange(4)
    served_users, bench = winners(ProportionalFair(window=5.0), medium, 4, 300)
    check_proportional_fair(
        served_users,
        starts_of(bench),
        5.0,
        lambda at_s: (np.log2(1 + 10 ** (medium.snr_db(users, "", at_s) / 10)), [1.0] * 4),
    )
    assert (np.bincount(served_users) > 40).all()


class ModeMedium(Medium):
    """Medium with three modes, which users use in turn."""

    modes, LENGTHS_S = 3, (1.0, 1.7, 3.1)

    def mode_rates_bps(self, ids, modes):
        return 1.0 / np.array(self.LENGTHS_S)[modes]

    def choose(self, ids, tower, time_s, **options):
        return (ids + int(time_s / 2.3)) % 3


def test_proportional_fair_by_airtime_matches_definition():
    """R is one over the airtime in the current mode, which is also the length of the turn."""
    medium = ModeMedium(1.0)

    def rates_at(at_s):
        lengths_s = [medium.LENGTHS_S[(user + int(at_s / 2.3)) % 3] for user in range(4)]
        return [1 / length_s for length_s in lengths_s], lengths_s

    served_users, bench = winners(ProportionalFair(window=20.0, rate="airtime"), medium, 4, 180)
    check_proportional_fair(served_users, starts_of(bench), 20.0, rates_at)
    assert np.bincount(served_users).min() > 15


@pytest.mark.parametrize("users", [1, 3])
def test_proportional_fair_serves_each_user_once_in_a_burst(make_cell, users):
    """This also holds after a pause that is far longer than the window."""
    simulation = make_cell(users)
    delivered = run_updates(simulation, ProportionalFair(window=0.1), [2.5, 77.0, 900.0], 1000.0)
    assert [sent_s for _, sent_s in delivered] == [at_s + turn for at_s in (2.5, 77.0, 900.0) for turn in range(users)]
    bursts = np.array([user for user, _ in delivered]).reshape(3, users)
    assert (np.sort(bursts, axis=1) == np.arange(users)).all()


def test_proportional_fair_does_not_charge_idle_time():
    """Bursts of four users with one turn for each two: those that were not served are served in the next burst."""
    pair, turns = [], 40
    for pause_s in (2.0, 50.0):
        mac = ProportionalFair(window=20.0, rate="airtime")
        scheduler = mac.scheduler(bench_cell(mac, 4))
        picked = []
        for _ in range(turns):
            for _ in range(2):
                picked.append(scheduler.pick(np.arange(4)))
                scheduler.end_turn(picked[-1], 1.0, has_sent=True)
            scheduler._cell.env.run(until=scheduler._cell.env.now + pause_s)
        pair.append(picked)
    assert pair[0] == pair[1]
    assert np.bincount(pair[0]).tolist() == [turns // 2] * 4


def bench_cell(mac, users, medium=None):
    """Return a cell whose MAC is never run."""
    cell = MacTestBench(BenchSetup(mac, users, 1.0, Streams(5)), saturated_users, medium).cell
    cell.env = simpy.Environment()
    return cell


def test_proportional_fair_credits_nothing_to_user_that_is_cut_off(make_cell):
    """Polls last 1 s and user 0 is down from 0.5 to 20 s: it neither sends nor is charged with a rate."""
    simulation = make_cell(2, plan={0: [(0.5, 20.0)]})
    mac = ProportionalFair(window=10.0, poll=1.0)
    turns = []
    scheduler = mac.scheduler(simulation.cell)
    end_turn = scheduler.end_turn
    scheduler.end_turn = lambda user, duration_s, *, has_sent: (
        turns.append((user, round(duration_s, 9), has_sent)),
        end_turn(user, duration_s, has_sent=has_sent),
    )
    simulation.env.process(Scheduled(scheduler, poll=1.0).serve(simulation.cell))
    simulation.tower.schedule_broadcast(0, 0.0)
    simulation.env.run(until=40.0)
    assert sorted(turns) in (
        [(0, 1.0, False), (0, 2.0, True), (1, 2.0, True)],
        [(0, 2.0, True), (1, 2.0, True)],
    )
    assert scheduler._average[0] > scheduler._average[1] > 0.0


class Scheduled(TowerScheduler):
    """A tower with a given scheduler."""

    def __init__(self, scheduler, **settings):
        TowerScheduler.__init__(self, **settings)
        self.__dict__["given"] = scheduler

    def scheduler(self, cell):
        return self.given

    def laws(self):
        return ()


def spread_of_first_turns(mac, medium, users, cells=200):
    """Return how often each user has the first turn in independent cells."""
    count = np.zeros(users)
    for seed in range(cells):
        bench = MacTestBench(BenchSetup(mac, users, 1.0, Streams(seed)), saturated_users, medium)
        bench.env.run(until=1.5)
        count[bench.users[0]] += 1
    return count


@pytest.mark.slow
@pytest.mark.parametrize(
    "mac",
    [MaxSnr(), ProportionalFair(window=20.0), Priority(weights={}, by="stride")],
    ids=["max_snr", "proportional_fair", "stride"],
)
@pytest.mark.parametrize("scale", [1.0, 1.0 + 1e-15])
def test_ties_are_decided_by_uniform_draw(mac, scale):
    """Four users whose SNRs are equal up to rounding: each is first in a quarter of 200 cells; 5 standard errors."""
    count = spread_of_first_turns(mac, ConstantMedium(30.0 * np.array([1.0, scale, 1.0 / scale, 1.0])), 4)
    assert np.abs(count - 50).max() < 5.0 * np.sqrt(200 * 0.25 * 0.75)


def test_unequal_merits_are_no_tie(make_cell):
    """A difference of 1e-9 decides, as does any user against rates of zero."""
    ties = TieBreaker(make_cell(3).cell)
    users = np.array([0, 1, 2])
    assert {ties.pick_largest(users, np.array([1.0, 1.0 + 1e-9, 1.0])) for _ in range(20)} == {1}
    assert {ties.pick_largest(users, np.array([-np.inf, 0.0, -np.inf])) for _ in range(20)} == {1}
    assert {ties.pick_largest(users, np.array([np.inf, 5.0, np.inf])) for _ in range(40)} == {0, 2}
    assert {ties.pick_largest(users[:2], np.array([-np.inf, -np.inf])) for _ in range(40)} == {0, 1}


def test_tie_of_a_user_does_not_depend_on_its_place(make_cell):
    """The draw belongs to the user and the tie: without the winner, the order of the others stays."""
    cell = make_cell(6).cell
    full = TieBreaker(cell).pick_largest(np.arange(6), np.ones(6))
    others = np.setdiff1d(np.arange(6), full)
    assert TieBreaker(cell).pick_largest(np.r_[others, full], np.ones(6)) == full
    assert TieBreaker(cell).pick_largest(np.arange(6)[::-1], np.ones(6)) == full


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
    sent = [user for _, user in simulation.recorder.events("sent")]
    assert sent[:6] == [0] * 6
    assert [sorted(pair) for pair in zip(sent[6:12:2], sent[7:12:2], strict=True)] == [[0, 1]] * 3


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


FADING_CELL = {
    "name": "pf",
    "users": 10,
    "rounds": 200,
    "record": "none",
    "access": {
        "kind": "network",
        "topology": {"kind": "star", "distance": "10 m", "delay": "0 s", "rate": "1 Gbps"},
        "radio": {"power": "16 dBm", "bandwidth": "1 MHz", "noise_figure": "20 dB"},
        "channel": [{"kind": "constant", "gain": "-60 dB"}, {"kind": "rayleigh", "coherence": "5 ms"}],
        "reception": {"kind": "snr_threshold", "threshold": "-60 dB", "rate": "1 Mbps"},
        "broadcast_rate": "1 Gbps",
        "update_size": "1.25 kB",
        "compute": {"speed": 100, "samples": 100},
        "round": {"kind": "first", "m": 5},
    },
}
"""Ten equal users, of whom the first five of each round deliver; each round has a second of training."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 4, 5])
@pytest.mark.parametrize(
    "mac",
    [
        {"kind": "proportional_fair", "window": "20 s"},
        {"kind": "proportional_fair", "window": "0.2 s"},
        {"kind": "proportional_fair", "window": "20 s", "rate": "airtime"},
        "max_snr",
        {"kind": "priority", "weights": {}, "by": "stride"},
    ],
    ids=["pf", "pf-short", "pf-airtime", "max_snr", "stride"],
)
def test_equal_users_have_equal_deliveries_over_rounds(mac, seed, tmp_path):
    """About 100 each; with max_snr the winners are drawn, so that 5 standard errors are 35."""
    access = FADING_CELL["access"] | {"mac": mac}
    run = netfl.trace(netfl.load(FADING_CELL | {"access": access, "seed": seed}), tmp_path / "run", progress=False)
    deliveries = np.bincount(run.deliveries["user"], minlength=10)
    bound = 36 if mac == "max_snr" else 20
    assert np.abs(deliveries - 100).max() <= bound, deliveries


def test_user_that_joins_later_is_served_until_it_has_caught_up(make_cell):
    """A user whose average is 0 comes first; with a window of 2 s and turns of 1 s it then shares equally."""
    simulation = make_cell(2, compute_s=[0.0, 10.5], snr_db=lambda users, time_s: np.full(len(users), -9.0))
    run_updates(simulation, ProportionalFair(window=2.0), [0.0], 60.5)
    sent = [user for _, user in simulation.recorder.events("sent")]
    assert sent[:11] == [0] * 11
    assert sent[11] == 1
    assert sorted(np.bincount(sent[12:52])) == [20, 20]
