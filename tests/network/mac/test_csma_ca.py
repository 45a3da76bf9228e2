"""CSMA/CA compared with timelines worked out by hand, in microseconds.

Backoffs are scripted. 802.11a: slot 9, SIFS 16, DIFS 34, data 2072, ACK 44 (a success takes 2132), timeout 45.
802.11b: slot 20, SIFS 10, DIFS 50, data 1310, ACK 203 (1523), timeout 222, EIFS 364.
"""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import netfl
from netfl.errors import Fault
from netfl.network.clock import Clock
from netfl.network.event_log import Ending, EventLog
from netfl.network.interference.capture import Capture
from netfl.network.layout import NodeId
from netfl.network.mac import csma_ca
from netfl.network.mac.csma_ca import CsmaCa
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.radio.cell import Cell
from netfl.network.radio.connection import Connection
from netfl.network.radio.fading_medium import FadingMedium
from netfl.network.radio.medium import AirInterface, Medium
from netfl.network.radio.packet_queue import PacketQueue, TrafficArrivals
from netfl.network.radio.present_values import PresentValues
from netfl.network.radio.transmission import SharedChannel
from netfl.network.radio.update_queue import UpdateQueue
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.network.tower import Tower
from netfl.network.traffic import Traffic
from netfl.network.traffic.poisson import Poisson
from netfl.network.traffic.saturated import Saturated
from netfl.network.updates import OutstandingUpdates
from netfl.network.users import UserPopulation
from netfl.streams import Streams
from netfl.types import OUTCOMES, Law, ScenarioFacts

REFERENCE = runpy.run_path(str(Path(__file__).parents[2] / "support/dcf_reference.py"))
SETUPS, simulate = REFERENCE["SETUPS"], REFERENCE["simulate"]
US = 1e-6
A, B, BITS = CsmaCa(standard="802.11a", edition=2016), CsmaCa(standard="802.11b", edition=2016), 12_000.0
EDITION_2020 = CsmaCa(standard="802.11a")


class ScriptedTraffic(Traffic):
    """Packets at stated times in microseconds, with sizes in bits."""

    at: tuple[tuple[float, ...], ...]
    sizes: tuple[float, ...] = ()

    def times_s(self, link_bps, rng):
        raise NotImplementedError

    def blocks(self, sender, link_bps, streams):
        times_s = np.array(self.at[sender]) * US
        yield times_s, np.full(len(times_s), self.sizes[sender] if self.sizes else BITS)

    def laws(self):
        return (Law.none("a test's"),)


def script_backoffs(monkeypatch, *draws):
    """Set the next backoffs to these (slots, window); later ones take 500 slots, or the whole window."""
    uniform_values = iter([(slots + 0.5) / (window + 1) for slots, window in draws])

    def uniforms(rng):
        yield from uniform_values
        while True:
            yield 0.9999

    monkeypatch.setattr(csma_ca, "_uniforms", uniforms)
    return uniform_values


class OutcomeLog:
    """Recorder of the outcomes of packets and updates."""

    def __init__(self):
        self.rows = []

    def wants(self, kind):
        return kind in OUTCOMES

    def record(self, event):
        for at_s, user_id in np.broadcast(event.time_s, event.user):
            self.rows.append((event.kind, round_us(at_s), int(user_id), event.detail))


def round_us(time_s):
    """Return microseconds, rounded to a tenth of a nanosecond."""
    return round(float(time_s) / US, 4)


def build_simulation(mac, traffic, users, *, medium=None, updates=None):
    """Build a cell that *mac* serves, with the clock, the transmissions and the deliveries."""
    env, log, streams = Clock(), OutcomeLog(), Streams(1)
    medium = medium or Medium(mac.rate_bps)
    simulation = SimpleNamespace(env=env, log=log, sent=[], delivered=[], medium=medium)
    simulation.event_log = EventLog(log, users, nodes=users, record_packets=updates is None)
    simulation.event_log.open_round(1)
    if updates is None:
        arrivals = TrafficArrivals(traffic, range(users), mac.rate_bps, streams)
        queue, population = PacketQueue(np.arange(users), traffic, arrivals, "tower:0", simulation.event_log), None
    else:
        queue = UpdateQueue(np.arange(users), BITS, "tower:0", simulation.event_log, OutstandingUpdates(users))
        population = UserPopulation(queue, np.array(updates) * US)
    simulation.load = queue

    def uplink(message):
        simulation.delivered.append((round_us(env.now), message.user))
        if updates is None:
            message.end(simulation.event_log, Ending("delivered"), env.now)

    air = AirInterface(NodeId("tower:0", 100), medium, SharedChannel())
    simulation.cell = Cell(env, air, queue, streams, uplink)
    attempt = simulation.cell.attempt

    def spy(senders, **options):
        simulation.sent.append((round_us(max(options["begin_s"], env.now)), *sorted(int(user) for user in senders)))
        return attempt(senders, **options)

    simulation.cell.attempt = spy
    simulation.tower = Tower(simulation.cell, population, PresentValues(env, air, queue))
    env.process(mac.serve(simulation.cell))
    return simulation


def run_until(mac, until_us, traffic, users, **options):
    """Run the simulation until *until_us*."""
    simulation = build_simulation(mac, traffic, users, **options)
    simulation.env.run(until=until_us * US)
    simulation.sent = [
        transmission for transmission in simulation.sent if transmission[0] < until_us
    ]  # an idle cell records attempts in advance
    return simulation


def scripted_traffic(*times_us, **options):
    """Return packets of each station at these times in microseconds."""
    return ScriptedTraffic.model_validate({"at": times_us, **options})


def node_state(planned_outages, plan):
    """Return the state of nodes that are down in the intervals of *plan*, in microseconds."""
    spans = {node: [(start * US, end * US) for start, end in intervals] for node, intervals in plan.items()}
    return NodeState(CombinedOutages([planned_outages(spans)]), 101)


def fading_medium(snr_db, planned_outages, plan=None, rate=6e6, **options):
    """Return a medium on which user i has an SNR of snr_db[i]; the threshold is 0 dB."""
    air = SimpleNamespace(
        bandwidth_hz=1e6,
        power_offset_db=None,
        users=len(snr_db),
        delay_s=lambda users, time_s, tower="": None,
        snr_db=lambda users, time_s, tower="": np.array(snr_db, float)[users],
    )
    reception = SnrThreshold(threshold=0, rate=rate)
    return FadingMedium(air, reception, Connection(node_state(planned_outages, plan or {})), Streams(1), **options)


def test_airtimes_match_standard():
    """Frames of 1500 bytes and 36 bytes of headers, in nanoseconds; OFDM symbols take 4 µs."""
    a, b = A.frame_timing(BITS), B.frame_timing(BITS)
    assert (a.data, a.success, a.timeout, a.bystanders) == (2072000, 2132000, 45000, 34000)
    assert (b.data, b.success, b.timeout, b.bystanders) == (1310000, 1523000, 222000, 364000)
    spaces = [(phy.slot, phy.difs) for phy in csma_ca.PHYS.values()]
    assert spaces == [(9000, 34000), (20000, 50000), (9000, 28000)]
    assert A.model_copy(update={"after_collision": "eifs"}).frame_timing(BITS).bystanders == 94000
    assert B.model_copy(update={"after_collision": "difs"}).frame_timing(BITS).bystanders == 50000
    for setup, timing in ((SETUPS["802.11a"], a), (SETUPS["802.11b"], b)):
        assert (1000 * setup.data, 1000 * (setup.data + setup.sifs + setup.ack)) == (timing.data, timing.success)
    g = CsmaCa(standard="802.11g").frame_timing(BITS)  # 57 symbols of 216 bits; ACK of 2 symbols at 24 Mb/s
    assert (g.data, g.success) == (254000, 254000 + 10000 + 34000)
    eifs = CsmaCa(standard="802.11g", after_collision="eifs").frame_timing(BITS).bystanders
    assert eifs == 10000 + (20 + 24 + 6) * 1000 + 28000  # an ACK at 6 Mb/s is 6 symbols
    assert CsmaCa(standard="802.11a", rate=54e6).frame_timing(BITS).data == 248000
    assert CsmaCa(standard="802.11a", rate=54e6).frame_timing(BITS).success == 248000 + 16000 + 28000
    slow = CsmaCa(standard="802.11b", rate=1e6).frame_timing(BITS)
    assert (slow.data, slow.success) == (192000 + 12288000, 192000 + 12288000 + 10000 + 304000)


def test_airtimes_with_rts_and_cts():
    """802.11a at 6 Mb/s: RTS 52, CTS 44; a collision lasts for the RTS.  802.11b at 11 Mb/s: RTS 207, CTS 203."""
    mac = A.model_copy(update={"rts": 0.0})
    timing = mac.frame_timing(BITS)
    assert (timing.lead, timing.collision) == (52000 + 16000 + 44000 + 16000, 52000)
    assert timing.success == 52000 + 16000 + 44000 + 16000 + 2072000 + 16000 + 44000
    timing = B.model_copy(update={"rts": 0.0}).frame_timing(BITS)
    assert (timing.lead, timing.collision) == (207000 + 10000 + 203000 + 10000, 207000)
    at_threshold = A.model_copy(update={"rts": BITS})
    assert at_threshold.frame_timing(BITS) == A.frame_timing(BITS)
    assert at_threshold.frame_timing(BITS + 1).lead > 0


@pytest.mark.parametrize(("standard", "rate"), [("802.11a", 11.0), ("802.11b", 6.0), ("802.11g", 5.5)])
def test_rate_outside_standard_is_rejected(standard, rate):
    [fault] = CsmaCa(standard=standard, rate=rate).faults(ScenarioFacts(users=1, rounds=1))
    assert isinstance(fault, Fault)
    assert (fault.key, fault.value) == ("rate", rate)


def test_single_station(monkeypatch):
    """34 + 3 x 9 = 61; the ACK ends at 61 + 2132 = 2193, and so on."""
    script_backoffs(monkeypatch, (3, 15), (0, 15), (5, 15))
    simulation = run_until(A, 6600, Saturated(), 1)
    assert simulation.sent == [(61, 0), (2227, 0), (2227 + 2132 + 34 + 45, 0)]
    assert simulation.delivered == [(2133, 0), (4299, 0), (6510, 0)]


def test_counters_freeze_during_transmission(monkeypatch):
    """Station 0 sends at 34 + 27; 1 has 2 of 5 slots left, 0 draws 4; then 1 draws 0 and sends first; 0 has 2 left."""
    script_backoffs(monkeypatch, (3, 15), (5, 15), (4, 15), (0, 15), (9, 15))
    simulation = run_until(A, 6700, Saturated(), 2)
    assert simulation.sent == [(61, 0), (2193 + 34 + 18, 1), (2245 + 2132 + 34, 1), (4411 + 2132 + 34 + 18, 0)]


def test_stations_are_out_of_step_after_collision(monkeypatch):
    """The frames of 0 and 1 end at 2124; 2 counts from 2158, they count from 2169, 1 and 10 slots of windows of 31."""
    script_backoffs(monkeypatch, (2, 15), (2, 15), (4, 15), (1, 31), (10, 31), (15, 15), (15, 15))
    simulation = run_until(A, 6600, Saturated(), 3)
    assert simulation.sent[:3] == [(52, 0, 1), (2176, 2), (2176 + 2132 + 34 + 9, 0)], "2 has counted both of its slots"
    script_backoffs(monkeypatch, (2, 15), (2, 15), (5, 15), (1, 31), (10, 31), (15, 15), (15, 15))
    simulation = run_until(A, 6700, Saturated(), 3)
    start_us = 2178 + 2132 + 34  # 2 has counted two whole slots by 2178, and has one left
    assert simulation.sent[:3] == [(52, 0, 1), (2178, 0), (start_us + 9, 2)]
    assert simulation.sent[3][0] == start_us + 9 + 2132 + 34 + 8 * 9, (
        "1 has counted a whole slot before 2178, and one after"
    )
    assert simulation.sent[3][1:] == (1,)


def test_bystanders_of_802_11b_wait_eifs(monkeypatch):
    """Frames end at 90 + 1310 = 1400: colliding stations count from 1622, 2 counts from 1764 with three slots left."""
    script_backoffs(monkeypatch, (2, 31), (2, 31), (5, 31), (3, 63), (30, 63), (31, 31), (31, 31))
    simulation = run_until(B, 5200, Saturated(), 3)
    start_us = 1682 + 1523 + 50
    assert simulation.sent[:3] == [(90, 0, 1), (1682, 0), (start_us + 60, 2)]
    script_backoffs(monkeypatch, (2, 31), (2, 31), (5, 31), (12, 63), (30, 63), (31, 31), (31, 31))
    simulation = run_until(B, 5200, Saturated(), 3)
    assert simulation.sent[:2] == [(90, 0, 1), (1824, 2)], "0 would be at 1622 + 240 = 1862"
    assert simulation.sent[2] == (1824 + 1523 + 50 + 2 * 20, 0), "station 0 has counted 10 whole slots by 1824"


def test_frame_is_sent_at_once_on_idle_medium(monkeypatch):
    script_backoffs(monkeypatch, (6, 15), (2, 15))
    simulation = run_until(A, 20_000, scripted_traffic([1000.0, 10_000.5]), 1)
    assert simulation.sent == [(1000, 0), (10_000.5, 0)]


@pytest.mark.parametrize(
    ("second_us", "start_us"),
    [(2000, 3220), (3100, 3220), (3140, 3220), (3200, 3220), (3220, 3220), (3220.5, 3220.5), (3166, 3220)],
)
def test_backoff_after_frame_applies_to_next_frame(monkeypatch, second_us, start_us):
    """The ACK ends at 3132 and DIFS at 3166; six slots later, at 3220, the counter is at zero."""
    script_backoffs(monkeypatch, (6, 15), (0, 15))
    assert run_until(A, 9000, scripted_traffic([1000, second_us]), 1).sent == [(1000, 0), (start_us, 0)]


@pytest.mark.parametrize(
    ("second_us", "start_us"),
    [(2000, 3202), (3100, 3202), (3133, 3202), (3165, 3202), (3166, 3166), (3170.25, 3170.25)],
)
def test_station_backs_off_on_busy_medium(monkeypatch, second_us, start_us):
    """Station 0 sends from 1000; 1 draws 4: 3132 + 34 + 36."""
    script_backoffs(monkeypatch, (15, 15), (4, 15), (15, 15))
    simulation = run_until(A, 3300, scripted_traffic([1000], [second_us]), 2)
    assert simulation.sent == [(1000, 0), (start_us, 1)]


def test_new_frame_freezes_counter_of_other_station(monkeypatch):
    """Station 0 counts 5 slots from 34; 1 sends a new frame at 57.5, in the third slot: 0 has 3 left."""
    script_backoffs(monkeypatch, (5, 15), (15, 15))
    simulation = run_until(A, 2400, scripted_traffic([0.0], [57.5]), 2)
    assert simulation.sent == [(57.5, 1), (57.5 + 2132 + 34 + 27, 0)]


def test_simultaneous_frames_on_idle_medium_collide(monkeypatch):
    script_backoffs(monkeypatch, (0, 31), (3, 31))
    simulation = run_until(A, 9000, scripted_traffic([1000], [1000]), 2)
    assert simulation.sent[:2] == [(1000, 0, 1), (3072 + 45, 0)]


def test_expired_counter_is_redrawn_on_busy_medium(monkeypatch):
    """Station 0 sends at 1000 and draws 1, which expires at 3175.

    1 sends from 3400, when a frame arrives at 0: it draws 2.
    """
    script_backoffs(monkeypatch, (1, 15), (15, 15), (2, 15))
    simulation = run_until(A, 7000, scripted_traffic([1000, 4000], [3400]), 2)
    assert simulation.sent == [(1000, 0), (3400, 1), (3400 + 2132 + 34 + 18, 0)]


def test_counter_that_expires_at_start_of_frame_is_redrawn(monkeypatch):
    """Station 0 draws 2 after its frame, until 3184, when 1 starts to send. Its next frame then draws 2 again."""
    script_backoffs(monkeypatch, (2, 15), (15, 15), (2, 15))
    simulation = run_until(A, 7000, scripted_traffic([1000, 4000], [3184]), 2)
    assert simulation.sent == [(1000, 0), (3184, 1), (3184 + 2132 + 34 + 18, 0)]


@pytest.mark.parametrize("second_us", [2000, 3140])
def test_backoff_of_zero_slots_ends_with_difs(monkeypatch, second_us):
    script_backoffs(monkeypatch, (0, 15), (9, 15), (15, 15))
    assert run_until(A, 5000, scripted_traffic([1000, second_us]), 1).sent == [(1000, 0), (3166, 0)]


def test_window_doubles_and_resets_when_frame_is_given_up(monkeypatch):
    """Two stations always draw the same values, with five attempts; the next frame also starts after the timeout."""
    windows = [15, 31, 63, 127, 255, 15]
    script_backoffs(monkeypatch, *[(1, window) for window in windows for _ in range(2)])
    mac = A.model_copy(update={"max_attempts": 5})
    simulation = run_until(mac, 12_600, scripted_traffic([0, 1], [0, 1]), 2)
    start_us, sent = 34 + 9, []
    for _ in range(6):
        sent.append((start_us, 0, 1))
        start_us += 2072 + 45 + 9
    assert simulation.sent == sent
    simulation.event_log.flush_packets()
    end_us = sent[4][0] + 2072
    assert [row[:3] for row in simulation.log.rows] == [("given_up", end_us, 0), ("given_up", end_us, 1)]
    windows = [15, 31, 63, 127, 255, 511, 1023, 1023, 1023]
    script_backoffs(monkeypatch, *[(0, window) for window in windows for _ in range(2)])
    simulation = run_until(A, 9 * 2117, Saturated(), 2)
    assert [start_us for start_us, *_ in simulation.sent] == [34 + 2117 * turn for turn in range(9)]


def test_window_resets_after_success(monkeypatch):
    script_backoffs(monkeypatch, (0, 15), (0, 15), (0, 31), (9, 31), (3, 15))
    simulation = run_until(A, 6500, Saturated(), 2)
    assert simulation.sent == [(34, 0, 1), (2151, 0), (2151 + 2132 + 34 + 27, 0)]


def test_rts_collisions_are_short(monkeypatch):
    """RTS of 52 collide at 34; the timeout ends at 86 + 45; a success of 2260 has data until 131 + 128 + 2072."""
    script_backoffs(monkeypatch, (0, 15), (0, 15), (0, 31), (9, 31), (14, 15))
    simulation = run_until(A.model_copy(update={"rts": 0.0}), 2600, Saturated(), 2)
    assert simulation.sent == [(34, 0, 1), (131, 0), (131 + 2260 + 34 + 81, 1)]
    assert simulation.delivered == [(2331, 0)]


def test_frame_without_rts_outlasts_colliding_rts(monkeypatch):
    """400 bytes take 20 + 4 x 146 = 604 (3488 + 22 bits in symbols of 24); RTS applies above 500 bytes."""
    script_backoffs(monkeypatch, (0, 15), (0, 15), (2, 31), (9, 31))
    mac = A.model_copy(update={"rts": 4000.0})
    traffic = scripted_traffic([0.0], [0.0], sizes=(12_000.0, 3_200.0), size={"distribution": "exponential"})
    assert mac.frame_timing(3200.0).data == 608_000
    assert run_until(mac, 3000, traffic, 2).sent[:2] == [(34, 0, 1), (34 + 608 + 45 + 18, 0)]


def test_station_that_is_down_does_not_delay_others(monkeypatch, planned_outages):
    """Station 0 would send at 52 but is down from 40 to 9000; 1 counts its six slots.

    Afterwards 0 waits DIFS and backs off; otherwise all stations would send at the end of an outage of the tower.
    """
    script_backoffs(monkeypatch, (2, 15), (6, 15), (15, 15), (15, 15))
    medium = Medium(6e6, Connection(node_state(planned_outages, {0: [(40, 9000)]})))
    simulation = run_until(A, 12_000, scripted_traffic([0], [0]), 2, medium=medium)
    assert simulation.sent == [(34 + 54, 1), (9000 + 34 + 15 * 9, 0)]


def test_colliding_stations_keep_their_counters_during_outage_of_third(monkeypatch, planned_outages):
    """Stations 0 and 1 collide until 2124; 2 would send at 2176 but is down: 0 sends at 2169 + 3 x 9."""
    script_backoffs(monkeypatch, (2, 15), (2, 15), (4, 15), (3, 31), (10, 31), (15, 15))
    medium = Medium(6e6, Connection(node_state(planned_outages, {2: [(2100, 90_000)]})))
    simulation = run_until(A, 2300, Saturated(), 3, medium=medium)
    assert simulation.sent == [(52, 0, 1), (2196, 0)]


def test_station_that_is_down_causes_no_collision(monkeypatch, planned_outages):
    script_backoffs(monkeypatch, (2, 15), (2, 15), (15, 15))
    medium = Medium(6e6, Connection(node_state(planned_outages, {0: [(40, 90_000)]})))
    simulation = run_until(A, 2300, scripted_traffic([0], [0]), 2, medium=medium)
    assert (simulation.sent, simulation.delivered) == ([(52, 1)], [(2124, 1)])


def test_tower_outage_silences_all_stations(monkeypatch, planned_outages):
    script_backoffs(monkeypatch, (2, 15), (9, 15), (3, 31), (9, 31))
    medium = Medium(6e6, Connection(node_state(planned_outages, {100: [(40, 8000)]})))
    simulation = run_until(A, 60_000, scripted_traffic([0], [0]), 2, medium=medium)
    assert simulation.sent[0][0] >= 8000
    assert sorted(user for _, user in simulation.delivered) == [0, 1]


def test_outage_during_frame_loses_it(monkeypatch, planned_outages):
    """The frame lasts from 52 to 2124; 0 is down at 1000 only. It repeats after the timeout, with a window of 31."""
    script_backoffs(monkeypatch, (2, 15), (1, 31), (15, 15))
    medium = Medium(6e6, Connection(node_state(planned_outages, {0: [(1000, 1001)]})))
    simulation = run_until(A, 6000, scripted_traffic([0]), 1, medium=medium)
    assert simulation.sent == [(52, 0), (2124 + 45 + 9, 0)]
    assert simulation.cell.transmit_path.failed == {"collided": 0, "faded": 0, "lost": 1}


def test_station_without_frame_does_not_back_off_after_outage(monkeypatch, planned_outages):
    """The only attempt ends at 2124 during the outage; the next frame finds the medium idle."""
    script_backoffs(monkeypatch, (2, 15), (1, 15), (15, 15))
    medium = Medium(6e6, Connection(node_state(planned_outages, {0: [(1000, 3000)]})))
    simulation = run_until(
        A.model_copy(update={"max_attempts": 1}), 12_000, scripted_traffic([0, 9000]), 1, medium=medium
    )
    assert simulation.sent == [(52, 0), (9000, 0)]
    assert simulation.delivered == [(9000 + 2072, 0)]


def test_bystander_waits_for_ack_of_faded_frame(monkeypatch, planned_outages):
    """Station 0 fades and waits 45 from 2124; 1 waits for SIFS, ACK (60) and DIFS with two slots left."""
    script_backoffs(monkeypatch, (2, 15), (4, 15), (20, 31), (15, 15))
    simulation = run_until(A, 2400, scripted_traffic([0], [0]), 2, medium=fading_medium([-9, 9], planned_outages))
    assert simulation.sent == [(52, 0), (2124 + 60 + 34 + 18, 1)]


def test_station_waits_for_ack_of_captured_frame(monkeypatch, planned_outages):
    """Station 0 is received despite 1, its ACK ends at 2184: all count from DIFS after it, 1 with window 31."""
    script_backoffs(monkeypatch, (2, 15), (2, 15), (15, 15), (3, 31))
    simulation = run_until(
        A,
        2400,
        scripted_traffic([0], [0]),
        2,
        medium=fading_medium([20, 5], planned_outages, interference=Capture(margin=6)),
    )
    assert simulation.delivered == [(2124, 0)]
    assert simulation.sent == [(52, 0, 1), (2184 + 34 + 27, 1)]


def test_superseding_update_starts_with_smallest_window(monkeypatch):
    """Version 0 fails at 3000 and 5117; version 1 arrives at 7254 while both wait.

    It is trained at 10254, is sent on the idle medium, collides, and has window 31 again 2072 + 45 later.
    """
    script_backoffs(monkeypatch, (0, 31), (0, 31), (63, 63), (63, 63), (0, 31), (0, 31), (0, 63), (1, 63))
    simulation = build_simulation(A.model_copy(update={"max_attempts": 3}), None, 2, updates=[3000, 3000])
    simulation.tower.schedule_broadcast(0, 0.0)
    simulation.tower.schedule_broadcast(1, 7254 * US)
    simulation.env.run(until=20_000 * US)
    assert simulation.sent == [
        (3000, 0, 1),
        (5117, 0, 1),
        (10254, 0, 1),
        (12371, 0, 1),
        (14488, 0),
        (14488 + 2132 + 34 + 9, 1),
    ]
    outcomes = [(kind, user) for kind, _, user, _ in simulation.log.rows if kind in ("superseded", "given_up")]
    assert sorted(outcomes) == [("superseded", 0), ("superseded", 1)]


def test_superseded_update_on_air_is_completed(monkeypatch):
    """Both send at 3000 and fail at 5072; version 1 arrives at 4000 and is ready at 7000."""
    script_backoffs(monkeypatch, (0, 15), (0, 15), (0, 31), (2, 31), (15, 15))
    simulation = build_simulation(A, None, 2, updates=[3000, 3000])
    simulation.tower.schedule_broadcast(0, 0.0)
    simulation.tower.schedule_broadcast(1, 4000 * US)
    simulation.env.run(until=9100 * US)
    assert simulation.sent == [(3000, 0, 1), (7000, 0, 1)]
    assert [row[:3] for row in simulation.log.rows if row[0] == "superseded"] == [
        ("superseded", 5072, 0),
        ("superseded", 5072, 1),
    ]


@pytest.mark.parametrize("users", [1, 10])
def test_low_load_is_delivered_with_short_delays(users):
    """At 2 % load, M/D/1 over 2166 µs waits ρ/(2(1-ρ)) = 1 % of a service; half of these draw 7.5 slots."""
    mac, rate_hz = A, 0.02 / 2132e-6 / users
    traffic = Poisson.model_validate({"rate": rate_hz, "size": {"mean": BITS}})
    simulation = run_until(mac, 120e6, traffic, users)
    counter = simulation.event_log.packets
    simulation.cell.finish()
    assert 0 <= counter.offered - counter.delivered <= 1
    expected = rate_hz * users * 120
    assert abs(counter.delivered - expected) < 4.5 * np.sqrt(expected)
    delay_us = np.array(counter.delays_s) / US
    assert delay_us.min() == pytest.approx(2072, abs=0.01)
    assert 2072 < delay_us.mean() < 2072 * 1.03


@pytest.mark.parametrize("edition", [2016, 2020])
@pytest.mark.parametrize(("standard", "users"), [("802.11a", 5), ("802.11b", 20)])
@pytest.mark.slow
def test_saturated_stations_match_reference(standard, users, edition):
    """Throughput agrees within 1 % and collision probability within 0.01, both over 60 s."""
    bits_s, collided, *_ = simulate(standard, users, 60.0, seed=3, edition=edition)
    simulation = run_until(CsmaCa(standard=standard, edition=edition), 60e6, Saturated(), users)
    assert len(simulation.delivered) * BITS / 60.0 == pytest.approx(bits_s, rel=0.01)
    path = simulation.cell.transmit_path
    assert path.failed["collided"] / path.attempts == pytest.approx(collided, abs=0.01)


@pytest.mark.parametrize(
    ("users", "limit", "duration_s"), [(20, 2, 20.0), pytest.param(50, 4, 60.0, marks=pytest.mark.slow)]
)
def test_drop_rates_of_editions_match_reference(users, limit, duration_s):
    """Shares of dropped frames agree within 4.5 standard errors; the editions differ by more than 20 %."""
    drop_rates = {}
    for edition in (2016, 2020):
        bits_s, collided, received, dropped = simulate(
            "802.11a", users, 3.0 * duration_s, 3, edition=edition, limit=limit
        )
        simulation = run_until(CsmaCa(edition=edition, max_attempts=limit), duration_s / US, Saturated(), users)
        drop_rates[edition] = simulation.event_log.packets.lost["given_up"] / (
            simulation.event_log.packets.lost["given_up"] + len(simulation.delivered)
        )
        share = sum(dropped) / (sum(dropped) + sum(received))
        error = np.sqrt(
            2.0 * share * (1.0 - share) / (simulation.event_log.packets.lost["given_up"] + len(simulation.delivered))
        )
        assert abs(drop_rates[edition] - share) < 4.5 * error
        assert len(simulation.delivered) * BITS / duration_s == pytest.approx(bits_s, rel=0.03)
        path = simulation.cell.transmit_path
        assert path.failed["collided"] / path.attempts == pytest.approx(collided, abs=0.02)
    assert drop_rates[2020] < 0.8 * drop_rates[2016]


def test_colliding_stations_wait_difs_after_timeout(monkeypatch):
    """The frames of 0 and 1 end at 2124, their timeout at 2169; they count from 2203, 2 counts from 2158."""
    script_backoffs(monkeypatch, (2, 15), (2, 15), (9, 15), (1, 31), (10, 31), (15, 15), (15, 15))
    simulation = run_until(EDITION_2020, 6700, Saturated(), 3)
    assert simulation.sent[:2] == [(52, 0, 1), (2203 + 9, 0)]
    start_us = 2212 + 2132 + 34
    assert simulation.sent[2] == (start_us + 9, 2), "station 2 has counted six slots by 2212, with one left"
    assert simulation.sent[3] == (start_us + 9 + 2132 + 34 + 8 * 9, 1), (
        "station 1 has counted one slot before 2212 and one after"
    )


def test_station_waits_difs_after_rts_timeout(monkeypatch):
    """RTS of 52 collide at 34; the timeout ends at 86 + 45, and DIFS at 165."""
    script_backoffs(monkeypatch, (0, 15), (0, 15), (0, 31), (9, 31), (14, 15))
    simulation = run_until(EDITION_2020.model_copy(update={"rts": 0.0}), 2600, Saturated(), 2)
    assert simulation.sent[:2] == [(34, 0, 1), (165, 0)]


def test_window_continues_after_drop(monkeypatch):
    """Two stations always draw the same values, three attempts a frame: the fourth failure resets the window."""
    windows = [15, 31, 63, 127, 15, 31, 63, 127, 15]
    script_backoffs(monkeypatch, *[(0, window) for window in windows for _ in range(2)])
    cycle = 2072 + 45 + 34
    simulation = run_until(EDITION_2020.model_copy(update={"max_attempts": 3}), 9 * cycle, Saturated(), 2)
    assert [start_us for start_us, *_ in simulation.sent] == [34 + cycle * turn for turn in range(9)]
    assert simulation.event_log.packets.lost["given_up"] == 2 * 3


def test_window_continues_after_drop_with_empty_queue(monkeypatch):
    """With one attempt each, the frames at 9000 collide again with window 31, and the third frame has 15."""
    script_backoffs(monkeypatch, *[(1, window) for window in (15, 31, 15, 31) for _ in range(2)])
    simulation = run_until(
        EDITION_2020.model_copy(update={"max_attempts": 1}),
        30_000,
        scripted_traffic([0, 9000, 19_000], [0, 9000, 19_000]),
        2,
    )
    assert [start_us for start_us, *_ in simulation.sent] == [43, 9000, 19_000]


def test_superseded_update_keeps_window(monkeypatch):
    """Version 0 fails at 3000 and 5151; version 1 arrives while both wait, and is sent with window 127."""
    script_backoffs(monkeypatch, (0, 31), (0, 31), (200, 63), (200, 63), (0, 127), (1, 127))
    simulation = build_simulation(EDITION_2020, None, 2, updates=[3000, 3000])
    simulation.tower.schedule_broadcast(0, 0.0)
    simulation.tower.schedule_broadcast(1, 7254 * US)
    simulation.env.run(until=14_000 * US)
    assert simulation.sent == [(3000, 0, 1), (5151, 0, 1), (10254, 0, 1), (10254 + 2151, 0)]


@pytest.mark.parametrize(("replaced_us", "after_eighth"), [(2132, 1023), (1000, 15)], ids=["waiting", "on air"])
def test_window_of_superseded_updates_resets_after_eight_failures(monkeypatch, replaced_us, after_eighth):
    """Each update collides once and is replaced: a station would otherwise keep its window for ever.

    An update that waits is abandoned after the eighth draw, one on the air before it.  Counters run out in training.
    """
    windows = [31, 63, 127, 255, 511, 1023, 1023, after_eighth, 31, 63, 127]
    script_backoffs(monkeypatch, *[(10, window) for window in windows for _ in range(2)])
    simulation = build_simulation(EDITION_2020, None, 2, updates=[3000, 3000])
    period_us = replaced_us + 3000
    for version in range(len(windows)):
        simulation.tower.schedule_broadcast(version, version * period_us * US)
    simulation.env.run(until=len(windows) * period_us * US)
    assert simulation.sent == [(3000 + round_ * period_us, 0, 1) for round_ in range(len(windows))]


@pytest.mark.parametrize("m", [2, 5])
def test_equal_stations_have_equal_deliveries_over_rounds(tmp_path, m):
    """Users that are superseded do not keep a large window; draws of one round have a variance of less than m / 10."""
    scenario = {
        "name": "stations",
        "users": 10,
        "rounds": 200,
        "access": {
            "kind": "network",
            "topology": {"kind": "star", "distance": "10 m", "delay": "0 s", "rate": "1 Gbps"},
            "mac": "csma_ca",
            "compute": {"speed": 100, "samples": 100},
            "broadcast_rate": "1 Gbps",
            "update_size": "1.25 kB",
            "round": {"kind": "first", "m": m},
        },
    }
    for seed in range(3):
        run = netfl.trace(netfl.load(scenario | {"seed": seed}), tmp_path / f"run{seed}", progress=False)
        deliveries = np.bincount(run.deliveries["user"], minlength=10)
        expected = 20 * m
        assert np.abs(deliveries - expected).max() < 5.0 * np.sqrt(expected), deliveries


def test_slots_do_not_drift_at_late_times():
    """At 10^6 s the cycle of a single station is still DIFS, whole slots, frame and ACK."""
    env_us = 1e12
    simulation = run_until(A, env_us + 1e5, scripted_traffic([env_us, env_us + 1, env_us + 2]), 1)
    gaps = np.diff([start_us for start_us, *_ in simulation.sent]) - 2166
    assert len(gaps) == 2
    assert np.abs(gaps / 9 - np.round(gaps / 9)).max() < 1e-3
