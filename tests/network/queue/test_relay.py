"""The relay queue: order of service, and superseded messages."""

import numpy as np
import pytest
from support.updates_in_flight import make_update

from netfl.errors import ScenarioError
from netfl.network.backhaul.port import Link, OutputPort
from netfl.network.clock import Clock
from netfl.network.event_log import EventLog
from netfl.network.layout import NodeId
from netfl.network.message import Packet
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.queue.relay import Relay
from netfl.network.updates import OutstandingUpdates
from netfl.streams import Streams

STREAMS = Streams(53)


def message(flow, priority=0):
    return Packet(flow, 1.0, flow, priority)


def served(queue, flows, services, streams=STREAMS):
    """Return the flow of each service, while each flow has two messages waiting."""
    buffer = queue.open(1.0, streams)
    for flow in (*range(flows), *range(flows)):
        assert not buffer.push(message(flow), 0.0)
    picked = []
    for _ in range(services):
        picked.append(buffer.pop(0.0).flow)
        buffer.push(message(picked[-1]), 0.0)
    return np.array(picked)


@pytest.mark.parametrize("weights", [None, [5, 4, 1], {1: 7.5}])
def test_backlogged_flows_are_served_in_proportion_to_weights(weights):
    """χ² tests of counts and of consecutive pairs, with 3 and 9 cells and limits far above the 1e-6 quantiles."""
    picked = served(Relay(weights=weights), 3, 30_000)
    weight_of = dict(enumerate(weights)) if isinstance(weights, list) else weights or {}
    share = np.array([weight_of.get(flow, 1.0) for flow in range(3)])
    share = share / share.sum()
    expected = share * len(picked)
    assert ((np.bincount(picked, minlength=3) - expected) ** 2 / expected).sum() < 27.6
    pairs = np.bincount(picked[:-1:2] * 3 + picked[1::2], minlength=9)
    expected = np.outer(share, share).ravel() * pairs.sum()
    assert ((pairs - expected) ** 2 / expected).sum() < 43


def test_only_waiting_flows_are_served():
    """Without the heaviest flow the others share 4 to 1."""
    buffer, picked = Relay(weights=[95, 4, 1]).open(1.0, STREAMS), []
    buffer.push(message(0), 0.0)
    buffer.pop(0.0)
    for flow in (1, 2):
        buffer.push(message(flow), 0.0)
    for _ in range(10_000):
        picked.append(buffer.pop(0.0).flow)
        buffer.push(message(picked[-1]), 0.0)
    assert abs(np.mean(np.array(picked) == 1) - 0.8) < 4.5 * np.sqrt(0.16 / 10_000)
    assert 0 not in picked


def test_round_robin_is_exact():
    picked = served(Relay(policy="round_robin"), 5, 1000)
    assert (picked == np.arange(1000) % 5).all()


def test_priority_takes_turns_among_equal_flows():
    buffer = Relay(policy="priority").open(1.0, STREAMS)
    for flow, priority in [(0, 1), (1, 0), (2, 0), (1, 0), (3, 2)]:
        buffer.push(message(flow, priority=priority), 0.0)
    assert [buffer.pop(0.0).flow for _ in range(5)] == [1, 2, 1, 0, 3]


def test_newest_messages_of_flow_are_kept():
    buffer = Relay(policy="round_robin", flow_capacity=2).open(1.0, STREAMS)
    messages = [message(0) for _ in range(4)]
    assert [list(buffer.push(arriving, 0.0)) for arriving in messages] == [[], [], [messages[0]], [messages[1]]]
    other = message(1)
    assert not buffer.push(other, 0.0)
    assert len(buffer) == 3
    assert [buffer.pop(0.0) for _ in range(4)] == [messages[2], other, messages[3], None]


@pytest.mark.parametrize("policy", ["weighted_random", "round_robin", "priority"])
def test_empty_relay_returns_none(policy):
    buffer = Relay(policy=policy).open(1.0, STREAMS)
    for _ in range(3):
        assert buffer.pop(0.0) is None
        new = message(7)
        buffer.push(new, 0.0)
        assert (len(buffer), buffer.pop(0.0), len(buffer)) == (1, new, 0)


def test_draws_depend_on_stream():
    draws = [served(Relay(), 4, 200, STREAMS.at(name)).tolist() for name in ("a", "a", "b")]
    assert draws[0] == draws[1] != draws[2]


def test_weights_require_weighted_random():
    with pytest.raises(ScenarioError, match="no effect without policy: weighted_random"):
        Relay(policy="round_robin", weights=[1, 2])


def test_superseded_update_has_outcome_superseded(recorder):
    """Flow 0 is on the link until 10; the first message of flow 1 waits from 1 and is replaced at 2."""
    env, arrived = Clock(), []
    event_log, outstanding = EventLog(recorder, 100_000), OutstandingUpdates(2)
    event_log.open_round(1)
    port = OutputPort(
        env,
        event_log,
        NodeState(CombinedOutages(), 2),
        STREAMS.field("tie", "router:0-server"),
        Link(NodeId("router:0", 0), NodeId("router:0-server", 1), rate_bps=0.1, delay_s=0.0),
        Relay(flow_capacity=1).open(0.1, STREAMS),
        lambda entering: arrived.append((env.now, entering.flow, entering.base)),
    )

    def enter_messages():
        for flow, base in [(0, 0), (1, 0), (1, 1)]:
            port.enter(make_update(outstanding, flow, base=base, flow=flow))
            yield env.timeout(1.0)

    env.process(enter_messages())
    env.run()
    assert arrived == [(10.0, 0, 0), (20.0, 1, 1)]
    assert recorder.outcomes() == {(1, 0): ["superseded"]}
