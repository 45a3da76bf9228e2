"""CSMA/CA by timelines worked out by hand, in microseconds, with scripted backoffs; and the standard's airtimes.

802.11a: slot 9, SIFS 16, DIFS 34, data 2072, ACK 44 (so a success takes 2132), time-out 45.  802.11b: slot 20, SIFS 10,
DIFS 50, data 1310, ACK 203 (1523), time-out 222, EIFS 364.
"""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import simpy

from netfl.errors import Fault
from netfl.network.event_log import EventLog
from netfl.network.layout import NodeId
from netfl.network.mac import csma_ca
from netfl.network.mac.csma_ca import CsmaCa
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.radio.cell import AirInterface, Cell
from netfl.network.radio.fading_medium import FadingMedium
from netfl.network.radio.medium import Medium
from netfl.network.radio.packet_queue import PacketQueue
from netfl.network.radio.transmission import SharedChannel
from netfl.network.radio.update_queue import UpdateQueue
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.network.server import OutstandingUpdates
from netfl.network.tower import Tower
from netfl.network.traffic import Traffic
from netfl.network.traffic.poisson import Poisson
from netfl.network.traffic.saturated import Saturated
from netfl.network.users import UserPopulation
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts

REFERENCE = runpy.run_path(str(Path(__file__).parents[2] / "support/dcf_reference.py"))
SETUPS, simulate = REFERENCE["SETUPS"], REFERENCE["simulate"]
US = 1e-6
A, B, BITS = CsmaCa(standard="802.11a", edition=2016), CsmaCa(standard="802.11b", edition=2016), 12_000.0
NEW = CsmaCa(standard="802.11a")


class Script(Traffic):
    """Packets at stated instants, in microseconds; sizes in bits."""

    at: tuple[tuple[float, ...], ...]
    sizes: tuple[float, ...] = ()

    def times_s(self, link_bps, rng):
        raise NotImplementedError

    def blocks(self, sender, link_bps, streams):
        times_s = np.array(self.at[sender]) * US
        yield times_s, np.full(len(times_s), self.sizes[sender] if self.sizes else BITS)

    def laws(self):
        return (Law.none("a test's"),)


def backoffs(monkeypatch, *draws):
    """Let stations draw these (slots, window), in this order; afterwards 500 slots, or the whole window."""
    told = iter([(slots + 0.5) / (window + 1) for slots, window in draws])

    def uniforms(rng):
        yield from told
        while True:
            yield 0.9999

    monkeypatch.setattr(csma_ca, "_uniforms", uniforms)
    return told


class Log:
    """Keeps what packets and updates end as."""

    def __init__(self):
        self.rows = []

    def wants(self, kind):
        return True

    def event(self, kind, time_s, *, round, user=-1, node="", value=np.nan, detail=""):
        for at_s, who in np.broadcast(time_s, user):
            self.rows.append((kind, round_us(at_s), int(who), detail))


def round_us(time_s):
    """Microseconds, to a tenth of a nanosecond."""
    return round(float(time_s) / US, 4)


def stage(mac, traffic, users, *, medium=None, updates=None):
    """A cell that *mac* serves: its clock, what is sent when and by whom, and what gets through when."""
    env, log, streams = simpy.Environment(0.0), Log(), Streams(1)
    medium = medium or Medium(mac.rate_bps)
    world = SimpleNamespace(env=env, log=log, sent=[], heard=[], medium=medium)
    world.ledger = EventLog(log, users, nodes=users, record_packets=updates is None)
    world.ledger.open_round(1)
    if updates is None:
        arrivals = [traffic.blocks(user, mac.rate_bps, streams) for user in range(users)]
        load, population = PacketQueue(np.arange(users), traffic, arrivals, "tower:0", world.ledger), None
    else:
        load = UpdateQueue(np.arange(users), BITS, "tower:0", world.ledger)
        population = UserPopulation(load, np.array(updates) * US, OutstandingUpdates(users))
    world.load = load

    def uplink(message):
        world.heard.append((round_us(env.now), message.user))
        if updates is None:
            world.ledger.record_outcome(message, "delivered", env.now)

    world.cell = Cell(env, AirInterface(NodeId("tower:0", 100), medium, SharedChannel()), load, streams, uplink)
    attempt = world.cell.attempt

    def spy(senders, **options):
        world.sent.append((round_us(max(options["begin_s"], env.now)), *sorted(int(user) for user in senders)))
        return attempt(senders, **options)

    world.cell.attempt = spy
    world.tower = Tower(world.cell, population, medium)
    env.process(mac.serve(world.cell))
    return world


def play(mac, until_us, traffic, users, **options):
    """Let the clock run."""
    world = stage(mac, traffic, users, **options)
    world.env.run(until=until_us * US)
    world.sent = [one for one in world.sent if one[0] < until_us]  # a quiet cell puts attempts down ahead of time
    return world


def script(*at, **options):
    """Packets of each station at these microseconds."""
    return Script.model_validate({"at": at, **options})


def presence_of(planned, plan):
    """Who is down when, in microseconds."""
    spans = {node: [(start * US, end * US) for start, end in told] for node, told in plan.items()}
    return NodeState(CombinedOutages([planned(spans)]), 101)


def fading(snr_db, planned, plan=None, rate=6e6, **options):
    """A medium on which user i is heard at snr_db[i]; 0 dB is enough."""
    air = SimpleNamespace(
        radio=SimpleNamespace(bandwidth=1e6),
        users=len(snr_db),
        delay_s=lambda users, time_s: None,
        snr_db=lambda users, time_s, tower="": np.array(snr_db, float)[users],
    )
    reception = SnrThreshold(threshold=0, rate=rate)
    return FadingMedium(air, reception, presence_of(planned, plan or {}), Streams(1), **options)


def test_airtimes_are_those_of_the_standard():
    """1500 bytes with 36 of headers, in nanoseconds; OFDM by symbols of 4 µs, 802.11g with 6 µs of extension."""
    a, b = A.frame_timing(BITS), B.frame_timing(BITS)
    assert (a.data, a.success, a.timeout, a.bystanders) == (2072000, 2132000, 45000, 34000)
    assert (b.data, b.success, b.timeout, b.bystanders) == (1310000, 1523000, 222000, 364000)
    spaces = [(phy.slot, phy.difs) for phy in csma_ca.PHYS.values()]
    assert spaces == [(9000, 34000), (20000, 50000), (9000, 28000)]
    assert A.model_copy(update={"after_collision": "eifs"}).frame_timing(BITS).bystanders == 94000
    assert B.model_copy(update={"after_collision": "difs"}).frame_timing(BITS).bystanders == 50000
    for setup, told in ((SETUPS["802.11a"], a), (SETUPS["802.11b"], b)):
        assert (1000 * setup.data, 1000 * (setup.data + setup.sifs + setup.ack)) == (told.data, told.success)
    g = CsmaCa(standard="802.11g").frame_timing(BITS)  # 57 symbols of 216 bits; ACK of 2 symbols at 24 Mb/s
    assert (g.data, g.success) == (254000, 254000 + 10000 + 34000)
    eifs = CsmaCa(standard="802.11g", after_collision="eifs").frame_timing(BITS).bystanders
    assert eifs == 10000 + (20 + 24 + 6) * 1000 + 28000  # an ACK at 6 Mb/s is 6 symbols
    assert CsmaCa(standard="802.11a", rate=54e6).frame_timing(BITS).data == 248000
    assert CsmaCa(standard="802.11a", rate=54e6).frame_timing(BITS).success == 248000 + 16000 + 28000
    slow = CsmaCa(standard="802.11b", rate=1e6).frame_timing(BITS)
    assert (slow.data, slow.success) == (192000 + 12288000, 192000 + 12288000 + 10000 + 304000)


def test_rts_and_cts_take_their_time():
    """802.11a at 6 Mb/s: RTS 52, CTS 44; a collision is that of the RTS.  802.11b at 11 Mb/s: RTS 207, CTS 203."""
    mac = A.model_copy(update={"rts": 0.0})
    spaces = mac.frame_timing(BITS)
    assert (spaces.lead, spaces.collision) == (52000 + 16000 + 44000 + 16000, 52000)
    assert spaces.success == 52000 + 16000 + 44000 + 16000 + 2072000 + 16000 + 44000
    spaces = B.model_copy(update={"rts": 0.0}).frame_timing(BITS)
    assert (spaces.lead, spaces.collision) == (207000 + 10000 + 203000 + 10000, 207000)
    at_most = A.model_copy(update={"rts": BITS})
    assert at_most.frame_timing(BITS) == A.frame_timing(BITS)
    assert at_most.frame_timing(BITS + 1).lead > 0


@pytest.mark.parametrize(("standard", "rate"), [("802.11a", 11.0), ("802.11b", 6.0), ("802.11g", 5.5)])
def test_a_rate_that_the_standard_does_not_have(standard, rate):
    [fault] = CsmaCa(standard=standard, rate=rate).faults(ScenarioFacts(users=1, rounds=1))
    assert isinstance(fault, Fault)
    assert (fault.key, fault.value) == ("rate", rate)


def test_a_lone_station(monkeypatch):
    """34 + 3 x 9 = 61; then the ACK ends at 61 + 2132 = 2193, and so on."""
    backoffs(monkeypatch, (3, 15), (0, 15), (5, 15))
    world = play(A, 6600, Saturated(), 1)
    assert world.sent == [(61, 0), (2227, 0), (2227 + 2132 + 34 + 45, 0)]
    assert world.heard == [(2133, 0), (4299, 0), (6510, 0)]


def test_counters_freeze_and_the_slot_after_a_success_is_the_winners(monkeypatch):
    """0 sends at 34 + 27; 1 has 2 of 5 slots left, 0 draws 4; then 1 draws 0 and is first alone; 0 has 2 left."""
    backoffs(monkeypatch, (3, 15), (5, 15), (4, 15), (0, 15), (9, 15))
    world = play(A, 6700, Saturated(), 2)
    assert world.sent == [(61, 0), (2193 + 34 + 18, 1), (2245 + 2132 + 34, 1), (4411 + 2132 + 34 + 18, 0)]


def test_after_a_collision_stations_are_out_of_step(monkeypatch):
    """The frames of 0 and 1 end at 2124; 2 counts from 2158, they from 2169, 1 slot and 10 slots of windows of 31."""
    backoffs(monkeypatch, (2, 15), (2, 15), (4, 15), (1, 31), (10, 31), (15, 15), (15, 15))
    world = play(A, 6600, Saturated(), 3)
    assert world.sent[:3] == [(52, 0, 1), (2176, 2), (2176 + 2132 + 34 + 9, 0)], "2 has counted both of its slots"
    backoffs(monkeypatch, (2, 15), (2, 15), (5, 15), (1, 31), (10, 31), (15, 15), (15, 15))
    world = play(A, 6700, Saturated(), 3)
    begins = 2178 + 2132 + 34  # 2 has counted two whole slots by 2178, and has one left
    assert world.sent[:3] == [(52, 0, 1), (2178, 0), (begins + 9, 2)]
    assert world.sent[3][0] == begins + 9 + 2132 + 34 + 8 * 9, "1 has counted a whole slot before 2178, and one after"
    assert world.sent[3][1:] == (1,)


def test_bystanders_of_802_11b_wait_eifs(monkeypatch):
    """Frames end at 90 + 1310 = 1400: colliders count from 1622, 2 from 1764 with three slots left."""
    backoffs(monkeypatch, (2, 31), (2, 31), (5, 31), (3, 63), (30, 63), (31, 31), (31, 31))
    world = play(B, 5200, Saturated(), 3)
    begins = 1682 + 1523 + 50
    assert world.sent[:3] == [(90, 0, 1), (1682, 0), (begins + 60, 2)]
    backoffs(monkeypatch, (2, 31), (2, 31), (5, 31), (12, 63), (30, 63), (31, 31), (31, 31))
    world = play(B, 5200, Saturated(), 3)
    assert world.sent[:2] == [(90, 0, 1), (1824, 2)], "0 would be at 1622 + 240 = 1862"
    assert world.sent[2] == (1824 + 1523 + 50 + 2 * 20, 0), "it has counted 10 whole slots by 1824"


def test_a_frame_that_finds_the_medium_idle_goes_at_once(monkeypatch):
    backoffs(monkeypatch, (6, 15), (2, 15))
    world = play(A, 20_000, script([1000.0, 10_000.5]), 1)
    assert world.sent == [(1000, 0), (10_000.5, 0)]


@pytest.mark.parametrize(
    ("second", "begins"),
    [(2000, 3220), (3100, 3220), (3140, 3220), (3200, 3220), (3220, 3220), (3220.5, 3220.5), (3166, 3220)],
)
def test_the_backoff_after_a_frame_counts_for_the_next(monkeypatch, second, begins):
    """The ACK ends at 3132, DIFS at 3166; six slots later, at 3220, the counter has run out, frame or not."""
    backoffs(monkeypatch, (6, 15), (0, 15))
    assert play(A, 9000, script([1000, second]), 1).sent == [(1000, 0), (begins, 0)]


@pytest.mark.parametrize(
    ("second", "begins"), [(2000, 3202), (3100, 3202), (3133, 3202), (3165, 3202), (3166, 3166), (3170.25, 3170.25)]
)
def test_who_finds_the_medium_busy_or_not_idle_for_difs_backs_off(monkeypatch, second, begins):
    """Station 0 sends from 1000; 1 draws 4: 3132 + 34 + 36."""
    backoffs(monkeypatch, (15, 15), (4, 15), (15, 15))
    world = play(A, 3300, script([1000], [second]), 2)
    assert world.sent == [(1000, 0), (begins, 1)]


def test_who_comes_while_another_counts_makes_it_freeze(monkeypatch):
    """0 counts 5 slots from 34; 1 comes at 57.5, in the third, and sends at once: 0 has 3 left."""
    backoffs(monkeypatch, (5, 15), (15, 15))
    world = play(A, 2400, script([0.0], [57.5]), 2)
    assert world.sent == [(57.5, 1), (57.5 + 2132 + 34 + 27, 0)]


def test_two_that_come_to_an_idle_medium_at_one_instant_collide(monkeypatch):
    backoffs(monkeypatch, (0, 31), (3, 31))
    world = play(A, 9000, script([1000], [1000]), 2)
    assert world.sent[:2] == [(1000, 0, 1), (3072 + 45, 0)]


def test_a_counter_that_ran_out_while_there_was_no_frame_is_drawn_anew_when_it_is_too_late(monkeypatch):
    """0 sends at 1000 and draws 1: it has run out at 3175.  1 sends from 3400; 0's frame comes then: it draws 2."""
    backoffs(monkeypatch, (1, 15), (15, 15), (2, 15))
    world = play(A, 7000, script([1000, 4000], [3400]), 2)
    assert world.sent == [(1000, 0), (3400, 1), (3400 + 2132 + 34 + 18, 0)]


def test_a_counter_that_runs_out_as_another_begins_has_run_out(monkeypatch):
    """0 draws 2 after its frame: at 3184, when 1 begins to send.  Its next frame comes meanwhile and draws 2 anew."""
    backoffs(monkeypatch, (2, 15), (15, 15), (2, 15))
    world = play(A, 7000, script([1000, 4000], [3184]), 2)
    assert world.sent == [(1000, 0), (3184, 1), (3184 + 2132 + 34 + 18, 0)]


@pytest.mark.parametrize("second", [2000, 3140])
def test_a_backoff_of_no_slots_ends_with_difs(monkeypatch, second):
    backoffs(monkeypatch, (0, 15), (9, 15), (15, 15))
    assert play(A, 5000, script([1000, second]), 1).sent == [(1000, 0), (3166, 0)]


def test_the_window_doubles_up_to_its_end_and_is_set_back_when_the_frame_is_given_up(monkeypatch):
    """Two that always draw alike, five attempts; the first of the next frame begins after the time-out, too."""
    windows = [15, 31, 63, 127, 255, 15]
    backoffs(monkeypatch, *[(1, window) for window in windows for _ in range(2)])
    mac = A.model_copy(update={"max_attempts": 5})
    world = play(mac, 12_600, script([0, 1], [0, 1]), 2)
    at, sent = 34 + 9, []
    for _ in range(6):
        sent.append((at, 0, 1))
        at += 2072 + 45 + 9
    assert world.sent == sent
    world.ledger.flush_packets()
    ends = sent[4][0] + 2072
    assert [row[:3] for row in world.log.rows] == [("given_up", ends, 0), ("given_up", ends, 1)]
    windows = [15, 31, 63, 127, 255, 511, 1023, 1023, 1023]
    backoffs(monkeypatch, *[(0, window) for window in windows for _ in range(2)])
    world = play(A, 9 * 2117, Saturated(), 2)
    assert [at for at, *_ in world.sent] == [34 + 2117 * turn for turn in range(9)]


def test_the_window_is_set_back_by_a_success(monkeypatch):
    backoffs(monkeypatch, (0, 15), (0, 15), (0, 31), (9, 31), (3, 15))
    world = play(A, 6500, Saturated(), 2)
    assert world.sent == [(34, 0, 1), (2151, 0), (2151 + 2132 + 34 + 27, 0)]


def test_rts_collide_briefly(monkeypatch):
    """RTS of 52 collide at 34; time-out at 86 + 45; then a success of 2260 whose data end at 131 + 128 + 2072."""
    backoffs(monkeypatch, (0, 15), (0, 15), (0, 31), (9, 31), (14, 15))
    world = play(A.model_copy(update={"rts": 0.0}), 2600, Saturated(), 2)
    assert world.sent == [(34, 0, 1), (131, 0), (131 + 2260 + 34 + 81, 1)]
    assert world.heard == [(2331, 0)]


def test_a_frame_without_rts_outlasts_an_rts_that_it_meets(monkeypatch):
    """400 bytes take 20 + 4 x 146 = 604 (3488 + 22 bits in symbols of 24); RTS is for what exceeds 500 bytes."""
    backoffs(monkeypatch, (0, 15), (0, 15), (2, 31), (9, 31))
    mac = A.model_copy(update={"rts": 4000.0})
    traffic = script([0.0], [0.0], sizes=(12_000.0, 3_200.0), size={"distribution": "exponential"})
    assert mac.frame_timing(3200.0).data == 608_000
    assert play(mac, 3000, traffic, 2).sent[:2] == [(34, 0, 1), (34 + 608 + 45 + 18, 0)]


def test_a_station_that_is_cut_off_takes_no_slot_of_the_others(monkeypatch, planned):
    """0 would send at 52 but is down from 40 to 9000; 1 counts its six slots as if 0 were not there.

    Once it is back, 0 waits DIFS and backs off: else all who waited for a tower would send at once when it is back.
    """
    backoffs(monkeypatch, (2, 15), (6, 15), (15, 15), (15, 15))
    medium = Medium(6e6, presence_of(planned, {0: [(40, 9000)]}))
    world = play(A, 12_000, script([0], [0]), 2, medium=medium)
    assert world.sent == [(34 + 54, 1), (9000 + 34 + 15 * 9, 0)]


def test_colliders_out_of_step_stay_so_when_another_is_cut_off(monkeypatch, planned):
    """As above, 0 and 1 collide until 2124; 2 would send at 2176 but is down: 0 sends at 2169 + 3 x 9."""
    backoffs(monkeypatch, (2, 15), (2, 15), (4, 15), (3, 31), (10, 31), (15, 15))
    medium = Medium(6e6, presence_of(planned, {2: [(2100, 90_000)]}))
    world = play(A, 2300, Saturated(), 3, medium=medium)
    assert world.sent == [(52, 0, 1), (2196, 0)]


def test_of_two_that_would_collide_one_is_cut_off(monkeypatch, planned):
    backoffs(monkeypatch, (2, 15), (2, 15), (15, 15))
    medium = Medium(6e6, presence_of(planned, {0: [(40, 90_000)]}))
    world = play(A, 2300, script([0], [0]), 2, medium=medium)
    assert (world.sent, world.heard) == ([(52, 1)], [(2124, 1)])


def test_a_tower_that_is_cut_off_keeps_all_silent(monkeypatch, planned):
    backoffs(monkeypatch, (2, 15), (9, 15), (3, 31), (9, 31))
    medium = Medium(6e6, presence_of(planned, {100: [(40, 8000)]}))
    world = play(A, 60_000, script([0], [0]), 2, medium=medium)
    assert world.sent[0][0] >= 8000
    assert sorted(user for _, user in world.heard) == [0, 1]


def test_an_outage_in_the_midst_of_a_frame_loses_it(monkeypatch, planned):
    """From 52 to 2124; 0 is down at 1000 only.  It tries again after the time-out, with a window of 31."""
    backoffs(monkeypatch, (2, 15), (1, 31), (15, 15))
    medium = Medium(6e6, presence_of(planned, {0: [(1000, 1001)]}))
    world = play(A, 6000, script([0]), 1, medium=medium)
    assert world.sent == [(52, 0), (2124 + 45 + 9, 0)]
    assert world.cell.failed == {"collided": 0, "faded": 0, "lost": 1}


def test_who_has_no_frame_any_more_when_it_is_cut_off_does_not_back_off_once_it_is_back(monkeypatch, planned):
    """Its only attempt ends at 2124, when it is down; the next frame finds the medium idle and goes at once."""
    backoffs(monkeypatch, (2, 15), (1, 15), (15, 15))
    medium = Medium(6e6, presence_of(planned, {0: [(1000, 3000)]}))
    world = play(A.model_copy(update={"max_attempts": 1}), 12_000, script([0, 9000]), 1, medium=medium)
    assert world.sent == [(52, 0), (9000, 0)]
    assert world.heard == [(9000 + 2072, 0)]


def test_a_frame_that_fades_alone_leaves_room_for_its_ack(monkeypatch, planned):
    """0 fades: from 2124 it waits 45, bystander 1 the 60 of SIFS and ACK and then DIFS, with two slots left."""
    backoffs(monkeypatch, (2, 15), (4, 15), (20, 31), (15, 15))
    world = play(A, 2400, script([0], [0]), 2, medium=fading([-9, 9], planned))
    assert world.sent == [(52, 0), (2124 + 60 + 34 + 18, 1)]


def test_who_loses_to_a_captured_frame_waits_for_its_ack(monkeypatch, planned):
    """0 is received in spite of 1, its ACK ends at 52 + 2132 = 2184: all count from DIFS after it, 1 with 31."""
    backoffs(monkeypatch, (2, 15), (2, 15), (15, 15), (3, 31))
    world = play(A, 2400, script([0], [0]), 2, medium=fading([20, 5], planned, capture_db=6))
    assert world.heard == [(2124, 0)]
    assert world.sent == [(52, 0, 1), (2184 + 34 + 27, 1)]


def test_updates_that_are_superseded_begin_with_the_least_window(monkeypatch):
    """Version 0 is sent at 3000 and 5117, in vain; version 1 comes at 7234 + 20 while both wait to try once more.

    It is trained at 10254, sent to an idle medium, collides, and has window 31 again: 2072 + 45 later.
    """
    backoffs(monkeypatch, (0, 31), (0, 31), (63, 63), (63, 63), (0, 31), (0, 31), (0, 63), (1, 63))
    world = stage(A.model_copy(update={"max_attempts": 3}), None, 2, updates=[3000, 3000])
    world.tower.schedule_broadcast(0, 0.0)
    world.tower.schedule_broadcast(1, 7254 * US)
    world.env.run(until=20_000 * US)
    assert world.sent == [
        (3000, 0, 1),
        (5117, 0, 1),
        (10254, 0, 1),
        (12371, 0, 1),
        (14488, 0),
        (14488 + 2132 + 34 + 9, 1),
    ]
    told = [(kind, who) for kind, _, who, _ in world.log.rows if kind in ("superseded", "given_up")]
    assert sorted(told) == [("superseded", 0), ("superseded", 1)]


def test_an_update_that_is_abandoned_on_the_air_goes_to_its_end(monkeypatch):
    """Both send at 3000 and fail at 5072; version 1 came at 4000 and is ready at 7000: nothing is sent before."""
    backoffs(monkeypatch, (0, 15), (0, 15), (0, 31), (2, 31), (15, 15))
    world = stage(A, None, 2, updates=[3000, 3000])
    world.tower.schedule_broadcast(0, 0.0)
    world.tower.schedule_broadcast(1, 4000 * US)
    world.env.run(until=9100 * US)
    assert world.sent == [(3000, 0, 1), (7000, 0, 1)]
    assert [row[:3] for row in world.log.rows if row[0] == "superseded"] == [
        ("superseded", 5072, 0),
        ("superseded", 5072, 1),
    ]


@pytest.mark.parametrize("users", [1, 10])
def test_at_low_load_all_that_comes_is_carried_and_hardly_waits(users):
    """2 % of the air: M/D/1 over 2166 us waits ρ/(2(1-ρ)) = 1 % of a service; half of those draw 7.5 slots."""
    mac, rate_hz = A, 0.02 / 2132e-6 / users
    traffic = Poisson.model_validate({"rate": rate_hz, "size": {"mean": BITS}})
    world = play(mac, 120e6, traffic, users)
    meter = world.ledger.packets
    world.cell.finish()
    assert 0 <= meter.offered - meter.delivered <= 1
    expected = rate_hz * users * 120
    assert abs(meter.delivered - expected) < 4.5 * np.sqrt(expected)
    delay_us = np.array(meter.delays_s) / US
    assert delay_us.min() == pytest.approx(2072, abs=0.01)
    assert 2072 < delay_us.mean() < 2072 * 1.03


@pytest.mark.parametrize("edition", [2016, 2020])
@pytest.mark.parametrize(("standard", "users"), [("802.11a", 5), ("802.11b", 20)])
@pytest.mark.slow
def test_saturated_stations_are_those_of_the_reference(standard, users, edition):
    """Throughput within 1 %, collision probability within 0.01, both of 60 s."""
    bits_s, collided, *_ = simulate(standard, users, 60.0, seed=3, edition=edition)
    world = play(CsmaCa(standard=standard, edition=edition), 60e6, Saturated(), users)
    assert len(world.heard) * BITS / 60.0 == pytest.approx(bits_s, rel=0.01)
    assert world.cell.failed["collided"] / world.cell.attempts == pytest.approx(collided, abs=0.01)


@pytest.mark.parametrize(
    ("users", "limit", "duration_s"), [(20, 2, 20.0), pytest.param(50, 4, 60.0, marks=pytest.mark.slow)]
)
def test_each_edition_drops_as_many_frames_as_its_reference_and_not_as_the_other(users, limit, duration_s):
    """Frames dropped within 4.5 standard errors; the editions are more than 20 % apart."""
    told = {}
    for edition in (2016, 2020):
        bits_s, collided, received, dropped = simulate(
            "802.11a", users, 3.0 * duration_s, 3, edition=edition, limit=limit
        )
        world = play(CsmaCa(edition=edition, max_attempts=limit), duration_s / US, Saturated(), users)
        told[edition] = world.ledger.packets.lost["given_up"] / (
            world.ledger.packets.lost["given_up"] + len(world.heard)
        )
        share = sum(dropped) / (sum(dropped) + sum(received))
        error = np.sqrt(2.0 * share * (1.0 - share) / (world.ledger.packets.lost["given_up"] + len(world.heard)))
        assert abs(told[edition] - share) < 4.5 * error
        assert len(world.heard) * BITS / duration_s == pytest.approx(bits_s, rel=0.03)
        assert world.cell.failed["collided"] / world.cell.attempts == pytest.approx(collided, abs=0.02)
    assert told[2020] < 0.8 * told[2016]


def test_colliders_wait_difs_after_the_time_out(monkeypatch):
    """The frames of 0 and 1 end at 2124, their time-out at 2169; they count from 2203, 2 from 2158 on."""
    backoffs(monkeypatch, (2, 15), (2, 15), (9, 15), (1, 31), (10, 31), (15, 15), (15, 15))
    world = play(NEW, 6700, Saturated(), 3)
    assert world.sent[:2] == [(52, 0, 1), (2203 + 9, 0)]
    begins = 2212 + 2132 + 34
    assert world.sent[2] == (begins + 9, 2), "it has counted six whole slots by 2212, and has one left"
    assert world.sent[3] == (begins + 9 + 2132 + 34 + 8 * 9, 1), "it has counted one before 2212, and one after"


def test_who_has_no_answer_to_an_rts_waits_difs_after_the_time_out(monkeypatch):
    """RTS of 52 collide at 34; the time-out ends at 86 + 45, and DIFS at 165."""
    backoffs(monkeypatch, (0, 15), (0, 15), (0, 31), (9, 31), (14, 15))
    world = play(NEW.model_copy(update={"rts": 0.0}), 2600, Saturated(), 2)
    assert world.sent[:2] == [(34, 0, 1), (165, 0)]


def test_the_window_continues_after_a_drop(monkeypatch):
    """Two that always draw alike, three attempts a frame: the fourth failure in a row sets the window back."""
    windows = [15, 31, 63, 127, 15, 31, 63, 127, 15]
    backoffs(monkeypatch, *[(0, window) for window in windows for _ in range(2)])
    cycle = 2072 + 45 + 34
    world = play(NEW.model_copy(update={"max_attempts": 3}), 9 * cycle, Saturated(), 2)
    assert [at for at, *_ in world.sent] == [34 + cycle * turn for turn in range(9)]
    assert world.ledger.packets.lost["given_up"] == 2 * 3


def test_the_window_continues_after_a_drop_though_there_is_no_next_frame_yet(monkeypatch):
    """One attempt each; the frames that come at 9000 collide again, after 15 then 31, and the third begins with 15."""
    backoffs(monkeypatch, *[(1, window) for window in (15, 31, 15, 31) for _ in range(2)])
    world = play(NEW.model_copy(update={"max_attempts": 1}), 30_000, script([0, 9000, 19_000], [0, 9000, 19_000]), 2)
    assert [at for at, *_ in world.sent] == [43, 9000, 19_000]


def test_a_superseded_update_leaves_the_window_as_it_is(monkeypatch):
    """Version 0 is sent at 3000 and 5151, in vain; version 1 comes while both wait, and is sent with window 127."""
    backoffs(monkeypatch, (0, 31), (0, 31), (200, 63), (200, 63), (0, 127), (1, 127))
    world = stage(NEW, None, 2, updates=[3000, 3000])
    world.tower.schedule_broadcast(0, 0.0)
    world.tower.schedule_broadcast(1, 7254 * US)
    world.env.run(until=14_000 * US)
    assert world.sent == [(3000, 0, 1), (5151, 0, 1), (10254, 0, 1), (10254 + 2151, 0)]


def test_the_clock_may_be_late():
    """Slots do not drift at 10^6 s: a lone station's cycle is still DIFS, whole slots, frame and ACK."""
    env_us = 1e12
    world = play(A, env_us + 1e5, script([env_us, env_us + 1, env_us + 2]), 1)
    gaps = np.diff([at for at, *_ in world.sent]) - 2166
    assert len(gaps) == 2
    assert np.abs(gaps / 9 - np.round(gaps / 9)).max() < 1e-3
