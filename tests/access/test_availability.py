"""Availability read by an access: who is there in which round, once or in cycles, against a walk by hand."""

from __future__ import annotations

import numpy as np
import pytest

from netfl.access.availability import Availability
from netfl.errors import ScenarioError
from netfl.types import ScenarioFacts


@pytest.fixture
def written(said_in):
    return said_in(Availability)


def problems(access, users=2, rounds=9):
    return [str(fault) for fault in access.faults(ScenarioFacts(users=users, rounds=rounds))]


def rounds_of(presence, access, world):
    """The rounds, from 1, in which each user was heard."""
    return [(np.flatnonzero(column) + 1).tolist() for column in presence(access, world).T]


def test_rounds_by_hand(written, make_setting, presence):
    access = written("0,off,2,5\n1,on,3\n2,on,0.5,1.5,2.5\n3,off,2.001,4\n", unit="rounds")
    assert rounds_of(presence, access, make_setting(4, 7)) == [[3, 4, 5], [1, 2, 3], [2], [3, 4]]


def test_seconds_are_rounds_of_the_clock(written, make_setting, presence):
    rows = "0,off,60,150\n1,on,90\n"
    access = written(rows, round_length="30 s")
    assert rounds_of(presence, access, make_setting(2, 7)) == [[3, 4, 5], [1, 2, 3]]


@pytest.mark.parametrize("length", [0.1, 0.3, 1 / 3, 1e-3, 7.7])
def test_times_at_the_end_of_a_round_are_at_its_end_whatever_the_rounding(written, make_setting, presence, length):
    """A user who is there in every other round, by times that are products, or sums, of the length of a round."""
    for times in (length * np.arange(1, 2_000), np.cumsum(np.full(1_999, length))):
        access = written("0,off," + ",".join(map(repr, times.tolist())) + "\n", round_length=length)
        there = presence(access, make_setting(1, 2_000))[:, 0]
        assert (there == (np.arange(2_000) % 2 == 1)).all()


def test_a_file_begins_anew(written, make_setting, presence):
    access = written("0,off,2,5\n1,on,3\n2,on\n3,off\n", unit="rounds", repeat=6)
    found = rounds_of(presence, access, make_setting(4, 14))
    assert found == [[3, 4, 5, 9, 10, 11], [1, 2, 3, 7, 8, 9, 13, 14], [*range(1, 15)], []]
    assert access.rates(4, make_setting().streams).tolist() == [0.5, 0.5, 1.0, 0.0]
    assert access.info.process == "cyclic"


@pytest.mark.parametrize(("repeat", "length"), [(6.3, 1.0), (0.75, 1.0), (100.0, 7.0), (2.5, 0.1), (1.0, 3.0)])
def test_cycles_that_do_not_fit_the_rounds(written, make_setting, presence, repeat, length):
    rng = np.random.default_rng(3)
    rows = [(user, bool(user % 2), np.sort(rng.uniform(0, repeat, user))) for user in range(5)]
    text = "".join(f"{user},{start:d},{','.join(map(repr, times.tolist()))}\n" for user, start, times in rows)
    there = presence(written(text, round_length=length, repeat=repeat), make_setting(5, 300))
    for index in range(1, 301):
        time = (index * length * (1 - 1e-12)) % repeat
        assert there[index - 1].tolist() == [start ^ bool((times < time).sum() % 2) for _, start, times in rows]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("length", [None, 0.3, 7.7])
def test_shares_of_rounds_are_those_of_a_cycle_that_was_played(written, make_setting, presence, seed, length):
    """Changes at the ends of rounds and between them, two of them in one round, first and last rounds among them."""
    rng, cycle = np.random.default_rng(seed), 9
    step = length or 1.0
    instants = np.concatenate([np.arange(1, 2 * cycle - 1) / 2, [0.01, cycle - 0.01]])
    rows = []
    for user in range(5):
        times = np.sort(rng.choice(instants, size=rng.integers(1, 8), replace=False)) * step
        rows.append(",".join([str(user), rng.choice(["on", "off"]), *map(str, times.tolist())]) + "\n")
    said = {"unit": "rounds"} if length is None else {"round_length": length}
    access = written("".join(rows), repeat=cycle * step, **said)
    setting = make_setting(5, cycle)
    played = presence(access, setting).mean(axis=0)
    assert access.participation_rates(5, setting.streams).tolist() == pytest.approx(played.tolist(), abs=1e-12)


@pytest.mark.parametrize("repeat", [1e9, 1e15, 1e300])
def test_a_long_cycle_is_not_played(written, make_setting, repeat):
    access = written("0,on,5\n1,off,5\n", unit="rounds", repeat=repeat)
    assert access.participation_rates(2, make_setting().streams) == pytest.approx(
        [5 / repeat, 1 - 5 / repeat], rel=1e-12
    )


def test_without_repeating_the_last_state_stays(written, make_setting, presence):
    access = written("0,off,2\n1,on,2\n", unit="rounds")
    assert rounds_of(presence, access, make_setting(2, 50)) == [[*range(3, 51)], [1, 2]]
    assert access.rates(2, make_setting().streams) is None
    assert access.info.process is None


def test_those_who_are_there_are_heard_in_random_order_or_the_first_few(written, make_setting, hear):
    text = "".join(f"{user},on\n" for user in range(4))
    everyone, few = (hear(written(text, deliveries=first), make_setting(4, 200)) for first in (None, 2))
    assert [one[:2] for one in everyone] == few
    assert {one[0] for one in few} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("text", "said", "told"),
    [
        ("0,on\n", {}, "file: there.csv has no rows for some users ([1]); give a row for each of the 2 users"),
        ("0,on\n1,on\n2,on\n", {}, "file: there.csv:3: no such user (2); users are numbered 0 to 1"),
        ("0,on\n1,on,5,3\n", {}, "file: there.csv:2: times are not ascending: 3 follows 5"),
        (
            "0,on\n1,on,5,7\n",
            {"repeat": 7},
            "file: there.csv:2: a change at 7 is after the end of the period of 7",
        ),
        ("0,on\n1,on\n", {"deliveries": 3}, "deliveries: more than the 2 users"),
        ("", {}, "file: there.csv has no user"),
    ],
)
def test_misfits_are_faults(written, make_setting, text, said, told):
    access = written(text, **said)
    (fault,) = problems(access)
    assert fault.startswith(told)
    if "deliveries" not in said:
        assert access.rates(2, make_setting().streams) is None
        with pytest.raises(ScenarioError):
            next(access.rounds(make_setting(2, 9)))


def test_a_file_that_is_not_there(tmp_path):
    (fault,) = problems(Availability(file=tmp_path / "none.csv"))
    assert "cannot be read: No such file" in fault


@pytest.mark.parametrize("said", [{"repeat": 0}, {"unit": "hours"}, {"round_length": 0}])
def test_what_is_out_of_range_is_refused(written, said):
    with pytest.raises(ScenarioError) as caught:
        written("0,on\n", **said)
    assert {fault.key.split(".")[1] for fault in caught.value.faults} == set(said)


def test_a_time_is_no_number_of_rounds(written):
    with pytest.raises(ScenarioError, match="unit is rounds") as caught:
        written("0,on\n", unit="rounds", repeat="1 day")
    assert caught.value.faults[0].key == "Availability.repeat"
    assert written("0,on\n", unit="rounds", repeat=50).repeat == 50.0


def test_a_path_is_relative_to_the_current_directory(written, monkeypatch):
    folder = written("0,on\n1,on\n").file.parent
    monkeypatch.chdir(folder)
    access = Availability(file="there.csv", repeat="1 day")
    assert not problems(access)
    assert Availability.model_validate(access.model_dump(mode="json")) == access


@pytest.mark.slow
def test_a_large_file_takes_no_long(written, make_setting, hear):
    times = ",".join(str(k) for k in range(1, 2_000))
    access = written("".join(f"{user},{user % 2},{times}\n" for user in range(500)), unit="rounds")
    rounds = hear(access, make_setting(500, 2_000))
    assert {len(one) for one in rounds} == {250}
