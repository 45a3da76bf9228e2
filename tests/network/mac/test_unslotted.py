"""MACs with overlapping attempts: pure ALOHA and its retries.

Statistical checks allow 4.5 standard errors, from the spread over batches of some hundred attempts.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from netfl.network.clock import Clock
from netfl.network.event_log import EventLog
from netfl.network.interference.capture import Capture
from netfl.network.layout import NodeId
from netfl.network.mac.pure_aloha import PureAloha
from netfl.network.radio.bench import BenchSetup, attempt_outcomes, poisson_cell
from netfl.network.radio.cell import Cell
from netfl.network.radio.medium import AirInterface, Medium
from netfl.network.radio.packet_queue import PacketQueue, TrafficArrivals
from netfl.network.radio.transmission import SharedChannel
from netfl.network.traffic import Traffic
from netfl.streams import Streams


def run_mac(simulation, mac, until_s, versions=(0.0,)):
    """Run *mac* with version i at versions[i]."""
    simulation.env.process(mac.serve(simulation.cell))
    for version, at_s in enumerate(versions):
        simulation.tower.schedule_broadcast(version, at_s)
    simulation.env.run(until=until_s)


def test_overlapping_attempts_collide(make_cell):
    """Airtimes of 1 s start at 0.0 and 0.5, which overlap, at 1.25, which overlaps the second, and at 9."""
    simulation = make_cell(4, compute_s=[0.0, 0.5, 1.25, 9.0])
    run_mac(simulation, PureAloha(backoff=1e6), 100.0)
    assert simulation.recorder.events("sent") == [(0.0, 0), (0.5, 1), (1.25, 2), (9.0, 3)]
    assert simulation.recorder.events("failed") == [(1.0, 0), (1.5, 1), (2.25, 2)]
    assert [(message.user, at_s) for at_s, message in simulation.sent_on] == [(3, 10.0)]


@pytest.mark.slow
def test_backoffs_are_exponential(make_cell):
    """The gap between attempts of a single faded user is exponential with mean 3 s."""
    count = 2000
    simulation = make_cell(1, snr_db=lambda users, time_s: [-9.0])
    run_mac(simulation, PureAloha(backoff=3.0, max_attempts=count + 1), 1e5)
    starts = np.array([time_s for time_s, _ in simulation.recorder.events("sent")])
    gaps = np.diff(starts) - 1.0
    assert len(gaps) == count
    assert gaps.min() > 0
    assert abs(gaps.mean() - 3.0) < 4.5 * 3.0 / np.sqrt(count)
    assert abs((gaps > 3.0).mean() - np.exp(-1)) < 4.5 * 0.5 / np.sqrt(count)
    assert simulation.recorder.outcomes() == {(0, 0): ["given_up faded"]}


def test_user_does_not_interfere_with_itself(make_cell):
    """The update is superseded on the air; the next one is ready and waits for the end of the airtime."""
    simulation = make_cell(1)
    run_mac(simulation, PureAloha(backoff=1.0), 20.0, [0.0, 0.5, 5.0])
    assert [(message.base, message.sent_s, at_s) for at_s, message in simulation.sent_on] == [
        (0, 0.0, 1.0),
        (1, 1.0, 2.0),
        (2, 5.0, 6.0),
    ]


def test_user_sends_at_end_of_outage(make_cell):
    simulation = make_cell(2, plan={0: [(2.0, 9.0)]}, compute_s=[3.0, 20.0])
    run_mac(simulation, PureAloha(backoff=1.0), 50.0)
    assert simulation.recorder.events("sent") == [(9.0, 0), (20.0, 1)]


def test_weaker_user_backs_off_after_capture(make_cell):
    """The users are 20 dB apart, with capture at 6 dB: user 1 is received, and user 0 backs off."""
    simulation = make_cell(2, snr_db=lambda users, time_s: 20.0 * users, interference=Capture(margin=6.0))
    run_mac(simulation, PureAloha(backoff=1e6), 100.0)
    assert [(message.user, at_s) for at_s, message in simulation.sent_on] == [(1, 1.0)]
    assert simulation.recorder.events("sent") == [(0.0, 0), (0.0, 1)]


@pytest.mark.parametrize(("users", "load"), [(2, 1.0), (5, 0.3), (40, 0.5), (40, 1.5)])
@pytest.mark.parametrize("limit", [1, None])
@pytest.mark.slow
def test_success_probability_of_attempt(users, load, limit):
    """Senders are silent for β and send for T: (exp(-T/β) β/(β+T))^(n-1), with or without retries."""
    pause_s = (users - load) / load
    rng, rows = np.random.default_rng(users), 100
    successes, ended = attempt_outcomes(
        BenchSetup(PureAloha(backoff=pause_s, max_attempts=limit), users, 1.0, Streams(2)),
        lambda sender_ids, now_s: now_s + rng.exponential(pause_s, len(sender_ids)),
        100 / load,
        rows,
    )
    share = (np.exp(-1 / pause_s) * pause_s / (pause_s + 1)) ** (users - 1)
    assert (
        abs(successes.mean() / ended.mean() - share)
        < 4.5 * (successes - share * ended).std() / np.sqrt(rows) / ended.mean()
    )
    assert abs(ended.mean() - 100) < 4.5 * ended.std() / np.sqrt(rows), "n T / (β + T) attempts per airtime"


@pytest.mark.slow
def test_abramson_throughput_of_many_users():
    """400 users without retries: G e^(-2G) packets succeed per airtime, G = 0.5."""
    cell, event_log = poisson_cell(BenchSetup(PureAloha(backoff=1.0, max_attempts=1), 400, 1.0, Streams(3)), 0.5)
    cell.env.run(until=8000)
    assert abs(event_log.packets.delivered / 8000 - 0.5 * np.exp(-1.0)) < 0.006


class _PacketPairs(Traffic):
    """Two packets at the same time."""

    def times_s(self, link_bps, rng):
        yield np.array([1.0, 1.0])


def pairs_cell():
    env, sent_on = Clock(), []
    null_recorder = SimpleNamespace(wants=lambda kind: False, record=lambda event: None)
    event_log = EventLog(null_recorder, 1, nodes=1)
    traffic = _PacketPairs(size={"mean": 1.0})
    load = PacketQueue(np.arange(1), traffic, TrafficArrivals(traffic, [0], 1.0, Streams(1)), "tower:0", event_log)
    air = AirInterface(NodeId("tower:0", 1), Medium(1.0), SharedChannel())
    return Cell(env, air, load, Streams(1), lambda message: sent_on.append(env.now)), sent_on


def test_second_packet_of_same_time_is_no_retry():
    """The second frame is sent when the first is delivered, without a backoff."""
    cell, sent_on = pairs_cell()
    cell.env.process(PureAloha(backoff=1e6).serve(cell))
    cell.env.run(until=10)
    assert sent_on == [2.0, 3.0]
