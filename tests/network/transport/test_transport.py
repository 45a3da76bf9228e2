"""Updates in packets: segmentation, repetition and reassembly, compared with hand calculations and closed forms."""

import copy
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import binom
from support.recorders import Memory

from netfl.access.network import NetworkAccess
from netfl.errors import ModelError
from netfl.network.config import NetworkConfig, RoundServiceConfig
from netfl.network.mac.round_robin import RoundRobin
from netfl.network.mac.tdma import Tdma
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.queue.drop_tail import DropTail
from netfl.network.radio.connection import Connection
from netfl.network.radio.fading_medium import FadingMedium
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.network.round.first import First
from netfl.network.routing.shortest_path import ShortestPath
from netfl.network.simulator import NetworkSimulator
from netfl.network.transport.spec import Transport
from netfl.scenario.validation import nested_faults
from netfl.streams import Streams
from netfl.types import OUTCOMES, AccessContext, Delivery, ScenarioFacts

SERVER = 1  # the node number in a network of one user


def packets(**overrides):
    return Transport.model_validate({"grain": "packet", "mtu": 500.0} | overrides)


class TestSegmentation:
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
        segments = packets(mtu=mtu, header=header).cut(bits)
        assert [segments.packet_bits(part) for part in range(segments.count)] == pytest.approx(sizes)
        assert segments.max_bits == pytest.approx(max(sizes))

    def test_bytes_and_defaults(self):
        """1 MB in Ethernet frames with 40 B of headers needs 685 packets, as 684 carry 998 640 B."""
        segments = Transport(grain="packet", header="40 B").cut(8e6)
        assert (segments.count, segments.bits, segments.last_bits) == (685, 12000, 8 * (1_000_000 - 684 * 1460 + 40))

    def test_message_grain_is_not_segmented(self):
        segments = Transport(header=100).cut(500)
        assert (segments.count, segments.max_bits) == (1, 600)

    @pytest.mark.parametrize(
        ("overrides", "problem"),
        [
            ({"mtu": "1500 B"}, "mtu\n  has no effect"),
            ({"arq": {"timeout": 1}}, "arq\n  has no effect"),
            ({"grain": "packet", "mtu": "40 B", "header": "40 B"}, "leaves no payload"),
            ({"assumed_compression": 0.5}, "greater than or equal to 1"),
            ({"grain": "packet", "arq": {"retries": 1}}, "timeout"),
            ({"grain": "packet", "arq": {"timeout": 1, "retries": -1}}, "greater than or equal to 0"),
        ],
    )
    def test_invalid_settings_are_rejected(self, overrides, problem):
        with pytest.raises(ValidationError, match=problem):
            Transport.model_validate(overrides)


class RandomReception(SnrThreshold):
    """Reception of every packet with the same probability, independently."""

    chance: float

    def success(self, snr_db, bandwidth_hz, bits, mode=0):
        return np.full(len(snr_db), self.chance)


@pytest.fixture
def make_simulation(make_layout, scripted_links, planned_outages, recorder):
    """Users at one tower receive a version at 0.25 + 1 + 2 = 3.25 s.

    The air and the link have 1000 bit/s; the delay of the link is 0.25 s.
    """

    def make(
        transport, update_bits, *, users=1, mac=None, plan=None, deadline_s=20.0, chance=None, snr_db=None, seed=1
    ):
        layout = make_layout([("server", "tower:0", 1000.0, 0.25)], [(0, 0)] * users, {"tower:0": (0.0, 0.0)})
        outages = CombinedOutages([planned_outages(plan)] if plan else [])
        presence = NodeState(outages, layout.nodes)
        air = scripted_links(snr_db or (lambda ids, time_s: np.zeros(len(ids))), users)
        reception = SnrThreshold(threshold=-3, rate=1000)
        if chance is not None:
            reception = RandomReception(threshold=-3, rate=1000, chance=chance)
        parts = NetworkConfig(
            layout=layout,
            medium=FadingMedium(air, reception, Connection(presence), Streams(seed)),
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
                rule=First(deadline=deadline_s, losses="unknown"),
                transport=transport,
            ),
        )
        return NetworkSimulator(parts, Streams(seed), recorder)

    return make


class TestByHand:
    def test_packets_are_sent_in_sequence(self, make_simulation, recorder):
        """On the air from 3.25 and 3.75; on the link from 3.75 and 4.25, 0.4 s for the second; then 0.25 s of delay."""
        [result] = make_simulation(packets(header=100), 700).rounds(1)
        assert recorder.events("sent") == [(3.25, 0), (3.75, 0)]
        assert result.deliveries == (
            Delivery(user=0, base=0, sent_s=3.25, arrived_s=pytest.approx(4.25 + 0.4 + 0.25), attempts=2),
        )
        assert result.uplink_bits == 900
        assert recorder.final_values["packets_sent"] == 2
        assert recorder.final_values["packets_retransmitted"] == 0

    def test_early_timeout_repeats_packets(self, make_simulation, recorder):
        """Acknowledgements arrive at 4.75 and 5.15, but timers expire at 4.55 and 4.95."""
        [result] = make_simulation(packets(arq={"timeout": 0.8}), 900).rounds(1)
        assert [round(time_s, 9) for time_s, _ in recorder.events("sent")] == [3.25, 3.75, 4.55, 5.05]
        assert result.deliveries == (Delivery(user=0, base=0, sent_s=3.25, arrived_s=pytest.approx(4.9), attempts=3),)
        assert recorder.outcomes() == {(0, 0): ["delivered"]}
        assert result.uplink_bits == 1800
        assert (recorder.final_values["packets_sent"], recorder.final_values["packets_retransmitted"]) == (4, 2)

    def test_acknowledgement_cancels_queued_repeat(self, make_simulation, recorder):
        """In slots of 0.8 s, an acknowledgement arrives at 5.5; the timer expires at 5.4, before the slot at 5.6."""
        mac = Tdma(slot=0.8)
        [result] = make_simulation(packets(arq={"timeout": 1.2}), 900, mac=mac).rounds(1)
        assert [round(time_s, 9) for time_s, _ in recorder.events("sent")] == [4.0, 4.8]
        recorder.rows.clear()
        [result] = make_simulation(packets(arq={"timeout": 0.9}), 900, mac=mac).rounds(1)
        assert [round(time_s, 9) for time_s, _ in recorder.events("sent")] == [4.0, 4.8]
        assert result.deliveries[0].attempts == 2

    def test_packet_lost_at_server_is_repeated(self, make_simulation, recorder):
        """The server is down when the first packet arrives at 4.5; its timer expires at 5.75."""
        plan = {SERVER: [(4.4, 4.6)]}
        [result] = make_simulation(packets(arq={"timeout": 2}), 1000, plan=plan).rounds(1)
        assert [time_s for time_s, _ in recorder.events("sent")] == [3.25, 3.75, 5.75]
        assert result.deliveries == (Delivery(user=0, base=0, sent_s=3.25, arrived_s=7.0, attempts=3),)

    def test_first_loss_ends_update_without_arq(self, make_simulation, recorder):
        """The loss at 4.5 occurs while the third packet is on the air; the other two are not sent."""
        [result] = make_simulation(packets(), 2500, plan={SERVER: [(4.4, 4.6)]}).rounds(1)
        assert recorder.outcomes() == {(0, 0): ["lost"]}
        assert recorder.events("lost") == [(4.5, 0)]
        assert [time_s for time_s, _ in recorder.events("sent")] == [3.25, 3.75, 4.25]
        assert (result.deliveries, result.uplink_bits) == ((), 1500)

    def test_window_of_one_stops_and_waits(self, make_simulation, recorder):
        """The period is 0.5 s on the air, 0.5 s on the link and two delays of 0.25 s."""
        [result] = make_simulation(packets(arq={"timeout": 9, "window": 1}), 1500).rounds(1)
        assert [time_s for time_s, _ in recorder.events("sent")] == [3.25, 4.75, 6.25]
        assert result.deliveries[0].arrived_s == 7.5

    def test_timeout_without_retries_gives_up(self, make_simulation, recorder):
        list(make_simulation(packets(arq={"timeout": 0.1, "retries": 0}), 1000).rounds(1))
        assert recorder.outcomes() == {(0, 0): ["given_up timeout"]}
        assert [round(time_s, 9) for time_s, _ in recorder.events("given_up")] == [3.85]
        assert len(recorder.events("sent")) == 2, "frames on the air are completed"

    def test_packet_given_up_by_mac_is_repeated_after_timeout(self, make_simulation, recorder):
        """All frames fade until 6: attempts end at 3.75 and 4.25, timers at 4.75 and 5.25."""
        fading = {"snr_db": lambda ids, time_s: np.full(len(ids), -10.0 if time_s < 6.0 else 10.0)}
        mac = RoundRobin(max_attempts=1)
        [result] = make_simulation(packets(arq={"timeout": 1}), 1000, mac=mac, **fading).rounds(1)
        assert [time_s for time_s, _ in recorder.events("sent")] == [3.25, 3.75, 4.75, 5.25, 6.25, 6.75]
        assert result.deliveries == (Delivery(user=0, base=0, sent_s=3.25, arrived_s=8.0, attempts=6),)
        recorder.rows.clear()
        list(make_simulation(packets(arq={"timeout": 1, "retries": 1}), 1000, mac=mac, **fading).rounds(1))
        assert recorder.outcomes() == {(0, 0): ["given_up faded"]}
        assert recorder.events("given_up") == [(6.25, 0)]
        recorder.rows.clear()
        list(make_simulation(packets(), 1000, mac=mac, **fading).rounds(1))
        assert recorder.outcomes() == {(0, 0): ["faded"]}

    def test_attempt_limit_of_mac_applies_per_packet(self, make_simulation, recorder):
        """With two attempts per packet, the second packet is delivered at its second attempt."""
        fading = {"snr_db": lambda ids, time_s: np.full(len(ids), -10.0 if time_s in {3.25, 4.25} else 10.0)}
        [result] = make_simulation(packets(), 1000, mac=RoundRobin(max_attempts=2), **fading).rounds(1)
        assert result.deliveries[0].attempts == 4
        assert recorder.events("failed") == [(3.75, 0), (4.75, 0)]
        assert (recorder.final_values["packets_sent"], recorder.final_values["attempts"]) == (2, 4)

    def test_new_version_supersedes_remaining_packets(self, make_simulation, recorder):
        """The next version arrives at 7.15, when seven of nine packets have been sent and one is on the air."""
        list(make_simulation(packets(), 4500, deadline_s=3.9).rounds(2))
        assert recorder.outcomes()[0, 0] == ["superseded"]
        assert recorder.events("superseded") == [(pytest.approx(7.15), 0)]

    def test_packet_that_starts_with_the_arrival_of_a_version_is_sent(self, make_simulation, recorder):
        """The next version arrives at 7.25, when the last of nine packets goes on the air."""
        list(make_simulation(packets(), 4500, deadline_s=4.0).rounds(2))
        assert recorder.outcomes()[0, 0] == ["unfinished"]
        assert (7.25, 0) in recorder.events("sent")

    def test_update_whose_packets_are_sent_is_late(self, make_simulation, recorder):
        """Seven packets are sent until 6.75 and delivered at 7.5; the next version arrives at 7.25."""
        list(make_simulation(packets(arq={"timeout": 5}), 3500, deadline_s=4.0).rounds(3))
        assert recorder.outcomes()[0, 0] == ["late"]
        assert recorder.events("late")[0] == (7.5, 0)

    def test_user_that_is_down_for_ever_does_not_delay_round(self, make_simulation, recorder):
        """Both users have sent one packet of two when user 1 goes down; the round closes with user 0."""
        simulation = make_simulation(
            packets(arq={"timeout": 9}), 1000, users=2, plan={1: [(4.3, np.inf)]}, deadline_s=None
        )
        [result] = simulation.rounds(1)
        assert [delivery.user for delivery in result.deliveries] == [0]
        assert recorder.outcomes() == {(0, 0): ["delivered"], (1, 0): ["unfinished"]}


class TestLossRules:
    def test_a_packet_lost_at_the_server_is_erased(self, make_simulation, recorder):
        """The first of five is lost at 4.5; the user sends the others, the last of which arrives at 6.5."""
        [result] = make_simulation(packets(loss="erase"), 2500, plan={SERVER: [(4.4, 4.6)]}).rounds(1)
        received = (False, True, True, True, True)
        assert result.deliveries == (
            Delivery(user=0, base=0, sent_s=3.25, arrived_s=6.5, attempts=5, received=received),
        )
        assert recorder.outcomes() == {(0, 0): ["delivered"]}

    def test_an_update_ends_with_the_loss_of_its_last_packet(self, make_simulation, recorder):
        """The last packet is on the air from 4.25, fades at 4.75, and arrives nowhere."""
        fading = {"snr_db": lambda ids, time_s: np.full(len(ids), -10.0 if time_s == 4.25 else 10.0)}
        mac = RoundRobin(max_attempts=1)
        [result] = make_simulation(packets(loss="erase"), 1500, mac=mac, **fading).rounds(1)
        assert result.deliveries == (
            Delivery(user=0, base=0, sent_s=3.25, arrived_s=5.0, attempts=3, received=(True, True, False)),
        )

    def test_an_update_without_any_packet_is_lost(self, make_simulation, recorder):
        fading = {"snr_db": lambda ids, time_s: np.full(len(ids), -10.0)}
        mac = RoundRobin(max_attempts=1)
        [result] = make_simulation(packets(loss="erase"), 1500, mac=mac, **fading).rounds(1)
        assert result.deliveries == ()
        assert recorder.outcomes() == {(0, 0): ["faded"]}
        assert recorder.events("faded") == [(4.75, 0)]

    def test_parity_replaces_a_lost_packet(self, make_simulation, recorder):
        """Two packets of data and one of parity are sent at 3.25, 3.75 and 4.25; the second one fades."""
        fading = {"snr_db": lambda ids, time_s: np.full(len(ids), -10.0 if time_s == 3.75 else 10.0)}
        mac = RoundRobin(max_attempts=1)
        fec = {"data": 2, "total": 3}
        [result] = make_simulation(packets(fec=fec), 1000, mac=mac, **fading).rounds(1)
        assert result.deliveries == (Delivery(user=0, base=0, sent_s=3.25, arrived_s=5.5, attempts=3),)
        assert result.uplink_bits == 1500

    def test_too_many_losses_for_the_parity(self, make_simulation, recorder):
        """The two packets of data are lost, and parity alone does not give them."""
        fading = {"snr_db": lambda ids, time_s: np.full(len(ids), -10.0 if time_s < 4.0 else 10.0)}
        mac = RoundRobin(max_attempts=1)
        for loss in ("drop", "erase"):
            recorder.rows.clear()
            transport = packets(fec={"data": 2, "total": 3}, loss=loss)
            [result] = make_simulation(transport, 1000, mac=mac, **fading).rounds(1)
            assert result.deliveries == ()
            assert recorder.outcomes() == {(0, 0): ["faded"]}

    def test_a_packet_that_is_given_up_is_erased(self, make_simulation, recorder):
        """Every frame fades until 3.75: the first packet is given up without a retry, and the window moves on."""
        fading = {"snr_db": lambda ids, time_s: np.full(len(ids), -10.0 if time_s < 3.5 else 10.0)}
        mac = RoundRobin(max_attempts=1)
        transport = packets(loss="erase", arq={"timeout": 1.5, "retries": 0, "window": 1})
        [result] = make_simulation(transport, 1000, mac=mac, **fading).rounds(1)
        assert [time_s for time_s, _ in recorder.events("sent")] == [3.25, 5.25]
        assert result.deliveries == (
            Delivery(user=0, base=0, sent_s=3.25, arrived_s=6.5, attempts=2, received=(False, True)),
        )

    def test_packets_have_one_size(self):
        segments = packets(mtu=500, header=100, loss="erase").cut(1000)
        assert [segments.packet_bits(part) for part in range(segments.count)] == pytest.approx([1000 / 3 + 100] * 3)
        segments = packets(mtu=500, fec={"data": 4, "total": 5}).cut(2400)
        assert (segments.count, segments.bits, segments.last_bits) == (7, 480.0, 480.0)

    @pytest.mark.parametrize(
        ("transport", "key"),
        [
            ({"loss": "erase"}, "loss"),
            ({"fec": {"data": 1, "total": 2}}, "fec"),
            ({"grain": "packet", "fec": {"data": 2, "total": 2}}, "fec"),
        ],
    )
    def test_keys_without_effect(self, transport, key):
        with pytest.raises(ValidationError) as error:
            Transport.model_validate(transport)
        assert [entry["loc"][0] for entry in error.value.errors()] == [key]


@pytest.mark.slow
@pytest.mark.parametrize(("data", "total", "blocks"), [(1, 3, 1), (4, 6, 1), (3, 4, 2)])
def test_share_of_updates_with_parity_is_binomial(make_simulation, data, total, blocks):
    """A block is whole if at most n - k of its n packets are lost, each with probability p (± 4.5 errors)."""
    loss, users = 0.3, 1500
    transport = packets(fec={"data": data, "total": total})
    simulation = make_simulation(
        transport, 500 * data * blocks, users=users, mac=Tdma(max_attempts=1), chance=1 - loss, deadline_s=5e6, seed=5
    )
    [result] = simulation.rounds(1)
    share = binom.cdf(total - data, total, loss) ** blocks
    assert abs(len(result.deliveries) / users - share) < 4.5 * np.sqrt(share * (1 - share) / users)
    assert all(delivery.received is None for delivery in result.deliveries)


@pytest.mark.slow
def test_shares_of_erased_packets_are_independent(make_simulation):
    """The number of packets that arrive is binomial, given that it is not 0 (± 4.5 errors)."""
    loss, users, count = 0.4, 1500, 3
    simulation = make_simulation(
        packets(loss="erase"), 500 * count, users=users, mac=Tdma(max_attempts=1), chance=1 - loss, deadline_s=5e6
    )
    [result] = simulation.rounds(1)
    arrived = [count if delivery.received is None else sum(delivery.received) for delivery in result.deliveries]
    for number in range(1, count + 1):
        share = binom.pmf(number, count, 1 - loss)
        assert abs(arrived.count(number) / users - share) < 4.5 * np.sqrt(share * (1 - share) / users)


def expected_transmissions(loss, max_transmissions):
    """Return the mean number of transmissions of a delivered packet within a limit."""
    probabilities = loss ** np.arange(max_transmissions) * (1 - loss)
    return (np.arange(1, max_transmissions + 1) * probabilities).sum() / probabilities.sum()


@pytest.mark.parametrize(("count", "limit", "retries"), [(4, 1, None), (3, 2, None), (4, 1, 1), (2, 1, 3), (6, 2, 1)])
@pytest.mark.slow
def test_share_of_delivered_updates(make_simulation, count, limit, retries):
    """(1 - p^(L (r+1)))^n with L attempts of the MAC; attempts are truncated geometric (± 4.5 errors)."""
    loss, users = 0.4, 1500
    arq = None if retries is None else {"timeout": 0.3}
    arq = arq and arq | {"timeout": 1e5, "retries": retries}  # longer than all acknowledgement delays
    mac = Tdma(max_attempts=limit)
    simulation = make_simulation(
        packets(arq=arq), 500 * count, users=users, mac=mac, chance=1 - loss, deadline_s=5e6, seed=5
    )
    [result] = simulation.rounds(1)
    max_transmissions = limit * (1 + (retries or 0))
    share = (1 - loss**max_transmissions) ** count
    assert abs(len(result.deliveries) / users - share) < 4.5 * np.sqrt(share * (1 - share) / users)
    attempts = np.array([delivery.attempts for delivery in result.deliveries])
    assert abs(
        attempts.mean() - count * expected_transmissions(loss, max_transmissions)
    ) <= 4.5 * attempts.std() / np.sqrt(len(attempts))


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


def run_rounds(overrides, users=8, rounds=5, seed=1):
    """Return the rounds and the recorder of a run of the plain network with *overrides*."""
    log, access = Memory(), NetworkAccess.model_validate(copy.deepcopy(PLAIN) | overrides)
    streams = Streams(seed).at("access", 0)
    setting = AccessContext(users, rounds, 0, streams, np.ones(users), 1e4, 1e4, log)
    return list(access.rounds(setting)), log


def run_or_reject(overrides, seed):
    """Return the results of a run, or reject the example if all users are cut off for ever."""
    try:
        return run_rounds(overrides, seed=seed)
    except ModelError:
        return reject()


def check_invariants(rounds, log, *, traffic=False):
    """Check invariants of any run; bits of traffic, whose steps are not recorded, are included in the totals."""
    received = Counter((row[3], row[5]) for row in log.rows if row[0] == "received")
    ended = Counter((row[3], row[5]) for row in log.rows if row[0] in OUTCOMES)
    assert received == ended
    assert set(received.values()) == {1}
    delivered = [(row[3], row[5], row[1]) for row in log.rows if row[0] == "delivered"]
    assert delivered == [
        (delivery.user, delivery.base, delivery.arrived_s) for result in rounds for delivery in result.deliveries
    ]
    sent = Counter()
    for row in log.rows:
        if row[0] == "sent":
            sent[row[2]] += row[5]
    other_bits = np.array([result.uplink_bits - sent[result.index] for result in rounds])
    assert (other_bits >= -1e-6).all() if traffic else np.abs(other_bits).max() < 1e-6
    attempts = sum(row[0] == "sent" for row in log.rows)
    assert (
        log.final_values.get("packets_retransmitted", 0) <= log.final_values.get("packets_sent", attempts) <= attempts
    )


ARQS = st.none() | st.fixed_dictionaries(
    {"timeout": st.sampled_from([0.3, 2.0, 15.0]), "retries": st.integers(0, 3)},
    optional={"window": st.integers(1, 4)},
)
LOSSES = st.fixed_dictionaries(
    {"loss": st.sampled_from(["drop", "erase"])}, optional={"fec": st.just({"data": 2, "total": 3})}
)
RENEWAL = {
    "kind": "renewal",
    "up": {"distribution": "exponential", "mean": 25},
    "down": {"distribution": "fixed", "mean": 6},
}
PERMANENT = {"kind": "calendar", "file": str(Path(__file__).parents[1] / "data" / "gone.csv")}
OUTAGES = st.lists(
    st.sampled_from([RENEWAL | {"nodes": nodes} for nodes in ("users", "towers", "routers", ["router:1"])]), max_size=2
) | st.just([PERMANENT])


@st.composite
def networks(draw):
    """Draw small networks with many causes of loss."""
    mac = draw(st.sampled_from(MACS)) | {"max_attempts": draw(st.sampled_from([1, 2, None]))}
    first, deadline = draw(st.sampled_from([(2, None), (None, 9.0), (3, 20.0)]))
    overrides = {"mac": mac, "round": {"kind": "first", "m": first, "deadline": deadline}, "outages": draw(OUTAGES)}
    overrides["queue"] = {"kind": "drop_tail", "capacity": draw(st.integers(0, 4))}
    overrides["compute"] = {"speed": 10.0, "spread": 1.0, "samples": draw(st.sampled_from([0.0, 20.0]))}
    if draw(st.booleans()):
        overrides["traffic"] = {"kind": "poisson", "rate": 0.1, "size": {"mean": "50 B"}}
    return overrides


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(networks(), ARQS, st.sampled_from([1500.0, 3000.0, 10_100.0]), st.integers(0, 9), LOSSES)
@pytest.mark.slow
def test_every_update_has_one_outcome_and_all_bits_are_counted(overrides, arq, mtu, seed, loss):
    transport = {"grain": "packet", "mtu": mtu, "header": 100, "arq": arq} | loss
    rounds, log = run_or_reject(overrides | {"transport": transport}, seed)
    check_invariants(rounds, log, traffic="traffic" in overrides)
    assert run_rounds(overrides | {"transport": transport}, seed=seed)[0] == rounds


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(networks(), st.integers(0, 9))
@pytest.mark.slow
def test_single_packet_without_header_equals_message(overrides, seed):
    rounds, log = run_or_reject(overrides, seed)
    packet_rounds, packet_log = run_rounds(overrides | {"transport": {"grain": "packet", "mtu": "10 kbit"}}, seed=seed)
    assert packet_rounds == rounds
    assert sorted(map(str, log.rows)) == sorted(map(str, packet_log.rows))
    assert packet_log.final_values["packets_sent"] > 0


def test_unused_arq_changes_nothing(make_simulation, recorder):
    overrides = {"channel": PLAIN["channel"][:1], "mac": {"kind": "tdma"}}
    arq = {"timeout": "1 h"}
    without_arq, with_arq = (
        run_rounds(overrides | {"transport": {"grain": "packet", "mtu": 3000, "arq": arq_settings}})[0]
        for arq_settings in (None, arq)
    )
    assert without_arq == with_arq
    assert sum(len(arq_settings.deliveries) for arq_settings in without_arq) == 15


@pytest.mark.parametrize("arq", [None, {"timeout": "30 s"}])
def test_lorawan_carries_large_updates_in_packets(arq):
    """51 B fit at every spreading factor: 300 B are seven packets of 46 B, the last with 24 B."""
    transport = {"grain": "packet", "mtu": "51 B", "header": "5 B", "arq": arq}
    rounds, log = run_rounds(LORA | {"transport": transport}, rounds=3)
    check_invariants(rounds, log)
    assert {row[5] for row in log.rows if row[0] == "sent"} == {8.0 * 51, 8.0 * (300 - 6 * 46 + 5)}
    assert sum(len(result.deliveries) for result in rounds) > 0


@pytest.mark.parametrize("arq", [None, {"timeout": "30 s"}])
def test_void_round_discards_updates_in_packets(arq):
    """Of four users three deliver in the first round, but all four would have to."""
    rule = {"kind": "quorum", "quorum": 1.0, "deadline": "20 s", "min_share": 1.0}
    transport = {"grain": "packet", "mtu": 3000, "arq": arq}
    slow = {"speed": [1, 1, 1, 0.01], "samples": 1}
    overrides = {"mac": {"kind": "tdma"}, "transport": transport, "round": rule, "compute": slow}
    rounds, log = run_rounds(overrides, users=4, rounds=2)
    assert [result.deliveries for result in rounds] == [()] * 2
    outcomes = Counter(row[0] for row in log.rows if row[0] in OUTCOMES)
    assert outcomes == {"discarded": 6, "superseded": 1, "unfinished": 1}


def test_slots_hold_largest_frame():
    """At 20 kbit/s a slot lasts 150 ms for 3 kbit, also for the last packet."""
    _, log = run_rounds({"mac": {"kind": "tdma"}, "transport": {"grain": "packet", "mtu": 3000}}, users=4)
    slots = np.array([row[1] for row in log.rows if row[0] == "sent"]) / 0.15
    np.testing.assert_allclose(slots, np.rint(slots), atol=1e-6)
    assert {row[5] for row in log.rows if row[0] == "sent"} == {3000.0, 1000.0}


def test_csma_ca_sends_packets():
    mac = {"kind": "csma_ca", "standard": "802.11b"}
    transport = {"grain": "packet", "mtu": "500 B", "header": "40 B"}
    keys = dict.fromkeys(("radio", "reception"), None) | {"channel": ()}
    rounds, log = run_rounds(keys | {"mac": mac, "update_size": "5 kB", "transport": transport}, rounds=4)
    check_invariants(rounds, log)
    assert all(len(result.deliveries) == 3 for result in rounds)


def test_updates_and_broadcasts_are_compressed_separately():
    plain = run_rounds({})
    assert (
        run_rounds({"update_size": "40 kbit", "transport": {"assumed_compression": 4, "assumed_compression_down": 4}})[
            0
        ]
        == plain[0]
    )
    first_round = run_rounds({"update_size": None, "transport": {"assumed_compression": 5}})[0][0]
    assert first_round.uplink_bits % 2000.0 == 0.0, "the model's 10 kbit"
    assert first_round.downlink_bits == plain[0][0].downlink_bits


def test_default_transport_sends_whole_messages():
    rounds, log = run_rounds({})
    default_rounds, default_log = run_rounds({"transport": {}})
    assert (rounds, str(log.rows), log.final_values) == (
        default_rounds,
        str(default_log.rows),
        default_log.final_values,
    )
    assert "packets_sent" not in log.final_values
    header = run_rounds({"transport": {"header": "10 B"}})[1]
    assert {row[5] for row in header.rows if row[0] == "sent"} == {10_080.0}


def test_transport_without_rounds_is_rejected():
    traffic = {"kind": "poisson", "rate": 1, "size": {"mean": "50 B"}}
    unset = dict.fromkeys(("compute", "broadcast_rate", "update_size", "round"), None)
    access = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | unset | {"traffic": traffic, "transport": {}})
    facts = replace(ScenarioFacts(users=5, rounds=100), duration_s=10.0)
    assert [fault.key for fault in nested_faults(access, "", facts)] == ["transport"]
