"""The medium: reception, capture and SINR of overlapping frames, with values worked out by hand.

Binomial counts are within 4.5 standard errors, a false alarm with probability 7e-6.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from netfl.network.clock import Clock
from netfl.network.event_log import EventLog
from netfl.network.interference.capture import Capture
from netfl.network.interference.sinr import Sinr
from netfl.network.layout import NodeId
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.radio.cell import Cell
from netfl.network.radio.connection import Connection
from netfl.network.radio.fading_medium import FadingMedium
from netfl.network.radio.medium import AirInterface, Medium
from netfl.network.radio.present_values import PresentValues
from netfl.network.radio.transmission import Frames, SharedChannel, Transmission
from netfl.network.radio.update_queue import UpdateQueue
from netfl.network.reception import Reception
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.network.tower import Tower
from netfl.network.updates import OutstandingUpdates
from netfl.network.users import UserPopulation
from netfl.streams import Streams
from netfl.types import Law

BITS = 1000.0


class ConstantLinks:
    """Links with a linear SNR for each (tower, user), and the propagation delay of each user."""

    bandwidth_hz = 1e5
    power_offset_db = None

    def __init__(self, powers, delay_s=None):
        self._snr_db = {tower: 10 * np.log10(np.array(values, float)) for tower, values in powers.items()}
        self.users, self._delay_s = len(next(iter(powers.values()))), delay_s

    def snr_db(self, users, time_s, tower="tower:0"):
        snr_db = self._snr_db[tower][users]
        return snr_db if self.power_offset_db is None else snr_db + self.power_offset_db[users]

    def delay_s(self, users, time_s, tower=""):
        return None if self._delay_s is None else np.array(self._delay_s)[users]


class RandomReception(Reception):
    """Reception with probability 1 above 30 dB, 0 below -30 dB and *middle* in between, in three modes."""

    middle: float = 0.3

    def rate_bps(self, bandwidth_hz, mode=0):
        return 1000.0 * 2**mode

    @property
    def modes(self):
        return 3

    def choose(self, snr_db, bandwidth_hz):
        return np.digitize(snr_db, [10.0, 20.0])

    def success(self, sinr_db, bandwidth_hz, bits, mode=0):
        return np.where(sinr_db > 30, 1.0, np.where(sinr_db < -30, 0.0, self.middle))

    def laws(self):
        return (Law.none("a test's"),)


def build_medium(powers, *, reception=None, plan=None, delay_s=None, planned_outages=None, seed=1, **options):
    """Build a medium with linear SNR powers[i] of user i at tower:0; the threshold is 0 dB at 1 kbit/s."""
    powers = powers if isinstance(powers, dict) else {"tower:0": powers}
    presence = NodeState(CombinedOutages([planned_outages(plan)] if plan else []), 101)
    reception = reception or SnrThreshold(threshold=0, rate=1000)
    return FadingMedium(ConstantLinks(powers, delay_s), reception, Connection(presence), Streams(seed), **options)


def failure_causes(medium, *spans, towers=None, cuts=None):
    """Return the failure cause of each user, where user i is on the air in spans[i]."""
    shared_channel, transmissions = SharedChannel(), []
    for number, (start_s, end_s) in enumerate(spans):
        ids = np.array([number])
        tower = NodeId("tower:0" if towers is None else towers[number], 100)
        is_cut = None if cuts is None else [cuts[number]]
        frames = Frames(ids, BITS, None)
        transmissions.append(Transmission(frames, ids, [0], tower, 0, start_s, end_s, 0, None, is_cut))
        shared_channel.enter(transmissions[-1])
    return [medium.outcomes(flight)[0][0] for flight in transmissions]


def simultaneous_causes(medium, count):
    """Return the failure causes of users who send in one transmission."""
    ids = np.arange(count)
    transmission = Transmission(
        Frames(ids, BITS, None), ids, range(count), NodeId("tower:0", 100), 0, 0.0, 1.0, 0, None, None
    )
    return list(medium.outcomes(transmission)[0])


def test_interference_has_the_power_with_which_it_was_sent():
    """User 1 has a tenth of its power while it sends, and all of it when the frames are judged."""
    medium = build_medium([10, 10], interference=Capture(margin=6.0))
    medium.set_power_offset(np.array([0.0, -10.0]))
    tower, channel, transmissions = NodeId("tower:0", 100), SharedChannel(), []
    for user in range(2):
        ids = np.array([user])
        sent_db = medium.power_offset_db(ids)
        frames = Frames(ids, BITS, None)
        transmissions.append(Transmission(frames, ids, [0], tower, 0, 0.0, 1.0, power_offset_db=sent_db))
        channel.enter(transmissions[-1])
    medium.set_power_offset(None)
    outcomes = [medium.outcomes(transmission) for transmission in transmissions]
    assert [causes[0] for causes, _ in outcomes] == ["", "collided"]
    assert [snr_db[0] for _, snr_db in outcomes] == pytest.approx([10.0, 0.0])


def test_ideal_medium_has_only_collisions():
    assert failure_causes(Medium(1000.0), (0, 1), (0.5, 1.5), (1.5, 2.5)) == ["collided", "collided", ""]
    assert simultaneous_causes(Medium(1000.0), 1) == [""]
    assert simultaneous_causes(Medium(1000.0), 2) == ["collided"] * 2


@pytest.mark.parametrize(
    ("powers", "margin_db", "causes"),
    [
        ([10, 2], 6.0, ["", "collided"]),  # 10 / 2 = 5 > 10^0.6 = 3.98
        ([10, 2.6], 6.0, ["collided", "collided"]),  # 3.85
        ([10, 1.2, 1.2], 6.0, ["", "collided", "collided"]),  # 10 / 2.4 = 4.17
        ([10, 1.3, 1.3], 6.0, ["collided"] * 3),  # 10 / 2.6, the sum of both interferers
        ([10, 0.5], 6.0, ["", "faded"]),  # the weak user fails without interference too
        ([0.9, 0.1], 6.0, ["faded", "faded"]),  # the signal must also exceed the noise threshold
        (
            [10, 0.9, 0.9, 0.9],
            6.0,
            ["collided", "faded", "faded", "faded"],
        ),  # users below the threshold still interfere
        ([10, 1], 10.0, ["", "collided"]),  # exactly the ratio
        ([5, 5], 0.0, ["collided", "collided"]),  # equal powers
        ([5, 4], 0.0, ["", "collided"]),
        ([5, 3, 3], 0.0, ["collided"] * 3),
    ],
)
@pytest.mark.parametrize("arrangement", ["one transmission", "partly overlapping"])
def test_capture_compares_with_sum_of_interferers(powers, margin_db, causes, arrangement):
    medium = build_medium(powers, interference=Capture(margin=margin_db))
    if arrangement == "one transmission":
        assert simultaneous_causes(medium, len(powers)) == causes
    else:
        assert failure_causes(medium, *[(0.1 * i, 1.0 + 0.1 * i) for i in range(len(powers))]) == causes


def test_capture_counts_simultaneous_interferers():
    """1 and 2 interfere with 0 one after the other: 10 / 2 captures; each of them loses to 0."""
    medium = build_medium([10, 2, 2], interference=Capture(margin=6.0))
    assert failure_causes(medium, (0, 3), (0.0, 1.0), (1.0, 2.0)) == ["", "collided", "collided"]
    assert failure_causes(medium, (0, 3), (0.0, 1.0), (0.9, 1.9)) == ["collided", "collided", "collided"]


def test_all_overlapping_frames_collide_without_capture():
    assert failure_causes(build_medium([1e6, 1e-6]), (0, 1), (0.5, 1.5)) == ["collided", "collided"]


@pytest.mark.parametrize(
    ("powers", "spans", "causes"),
    [
        ([3.0, 1.9], [(0, 1), (0.5, 1.5)], ["", "collided"]),  # 3 / 2.9 > 1; 1.9 / 4 < 1
        ([3.0, 2.1], [(0, 1), (0.5, 1.5)], ["collided", "collided"]),  # 3 / 3.1
        ([3.0, 0.5], [(0, 1), (0.5, 1.5)], ["", "faded"]),  # 0.5 alone is below 1
        ([3.0, 1.5, 1.5], [(0, 3), (0, 1), (1, 2)], ["", "collided", "collided"]),  # 3 / 2.5, twice
        ([3.0, 1.5, 1.5], [(0, 3), (0, 1.5), (1, 2)], ["collided", "collided", "collided"]),  # 3 / 4 from 1 to 1.5
        ([3.0, 1.5, 1.5], [(1, 2), (0, 1.5), (0, 1.2)], ["collided", "collided", "collided"]),  # from the start
        (
            [3.0, 1.5, 1.5],
            [(1, 2), (0, 1.0), (1.5, 3)],
            ["", "", "collided"],
        ),  # 1.5 / 1: no interferer during its frame
        ([9.0, 1.0, 2.0, 3.0, 4.0], [(0, 9), (0, 2), (1, 4), (3, 6), (5, 8)], ["", *["collided"] * 4]),  # 9 / (1 + 7)
        ([7.9, 1.0, 2.0, 3.0, 4.0], [(0, 9), (0, 2), (1, 4), (3, 6), (5, 8)], ["collided"] * 5),
    ],
)
def test_sinr_is_minimum_over_time(powers, spans, causes):
    assert failure_causes(build_medium(powers, interference=Sinr()), *spans) == causes
    assert failure_causes(build_medium(powers[::-1], interference=Sinr()), *spans[::-1])[::-1] == causes


def test_adjacent_interferers_do_not_overlap_despite_rounding():
    """User 1 ends at 0.1 + 0.2, which is 4e-17 after 0.3, where user 2 starts."""
    assert 0.1 + 0.2 > 0.3
    assert (
        failure_causes(build_medium([3.0, 1.5, 1.5], interference=Sinr()), (0, 1), (0.1, 0.1 + 0.2), (0.3, 0.5))[0]
        == ""
    )
    assert (
        failure_causes(
            build_medium([10.0, 2, 2], interference=Capture(margin=6.0)), (0, 1), (0.1, 0.1 + 0.2), (0.3, 0.5)
        )[0]
        == ""
    )
    late_s = 1e7
    spans = [(late_s, late_s + 1), (late_s + 0.1, late_s + 0.1 + 0.2), (late_s + 0.3, late_s + 0.5)]
    assert failure_causes(build_medium([3.0, 1.5, 1.5], interference=Sinr()), *spans)[0] == ""


def test_simultaneous_users_interfere():
    assert simultaneous_causes(build_medium([9.0, 4.0, 3.9], interference=Sinr()), 3) == ["", "collided", "collided"]
    assert simultaneous_causes(build_medium([9.0, 4.0, 4.1], interference=Sinr()), 3) == ["collided"] * 3
    assert simultaneous_causes(build_medium([5.0, 5.0, 0.5], interference=Sinr()), 3) == [
        "collided",
        "collided",
        "faded",
    ]


def test_sinr_depends_on_tower():
    """User 0 sends to tower 0 and user 1 to tower 1, with powers 3 and 1.9, and 2.1 and 3."""
    powers = {"tower:0": [3.0, 1.9], "tower:1": [2.1, 3.0]}
    medium = build_medium(powers, interference=Sinr())
    assert failure_causes(medium, (0, 1), (0.5, 1.5), towers=["tower:0", "tower:1"]) == ["", "collided"]
    medium = build_medium(powers, interference=Capture(margin=1.7))  # 1.479: 3 / 1.9 = 1.58, 3 / 2.1 = 1.43
    assert failure_causes(medium, (0, 1), (0.5, 1.5), towers=["tower:0", "tower:1"]) == ["", "collided"]


@pytest.mark.parametrize("options", [{}, {"interference": Capture(margin=3.0)}, {"interference": Sinr()}])
def test_outage_takes_precedence_over_other_causes(options):
    medium = build_medium([5.0, 0.5, 5.0], **options)
    assert failure_causes(medium, (0, 1), cuts=[True]) == ["lost"]
    assert failure_causes(medium, (0, 1), (0.5, 1.5), (0.7, 1.7), cuts=[True, True, True]) == ["lost"] * 3
    assert failure_causes(medium, (0, 1), (0.5, 1.5), cuts=[False, True])[1] == "lost"


@pytest.mark.parametrize("share", [0.1, 0.3, 0.9])
@pytest.mark.slow
def test_reception_draws_are_fair_and_reproducible(share):
    count, results = 3000, []
    for _ in range(2):
        medium = build_medium([5.0, 5.0], reception=RandomReception(middle=share))
        results.append([failure_causes(medium, (start_s, start_s + 1))[0] == "" for start_s in range(count)])
    assert results[0] == results[1]
    assert abs(np.mean(results[0]) - share) < 4.5 * np.sqrt(share * (1 - share) / count)
    other = build_medium([5.0], reception=RandomReception(middle=share), seed=2)
    assert [failure_causes(other, (start_s, start_s + 1))[0] == "" for start_s in range(count)] != results[0]


@pytest.mark.slow
def test_reception_is_random_under_interference():
    """40 dB without interference is certain; with an equal interferer, 0 dB has probability 0.3."""
    count = 3000
    medium = build_medium([1e4, 1e4], reception=RandomReception(), interference=Sinr())
    causes = [
        failure_causes(medium, (start_s, start_s + 1), (start_s + 0.5, start_s + 1.5))
        for start_s in range(0, 2 * count, 2)
    ]
    assert {cause for pair in causes for cause in pair} == {"", "collided"}
    is_received = np.array([[cause == "" for cause in pair] for pair in causes])
    assert np.abs(is_received.mean(axis=0) - 0.3).max() < 4.5 * np.sqrt(0.21 / count)
    assert abs(np.corrcoef(is_received.T)[0, 1]) < 4.5 / np.sqrt(count), "draws are independent"
    medium = build_medium([1e4, 1e4], reception=RandomReception(), interference=Sinr())
    is_received = np.array([[cause == "" for cause in simultaneous_causes(medium, 2)] for _ in range(count)])
    assert np.abs(is_received.mean(axis=0) - 0.3).max() < 4.5 * np.sqrt(0.21 / count)


@pytest.mark.slow
def test_failure_without_interference_is_fading():
    """Each frame has one draw for both probabilities of 0.3, so no frame collides."""
    medium = build_medium([5.0, 5.0], reception=RandomReception(), interference=Sinr())
    causes = [
        failure_causes(medium, (start_s, start_s + 1), (start_s + 0.5, start_s + 1.5)) for start_s in range(0, 4000, 2)
    ]
    assert {cause for pair in causes for cause in pair} == {"", "faded"}


def open_cell(powers, *, updates=None, **options):
    """Build a cell at tower node 100 whose users have an update of 1000 bits each from 0 on."""
    env, medium = Clock(), build_medium(powers, **options)
    recorder = SimpleNamespace(wants=lambda kind: False, record=lambda event: None)
    event_log = EventLog(recorder, len(powers))
    event_log.open_round(1)
    size = len(powers)
    queue = UpdateQueue(np.arange(size), BITS, "tower:0", event_log, OutstandingUpdates(size))
    population = UserPopulation(queue, np.zeros(size))
    arrived = []
    air = AirInterface(NodeId("tower:0", 100), medium, SharedChannel())
    cell = Cell(env, air, queue, Streams(1), lambda message: arrived.append((env.now, message.user)))
    Tower(cell, population, PresentValues(env, air, queue)).schedule_broadcast(0, 0.0)
    env.run(until=1e-9)
    return SimpleNamespace(env=env, cell=cell, arrived=arrived)


def run_attempts(simulation, *plan, **options):
    """Let each of (time, users) send; return the deliveries and the failures by cause."""
    for at_s, users in plan:
        simulation.env.run(until=max(at_s, simulation.env.now + 1e-12))
        simulation.cell.attempt(np.array(users), **options)
    simulation.env.run(until=simulation.env.now + 100.0)
    return simulation.arrived, {cause: count for cause, count in simulation.cell.transmit_path.failed.items() if count}


def test_distance_shifts_arrivals():
    simulation = open_cell([5.0, 5.0], delay_s=[0.25, 2.0])
    arrived, failed = run_attempts(simulation, (1.0, [0]), (5.0, [1]))
    assert ([(round(at_s, 9), user) for at_s, user in arrived], failed) == ([(2.25, 0), (8.0, 1)], {})


def test_delays_can_cause_collisions():
    """Frames from 1 to 2 and from 2.5 to 3.5 arrive from 3 to 4 and from 3.5 to 4.5."""
    arrived, failed = run_attempts(open_cell([5.0, 5.0], delay_s=[2.0, 1.0]), (1.0, [0]), (2.5, [1]))
    assert (arrived, failed) == ([], {"collided": 2})


def test_delays_can_prevent_collisions():
    arrived, failed = run_attempts(open_cell([5.0, 5.0], delay_s=[0.5, 1.5]), (1.0, [0, 1]))
    assert ([(round(at_s, 9), user) for at_s, user in arrived], failed) == ([(2.5, 0), (3.5, 1)], {})


def test_attempt_ends_with_last_arrival():
    simulation = open_cell([5.0, 5.0, 5.0], delay_s=[0.5, 7.5, 3.0])
    simulation.env.run(until=1.0)
    is_received = simulation.env.run(until=simulation.cell.attempt(np.array([2, 0, 1])))
    assert (simulation.env.now, is_received.tolist()) == (9.5, [True, True, True])


@pytest.mark.parametrize(
    ("down", "span", "is_received"),
    [
        (100, (3.2, 3.3), False),  # the tower, during reception
        (100, (4.0, 5.0), True),  # from the end of reception
        (0, (1.5, 1.6), False),  # the user, during transmission
        (0, (2.0, 9.0), True),  # the user, during propagation
    ],
)
def test_outages_with_propagation_delay(planned_outages, down, span, is_received):
    """The frame is sent from 1 to 2 and received from 3 to 4."""
    simulation = open_cell([5.0], delay_s=[2.0], plan={down: [span]}, planned_outages=planned_outages)
    arrived, failed = run_attempts(simulation, (1.0, [0]))
    assert (arrived, failed) == (([(4.0, 0)], {}) if is_received else ([], {"lost": 1}))


def test_each_mode_has_its_airtime():
    """7, 17 and 27 dB select modes of 1, 2 and 4 kbit/s: 1, 0.5 and 0.25 s, which overlap."""
    powers = 10 ** np.array([0.7, 1.7, 2.7])
    simulation = open_cell(powers, reception=RandomReception(middle=1.0))
    assert simulation.cell.airtimes_s(np.arange(3)).tolist() == [1.0, 0.5, 0.25]
    assert simulation.cell.airtime_s == 1.0
    arrived, failed = run_attempts(simulation, (1.0, [0]), (3.0, [1]), (5.0, [2]))
    assert (arrived, failed) == ([(2.0, 0), (3.5, 1), (5.25, 2)], {})
    simulation = open_cell(powers, reception=RandomReception(middle=1.0))
    arrived, failed = run_attempts(simulation, (1.0, [0, 1, 2]))
    assert (arrived, failed) == ([], {"collided": 3})
    simulation = open_cell(powers, reception=RandomReception(middle=1.0))
    arrived, failed = run_attempts(simulation, (1.0, [2, 0, 1]), channel=np.array([5, 6, 7]))
    assert (arrived, failed) == ([(1.25, 2), (1.5, 1), (2.0, 0)], {})
    simulation = open_cell(powers, reception=RandomReception(middle=1.0))
    simulation.env.run(until=1.0)
    is_received = simulation.env.run(until=simulation.cell.attempt(np.array([2, 0]), mode=np.array([0, 2])))
    assert (simulation.env.now, is_received.tolist()) == (2.0, [False, False])


def test_busy_time_is_union_of_transmissions():
    simulation = open_cell([5.0, 5.0, 5.0])
    run_attempts(simulation, (1.0, [0]), (1.5, [1]), (10.0, [2]))
    assert simulation.cell.transmit_path.busy_by_s(50.0) == pytest.approx(2.5)
    assert simulation.cell.transmit_path.attempts == 3
