"""The downlink compared with a recursion: copies queue on the link, then on the air, and are repeated at the end."""

import heapq
import random
from collections import Counter
from itertools import count

import numpy as np
import pytest
from support.recorders import Memory
from support.small_network import Listed, play

from netfl.access.network import NetworkAccess
from netfl.errors import ModelError
from netfl.streams import Streams
from netfl.types import AccessContext

BITS, AIR_S = 1000.0, 1.0


def run_downlink(users, rounds, folder, *, outages=(), link=(1e9, 0.0), **overrides):
    """Return the rounds and the recorder."""
    spans_of = outages if isinstance(outages, dict) else dict(enumerate(outages))
    rows = [f"{node},{a!r},{b if np.isfinite(b) else ''}\n" for node, spans in spans_of.items() for a, b in spans]
    (folder / "away.csv").write_text("node,start_s,end_s\n" + "".join(rows))
    access = NetworkAccess.model_validate(
        {
            "topology": {"kind": "star", "radius": "100 m", "rate": link[0], "delay": link[1]},
            "mac": {"kind": "round_robin"},
            "radio": {"power": "20 dBm", "bandwidth": "125 kHz"},
            "channel": [{"kind": "constant", "gain": "0 dB"}],
            "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": BITS / AIR_S},
            "compute": {"speed": 1.0, "samples": 1},
            "update_size": BITS,
            "round": {"kind": "first", "m": 1},
            "outages": [{"kind": "calendar", "file": str(folder / "away.csv")}] if rows else [],
        }
        | overrides
    )
    log = Memory()
    setting = AccessContext(users, rounds, 0, Streams(1), np.ones(users), BITS, BITS, log)
    return list(access.rounds(setting)), log


def drawn_order(users, version=0):
    """Return the order in which the copies of a version are sent."""
    draws = Streams(1).at("downlink").field("order").uniform(np.arange(users), version)
    return np.argsort(draws).tolist()


def expected_receptions(users, mode, max_attempts, link, outages, duty_cycle=1.0):
    """Return when each user receives version 0, and the number of transmissions."""
    rate_bps, delay_s = link
    copies = [[user] for user in drawn_order(users)] if mode == "unicast" else [list(range(users))]
    order, free_s, sent, received, ended = count(), 0.0, 0, {}, []
    requests = [
        ((number + 1) * BITS / rate_bps + delay_s, next(order), copy, max_attempts)
        for number, copy in enumerate(copies)
    ]
    while requests:
        at_s, _, receivers, attempts_left = heapq.heappop(requests)
        start_s = max(at_s, free_s)
        end_s, sent = start_s + AIR_S, sent + 1
        free_s = start_s + AIR_S / duty_cycle
        missed = [user for user in receivers if any(a < end_s and b > start_s for a, b in outages[user])]
        received |= {user: end_s for user in receivers if user not in missed}
        if missed and attempts_left > 1:
            heapq.heappush(requests, (end_s, next(order), missed, attempts_left - 1))
        elif missed:
            ended.append(missed)
        if not requests and not received:  # nobody has the version: all copies are sent again
            for copy in ended:
                connected_s = min(next((b for a, b in outages[user] if a <= end_s < b), end_s) for user in copy)
                heapq.heappush(requests, (connected_s, next(order), copy, max_attempts))
            ended = []
    return received, sent


@pytest.mark.parametrize("duty_cycle", [1.0, 0.4])
@pytest.mark.parametrize("mode", ["unicast", "multicast"])
@pytest.mark.quick_first
def test_reception_times_match_recursion(mode, duty_cycle, tmp_path):
    for seed in range(60):
        rng = random.Random(f"{mode} {seed}")
        users, max_attempts = rng.randint(1, 6), rng.randint(1, 3)
        link = (rng.choice([1e9, 700.0, 2000.0]), rng.uniform(0, 3))
        starts = [rng.uniform(0, 9) for _ in range(users)]
        outages = [[(a, a + rng.uniform(0.1, 4))] if rng.random() < 0.6 else [] for a in starts]
        round_settings = {"round": {"kind": "first", "m": None, "deadline": 100.0}}
        downlink = {"downlink": {"mode": mode, "max_attempts": max_attempts, "duty_cycle": duty_cycle}}
        rounds, log = run_downlink(users, 1, tmp_path, outages=outages, link=link, **round_settings, **downlink)
        received, sent = expected_receptions(users, mode, max_attempts, link, outages, duty_cycle)
        received_s = {row[3]: row[1] for row in log.rows if row[0] == "received"}
        assert received_s == pytest.approx(received, abs=1e-9), seed
        assert rounds[0].downlink_bits == sent * BITS
        assert {delivery.user for delivery in rounds[0].deliveries} == set(received)


@pytest.mark.parametrize("mode", ["unicast", "multicast"])
def test_share_of_time_on_the_air_is_the_duty_cycle(mode, tmp_path):
    """A tower that always has a version to send begins one each A / duty_cycle, and is on the air for that share."""
    duty_cycle = 0.2
    downlink = {"mode": mode, "duty_cycle": duty_cycle, "queued_versions": "keep"}
    round_ = {"kind": "first", "m": None, "deadline": 2.0, "losses": "unknown"}  # versions come faster than they leave
    rounds, log = run_downlink(3, 60, tmp_path, round=round_, downlink=downlink, on_new_version="ignore")
    sent = sum(result.downlink_bits for result in rounds) / BITS
    end_s = rounds[-1].closed_s
    assert sent == pytest.approx(duty_cycle * end_s / AIR_S, abs=1)
    received_s = np.unique([row[1] for row in log.rows if row[0] in {"received", "held"}])
    gaps_s = np.diff(received_s)
    assert gaps_s.min() >= AIR_S / duty_cycle - 1e-9
    assert gaps_s == pytest.approx(AIR_S / duty_cycle * np.round(gaps_s * duty_cycle / AIR_S))


@pytest.mark.parametrize("mode", ["unicast", "multicast"])
def test_a_tower_that_is_down_uses_no_duty_cycle(mode, tmp_path):
    downlink = {"mode": mode, "duty_cycle": 0.1, "max_attempts": 2}
    _, log = run_downlink(1, 1, tmp_path, downlink=downlink, outages={"tower:0": [(0.0, 0.5)]})
    assert [row[1] for row in log.rows if row[0] == "received"] == pytest.approx([2.0], abs=1e-3)


def test_copy_under_way_is_ignored_by_unselected_users(tmp_path):
    """Copies take 1 s each: that of version 0 for user 2 is sent when round 2 selects user 0 only."""
    selection, downlink = Listed(turns=((0, 1, 2), (0,))), {"downlink": {"mode": "unicast"}}
    rounds, log = run_downlink(
        3, 6, tmp_path, selection=selection, compute={"speed": [10, 0.3, 0.3], "samples": 1}, **downlink
    )
    for result in rounds:
        selected = {0, 1, 2} if result.index % 2 else {0}
        assert {row[3] for row in log.rows if row[0] == "received" and row[2] == result.index} <= selected
        assert {delivery.user for delivery in result.deliveries} <= selected


def test_missed_copy_does_not_start_training_of_unselected_user(tmp_path):
    """User 1 has version 0 and is down while version 1 is sent; round 3 then opens without it."""
    selection, downlink = Listed(turns=((0, 1), (0, 1), (0,), (0,))), {"downlink": {"mode": "unicast"}}
    # version 0 comes at 1 and 2 s, round 1 closes at 2.1 s; version 1 comes at 3.1 and 4.1 s, round 2 closes at 4.2 s
    compute = {"speed": [1e3, 0.01], "samples": 1}
    radio = {"reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": BITS / AIR_S}}
    _, log = run_downlink(
        2, 4, tmp_path, selection=selection, compute=compute, outages=[[], [(3.5, 30.0)]], **radio, **downlink
    )
    assert not [row for row in log.rows if row[0] == "superseded" and row[3] == 1 and row[2] > 3]


MULTICAST, UNICAST = {"downlink": {"mode": "multicast"}}, {"downlink": {"mode": "unicast"}}
FOREVER = float("inf")


def towers_at(x_m, users):
    """Return a topology of towers on a line, with links without delay to the server, and users at given places."""
    nodes = {f"tower:{tower}": {"role": "tower", "position": [x, 0]} for tower, x in enumerate(x_m)}
    return {
        "kind": "inline",
        "nodes": {"server": {"role": "server", "position": [0, 0]}} | nodes,
        "links": [{"between": [name, "server"], "rate": 1e12, "delay": 0} for name in nodes],
        "placement": {"kind": "listed", "positions": users},
    }


def receptions(log):
    """Return the receptions of versions as (time, user, version), up to the time of a bit on a fast link."""
    return [(round(row[1], 3), row[3], row[5]) for row in log.rows if row[0] == "received"]


def missed(log):
    """Return the missed versions as (user, version, cause)."""
    return [(row[3], row[5], row[6]) for row in log.rows if row[0] == "missed"]


class TestVersionThatNobodyHas:
    """A copy takes 1 s on the air; the links take no time."""

    def test_tower_repeats_it_when_a_user_is_connected(self, tmp_path):
        """User 0 is down from 0.5 to 2.2 s, user 1 from 0.5 to 9 s: the repeat from 2.2 to 3.2 s reaches user 0."""
        rounds, log = run_downlink(2, 1, tmp_path, outages=[[(0.5, 2.2)], [(0.5, 9.0)]], **MULTICAST)
        assert receptions(log) == [(3.2, 0, 0)]
        assert rounds[0].downlink_bits == 2 * BITS
        assert [delivery.user for delivery in rounds[0].deliveries] == [0]
        assert missed(log) == [(1, 0, "given_up")]

    def test_each_repeat_has_all_attempts_and_takes_its_airtime(self, tmp_path):
        """The user is down for a moment in each of the first three sendings."""
        outages = [[(0.5, 0.6), (1.5, 1.6), (2.5, 2.6)]]
        downlink = {"downlink": {"mode": "multicast", "max_attempts": 2}}
        rounds, log = run_downlink(1, 1, tmp_path, outages=outages, **downlink)
        assert receptions(log) == [(4.0, 0, 0)]
        assert rounds[0].downlink_bits == 4 * BITS

    @pytest.mark.parametrize("node", ["tower:0", "tower:0-server"])
    def test_outage_of_any_node_on_the_way_only_delays_it(self, node, tmp_path):
        _, log = run_downlink(2, 1, tmp_path, outages={node: [(0.0, 5.0)]}, **MULTICAST)
        assert {user for _, user, _ in receptions(log)} == {0, 1}
        assert all(6.0 <= row[1] < 6.01 for row in log.rows if row[0] == "received")

    @pytest.mark.parametrize("downlink", [MULTICAST, UNICAST], ids=["multicast", "unicast"])
    @pytest.mark.parametrize("node", ["tower:0", "tower:0-server"])
    def test_version_that_waits_for_the_end_of_an_outage_is_missed_when_a_newer_one_follows(
        self, node, downlink, tmp_path
    ):
        """The node is down in all rounds of 3 s: each version is missed as the next one is sent."""
        rule = {"round": {"kind": "first", "m": 1, "deadline": 3.0}}
        _, log = run_downlink(2, 4, tmp_path, outages={node: [(0.0, 100.0)]}, **downlink, **rule)
        rows = [(row[1], row[3], row[5], row[6]) for row in log.rows if row[0] == "missed"]
        expected = [(3.0 * (version + 1), user, version, "superseded") for version in range(3) for user in range(2)]
        assert sorted(rows) == [(pytest.approx(at_s), *more) for at_s, *more in expected]
        assert log.final_values["versions_superseded"] == 6

    @pytest.mark.parametrize("node", ["tower:0", "tower:0-server", 0])
    def test_users_are_cut_off_if_a_node_is_down_for_good(self, node, tmp_path):
        with pytest.raises(ModelError, match="permanently cut off"):
            run_downlink(1, 1, tmp_path, outages={node: [(0.0, FOREVER)]}, **MULTICAST)

    def test_users_outside_the_coverage_for_ever_end_the_run(self, tmp_path):
        weak = {"channel": [{"kind": "constant", "gain": "-200 dB"}], "unreachable": "keep"}
        with pytest.raises(ModelError, match="permanently cut off"):
            run_downlink(1, 1, tmp_path, **weak, **MULTICAST)
        for losses, closed_s in (("unknown", [7.0, 14.0]), ("known", [1.000001, 2.000002])):
            rule = {"kind": "first", "deadline": 7, "losses": losses}
            rounds, _ = run_downlink(1, 2, tmp_path, **weak, **MULTICAST, round=rule)
            assert [result.closed_s for result in rounds] == pytest.approx(closed_s, abs=1e-9)
            assert [result.downlink_bits for result in rounds] == [BITS, BITS]

    def test_copy_that_every_queue_drops_is_an_error_in_a_round_without_deadline(self, tmp_path, monkeypatch):
        """A random early drop of all messages; a deadline closes such rounds."""
        monkeypatch.setattr("netfl.network.config._MIN_FAILED_ATTEMPTS", 50)
        monkeypatch.setattr("netfl.network.queue.red._RedBuffer.drops_early", lambda buffer: True)
        queue = {"queue": {"kind": "red", "min_threshold": 1, "max_threshold": 2, "capacity": 9}}
        with pytest.raises(ModelError, match="101 copies of a version in a row were received by no user"):
            run_downlink(1, 1, tmp_path, **queue, **MULTICAST)
        rounds, _ = run_downlink(1, 2, tmp_path, **queue, **MULTICAST, round={"kind": "first", "deadline": 0.1})
        assert [result.closed_s for result in rounds] == pytest.approx([0.1, 0.2])

    def test_deadline_ends_its_repetition(self, tmp_path):
        """The user is down for a moment in each second until 12 s: version 0 is replaced by version 1 at 10 s."""
        outages = [[(second + 0.5, second + 0.6) for second in range(12)]]
        rounds, log = run_downlink(
            1, 2, tmp_path, outages=outages, **MULTICAST, round={"kind": "first", "deadline": 10}
        )
        assert [result.deliveries == () for result in rounds] == [True, False]
        assert receptions(log) == [(13.0, 0, 1)]

    def test_tower_stops_where_a_user_of_another_has_it(self, tmp_path):
        """Users 0 and 1 have towers of their own; user 0 is down until 30 s, and round 1 does not wait for it."""
        topology = towers_at([-1000.0, 1000.0], [[-1000, 10], [1000, 10]])
        rounds, log = run_downlink(
            2, 1, tmp_path, outages=[[(0.5, 30.0)], []], **MULTICAST, topology=topology, round={"kind": "first", "m": 2}
        )
        assert receptions(log) == [(1.0, 1, 0)]
        assert missed(log) == [(0, 0, "given_up")]
        assert rounds[0].downlink_bits == 2 * BITS
        assert [delivery.user for delivery in rounds[0].deliveries] == [1]

    @pytest.mark.parametrize(
        "rule", [{"kind": "first", "m": 1}, "asynchronous", "available", {"kind": "buffered", "size": 1}]
    )
    @pytest.mark.parametrize("downlink", [MULTICAST, UNICAST])
    @pytest.mark.quick_first
    def test_weak_signals_never_stop_a_run(self, rule, downlink, tmp_path):
        """A copy is received with probability exp(-10^0.4) = 0.08 by each of four users."""
        noise_dbm = -174 + 10 * np.log10(125e3)
        channel = [{"kind": "constant", "gain": noise_dbm - 20 - 4}, {"kind": "rayleigh", "coherence": "50 ms"}]
        rounds, log = run_downlink(4, 10, tmp_path, channel=channel, **downlink, round=rule)
        assert len(rounds) == 10
        if rule == {"kind": "first", "m": 1}:
            assert all(result.deliveries for result in rounds)
        assert len({user for _, user, _ in receptions(log)}) > 1


class TestQueuedVersions:
    """Three users whose copies take 1 s each; user speeds let the first receiver close each round."""

    FAST = {"compute": {"speed": 1e3, "samples": 1}}  # noqa: RUF012

    def test_newer_version_takes_the_place_of_those_that_wait(self, tmp_path):
        """The first three users receive version 0 at 1, 2 and 3 s, and each closes a round 1.001 s later.

        Version 1 comes at 2.001 s while the copy for the fourth waits, and version 2 at 3.001 s while that of version 1
        for the fourth is on the air.
        """
        first, second, third, fourth = drawn_order(4)
        _, log = run_downlink(4, 3, tmp_path, **UNICAST, **self.FAST)
        assert receptions(log) == [(1.0, first, 0), (2.0, second, 0), (3.0, third, 0), (4.0, fourth, 1)]
        superseded = [(first, 1), (second, 1), (third, 1), (fourth, 0)]
        assert sorted(missed(log)) == sorted((user, version, "superseded") for user, version in superseded)

    def test_versions_that_wait_are_superseded(self, tmp_path):
        _, log = run_downlink(5, 12, tmp_path, **UNICAST, **self.FAST)
        superseded = [row for row in missed(log) if row[2] == "superseded"]
        assert superseded
        assert log.final_values["versions_superseded"] == len(superseded)
        assert log.final_values["version_lag_max"] <= 1
        for row in log.rows:
            if row[0] == "received":
                assert row[5] >= row[2] - 2  # the newest version of its round, or the one whose sending had begun

    def test_versions_queue_if_they_are_kept(self, tmp_path):
        """Copies of all versions are sent in turn, 1 s each: the k-th at k s."""
        downlink = {"downlink": {"mode": "unicast", "queued_versions": "keep"}}
        _, log = run_downlink(5, 12, tmp_path, **downlink, **self.FAST)
        assert log.final_values["versions_superseded"] == 0
        assert log.final_values["version_lag_max"] > 5
        sent = [user for version in range(12) for user in drawn_order(5, version)]
        got = receptions(log)
        assert got == [(place + 1.0, sent[place], place // 5) for place in range(len(got))]

    def test_versions_that_wait_at_a_port_are_superseded(self, tmp_path):
        """Each copy takes 2 s on the link to the tower."""
        _, log = run_downlink(4, 12, tmp_path, **UNICAST, **self.FAST, link=(BITS / 2.0, 0.0))
        assert log.final_values["versions_superseded"] > 0
        for row in log.rows:
            if row[0] == "received":
                assert row[5] >= row[2] - 3

    def test_newer_version_needs_no_room_of_its_own(self, tmp_path):
        """A queue for three copies holds those of three users; the fourth is on the link, and has room after that."""
        queue = {"queue": {"kind": "drop_tail", "capacity": 3}}
        slow = {"link": (BITS / 2.0, 0.0)}
        _, log = run_downlink(4, 12, tmp_path, **UNICAST, **self.FAST, **slow, **queue)
        dropped = Counter(version for _, version, cause in missed(log) if cause == "dropped")
        assert max(dropped.values(), default=0) <= 1
        keep = {"downlink": {"mode": "unicast", "queued_versions": "keep"}}
        _, log = run_downlink(4, 12, tmp_path, **keep, **self.FAST, **slow, **queue)
        assert max(Counter(version for _, version, cause in missed(log) if cause == "dropped").values()) > 1

    @pytest.mark.parametrize("keep", ["replace", "keep"])
    def test_every_copy_is_received_or_missed(self, keep, tmp_path):
        """Until the run ends: versions to all users, over a short queue and with outages."""
        outages = [[(2.5, 4.0)], [], [(6.1, 6.2)], []]
        downlink = {"downlink": {"mode": "unicast", "queued_versions": keep}}
        queue = {"queue": {"kind": "drop_tail", "capacity": 2}}
        _, log = run_downlink(4, 15, tmp_path, outages=outages, **downlink, **self.FAST, link=(900.0, 0.1), **queue)
        ends = Counter([row[1:] for row in receptions(log)] + [row[:2] for row in missed(log)])
        assert set(ends.values()) == {1}
        open_versions = {(user, version) for version in range(15) for user in range(4)} - ends.keys()
        assert all(version > 15 - 10 for _, version in open_versions) or keep == "keep"

    @pytest.mark.slow
    def test_no_user_is_the_first_of_every_version(self, tmp_path):
        """60 versions to four users, each of which all receive: each is the first in about a quarter."""
        _, log = run_downlink(4, 60, tmp_path, **UNICAST, **self.FAST, round={"kind": "first", "m": 4})
        receivers: dict[int, list[int]] = {}
        for _, user, version in receptions(log):
            receivers.setdefault(version, []).append(user)
        first = Counter(users[0] for users in receivers.values())
        assert sum(first.values()) == 60
        assert min(first[user] for user in range(4)) >= 6


class TestMissedVersion:
    """User 1 misses version 1; the round then does not wait for it."""

    RULES = (
        {"kind": "first", "m": 2},
        {"kind": "quorum", "quorum": 1.0, "deadline": 20},
        "available",
        {"kind": "buffered", "size": 2},
        "asynchronous",
    )

    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("reaction", ["restart", "finish", "ignore"])
    @pytest.mark.quick_first
    def test_rounds_end_with_users_that_wait(self, rule, reaction, tmp_path):
        """User 1 is down for a moment in every second version; every round ends, and user 1 trains each base once."""
        if rule in self.RULES[3:]:
            reaction = "restart"  # the only one with these rules
        outages = [[], [(second + 0.3, second + 0.4) for second in range(3, 200, 6)]]
        speeds = {"compute": {"speed": [1.0, 0.7], "samples": 1}}
        rounds, log = run_downlink(
            2, 25, tmp_path, outages=outages, **MULTICAST, **speeds, round=rule, on_new_version=reaction
        )
        assert len(rounds) == 25
        assert any(user == 1 for user, _, _ in missed(log))
        deliveries = Counter((delivery.user, delivery.base) for result in rounds for delivery in result.deliveries)
        got = Counter((user, version) for _, user, version in receptions(log))
        assert all(number <= got[key] for key, number in deliveries.items())
        if rule != self.RULES[1]:  # which waits for all until its deadline
            assert max(result.closed_s - result.opened_s for result in rounds) < 15

    def test_user_without_update_waits_or_trains_again(self, tmp_path):
        """Each round takes 4 s; user 1 misses version 1, sent from 4 to 5 s, and receives version 2 at 9 s."""
        for reaction, expected in [("wait", [0, 2]), ("train_again", [0, 0, 2])]:
            downlink = {"downlink": {"mode": "multicast", "on_missed_version": reaction}}
            rounds, log = run_downlink(
                2, 3, tmp_path, outages=[[], [(4.5, 4.6)]], **downlink, round={"kind": "first", "m": 2}
            )
            bases = [delivery.base for result in rounds for delivery in result.deliveries if delivery.user == 1]
            assert bases == expected, reaction
            assert [row[5] for row in log.rows if row[0] == "trained" and row[3] == 1] == expected

    def test_outstanding_update_continues(self, tmp_path):
        """User 1 trains for 5 s from 1 s on, misses version 1 at 3 to 4 s, and delivers its update of version 0."""
        speeds = {"compute": {"speed": [1.0, 0.2], "samples": 1}}
        rounds, _ = run_downlink(2, 4, tmp_path, outages=[[], [(3.5, 3.6)]], **MULTICAST, **speeds)
        assert (1, 0) in [(delivery.user, delivery.base) for result in rounds for delivery in result.deliveries]

    def test_update_on_the_way_to_the_server_is_waited_for(self, tmp_path):
        """User 1 sends its update of version 0 by 3 s; it is on the link while version 1 is missed from 4 to 5 s.

        The link takes 3 s: round 1 closes at 5 s or so with user 0, whose link is the same but who sends first.
        """
        rounds, _ = run_downlink(
            2, 2, tmp_path, outages=[[], [(9.0, 12.9)]], link=(1e9, 3.0), **MULTICAST, round={"kind": "first", "m": 1}
        )
        second = [(delivery.user, delivery.base) for delivery in rounds[1].deliveries]
        assert second == [(1, 0)]


def underwater(distance_m, **overrides):
    """Return a link at 1500 m/s."""
    return {
        "topology": {"kind": "star", "distance": distance_m, "rate": 1e12, "delay": 0},
        "radio": {"power": "60 dBm", "bandwidth": "1 kHz"},
        "channel": [{"kind": "underwater", "frequency": "10 kHz"}],
        "reception": {"kind": "snr_threshold", "threshold": "-40 dB", "rate": "10 kbps"},
        "unreachable": "keep",
        "compute": {"speed": 100.0, "samples": 1},
    } | overrides


class TestPropagation:
    """Over 1500 m sound takes 1 s; a version and an update take 0.1 s on the air, and a training 0.01 s."""

    @pytest.mark.parametrize("downlink", [{"broadcast_rate": 1e4}, MULTICAST, UNICAST])
    def test_version_and_round_take_the_delay(self, downlink, tmp_path):
        rounds, log = run_downlink(1, 2, tmp_path, **underwater(1500.0), **downlink)
        assert receptions(log) == [(1.1, 0, 0), (3.31, 0, 1)]
        assert [result.closed_s for result in rounds] == pytest.approx([2.21, 4.42])

    @pytest.mark.parametrize("downlink", [{"broadcast_rate": 1e4}, MULTICAST])
    def test_each_user_has_its_delay(self, downlink, tmp_path):
        topology = towers_at([0.0], [[1500, 0], [300, 0], [0, 1500]])
        _, log = run_downlink(
            3, 1, tmp_path, **underwater(1.0, topology=topology), **downlink, round={"kind": "first", "m": 3}
        )
        assert sorted(row[1] for row in log.rows if row[0] == "received") == pytest.approx([0.3, 1.1, 1.1])

    def test_tower_is_busy_for_the_airtime_only(self, tmp_path):
        _, log = run_downlink(4, 1, tmp_path, **underwater(1500.0), **UNICAST, round={"kind": "first", "m": 4})
        assert [row[1] for row in log.rows if row[0] == "received"] == pytest.approx([1.1, 1.2, 1.3, 1.4])

    def test_outages_count_where_the_signal_is(self, tmp_path):
        """The tower sends from 0 to 0.1 s; the signal is at the user from 1.0 to 1.1 s."""
        for outages, at_s in [
            ({0: [(0.0, 0.99)]}, 1.1),  # the user is down before the signal arrives
            ({"tower:0": [(0.11, 0.99)]}, 1.1),  # the tower is down when the signal is under way
            ({0: [(1.05, 1.06)]}, 2.2),  # the user is down while it arrives; the tower repeats it then, at 1.1 s
            ({"tower:0": [(0.05, 0.06)]}, 2.2),  # the tower is down while it sends
        ]:
            _, log = run_downlink(1, 1, tmp_path, outages=outages, **underwater(1500.0), **MULTICAST)
            assert receptions(log) == [(at_s, 0, 0)], outages

    def test_disconnected_user_of_an_ideal_downlink_receives_it_when_it_is_back(self, tmp_path):
        _, log = run_downlink(1, 1, tmp_path, outages=[[(1.0, 5.0)]], **underwater(1500.0), broadcast_rate=1e4)
        assert receptions(log) == [(5.0, 0, 0)]

    def test_moving_users_have_the_delay_of_their_place(self, tmp_path):
        """The user is 1500 m away when version 0 is sent, and 750 m when version 1 is sent, at some 2.2 s."""
        (tmp_path / "walk.csv").write_text("time_s,user,x_m,y_m\n0,0,1500,0\n1.9,0,1500,0\n2.0,0,750,0\n100,0,750,0\n")
        motion = {"motion": {"kind": "trajectory", "file": str(tmp_path / "walk.csv"), "max_speed": 7500}}
        topology = towers_at([0.0], [[1500, 0]])
        for downlink in ({"broadcast_rate": 1e4}, MULTICAST):
            rounds, log = run_downlink(1, 2, tmp_path, **underwater(1.0, topology=topology), **motion, **downlink)
            sent_s = rounds[1].opened_s
            assert receptions(log) == [(1.1, 0, 0), (round(sent_s + 0.1 + 0.5, 3), 0, 1)]


@pytest.mark.slow
def test_user_without_energy_does_not_train_again_at_once():
    """The user waits for the next version; otherwise training and version would be lost in turn, without end."""
    duration = {"distribution": "exponential", "mean": 25}
    outages = [{"kind": "renewal", "nodes": nodes, "up": duration, "down": duration} for nodes in ("links", "towers")]
    battery = {
        "kind": "battery",
        "capacity": "5 J",
        "initial": [0.1, 1],
        "solar": {"peak": "3 W", "clouds": 0.8},
    }
    for seed in range(80, 83):
        rounds, log = play(
            7,
            4,
            seed,
            round="asynchronous",
            broadcast_rate=None,
            downlink={"mode": "unicast", "max_attempts": 2, "on_missed_version": "train_again"},
            outages=[*outages, battery],
            energy={"per_sample": "0.3 J", "transmit": "1 W"},
            topology={"kind": "star", "radius": "600 m", "rate": "500 bps"},
            reception={"kind": "mcs", "standard": "lte"},
        )
        assert len(rounds) == 4
        unpaid = Counter((time_s, user) for kind, time_s, _, user, *_, detail in log.rows if detail == "battery")
        assert max(unpaid.values(), default=1) == 1


@pytest.mark.parametrize("mode", ["multicast", "unicast"])
@pytest.mark.parametrize("round_", ["asynchronous", {"kind": "buffered", "size": 2}])
def test_battery_that_is_up_again_at_once_ends_one_training_of_an_instant(round_, mode):
    """The charger fills the battery within one instant; version and training would be lost in turn, without end."""
    duration = {"distribution": "fixed", "mean": 0.3}
    battery = {"kind": "battery", "capacity": "10 J", "charger": {"power": "1000 GW"}}
    rounds, log = play(
        3,
        4,
        round=round_,
        broadcast_rate=None,
        downlink={"mode": mode, "on_missed_version": "train_again"},
        outages=[{"kind": "renewal", "nodes": "links", "up": duration, "down": duration}, battery],
        energy={"per_training": "25 J"},
    )
    assert len(rounds) == 4
    unpaid = Counter((time_s, user) for kind, time_s, _, user, *_, detail in log.rows if detail == "battery")
    assert max(unpaid.values()) == 1
