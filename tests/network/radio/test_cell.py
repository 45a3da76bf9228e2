"""A cell: who is received, who has to try again, and what becomes of updates that are overtaken."""

import numpy as np
import pytest


def start(world, version=0, at_s=0.0):
    """The tower has a version at *at_s*."""
    world.ledger.open_round(version + 1)
    world.tower.schedule_broadcast(version, at_s)
    world.env.run(until=at_s + 1e-6)


def attempt(world, users, at_s, **options):
    """Let *users* send at *at_s* and wait for the end."""
    if at_s > world.env.now:
        world.env.run(until=at_s)
    return world.env.run(until=world.cell.attempt(np.array(users), **options)).tolist()


def test_one_alone_is_received_at_the_end_of_its_airtime(make_cell):
    world = make_cell(3)
    start(world)
    assert attempt(world, [1], 5.0) == [True]
    [(at_s, message)] = world.sent_on
    assert (at_s, message.user, message.base, message.sent_s, message.attempts) == (6.0, 1, 0, 5.0, 1)
    assert world.cell.ready_s.tolist() == [0.0, np.inf, 0.0]
    assert world.ledger.uplink_bits == 1000.0


def test_two_collide_and_stay_in_the_backlog(make_cell):
    world = make_cell(3)
    start(world)
    assert attempt(world, [0, 2], 1.0) == [False, False]
    assert world.cell.backlog().tolist() == [0, 1, 2]
    assert world.sent_on == []
    assert world.memory.of("failed") == [(2.0, 0), (2.0, 2)]
    assert {row[6] for row in world.memory.rows if row[0] == "failed"} == {"collided"}
    assert attempt(world, [2], 3.0) == [True]
    assert (world.sent_on[0][1].attempts, world.sent_on[0][1].sent_s) == (2, 1.0)
    assert world.ledger.uplink_bits == 3000.0


def test_the_snr_at_the_start_decides(make_cell):
    """User 0 is at -4 dB until 10 s, then at -2 dB; the threshold is -3 dB."""
    world = make_cell(1, snr_db=lambda users, time_s: np.where(time_s < 10, -4.0, -2.0) + users)
    start(world)
    assert attempt(world, [0], 9.5) == [False]
    [failed] = [row for row in world.memory.rows if row[0] == "failed"]
    assert failed[5:] == (-4.0, "faded")
    assert attempt(world, [0], 10.5) == [True]


@pytest.mark.parametrize("down", [0, 100], ids=["user", "tower"])
def test_an_outage_at_any_time_of_it_loses_a_transmission(make_cell, down):
    world = make_cell(2, plan={down: [(5.5, 5.6), (7.0, 8.0)]})
    start(world)
    assert attempt(world, [0], 5.0) == [False]
    assert [row[6] for row in world.memory.rows if row[0] == "failed"] == ["lost"]
    assert attempt(world, [0], 6.0) == [True], "it ends at the instant at which the outage begins"


def test_who_is_cut_off_sends_nothing_and_disturbs_nobody(make_cell):
    world = make_cell(3, plan={0: [(2.0, 9.0)]})
    start(world)
    world.cell.changes()
    assert attempt(world, [0, 1], 4.0) == [False, True]
    assert world.cell.ready_s.tolist() == [9.0, np.inf, 0.0]
    assert world.memory.of("sent") == [(4.0, 1)]
    assert sorted(world.cell.changes().tolist()) == [0, 1]
    assert attempt(world, [0], 9.0) == [True]


def test_a_dead_tower_puts_off_the_whole_backlog(make_cell):
    """Until the tower is back at 8, user 1, itself down from 7 to 11, until 11."""
    world = make_cell(3, plan={100: [(2.0, 8.0)], 1: [(7.0, 11.0)]})
    start(world)
    assert attempt(world, [0], 4.0) == [False]
    assert world.cell.ready_s.tolist() == [8.0, 11.0, 8.0]
    assert world.memory.of("sent") == []


@pytest.mark.parametrize(("limit", "outcomes"), [(1, "collided"), (2, "given_up collided")])
def test_the_last_permitted_attempt(make_cell, limit, outcomes):
    world = make_cell(2)
    start(world)
    for at_s in range(1, limit + 1):
        attempt(world, [0, 1], float(at_s), limit=limit)
    assert world.memory.outcomes() == {(0, 0): [outcomes], (1, 0): [outcomes]}
    assert len(world.memory.of("failed")) == 2 * (limit - 1)
    assert world.cell.backlog().size == 0
    assert world.outstanding.count == 0


def test_a_newer_version_supersedes_what_trains_and_what_waits(make_cell):
    world = make_cell(2, compute_s=[1.0, 50.0])
    start(world)
    start(world, 1, 10.0)
    assert world.memory.outcomes() == {(0, 0): ["superseded"], (1, 0): ["superseded"]}
    assert world.cell.ready_s.tolist() == [11.0, 60.0]
    world.env.run(until=100.0)
    world.tower.record_trainings()
    assert world.memory.of("trained") == [(1.0, 0), (11.0, 0), (60.0, 1)]
    assert world.memory.of("queued") == world.memory.of("trained")


@pytest.mark.parametrize("heard", [True, False])
def test_what_is_on_the_air_goes_to_its_end(make_cell, heard):
    """Sent from 4.5 to 5.5; version 1 comes at 5: received, it goes on; not received, it was superseded."""
    world = make_cell(1, snr_db=lambda users, time_s: [0.0 if heard else -9.0], compute_s=0.25)
    start(world)
    world.tower.schedule_broadcast(1, 5.0)
    assert attempt(world, [0], 4.5) == [heard]
    assert [message.base for _, message in world.sent_on] == [0] * heard
    assert world.memory.outcomes() == ({} if heard else {(0, 0): ["superseded"]})
    assert world.cell.ready_s.tolist() == [5.25]
    assert attempt(world, [0], 6.0) == [heard]
    assert [message.base for _, message in world.sent_on] == [0, 1] * heard
    assert [message.attempts for _, message in world.sent_on] == [1, 1] * heard


def test_who_was_cut_off_receives_the_newest_version_when_it_is_back(make_cell):
    """Down from 5 to 20: version 1 at 10 is missed, version 2 at 15 is had at 20; the old update goes on till then."""
    world = make_cell(1, plan={0: [(5.0, 20.0)]}, compute_s=8.0)
    start(world)
    start(world, 1, 10.0)
    start(world, 2, 15.0)
    assert world.cell.ready_s.tolist() == [28.0]
    world.tower.record_trainings()
    assert world.memory.outcomes() == {}
    world.env.run(until=30.0)
    world.tower.record_trainings()
    assert [(row[1], row[5]) for row in world.memory.rows if row[0] == "received"] == [(0.0, 0), (20.0, 2)]
    assert world.memory.of("trained") == [(8.0, 0), (28.0, 0)]
    assert world.memory.of("superseded") == [(20.0, 0)]
    assert attempt(world, [0], 30.0) == [True]


def test_an_update_that_ends_while_a_newer_version_waits_to_be_received(make_cell):
    """User 0 goes down while it sends, before version 1: lost at 5.5 for good, it starts anew at 20."""
    world = make_cell(1, plan={0: [(4.8, 20.0)]}, compute_s=2.0)
    start(world)
    world.tower.schedule_broadcast(1, 5.0)
    assert attempt(world, [0], 4.5, limit=1) == [False]
    assert world.memory.outcomes() == {(0, 0): ["lost"]}
    assert world.cell.ready_s.tolist() == [22.0]
    assert attempt(world, [0], 22.0) == [True]
    assert world.memory.outcomes() == {(0, 0): ["lost"]}


def test_attempts_may_overlap_and_who_sends_is_not_in_the_backlog(make_cell):
    """Users 0 and 1 send from 1 and from 1.5, on channels of their own; 0 is free again at 2, and has to try again."""
    world = make_cell(2, snr_db=lambda users, time_s: [-9.0 if time_s == 1.0 else 0.0])
    start(world)
    world.env.run(until=1.0)
    first = world.cell.attempt(np.array([0]))
    world.env.run(until=1.5)
    assert world.cell.backlog().tolist() == [1]
    second = world.cell.attempt(np.array([1]), channel=1)
    world.env.run(until=world.cell.wait_for_backlog())
    assert (world.env.now, world.cell.backlog().tolist()) == (2.0, [0])
    world.env.run(until=3.0)
    assert (first.value.tolist(), second.value.tolist()) == ([False], [True])


def test_it_takes_the_tower_and_the_user_to_receive(make_cell):
    """The user is back at 12, but the tower is down from 11 to 14, the user again from 13 to 16."""
    world = make_cell(1, plan={0: [(5.0, 12.0), (13.0, 16.0)], 100: [(11.0, 14.0)]})
    start(world, 0, 10.0)
    assert world.cell.ready_s.tolist() == [16.0]


def test_a_version_that_comes_no_sooner_than_a_newer_one_is_not_heard(make_cell):
    world = make_cell(1)
    world.tower.schedule_broadcast(0, 7.0)
    world.tower.schedule_broadcast(1, 7.0)
    world.env.run(until=8.0)
    assert [row[5] for row in world.memory.rows if row[0] == "received"] == [1]


def test_the_end_of_the_run_ends_what_is_open_once(make_cell):
    """User 0 waits; 1 is on the air with an update that it has abandoned since, and trains for the next."""
    world = make_cell(2, compute_s=2.0)
    start(world)
    world.env.run(until=9.5)
    world.cell.attempt(np.array([1]))
    start(world, 1, 10.0)
    world.cell.finish()
    assert world.memory.outcomes() == {
        (0, 0): ["superseded"],
        (0, 1): ["unfinished"],
        (1, 0): ["unfinished"],
        (1, 1): ["unfinished"],
    }


def test_work_fires_when_the_backlog_gains_somebody(make_cell):
    world = make_cell(2, compute_s=[3.0, 4.0])
    fired = []

    def watch():
        while True:
            yield world.cell.wait_for_backlog()
            fired.append((world.env.now, world.cell.backlog().tolist()))
            yield world.cell.attempt(world.cell.backlog()[:1])

    world.env.process(watch())
    world.tower.schedule_broadcast(0, 1.0)
    world.env.run(until=20.0)
    assert fired == [(4.0, [0]), (5.0, [1])]


def test_change_fires_at_a_change_or_at_its_time(make_cell):
    world = make_cell(2)
    fired = []

    def watch():
        while True:
            yield world.cell.wait_for_change(by_s=world.env.now + 4.0)
            fired.append((world.env.now, world.cell.changes().tolist()))

    world.env.process(watch())
    world.tower.schedule_broadcast(0, 6.0)
    world.env.run(until=11.0)
    assert fired == [(4.0, []), (6.0, [0, 1]), (10.0, [])]
