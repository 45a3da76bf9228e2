"""Ports and their queues against Lindley's recursion and the closed forms of queueing theory.

Statistics: each confidence interval is 4.5 standard errors of the mean of 40 independent runs (t with 39 degrees of
freedom): a false alarm with probability 6e-5 each.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import simpy

from netfl.network.backhaul.port import Link, OutputPort
from netfl.network.event_log import EventLog
from netfl.network.layout import NodeId
from netfl.network.message import Message
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.queue.drop_tail import DropTail
from netfl.network.queue.priority import Priority
from netfl.network.queue.red import Red
from netfl.streams import Streams

RUNS = 40
STREAMS = Streams(11)


def network_of(env, ledger, outages=None):
    """The surroundings of a port of two nodes."""
    state = NodeState(outages or CombinedOutages(), 2)
    return SimpleNamespace(env=env, log=ledger, config=SimpleNamespace(node_state=state))


def port_of(env, ledger, onward, *, queue=None, capacity=None, delay_s=0.0, rate_bps=1.0, outages=None):
    """A port of node 0 on link 1, whatever its queue."""
    return OutputPort(
        network_of(env, ledger, outages),
        Link(NodeId("router:0", 0), NodeId("router:0-server", 1), rate_bps=rate_bps, delay_s=delay_s),
        (queue or DropTail(capacity=capacity)).open(rate_bps, STREAMS),
        onward,
    )


def play(memory, times_s, bits, build, *, flows=None, priorities=None):
    """Messages *bits* enter what *build* makes at *times_s*; gives when each came out, NaN if it did not."""
    env = simpy.Environment(0.0)
    ledger = EventLog(memory, 100_000)
    out_s = np.full(len(times_s), np.nan)

    def came_out(message):
        out_s[message.user] = env.now

    enter = build(env, ledger, came_out)

    def arrivals():
        for index, (time_s, size) in enumerate(zip(times_s, bits, strict=True)):
            yield env.timeout(time_s - env.now)
            flow, priority = (0 if given is None else int(given[index]) for given in (flows, priorities))
            message = Message(index, 0, float(size), time_s, 1, flow, priority)
            ledger.in_flight[message] = None
            enter(message)

    env.process(arrivals())
    env.run()
    return out_s


def fifo(times_s, service_s):
    """When each customer leaves a single server: max(its arrival, the last departure) + its service."""
    out = np.empty(len(times_s))
    last = -np.inf
    for index, (time_s, one) in enumerate(zip(times_s, service_s, strict=True)):
        last = out[index] = max(time_s, last) + one
    return out


def near(values, expected):
    return abs(np.mean(values) - expected) < 4.5 * np.std(values, ddof=1) / np.sqrt(len(values))


class Silent:
    def wants(self, kind):
        return False

    def event(self, kind, time_s, **told):
        pass


@pytest.mark.parametrize("law", ["M/D/1", "M/M/1"])
@pytest.mark.parametrize("load", [0.3, 0.6])
@pytest.mark.quick_first
def test_mean_wait_is_pollaczek_khinchine(law, load):
    """W = ρ (1 + c²) / (2 (1 - ρ)) services, c² = 0 for fixed 1 for exponential ones; each wait is Lindley's."""
    rng, means, messages = np.random.default_rng(17), [], 1200
    for _ in range(RUNS):
        times_s = np.cumsum(rng.exponential(1 / load, messages))
        service_s = np.ones(messages) if law == "M/D/1" else rng.exponential(1.0, messages)
        out_s = play(Silent(), times_s, service_s, lambda *parts: port_of(*parts).enter)
        np.testing.assert_allclose(out_s, fifo(times_s, service_s), rtol=1e-9)
        means.append((out_s - service_s - times_s)[200:].mean())
    assert near(means, load * (1 if law == "M/D/1" else 2) / (2 * (1 - load)))


@pytest.mark.slow
@pytest.mark.parametrize(("capacity", "load"), [(0, 0.8), (2, 0.8), (3, 1.5)])
def test_share_dropped_is_that_of_the_finite_queue(capacity, load):
    """M/M/1/K with K = capacity + 1: (1-ρ) ρ^K / (1 - ρ^(K+1)); capacity 0 is Erlang's loss of one server."""
    rng, shares, messages = np.random.default_rng(23), [], 1000
    for _ in range(RUNS):
        times_s = np.cumsum(rng.exponential(1 / load, messages))
        out_s = play(
            Silent(),
            times_s,
            rng.exponential(1.0, messages),
            lambda env, ledger, onward: port_of(env, ledger, onward, capacity=capacity).enter,
        )
        shares.append(np.isnan(out_s)[100:].mean())
    room = capacity + 1
    assert near(shares, (1 - load) * load**room / (1 - load ** (room + 1)))


def test_two_ports_in_a_row_store_and_forward():
    rng = np.random.default_rng(5)
    times_s, bits = np.cumsum(rng.exponential(1.0, 400)), rng.exponential(1.0, 400)

    def tandem(env, ledger, onward):
        second = port_of(env, ledger, onward, rate_bps=1.2, delay_s=0.25)
        return port_of(env, ledger, second.enter, rate_bps=2.0, delay_s=3.0).enter

    out_s = play(Silent(), times_s, bits, tandem)
    np.testing.assert_allclose(out_s, fifo(fifo(times_s, bits / 2.0) + 3.0, bits / 1.2) + 0.25, rtol=1e-9)


def test_what_a_node_holds_is_lost_when_it_goes_down(memory, planned):
    """Sent from 0 to 4, 4 to 8, …; down from 5 to 20: one is out, one half sent, one waiting, one comes meanwhile."""
    outages = CombinedOutages([planned({0: [(5, 20)]})])
    times_s = [0.0, 1.0, 2.0, 10.0, 20.0, 21.0]

    def build(env, ledger, onward):
        return port_of(env, ledger, onward, delay_s=3.0, outages=outages).enter

    out_s = play(memory, times_s, [4.0] * 6, build)
    np.testing.assert_array_equal(out_s, [7.0, np.nan, np.nan, np.nan, 27.0, 31.0])
    assert memory.of("lost") == [(5.0, 1), (5.0, 2), (10.0, 3)]
    assert memory.of("forwarded") == [(4.0, 0), (24.0, 4), (28.0, 5)]


def test_a_full_room_turns_away_the_last(memory):
    def build(env, ledger, onward):
        return port_of(env, ledger, onward, capacity=1).enter

    out_s = play(memory, [0.0, 1.0, 2.0, 5.5], [5.0] * 4, build)
    np.testing.assert_array_equal(out_s, [5.0, 10.0, np.nan, 15.0])
    assert memory.of("dropped") == [(2.0, 2)]


@pytest.mark.slow
def test_mean_waits_by_strict_priority_are_cobhams():
    """Two classes, M/G/1 with exponential and fixed services; waits by W_0 / ((1 - σ_{k-1}) (1 - σ_k)).

    Class 0: λ 0.3, exponential of mean 1; class 1: λ 0.2, always 2.  W_0 = (0.3 · 2 + 0.2 · 4) / 2 = 0.7, σ = 0.3, 0.7,
    so W = 0.7 / 0.7 = 1 and 0.7 / (0.7 · 0.3) = 10/3.
    """
    rng, means, messages = np.random.default_rng(29), [], 1500
    for _ in range(RUNS):
        times_s = np.cumsum(rng.exponential(2.0, messages))
        urgent = rng.random(messages) < 0.6
        service_s = np.where(urgent, rng.exponential(1.0, messages), 2.0)
        out_s = play(
            Silent(),
            times_s,
            service_s,
            lambda *parts: port_of(*parts, queue=Priority()).enter,
            priorities=np.where(urgent, 0, 1),
        )
        waits = (out_s - service_s - times_s)[200:]
        means.append((waits[urgent[200:]].mean(), waits[~urgent[200:]].mean()))
    first, second = np.transpose(means)
    assert near(first, 1.0)
    assert near(second, 10 / 3)


def red_chain(load, low, high, max_p, room):
    """The share that RED turns away with w = 1 (its average is the queue that is met), by its Markov chain.

    States: (link busy or not, waiting 0 … room, messages since the last that was turned away), Poisson arrivals,
    exponential services of mean 1.  Written from the paper's rules, not from the code.
    """
    counts = 12  # at least one is turned away in 10 where p_b is 0.1, the least there is
    index = {}
    for busy, waiting in [(0, 0), *((1, n) for n in range(room + 1))]:
        for count in range(counts):
            index[busy, waiting, count] = len(index)
    rates, refused = np.zeros((len(index), len(index))), np.zeros(len(index))
    for (busy, waiting, count), here in index.items():
        base = 0.0 if waiting < low else max_p * (waiting - low) / (high - low) if waiting < high else 1.0
        chance = 1.0 if base == 1.0 or count * base >= 1 else min(1.0, base / (1 - count * base))
        refused[here] = chance
        after = 0 if base == 0.0 else min(count + 1, counts - 1)
        taken = (1, waiting + 1 if busy else 0, after)
        if chance < 1.0:
            rates[here, index[taken]] += load * (1 - chance)
        rates[here, index[busy, waiting, 0]] += load * chance
        if busy:
            rates[here, index[(1, waiting - 1, count) if waiting else (0, 0, count)]] += 1.0
    np.fill_diagonal(rates, rates.diagonal() - rates.sum(axis=1))
    share = np.linalg.lstsq(np.vstack([rates.T, np.ones(len(index))]), np.r_[np.zeros(len(index)), 1.0], rcond=None)[0]
    return share @ refused


@pytest.mark.slow
def test_share_dropped_by_red_is_that_of_its_markov_chain():
    rng, shares, messages = np.random.default_rng(31), [], 1500
    expected = red_chain(0.9, 1, 4, 0.3, 4)
    queue = Red(min_threshold=1, max_threshold=4, max_p=0.3, weight=1)
    for run in range(RUNS):
        times_s = np.cumsum(rng.exponential(1 / 0.9, messages))
        out_s = play(
            Silent(),
            times_s,
            rng.exponential(1.0, messages),
            lambda env, ledger, onward, run=run: (
                OutputPort(
                    network_of(env, ledger),
                    Link(NodeId("router:0", 0), NodeId("router:0-server", 1), rate_bps=1.0, delay_s=0.0),
                    queue.open(1.0, STREAMS.at(run)),
                    onward,
                ).enter
            ),
        )
        shares.append(np.isnan(out_s)[100:].mean())
    assert 0.05 < expected < 0.5
    assert near(shares, expected)


def test_what_is_on_a_link_is_lost_when_the_link_goes_down(memory, planned):
    """Links take 4 s to send and 3 s to cross; down from 9 to 10: 0 has arrived at 7, 1 left at 8, 2 is half sent."""
    outages = CombinedOutages([planned({1: [(9, 10)]})])

    def build(env, ledger, onward):
        return port_of(env, ledger, onward, delay_s=3.0, outages=outages).enter

    out_s = play(memory, [0.0, 1.0, 2.0, 3.0, 9.5, 10.0], [4.0] * 6, build)
    np.testing.assert_array_equal(out_s, [7.0, np.nan, np.nan, np.nan, np.nan, 17.0])
    assert memory.of("lost") == [(9.0, 1), (9.0, 2), (9.0, 3), (9.5, 4)]
    assert {row[4] for row in memory.rows if row[0] == "lost"} == {"router:0-server"}


def test_an_outage_that_spares_transmissions_takes_only_what_waits(memory, planned):
    """Down from 1 to 6, 0 is sent till 4 all the same; 1 waits, and is lost when the port turns to it."""
    outages = CombinedOutages([], [planned({0: [(1, 6)]})])
    out_s = play(memory, [0.0, 0.5, 7.0], [4.0] * 3, lambda *parts: port_of(*parts, outages=outages).enter)
    np.testing.assert_array_equal(out_s, [4.0, np.nan, 11.0])
    assert memory.of("lost") == [(4.0, 1)]


def test_time_in_use_is_that_of_a_stopwatch(memory, planned):
    """Services of 4 s from 0, 4 and 20; 3 waits from 2; room for one; down from 5 to 20."""
    ports = []

    def build(env, ledger, onward):
        outages = CombinedOutages([planned({0: [(5, 20)]})])
        ports.append(port_of(env, ledger, onward, capacity=1, outages=outages))
        for time_s in (3.0, 4.5, 23.0):
            env.process(look(env, time_s))
        return ports[0].enter

    seen = {}

    def look(env, time_s):
        yield env.timeout(time_s)
        seen[time_s] = ports[0].busy_by_s(time_s)

    play(memory, [0.0, 1.0, 2.0, 10.0, 20.0], [4.0] * 5, build)
    assert seen == {3.0: 3.0, 4.5: 4.5, 23.0: 8.0}
    assert ports[0].busy_by_s(24.0) == 9.0
    assert (len(memory.of("dropped")), len(memory.of("lost"))) == (1, 2)


@pytest.mark.slow
def test_mean_number_that_waits_is_littles():
    """M/M/1 at load 0.6: ρ² / (1 - ρ) = 0.9 wait on average; the link is busy for 0.6 of the time."""
    rng, found = np.random.default_rng(37), []
    for _ in range(RUNS):
        times_s, ports = np.cumsum(rng.exponential(1 / 0.6, 2000)), []

        def build(env, ledger, onward, ports=ports):
            ports.append(port_of(env, ledger, onward))
            return ports[0].enter

        service_s = rng.exponential(1.0, 2000)
        out_s = play(Silent(), times_s, service_s, build)
        waited_s = (out_s - service_s - times_s).sum()
        found.append((waited_s / out_s.max(), ports[0].busy_by_s(out_s.max()) / out_s.max()))
    waiting, busy = np.transpose(found)
    assert near(waiting, 0.9)
    assert near(busy, 0.6)
