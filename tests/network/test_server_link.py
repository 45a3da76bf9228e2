"""The access link of the server in networks: times of rounds, bits, outages and replaced versions."""

import copy

import numpy as np
import pytest
from support.recorders import Memory

from netfl.access.network import NetworkAccess
from netfl.errors import ScenarioError
from netfl.network.backhaul.server_uplink import ServerUplink
from netfl.network.clock import Clock, call_after
from netfl.network.layout import NodeId
from netfl.network.message import Message
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.server_link import ServerLink
from netfl.scenario.validation import nested_faults
from netfl.streams import Streams
from netfl.types import AccessContext, ScenarioFacts

BITS = 1e6
PLAIN = {
    "topology": {"kind": "star", "distance": "10 m", "rate": "1 Tbps", "delay": 0},
    "radio": {"power": "20 dBm", "bandwidth": "1 GHz", "noise_figure": "6 dB"},
    "channel": [{"kind": "constant", "gain": "0 dB"}],
    "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "100 Gbps"},
    "mac": {"kind": "round_robin"},
    "compute": {"speed": 10.0, "samples": 20},
    "broadcast_rate": "1 Tbps",
    "update_size": BITS,
    "round": {"kind": "available"},
}
TRAIN_S = 2.0
AIR_S = 1e-3
"""More than all the time in the air and on the wires."""


def run_rounds(users=5, rounds=3, seed=3, **overrides):
    """Return the rounds and the recorder of a run of the plain network with *overrides*."""
    access = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | overrides)
    log = Memory(unknown=None)
    setting = AccessContext(users, rounds, 0, Streams(seed), np.full(users, 20.0), BITS, BITS, log)
    return [*access.rounds(setting)], log


def durations(rounds):
    return np.diff([0.0, *(each.closed_s for each in rounds)])


class TestTimes:
    @pytest.mark.parametrize("users", [1, 5, 12])
    def test_all_transfers_take_the_time_of_their_bits(self, users):
        rounds, log = run_rounds(users, server_link={"rate": "1 Mbps"})
        expected_s = users * BITS / 1e6 + TRAIN_S + users * BITS / 1e6
        assert durations(rounds) == pytest.approx([expected_s] * 3, abs=AIR_S)
        assert [len(each.deliveries) for each in rounds] == [users] * 3
        assert log.final_values["utilisation.server_link_up"] == pytest.approx(users / expected_s, abs=AIR_S)
        assert log.final_values["utilisation.server_link_down"] == pytest.approx(users / expected_s, abs=AIR_S)

    def test_directions_have_their_own_rates(self):
        rounds, log = run_rounds(server_link={"rate_up": "2 Mbps"})
        assert durations(rounds) == pytest.approx([TRAIN_S + 2.5] * 3, abs=AIR_S)
        assert "utilisation.server_link_down" not in log.final_values
        rounds, _ = run_rounds(server_link={"rate": "1 Mbps", "rate_up": "2 Mbps"})
        assert durations(rounds) == pytest.approx([5.0 + TRAIN_S + 2.5] * 3, abs=AIR_S)

    def test_one_copy_for_each_tower(self):
        rounds, _ = run_rounds(server_link={"rate_down": "1 Mbps", "copies": "tower"})
        assert durations(rounds) == pytest.approx([1.0 + TRAIN_S] * 3, abs=AIR_S)
        assert [each.downlink_bits for each in rounds] == [BITS] * 3
        rounds, _ = run_rounds(server_link={"rate_down": "1 Mbps"})
        assert [each.downlink_bits for each in rounds] == [5 * BITS] * 3

    def test_no_transfer_is_faster_than_its_user(self):
        """Rates 0.5, 4.75, 4.75 of 10 Mbit/s: the slow user receives after 2 s, and sends in 2 s."""
        link = {"rate": "10 Mbps", "user_rate": ["0.5 Mbps", "10 Mbps", "10 Mbps"]}
        rounds, _ = run_rounds(users=3, server_link=link)
        arrived_s = {delivery.user: delivery.arrived_s for delivery in rounds[0].deliveries}
        received_s = BITS / 4.75e6
        assert arrived_s[0] == pytest.approx(2.0 + TRAIN_S + 2.0, abs=AIR_S)
        # when the fast ones send, the slow one trains
        assert arrived_s[1] == pytest.approx(received_s + TRAIN_S + BITS / 5e6, abs=AIR_S)

    def test_updates_that_start_apart_share_while_they_overlap(self):
        """Training ends at 2 and 2.5 s; of 1 Mbit each at 1 Mbit/s the first ends at 3.5 s, the second at 4 s."""
        rounds, _ = run_rounds(
            users=2, server_link={"rate_up": "1 Mbps"}, compute={"speed": [10.0, 8.0], "samples": 20}
        )
        arrived_s = {delivery.user: delivery.arrived_s for delivery in rounds[0].deliveries}
        assert arrived_s == pytest.approx({0: 3.5, 1: 4.0}, abs=AIR_S)

    @pytest.mark.parametrize("mode", ["unicast", "multicast"])
    def test_downlink_over_the_network_follows_the_link(self, mode):
        downlink = {"mode": mode, "power": "30 dBm"}
        rounds, _ = run_rounds(downlink=downlink, broadcast_rate=None, server_link={"rate_down": "1 Mbps"})
        copies = 5 if mode == "unicast" else 1
        assert durations(rounds) == pytest.approx([copies * 1.0 + TRAIN_S] * 3, abs=AIR_S)

    def test_packets_of_an_update_share_the_link(self):
        transport = {"grain": "packet", "mtu": "100 kbit"}
        rounds, _ = run_rounds(transport=transport, server_link={"rate_up": "1 Mbps"})
        assert durations(rounds) == pytest.approx([TRAIN_S + 5.0] * 3, abs=0.01)

    def test_link_of_ample_rate_changes_nothing_but_rounding(self):
        plain, _ = run_rounds(round={"kind": "first", "m": 2}, rounds=8)
        linked, _ = run_rounds(round={"kind": "first", "m": 2}, rounds=8, server_link={"rate": "1000 Tbps"})
        assert [[each.user for each in one.deliveries] for one in plain] == [
            [each.user for each in one.deliveries] for one in linked
        ]


class TestLateUpdatesAndReplacedVersions:
    def test_late_update_still_loads_the_link(self):
        """The deadline of 6 s ends each round while five updates are on the link since 2 s, a quarter of their way."""
        rounds, log = run_rounds(
            rounds=4,
            round={"kind": "available", "deadline": "6 s"},
            server_link={"rate_up": "1 Mbps"},
            on_new_version="restart",
        )
        assert [len(each.deliveries) for each in rounds] == [0] * 4
        late_s = sorted(row[1] for row in log.rows if row[0] == "late")
        # alone until 8 s, where the next five join them for the last 5 * 0.2 Mbit: 2 s at half the rate
        assert late_s[:5] == pytest.approx([7.0] * 5, abs=AIR_S)

    def test_newer_version_replaces_an_older_one(self):
        """User 1 receives at 0.1 Mbit/s, for 10 s; a round takes 3 s, and each version takes the place of the last."""
        link = {"rate_down": "1 Gbps", "user_rate": ["1 Gbps", "0.1 Mbps"]}
        rounds, log = run_rounds(users=2, rounds=4, round={"kind": "first", "m": 1}, server_link=link)
        assert [[each.user for each in one.deliveries] for one in rounds] == [[0]] * 4
        missed = [(row[3], row[5], row[6]) for row in log.rows if row[0] == "missed"]
        assert missed == [(1, float(version), "superseded") for version in range(3)]
        assert not [row for row in log.rows if row[0] == "received" and row[3] == 1]

    def test_users_of_continuous_rounds_have_transfers_of_their_own_times(self):
        rounds, log = run_rounds(
            users=2, rounds=12, round={"kind": "asynchronous"}, server_link={"rate": "1 Mbps"}, staleness=None
        )
        assert len([row for row in log.rows if row[0] == "delivered"]) == 12
        assert {delivery.user for each in rounds for delivery in each.deliveries} == {0, 1}


class _Sent(Message):
    """A message of a user, which notes its end."""

    def end(self, log, ending, time_s):
        log.append((self.user, ending.outcome, ending.node, time_s))


class TestOutages:
    def test_server_that_goes_down_loses_updates_on_its_link(self, planned_outages):
        """The server is down from 4 to 5 s; four updates have sent 1.6 of their 4 bits by then."""
        env, log, arrived = Clock(), [], []
        node_state = NodeState(CombinedOutages([planned_outages({9: [(4.0, 5.0)]})]), 10)
        limits_bps = np.full(5, np.inf)
        uplink = ServerUplink(
            env,
            log,
            node_state,
            1.0,
            limits_bps,
            NodeId("server", 9),
            lambda message: arrived.append((message.user, env.now)),
        )
        for user in range(3):
            call_after(env, 0.0, lambda _, user=user: uplink.take(_Sent(user, 4.0)))
        call_after(env, 0.0, lambda _: uplink.take_spared(_Sent(3, 4.0)))
        call_after(env, 6.0, lambda _: uplink.take(_Sent(4, 0.5)))
        env.run()
        assert log == [(user, "lost", "server", 4.0) for user in range(3)]
        # the spared one has 3 bits left, and shares the link from 6 to 7 s
        assert arrived == [(4, 7.0), (3, 7.5)]

    def test_outage_that_begins_as_a_transfer_ends_does_not_lose_it(self, planned_outages):
        env, log, arrived = Clock(), [], []
        node_state = NodeState(CombinedOutages([planned_outages({9: [(4.0, 5.0)]})]), 10)
        uplink = ServerUplink(env, log, node_state, 1.0, np.full(1, np.inf), NodeId("server", 9), arrived.append)
        call_after(env, 0.0, lambda _: uplink.take(_Sent(0, 4.0)))
        env.run()
        assert log == []
        assert len(arrived) == 1

    def test_user_exempt_from_the_backhaul_passes_the_link(self):
        rounds, _ = run_rounds(rounds=1, server_link={"rate_up": "1 Mbps"}, exempt={"backhaul": [0]})
        arrived_s = {each.user: each.arrived_s for each in rounds[0].deliveries}
        assert arrived_s[0] == pytest.approx(TRAIN_S, abs=AIR_S)
        assert arrived_s[1] == pytest.approx(TRAIN_S + 4.0, abs=AIR_S)


def find_faults(**overrides):
    access = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | overrides)
    facts = ScenarioFacts(users=5, rounds=5, sized=True)
    return {fault.key: fault for fault in nested_faults(access, "access", facts)}


class TestErrors:
    def test_rates(self):
        with pytest.raises(ScenarioError, match="no rate is given"):
            ServerLink()
        with pytest.raises(ScenarioError, match="no effect with rate_up and rate_down"):
            ServerLink(rate=1e6, rate_up=1e6, rate_down=1e6)

    def test_list_of_other_length(self):
        faults = find_faults(server_link={"rate": 1e6, "user_rate": [1e6, 1e6]})
        assert "2 rates for 5 users" in faults["access.server_link.user_rate"].problem

    def test_copies(self):
        faults = find_faults(server_link={"rate_up": 1e6, "copies": "user"})
        assert "no effect" in faults["access.server_link.copies"].problem
        multicast = {"mode": "multicast", "power": "30 dBm"}
        faults = find_faults(server_link={"rate": 1e6, "copies": "user"}, downlink=multicast, broadcast_rate=None)
        assert "one copy to all" in faults["access.server_link.copies"].problem
