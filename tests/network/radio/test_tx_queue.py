"""Updates and traffic of the same users: frames are sent in the order of readiness and have separate outcomes."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from support.mixed_cell import build_simulation, packets

from netfl.access.network import NetworkAccess
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.radio.cell import Cell
from netfl.network.radio.tx_queue import MergedTxQueue
from netfl.network.traffic.saturated import Saturated
from netfl.streams import Streams
from netfl.types import OUTCOMES, AccessContext, NullRecorder


def run_updates(simulation, versions, until_s):
    """Return the deliveries (time, kind) if version i arrives at versions[i]."""
    for version, at_s in enumerate(versions):
        simulation.tower.schedule_broadcast(version, at_s)
    simulation.env.run(until=until_s)
    return [(time_s, kind) for time_s, _, kind, *_ in simulation.delivered]


def test_frames_are_sent_in_order_of_readiness(recorder):
    """The update is ready at 5: after the packet of 4 and before that of 6."""
    simulation = build_simulation(recorder, packets([4, 6]), [5.0])
    assert run_updates(simulation, [0.0], 20) == [(5, "packet"), (7, "update"), (8, "packet")]


def test_waiting_packets_precede_later_update(recorder):
    simulation = build_simulation(recorder, packets([1, 1, 1, 2.5, 3.5]), [3.0])
    assert run_updates(simulation, [0.0], 20) == [
        *((time_s, "packet") for time_s in (2, 3, 4, 5)),
        (7, "update"),
        (8, "packet"),
    ]


def test_update_precedes_packet_of_same_time(recorder):
    assert run_updates(build_simulation(recorder, packets([3]), [3.0]), [0.0], 20) == [(5, "update"), (6, "packet")]


def test_started_frame_is_repeated_before_others(recorder):
    """The packet fails three times from 1 to 4; the update that is ready at 2 waits for it."""
    simulation = build_simulation(recorder, packets([1]), [2.0], busy=lambda now_s: now_s < 4.5)
    assert run_updates(simulation, [0.0], 20) == [(5, "packet"), (7, "update")]
    assert [row[-1] for row in simulation.delivered] == [4, 1]


def test_updates_and_packets_are_both_served(recorder):
    """A user that always has packets sends each update in its turn."""
    traffic = Saturated.model_validate({"size": {"distribution": "fixed", "mean": 1.0}})
    simulation = build_simulation(recorder, traffic, [0.5, 7.25])
    for version, at_s in enumerate(range(0, 100, 10)):
        simulation.env.run(until=at_s + 1e-3)
        simulation.event_log.open_round(version + 1)
        simulation.tower.schedule_broadcast(version, at_s + 0.1)
    simulation.env.run(until=120)
    counts = Counter((user, kind) for _, user, kind, *_ in simulation.delivered)
    assert (counts[0, "update"], counts[1, "update"]) == (10, 10)
    assert min(counts[0, "packet"], counts[1, "packet"]) >= 98, "120 s, less 20 s for updates"


def test_superseded_update_leaves_packet_on_air(recorder):
    """A packet is on the air from 3 to 4; version 1 arrives at 3.5 and replaces the waiting update."""
    simulation = build_simulation(recorder, packets([3]), [3.25])
    assert run_updates(simulation, [0.0, 3.5], 20) == [(4, "packet"), (8.75, "update")]
    assert simulation.recorder.outcomes() == {(0, 0): ["superseded"], (0, 1): ["delivered"]}


def test_attempt_limit_applies_per_frame(recorder):
    simulation = build_simulation(recorder, packets([1]), [1.5], busy=lambda now_s: True, limit=2)
    assert run_updates(simulation, [0.0], 20) == []
    assert simulation.recorder.outcomes() == {(0, 0): ["given_up collided"]}
    assert simulation.counter.lost == {"given_up": 1}
    assert simulation.cell.transmit_path.attempts == 4


def test_outage_delays_updates_and_packets(recorder, planned_outages):
    """The user is down from 2 to 30; the update is ready at 3, packets at 2.5 and 40."""
    presence = NodeState(CombinedOutages([planned_outages({0: [(2.0, 30.0)]})]), 101)
    simulation = build_simulation(recorder, packets([2.5, 40]), [3.0], presence=presence)
    deliveries = run_updates(simulation, [0.0], 60)
    assert sorted(kind for _, kind in deliveries[:2]) == ["packet", "update"]
    assert (deliveries[0][0] >= 31, deliveries[1][0], deliveries[2]) == (
        True,
        pytest.approx(33, abs=0.1),
        (41, "packet"),
    )


@pytest.mark.slow
def test_every_update_has_one_outcome(recorder, planned_outages):
    """With random packets, versions, failures and outages, each update ends once and each packet is counted."""
    rng = np.random.default_rng(3)
    users = 6
    plan = {
        user: [
            (arrivals_s, arrivals_s + 3.0) for arrivals_s in np.cumsum(rng.exponential(12.0, 40)) + 4 * np.arange(40)
        ]
        for user in (0, 1, 100)
    }
    arrivals_s = [np.round(np.cumsum(rng.exponential(3.0, 60)), 3).tolist() for _ in range(users)]
    presence = NodeState(CombinedOutages([planned_outages(plan)]), 101)
    rng_failures = np.random.default_rng(4)
    options = {"presence": presence, "limit": 3, "busy": lambda now_s: rng_failures.random() < 0.4}
    simulation = build_simulation(recorder, packets(*arrivals_s), rng.exponential(4.0, users), **options)
    for version, at_s in enumerate(np.cumsum(rng.exponential(9.0, 15))):
        simulation.env.run(until=at_s)
        simulation.event_log.open_round(version + 1)
        simulation.tower.schedule_broadcast(version, at_s)
    simulation.env.run(until=250.0)
    simulation.tower.record_trainings()
    simulation.cell.finish()
    received = Counter((row[3], row[5]) for row in recorder.rows if row[0] == "received")
    ended = Counter((row[3], row[5]) for row in recorder.rows if row[0] in OUTCOMES)
    assert received == ended
    assert set(received.values()) == {1}
    assert len({kind for kind, *_ in recorder.rows if kind in OUTCOMES}) >= 3
    counter, arrived = simulation.counter, sum(sum(time_s < 250 for time_s in times_s) for times_s in arrivals_s)
    assert counter.offered == arrived
    assert 0 <= arrived - counter.delivered - sum(counter.lost.values()) <= users * 60
    assert counter.delivered == sum(kind == "packet" for _, _, kind, *_ in simulation.delivered)


@pytest.mark.parametrize("mac", [{"kind": "pure_aloha", "backoff": 0.02}, {"kind": "lorawan"}], ids=str)
@pytest.mark.slow
def test_new_version_does_not_repeat_frame_on_air(monkeypatch, mac):
    """MACs that do not wait for the end of an attempt plan again for listed users, which must not be on the air."""
    attempt, repeats_s = Cell.attempt, []

    def check_attempt(cell, users, **options):
        repeats_s.extend(cell.env.now for user in np.asarray(users) if cell._queue.on_air[user])
        return attempt(cell, users, **options)

    monkeypatch.setattr(Cell, "attempt", check_attempt)
    is_lora = mac["kind"] == "lorawan"
    network = NetworkAccess.model_validate(
        {
            "topology": {"kind": "star", "radius": 200.0},
            "radio": {"power": 14.0, "bandwidth": 125e3},
            "channel": [{"kind": "constant", "gain": -60.0}],
            "reception": {"kind": "lora"} if is_lora else {"kind": "snr_threshold", "threshold": 0.0, "rate": 1e4},
            "mac": mac,
            "traffic": {"kind": "poisson", "rate": 0.5, "size": {"mean": 400.0}},
            "compute": {"speed": 100.0, "samples": 100.0},
            "broadcast_rate": 1e6,
            "update_size": 400.0,
            "round": {"kind": "first", "deadline": 0.31},
        }
    )
    run_options = {"users": 6, "rounds": 200, "replica": 0, "samples": np.zeros(6), "recorder": NullRecorder()}
    assert (
        len([*network.rounds(AccessContext(streams=Streams(1), uplink_bits=0.0, downlink_bits=0.0, **run_options))])
        == 200
    )
    assert repeats_s == []


@pytest.mark.parametrize("times_s", [(0.3, 0.1 + 0.2), (0.1 + 0.2, 0.3), (0.3, 0.3)])
def test_first_queue_has_precedence_up_to_rounding(times_s):
    """Sums of the same durations in another order are one time; a nanosecond more is another."""
    queues = [
        SimpleNamespace(ids=np.arange(1), max_bits=1.0, ready_s=np.array([time_s]), log=None) for time_s in times_s
    ]
    assert not MergedTxQueue(*queues)._second_is_next(np.arange(1)).any()
    queues[0].ready_s = queues[1].ready_s + 3e-9
    assert MergedTxQueue(*queues)._second_is_next(np.arange(1)).all()
