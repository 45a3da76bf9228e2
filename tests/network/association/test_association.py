"""Associations: which tower a user has, and that it moves only while nothing of it is under way."""

import dataclasses

import numpy as np
import pytest
from pydantic import ValidationError
from support.roaming_networks import BUSY, CASES, FADES, TREE, USERS, check_updates
from support.run_invariants import tables_of_recorder, watched
from support.small_network import make

from netfl.errors import ScenarioError
from netfl.network.association import Association, TowerChoice
from netfl.network.association.strongest import Strongest
from netfl.network.build import build_layout, build_network, open_budget
from netfl.network.least_time import least_times
from netfl.network.radio.tower_links import TowerLinks
from netfl.network.simulator import NetworkSimulator
from netfl.network.warnings import network_notes, network_warnings
from netfl.scenario.validation import nested_faults
from netfl.types import ScenarioFacts

ROUNDS = 40
WALK = {"kind": "random_waypoint", "radius": "1200 m", "speed": [30, 60]}
SHADOWED = [FADES[0], {"kind": "lognormal_shadowing", "sigma": "8 dB"}, FADES[1]]
NEAREST = {"motion": WALK, "association": "nearest_now"}
ROAMING = {
    "nearest_now": NEAREST,
    "strongest": {"motion": WALK, "association": {"kind": "strongest", "hysteresis": "1 dB", "every": "2 s"}},
}


def roam(rounds=ROUNDS, **overrides):
    """Return the simulator of a network whose users roam, its layout, its recorder and its rounds."""
    access, context, log = make(USERS, rounds, 1, **BUSY | overrides)
    config = build_network(access, context)
    simulator = NetworkSimulator(config, context.streams, context.recorder)
    return simulator, config.layout, log, [*simulator.rounds(rounds)]


def moves_of(log):
    return [row for row in log.rows if row[0] == "moved"]


@pytest.mark.parametrize("kind", ROAMING)
@pytest.mark.parametrize("case", CASES)
def test_every_update_of_users_that_roam_has_one_outcome(kind, case):
    with watched():
        simulator, layout, log, rounds = roam(**CASES[case] | ROAMING[kind])
    assert len(moves_of(log)) == simulator.membership.moved > 5
    check_updates(simulator, layout, log)
    tables = tables_of_recorder(rounds, log)
    assert len(tables.deliveries) == sum(len(result.deliveries) for result in rounds)


@pytest.mark.parametrize("kind", ROAMING)
def test_users_move_to_the_tower_that_is_nearest_or_strongest_then(kind):
    simulator, layout, log, _ = roam(**ROAMING[kind] | {"channel": FADES})
    links = TowerLinks(layout, None)
    assert simulator.membership.tower_at(np.arange(USERS), 0.0).tolist() == layout.tower_at_start.tolist()
    for _, time_s, _, user, node, _, left in moves_of(log):
        measured_s = time_s if kind == "nearest_now" else 2.0 * (time_s // 2.0)
        nearest = links.nearest(np.array([user]), measured_s)[0]
        assert layout.towers[nearest] == node != left


def test_a_user_moves_as_a_version_is_sent_to_it():
    _, _, log, rounds = roam(**NEAREST)
    opened_s = {each.opened_s for each in rounds}
    assert {row[1] for row in moves_of(log)} <= opened_s
    _, _, log, rounds = roam(**NEAREST | CASES["asynchronous"])
    assert not {row[1] for row in moves_of(log)} <= opened_s


def test_a_busy_user_keeps_its_tower():
    """Users that train for longer than a round restart at each version, and never have nothing under way."""
    slow = {"compute": {"speed": [1, 1, 1, 1, 1e-3, 1e-3, 1e-3, 1e-3], "samples": 1}}
    _, _, log, _ = roam(**NEAREST | slow)
    moved = {row[3] for row in moves_of(log)}
    assert moved
    assert moved <= {0, 1, 2, 3}


def test_deliveries_state_the_tower_that_received_them():
    simulator, layout, _, rounds = roam(**NEAREST)
    deliveries = [each for result in rounds for each in result.deliveries]
    for each in deliveries:
        tower = simulator.membership.tower_at(np.array([each.user]), each.sent_s)[0]
        assert each.tower == layout.towers[tower]
    assert len({each.tower for each in deliveries}) == 3
    _, _, _, rounds = roam(motion=WALK)
    assert {each.tower for result in rounds for each in result.deliveries} == {""}


def test_handovers_are_a_metric():
    _, _, log, rounds = roam(**NEAREST)
    hours = rounds[-1].closed_s / 3600.0
    assert log.final_values["handovers_per_user_hour"] == pytest.approx(len(moves_of(log)) / USERS / hours)


@pytest.mark.parametrize("case", ["restart", "finish", "asynchronous", "unicast", "packets", "outages", "csma_ca",
                                  "round_robin", "fdma", "one air"])  # fmt: skip
@pytest.mark.parametrize("association", ["nearest_now", {"kind": "strongest", "hysteresis": "60 dB"}], ids=str)
def test_an_association_that_never_moves_equals_none(case, association):
    """Users that walk by less than a metre, and signals of which none is stronger by 60 dB."""
    still = {"motion": {"kind": "random_waypoint", "radius": "1200 m", "speed": [1e-6, 1e-6]}}
    _, _, fixed_log, fixed = roam(**CASES[case] | still)
    simulator, _, log, rounds = roam(**CASES[case] | still | {"association": association})
    assert simulator.membership.moved == 0
    of_deliveries = [[dataclasses.replace(each, tower="") for each in result.deliveries] for result in rounds]
    assert of_deliveries == [[*result.deliveries] for result in fixed]
    assert [result.closed_s for result in rounds] == [result.closed_s for result in fixed]
    assert log.rows == fixed_log.rows
    added = {"handovers_per_user_hour": 0.0, "utilisation.tower:2": 0.0}
    assert log.final_values.items() <= {**added, **fixed_log.final_values}.items()


def test_a_signal_at_a_tower_is_the_same_after_a_visit_elsewhere():
    """The fading of a pair of user and tower is a function of time, whoever has the user."""
    simulator, _, log, _ = roam(**NEAREST)
    returned = 0
    access, context, _ = make(USERS, ROUNDS, 1, **BUSY | NEAREST)
    air = open_budget(access, context, build_layout(access, context))
    last = dict.fromkeys(range(USERS))
    for _, time_s, _, user, node, _, left in moves_of(log):
        users = np.array([user])
        tower = simulator._towers[node]
        slots = simulator.membership.slots(users, tower.index)
        medium = simulator._config.medium
        here_db = medium.snr_db(tower.cell.ids[slots], tower.cell.tower, time_s)
        assert here_db.tolist() == air.snr_db(users, time_s, node).tolist()
        returned += last[user] == node
        last[user] = left
    assert returned > 2


def links_of(channel, **overrides):
    """Return the links of users to three towers, and the budget of them."""
    access, context, _ = make(USERS, 1, 1, **BUSY | {"channel": channel} | overrides)
    layout = build_layout(access, context)
    budget = open_budget(access, context, layout)
    return TowerLinks(layout, budget), budget


def test_mean_signal_has_path_loss_and_shadowing_and_no_fast_fading():
    users = np.repeat(np.arange(USERS), 3)
    towers = np.tile(np.arange(3), USERS)
    shadowed, _ = links_of(SHADOWED, motion=WALK)
    unfaded, budget = links_of(SHADOWED[:2], motion=WALK)
    signals_dbm = shadowed.signals_dbm(users, towers, 7.3)
    assert signals_dbm.tolist() == unfaded.signals_dbm(users, towers, 7.3).tolist()
    for tower, name in enumerate(unfaded.towers):
        at_tower = towers == tower
        expected_dbm = budget.snr_db(users[at_tower], 7.3, name) + budget.noise_dbm(users[at_tower], name)
        np.testing.assert_allclose(signals_dbm[at_tower], expected_dbm)
    plain, _ = links_of(SHADOWED[:1], motion=WALK)
    assert np.std(signals_dbm - plain.signals_dbm(users, towers, 7.3)) > 4.0


def test_strongest_follows_event_a3():
    """A user moves to the strongest tower j if S_j > S_i + hysteresis, as measured at a multiple of every."""
    links, _ = links_of(SHADOWED, motion=WALK)
    users = np.arange(USERS)
    choice = Strongest(hysteresis=2.5, every=4.0).open(links)
    assert choice.choose(users, np.full(USERS, -1), 0.0).tolist() == strongest(links, users, 0.0).tolist()
    stayed = moved = 0
    for time_s in np.arange(0.7, 200.0, 3.1).tolist():
        measured_s = 4.0 * (time_s // 4.0)
        for tower in range(3):
            serving = np.full(USERS, tower)
            best = strongest(links, users, measured_s)
            gain_db = links.signals_dbm(users, best, measured_s) - links.signals_dbm(users, serving, measured_s)
            expected = np.where(gain_db > 2.5, best, tower)
            assert choice.choose(users, serving, time_s).tolist() == expected.tolist()
            moved += np.count_nonzero(expected != tower)
            stayed += np.count_nonzero((gain_db > 0) & (gain_db <= 2.5))
    assert moved > 100
    assert stayed > 10


def strongest(links, users, time_s):
    signals_dbm = [links.signals_dbm(users, np.full(len(users), tower), time_s) for tower in range(3)]
    return np.argmax(signals_dbm, axis=0)


def test_users_start_at_the_strongest_tower():
    access, context, _ = make(
        USERS, 1, 1, **BUSY | {"channel": SHADOWED, "association": "strongest", "unreachable": "keep"}
    )
    config = build_network(access, context)
    simulator = NetworkSimulator(config, context.streams, context.recorder)
    links, _ = links_of(SHADOWED)
    expected = strongest(links, np.arange(USERS), 0.0)
    assert expected.tolist() != config.layout.tower_at_start.tolist()
    assert simulator.membership.tower_at(np.arange(USERS), 0.0).tolist() == expected.tolist()
    assert simulator.state().tower.tolist() == expected.tolist()
    columns = access.user_columns(context)
    assert columns["tower"].tolist() == expected.tolist()
    assert columns["distance_m"].tolist() == simulator.state().distance_m.tolist()


def test_only_the_nearest_few_are_measured():
    links, _ = links_of(SHADOWED, motion=WALK)
    users = np.arange(USERS)
    nearest = links.nearest(users, 3.0)
    assert Strongest(among=1).open(links).choose(users, np.full(USERS, -1), 3.0).tolist() == nearest.tolist()


@pytest.mark.parametrize("towers", [3, 30])
def test_nearest_towers_are_in_the_order_of_their_distances(towers):
    tree = TREE | {"fanout": [towers]}
    links, _ = links_of(FADES, topology=tree, motion=WALK)
    users = np.arange(USERS)
    few = links.nearest_few(users, 5.0, 7)
    everywhere_m = np.array([links.distances_m(users, np.full(USERS, tower), 5.0) for tower in range(towers)])
    assert few.tolist() == np.argsort(everywhere_m, axis=0, kind="stable")[:7].T.tolist()
    assert links.nearest(users, 5.0).tolist() == few[:, 0].tolist()


def test_of_towers_at_one_distance_the_first_is_the_nearest():
    nodes = {f"tower:{index}": {"role": "tower", "position": [100 * x, 0]} for index, x in enumerate((1, -1, 1))}
    nodes["server"] = {"role": "server", "position": [0, 0]}
    between = [{"between": ["server", f"tower:{index}"], "rate": 1e6, "delay": 0.0} for index in range(3)]
    topology = {"kind": "inline", "nodes": nodes, "links": between,
                "placement": {"kind": "listed", "positions": [[0, y] for y in range(USERS)]}}  # fmt: skip
    links, _ = links_of(FADES, topology=topology)
    users = np.arange(USERS)
    assert links.nearest(users, 0.0).tolist() == [0] * USERS
    assert links.nearest_few(users, 0.0, 3)[0].tolist() == [0, 1, 2]


def test_a_user_that_only_another_tower_reaches_is_no_error():
    """Its signal to the nearest tower is shadowed for good, and users are refused that no tower can receive."""
    shadowed = [FADES[0], {"kind": "lognormal_shadowing", "sigma": "20 dB"}]
    fixed = {"channel": shadowed, "unreachable": "error", "radio": {"power": "13 dBm", "bandwidth": "125 kHz"}}
    with pytest.raises(ScenarioError, match="never be received"):
        build_network(*make(USERS, 1, 2, **BUSY | fixed)[:2])
    build_network(*make(USERS, 1, 2, **BUSY | fixed | {"association": "strongest"})[:2])


FAULTS = {
    "moves at the start": (
        {"association": {"kind": "nearest_at_start", "moves": "any_time"}},
        "association.moves",
        "users keep their tower",
    ),
    "traffic": (
        NEAREST | {"traffic": {"kind": "poisson", "rate": 0.1, "size": {"mean": "100 bit"}}},
        "association", "packets of traffic stay",
    ),
    "no motion": ({"association": "nearest_now"}, "association", "without a motion"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_an_association_that_does_not_fit_is_a_located_error(case):
    overrides, key, problem = FAULTS[case]
    access, *_ = make(USERS, 1, 1, **BUSY | overrides)
    faults = [*nested_faults(access, "access", ScenarioFacts(users=USERS, rounds=1, sized=True))]
    assert [fault.key for fault in faults] == [f"access.{key}"]
    assert problem in str(faults[0])


def test_one_tower_is_a_located_error():
    access, context, _ = make(USERS, 1, 1, **BUSY | NEAREST | {"topology": {"kind": "star", "radius": "600 m"}})
    with pytest.raises(ScenarioError, match="with one tower"):
        build_network(access, context)


class Answering(Association):
    """An association of the user's own that gives a wrong answer."""

    answer: str

    def open(self, links):
        return Answers(self.answer)


class Answers(TowerChoice):
    def __init__(self, answer):
        self.answer = answer

    def choose(self, users, serving, time_s):
        if (serving < 0).all():
            return np.zeros(len(users), np.int64)
        return eval(self.answer)

    def next_s(self, time_s):
        return time_s


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("0", "gives a single number"),
        ("np.zeros(3)", "gives 3 values for 8 users"),
        ("np.full(len(users), 3)", "gives 3 for user 0, and there are 3 towers"),
        ("np.full(len(users), -1)", "gives -1 for user 0"),
        ("serving + 0.5", "gives 0.5 for user 0"),
        ("1 / 0", "fails: ZeroDivisionError"),
    ],
)
def test_a_wrong_answer_of_a_model_of_the_users_own_names_it(answer, problem):
    with pytest.raises(ScenarioError) as caught:
        roam(motion=WALK, association=Answering(answer=answer))
    (fault,) = caught.value.faults
    assert problem in str(fault)
    assert "Answering" in str(fault)


def test_a_model_of_the_users_own_moves_users():
    simulator, layout, log, _ = roam(motion=WALK, association=Answering(answer="(serving + 1) % 3"))
    assert simulator.membership.moved > 50
    check_updates(simulator, layout, log)


def warnings_of(**overrides):
    access, context, _ = make(USERS, 1, 1, **BUSY | overrides)
    return [text for text in network_warnings(access, context, USERS) if text.startswith("access.association")]


def test_users_whose_own_tower_is_clearly_weaker_are_named():
    shadowed = [FADES[0], {"kind": "lognormal_shadowing", "sigma": "20 dB"}]
    links, _ = links_of(shadowed)
    users = np.arange(USERS)
    signals_dbm = np.array([links.signals_dbm(users, np.full(USERS, tower), 0.0) for tower in range(3)])
    own_dbm = signals_dbm[links.nearest(users, 0.0), users]
    weaker = np.flatnonzero(signals_dbm.max(axis=0) > own_dbm + 3.0)
    assert 3 < weaker.size < USERS
    (text,) = warnings_of(channel=shadowed)
    assert f"{weaker.size} users have" in text
    assert f"and {weaker.size - 3} more" in text
    for user in weaker[:3].tolist():
        best = int(signals_dbm[:, user].argmax())
        assert f"user {user}: tower:{best} by {signals_dbm[best, user] - own_dbm[user]:.1f} dB" in text


def test_nobody_is_named_whose_own_tower_is_the_strongest():
    assert warnings_of() == []
    assert warnings_of(channel=SHADOWED, association="strongest") == []


def test_a_time_of_a_model_of_the_users_own_is_later():
    with pytest.raises(
        ScenarioError, match=r"next_s\(\) of .*Answering, at 0 s of simulated time, gives 0; return a later"
    ):
        roam(motion=WALK, association=Answering(answer="serving", moves="any_time"))


@pytest.mark.parametrize("keys", [{"on_move": "drop"}, {"every": 2.0}])
def test_keys_of_moves_at_any_time_have_no_effect_on_others(keys):
    with pytest.raises(ValidationError, match="has no effect without moves: any_time"):
        make(USERS, 1, 1, **BUSY | {"motion": WALK, "association": {"kind": "nearest_now", **keys}})


class Visited(Answering):
    """An association of the user's own that gives users who may come to a tower."""

    def open(self, links):
        choice = super().open(links)
        choice.visitors = lambda tower: eval(self.answer)
        return choice


@pytest.mark.parametrize("answer", ["[0, 8]", "[0, 0]", "[-1]", "np.zeros((2, 2))", "0.5"])
def test_visitors_of_a_model_of_the_users_own_are_users(answer):
    with pytest.raises(ScenarioError, match=r"visitors\(\) of .*Visited, for tower 0, gives other values than users"):
        roam(motion=WALK, association=Visited(answer=answer))


def test_an_allocation_decides_for_the_towers_to_which_users_move():
    """Users that move as a version is sent to them have their shares there, so that no round waits for them."""
    fdma = {"mac": {"kind": "fdma", "band": "125 kHz", "division": "allocated"}, "allocation": "equal"}
    settings = fdma | {
        "channel": [{"kind": "constant", "gain": "-90 dB"}],
        "round": {"kind": "first", "m": USERS, "deadline": "200 s"},
    }
    simulator, _, _, rounds = roam(**NEAREST, **settings)
    lasted_s = np.diff([0.0, *(result.closed_s for result in rounds)])
    assert simulator.membership.moved > 5
    assert max(lasted_s) < 20.0
    assert all(len(result.deliveries) == USERS for result in rounds)


def test_users_without_a_radio_take_the_nearest_tower_as_they_move():
    without = {"radio": None, "channel": [], "reception": None, "energy": None, "unreachable": "error"}
    access, context, _log = make(USERS, 20, 1, **BUSY | NEAREST | without | {"mac": "csma_ca", "update_size": "1 kB"})
    assert not [*nested_faults(access, "access", ScenarioFacts(users=USERS, rounds=20, sized=True))]
    simulator = NetworkSimulator(build_network(access, context), context.streams, context.recorder)
    rounds = [*simulator.rounds(20)]
    assert simulator.membership.moved > 0
    assert {each.tower for result in rounds for each in result.deliveries} > {"tower:0"}


def test_notes_count_users_at_the_towers_where_they_start(tmp_path):
    """All begin at the first tower, by a file of windows, and none at the one that is nearest."""
    path = tmp_path / "w.csv"
    path.write_text("user,tower,start,end\n" + "".join(f"{user},tower:0,0,\n" for user in range(USERS)))
    fdma = {"mac": {"kind": "fdma", "band": "125 kHz", "among": "users"}}
    notes = {}
    for association in ("nearest_at_start", {"kind": "windows", "file": str(path)}):
        access, context, _ = make(USERS, 1, 1, **BUSY | fdma | {"association": association})
        notes[str(association)] = " ".join(network_notes(access, context, USERS))
        turns_s = least_times(access, context, at_best=False).turn_s
    assert [f"for each of {USERS} users" in note for note in notes.values()] == [False, True]
    assert len({*turns_s}) == 1
