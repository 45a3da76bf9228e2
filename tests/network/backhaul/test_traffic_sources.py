"""Packets that towers and routers send: each enters at its instant, as what it is."""

from types import SimpleNamespace

import numpy as np
import simpy

from netfl.network.backhaul.traffic_sources import Sender, inject_packets
from netfl.network.event_log import EventLog
from netfl.network.message import TRAFFIC


def entered(*blocks, until_s=1e9):
    """What enters when."""
    env, came = simpy.Environment(0.0), []
    recorder = SimpleNamespace(wants=lambda kind: False)
    ledger = EventLog(recorder, 1, nodes=9)
    told = iter([(np.array(times_s, float), np.array(bits, float)) for times_s, bits in blocks])
    inject_packets(env, told, Sender(5, 77, 2), lambda message: came.append((env.now, message)), ledger)
    env.run(until=until_s)
    return came, ledger.packets


def test_each_at_its_instant_with_its_size():
    came, meter = entered(([0.0, 1.5], [8, 16]), ([], []), ([1.5, 7.25], [24, 32]))
    assert [(at, one.bits, one.born_s) for at, one in came] == [
        (0, 8, 0),
        (1.5, 16, 1.5),
        (1.5, 24, 1.5),
        (7.25, 32, 7.25),
    ]
    assert {(one.user, one.base, one.flow, one.priority) for _, one in came} == {(5, TRAFFIC, 77, 2)}
    assert (meter.offered, meter.offered_bits) == (4, 80)
    assert len({id(one) for _, one in came}) == 4


def test_no_more_is_taken_than_is_needed():
    came, meter = entered(([1.0, 2.0, 3.0], [1, 1, 1]), until_s=2.5)
    assert (len(came), meter.offered) == (2, 2)
    assert entered()[0] == []


def test_the_clock_never_goes_back_nor_drifts():
    times_s = np.sort(np.random.default_rng(2).random(3000)).repeat(2) * 1e3 + 1e5
    came, _ = entered((times_s, np.ones(6000)))
    at_s = np.array([at for at, _ in came])
    assert (np.diff(at_s) >= 0).all()
    np.testing.assert_allclose(at_s, times_s, rtol=1e-15, atol=0)
