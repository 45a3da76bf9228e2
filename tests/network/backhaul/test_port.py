"""Ports and queues compared with Lindley's recursion and closed forms of queueing theory.

Confidence intervals are 4.5 standard errors of the mean of 40 independent runs: a false alarm with probability 6e-5.
"""

import numpy as np
import pytest
from support.updates_in_flight import make_update

from netfl.network.backhaul.port import Link, OutputPort
from netfl.network.clock import Clock
from netfl.network.event_log import EventLog
from netfl.network.layout import NodeId
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.queue.drop_tail import DropTail
from netfl.network.queue.priority import Priority
from netfl.network.queue.red import Red
from netfl.network.updates import OutstandingUpdates
from netfl.streams import Streams

RUNS = 40
STREAMS = Streams(11)


def build_port(
    env, event_log, forward, *, queue=None, capacity=None, delay_s=0.0, rate_bps=1.0, outages=None, streams=STREAMS
):
    """Build a port of node 0 on link 1."""
    return OutputPort(
        env,
        event_log,
        NodeState(outages or CombinedOutages(), 2),
        Streams(5).field("tie", "router:0-server"),
        Link(NodeId("router:0", 0), NodeId("router:0-server", 1), rate_bps=rate_bps, delay_s=delay_s),
        (queue or DropTail(capacity=capacity)).open(rate_bps, streams),
        forward,
    )


def run_messages(recorder, times_s, bits, build, *, flows=None, priorities=None):
    """Let messages enter what *build* returns at *times_s*; return their departure times, or NaN."""
    env = Clock()
    event_log, outstanding = EventLog(recorder, 100_000), OutstandingUpdates(100_000)
    out_s = np.full(len(times_s), np.nan)

    def record_departure(message):
        out_s[message.user] = env.now

    enter = build(env, event_log, record_departure)

    def arrivals():
        for index, (time_s, size) in enumerate(zip(times_s, bits, strict=True)):
            yield env.timeout(time_s - env.now)
            flow, priority = (0 if values is None else int(values[index]) for values in (flows, priorities))
            enter(make_update(outstanding, index, float(size), sent_s=time_s, flow=flow, priority=priority))

    env.process(arrivals())
    env.run()
    return out_s


def departure_times(times_s, service_s):
    """Return the departure times of a single server: max(arrival, last departure) + service time."""
    departures_s = np.empty(len(times_s))
    last_s = -np.inf
    for index, (time_s, duration_s) in enumerate(zip(times_s, service_s, strict=True)):
        last_s = departures_s[index] = max(time_s, last_s) + duration_s
    return departures_s


def is_near(values, expected):
    return abs(np.mean(values) - expected) < 4.5 * np.std(values, ddof=1) / np.sqrt(len(values))


class SilentRecorder:
    def wants(self, kind):
        return False

    def record(self, event):
        pass


@pytest.mark.parametrize("law", ["M/D/1", "M/M/1"])
@pytest.mark.parametrize("load", [0.3, 0.6])
@pytest.mark.quick_first
def test_mean_wait_is_pollaczek_khinchine(law, load):
    """W = ρ (1 + c²) / (2 (1 - ρ)) services, with c² = 0 for fixed and 1 for exponential services."""
    rng, means, messages = np.random.default_rng(17), [], 1200
    for _ in range(RUNS):
        times_s = np.cumsum(rng.exponential(1 / load, messages))
        service_s = np.ones(messages) if law == "M/D/1" else rng.exponential(1.0, messages)
        out_s = run_messages(SilentRecorder(), times_s, service_s, lambda *parts: build_port(*parts).enter)
        np.testing.assert_allclose(out_s, departure_times(times_s, service_s), rtol=1e-9)
        means.append((out_s - service_s - times_s)[200:].mean())
    assert is_near(means, load * (1 if law == "M/D/1" else 2) / (2 * (1 - load)))


@pytest.mark.slow
@pytest.mark.parametrize(("capacity", "load"), [(0, 0.8), (2, 0.8), (3, 1.5)])
def test_drop_rate_of_finite_queue(capacity, load):
    """M/M/1/K with K = capacity + 1: (1-ρ) ρ^K / (1 - ρ^(K+1)); capacity 0 is the Erlang loss system."""
    rng, shares, messages = np.random.default_rng(23), [], 1000
    for _ in range(RUNS):
        times_s = np.cumsum(rng.exponential(1 / load, messages))
        out_s = run_messages(
            SilentRecorder(),
            times_s,
            rng.exponential(1.0, messages),
            lambda env, event_log, forward: build_port(env, event_log, forward, capacity=capacity).enter,
        )
        shares.append(np.isnan(out_s)[100:].mean())
    places = capacity + 1
    assert is_near(shares, (1 - load) * load**places / (1 - load ** (places + 1)))


def test_two_ports_store_and_forward():
    rng = np.random.default_rng(5)
    times_s, bits = np.cumsum(rng.exponential(1.0, 400)), rng.exponential(1.0, 400)

    def tandem(env, event_log, forward):
        second = build_port(env, event_log, forward, rate_bps=1.2, delay_s=0.25)
        return build_port(env, event_log, second.enter, rate_bps=2.0, delay_s=3.0).enter

    out_s = run_messages(SilentRecorder(), times_s, bits, tandem)
    np.testing.assert_allclose(
        out_s, departure_times(departure_times(times_s, bits / 2.0) + 3.0, bits / 1.2) + 0.25, rtol=1e-9
    )


def test_messages_at_node_are_lost_in_outage(recorder, planned_outages):
    """Services start at 0, 4, …; down from 5 to 20: one message has left, one is half sent, one waits, one arrives."""
    outages = CombinedOutages([planned_outages({0: [(5, 20)]})])
    times_s = [0.0, 1.0, 2.0, 10.0, 20.0, 21.0]

    def build(env, event_log, forward):
        return build_port(env, event_log, forward, delay_s=3.0, outages=outages).enter

    out_s = run_messages(recorder, times_s, [4.0] * 6, build)
    np.testing.assert_array_equal(out_s, [7.0, np.nan, np.nan, np.nan, 27.0, 31.0])
    assert recorder.events("lost") == [(5.0, 1), (5.0, 2), (10.0, 3)]
    assert recorder.events("forwarded") == [(4.0, 0), (24.0, 4), (28.0, 5)]


def test_full_queue_drops_message(recorder):
    def build(env, event_log, forward):
        return build_port(env, event_log, forward, capacity=1).enter

    out_s = run_messages(recorder, [0.0, 1.0, 2.0, 5.5], [5.0] * 4, build)
    np.testing.assert_array_equal(out_s, [5.0, 10.0, np.nan, 15.0])
    assert recorder.events("dropped") == [(2.0, 2)]


@pytest.mark.slow
def test_mean_waits_follow_cobham_formula():
    """Two classes in M/G/1; waits are W_0 / ((1 - σ_{k-1}) (1 - σ_k)).

    Class 0: λ 0.3, exponential of mean 1; class 1: λ 0.2, always 2.  W_0 = (0.3 · 2 + 0.2 · 4) / 2 = 0.7, σ = 0.3,
    0.7, so W = 0.7 / 0.7 = 1 and 0.7 / (0.7 · 0.3) = 10/3.
    """
    rng, means, messages = np.random.default_rng(29), [], 1500
    for _ in range(RUNS):
        times_s = np.cumsum(rng.exponential(2.0, messages))
        is_urgent = rng.random(messages) < 0.6
        service_s = np.where(is_urgent, rng.exponential(1.0, messages), 2.0)
        out_s = run_messages(
            SilentRecorder(),
            times_s,
            service_s,
            lambda *parts: build_port(*parts, queue=Priority()).enter,
            priorities=np.where(is_urgent, 0, 1),
        )
        waits = (out_s - service_s - times_s)[200:]
        means.append((waits[is_urgent[200:]].mean(), waits[~is_urgent[200:]].mean()))
    first, second = np.transpose(means)
    assert is_near(first, 1.0)
    assert is_near(second, 10 / 3)


def red_drop_rate(load, low, high, max_p, capacity):
    """Return the drop rate of RED with w = 1, from its Markov chain.

    States: (link busy, waiting 0 … capacity, messages since the last drop), Poisson arrivals, exponential services of
    mean 1.  The chain follows the rules of the paper and not the code.
    """
    counts = 12  # at least one in 10 is dropped at p_b = 0.1, the smallest value
    index = {}
    for busy, waiting in [(0, 0), *((1, n) for n in range(capacity + 1))]:
        for count in range(counts):
            index[busy, waiting, count] = len(index)
    rates, drops = np.zeros((len(index), len(index))), np.zeros(len(index))
    for (busy, waiting, count), state in index.items():
        base = 0.0 if waiting < low else max_p * (waiting - low) / (high - low) if waiting < high else 1.0
        drop_probability = 1.0 if base == 1.0 or count * base >= 1 else min(1.0, base / (1 - count * base))
        drops[state] = drop_probability
        next_count = 0 if base == 0.0 else min(count + 1, counts - 1)
        next_state = (1, waiting + 1 if busy else 0, next_count)
        if drop_probability < 1.0:
            rates[state, index[next_state]] += load * (1 - drop_probability)
        rates[state, index[busy, waiting, 0]] += load * drop_probability
        if busy:
            rates[state, index[(1, waiting - 1, count) if waiting else (0, 0, count)]] += 1.0
    np.fill_diagonal(rates, rates.diagonal() - rates.sum(axis=1))
    share = np.linalg.lstsq(np.vstack([rates.T, np.ones(len(index))]), np.r_[np.zeros(len(index)), 1.0], rcond=None)[0]
    return share @ drops


@pytest.mark.slow
def test_red_drop_rate_matches_markov_chain():
    rng, shares, messages = np.random.default_rng(31), [], 1500
    expected = red_drop_rate(0.9, 1, 4, 0.3, 4)
    queue = Red(min_threshold=1, max_threshold=4, max_p=0.3, weight=1)
    for run in range(RUNS):
        times_s = np.cumsum(rng.exponential(1 / 0.9, messages))
        out_s = run_messages(
            SilentRecorder(),
            times_s,
            rng.exponential(1.0, messages),
            lambda *parts, run=run: build_port(*parts, queue=queue, streams=STREAMS.at(run)).enter,
        )
        shares.append(np.isnan(out_s)[100:].mean())
    assert 0.05 < expected < 0.5
    assert is_near(shares, expected)


def test_messages_on_link_are_lost_in_outage(recorder, planned_outages):
    """Sending takes 4 s and the delay is 3 s; down from 9 to 10: 0 has arrived, 1 has left, 2 is half sent."""
    outages = CombinedOutages([planned_outages({1: [(9, 10)]})])

    def build(env, event_log, forward):
        return build_port(env, event_log, forward, delay_s=3.0, outages=outages).enter

    out_s = run_messages(recorder, [0.0, 1.0, 2.0, 3.0, 9.5, 10.0], [4.0] * 6, build)
    np.testing.assert_array_equal(out_s, [7.0, np.nan, np.nan, np.nan, np.nan, 17.0])
    assert recorder.events("lost") == [(9.0, 1), (9.0, 2), (9.0, 3), (9.5, 4)]
    assert {row[4] for row in recorder.rows if row[0] == "lost"} == {"router:0-server"}


def test_outage_that_finishes_transmissions_loses_waiting_messages(recorder, planned_outages):
    """The node is down from 1 to 6; 0 is sent until 4, and 1 is lost at the start of its service."""
    outages = CombinedOutages([], [planned_outages({0: [(1, 6)]})])
    out_s = run_messages(recorder, [0.0, 0.5, 7.0], [4.0] * 3, lambda *parts: build_port(*parts, outages=outages).enter)
    np.testing.assert_array_equal(out_s, [4.0, np.nan, 11.0])
    assert recorder.events("lost") == [(4.0, 1)]


def test_busy_time_of_port(recorder, planned_outages):
    """Services of 4 s start at 0, 4 and 20; the node is down from 5 to 20; capacity is 1."""
    ports = []

    def build(env, event_log, forward):
        outages = CombinedOutages([planned_outages({0: [(5, 20)]})])
        ports.append(build_port(env, event_log, forward, capacity=1, outages=outages))
        for time_s in (3.0, 4.5, 23.0):
            env.process(read_busy_time(env, time_s))
        return ports[0].enter

    busy_s = {}

    def read_busy_time(env, time_s):
        yield env.timeout(time_s)
        busy_s[time_s] = ports[0].busy_by_s(time_s)

    run_messages(recorder, [0.0, 1.0, 2.0, 10.0, 20.0], [4.0] * 5, build)
    assert busy_s == {3.0: 3.0, 4.5: 4.5, 23.0: 8.0}
    assert ports[0].busy_by_s(24.0) == 9.0
    assert (len(recorder.events("dropped")), len(recorder.events("lost"))) == (1, 2)


@pytest.mark.slow
def test_mean_queue_length_follows_little_law():
    """M/M/1 at load 0.6: ρ² / (1 - ρ) = 0.9 messages wait on average, and the link is busy 0.6 of the time."""
    rng, means = np.random.default_rng(37), []
    for _ in range(RUNS):
        times_s, ports = np.cumsum(rng.exponential(1 / 0.6, 2000)), []

        def build(env, event_log, forward, ports=ports):
            ports.append(build_port(env, event_log, forward))
            return ports[0].enter

        service_s = rng.exponential(1.0, 2000)
        out_s = run_messages(SilentRecorder(), times_s, service_s, build)
        waited_s = (out_s - service_s - times_s).sum()
        means.append((waited_s / out_s.max(), ports[0].busy_by_s(out_s.max()) / out_s.max()))
    waiting, busy = np.transpose(means)
    assert is_near(waiting, 0.9)
    assert is_near(busy, 0.6)
