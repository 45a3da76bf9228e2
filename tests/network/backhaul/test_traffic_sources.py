"""Packets that towers and routers send enter the network at their times."""

from types import SimpleNamespace

import numpy as np
import simpy

from netfl.network.backhaul.traffic_sources import Sender, inject_packets
from netfl.network.event_log import EventLog
from netfl.network.message import TRAFFIC


def inject(*blocks, until_s=1e9):
    """Return the packets that enter, with their times, and the packet counter."""
    env, packets = simpy.Environment(0.0), []
    recorder = SimpleNamespace(wants=lambda kind: False)
    event_log = EventLog(recorder, 1, nodes=9)
    remaining = iter([(np.array(times_s, float), np.array(bits, float)) for times_s, bits in blocks])
    inject_packets(env, remaining, Sender(5, 77, 2), lambda message: packets.append((env.now, message)), event_log)
    env.run(until=until_s)
    return packets, event_log.packets


def test_packets_enter_at_their_times_with_their_sizes():
    packets, counter = inject(([0.0, 1.5], [8, 16]), ([], []), ([1.5, 7.25], [24, 32]))
    assert [(time_s, packet.bits, packet.born_s) for time_s, packet in packets] == [
        (0, 8, 0),
        (1.5, 16, 1.5),
        (1.5, 24, 1.5),
        (7.25, 32, 7.25),
    ]
    assert {(packet.user, packet.base, packet.flow, packet.priority) for _, packet in packets} == {(5, TRAFFIC, 77, 2)}
    assert (counter.offered, counter.offered_bits) == (4, 80)
    assert len({id(packet) for _, packet in packets}) == 4


def test_blocks_are_read_on_demand():
    packets, counter = inject(([1.0, 2.0, 3.0], [1, 1, 1]), until_s=2.5)
    assert (len(packets), counter.offered) == (2, 2)
    assert inject()[0] == []


def test_entry_times_are_exact_and_ordered():
    times_s = np.sort(np.random.default_rng(2).random(3000)).repeat(2) * 1e3 + 1e5
    packets, _ = inject((times_s, np.ones(6000)))
    at_s = np.array([time_s for time_s, _ in packets])
    assert (np.diff(at_s) >= 0).all()
    np.testing.assert_allclose(at_s, times_s, rtol=1e-15, atol=0)
