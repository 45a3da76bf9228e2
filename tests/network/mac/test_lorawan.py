"""LoRaWAN: duty cycles, retries, spreading factors, interference between factors, and updates that are too large."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import netfl
from netfl.errors import ScenarioError
from netfl.network.clock import Clock
from netfl.network.event_log import EventLog
from netfl.network.interference.capture import Capture
from netfl.network.interference.collide import Collide
from netfl.network.layout import NodeId
from netfl.network.mac.lorawan import MAX_PAYLOAD_BYTES, Lorawan, time_on_air_s
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.radio.bench import (
    BenchSetup,
    DeafMedium,
    MacTestBench,
    attempt_outcomes,
    failed_attempts,
    saturated_users,
)
from netfl.network.radio.cell import Cell
from netfl.network.radio.connection import Connection
from netfl.network.radio.fading_medium import FadingMedium
from netfl.network.radio.medium import AirInterface
from netfl.network.radio.present_values import PresentValues
from netfl.network.radio.transmission import SharedChannel
from netfl.network.radio.update_queue import UpdateQueue
from netfl.network.reception.lora import Lora
from netfl.network.tower import Tower
from netfl.network.updates import OutstandingUpdates
from netfl.network.users import UserPopulation
from netfl.streams import Streams

ALWAYS = [{"channels": 1, "duty_cycle": 1.0}]


class ScriptedLinks:
    """Links with a constant SNR for each user."""

    bandwidth_hz = 125e3
    power_offset_db = None

    def __init__(self, snr_db):
        self._snr_db, self.users = np.asarray(snr_db, float), len(snr_db)

    def delay_s(self, users, time_s, tower=""):
        return None

    def snr_db(self, users, time_s, tower=""):
        return self._snr_db[users]


class LoraSimulation:
    """Users with given SNRs send updates of *size* bytes over LoRa; each has the next at once if *endless*."""

    def __init__(self, mac, snr_db, size=50, endless=False, **options):
        self.env, self.sent, self.delivered, self.endless = Clock(), [], [], endless
        count = len(snr_db)
        event_log = EventLog(self, count)
        queue = UpdateQueue(np.arange(count), 8.0 * size, "tower:0", event_log, OutstandingUpdates(count))
        self.updates = UserPopulation(queue, np.zeros(count))
        presence = NodeState(CombinedOutages(), count + 1)
        medium = FadingMedium(ScriptedLinks(snr_db), Lora(), Connection(presence), Streams(1), **options)
        air = AirInterface(NodeId("tower:0", count), medium, SharedChannel())
        self.cell = Cell(self.env, air, queue, Streams(1), self.uplink)
        Tower(self.cell, self.updates, PresentValues(self.env, air, queue)).schedule_broadcast(0, 0.0)
        self.failure = None
        self.env.process(self.serve(mac))

    def serve(self, mac):
        try:
            yield from mac.serve(self.cell)
        except ScenarioError as error:
            self.failure = error

    def wants(self, kind):
        return kind == "sent"

    def record(self, event):
        if event.kind == "sent":
            self.sent += [(self.env.now, int(user_id)) for user_id in np.atleast_1d(event.user)]

    def final_metrics(self, values):
        pass

    def uplink(self, message):
        self.delivered.append((message.user, self.env.now))
        if self.endless:
            self.updates.receive_and_train(np.array([message.user]), np.array([self.env.now]), 0)

    def start_times(self, until_s):
        self.env.run(until=until_s)
        return np.array([time_s for time_s, _ in self.sent])


def test_single_user_respects_duty_cycle():
    """50 bytes at SF7 take 118.016 ms (63 bytes in all); at 1 % a user sends once in 100 airtimes."""
    airtime_s = float(time_on_air_s(63, 0, 125e3))
    mac = Lorawan(spreading_factor=7, sub_bands=[{"channels": 3, "duty_cycle": 0.01}])
    start_times = LoraSimulation(mac, [10.0], endless=True).start_times(500 * airtime_s)
    assert start_times == pytest.approx(100 * airtime_s * np.arange(5))


@pytest.mark.slow
def test_second_sub_band_adds_its_duty_cycle():
    """1 % and 10 % together allow 11 % of the time, but 2 s pass after each uplink."""
    airtime_s = float(time_on_air_s(63, 5, 125e3))
    mac = Lorawan(spreading_factor=12, sub_bands=[{"duty_cycle": 0.01}, {"channels": 1, "duty_cycle": 0.1}])
    start_times = LoraSimulation(mac, [10.0], endless=True).start_times(3e4)
    assert len(start_times) * airtime_s / 3e4 == pytest.approx(0.11, abs=0.003)
    assert np.diff(start_times).min() == pytest.approx(airtime_s + 2.0)


def test_users_wait_for_second_receive_window():
    airtime_s = float(time_on_air_s(63, 1, 125e3))
    start_times = LoraSimulation(Lorawan(spreading_factor=8, sub_bands=ALWAYS), [10.0], endless=True).start_times(50.0)
    assert np.diff(start_times) == pytest.approx(airtime_s + 2.0)


def test_retries_wait_for_random_timeout():
    """The gap after an attempt is 2 s plus U(1, 3) s: mean 4, variance 1/3."""
    airtime_s, gaps = float(time_on_air_s(63, 0, 125e3)), []
    simulation = LoraSimulation(
        Lorawan(version="1.0.4", spreading_factor=7, sub_bands=ALWAYS, max_attempts=8), [-30.0] * 60
    )
    simulation.env.run(until=100)
    for user in range(60):
        own_times = np.array([time_s for time_s, sender in simulation.sent if sender == user])
        assert len(own_times) == 8
        gaps += (np.diff(own_times) - airtime_s).tolist()
    assert min(gaps) > 3
    assert max(gaps) < 5
    assert abs(np.mean(gaps) - 4) < 4.5 * np.sqrt(1 / 3 / len(gaps))
    assert np.var(gaps) == pytest.approx(1 / 3, rel=0.25)


def failed_gaps_s(mac, users=40, attempts=4):
    """Return the times from one failed attempt to the next of a user, and the airtimes of the attempts."""
    starts_s, ends_s = failed_attempts(BenchSetup(mac, users, 1.0, Streams(1)), attempts)
    return starts_s[:, 1:] - ends_s[:, :-1], ends_s - starts_s


def test_timeout_begins_when_duty_cycle_allows_sending():
    """At 1 % a user is silent for 99 airtimes; the random 1 to 3 s follow, so that users get out of step."""
    mac = Lorawan(version="1.0.4", spreading_factor=9, sub_bands=[{"channels": 3, "duty_cycle": 0.01}], max_attempts=4)
    gaps_s, airtimes_s = failed_gaps_s(mac)
    waits_s = gaps_s - 99 * airtimes_s[:, :-1]
    assert waits_s.min() > 1
    assert waits_s.max() < 3
    assert abs(waits_s.mean() - 2) < 4.5 * np.sqrt(1 / 3 / waits_s.size)
    assert waits_s.std(axis=0).min() > 0.4, "at each retry"


def test_open_sub_band_needs_no_silence():
    """The second sub-band is open after the first attempt: 2 s and 1 to 3 s."""
    bands = [{"channels": 3, "duty_cycle": 0.01}, {"channels": 3, "duty_cycle": 0.01}]
    gaps_s, _ = failed_gaps_s(Lorawan(spreading_factor=12, sub_bands=bands), attempts=2)
    assert 3 < gaps_s.min() < gaps_s.max() < 5


@pytest.mark.parametrize(
    ("options", "factors"),
    [
        ({}, [7, 7, 8, 8, 9, 9, 10, 10]),
        ({"max_attempts": 15}, [7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 12, 12, 12]),
        ({"max_attempts": 1}, [7]),
        ({"confirmed": False}, [7]),
        ({"version": "1.0.4"}, [7]),
        ({"version": "1.0.4", "max_attempts": 3}, [7, 7, 7]),
        ({"size": 100}, [7, 7, 8, 8, 9, 9, 9, 9]),
        ({"size": 200, "spreading_factor": 8}, [8] * 8),
    ],
)
def test_versions_give_attempts_and_data_rates(options, factors):
    """A user that is never received: 1.0.3 lowers the data rate after two attempts, as far as the update fits."""
    size = options.pop("size", 20)
    mac = Lorawan(**{"spreading_factor": 7, "sub_bands": [{"channels": 1, "duty_cycle": 0.01}]} | options)
    simulation = LoraSimulation(mac, [-30.0], size=size)
    start_times = simulation.start_times(1e4)
    airtimes_s = time_on_air_s(size + 13, np.array(factors) - 7, 125e3)
    assert len(start_times) == len(factors)
    waits_s = np.diff(start_times) - 100 * airtimes_s[:-1]
    assert ((waits_s > 1) & (waits_s < 3)).all()


@pytest.mark.parametrize(("confirmed", "low_s", "high_s"), [(True, 1.0, 3.0), (None, 1.0, 3.0), (False, -1e-6, 1e-6)])
def test_newer_update_waits_for_timeout_of_failed_one(confirmed, low_s, high_s):
    """Updates that are sent once, of users in lock-step: each next one of a confirmed user waits at random."""
    mac = Lorawan(version="1.0.4", spreading_factor=9, confirmed=confirmed)
    medium = DeafMedium(1.0)
    bench = MacTestBench(BenchSetup(mac, 10, 1.0, Streams(1)), saturated_users, medium)
    bench.env.run(until=100.0)
    starts_s = np.array([start_s for _, start_s, _ in medium.attempts])
    airtime_s = medium.attempts[0][2]
    waits_s = starts_s[10:20] - 100 * airtime_s
    assert (starts_s[:10] == 0).all()
    assert low_s <= waits_s.min() <= waits_s.max() <= high_s
    assert np.ptp(waits_s) > 0.5 or not confirmed


def test_user_cut_off_at_its_start_is_not_charged_airtime(make_cell):
    """The duty cycle ends after 100 airtimes; the user, down until 200, sends at 200 and not at 300."""
    airtime_s = float(time_on_air_s(125 + 13, 0, 125e3))
    mac = Lorawan(spreading_factor=7, max_attempts=1)
    simulation = make_cell(1, plan={0: [(99.0 * airtime_s, 200.0 * airtime_s)]})
    simulation.env.process(mac.serve(simulation.cell))
    for version, at_s in enumerate([0.0, 1.0]):
        simulation.tower.schedule_broadcast(version, at_s)
    simulation.env.run(until=1000.0)
    assert [at_s for at_s, _ in simulation.recorder.events("sent")] == pytest.approx([0.0, 200.0 * airtime_s])


def run_lockstep(rounds, **mac):
    """Trace 20 users that begin together, with updates of 100 bytes at SF9; return events and final metrics."""
    compute = {"speed": 100.0, "samples": 100, "jitter": 0.1}
    access = {
        "kind": "network",
        "round": {"kind": "first", "m": 5, "deadline": "10 min", "losses": "unknown"},
        "topology": {"kind": "star", "radius": "2 km"},
        "radio": {"power": "14 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
        "channel": [{"kind": "log_distance", "exponent": 3, "frequency": "868 MHz"}],
        "reception": "lora",
        "mac": {"kind": "lorawan", "spreading_factor": 9, **mac},
        "compute": compute,
        "broadcast_rate": "11 kbps",
        "update_size": "100 B",
    }
    scenario = {"name": "lockstep", "users": 20, "rounds": rounds, "access": access, "record": "all"}
    with TemporaryDirectory() as folder:
        run = netfl.trace(netfl.load(scenario), Path(folder, "run"), progress=False)
        metrics = run.final_metrics.set_index("metric")["value"]
        return run.events, metrics, run.rounds["closed_s"].max()


@pytest.mark.slow
def test_colliding_users_get_out_of_step():
    """Without a random wait after the duty cycle, 99.94 % of the attempts collide and 3 of 600 updates arrive."""
    events, metrics, _ = run_lockstep(30)
    assert (events["kind"] == "delivered").sum() == 150, "5 in each round"
    assert not (events["kind"] == "given_up").any()
    assert metrics["collision_probability"] < 0.65
    assert not any(name.startswith("synchronised") for name in metrics.index)
    sent = events[events["kind"] == "sent"].sort_values(["user", "time_s"])
    gaps_s = sent.groupby("user")["time_s"].diff().dropna()
    airtime_s = float(time_on_air_s(113, 2, 125e3))
    assert ((gaps_s > 100 * airtime_s + 1) & (gaps_s < 100 * airtime_s + 3)).mean() > 0.4


@pytest.mark.slow
def test_collisions_approach_pure_aloha():
    """n users at random phases: 1 - exp(-2 G (n - 1) / n), G attempts per airtime and channel.

    In the first minutes users are still in step and more attempts collide; later, those that do not collide keep their
    phases, and fewer do.
    """
    _, metrics, span_s = run_lockstep(300)
    load = metrics["attempts"] * float(time_on_air_s(113, 2, 125e3)) / (3 * span_s)
    assert metrics["collision_probability"] == pytest.approx(-np.expm1(-2 * load * 19 / 20), abs=0.05)


def test_updates_sent_once_stay_in_step():
    """With version 1.0.4 all users begin each round together, and nobody repeats; the run reports it."""
    _, metrics, _ = run_lockstep(10, version="1.0.4")
    assert metrics["collision_probability"] > 0.95
    assert metrics["synchronised.tower:0"] > 0.9


def test_unconfirmed_uplink_is_sent_once():
    simulation = LoraSimulation(Lorawan(spreading_factor=7, max_attempts=1), [-30.0])
    assert len(simulation.start_times(1e4)) == 1


def test_smallest_feasible_spreading_factor_is_used():
    """With a margin of 10 dB SF7 needs 2.5 dB, SF8 0 dB and so on; below -10 dB SF12 is used."""
    snr_db = [2.5, 2.4, -0.1, -2.6, -5.1, -7.6, -19.0]
    simulation = LoraSimulation(Lorawan(sub_bands=[{"channels": 64, "duty_cycle": 1.0}]), snr_db, size=40)
    simulation.env.run(until=2.9)
    end_s = dict(simulation.delivered)
    expected = time_on_air_s(53, [0, 1, 2, 3, 4, 5, 5], 125e3)
    assert [end_s[user] for user in range(7)] == pytest.approx(expected)
    no_margin = LoraSimulation(Lorawan(margin=0.0), [-7.5])
    no_margin.env.run(until=5)
    assert no_margin.delivered[0][1] == pytest.approx(time_on_air_s(63, 0, 125e3))


@pytest.mark.slow
def test_random_spreading_factors_are_uniform_and_constant():
    mac = Lorawan(spreading_factor="random", sub_bands=[{"channels": 10_000, "duty_cycle": 1.0}])
    simulation = LoraSimulation(mac, [10.0] * 600, size=20, endless=True)
    simulation.env.run(until=30)
    airtimes = time_on_air_s(33, np.arange(6), 125e3)
    first_s = {}
    for user, at_s in simulation.delivered:
        first_s.setdefault(user, at_s)
    modes = np.abs(np.array(list(first_s.values()))[:, None] - airtimes).argmin(axis=1)
    assert np.abs(np.bincount(modes, minlength=6) / len(modes) - 1 / 6).max() < 4.5 * np.sqrt(5 / 36 / 600)
    own_times = np.diff([at_s for user, at_s in simulation.delivered if user == 0])
    assert own_times == pytest.approx(first_s[0] + 2.0)


@pytest.mark.parametrize(
    ("orthogonal", "interference", "delivered"),
    [(True, Collide(), {0, 1}), (False, Collide(), set()), (False, Capture(margin=6.0), {0})],
)
def test_interference_between_spreading_factors(orthogonal, interference, delivered):
    """Users at 12 and -4 dB use SF7 and SF10 on one channel at once."""
    mac = Lorawan(sub_bands=ALWAYS, orthogonal=orthogonal, max_attempts=1)
    simulation = LoraSimulation(mac, [12.0, -4.0], interference=interference)
    simulation.env.run(until=20)
    assert {user for user, _ in simulation.delivered} == delivered


@pytest.mark.parametrize(("factor", "channels"), [(7, 3), (9, 1), (12, 1)])
@pytest.mark.slow
def test_success_rate_of_uplinks(factor, channels):
    """Users are silent for 2 s and an exponential time: (1 - 2T/(Mμ))^(n-1), near e^(-2G)."""
    airtime_s, users, rows = float(time_on_air_s(14, factor - 7, 125e3)), 60, 100
    load, rng = 0.3, np.random.default_rng(factor)
    cycle_s = users * airtime_s / load / channels
    pause_s = cycle_s - airtime_s - 2.0
    if pause_s <= 0:
        cycle_s, pause_s = airtime_s + 3.0, 1.0
    mac = Lorawan(spreading_factor=factor, sub_bands=[{"channels": channels, "duty_cycle": 1.0}], max_attempts=1)
    successes, ended = attempt_outcomes(
        BenchSetup(mac, users, airtime_s, Streams(2)),
        lambda sender_ids, now_s: now_s + 2.0 + rng.exponential(pause_s, len(sender_ids)),
        40 * cycle_s / users,
        rows,
    )
    share = (1 - 2 * airtime_s / (channels * cycle_s)) ** (users - 1)
    channel_load = users * airtime_s / (channels * cycle_s)
    assert share == pytest.approx(np.exp(-2 * channel_load), abs=0.02)
    assert (
        abs(successes.mean() / ended.mean() - share)
        < 4.5 * (successes - share * ended).std() / np.sqrt(rows) / ended.mean()
    )


@pytest.mark.parametrize(("factor", "size", "max_factor"), [(12, 52, 9), (9, 116, 8), (7, 223, None)])
def test_update_that_is_too_large_is_rejected(factor, size, max_factor):
    simulation = LoraSimulation(Lorawan(spreading_factor=factor), [10.0], size=size)
    simulation.env.run(until=1)
    [fault] = simulation.failure.faults
    assert fault.key == "mac.spreading_factor"
    assert f"{size} bytes" in fault.problem
    assert f"at most {MAX_PAYLOAD_BYTES[factor - 7]} bytes" in fault.remedy
    assert fault.remedy.startswith(f"use a spreading_factor of at most {max_factor}") == (max_factor is not None)


def test_adaptive_factor_respects_update_size():
    """200 bytes fit up to SF8 only, for any SNR."""
    simulation = LoraSimulation(Lorawan(), [-9.0], size=200)
    simulation.env.run(until=5)
    assert simulation.delivered[0][1] == pytest.approx(time_on_air_s(213, 1, 125e3))


@pytest.mark.parametrize(
    ("size", "snr_db", "users"),
    [(200, [0.0, -10.0, -10.1, -30.0], 2), (51, [0.0, -30.0], 0), (115, [-12.5, -12.6], 1), (300, [0.0, -8.0], 0)],
)
def test_frames_that_do_not_fit_into_the_factor_of_their_signal_are_reported(size, snr_db, users):
    """SF8 receives from -10 dB on and holds 222 bytes, SF9 from -12.5 dB on and 115, SF10 and above hold 51."""
    warnings = [*Lorawan().link_warnings(8.0 * size, lambda: np.array(snr_db))]
    assert len(warnings) == (users > 0)
    assert all(f"{users} of {len(snr_db)} users" in warning and f"send {size} bytes" in warning for warning in warnings)
    assert [*Lorawan(spreading_factor=7).link_warnings(8.0 * size, lambda: np.array(snr_db))] == []


@pytest.mark.parametrize(
    "overrides",
    [
        {"spreading_factor": 6},
        {"spreading_factor": 13},
        {"spreading_factor": 7, "margin": 3},
        {"bandwidth": "100 kHz"},
        {"sub_bands": []},
        {"sub_bands": [{"duty_cycle": 0}]},
        {"max_attempts": 16},
        {"version": "1.1"},
        {"confirmed": False, "max_attempts": 2},
        {"preamble": 3},
    ],
)
def test_values_out_of_range_are_rejected(overrides):
    with pytest.raises(ScenarioError):
        Lorawan(**overrides)


def test_reception_of_one_mode_receives_every_spreading_factor(tmp_path):
    """The reception judges by the SNR alone, whatever factor the MAC takes."""
    scenario = {
        "name": "one mode",
        "users": 2,
        "rounds": 4,
        "access": {
            "kind": "network",
            "topology": {"kind": "star", "distance": "10 m"},
            "radio": {"power": "14 dBm", "bandwidth": "125 kHz"},
            "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "5 kbps"},
            "mac": {"kind": "lorawan", "spreading_factor": 12},
            "compute": {"speed": 1, "samples": 1, "spread": 2},
            "broadcast_rate": "5 kbps",
            "update_size": "20 B",
            "round": {"kind": "first", "m": 1},
        },
    }
    assert len(netfl.trace(netfl.load(scenario), tmp_path / "run", progress=False).deliveries) == 4


def test_repeats_of_version_1_0_4_keep_the_data_rate(tmp_path):
    """The SNR of a user varies by fading, and its factor is chosen for the first attempt of each update."""
    scenario = {
        "name": "one rate",
        "users": 1,
        "rounds": 15,
        "record": ["sent"],
        "access": {
            "kind": "network",
            "topology": {"kind": "star", "distance": "10 m"},
            "radio": {"power": "14 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
            "channel": [{"kind": "constant", "gain": "-140 dB"}, {"kind": "rayleigh", "coherence": "1 s"}],
            "reception": "lora",
            "unreachable": "keep",
            "mac": {"kind": "lorawan", "version": "1.0.4", "margin": "0 dB", "max_attempts": 6},
            "compute": {"speed": 1, "samples": 1},
            "broadcast_rate": "5 kbps",
            "update_size": 400,
            "round": {"kind": "first", "m": 1},
            "energy": {"transmit": "1 W"},
        },
    }
    run = netfl.trace(netfl.load(scenario), tmp_path / "run", progress=False)
    assert (run.deliveries["attempts"] > 1).any()
    # the time from the first attempt to the arrival is that of equal airtimes and waits for the duty cycle
    airtimes_s = time_on_air_s(50 + 13, np.arange(6), 125e3)
    sent = run.events["time_s"].to_numpy()
    for delivery in run.deliveries.itertuples():
        starts_s = sent[(sent >= delivery.sent_s) & (sent < delivery.arrived_s)]
        airtime_s = airtimes_s[np.abs(airtimes_s - (delivery.arrived_s - starts_s[-1])).argmin()]
        waits_s = np.diff(starts_s) - 100 * airtime_s
        assert ((waits_s >= 1.0) & (waits_s <= 3.0)).all()
