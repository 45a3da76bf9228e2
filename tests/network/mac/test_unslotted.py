"""MACs whose attempts overlap: pure ALOHA, and who tries what again.

Statistics: figures are held to 4.5 standard errors, by the spread over batches of some hundred attempts.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import simpy

from netfl.network.event_log import EventLog
from netfl.network.layout import NodeId
from netfl.network.mac.pure_aloha import PureAloha
from netfl.network.radio.bench import BenchSetup, attempt_outcomes, poisson_cell
from netfl.network.radio.cell import AirInterface, Cell
from netfl.network.radio.medium import Medium
from netfl.network.radio.packet_queue import PacketQueue
from netfl.network.radio.transmission import SharedChannel
from netfl.network.traffic import Traffic
from netfl.streams import Streams


def start(world, mac, until_s, versions=(0.0,)):
    """Serve *world*'s cell with *mac*; version i comes at versions[i]."""
    world.env.process(mac.serve(world.cell))
    for version, at_s in enumerate(versions):
        world.tower.schedule_broadcast(version, at_s)
    world.env.run(until=until_s)


def test_everybody_sends_at_once_and_those_who_overlap_collide(make_cell):
    """Airtimes of 1 s: from 0.0 and 0.5, which meet; from 1.25, which meets the second; and from 9 alone."""
    world = make_cell(4, compute_s=[0.0, 0.5, 1.25, 9.0])
    start(world, PureAloha(backoff=1e6), 100.0)
    assert world.memory.of("sent") == [(0.0, 0), (0.5, 1), (1.25, 2), (9.0, 3)]
    assert world.memory.of("failed") == [(1.0, 0), (1.5, 1), (2.25, 2)]
    assert [(message.user, at_s) for at_s, message in world.sent_on] == [(3, 10.0)]


@pytest.mark.slow
def test_backoffs_are_exponential(make_cell):
    """A lone user in a fade: from the end of an attempt to the next there is an exponential time of mean 3 s."""
    count = 2000
    world = make_cell(1, snr_db=lambda users, time_s: [-9.0])
    start(world, PureAloha(backoff=3.0, max_attempts=count + 1), 1e5)
    starts = np.array([time_s for time_s, _ in world.memory.of("sent")])
    gaps = np.diff(starts) - 1.0
    assert len(gaps) == count
    assert gaps.min() > 0
    assert abs(gaps.mean() - 3.0) < 4.5 * 3.0 / np.sqrt(count)
    assert abs((gaps > 3.0).mean() - np.exp(-1)) < 4.5 * 0.5 / np.sqrt(count)
    assert world.memory.outcomes() == {(0, 0): ["given_up faded"]}


def test_a_user_never_disturbs_itself(make_cell):
    """It is superseded while it sends, and its next update is ready at once: that waits until the air is free."""
    world = make_cell(1)
    start(world, PureAloha(backoff=1.0), 20.0, [0.0, 0.5, 5.0])
    assert [(message.base, message.sent_s, at_s) for at_s, message in world.sent_on] == [
        (0, 0.0, 1.0),
        (1, 1.0, 2.0),
        (2, 5.0, 6.0),
    ]


def test_who_is_cut_off_sends_as_soon_as_it_is_back(make_cell):
    world = make_cell(2, plan={0: [(2.0, 9.0)]}, compute_s=[3.0, 20.0])
    start(world, PureAloha(backoff=1.0), 50.0)
    assert world.memory.of("sent") == [(9.0, 0), (20.0, 1)]


def test_a_loser_backs_off_although_the_winner_of_that_instant_does_not(make_cell):
    """20 dB apart, capture at 6 dB: user 1 is received, and user 0 has to wait for long."""
    world = make_cell(2, snr_db=lambda users, time_s: 20.0 * users, capture_db=6.0)
    start(world, PureAloha(backoff=1e6), 100.0)
    assert [(message.user, at_s) for at_s, message in world.sent_on] == [(1, 1.0)]
    assert world.memory.of("sent") == [(0.0, 0), (0.0, 1)]


@pytest.mark.parametrize(("users", "load"), [(2, 1.0), (5, 0.3), (40, 0.5), (40, 1.5)])
@pytest.mark.parametrize("limit", [1, None])
@pytest.mark.slow
def test_the_chance_of_an_attempt(users, load, limit):
    """Independent senders that are silent for β and send for T: (exp(-T/β) β/(β+T))^(n-1), given up or not."""
    pause_s = (users - load) / load
    rng, rows = np.random.default_rng(users), 100
    good, ended = attempt_outcomes(
        BenchSetup(PureAloha(backoff=pause_s, max_attempts=limit), users, 1.0, Streams(2)),
        lambda who, now: now + rng.exponential(pause_s, len(who)),
        100 / load,
        rows,
    )
    share = (np.exp(-1 / pause_s) * pause_s / (pause_s + 1)) ** (users - 1)
    assert abs(good.mean() / ended.mean() - share) < 4.5 * (good - share * ended).std() / np.sqrt(rows) / ended.mean()
    assert abs(ended.mean() - 100) < 4.5 * ended.std() / np.sqrt(rows), "n T / (β + T) attempts per airtime"


@pytest.mark.slow
def test_abramsons_throughput_in_the_limit_of_many():
    """400 users, attempts lost at once: G e^(-2G) packets get through in an airtime, G = 0.5."""
    cell, ledger = poisson_cell(BenchSetup(PureAloha(backoff=1.0, max_attempts=1), 400, 1.0, Streams(3)), 0.5)
    cell.env.run(until=8000)
    assert abs(ledger.packets.delivered / 8000 - 0.5 * np.exp(-1.0)) < 0.006


class _Pairs(Traffic):
    """Two packets at one instant."""

    def times_s(self, link_bps, rng):
        yield np.array([1.0, 1.0])


def pairs_cell():
    env, sent_on = simpy.Environment(0.0), []
    silent = SimpleNamespace(wants=lambda kind: False, event=lambda *told, **more: None)
    ledger = EventLog(silent, 1, nodes=1)
    traffic = _Pairs(size={"mean": 1.0})
    load = PacketQueue(np.arange(1), traffic, [traffic.blocks(0, 1.0, Streams(1))], "tower:0", ledger)
    air = AirInterface(NodeId("tower:0", 1), Medium(1.0), SharedChannel())
    return Cell(env, air, load, Streams(1), lambda message: sent_on.append(env.now)), sent_on


def test_a_second_packet_of_the_same_instant_is_no_retry():
    """It is sent as soon as the first is through, not after a backoff."""
    cell, sent_on = pairs_cell()
    cell.env.process(PureAloha(backoff=1e6).serve(cell))
    cell.env.run(until=10)
    assert sent_on == [2.0, 3.0]
