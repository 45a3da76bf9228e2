"""Users that change their tower between two rounds, moved from outside by `Membership.move`."""

import dataclasses

import numpy as np
import pytest
from support.roaming_networks import BUSY, CASES, USERS, check_updates
from support.run_invariants import tables_of_recorder, watched
from support.small_network import make

from netfl.errors import ModelError, ScenarioError
from netfl.network.build import build_layout, build_network, open_budget
from netfl.network.clock import call_after
from netfl.network.simulator import NetworkSimulator

ROUNDS = 12


def open_network(seed=1, visitors=True, **overrides):
    """Return the simulator of a network whose users may visit all towers, its layout, and its recorder."""
    access, context, log = make(USERS, ROUNDS, seed, **BUSY | overrides)
    config = build_network(access, context)
    if visitors:
        everybody = np.arange(USERS)
        config = dataclasses.replace(config, visitors=dict.fromkeys(range(3), everybody))
    return NetworkSimulator(config, context.streams, context.recorder), config.layout, log


def free_users(simulator):
    """Return the users that `Membership.move` accepts, by trying a stay of a copy: those without work."""
    towers = [*simulator._towers.values()]
    is_free = np.zeros(USERS, bool)
    for tower in towers:
        members = simulator.membership.members(tower.index)
        is_free[tower.cell.ids[members]] = ~tower.has_work(members)
    return np.flatnonzero(is_free)


def play_with_moves(simulator, count=ROUNDS):
    """Move up to two users that are free after each round to the next tower; return the rounds and the moves."""
    rounds, moves = [], []
    for result in simulator.rounds(count):
        rounds.append(result)
        if result.index == count:
            break
        for user in free_users(simulator)[:2].tolist():
            source = int(simulator.membership.tower_at(np.array([user]), simulator.env.now)[0])
            to = (source + 1 + result.index % 2) % 3
            simulator.membership.move(user, to)
            moves.append((float(simulator.env.now), user, source, to))
    return rounds, moves


@pytest.mark.parametrize("case", CASES)
def test_every_update_of_users_that_move_has_one_outcome(case):
    with watched():
        simulator, layout, log = open_network(**CASES[case])
        rounds, moves = play_with_moves(simulator)
    assert len(moves) >= 4
    check_updates(simulator, layout, log)
    tables = tables_of_recorder(rounds, log)
    assert len(tables.deliveries) == sum(len(result.deliveries) for result in rounds)


@pytest.mark.parametrize("case", CASES)
def test_users_may_move_within_a_round(case):
    """A user that has delivered, or missed a version, has nothing under way until the next one comes."""
    with watched():
        simulator, layout, log = open_network(**CASES[case])
        moves = []

        def move(_):
            for user in free_users(simulator)[:1].tolist():
                source = int(simulator.membership.tower_at(np.array([user]), simulator.env.now)[0])
                simulator.membership.move(user, (source + 1) % 3)
                moves.append(user)
            call_after(simulator.env, 0.37, move)

        call_after(simulator.env, 0.37, move)
        list(simulator.rounds(ROUNDS))
    if moves:
        check_updates(simulator, layout, log)
    assert moves or simulator._config.service.rule.is_continuous, "whose users are never idle within a round"


@pytest.mark.parametrize("case", ["restart", "finish", "asynchronous", "unicast", "packets", "outages", "csma_ca",
                                  "round_robin", "tdma", "fdma", "one air"])  # fmt: skip
def test_slots_for_visitors_change_nothing_while_nobody_moves(case):
    """Empty slots draw nothing, send nothing and have no turn."""
    results = []
    for visitors in (False, True):
        simulator, _, log = open_network(visitors=visitors, **CASES[case])
        results.append(([*simulator.rounds(ROUNDS)], log.rows, log.final_values))
    rounds, rows, metrics = results[0]
    assert (rounds, rows) == results[1][:2]
    of_empty_tower = results[1][2].items() - metrics.items()
    assert metrics.items() <= results[1][2].items()
    assert of_empty_tower <= {("utilisation.tower:2", 0.0)}, "it had no cell"


def test_no_visitors_have_the_cells_of_the_start():
    simulator, layout, _ = open_network(visitors=False)
    for tower in simulator._towers.values():
        assert tower.cell.ids.tolist() == np.flatnonzero(layout.tower_at_start == tower.index).tolist()
        assert tower.cell.is_present.all()
    assert simulator.membership._tower_now is layout.tower_at_start


def test_state_and_observations_are_those_of_the_present_tower():
    """A user that comes back finds its own fading: each pair of user and tower has one process, whoever is there."""
    access, context, _ = make(USERS, ROUNDS, 1, **BUSY)
    layout = build_layout(access, context)
    air = open_budget(access, context, layout)
    simulator, _, _ = open_network()
    user = np.array([2])
    home = int(layout.tower_at_start[2])
    seen = []
    for result in simulator.rounds(ROUNDS):
        if result.index == ROUNDS:
            break
        tower = int(simulator.membership.tower_at(user, simulator.env.now)[0])
        now_s = float(simulator.env.now)
        state = simulator.state()
        assert state.tower[2] == tower
        assert state.snr_db[2] == air.snr_db(user, now_s, layout.towers[tower])[0]
        xy_m = layout.node_xy_m[layout.number(layout.towers[tower])]
        assert state.distance_m[2] == pytest.approx(np.hypot(*(layout.user_xy_m[2] - xy_m)))
        assert simulator.observations.observe("distance_m", user)[0] == state.distance_m[2]
        assert simulator.observations.observe("snr_db", user)[0] == state.snr_db[2]
        if tower == home:  # the same draws as of a network in which it never moved
            assert state.snr_db[2] == air.snr_db(user, now_s)[0]
        seen.append(tower)
        if 2 in free_users(simulator):
            simulator.membership.move(2, (home + 1) % 3 if tower == home else home)
    stays = [tower for tower, before in zip(seen, [None, *seen], strict=False) if tower != before]
    assert stays[:3] == [home, (home + 1) % 3, home], "it went and came back"


def test_users_answer_a_call_where_they_are():
    """Answers take one airtime each in a cell, and cells answer at once: the fullest cell counts."""
    simulator, layout, _ = open_network()
    next(simulator.rounds(2))
    everybody = np.arange(USERS)
    for user in free_users(simulator).tolist():
        simulator.membership.move(user, 0)
    here = simulator.membership.tower_at(everybody, simulator.env.now)
    assert simulator.observations.answer_time_s(everybody, 0.5) == 0.5 * np.bincount(here).max()
    assert np.bincount(here).max() > np.bincount(layout.tower_at_start).max()


def test_training_times_of_a_user_follow_it():
    """The n-th training of a user takes as long as without moves, as its draws are keyed by the user and n."""
    times_s = []
    for plays in (lambda simulator: [*simulator.rounds(ROUNDS)], play_with_moves):
        simulator, _, log = open_network(**LOUD, round={"kind": "first", "m": USERS})
        plays(simulator)
        trainings = {user: [] for user in range(USERS)}
        begun_s = {}
        for kind, time_s, _, user, _, base, _ in sorted(log.rows, key=lambda row: row[1]):
            if kind == "received":
                begun_s[user, base] = time_s
            if kind == "trained":
                trainings[user].append(time_s - begun_s[user, base])
        times_s.append(trainings)
    for user in range(USERS):
        assert len(times_s[0][user]) >= ROUNDS - 1
        assert times_s[1][user] == pytest.approx(times_s[0][user])


LOUD = {"reception": {"kind": "snr_threshold", "threshold": "-90 dB", "rate": "2 kbps"}}
"""Every frame is received."""


@pytest.mark.parametrize(
    "parts",
    [
        {"mac": {"kind": "fdma", "band": "125 kHz", "among": "users"}},
        {"mac": {"kind": "fdma", "band": "125 kHz", "division": "allocated"}, "allocation": "equal"},
    ],
)
def test_shares_are_those_of_the_users_that_are_there(parts):
    """The k users at a tower have 1/k of the band each, and frames last k times as long."""
    simulator, _, log = open_network(**LOUD, **parts, round={"kind": "first", "m": USERS})
    _, moves = play_with_moves(simulator)
    sizes = set()
    everybody = np.arange(USERS)
    rows = [zip(part["user"], part["start_s"], part["airtime_s"], strict=True) for part in log.attempts]
    for user, start_s, airtime_s in (row for part in rows for row in part):
        towers = simulator.membership.tower_at(everybody, start_s)
        here = np.count_nonzero(towers == towers[user])
        assert airtime_s == pytest.approx(here * 1000.0 / 2000.0)
        sizes.add(here)
    assert len(sizes) > 2, "cells of several sizes"
    assert moves


def test_a_schedule_has_the_users_that_are_there():
    """The k users at a tower have every k-th slot, in the order of their numbers."""
    slot_s = 1000.0 / 2000.0
    simulator, _, log = open_network(**LOUD, mac="tdma", round={"kind": "first", "m": USERS})
    _, moves = play_with_moves(simulator)
    everybody = np.arange(USERS)
    trained_s = {(row[3], row[5]): row[1] for row in log.rows if row[0] == "trained"}
    sizes = set()
    rows = [zip(part["user"], part["base"], part["start_s"], strict=True) for part in log.attempts]
    for user, base, start_s in (row for part in rows for row in part):
        towers = simulator.membership.tower_at(everybody, start_s)
        here = np.flatnonzero(towers == towers[user])
        assert round(start_s / slot_s) % len(here) == here.tolist().index(user)
        assert start_s - trained_s[user, base] < len(here) * slot_s + 1e-9
        sizes.add(len(here))
    assert len(sizes) > 2, "cells of several sizes"
    assert moves


def test_given_shares_that_come_together_are_an_error():
    mac = {"kind": "fdma", "division": "given", "shares": [0.19] * USERS, "band": "125 kHz"}
    simulator, *_ = open_network(mac=mac, round={"kind": "first", "m": 7, "deadline": "60 s"})
    with pytest.raises(ScenarioError, match="add up to more than the band"):
        for _ in simulator.rounds(ROUNDS):
            for user in free_users(simulator).tolist():
                simulator.membership.move(user, 0)


def test_the_past_has_the_towers_of_the_past():
    simulator, layout, _ = open_network()
    _, moves = play_with_moves(simulator)
    assert len({time_s for time_s, *_ in moves}) > 3
    towers = layout.tower_at_start.copy()
    everybody = np.arange(USERS)
    since_s = 0.0
    for time_s, user, source, to in [*moves, (np.inf, 0, towers[0], towers[0])]:
        if time_s > since_s:
            assert simulator.membership.tower_at(everybody, since_s).tolist() == towers.tolist()
            before_s = np.nextafter(time_s, 0.0)
            assert simulator.membership.tower_at(everybody, before_s).tolist() == towers.tolist()
            distance_m = layout.distances_to_m(towers, everybody, before_s)
            assert simulator.membership.distances_m(everybody, before_s).tolist() == distance_m.tolist()
            since_s = time_s
        if np.isfinite(time_s):
            assert towers[user] == source
            towers[user] = to
    times_s = np.array([moves[0][0], np.nextafter(moves[0][0], 0.0)])
    user = moves[0][1]
    assert simulator.membership.tower_at(np.array([user, user]), times_s).tolist() == [moves[0][3], moves[0][2]]


def test_a_user_that_sends_stays():
    simulator, layout, _ = open_network()
    rounds = simulator.rounds(ROUNDS)
    next(rounds)
    everybody = np.arange(USERS)
    caught = []

    def try_to_move(_):
        bound = np.flatnonzero(simulator.membership.is_bound(everybody))
        if not bound.size:
            call_after(simulator.env, 0.1, try_to_move)
            return
        to = (int(layout.tower_at_start[bound[0]]) + 1) % 3
        with pytest.raises(ModelError, match=f"user {bound[0]}, .*cannot move to tower:{to} while it sends") as error:
            simulator.membership.move(int(bound[0]), to)
        assert error.value.user == bound[0]
        caught.append(simulator.membership.tower_at(bound, simulator.env.now).tolist())
        assert caught[0] == layout.tower_at_start[bound].tolist()

    call_after(simulator.env, 0.1, try_to_move)
    next(rounds)
    assert caught


def test_a_user_without_a_slot_is_an_error():
    simulator, layout, _ = open_network(visitors=False)
    next(simulator.rounds(2))
    user = int(free_users(simulator)[0])
    tower = int(layout.tower_at_start[user])
    simulator.membership.move(user, tower)  # it is there
    with pytest.raises(ModelError, match="no slot at tower"):
        simulator.membership.move(user, (tower + 1) % 3)


def test_traffic_of_users_does_not_move():
    traffic = {"kind": "poisson", "rate": 0.1, "size": {"mean": "100 bit"}}
    with pytest.raises(ModelError, match="give no visitors, or no traffic of users"):
        open_network(traffic=traffic)


def test_a_slot_forgets_its_user_who_left():
    """Its versions are no longer kept there, and copies of versions that come late find nobody."""
    simulator, layout, log = open_network()
    next(simulator.rounds(2))
    user = int(free_users(simulator)[0])
    source = next(tower for tower in simulator._towers.values() if tower.index == layout.tower_at_start[user])
    slot = simulator.membership.slots(np.array([user]), source.index)
    version = int(source._population.version[slot][0])
    assert version >= 0
    to = (source.index + 1) % 3
    simulator.membership.move(user, to)
    target = next(tower for tower in simulator._towers.values() if tower.index == to)
    assert target._population.version[simulator.membership.slots(np.array([user]), to)].tolist() == [version]
    assert source._population.version[slot].tolist() == [-1]
    before = len(log.rows)
    source.deliver(version + 1, slot)
    assert len(log.rows) == before
    assert source._population.version[slot].tolist() == [-1]
