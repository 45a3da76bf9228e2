"""Users that change their towers at any time: what goes along, what ends, and how often it happens."""

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from support.composition_checks import simulate
from support.compositions import budgeted, checked
from support.roaming_networks import BUSY, CASES, USERS, Shuttle, check_updates
from support.run_invariants import tables_of_recorder, watched
from support.small_network import make

from netfl.network.association.nearest_now import NearestNow
from netfl.network.build import build_network
from netfl.network.layout import Trajectories
from netfl.network.motion import Motion
from netfl.network.radio.tower_links import TowerLinks
from netfl.network.simulator import NetworkSimulator
from netfl.types import OUTCOMES

ROUNDS = 30
EVERY_S = 0.5
WALK = {"kind": "random_waypoint", "radius": "1200 m", "speed": [30, 60]}
CARRY = {"kind": "nearest_now", "moves": "any_time", "every": EVERY_S}
DROP = CARRY | {"on_move": "drop"}
STRONGEST = {"kind": "strongest", "moves": "any_time", "every": EVERY_S, "hysteresis": "1 dB"}


def roam(rounds=ROUNDS, seed=1, **overrides):
    """Return the simulator of a network whose users roam, its layout, its recorder and its rounds."""
    access, context, log = make(USERS, rounds, seed, **BUSY | {"motion": WALK} | overrides)
    config = build_network(access, context)
    simulator = NetworkSimulator(config, context.streams, context.recorder)
    return simulator, config.layout, log, [*simulator.rounds(rounds)]


def moves_of(log):
    return [row for row in log.rows if row[0] == "moved"]


@pytest.mark.parametrize("association", [CARRY, DROP, STRONGEST], ids=["carry", "drop", "strongest"])
@pytest.mark.parametrize("case", CASES)
def test_every_update_has_one_outcome(case, association):
    with watched():
        simulator, layout, log, rounds = roam(**CASES[case], association=association)
    assert len(moves_of(log)) == simulator.membership.moved > 5
    check_updates(simulator, layout, log)
    tables = tables_of_recorder(rounds, log)
    assert len(tables.deliveries) == sum(len(result.deliveries) for result in rounds)
    left = [row for row in log.rows if row[0] == "left"]
    if association is not DROP:
        assert not left
    moved = {(row[1], row[3], row[6]) for row in moves_of(log)}
    assert {(row[1], row[3], row[4]) for row in left} <= moved, "it is left at the tower and time of the move"


@pytest.mark.parametrize("case", ["restart", "finish", "asynchronous", "unicast", "packets", "outages", "csma_ca",
                                  "round_robin", "tdma", "fdma", "one air"])  # fmt: skip
def test_users_that_never_move_are_as_before(case):
    still = {"motion": {"kind": "random_waypoint", "radius": "1200 m", "speed": [1e-6, 1e-6]}}
    _, _, fixed_log, fixed = roam(**CASES[case] | still)
    simulator, _, log, rounds = roam(**CASES[case] | still, association=CARRY)
    assert simulator.membership.moved == 0
    assert [result.closed_s for result in rounds] == pytest.approx([result.closed_s for result in fixed], rel=1e-12)
    kinds, times_s, *columns = zip(*log.rows, strict=True)
    fixed_kinds, fixed_times_s, *fixed_columns = zip(*fixed_log.rows, strict=True)
    assert kinds == fixed_kinds
    assert times_s == pytest.approx(fixed_times_s, rel=1e-12), "a look at the same instant has the time of its clock"
    assert columns[:4] == fixed_columns[:4]


def test_users_move_when_they_may():
    """At a multiple of `every`, or as their frames or the copies of versions to them end."""
    every_s = 0.3
    _, _, log, _ = roam(association=CARRY | {"every": every_s})
    ends_s = {user: [] for user in range(USERS)}
    for part in log.attempts:
        for user, start_s, airtime_s in zip(part["user"], part["start_s"], part["airtime_s"], strict=True):
            ends_s[user].append(start_s + airtime_s)
    at_once = later = 0
    for _, time_s, _, user, *_ in moves_of(log):
        if abs(time_s / every_s - round(time_s / every_s)) < 1e-6:
            at_once += 1
        else:
            later += 1
            received_s = [row[1] for row in log.rows if row[0] == "received" and row[3] == user]
            assert np.abs(np.array(ends_s[user] + received_s) - time_s).min() < 1e-6
    assert at_once > 10
    assert later > 2


def test_a_waiting_update_goes_along():
    """The tower to which its user moved receives it; its base and the number of its attempts stay."""
    simulator, layout, log, rounds = roam(association=CARRY, on_new_version="finish", staleness=3)
    trained_s = {(row[3], row[5]): row[1] for row in log.rows if row[0] == "trained"}
    carried = 0
    for each in (each for result in rounds for each in result.deliveries):
        before = simulator.membership.tower_at(np.array([each.user]), trained_s[each.user, each.base])[0]
        carried += each.tower != layout.towers[before]
    assert carried > 3


def test_a_training_goes_along():
    """Whatever happens to a user, its n-th training takes as long as without moves."""
    times_s = []
    loud = {"reception": {"kind": "snr_threshold", "threshold": "-90 dB", "rate": "2 kbps"}}
    for association in ("nearest_at_start", CARRY, DROP):
        _, _, log, _ = roam(**loud, association=association, round={"kind": "first", "m": USERS, "deadline": "15 s"})
        begun_s = {(row[3], row[5]): row[1] for row in log.rows if row[0] == "received"}
        times_s.append({(row[3], row[5]): row[1] - begun_s[row[3], row[5]] for row in log.rows if row[0] == "trained"})
    for user, base in times_s[0].keys() & times_s[1].keys() & times_s[2].keys():
        assert times_s[1][user, base] == pytest.approx(times_s[0][user, base])
        assert times_s[2][user, base] == pytest.approx(times_s[0][user, base])
    assert len(times_s[0].keys() & times_s[1].keys()) > 100


def test_the_pending_version_of_a_user_in_an_outage_goes_along():
    """The user begins to train at its new tower, as soon as it is connected again."""
    outage = {"kind": "renewal", "nodes": "users", "up": {"distribution": "fixed", "mean": 6.0},
              "down": {"distribution": "fixed", "mean": 6.0}}  # fmt: skip
    simulator, layout, log, _ = roam(association=CARRY, outages=[outage])
    check_updates(simulator, layout, log)
    up_s = {(row[3], row[1]) for row in log.rows if row[0] == "up"}
    returned = [row for row in log.rows if row[0] == "received" and (row[3], row[1]) in up_s]
    here = simulator.membership.tower_at(np.array([row[3] for row in returned]), [row[1] for row in returned])
    opened = [simulator.membership.tower_at(np.array([row[3]]), row[1] - 6.0)[0] for row in returned]
    assert [layout.towers[tower] for tower in here] == [row[4] for row in returned]
    assert np.count_nonzero(here != opened) > 3


class Straight(Motion):
    """Users that go straight at one speed, in directions drawn uniformly."""

    speed: float

    def open(self, layout, streams):
        angle = 2 * np.pi * streams.field("heading").uniform(np.arange(layout.users))
        return StraightPaths(layout.user_xy_m, self.speed * np.column_stack([np.cos(angle), np.sin(angle)]))


class StraightPaths(Trajectories):
    def __init__(self, start_m, speed_m_s):
        self.start_m, self.speed_m_s = start_m, speed_m_s

    def xy_m(self, users, time_s):
        return self.start_m[users] + self.speed_m_s[users] * np.broadcast_to(time_s, np.shape(users))[:, None]


SIDE_M, SPEED_M_S, SPAN_S = 100.0, 10.0, 60.0
RATE_HZ = 4 * SPEED_M_S / (math.sqrt(3) * math.pi * SIDE_M)
"""Handovers a second of a user in hexagonal cells of this side: the length of borders per area is 2 / (√3 a), and a
straight way crosses 2 / π times that per metre."""


def hexagons(users, association):
    """Return keys of a network with hexagonal cells, in the middle one of which users start, uniformly."""
    step_m = math.sqrt(3) * SIDE_M
    places = [(step_m * (i + j / 2), step_m * j * math.sqrt(3) / 2) for i in range(-9, 10) for j in range(-9, 10)]
    places = [place for place in places if math.hypot(*place) < SPEED_M_S * SPAN_S + 3 * SIDE_M]
    nodes = {f"tower:{index}": {"role": "tower", "position": list(place)} for index, place in enumerate(places)}
    links = [{"between": ["server", name], "rate": 1e9, "delay": 0.0} for name in nodes]
    nodes["server"] = {"role": "server", "position": [0, 0]}
    rng = np.random.default_rng(1)
    positions_m = rng.uniform(-SIDE_M, SIDE_M, (16 * users, 2))
    x_m, y_m = np.abs(positions_m).T
    is_within = (x_m < step_m / 2) & (x_m / 2 + y_m * math.sqrt(3) / 2 < step_m / 2)
    listed = {"kind": "listed", "positions": positions_m[is_within][:users].tolist()}
    return {
        "topology": {"kind": "inline", "nodes": nodes, "links": links, "placement": listed},
        "motion": Straight(speed=SPEED_M_S),
        "association": association,
        "round": {"kind": "first", "m": users, "deadline": SPAN_S},
        "mac": {"kind": "pure_aloha", "backoff": "1 s"},
        "channel": [{"kind": "constant", "gain": "-10 dB"}],
        "compute": {"speed": 0.05, "samples": 1},
        "update_size": 20.0,
    }


def test_rate_of_handovers_in_hexagons():
    users = 4000
    access, context, _ = make(users, 1, 1, **hexagons(users, CARRY))
    layout = build_network(access, context).layout
    choice = NearestNow(moves="any_time", every=0.2).open(TowerLinks(layout, None))
    everybody = np.arange(users)
    tower = choice.choose(everybody, np.full(users, -1), 0.0)
    assert (layout.tower_xy_m[tower] == 0.0).all(), "users start in the middle"
    handovers = 0
    time_s = 0.0
    while (time_s := choice.next_s(time_s)) < SPAN_S:
        chosen = choice.choose(everybody, tower, time_s)
        handovers += np.count_nonzero(chosen != tower)
        tower = chosen
    assert handovers / users / SPAN_S == pytest.approx(RATE_HZ, rel=0.02)


def test_a_network_hands_over_at_that_rate():
    users = 120
    access, context, log = make(users, 1, 1, **hexagons(users, CARRY | {"every": 0.2}))
    simulator = NetworkSimulator(build_network(access, context), context.streams, context.recorder)
    (result,) = simulator.rounds(1)
    expected = RATE_HZ * users * result.closed_s
    assert abs(simulator.membership.moved - expected) < 4 * math.sqrt(expected)
    assert log.final_values["handovers_per_user_hour"] == pytest.approx(
        simulator.membership.moved / users / result.closed_s * 3600
    )
    assert result.closed_s > 20.0
    assert len(result.deliveries) == users


def test_a_model_of_the_users_own_says_when():
    simulator, layout, log, _ = roam(association=Shuttle(times=(3.25, 9.75, 20.125), moves="any_time"))
    check_updates(simulator, layout, log)
    assert simulator.membership.moved == 3 * USERS
    first = [row[1] for row in moves_of(log)]
    for time_s in (3.25, 9.75, 20.125):
        assert any(each == pytest.approx(time_s) for each in first)


def test_a_round_that_nothing_can_close_is_an_error_although_users_look_around():
    access, context, _ = make(
        USERS, 3, 1, **BUSY | {"motion": WALK, "association": CARRY, "round": {"kind": "first", "m": 4}}
    )
    simulator = NetworkSimulator(build_network(access, context), context.streams, context.recorder)
    for cell in simulator._cells:
        cell.attempt = lambda users, **_: simulator.env.event()  # frames that never end
    with pytest.raises(Exception, match="can never close"):
        [*simulator.rounds(3)]


def test_outcomes_of_the_two_ways_to_move():
    counts = {}
    for name, association in (("carry", CARRY), ("drop", DROP)):
        _, _, log, _ = roam(
            association=association, on_new_version="finish", staleness=3, round={"kind": "first", "m": 6}
        )
        counts[name] = Counter(row[0] for row in log.rows if row[0] in OUTCOMES)
    assert counts["drop"]["left"] > 3
    assert counts["carry"]["left"] == 0


def test_frames_of_a_schedule_never_overlap():
    times = tuple((0.37 * np.arange(1, 300)).tolist())
    simulator, _, log, _ = roam(mac="tdma", association=Shuttle(times=times, moves="any_time"))
    attempts = pd.concat([pd.DataFrame(part) for part in log.attempts])
    assert simulator.membership.moved > 500
    for _, at_tower in attempts.groupby("node"):
        in_order = at_tower.sort_values("start_s")
        assert (in_order["start_s"].to_numpy()[1:] > in_order["end_s"].to_numpy()[:-1] - 1e-9).all()
        assert len(in_order) > 10


def test_a_delivery_has_the_tower_of_the_copy_that_went_on():
    """With several receivers it may be another one than that of its user, which may be far away."""
    simulator, layout, _, rounds = roam(association=Shuttle(times=(3.25,), moves="any_time"), receivers="all")
    deliveries = [each for result in rounds for each in result.deliveries]
    own = [simulator.membership.tower_at(np.array([each.user]), each.sent_s)[0] for each in deliveries]
    heard_elsewhere = [each.tower != layout.towers[tower] for each, tower in zip(deliveries, own, strict=True)]
    assert {each.tower for each in deliveries} <= {*layout.towers}
    assert 0 < sum(heard_elsewhere) < len(deliveries)


def test_a_user_waits_for_a_version_that_it_has_already():
    """After its delivery, a user gets the version again that is still the newest, and moves when it is there."""
    levels = {"selection": "oldest", "round": "buffered", "association": "carry", "topology": "ring"}
    scenario = budgeted(checked(levels)).scenario.at({"rounds": 12})
    for replica in range(8):
        rounds, _ = simulate(scenario, replica)
        assert len(rounds) == 12


def tower_down(start, duration):
    return [{"kind": "maintenance", "windows": [{"nodes": ["tower:0"], "start": start, "duration": duration}]}]


@pytest.mark.parametrize("case", ["restart", "finish", "no deadline", "multicast", "unicast"])
def test_users_leave_a_tower_that_is_down(case):
    """They have a version that waits there from their new towers; those of other downlinks end as missed before."""
    association = Shuttle(times=(30.0, 600.0), moves="any_time")
    simulator, layout, log, _ = roam(**CASES[case], association=association, outages=tower_down("5 s", "995 s"))
    check_updates(simulator, layout, log)
    left = [row for row in moves_of(log) if row[6] == "tower:0" and 30.0 <= row[1] < 45.0]
    assert {row[3] for row in left} == {0, 3, 6}


def test_a_version_that_waited_reaches_a_user_once():
    """Users come to the tower, leave it and come back while a version waits there."""
    times = (1.0, 2.0, 3.0, 4.0)
    association = Shuttle(times=times, moves="any_time")
    simulator, layout, log, _ = roam(association=association, outages=tower_down("0 s", "10 s"), rounds=4)
    check_updates(simulator, layout, log)
    received = Counter((row[3], row[5]) for row in log.rows if row[0] == "received")
    assert {row[1] for row in moves_of(log) if row[6] == "tower:0"} >= {*times}
    assert max(received.values()) == 1
    of_first = [row for row in log.rows if row[0] == "received" and row[5] == 0]
    assert {row[3] for row in of_first if row[1] == times[0]} == {0, 3, 6}, "those who left the tower first"
    assert {row[3] for row in of_first if row[1] < times[0]} == {1, 2, 4, 5, 7}
