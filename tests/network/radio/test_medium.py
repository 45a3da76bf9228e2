"""The medium: who is received of those who meet, by numbers worked out by hand; and at what instants.

Statistics: binomial counts within 4.5 standard errors, a false alarm with probability 7e-6.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import simpy

from netfl.network.event_log import EventLog
from netfl.network.layout import NodeId
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.radio.cell import AirInterface, Cell
from netfl.network.radio.fading_medium import FadingMedium
from netfl.network.radio.medium import Medium
from netfl.network.radio.transmission import SharedChannel, Transmission
from netfl.network.radio.tx_queue import Frames
from netfl.network.radio.update_queue import UpdateQueue
from netfl.network.reception import Reception
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.network.server import OutstandingUpdates
from netfl.network.tower import Tower
from netfl.network.users import UserPopulation
from netfl.streams import Streams
from netfl.types import Law

BITS = 1000.0


class Links:
    """An air whose SNR in linear terms is stated for each (tower, user); signals take *delay_s* of each user."""

    radio = SimpleNamespace(bandwidth=1e5)

    def __init__(self, powers, delay_s=None):
        self._snr_db = {tower: 10 * np.log10(np.array(told, float)) for tower, told in powers.items()}
        self.users, self._delay_s = len(next(iter(powers.values()))), delay_s

    def snr_db(self, users, time_s, tower="tower:0"):
        return self._snr_db[tower][users]

    def delay_s(self, users, time_s):
        return None if self._delay_s is None else np.array(self._delay_s)[users]


class Chance(Reception):
    """Received with probability 1 above 30 dB, 0 below -30 dB, *middle* in between; modes of 1, 2 and 4 kbit/s."""

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


def medium_of(powers, *, reception=None, plan=None, delay_s=None, planned=None, seed=1, **options):
    """A medium on which user i has the linear SNR powers[i] at tower:0; threshold 0 dB, that is 1, at 1 kbit/s."""
    powers = powers if isinstance(powers, dict) else {"tower:0": powers}
    presence = NodeState(CombinedOutages([planned(plan)] if plan else []), 101)
    reception = reception or SnrThreshold(threshold=0, rate=1000)
    return FadingMedium(Links(powers, delay_s), reception, presence, Streams(seed), **options)


def meet(medium, *spans, towers=None, cuts=None):
    """The causes of failure of user i, on the air in spans[i]; those of one span in one flight if it is a list."""
    ether, flights = SharedChannel(), []
    for number, (start_s, end_s) in enumerate(spans):
        ids = np.array([number])
        tower = NodeId("tower:0" if towers is None else towers[number], 100)
        cut = None if cuts is None else [cuts[number]]
        frames = Frames(ids, BITS, None)
        flights.append(Transmission(frames, ids, [0], tower, 0, start_s, end_s, 0, None, cut))
        ether.enter(flights[-1])
    return [medium.outcomes(flight)[0][0] for flight in flights]


def together(medium, count):
    """The same for users who send in one flight."""
    ids = np.arange(count)
    flight = Transmission(
        Frames(ids, BITS, None), ids, range(count), NodeId("tower:0", 100), 0, 0.0, 1.0, 0, None, None
    )
    return list(medium.outcomes(flight)[0])


def test_a_clear_medium_knows_collisions_alone():
    assert meet(Medium(1000.0), (0, 1), (0.5, 1.5), (1.5, 2.5)) == ["collided", "collided", ""]
    assert together(Medium(1000.0), 1) == [""]
    assert together(Medium(1000.0), 2) == ["collided"] * 2


@pytest.mark.parametrize(
    ("powers", "capture_db", "causes"),
    [
        ([10, 2], 6.0, ["", "collided"]),  # 10 / 2 = 5 > 10^0.6 = 3.98
        ([10, 2.6], 6.0, ["collided", "collided"]),  # 3.85
        ([10, 1.2, 1.2], 6.0, ["", "collided", "collided"]),  # 10 / 2.4 = 4.17
        ([10, 1.3, 1.3], 6.0, ["collided"] * 3),  # 10 / 2.6, though each alone is 7.7 times weaker
        ([10, 0.5], 6.0, ["", "faded"]),  # the weak one would not have been heard alone either
        ([0.9, 0.1], 6.0, ["faded", "faded"]),  # capture is not enough: it must be heard over the noise
        ([10, 0.9, 0.9, 0.9], 6.0, ["collided", "faded", "faded", "faded"]),  # too weak to be heard, they disturb
        ([10, 1], 10.0, ["", "collided"]),  # by exactly the ratio
        ([5, 5], 0.0, ["collided", "collided"]),  # neither is stronger than the other
        ([5, 4], 0.0, ["", "collided"]),
        ([5, 3, 3], 0.0, ["collided"] * 3),
    ],
)
@pytest.mark.parametrize("how", ["one flight", "partly overlapping"])
def test_capture_is_over_all_others_together(powers, capture_db, causes, how):
    medium = medium_of(powers, capture_db=capture_db)
    if how == "one flight":
        assert together(medium, len(powers)) == causes
    else:
        assert meet(medium, *[(0.1 * i, 1.0 + 0.1 * i) for i in range(len(powers))]) == causes


def test_capture_counts_those_who_are_there_at_one_time():
    """1 and 2 disturb 0 one after the other: 10 / 2 captures; they never meet each other, and each loses to 0."""
    medium = medium_of([10, 2, 2], capture_db=6.0)
    assert meet(medium, (0, 3), (0.0, 1.0), (1.0, 2.0)) == ["", "collided", "collided"]
    assert meet(medium, (0, 3), (0.0, 1.0), (0.9, 1.9)) == ["collided", "collided", "collided"]


def test_without_capture_all_who_meet_collide_however_weak():
    assert meet(medium_of([1e6, 1e-6]), (0, 1), (0.5, 1.5)) == ["collided", "collided"]


@pytest.mark.parametrize(
    ("powers", "spans", "causes"),
    [
        ([3.0, 1.9], [(0, 1), (0.5, 1.5)], ["", "collided"]),  # 3 / 2.9 > 1; 1.9 / 4 < 1
        ([3.0, 2.1], [(0, 1), (0.5, 1.5)], ["collided", "collided"]),  # 3 / 3.1
        ([3.0, 0.5], [(0, 1), (0.5, 1.5)], ["", "faded"]),  # 0.5 alone is below 1
        ([3.0, 1.5, 1.5], [(0, 3), (0, 1), (1, 2)], ["", "collided", "collided"]),  # 3 / 2.5, twice
        ([3.0, 1.5, 1.5], [(0, 3), (0, 1.5), (1, 2)], ["collided", "collided", "collided"]),  # 3 / 4 from 1 to 1.5
        ([3.0, 1.5, 1.5], [(1, 2), (0, 1.5), (0, 1.2)], ["collided", "collided", "collided"]),  # from the very start
        ([3.0, 1.5, 1.5], [(1, 2), (0, 1.0), (1.5, 3)], ["", "", "collided"]),  # 1.5 / 1: nobody when it is there
        ([9.0, 1.0, 2.0, 3.0, 4.0], [(0, 9), (0, 2), (1, 4), (3, 6), (5, 8)], ["", *["collided"] * 4]),  # 9 / (1 + 7)
        ([7.9, 1.0, 2.0, 3.0, 4.0], [(0, 9), (0, 2), (1, 4), (3, 6), (5, 8)], ["collided"] * 5),
    ],
)
def test_the_sinr_is_that_of_the_worst_moment(powers, spans, causes):
    assert meet(medium_of(powers, interference="sinr"), *spans) == causes
    assert meet(medium_of(powers[::-1], interference="sinr"), *spans[::-1])[::-1] == causes


def test_interferers_that_touch_are_not_there_together_however_their_ends_are_rounded():
    """1 leaves at 0.1 + 0.2, which is 4e-17 after 0.3, where 2 begins: 3 / 2.5 at any time."""
    assert 0.1 + 0.2 > 0.3
    assert meet(medium_of([3.0, 1.5, 1.5], interference="sinr"), (0, 1), (0.1, 0.1 + 0.2), (0.3, 0.5))[0] == ""
    assert meet(medium_of([10.0, 2, 2], capture_db=6.0), (0, 1), (0.1, 0.1 + 0.2), (0.3, 0.5))[0] == ""
    late = 1e7
    spans = [(late, late + 1), (late + 0.1, late + 0.1 + 0.2), (late + 0.3, late + 0.5)]
    assert meet(medium_of([3.0, 1.5, 1.5], interference="sinr"), *spans)[0] == ""


def test_many_in_one_flight_disturb_each_other():
    assert together(medium_of([9.0, 4.0, 3.9], interference="sinr"), 3) == ["", "collided", "collided"]
    assert together(medium_of([9.0, 4.0, 4.1], interference="sinr"), 3) == ["collided"] * 3
    assert together(medium_of([5.0, 5.0, 0.5], interference="sinr"), 3) == ["collided", "collided", "faded"]


def test_each_tower_hears_what_reaches_it():
    """User 0 sends to tower 0, user 1 to tower 1; at tower 0 they have 3 and 1.9, at tower 1 2.1 and 3."""
    powers = {"tower:0": [3.0, 1.9], "tower:1": [2.1, 3.0]}
    medium = medium_of(powers, interference="sinr")
    assert meet(medium, (0, 1), (0.5, 1.5), towers=["tower:0", "tower:1"]) == ["", "collided"]
    medium = medium_of(powers, capture_db=1.7)  # 1.479: 3 / 1.9 = 1.58, 3 / 2.1 = 1.43
    assert meet(medium, (0, 1), (0.5, 1.5), towers=["tower:0", "tower:1"]) == ["", "collided"]


@pytest.mark.parametrize("options", [{}, {"capture_db": 3.0}, {"interference": "sinr"}])
def test_an_outage_comes_before_all_else(options):
    medium = medium_of([5.0, 0.5, 5.0], **options)
    assert meet(medium, (0, 1), cuts=[True]) == ["lost"]
    assert meet(medium, (0, 1), (0.5, 1.5), (0.7, 1.7), cuts=[True, True, True]) == ["lost"] * 3
    assert meet(medium, (0, 1), (0.5, 1.5), cuts=[False, True])[1] == "lost"


@pytest.mark.parametrize("share", [0.1, 0.3, 0.9])
@pytest.mark.slow
def test_chances_are_drawn_fairly_and_again_the_same(share):
    count, seen = 3000, []
    for _ in range(2):
        medium = medium_of([5.0, 5.0], reception=Chance(middle=share))
        seen.append([meet(medium, (at, at + 1))[0] == "" for at in range(count)])
    assert seen[0] == seen[1]
    assert abs(np.mean(seen[0]) - share) < 4.5 * np.sqrt(share * (1 - share) / count)
    other = medium_of([5.0], reception=Chance(middle=share), seed=2)
    assert [meet(other, (at, at + 1))[0] == "" for at in range(count)] != seen[0]


@pytest.mark.slow
def test_chances_under_interference_are_drawn_even_where_alone_it_would_be_certain():
    """40 dB alone is certain; against an interferer as strong it is 0 dB, and 0.3 by the reception."""
    count = 3000
    medium = medium_of([1e4, 1e4], reception=Chance(), interference="sinr")
    told = [meet(medium, (at, at + 1), (at + 0.5, at + 1.5)) for at in range(0, 2 * count, 2)]
    assert {cause for pair in told for cause in pair} == {"", "collided"}
    good = np.array([[cause == "" for cause in pair] for pair in told])
    assert np.abs(good.mean(axis=0) - 0.3).max() < 4.5 * np.sqrt(0.21 / count)
    assert abs(np.corrcoef(good.T)[0, 1]) < 4.5 / np.sqrt(count), "each has its own luck"
    medium = medium_of([1e4, 1e4], reception=Chance(), interference="sinr")
    good = np.array([[cause == "" for cause in together(medium, 2)] for _ in range(count)])
    assert np.abs(good.mean(axis=0) - 0.3).max() < 4.5 * np.sqrt(0.21 / count)


@pytest.mark.slow
def test_who_would_have_failed_alone_has_faded():
    """With one draw each: 0.3 alone and 0.3 with the other are the same luck, so nobody collides."""
    medium = medium_of([5.0, 5.0], reception=Chance(), interference="sinr")
    told = [meet(medium, (at, at + 1), (at + 0.5, at + 1.5)) for at in range(0, 4000, 2)]
    assert {cause for pair in told for cause in pair} == {"", "faded"}


def open_cell(powers, *, updates=None, **options):
    """A cell at tower node 100 whose users have an update of 1000 bits each from 0 on."""
    env, medium = simpy.Environment(0.0), medium_of(powers, **options)
    recorder = SimpleNamespace(wants=lambda kind: False, event=lambda kind, time_s, **told: None)
    ledger = EventLog(recorder, len(powers))
    ledger.open_round(1)
    size = len(powers)
    load = UpdateQueue(np.arange(size), BITS, "tower:0", ledger)
    population = UserPopulation(load, np.zeros(size), OutstandingUpdates(size))
    arrived = []
    air = AirInterface(NodeId("tower:0", 100), medium, SharedChannel())
    cell = Cell(env, air, load, Streams(1), lambda one: arrived.append((env.now, one.user)))
    Tower(cell, population, medium).schedule_broadcast(0, 0.0)
    env.run(until=1e-9)
    return SimpleNamespace(env=env, cell=cell, arrived=arrived)


def send(world, *plan, **options):
    """Let each of (time, users) send; then who was received when, and why others failed."""
    for at_s, users in plan:
        world.env.run(until=max(at_s, world.env.now + 1e-12))
        world.cell.attempt(np.array(users), **options)
    world.env.run(until=world.env.now + 100.0)
    return world.arrived, {k: n for k, n in world.cell.failed.items() if n}


def test_distance_shifts_arrivals():
    world = open_cell([5.0, 5.0], delay_s=[0.25, 2.0])
    arrived, failed = send(world, (1.0, [0]), (5.0, [1]))
    assert ([(round(at, 9), who) for at, who in arrived], failed) == ([(2.25, 0), (8.0, 1)], {})


def test_distance_brings_together_what_was_sent_apart():
    """From 1 to 2 and from 2.5 to 3.5; they arrive from 3 to 4 and from 3.5 to 4.5."""
    arrived, failed = send(open_cell([5.0, 5.0], delay_s=[2.0, 1.0]), (1.0, [0]), (2.5, [1]))
    assert (arrived, failed) == ([], {"collided": 2})


def test_distance_keeps_apart_what_was_sent_together():
    arrived, failed = send(open_cell([5.0, 5.0], delay_s=[0.5, 1.5]), (1.0, [0, 1]))
    assert ([(round(at, 9), who) for at, who in arrived], failed) == ([(2.5, 0), (3.5, 1)], {})


def test_the_attempt_ends_when_the_last_has_arrived():
    world = open_cell([5.0, 5.0, 5.0], delay_s=[0.5, 7.5, 3.0])
    world.env.run(until=1.0)
    heard = world.env.run(until=world.cell.attempt(np.array([2, 0, 1])))
    assert (world.env.now, heard.tolist()) == (9.5, [True, True, True])


@pytest.mark.parametrize(
    ("down", "span", "good"),
    [
        (100, (3.2, 3.3), False),  # the tower, while it hears
        (100, (4.0, 5.0), True),  # from the instant at which all has arrived
        (0, (1.5, 1.6), False),  # the user, while it sends
        (0, (2.0, 9.0), True),  # when it has sent, its signal on the way
    ],
)
def test_outages_and_slow_signals(planned, down, span, good):
    """Sent from 1 to 2, there from 3 to 4."""
    world = open_cell([5.0], delay_s=[2.0], plan={down: [span]}, planned=planned)
    arrived, failed = send(world, (1.0, [0]))
    assert (arrived, failed) == (([(4.0, 0)], {}) if good else ([], {"lost": 1}))


def test_each_mode_has_its_airtime():
    """7, 17 and 27 dB take modes of 1, 2 and 4 kbit/s: 1, 0.5 and 0.25 s; all overlap."""
    powers = 10 ** np.array([0.7, 1.7, 2.7])
    world = open_cell(powers, reception=Chance(middle=1.0))
    assert world.cell.airtimes_s(np.arange(3)).tolist() == [1.0, 0.5, 0.25]
    assert world.cell.airtime_s == 1.0
    arrived, failed = send(world, (1.0, [0]), (3.0, [1]), (5.0, [2]))
    assert (arrived, failed) == ([(2.0, 0), (3.5, 1), (5.25, 2)], {})
    world = open_cell(powers, reception=Chance(middle=1.0))
    arrived, failed = send(world, (1.0, [0, 1, 2]))
    assert (arrived, failed) == ([], {"collided": 3})
    world = open_cell(powers, reception=Chance(middle=1.0))
    arrived, failed = send(world, (1.0, [2, 0, 1]), channel=np.array([5, 6, 7]))
    assert (arrived, failed) == ([(1.25, 2), (1.5, 1), (2.0, 0)], {})
    world = open_cell(powers, reception=Chance(middle=1.0))
    world.env.run(until=1.0)
    heard = world.env.run(until=world.cell.attempt(np.array([2, 0]), mode=np.array([0, 2])))
    assert (world.env.now, heard.tolist()) == (2.0, [False, False])


def test_the_air_is_busy_as_long_as_anybody_sends():
    world = open_cell([5.0, 5.0, 5.0])
    send(world, (1.0, [0]), (1.5, [1]), (10.0, [2]))
    assert world.cell.busy_by_s(50.0) == pytest.approx(2.5)
    assert world.cell.attempts == 3
