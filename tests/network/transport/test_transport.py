"""Updates in packets: how they are cut, repeated and put together, held to hand calculations and closed forms."""

import copy
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from support.recorders import Memory

from netfl.access.network import NetworkAccess
from netfl.errors import ModelError
from netfl.network.config import NetworkConfig, RoundServiceConfig
from netfl.network.mac.round_robin import RoundRobin
from netfl.network.mac.tdma import Tdma
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.queue.drop_tail import DropTail
from netfl.network.radio.fading_medium import FadingMedium
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.network.round.first import First
from netfl.network.routing.shortest_path import ShortestPath
from netfl.network.simulator import NetworkSimulator
from netfl.network.transport.spec import Transport
from netfl.scenario.validation import nested_faults
from netfl.streams import Streams
from netfl.types import OUTCOMES, AccessContext, Delivery, ScenarioFacts

SERVER = 1  # the node number in a world of one user


def packets(**said):
    return Transport.model_validate({"grain": "packet", "mtu": 500.0} | said)


class TestCut:
    @pytest.mark.parametrize(
        ("bits", "mtu", "header", "sizes"),
        [
            (1000, 500, 0, [500, 500]),
            (1001, 500, 0, [500, 500, 1]),
            (900, 500, 100, [500, 500, 200]),
            (400, 500, 100, [500]),
            (10, 500, 100, [110]),
            (3 * 0.1, 0.1, 0, [0.1] * 3),
        ],
    )
    def test_packets_of_an_update(self, bits, mtu, header, sizes):
        cut = packets(mtu=mtu, header=header).cut(bits)
        assert [cut.packet_bits(part) for part in range(cut.count)] == pytest.approx(sizes)
        assert cut.max_bits == pytest.approx(max(sizes))

    def test_bytes_and_defaults(self):
        """1 MB in Ethernet frames with 40 B of headers: 685 packets, as 684 carry 998 640 B."""
        cut = Transport(grain="packet", header="40 B").cut(8e6)
        assert (cut.count, cut.bits, cut.last_bits) == (685, 12000, 8 * (1_000_000 - 684 * 1460 + 40))

    def test_whole(self):
        cut = Transport(header=100).cut(500)
        assert (cut.count, cut.max_bits) == (1, 600)

    @pytest.mark.parametrize(
        ("said", "problem"),
        [
            ({"mtu": "1500 B"}, "mtu\n  has no effect"),
            ({"arq": {"timeout": 1}}, "arq\n  has no effect"),
            ({"grain": "packet", "mtu": "40 B", "header": "40 B"}, "leaves no payload"),
            ({"compression": 0.5}, "greater than or equal to 1"),
            ({"grain": "packet", "arq": {"retries": 1}}, "timeout"),
            ({"grain": "packet", "arq": {"timeout": 1, "retries": -1}}, "greater than or equal to 0"),
        ],
    )
    def test_what_is_refused(self, said, problem):
        with pytest.raises(ValidationError, match=problem):
            Transport.model_validate(said)


class Coin(SnrThreshold):
    """Every packet is received with the same probability, independently."""

    chance: float

    def success(self, snr_db, bandwidth_hz, bits, mode=0):
        return np.full(len(snr_db), self.chance)


@pytest.fixture
def make_world(make_sites, make_air, planned, memory):
    """Users at one tower that have a version at 0.25 + 1 + 2 = 3.25 s; air and link carry 1000 bit/s, delay 0.25 s."""

    def make(
        transport, update_bits, *, users=1, mac=None, plan=None, deadline_s=20.0, chance=None, snr_db=None, seed=1
    ):
        sites = make_sites([("server", "tower:0", 1000.0, 0.25)], [(0, 0)] * users, {"tower:0": (0.0, 0.0)})
        outages = CombinedOutages([planned(plan)] if plan else [])
        presence = NodeState(outages, sites.nodes)
        air = make_air(snr_db or (lambda ids, time_s: np.zeros(len(ids))), users)
        reception = SnrThreshold(threshold=-3, rate=1000)
        if chance is not None:
            reception = Coin(threshold=-3, rate=1000, chance=chance)
        parts = NetworkConfig(
            layout=sites,
            medium=FadingMedium(air, reception, presence, Streams(seed)),
            mac=mac or RoundRobin(),
            shared_air=False,
            queue=DropTail(),
            queues={},
            routing=ShortestPath(),
            outages=outages,
            node_state=presence,
            traffic=(),
            service=RoundServiceConfig(
                update_bits=float(update_bits),
                compute_s=np.zeros(users),
                samples=np.ones(users),
                broadcast_bits=1000.0,
                broadcast_bps=500.0,
                rule=First(deadline=deadline_s),
                transport=transport,
            ),
        )
        return NetworkSimulator(parts, Streams(seed), memory)

    return make


class TestByHand:
    def test_packets_one_after_the_other(self, make_world, memory):
        """On the air from 3.25 and 3.75; on the link from 3.75 and 4.25, 0.4 s for the second; 0.25 s behind."""
        [one] = make_world(packets(header=100), 700).rounds(1)
        assert memory.of("sent") == [(3.25, 0), (3.75, 0)]
        assert one.deliveries == (Delivery(0, 0, 3.25, pytest.approx(4.25 + 0.4 + 0.25), 2),)
        assert one.uplink_bits == 900
        assert memory.told["packets_sent"] == 2
        assert memory.told["packets_retransmitted"] == 0

    def test_repeated_too_early(self, make_world, memory):
        """Acknowledged at 4.75 and 5.15, timers run out at 4.55 and 4.95: both are sent again, to no avail."""
        [one] = make_world(packets(arq={"timeout": 0.8}), 900).rounds(1)
        assert [round(at, 9) for at, _ in memory.of("sent")] == [3.25, 3.75, 4.55, 5.05]
        assert one.deliveries == (Delivery(0, 0, 3.25, pytest.approx(4.9), 3),)
        assert memory.outcomes() == {(0, 0): ["delivered"]}
        assert one.uplink_bits == 1800
        assert (memory.told["packets_sent"], memory.told["packets_retransmitted"]) == (4, 2)

    def test_an_acknowledgement_takes_a_queued_repeat_back(self, make_world, memory):
        """Slots of 0.8 s: on the air from 4 to 4.5, acknowledged at 5.5; timed out at 5.4, next slot 5.6."""
        mac = Tdma(slot=0.8)
        [one] = make_world(packets(arq={"timeout": 1.2}), 900, mac=mac).rounds(1)
        assert [round(at, 9) for at, _ in memory.of("sent")] == [4.0, 4.8]
        memory.rows.clear()
        [one] = make_world(packets(arq={"timeout": 0.9}), 900, mac=mac).rounds(1)
        assert [round(at, 9) for at, _ in memory.of("sent")] == [4.0, 4.8]
        assert one.deliveries[0].attempts == 2

    def test_lost_behind_the_air(self, make_world, memory):
        """The server is down when the first packet comes at 4.5; its timer runs out at 5.75."""
        plan = {SERVER: [(4.4, 4.6)]}
        [one] = make_world(packets(arq={"timeout": 2}), 1000, plan=plan).rounds(1)
        assert [at for at, _ in memory.of("sent")] == [3.25, 3.75, 5.75]
        assert one.deliveries == (Delivery(0, 0, 3.25, 7.0, 3),)

    def test_without_arq_the_first_loss_ends_it(self, make_world, memory):
        """At 4.5, when the third packet is on the air; the other two are not sent."""
        [one] = make_world(packets(), 2500, plan={SERVER: [(4.4, 4.6)]}).rounds(1)
        assert memory.outcomes() == {(0, 0): ["lost"]}
        assert memory.of("lost") == [(4.5, 0)]
        assert [at for at, _ in memory.of("sent")] == [3.25, 3.75, 4.25]
        assert (one.deliveries, one.uplink_bits) == ((), 1500)

    def test_a_window_of_one_stops_and_waits(self, make_world, memory):
        """0.5 s on the air, 0.5 s on the link and twice 0.25 s of delay from one packet to the next."""
        [one] = make_world(packets(arq={"timeout": 9, "window": 1}), 1500).rounds(1)
        assert [at for at, _ in memory.of("sent")] == [3.25, 4.75, 6.25]
        assert one.deliveries[0].arrived_s == 7.5

    def test_given_up_by_the_clock(self, make_world, memory):
        list(make_world(packets(arq={"timeout": 0.1, "retries": 0}), 1000).rounds(1))
        assert memory.outcomes() == {(0, 0): ["given_up timeout"]}
        assert [round(at, 9) for at, _ in memory.of("given_up")] == [3.85]
        assert len(memory.of("sent")) == 2, "what is on the air is sent to its end"

    def test_what_the_mac_gives_up_is_repeated_after_the_time_out(self, make_world, memory):
        """All fades until 6: attempts end at 3.75 and 4.25, timers at 4.75 and 5.25; those attempts fail, too."""
        fade = {"snr_db": lambda ids, time_s: np.full(len(ids), -10.0 if time_s < 6.0 else 10.0)}
        mac = RoundRobin(max_attempts=1)
        [one] = make_world(packets(arq={"timeout": 1}), 1000, mac=mac, **fade).rounds(1)
        assert [at for at, _ in memory.of("sent")] == [3.25, 3.75, 4.75, 5.25, 6.25, 6.75]
        assert one.deliveries == (Delivery(0, 0, 3.25, 8.0, 6),)
        memory.rows.clear()
        list(make_world(packets(arq={"timeout": 1, "retries": 1}), 1000, mac=mac, **fade).rounds(1))
        assert memory.outcomes() == {(0, 0): ["given_up faded"]}
        assert memory.of("given_up") == [(6.25, 0)]
        memory.rows.clear()
        list(make_world(packets(), 1000, mac=mac, **fade).rounds(1))
        assert memory.outcomes() == {(0, 0): ["faded"]}

    def test_attempts_of_the_mac_are_those_of_a_packet(self, make_world, memory):
        """Two attempts per update: the second packet gets through with its second."""
        snr = {"snr_db": lambda ids, time_s: np.full(len(ids), -10.0 if time_s in {3.25, 4.25} else 10.0)}
        [one] = make_world(packets(), 1000, mac=RoundRobin(max_attempts=2), **snr).rounds(1)
        assert one.deliveries[0].attempts == 4
        assert memory.of("failed") == [(3.75, 0), (4.75, 0)]
        assert (memory.told["packets_sent"], memory.told["attempts"]) == (2, 4)

    def test_a_newer_version_ends_what_has_to_be_sent_still(self, make_world, memory):
        """The next version comes at 7.25: eight of nine packets have been sent, the ninth would go then."""
        list(make_world(packets(), 4500, deadline_s=4.0).rounds(2))
        assert memory.outcomes()[0, 0] == ["superseded"]
        assert memory.of("superseded") == [(7.25, 0)]

    def test_what_is_all_on_its_way_is_late(self, make_world, memory):
        """Seven packets are on the air until 6.75, at the server at 7.5; the next version came at 7.25."""
        list(make_world(packets(arq={"timeout": 5}), 3500, deadline_s=4.0).rounds(3))
        assert memory.outcomes()[0, 0] == ["late"]
        assert memory.of("late")[0] == (7.5, 0)

    def test_who_is_cut_off_for_good_holds_no_round_up(self, make_world, memory):
        """Both have sent one packet of two when user 1 goes; the round closes with user 0's, at once."""
        world = make_world(packets(arq={"timeout": 9}), 1000, users=2, plan={1: [(4.3, np.inf)]}, deadline_s=None)
        [one] = world.rounds(1)
        assert [each.user for each in one.deliveries] == [0]
        assert memory.outcomes() == {(0, 0): ["delivered"], (1, 0): ["unfinished"]}


def expected_sends(loss, most):
    """The mean number of sendings of a packet that got through with at most so many."""
    chances = loss ** np.arange(most) * (1 - loss)
    return (np.arange(1, most + 1) * chances).sum() / chances.sum()


@pytest.mark.parametrize(("count", "limit", "retries"), [(4, 1, None), (3, 2, None), (4, 1, 1), (2, 1, 3), (6, 2, 1)])
@pytest.mark.slow
def test_how_many_updates_get_through(make_world, count, limit, retries):
    """(1 - p^(L (r+1)))^n, L the attempts of the MAC; attempts of a packet are geometric, cut off (± 4.5 errors)."""
    loss, users = 0.4, 1500
    arq = None if retries is None else {"timeout": 0.3}
    arq = arq and arq | {"timeout": 1e5, "retries": retries}  # long after all acknowledgements
    mac = Tdma(max_attempts=limit)
    world = make_world(packets(arq=arq), 500 * count, users=users, mac=mac, chance=1 - loss, deadline_s=5e6, seed=5)
    [one] = world.rounds(1)
    most = limit * (1 + (retries or 0))
    share = (1 - loss**most) ** count
    assert abs(len(one.deliveries) / users - share) < 4.5 * np.sqrt(share * (1 - share) / users)
    attempts = np.array([each.attempts for each in one.deliveries])
    assert abs(attempts.mean() - count * expected_sends(loss, most)) <= 4.5 * attempts.std() / np.sqrt(len(attempts))


PLAIN = {
    "topology": {"kind": "tree", "fanout": [2, 2], "ring": "2 km", "radius": "3 km", "rate": "20 kbps"},
    "radio": {"power": "20 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
    "channel": [
        {"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"},
        {"kind": "rayleigh", "coherence": "1 s"},
    ],
    "reception": {"kind": "snr_threshold", "threshold": "3 dB", "rate": "20 kbps"},
    "mac": {"kind": "slotted_aloha", "probability": 0.2},
    "compute": {"speed": 10.0, "spread": 0.5, "samples": 50},
    "broadcast_rate": "50 kbps",
    "update_size": "10 kbit",
    "round": {"kind": "first", "m": 3},
}
MACS = [
    {"kind": "slotted_aloha", "probability": 0.3},
    {"kind": "slotted_aloha", "adaptive": "backoff"},
    {"kind": "slotted_aloha", "adaptive": "known"},
    {"kind": "pure_aloha", "backoff": "2 s"},
    {"kind": "tdma"},
    {"kind": "round_robin", "poll": "10 ms"},
    {"kind": "proportional_fair", "window": 10},
]
LORA = {
    "reception": {"kind": "lora"},
    "mac": {"kind": "lorawan", "max_attempts": 3},
    "update_size": "300 B",
    "interference": "collide",
}


def play(said, users=8, rounds=5, seed=1):
    """The rounds and the log of one run of the plain network with some keys said otherwise."""
    log, access = Memory(), NetworkAccess.model_validate(copy.deepcopy(PLAIN) | said)
    streams = Streams(seed).at("access", 0)
    setting = AccessContext(users, rounds, 0, streams, np.ones(users), 1e4, 1e4, log)
    return list(access.rounds(setting)), log


def survives(said, seed):
    """The same, unless everybody is cut off for good before the end."""
    try:
        return play(said, seed=seed)
    except ModelError:
        return reject()


def hold(rounds, log, *, traffic=False):
    """Whatever happens, these hold; the bits of traffic, whose steps are not recorded, are counted with the rest."""
    begun = Counter((row[3], row[5]) for row in log.rows if row[0] == "received")
    ended = Counter((row[3], row[5]) for row in log.rows if row[0] in OUTCOMES)
    assert begun == ended
    assert set(begun.values()) == {1}
    told = [(row[3], row[5], row[1]) for row in log.rows if row[0] == "delivered"]
    assert told == [(one.user, one.base, one.arrived_s) for each in rounds for one in each.deliveries]
    sent = Counter()
    for row in log.rows:
        if row[0] == "sent":
            sent[row[2]] += row[5]
    counted = np.array([each.uplink_bits - sent[each.index] for each in rounds])
    assert (counted >= -1e-6).all() if traffic else np.abs(counted).max() < 1e-6
    attempts = sum(row[0] == "sent" for row in log.rows)
    assert log.told.get("packets_retransmitted", 0) <= log.told.get("packets_sent", attempts) <= attempts


ARQS = st.none() | st.fixed_dictionaries(
    {"timeout": st.sampled_from([0.3, 2.0, 15.0]), "retries": st.integers(0, 3)},
    optional={"window": st.integers(1, 4)},
)
RENEWAL = {
    "kind": "renewal",
    "up": {"distribution": "exponential", "mean": 25},
    "down": {"distribution": "fixed", "mean": 6},
}
FOR_EVER = {"kind": "calendar", "file": str(Path(__file__).parents[1] / "data" / "gone.csv")}
OUTAGES = st.lists(
    st.sampled_from([RENEWAL | {"nodes": nodes} for nodes in ("users", "towers", "routers", ["router:1"])]), max_size=2
) | st.just([FOR_EVER])


@st.composite
def networks(draw):
    """Small networks in which all goes wrong that can."""
    mac = draw(st.sampled_from(MACS)) | {"max_attempts": draw(st.sampled_from([1, 2, None]))}
    first, deadline = draw(st.sampled_from([(2, None), (None, 9.0), (3, 20.0)]))
    said = {"mac": mac, "round": {"kind": "first", "m": first, "deadline": deadline}, "outages": draw(OUTAGES)}
    said["queue"] = {"kind": "drop_tail", "capacity": draw(st.integers(0, 4))}
    said["compute"] = {"speed": 10.0, "spread": 1.0, "samples": draw(st.sampled_from([0.0, 20.0]))}
    if draw(st.booleans()):
        said["traffic"] = {"kind": "poisson", "rate": 0.1, "size": {"mean": "50 B"}}
    return said


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(networks(), ARQS, st.sampled_from([1500.0, 3000.0, 10_100.0]), st.integers(0, 9))
@pytest.mark.slow
def test_every_update_has_one_fate_and_all_bits_are_counted(said, arq, mtu, seed):
    transport = {"grain": "packet", "mtu": mtu, "header": 100, "arq": arq}
    rounds, log = survives(said | {"transport": transport}, seed)
    hold(rounds, log, traffic="traffic" in said)
    assert play(said | {"transport": transport}, seed=seed)[0] == rounds


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(networks(), st.integers(0, 9))
@pytest.mark.slow
def test_one_packet_without_a_header_is_a_message(said, seed):
    rounds, log = survives(said, seed)
    same, told = play(said | {"transport": {"grain": "packet", "mtu": "10 kbit"}}, seed=seed)
    assert same == rounds
    assert sorted(map(str, log.rows)) == sorted(map(str, told.rows))
    assert told.told["packets_sent"] > 0


def test_with_retries_that_are_never_needed_it_is_the_same(make_world, memory):
    """Arq changes nothing where nothing is lost and time-outs are long."""
    said = {"channel": PLAIN["channel"][:1], "mac": {"kind": "tdma"}}
    arq = {"timeout": "1 h"}
    plain, with_arq = (
        play(said | {"transport": {"grain": "packet", "mtu": 3000, "arq": each}})[0] for each in (None, arq)
    )
    assert plain == with_arq
    assert sum(len(each.deliveries) for each in plain) == 15


@pytest.mark.parametrize("arq", [None, {"timeout": "30 s"}])
def test_lorawan_carries_in_packets_what_it_cannot_in_one(arq):
    """51 B fit at every spreading factor: 300 B are seven packets of 46 B, the last of 24 B."""
    transport = {"grain": "packet", "mtu": "51 B", "header": "5 B", "arq": arq}
    rounds, log = play(LORA | {"transport": transport}, rounds=3)
    hold(rounds, log)
    assert {row[5] for row in log.rows if row[0] == "sent"} == {8.0 * 51, 8.0 * (300 - 6 * 46 + 5)}
    assert sum(len(each.deliveries) for each in rounds) > 0


def test_slots_hold_the_largest_frame():
    """20 kbit/s: 150 ms for 3 kbit, whatever the last packet has."""
    _, log = play({"mac": {"kind": "tdma"}, "transport": {"grain": "packet", "mtu": 3000}}, users=4)
    slots = np.array([row[1] for row in log.rows if row[0] == "sent"]) / 0.15
    np.testing.assert_allclose(slots, np.rint(slots), atol=1e-6)
    assert {row[5] for row in log.rows if row[0] == "sent"} == {3000.0, 1000.0}


def test_csma_sends_packets():
    said = {"kind": "csma_ca", "standard": "802.11b"}
    transport = {"grain": "packet", "mtu": "500 B", "header": "40 B"}
    keys = dict.fromkeys(("radio", "reception"), None) | {"channel": ()}
    rounds, log = play(keys | {"mac": said, "update_size": "5 kB", "transport": transport}, rounds=4)
    hold(rounds, log)
    assert all(len(each.deliveries) == 3 for each in rounds)


def test_compression_is_of_updates_and_of_broadcasts_for_themselves():
    small = play({})
    assert play({"update_size": "40 kbit", "transport": {"compression": 4, "compression_down": 4}})[0] == small[0]
    one = play({"update_size": None, "transport": {"compression": 5}})[0][0]
    assert one.uplink_bits % 2000.0 == 0.0, "the model's 10 kbit"
    assert one.downlink_bits == small[0][0].downlink_bits


def test_no_transport_is_whole_messages():
    rounds, log = play({})
    again, told = play({"transport": {}})
    assert (rounds, str(log.rows), log.told) == (again, str(told.rows), told.told)
    assert "packets_sent" not in log.told
    header = play({"transport": {"header": "10 B"}})[1]
    assert {row[5] for row in header.rows if row[0] == "sent"} == {10_080.0}


def test_a_transport_has_no_effect_without_rounds():
    traffic = {"kind": "poisson", "rate": 1, "size": {"mean": "50 B"}}
    unset = dict.fromkeys(("compute", "broadcast_rate", "update_size", "round"), None)
    access = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | unset | {"traffic": traffic, "transport": {}})
    facts = replace(ScenarioFacts(users=5, rounds=100), duration_s=10.0)
    assert [fault.key for fault in nested_faults(access, "", facts)] == ["transport"]
