"""Instants: arrivals at a deadline, ties between users, cells and links, and the ends of windows and runs."""

from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats

import netfl
from netfl.network.clock import Clock, Stage, call_after

RADIO = {
    "radio": {"power": "16 dBm", "bandwidth": "1 MHz", "noise_figure": "20 dB"},
    "channel": [{"kind": "constant", "gain": "-60 dB"}],
}


def trace(tmp_path, access, **options):
    """Run a network and return the run."""
    scenario = {"name": "instants", "seed": 3, "access": {"kind": "network", **access}, **options}
    return netfl.trace(netfl.load(scenario), tmp_path / "run", progress=False)


class TestClock:
    def test_decisions_of_an_instant_are_made_by_stage(self):
        """Two sums of one time are one instant, whichever of its events comes first."""
        for deadline_s, arrival_s in ((0.3, 0.1 + 0.2), (0.1 + 0.2, 0.3), (0.3, 0.3)):
            clock, calls = Clock(), []

            def register(stage, at_s, clock=clock, calls=calls):
                call_after(clock, at_s, lambda _: clock.at_end(stage, lambda: calls.append(stage)))

            register(Stage.TIMERS, deadline_s)
            register(Stage.ARRIVALS, arrival_s)
            register(Stage.PORTS, arrival_s)
            clock.run()
            assert calls == [Stage.PORTS, Stage.ARRIVALS, Stage.TIMERS], (deadline_s, arrival_s)

    def test_what_a_decision_causes_at_once_precedes_later_stages(self):
        clock, calls = Clock(), []

        def admit():
            calls.append("port")
            call_after(clock, 0.0, lambda _: clock.at_end(Stage.ARRIVALS, lambda: calls.append("arrival")))

        call_after(clock, 1.0, lambda _: clock.at_end(Stage.TIMERS, lambda: calls.append("deadline")))
        call_after(clock, 1.0, lambda _: clock.at_end(Stage.PORTS, admit))
        clock.run()
        assert calls == ["port", "arrival", "deadline"]

    def test_a_lone_event_is_decided_at_once(self):
        clock, calls = Clock(), []
        call_after(clock, 1.0, lambda _: clock.at_end(Stage.TIMERS, lambda: calls.append(clock.now)))
        call_after(clock, 1.0 + 3e-9, lambda _: calls.append("later"))
        clock.run()
        assert calls == [1.0, "later"]

    def test_arrivals_that_follow_each_other_for_ever_end_an_instant(self):
        """A packet each half nanosecond: an instant lasts a nanosecond from its first arrival."""
        clock, decided = Clock(), []
        for index in range(100):
            at_s = 1.0 + 0.5e-9 * index
            call_after(clock, at_s, lambda _: clock.at_end(Stage.PORTS, lambda: decided.append(clock.now)))
        clock.run()
        assert len(decided) == 100
        assert len(set(decided)) > 20


INSTANT = {"topology": {"kind": "star", "distance": "10 m", "delay": "0 s", "rate": 1e18}, "broadcast_rate": 1e18}
"""Links and a broadcast that take less time than rounding."""
RECEPTION = {"kind": "snr_threshold", "threshold": "5 dB", "rate": 10_000.0}


def one_user(airtime_s, rule):
    """Return the access of a user that trains for 0.1 s and sends for *airtime_s*."""
    update = {"compute": {"speed": 10, "samples": 1}, "update_size": airtime_s * 10_000.0}
    return RADIO | INSTANT | update | {"reception": RECEPTION, "mac": "round_robin", "round": rule}


@pytest.mark.parametrize("airtime_s", [0.6, 1 / 3, 0.123])
@pytest.mark.parametrize("kind", ["first", "quorum", "available"])
def test_arrival_at_the_deadline_is_in_time(tmp_path, airtime_s, kind):
    """Training and frame last as long as the round, to rounding: every round has its delivery."""
    rule = {"kind": kind, "deadline": 0.1 + airtime_s}
    if kind == "quorum":
        rule["quorum"] = 1.0
    access = one_user(airtime_s, rule)
    assert len(trace(tmp_path, access, users=1, rounds=60).deliveries) == 60


@pytest.mark.parametrize("longer_s", [1e-8, 1e-6])
def test_arrival_after_the_deadline_is_late(tmp_path, longer_s):
    access = one_user(0.6 + longer_s, {"kind": "first", "deadline": 0.7})
    run = trace(tmp_path, access, users=1, rounds=60, record=["late"])
    assert run.deliveries.empty
    assert len(run.events) >= 28, "each update is late in the next round, and its user restarts"


def test_acknowledgement_at_the_timeout_is_in_time(tmp_path):
    """The acknowledgement comes 10 ms after a packet, when its timer ends: nothing is sent twice."""
    access = (
        RADIO
        | INSTANT
        | {
            "topology": {"kind": "star", "distance": "10 m", "delay": "5 ms", "rate": 1e18},
            "reception": RECEPTION,
            "mac": "round_robin",
            "compute": {"speed": 10, "samples": 1},
            "update_size": 1000,
            "transport": {"grain": "packet", "mtu": "100 bit", "arq": {"timeout": "10 ms", "retries": 3}},
            "round": {"kind": "first", "m": 1},
        }
    )
    metrics = trace(tmp_path, access, users=1, rounds=50).summary
    assert metrics["packets_sent"] == 500
    assert metrics["packets_retransmitted"] == 0


LOCK_STEP = RADIO | {
    "reception": {"kind": "snr_threshold", "threshold": "5 dB", "rate": "1 Mbps"},
    "compute": {"speed": 100, "samples": 100},
    "broadcast_rate": "1 Mbps",
    "update_size": "12.5 kB",
}


def assert_equal_shares(counts, total):
    """Check that *counts* are uniform draws; a false alarm has the probability 1e-4."""
    assert sum(counts) == total
    assert stats.chisquare(counts).pvalue > 1e-4, counts


@pytest.mark.slow
@pytest.mark.parametrize("fanout", [[4], [2, 2], [1, 4]])
def test_equal_towers_get_equal_shares(tmp_path, fanout):
    """Towers of one user each, in lock-step: their updates enter a common link, or the server, at one instant."""
    access = LOCK_STEP | {
        "topology": {"kind": "tree", "fanout": fanout, "ring": "1 km", "radius": "200 m"},
        "mac": "round_robin",
        "round": {"kind": "first", "m": 1},
    }
    run = trace(tmp_path, access, users=40, rounds=300)
    counts = run.deliveries["user"].map(run.users.set_index("user")["tower"]).value_counts()
    assert_equal_shares(counts.tolist(), 300)
    assert len(counts) == np.prod(fanout)


def make_towers(count, users=5):
    """Return a topology of towers with a link each to the server, and some users around each tower."""
    nodes = {f"tower:{index}": {"role": "tower", "position": [10_000.0 * index, 0]} for index in range(count)}
    nodes["server"] = {"role": "server", "position": [0, 10_000.0]}
    links = [{"between": [f"tower:{index}", "server"], "rate": 1e6, "delay": 0.0} for index in range(count)]
    places = [[10_000.0 * index + 1.0, offset] for offset in range(users) for index in range(count)]
    placement = {"kind": "listed", "positions": places}
    return {"kind": "inline", "nodes": nodes, "links": links, "placement": placement}


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 2, 3])
def test_equal_links_get_equal_shares(tmp_path, m):
    """Updates of four towers arrive at the server at one instant, by links of their own."""
    access = LOCK_STEP | {"topology": make_towers(4), "mac": "round_robin", "round": {"kind": "first", "m": m}}
    deliveries = trace(tmp_path, access, users=20, rounds=400).deliveries
    assert_equal_shares(np.bincount(deliveries["user"] % 4, minlength=4), 400 * m)


@pytest.mark.parametrize("rule", [{"kind": "asynchronous"}, {"kind": "buffered", "size": 3}])
def test_arrivals_of_one_instant_make_versions_one_after_the_other(tmp_path, rule):
    """Four users in lock-step, each of its own cell: no update is late because another one came with it."""
    access = LOCK_STEP | {"topology": make_towers(4, users=1), "mac": "round_robin", "round": rule}
    run = trace(tmp_path, access, users=4, rounds=60, record=["late", "delivered"])
    assert set(run.events["kind"]) == {"delivered"}
    counts = np.bincount(run.deliveries["user"], minlength=4)
    assert counts.max() - counts.min() <= 1


@pytest.mark.slow
def test_frames_received_together_are_relayed_in_random_order(tmp_path):
    """Each user has a channel, so that a slot ends with all four frames; the relay sends one of them first."""
    access = LOCK_STEP | {
        "topology": {"kind": "star", "distance": "10 m", "rate": "1 Mbps"},
        "mac": {"kind": "multichannel_aloha", "channels": 2000, "probability": 1.0},
        "round": {"kind": "first", "m": 1},
    }
    deliveries = trace(tmp_path, access, users=4, rounds=400).deliveries
    assert_equal_shares(np.bincount(deliveries["user"], minlength=4), 400)


@pytest.mark.slow
def test_copies_of_a_version_reach_equal_towers_in_random_order(tmp_path):
    """A shared link carries one copy for each tower; the tower whose copy comes first also delivers first."""
    access = LOCK_STEP | {
        "topology": {"kind": "tree", "fanout": [1, 4], "ring": "1 km", "radius": "200 m", "rate": "1 Mbps"},
        "mac": "round_robin",
        "downlink": {"mode": "multicast"},
        "round": {"kind": "first", "m": 1},
    }
    del access["broadcast_rate"]
    run = trace(tmp_path, access, users=40, rounds=300)
    towers = run.users.set_index("user")["tower"]
    counts = run.deliveries["user"].map(towers).value_counts()
    assert_equal_shares(counts.tolist(), 300)


class TestWindows:
    """Windows and runs are half-open."""

    ACCESS: ClassVar = {
        "topology": {"kind": "star", "distance": "10 m", "delay": "0 s"},
        "reception": {"kind": "snr_threshold", "threshold": "5 dB", "rate": "1 Mbps"},
        "mac": "tdma",
    }

    @pytest.mark.parametrize(("every", "duration"), [(1.0, 4.0), (0.1, 0.4), (1 / 7, 4 / 7), (7e-3, 28e-3)])
    @pytest.mark.parametrize("source", ["users", "towers"])
    def test_packet_at_the_end_of_a_run_lies_outside(self, tmp_path, every, duration, source):
        traffic = {"kind": "constant", "every": every, "synchronous": True, "source": source, "size": {"mean": 100.0}}
        access = self.ACCESS | {"traffic": traffic} | RADIO
        if source == "towers":
            access = {"topology": self.ACCESS["topology"], "traffic": traffic}
        metrics = trace(tmp_path, access, users=1, duration=duration).summary
        assert metrics["offered_bps"] * duration == pytest.approx(4 * 100.0)
        assert metrics["delivered"] == 4

    def test_packet_at_the_end_of_the_warmup_counts(self, tmp_path):
        traffic = {"kind": "constant", "every": 0.1, "synchronous": True, "size": {"mean": 100.0}}
        metrics = trace(tmp_path, self.ACCESS | RADIO | {"traffic": traffic}, users=1, duration=1.0, warmup=0.3).summary
        assert metrics["delivered"] == 7

    def test_outage_at_the_boundary_of_windows_belongs_to_the_later_one(self, tmp_path):
        traffic = {"kind": "constant", "every": "1 s", "size": {"mean": 100.0}}
        window = {"nodes": "towers", "start": "1 s", "duration": "0.5 s", "every": "1 s"}
        outages = [{"kind": "maintenance", "windows": [window]}]
        access = self.ACCESS | RADIO | {"traffic": traffic, "outages": outages}
        run = trace(tmp_path, access, users=1, duration=4.0, record=["down", "up"])
        downs = run.events[run.events["kind"] == "down"]
        assert downs["time_s"].tolist() == [1.0, 2.0, 3.0]
        opened_s = run.rounds.set_index("round")["opened_s"]
        assert downs["round"].map(opened_s).tolist() == pytest.approx([1.0, 2.0, 3.0])


def test_equal_scores_are_selected_equally():
    """Ten users of equal scores, three of which are selected in each round."""
    from netfl.access.selection import RoundInfo, UserInfo
    from netfl.access.selection.score import Score
    from netfl.streams import Streams

    selector = Score(value="size", power=0, m=3, draw="top").open(UserInfo(10, Streams(5), np.ones(10)))
    rounds = [selector.choose(RoundInfo(10, {}, index)) for index in range(1, 401)]
    assert all(len(set(users.tolist())) == 3 for users in rounds)
    assert all((np.diff(users) > 0).all() for users in rounds)
    assert_equal_shares(np.bincount(np.concatenate(rounds), minlength=10), 1200)
    assert any((one != other).any() for one, other in pairwise(rounds))


@pytest.mark.parametrize(("every", "first"), [(0.7, 3), (0.3, 3), (0.1, 3), (1 / 3, 4), (1.1, 2)])
def test_packets_from_the_end_of_the_warmup_on_are_offered(tmp_path, every, first):
    """Packet number *first* arrives at the end of the warm-up, a sum with another rounding; four packets count."""
    traffic = {"kind": "constant", "every": every, "synchronous": True, "size": {"mean": 100.0}}
    access = TestWindows.ACCESS | RADIO | {"traffic": traffic}
    warmup = sum([every] * first)
    metrics = trace(tmp_path, access, users=1, duration=warmup + 4 * every, warmup=warmup).summary
    assert metrics["delivered"] == 4
    assert metrics["offered_bps"] == pytest.approx(metrics["throughput_bps"])


@pytest.mark.parametrize("mac", ["round_robin", "max_snr", "pure_aloha"])
def test_poll_of_a_user_that_is_down_takes_no_airtime(tmp_path, mac):
    """A packet of 0.7 s each 2 s, and an outage in the first 0.4 s of each: all but the first begin at 0.4 s."""
    window = {"nodes": [0], "start": "2 s", "duration": "0.4 s", "every": "2 s"}
    access = RADIO | {
        "topology": {"kind": "star", "distance": "10 m", "delay": "0 s"},
        "reception": RECEPTION,
        "mac": {"kind": "pure_aloha", "backoff": "1 s"} if mac == "pure_aloha" else mac,
        "traffic": {
            "kind": "constant",
            "every": "2 s",
            "synchronous": True,
            "size": {"mean": "7000 bit"},
            "destination": "tower",
        },
        "outages": [{"kind": "maintenance", "windows": [window]}],
    }
    metrics = trace(tmp_path, access, users=1, duration=44.0).summary
    assert metrics["delay_mean_s"] == pytest.approx(0.7 + 0.4 * 21 / 22, abs=1e-6)
