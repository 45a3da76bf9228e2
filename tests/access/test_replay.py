"""Replay of a recorded run: exact rounds, and errors of recordings that do not fit."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

import numpy as np
import pandas as pd
import pytest
from support.error_messages import assert_messages

from netfl.access.bernoulli import Bernoulli
from netfl.access.replay import Replay
from netfl.errors import ScenarioError
from netfl.types import ScenarioFacts

ROUND = ("opened_s", "closed_s", "oldest", "uplink_bits", "downlink_bits")
DELIVERY = ("user", "base", "sent_s", "arrived_s", "attempts")


def write_tables(folder, replicas):
    """Write the rounds of several replicas in the order of a run: by round, then by replica."""
    rounds, deliveries = [], []
    for same_round in zip_longest(*replicas):
        for replica, round_ in enumerate(same_round):
            head = {"replica": replica, "round": round_.index}
            fields = {name: getattr(round_, name) for name in ROUND}
            rounds.append({**head, **fields, "delivered": len(round_.deliveries)})
            deliveries += [
                {**head, **{name: getattr(delivery, name) for name in DELIVERY}} for delivery in round_.deliveries
            ]
    pd.DataFrame(rounds).to_parquet(folder / "rounds.parquet")
    pd.DataFrame(deliveries).to_parquet(folder / "deliveries.parquet")


@pytest.fixture
def recorded(tmp_path, make_context):
    """A folder with two replicas of 30 rounds of 5 users, and the rounds themselves."""
    access = Bernoulli(probability=0.3, round_length=0.1)
    replicas = [[*access.rounds(make_context(5, 30, replica=at))] for at in (0, 1)]
    write_tables(tmp_path, replicas)
    return tmp_path, replicas


def problems(folder, users=5, rounds=30):
    return [str(fault) for fault in Replay(run=folder).faults(ScenarioFacts(users=users, rounds=rounds))]


def test_replayed_rounds_equal_the_recorded_rounds(recorded, make_context):
    folder, replicas = recorded
    for at in (0, 1):
        assert [*Replay(run=folder).rounds(make_context(5, 30, replica=at))] == replicas[at]
    assert [*Replay(run=folder).rounds(make_context(5, 12))] == replicas[0][:12]
    assert not problems(folder)


def test_recorded_energy_is_replayed(recorded, make_context):
    folder, replicas = recorded
    table = pd.read_parquet(folder / "rounds.parquet")
    joules = np.where(table["round"] % 3 == 0, np.nan, 0.25 * table["round"])
    table.assign(energy_J=joules).to_parquet(folder / "rounds.parquet")
    replayed = [*Replay(run=folder).rounds(make_context(5, 30, replica=1))]
    assert [round_.energy_j for round_ in replayed] == [None if at % 3 == 0 else 0.25 * at for at in range(1, 31)]
    assert [replace(round_, energy_j=None) for round_ in replayed] == replicas[1]


def test_more_replicas_than_recorded_is_an_error(recorded):
    folder, _ = recorded
    assert not [*Replay(run=folder).faults(ScenarioFacts(users=5, rounds=30, replicas=2))]
    (fault,) = Replay(run=folder).faults(ScenarioFacts(users=5, rounds=30, replicas=3))
    assert_messages([str(fault)], ["run: … 2 replicas … needs 3"])


def test_replay_records_delivered_events(recorded, make_context):
    folder, replicas = recorded
    context = make_context(5, 30)
    [*Replay(run=folder).rounds(context)]
    delivered = [(time, at, user) for kind, time, at, user, _ in context.recorder.rows if kind == "delivered"]
    assert delivered == [
        (delivery.arrived_s, round_.index, delivery.user) for round_ in replicas[0] for delivery in round_.deliveries
    ]


def test_max_deliveries_is_the_recorded_maximum(recorded):
    folder, replicas = recorded
    assert Replay(run=folder).max_deliveries(5, 99) == max(
        len(round_.deliveries) for rounds in replicas for round_ in rounds
    )


def test_max_deliveries_covers_the_requested_rounds(recorded):
    folder, replicas = recorded
    assert Replay(run=folder).max_deliveries(5, 1) == max(len(rounds[0].deliveries) for rounds in replicas)


def test_path_is_relative_to_the_current_directory(recorded, monkeypatch):
    folder, _ = recorded
    monkeypatch.chdir(folder.parent)
    assert not [*Replay(run=folder.name).faults(ScenarioFacts(users=5, rounds=30))]
    assert Replay.model_validate(Replay(run=folder.name).model_dump(mode="json")).run.name == folder.name


def test_recording_that_is_too_small_is_an_error(recorded, make_context):
    folder, _ = recorded
    assert "30 rounds are recorded, the scenario has 31" in problems(folder, rounds=31)[0]
    assert "user: no such user: there are 4 users (4)" in problems(folder, users=4)[0]
    for context, message in [
        (make_context(5, 31), "scenario has 31"),
        (make_context(5, 30, replica=2), "no such replica"),
    ]:
        with pytest.raises(ScenarioError, match=message):
            next(Replay(run=folder).rounds(context))


def test_missing_recording_is_an_error(tmp_path, make_context):
    missing = Replay(run=tmp_path / "absent")
    (fault,) = missing.faults(ScenarioFacts(users=5, rounds=30))
    assert (fault.key, fault.problem) == ("run", f"there is no folder {tmp_path / 'absent'}")
    assert missing.max_deliveries(5, 99) == 1
    assert f"there is no file {tmp_path / 'rounds.parquet'}" in problems(tmp_path)[0]
    with pytest.raises(ScenarioError, match=r"^run: there is no folder"):
        next(missing.rounds(make_context()))


def test_error_names_the_damaged_table(recorded, make_context):
    folder, _ = recorded
    path = folder / "deliveries.parquet"
    path.write_bytes(path.read_bytes()[:100])
    assert "deliveries.parquet cannot be read" in problems(folder)[0]
    with pytest.raises(ScenarioError, match=r"deliveries\.parquet cannot be read"):
        next(Replay(run=folder).rounds(make_context(5, 30)))


@pytest.mark.parametrize(
    ("table", "change", "message"),
    [
        ("deliveries", lambda frame: frame.iloc[1:], "disagree"),
        ("deliveries", lambda frame: frame.assign(base=frame["round"]), "later than its round"),
        ("deliveries", lambda frame: frame.drop(columns="sent_s"), "no column sent_s"),
        ("rounds", lambda frame: frame.assign(round=frame["round"] + 1), "not numbered"),
        ("rounds", lambda frame: frame[frame["replica"] == 1], "no such replica"),
        ("rounds", lambda frame: frame.assign(delivered="many"), "rounds.parquet:1: column delivered: not a number"),
        ("rounds", lambda frame: frame.assign(opened_s=np.nan), "rounds.parquet:1: column opened_s: an empty cell"),
        (
            "rounds",
            lambda frame: frame.assign(opened_s=np.inf),
            "rounds.parquet:1: column opened_s: not a finite number",
        ),
        ("rounds", lambda frame: frame.assign(closed_s=frame["closed_s"].iloc[::-1].to_numpy()), "not ascending"),
    ],
)
def test_inconsistent_recording_is_an_error(recorded, table, change, message):
    folder, _ = recorded
    path = folder / f"{table}.parquet"
    change(pd.read_parquet(path)).to_parquet(path)
    assert message in problems(folder)[0]


ROUNDS = {"replica": 0, "round": [1, 2, 3], "opened_s": [0.0, 1, 2], "closed_s": [1.0, 2, 3], "delivered": 1}
ROUNDS |= {"oldest": [1, 2, 3], "uplink_bits": 8.0, "downlink_bits": 8.0}
DELIVERIES = {"replica": 0, "round": [1, 2, 3], "user": [0, 1, 0], "base": [0, 1, 2], "sent_s": [0.1, 1.1, 2.1]}
DELIVERIES |= {"arrived_s": [0.9, 1.9, 2.9], "attempts": 1}


@pytest.mark.parametrize(
    ("rounds", "deliveries", "message"),
    [
        (
            {"opened_s": [0, 1e3, 2e3], "closed_s": [1e3, 2e3, 3e3]},
            {},
            "deliveries.parquet:2: … outside of its round (1.9)",
        ),
        ({}, {"arrived_s": [0.05, 1.9, 2.9]}, "deliveries.parquet:1: arrived_s: it arrives before it is sent (0.05)"),
        (
            {},
            {"arrived_s": [1.05, 1.9, 2.9]},
            "deliveries.parquet:1: arrived_s: it arrives outside of its round (1.05)",
        ),
        ({}, {"arrived_s": [0.9, np.nan, 2.9]}, "deliveries.parquet:2: column arrived_s: an empty cell"),
        ({}, {"sent_s": [-np.inf, 1.1, 2.1]}, "deliveries.parquet:1: column sent_s: not a finite number"),
        ({}, {"attempts": [0, 1, 1]}, "deliveries.parquet:1: column attempts: not a whole number from 1 on (0)"),
        ({}, {"attempts": [1, -3, 1]}, "deliveries.parquet:2: column attempts: not a whole number from 1 on (-3)"),
        ({}, {"attempts": [1, 1, 1.5]}, "deliveries.parquet:3: column attempts: not a whole number from 1 on (1.5)"),
        ({}, {"attempts": [True] * 3}, "deliveries.parquet:1: column attempts: a boolean"),
        ({}, {"base": [0, 0, 2]}, "deliveries.parquet:2: base: it starts from a version older than oldest … (0)"),
        ({"oldest": [0, 2, 1]}, {"base": [0, 1, 1]}, "deliveries.parquet:3: base: … older than oldest … (1)"),
        ({}, {"base": [0, 2, 2]}, "deliveries.parquet:2: base: it starts from a version later than its round (2)"),
        ({}, {"base": [-1, 1, 2]}, "deliveries.parquet:1: column base: not a whole number from 0 on (-1)"),
        ({}, {"round": [1, 2, 4]}, "rounds.parquet:3: delivered: rounds and deliveries disagree"),
        ({}, {"user": ["0", "1", "007"]}, "deliveries.parquet:3: column user: not the number of a user"),
        ({"oldest": [1, 3, 3]}, {}, "rounds.parquet:2: oldest: oldest is a later version (3)"),
        ({"round": [1, 3, 2]}, {}, "rounds.parquet:2: opened_s: times are not ascending"),
        ({"closed_s": [1.0, 0.5, 3]}, {}, "rounds.parquet:2: closed_s: times are not ascending: it closes before"),
        (
            {"uplink_bits": -1.0},
            {},
            "rounds.parquet:1: column uplink_bits: not an amount of data from 0 to 1e20 bit (-1.0)",
        ),
        (
            {"opened_s": pd.to_datetime([0, 1, 2], unit="s")},
            {},
            "rounds.parquet:1: column opened_s: a value of type datetime",
        ),
        ({"opened_s": pd.to_timedelta([0, 1, 2], "s"), "closed_s": pd.to_timedelta([1, 2, 3], "s")}, {}, None),
    ],
)
def test_impossible_recordings_are_errors(tmp_path, make_context, rounds, deliveries, message):
    """By file, row and reason, before the run as in it."""
    pd.DataFrame(ROUNDS | rounds).to_parquet(tmp_path / "rounds.parquet")
    pd.DataFrame(DELIVERIES | deliveries).to_parquet(tmp_path / "deliveries.parquet")
    found = problems(tmp_path, users=8, rounds=3)
    if message is None:
        assert not found
        assert len([*Replay(run=tmp_path).rounds(make_context(8, 3))]) == 3
        return
    assert_messages(found[:1], [f"run: {message}"])
    with pytest.raises(ScenarioError) as error:
        next(Replay(run=tmp_path).rounds(make_context(8, 3)))
    assert [*map(str, error.value.faults)] == found


def test_lost_parts_belong_to_one_of_two_deliveries_from_a_base(tmp_path, make_context):
    """A user delivers twice in a round from version 0: the second update lacks a part, the first does not."""
    pd.DataFrame(ROUNDS | {"delivered": [2, 0, 1]}).to_parquet(tmp_path / "rounds.parquet")
    rows = DELIVERIES | {"round": [1, 1, 3], "user": 0, "base": [0, 0, 2], "sent_s": 0.0, "arrived_s": [0.3, 0.8, 2.9]}
    pd.DataFrame(rows).to_parquet(tmp_path / "deliveries.parquet")
    lost = {"replica": 0, "round": 1, "user": 0, "base": 0, "arrived_s": [0.8, 0.8], "part": [0, 2], "parts": 4}
    pd.DataFrame(lost).to_parquet(tmp_path / "erasures.parquet")
    rounds = [*Replay(run=tmp_path).rounds(make_context(8, 3))]
    received = [delivery.received for round_ in rounds for delivery in round_.deliveries]
    assert received == [None, (False, True, False, True), None]


LOST = {"replica": 0, "round": 2, "user": 1, "base": 1, "arrived_s": 1.9, "part": [0, 2], "parts": 4}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, None),
        ({"part": [4, 2]}, "erasures.parquet:1: part: no such part (4)"),
        ({"part": [-1, 2]}, "erasures.parquet:1: column part: not a whole number from 0 on (-1)"),
        ({"part": [2, 2]}, "erasures.parquet:2: part: it occurs twice (2)"),
        ({"parts": [4, 9]}, "erasures.parquet:2: parts: a row above has another number of parts … (9)"),
        ({"part": [0, 1], "parts": 2}, "erasures.parquet:1: parts: all parts are lost, … (2)"),
        ({"user": [1, 5]}, "erasures.parquet:2: user: no such delivery … (5)"),
        ({"base": [0, 1]}, "erasures.parquet:1: user: no such delivery … (1)"),
        ({"round": [2, 9]}, "erasures.parquet:2: user: no such delivery … (1)"),
        ({"arrived_s": [1.9, 1.8]}, "erasures.parquet:2: user: no such delivery … (1)"),
    ],
)
def test_impossible_erasures_are_errors(tmp_path, make_context, change, message):
    """By file, row and reason, before the run as in it."""
    pd.DataFrame(ROUNDS).to_parquet(tmp_path / "rounds.parquet")
    pd.DataFrame(DELIVERIES).to_parquet(tmp_path / "deliveries.parquet")
    pd.DataFrame(LOST | change).to_parquet(tmp_path / "erasures.parquet")
    found = problems(tmp_path, users=8, rounds=3)
    if message is None:
        assert not found
        return
    assert_messages(found[:1], [f"run: {message}"])
    with pytest.raises(ScenarioError) as error:
        next(Replay(run=tmp_path).rounds(make_context(8, 3)))
    assert [*map(str, error.value.faults)] == found


def test_a_table_of_erasures_may_be_empty(tmp_path):
    pd.DataFrame(ROUNDS).to_parquet(tmp_path / "rounds.parquet")
    pd.DataFrame(DELIVERIES).to_parquet(tmp_path / "deliveries.parquet")
    pd.DataFrame(LOST).iloc[:0].to_parquet(tmp_path / "erasures.parquet")
    assert not problems(tmp_path, users=8, rounds=3)


def test_order_of_arrival_is_checked(tmp_path):
    pd.DataFrame(ROUNDS | {"delivered": [2, 0, 1]}).to_parquet(tmp_path / "rounds.parquet")
    rows = DELIVERIES | {"round": [1, 1, 3], "base": [0, 0, 2], "sent_s": 0.0, "arrived_s": [0.9, 0.8, 2.9]}
    pd.DataFrame(rows).to_parquet(tmp_path / "deliveries.parquet")
    assert_messages(
        problems(tmp_path, rounds=3), ["run: deliveries.parquet:2: arrived_s: it arrives before the row above"]
    )


def test_every_replica_is_checked_before_the_run(recorded):
    folder, _ = recorded
    table = pd.read_parquet(folder / "deliveries.parquet")
    row = int(np.flatnonzero(table["replica"] == 1)[3])
    table.loc[row, "attempts"] = 0
    table.to_parquet(folder / "deliveries.parquet")
    (fault,) = Replay(run=folder).faults(ScenarioFacts(users=5, rounds=30, replicas=2))
    assert_messages([str(fault)], [f"run: deliveries.parquet:{row + 1}: column attempts"])


def test_versions_without_later_deliveries_are_not_needed(tmp_path, make_context):
    """Version 0 is needed until round 3, version 2 in round 4."""
    folder = tmp_path / "stale"
    folder.mkdir()
    index = np.arange(1, 5)
    rounds = {"replica": 0, "round": index, "opened_s": index - 1.0, "closed_s": index * 1.0, "delivered": [1, 1, 1, 1]}
    rounds |= {"oldest": [0, 0, 2, 4], "uplink_bits": 0.0, "downlink_bits": 0.0}
    pd.DataFrame(rounds).to_parquet(folder / "rounds.parquet")
    deliveries = {"replica": 0, "round": index, "user": [0, 1, 2, 1], "base": [0, 1, 0, 2]}
    deliveries |= {"sent_s": index - 0.5, "arrived_s": index * 1.0, "attempts": 1}
    pd.DataFrame(deliveries).to_parquet(folder / "deliveries.parquet")
    needed = [round_.needed for round_ in Replay(run=folder).rounds(make_context(3, 4))]
    assert needed == [(0,), (0,), (2,), None]
