"""Towers by a file of windows: which of them users hold, when they are away, and errors of the file."""

import numpy as np
import pytest
from support.roaming_networks import BUSY, CASES, TREE, check_updates
from support.run_invariants import watched
from support.small_network import make

from netfl.errors import ScenarioError
from netfl.network.association.windows import Windows
from netfl.network.build import build_network
from netfl.network.outage.availability import Availability
from netfl.network.simulator import NetworkSimulator
from netfl.scenario.validation import nested_faults
from netfl.types import ScenarioFacts

LOUD = {"reception": {"kind": "snr_threshold", "threshold": "-90 dB", "rate": "2 kbps"}, "unreachable": "keep"}


def write(folder, text, name="passes.csv"):
    path = folder / name
    path.write_text(text)
    return path


def network(file, users, rounds=12, **overrides):
    windows = {"kind": "windows", "file": str(file)}
    alike = {"compute": {"speed": 1.0, "samples": 1}, "association": windows}
    access, context, log = make(users, rounds, 1, **BUSY | alike | overrides)
    config = build_network(access, context)
    return NetworkSimulator(config, context.streams, context.recorder), config, log


def towers_of(simulator, user, times_s):
    return [int(simulator.membership.tower_at(np.array([user]), time_s)[0]) for time_s in times_s]


OVERLAPPING = """user,tower,start,end
0,tower:0,0,10
0,tower:1,4,16
0,tower:2,6,30
1,tower:1,-5,8
1,tower:0,0,3
1,tower:2,8,9
1,tower:0,8,40
1,tower:2,30,
2,tower:2,12,14
2,tower:0,20,
"""


def held_of(file, user):
    held = Windows(file=file)._held
    rows = held.users == user
    return [*zip(held.towers[rows].tolist(), held.starts_s[rows].tolist(), held.ends_s[rows].tolist(), strict=True)]


def test_a_window_is_held_until_it_ends(tmp_path):
    file = write(tmp_path, OVERLAPPING)
    assert held_of(file, 0) == [("tower:0", 0, 10), ("tower:1", 10, 16), ("tower:2", 16, 30)]
    assert held_of(file, 1) == [("tower:1", 0, 8), ("tower:0", 8, 40), ("tower:2", 40, np.inf)]
    assert held_of(file, 2) == [("tower:2", 12, 14), ("tower:0", 20, np.inf)]


def test_users_are_where_their_windows_are(tmp_path):
    file = write(tmp_path, OVERLAPPING)
    simulator, _, log = network(file, 3, **LOUD, round={"kind": "first", "m": 2, "deadline": "8 s"})
    with watched():
        [*simulator.rounds(12)]
    assert simulator.env.now > 20.0
    held = Windows(file=file)._held
    ends_before = {(user, tower): end for user, tower, end in zip(
        held.users[1:].tolist(), held.towers[1:].tolist(), held.ends_s[:-1].tolist(), strict=True)}  # fmt: skip
    moves = [row for row in log.rows if row[0] == "moved"]
    assert len(moves) > 3
    for _, time_s, _, user, node, *_ in moves:
        end_s = ends_before[user, node]
        assert end_s <= time_s + 1e-9 < end_s + 0.6, "as the one before ends, or as a frame ends that is on the air"
    assert towers_of(simulator, 2, [0.0, 13.0, 19.0]) == [2, 2, 0], "it is away at the tower of its next window"


def test_a_user_outside_of_its_windows_neither_sends_nor_receives(tmp_path):
    file = write(tmp_path, OVERLAPPING)
    simulator, _, log = network(file, 3, **LOUD, round={"kind": "first", "m": 3, "deadline": "5 s"})
    [*simulator.rounds(12)]
    of_user = [row for row in log.rows if row[3] == 2]
    assert [(row[0], row[1]) for row in of_user if row[0] in {"up", "down"}][:4] == [
        ("down", 0.0), ("up", 12.0), ("down", 14.0), ("up", 20.0)
    ]  # fmt: skip
    assert {row[0] for row in of_user} >= {"received", "sent", "delivered"}
    for kind, time_s, *_ in of_user:
        if kind in {"received", "sent"}:
            assert 12.0 <= time_s <= 14.0 or time_s >= 20.0


def test_a_version_that_was_sent_before_comes_with_the_next_window(tmp_path):
    """User 1 is away from 4 s on, and trains at the tower of its next window as that begins."""
    file = write(tmp_path, "user,tower,start,end\n0,tower:0,0,\n1,tower:0,0,4\n1,tower:2,11.5,\n")
    simulator, _, log = network(
        file, 2, **LOUD, compute={"speed": [1.0, 1.0], "samples": 1}, round={"kind": "first", "m": 1, "deadline": "9 s"}
    )
    [*simulator.rounds(12)]
    received = [row for row in log.rows if row[0] == "received" and row[3] == 1 and row[1] > 4.0]
    assert received[0][1] == pytest.approx(11.5)
    assert received[0][4] == "tower:2"


def test_an_update_that_was_trained_while_away_goes_to_the_tower_of_the_next_window(tmp_path):
    file = write(tmp_path, "user,tower,start,end\n0,tower:0,0,\n1,tower:0,0,4\n1,tower:2,11.5,\n")
    simulator, _, log = network(file, 2, **LOUD, compute={"speed": [1.0, 0.2], "samples": 1}, mac={"kind": "fdma"})
    [*simulator.rounds(4)]
    sent = [(time_s, node) for kind, time_s, _, user, node, *_ in log.rows if kind == "sent" and user == 1]
    assert sent[0] == (pytest.approx(11.5), "tower:2")
    assert {node for _, node in sent} == {"tower:2"}


@pytest.mark.parametrize("on_move", ["carry", "drop"])
@pytest.mark.parametrize("case", [case for case in CASES if case != "exempt"])
def test_every_update_of_users_with_windows_has_one_outcome(tmp_path, case, on_move):
    rng = np.random.default_rng(1)
    lines = ["user,tower,start,end"]
    for user in range(8):
        times_s = np.cumsum(rng.uniform(1.0, 9.0, 60))
        lines += [f"{user},tower:{rng.integers(3)},{start:.3f},{start + rng.uniform(2, 14):.3f}" for start in times_s]
        lines.append(f"{user},tower:0,500,")
    file = write(tmp_path, "\n".join(lines))
    association = {"kind": "windows", "file": str(file), "on_move": on_move}
    with watched():
        simulator, config, log = network(file, 8, 30, **CASES[case] | {"association": association})
        [*simulator.rounds(30)]
    assert simulator.membership.moved > 5
    check_updates(simulator, config.layout, log)


def test_windows_without_an_end_at_one_tower_are_as_if_users_kept_it(tmp_path):
    """To the bit, where that tower is the nearest."""
    access, context, fixed_log = make(8, 12, 1, **BUSY)
    config = build_network(access, context)
    fixed = [*NetworkSimulator(config, context.streams, context.recorder).rounds(12)]
    rows = [f"{user},tower:{tower},0," for user, tower in enumerate(config.layout.tower_at_start.tolist())]
    file = write(tmp_path, "\n".join(["user,tower,start,end", *rows]))
    simulator, _, log = network(file, 8, compute=BUSY["compute"])
    rounds = [*simulator.rounds(12)]
    assert [result.closed_s for result in rounds] == [result.closed_s for result in fixed]
    assert log.rows == fixed_log.rows


FAULTS = {
    "unknown user": ("0,tower:0,0,5\n7,tower:1,0,5\n1,tower:1,0,", "passes.csv:3: no such user (7)"),
    "without any": ("0,tower:0,0,5", "has no window of 1 users, who would always be away: 1"),
    "over": ("0,tower:0,-9,-2\n0,tower:0,0,5\n1,tower:1,0,", "passes.csv:2: it never opens, as it ends before time 0"),
    "empty": ("0,tower:0,3,3\n1,tower:1,0,", "passes.csv:2: it is empty"),
    "backwards": ("0,tower:0,5,3\n1,tower:1,0,", "passes.csv:2: it ends before it starts"),
    "no tower": ("0,,5,3\n1,tower:1,0,", "passes.csv:2: column tower: an empty cell"),
    "nothing": ("", "has no windows"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_wrong_file_is_a_located_error(tmp_path, case):
    rows, problem = FAULTS[case]
    file = write(tmp_path, f"user,tower,start,end\n{rows}\n")
    faults = [*nested_faults(Windows(file=file), "access.association", ScenarioFacts(users=2, rounds=1))]
    assert [fault.key for fault in faults] == ["access.association.file"]
    assert problem in str(faults[0])


def test_a_missing_column_is_named(tmp_path):
    file = write(tmp_path, "user,start,end\n0,0,5\n")
    (fault,) = nested_faults(Windows(file=file), "", ScenarioFacts(users=1, rounds=1))
    assert "passes.csv has no column tower" in str(fault)


def test_an_unknown_tower_is_named(tmp_path):
    file = write(tmp_path, "user,tower,start,end\n0,tower:0,0,5\n1,tower:9,0,\n1,tower:8,0,\n")
    with pytest.raises(ScenarioError, match=r"passes.csv:3: no such tower \('tower:9'\)") as caught:
        network(file, 2)
    assert [fault.key for fault in caught.value.faults] == ["association.file"] * 2


def test_the_outage_availability_refuses_a_column_of_towers(tmp_path):
    """Without the refusal a user would be connected to any tower, whatever the column says."""
    file = write(tmp_path, "user,tower,start,end\n0,tower:0,0,5\n")
    (fault,) = nested_faults(Availability(file=file), "", ScenarioFacts(users=1, rounds=1))
    assert "passes.csv has the column tower" in str(fault)
    assert "association: {kind: windows, file: …}" in str(fault)


def test_dates_need_an_origin(tmp_path):
    file = write(tmp_path, "user,tower,start,end\n0,tower:0,2026-03-01T08:00:10,2026-03-01T08:00:30\n")
    held = Windows(file=file, origin="2026-03-01T08:00")._held
    assert (held.starts_s.tolist(), held.ends_s.tolist()) == ([10.0], [30.0])
    assert [*nested_faults(Windows(file=file), "", ScenarioFacts(users=1, rounds=1))]


def test_only_users_with_a_window_have_a_slot_at_a_tower(tmp_path):
    simulator, _, _ = network(write(tmp_path, OVERLAPPING), 3, topology=TREE)
    slots = [simulator.membership.candidates(tower).tolist() for tower in range(3)]
    assert slots == [[0, 1, 2], [0, 1], [0, 1, 2]]


def test_windows_of_one_tower_state_when_users_are_there(tmp_path):
    file = write(tmp_path, "user,tower,start,end\n0,tower:0,0,5\n0,tower:0,20,40\n1,tower:0,10,\n")
    star = {"topology": {"kind": "star", "radius": "600 m"}, "round": {"kind": "first", "m": 1, "deadline": "8 s"}}
    simulator, _, log = network(file, 2, **LOUD | star)
    [*simulator.rounds(8)]
    changes = {(kind, user, time_s) for kind, time_s, _, user, *_ in log.rows if kind in {"down", "up"}}
    assert simulator.env.now > 20.0
    assert changes == {("down", 1, 0.0), ("down", 0, 5.0), ("up", 1, 10.0), ("up", 0, 20.0)}
