"""A cell: reception, retries, outages and superseded updates."""

import numpy as np
import pytest

from netfl.network.reception.mcs import Mcs


def open_version(simulation, version=0, at_s=0.0):
    """Broadcast a version at *at_s* and run until then."""
    simulation.event_log.open_round(version + 1)
    simulation.tower.schedule_broadcast(version, at_s)
    simulation.env.run(until=at_s + 1e-6)


def run_attempt(simulation, users, at_s, **options):
    """Let *users* send at *at_s*, and return the successes."""
    if at_s > simulation.env.now:
        simulation.env.run(until=at_s)
    return simulation.env.run(until=simulation.cell.attempt(np.array(users), **options)).tolist()


def test_single_user_is_received_at_end_of_airtime(make_cell):
    simulation = make_cell(3)
    open_version(simulation)
    assert run_attempt(simulation, [1], 5.0) == [True]
    [(at_s, message)] = simulation.sent_on
    assert (at_s, message.user, message.base, message.sent_s, message.attempts) == (6.0, 1, 0, 5.0, 1)
    assert simulation.cell.ready_s.tolist() == [0.0, np.inf, 0.0]
    assert simulation.event_log.uplink_bits == 1000.0


def test_colliding_users_stay_in_backlog(make_cell):
    simulation = make_cell(3)
    open_version(simulation)
    assert run_attempt(simulation, [0, 2], 1.0) == [False, False]
    assert simulation.cell.backlog().tolist() == [0, 1, 2]
    assert simulation.sent_on == []
    assert simulation.recorder.events("failed") == [(2.0, 0), (2.0, 2)]
    assert {row[6] for row in simulation.recorder.rows if row[0] == "failed"} == {"collided"}
    assert run_attempt(simulation, [2], 3.0) == [True]
    assert (simulation.sent_on[0][1].attempts, simulation.sent_on[0][1].sent_s) == (2, 1.0)
    assert simulation.event_log.uplink_bits == 3000.0


def test_snr_at_start_decides(make_cell):
    """User 0 is at -4 dB until 10 s, then at -2 dB; the threshold is -3 dB."""
    simulation = make_cell(1, snr_db=lambda users, time_s: np.where(time_s < 10, -4.0, -2.0) + users)
    open_version(simulation)
    assert run_attempt(simulation, [0], 9.5) == [False]
    [failed] = [row for row in simulation.recorder.rows if row[0] == "failed"]
    assert failed[5:] == (-4.0, "faded")
    assert run_attempt(simulation, [0], 10.5) == [True]


@pytest.mark.parametrize("down", [0, 100], ids=["user", "tower"])
def test_outage_during_transmission_loses_it(make_cell, down):
    simulation = make_cell(2, plan={down: [(5.5, 5.6), (7.0, 8.0)]})
    open_version(simulation)
    assert run_attempt(simulation, [0], 5.0) == [False]
    assert [row[6] for row in simulation.recorder.rows if row[0] == "failed"] == ["lost"]
    assert run_attempt(simulation, [0], 6.0) == [True], "the transmission ends when the outage starts"


def test_user_that_is_down_causes_no_interference(make_cell):
    simulation = make_cell(3, plan={0: [(2.0, 9.0)]})
    open_version(simulation)
    simulation.cell.changes()
    assert run_attempt(simulation, [0, 1], 4.0) == [False, True]
    assert simulation.cell.ready_s.tolist() == [9.0, np.inf, 0.0]
    assert simulation.recorder.events("sent") == [(4.0, 1)]
    assert sorted(simulation.cell.changes().tolist()) == [0, 1]
    assert run_attempt(simulation, [0], 9.0) == [True]


def test_users_beside_one_that_is_down_keep_their_modes_and_channels(make_cell):
    """Modes take 1 s and 2 s; user 2 chooses the slow one, although its SNR allows the fast one."""
    table = [{"kind": "snr_threshold", "threshold": -3 - mode, "rate": rate} for mode, rate in enumerate((1000, 500))]
    simulation = make_cell(3, plan={0: [(2.0, 9.0)]}, reception=Mcs(table=table))
    open_version(simulation)
    options = {"mode": np.array([0, 0, 1]), "channel": np.array([0, 1, 2])}
    assert run_attempt(simulation, [0, 1, 2], 4.0, **options) == [False, True, True]
    assert [(at_s, message.user) for at_s, message in simulation.sent_on] == [(5.0, 1), (6.0, 2)]


def test_tower_outage_delays_whole_backlog(make_cell):
    """The tower is down until 8; user 1 is also down from 7 to 11."""
    simulation = make_cell(3, plan={100: [(2.0, 8.0)], 1: [(7.0, 11.0)]})
    open_version(simulation)
    assert run_attempt(simulation, [0], 4.0) == [False]
    assert simulation.cell.ready_s.tolist() == [8.0, 11.0, 8.0]
    assert simulation.recorder.events("sent") == []


@pytest.mark.parametrize(("limit", "outcomes"), [(1, "collided"), (2, "given_up collided")])
def test_attempt_limit_ends_update(make_cell, limit, outcomes):
    simulation = make_cell(2)
    open_version(simulation)
    for at_s in range(1, limit + 1):
        run_attempt(simulation, [0, 1], float(at_s), limit=limit)
    assert simulation.recorder.outcomes() == {(0, 0): [outcomes], (1, 0): [outcomes]}
    assert len(simulation.recorder.events("failed")) == 2 * limit, "each attempt, also the last"
    assert simulation.cell.backlog().size == 0
    assert simulation.outstanding.count == 0


def test_new_version_supersedes_training_and_waiting_updates(make_cell):
    simulation = make_cell(2, compute_s=[1.0, 50.0])
    open_version(simulation)
    open_version(simulation, 1, 10.0)
    assert simulation.recorder.outcomes() == {(0, 0): ["superseded"], (1, 0): ["superseded"]}
    assert simulation.cell.ready_s.tolist() == [11.0, 60.0]
    simulation.env.run(until=100.0)
    simulation.tower.record_trainings()
    assert simulation.recorder.events("trained") == [(1.0, 0), (11.0, 0), (60.0, 1)]
    assert simulation.recorder.events("queued") == simulation.recorder.events("trained")


@pytest.mark.parametrize("is_received", [True, False])
def test_update_on_air_is_completed(make_cell, is_received):
    """An update is on the air from 4.5 to 5.5 and version 1 arrives at 5: a failed update is superseded."""
    simulation = make_cell(1, snr_db=lambda users, time_s: [0.0 if is_received else -9.0], compute_s=0.25)
    open_version(simulation)
    simulation.tower.schedule_broadcast(1, 5.0)
    assert run_attempt(simulation, [0], 4.5) == [is_received]
    assert [message.base for _, message in simulation.sent_on] == [0] * is_received
    assert simulation.recorder.outcomes() == ({} if is_received else {(0, 0): ["superseded"]})
    assert simulation.cell.ready_s.tolist() == [5.25]
    assert run_attempt(simulation, [0], 6.0) == [is_received]
    assert [message.base for _, message in simulation.sent_on] == [0, 1] * is_received
    assert [message.attempts for _, message in simulation.sent_on] == [1, 1] * is_received


def test_user_receives_newest_version_after_outage(make_cell):
    """The user is down from 5 to 20: it misses version 1 and receives version 2 at 20."""
    simulation = make_cell(1, plan={0: [(5.0, 20.0)]}, compute_s=8.0)
    open_version(simulation)
    open_version(simulation, 1, 10.0)
    open_version(simulation, 2, 15.0)
    assert simulation.cell.ready_s.tolist() == [28.0]
    simulation.tower.record_trainings()
    assert simulation.recorder.outcomes() == {}
    simulation.env.run(until=30.0)
    simulation.tower.record_trainings()
    assert [(row[1], row[5]) for row in simulation.recorder.rows if row[0] == "received"] == [(0.0, 0), (20.0, 2)]
    assert simulation.recorder.events("trained") == [(8.0, 0), (28.0, 0)]
    assert simulation.recorder.events("superseded") == [(20.0, 0)]
    assert run_attempt(simulation, [0], 30.0) == [True]


def test_update_is_lost_before_new_version_is_received(make_cell):
    """User 0 goes down while it sends, before version 1: the update is lost; training restarts at 20."""
    simulation = make_cell(1, plan={0: [(4.8, 20.0)]}, compute_s=2.0)
    open_version(simulation)
    simulation.tower.schedule_broadcast(1, 5.0)
    assert run_attempt(simulation, [0], 4.5, limit=1) == [False]
    assert simulation.recorder.outcomes() == {(0, 0): ["lost"]}
    assert simulation.cell.ready_s.tolist() == [22.0]
    assert run_attempt(simulation, [0], 22.0) == [True]
    assert simulation.recorder.outcomes() == {(0, 0): ["lost"]}


def test_senders_of_overlapping_attempts_are_not_in_backlog(make_cell):
    """Users 0 and 1 send from 1 and from 1.5 on separate channels; 0 fails at 2 and is in the backlog again."""
    simulation = make_cell(2, snr_db=lambda users, time_s: [-9.0 if time_s == 1.0 else 0.0])
    open_version(simulation)
    simulation.env.run(until=1.0)
    first = simulation.cell.attempt(np.array([0]))
    simulation.env.run(until=1.5)
    assert simulation.cell.backlog().tolist() == [1]
    second = simulation.cell.attempt(np.array([1]), channel=1)
    simulation.env.run(until=simulation.cell.wait_for_backlog())
    assert (simulation.env.now, simulation.cell.backlog().tolist()) == (2.0, [0])
    simulation.env.run(until=3.0)
    assert (first.value.tolist(), second.value.tolist()) == ([False], [True])


def test_reception_requires_user_and_tower_up(make_cell):
    """The user is up at 12, but the tower is down from 11 to 14, and the user again from 13 to 16."""
    simulation = make_cell(1, plan={0: [(5.0, 12.0), (13.0, 16.0)], 100: [(11.0, 14.0)]})
    open_version(simulation, 0, 10.0)
    assert simulation.cell.ready_s.tolist() == pytest.approx([16.0], abs=1e-8)  # once the instant of its return is over
    simulation.env.run(until=17.0)
    assert simulation.cell.ready_s.tolist() == [16.0]


def test_version_that_arrives_with_newer_one_is_not_received(make_cell):
    simulation = make_cell(1)
    simulation.tower.schedule_broadcast(0, 7.0)
    simulation.tower.schedule_broadcast(1, 7.0)
    simulation.env.run(until=8.0)
    assert [row[5] for row in simulation.recorder.rows if row[0] == "received"] == [1]


def test_end_of_run_ends_open_updates_once(make_cell):
    """User 0 waits; user 1 sends a superseded update, and trains the next one."""
    simulation = make_cell(2, compute_s=2.0)
    open_version(simulation)
    simulation.env.run(until=9.5)
    simulation.cell.attempt(np.array([1]))
    open_version(simulation, 1, 10.0)
    simulation.cell.finish()
    assert simulation.recorder.outcomes() == {
        (0, 0): ["superseded"],
        (0, 1): ["unfinished"],
        (1, 0): ["unfinished"],
        (1, 1): ["unfinished"],
    }


def test_wait_for_backlog_fires_for_new_user(make_cell):
    simulation = make_cell(2, compute_s=[3.0, 4.0])
    events = []

    def collect():
        while True:
            yield simulation.cell.wait_for_backlog()
            events.append((simulation.env.now, simulation.cell.backlog().tolist()))
            yield simulation.cell.attempt(simulation.cell.backlog()[:1])

    simulation.env.process(collect())
    simulation.tower.schedule_broadcast(0, 1.0)
    simulation.env.run(until=20.0)
    assert events == [(4.0, [0]), (5.0, [1])]


def test_wait_for_change_fires_at_change_or_timeout(make_cell):
    simulation = make_cell(2)
    events = []

    def collect():
        while True:
            yield simulation.cell.wait_for_change(by_s=simulation.env.now + 4.0)
            events.append((simulation.env.now, simulation.cell.changes().tolist()))

    simulation.env.process(collect())
    simulation.tower.schedule_broadcast(0, 6.0)
    simulation.env.run(until=11.0)
    assert events == [(4.0, []), (6.0, [0, 1]), (10.0, [])]
