"""Availability files with one row for each interval, against hand calculations."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pandas as pd
import pytest
from support.error_messages import assert_messages
from support.small_network import SECTION

from netfl.access.availability import Availability
from netfl.errors import ScenarioError
from netfl.files.cells import TimeScale
from netfl.network.outage._availability_file import read_availability
from netfl.network.outage.availability import Availability as Outage
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation.setup import warnings
from netfl.types import ScenarioFacts

ORIGIN = datetime(2024, 3, 30)
NETWORK = SECTION | {"update_size": 1000, "compute": {"speed": 100, "samples": 10}}


@pytest.fixture
def read(tmp_path):
    """Return a function that writes a file and reads it as plain rows and errors."""

    def read_file(content, *args):
        path = tmp_path / "there.csv"
        if isinstance(content, list):
            path = path.with_suffix(".json")
            path.write_text(json.dumps(content))
        elif isinstance(content, str):
            path.write_text(content)
        else:
            path = path.with_suffix(".parquet")
            pd.DataFrame(content).to_parquet(path)
        rows, faults, _ = read_availability(path, *args)
        return [(row.user, row.start, row.times.tolist()) for row in rows], [str(fault) for fault in faults]

    return read_file


@pytest.mark.parametrize(
    "content",
    [
        "user,start,end\n0,0,3\n1,1,5\n",
        "user,start_s,end_s\n0,0,3\n1,1,5\n",
        "end,user,why,start\n3,0,x,0\n5,1,y,1\n",
        "user,start,end\n1,1000 ms,5\n0,-1 h,3\n",
        {"user": [0, 1], "start": [0, 1], "end": [3.0, 5.0]},
        {
            "user": [0, 1],
            "start": [timedelta(0), timedelta(seconds=1)],
            "end": [timedelta(seconds=3), timedelta(seconds=5)],
        },
        [{"user": 0, "start": 0, "end": 3}, {"user": 1, "start": "1", "end": "5 s"}],
    ],
)
def test_intervals(read, content):
    assert read(content) == ([(0, True, [3.0]), (1, False, [1.0, 5.0])], [])


def test_intervals_of_a_user_are_merged_in_any_order(read):
    text = "user,start,end\n0,20,25\n0,1,5\n0,5,6\n0,2,3\n0,30,\n1,,\n2,-5,-1\n2,-9,8\n"
    assert read(text) == ([(0, False, [1.0, 6.0, 20.0, 25.0, 30.0]), (1, False, []), (2, True, [8.0])], [])


def test_dates_with_an_origin(read):
    text = "user,start,end\n0,2024-03-30T06:00,20240331\n1,60,2024-03-30 00:02\n"
    expected = [(0, False, [21600.0, 86400.0]), (1, False, [60.0, 120.0])]
    assert read(text, TimeScale(ORIGIN)) == (expected, [])
    starts = [ORIGIN + timedelta(hours=6), ORIGIN + timedelta(minutes=1)]
    ends = [ORIGIN + timedelta(days=1), ORIGIN + timedelta(minutes=2)]
    assert read({"user": [0, 1], "start": starts, "end": ends}, TimeScale(ORIGIN)) == (expected, [])


def test_dates_among_changes(read):
    assert read("0,on,2024-03-30T00:01,2 min\n", TimeScale(ORIGIN)) == ([(0, True, [60.0, 120.0])], [])


def test_columns_can_have_other_names(read):
    names = {"user": "device", "start": "from", "end": "to"}
    assert read("device,from,to,start\n0,0,3,x\n", TimeScale(), names) == ([(0, True, [3.0])], [])
    assert read([{"device": 0, "from": 0, "to": 3}], TimeScale(), names) == ([(0, True, [3.0])], [])
    assert read({"device": [0], "from": [0], "to": [3]}, TimeScale(), names) == ([(0, True, [3.0])], [])


def test_interval_that_ends_with_the_period_continues(read):
    assert read("user,start,end\n0,20,24\n0,0,2\n", TimeScale(), {}, 24.0) == ([(0, True, [2.0, 20.0])], [])


@pytest.mark.parametrize(
    ("content", "pattern"),
    [
        ("user,start,end\n0,3,1\n", "file: there.csv:2: it ends before it starts ('3 to 1')"),
        ("user,start,end\n0,3,3\n", "file: there.csv:2: it is empty, … ('3 to 3'); remove its row, or end it later"),
        ("user,start,end\n0,,3\n", "file: there.csv:2: it has an end and no start ('inf to 3'); fill in the start"),
        ("user,start,end\n0,on,3\n", "file: there.csv:2: column start: not a time"),
        ("user,start,end\n0,0,3,7\n", "file: there.csv:2: number of cells: 4 instead of 3"),
        ("user,start,end\n0,2024-03-31,\n", "file: there.csv:2: column start: a date, but no origin"),
        ("user,start,end,times\n0,0,3,7\n", "file: there.csv has both end and times"),
        ("user,start,start_s,end\n0,0,0,3\n", "file: there.csv has the columns start and start_s"),
        ("user,end\n0,3\n", "file: there.csv has no column start"),
        ("user,start,stop\n0,0,3\n", "file: there.csv has the column stop, … user,start,end"),
        ("user,start,times,end\n0,on,3,4\n", "file: there.csv has both end and times"),
        ("device,start,end\n0,0,3\n", "file: there.csv:1: column user: not the number of a user"),
        ([{"user": 0, "start": 0, "end": 3, "times": []}], "file: there.json cannot be read: entry 1 has keys other"),
        ([{"user": 0, "start": 0, "end": 3, "note": "x"}], "file: there.json cannot be read: entry 1 has … end: note"),
        (
            [{"user": 0, "start": 0, "end": 3}, {"user": 0, "start": "on"}],
            "file: there.json:2: column start: not a time",
        ),
        ([{"user": 0, "start": True, "end": 3}], "file: there.json:1: column start: not a time"),
        ({"user": [0.0], "start": [0], "end": [3]}, "file: there.parquet:1: column user: not the number"),
        ({"user": [0], "start": [True], "end": [3]}, "file: there.parquet:1: column start: a boolean"),
        (
            {"user": [0], "start": pd.to_datetime(["2024-03-31"]), "end": [3]},
            "file: there.parquet:1: column start: a date",
        ),
    ],
)
def test_other_files_are_refused(read, content, pattern):
    assert_messages(read(content)[1][:1], [pattern])


def test_times_of_parquet_are_seconds_or_refused(read):
    """Three seconds stored as 3,000 milliseconds."""
    lists = [[timedelta(seconds=3)], [timedelta(seconds=5), timedelta(seconds=6)]]
    columns = {"user": [0, 1], "start": [True, False], "times": lists}
    assert read(columns) == ([(0, True, [3.0]), (1, False, [5.0, 6.0])], [])
    assert_messages(
        read(columns, TimeScale(unit="rounds"))[1][:1], ["file: there.parquet:1: a value of type timedelta"]
    )


def test_repeated_key_is_refused(tmp_path):
    path = tmp_path / "there.json"
    path.write_text('[{"user":0,"start":true,"times":[3],"times":[6]},{"user":1,"start":false,"times":[5]}]')
    (fault,) = read_availability(path)[1]
    assert_messages([str(fault)], ["file: there.json cannot be read: the key 'times' occurs 2 times"])


def test_origin_has_no_effect_on_rounds(tmp_path):
    with pytest.raises(ScenarioError, match="origin has no effect"):
        Availability(file=tmp_path / "there.csv", unit="rounds", origin=ORIGIN)


NAMED = "user,start,end\nphone-b,0,100\nphone-a,50,200\nphone-b,150,160\n"


class TestNames:
    """Users that a file names, such as devices."""

    def test_names_in_ascending_order_are_users(self, tmp_path):
        (tmp_path / "there.csv").write_text(NAMED)
        rows, faults, names = read_availability(tmp_path / "there.csv")
        assert (faults, names) == ([], ("phone-a", "phone-b"))
        assert [(row.user, row.start, row.times.tolist()) for row in rows] == [
            (0, False, [50, 200]),
            (1, True, [100, 150, 160]),
        ]

    def test_listed_names_are_users_in_their_order_and_others_are_none(self, tmp_path):
        (tmp_path / "there.csv").write_text(NAMED + "phone-c,0,1\n")
        rows, faults, names = read_availability(tmp_path / "there.csv", user_names=["phone-c", "phone-b"])
        assert (faults, names) == ([], ("phone-c", "phone-b"))
        assert [(row.user, row.times.tolist()) for row in rows] == [(0, [1]), (1, [100, 150, 160])]

    def test_names_may_be_numbers_if_they_are_listed(self, tmp_path):
        (tmp_path / "there.csv").write_text("user,start,end\n007,0,1\n12,3,4\n12af,5,6\n")
        rows, faults, _ = read_availability(tmp_path / "there.csv", user_names=["12af", "007", "12"])
        assert (faults, [row.times[0] for row in rows]) == ([], [5, 1, 3])

    def test_more_names_than_users_are_one_error(self, tmp_path):
        (tmp_path / "there.csv").write_text(NAMED + "phone-c,0,1\n")
        outage = Outage(file=tmp_path / "there.csv")
        (fault,) = outage.faults(ScenarioFacts(users=2, rounds=1))
        assert str(fault) == (
            "file: there are 3 names of users, of which phone-c and the later ones are no users; "
            "set users: 3, or list the names of the 2 users in names"
        )
        chosen = Outage(file=tmp_path / "there.csv", names=["phone-c", "phone-b"])
        assert [*chosen.faults(ScenarioFacts(users=2, rounds=1))] == []

    def test_names_beside_numbers_are_errors(self, tmp_path):
        (tmp_path / "there.csv").write_text("user,start,end\n0,0,1\n12af,5,6\n")
        (fault,) = read_availability(tmp_path / "there.csv").faults
        assert "there.csv:3: column user: not the number of a user ('12af')" in str(fault)
        assert "names" in fault.remedy

    def test_a_listed_name_that_the_file_lacks_is_an_error(self, tmp_path):
        (tmp_path / "there.csv").write_text(NAMED)
        (fault,) = read_availability(tmp_path / "there.csv", user_names=["phone-a", "phone-x"]).faults
        assert "there.csv has no user phone-x, which is listed in names; did you mean 'phone-" in str(fault)

    @pytest.mark.parametrize("names", [None, ["phone-b", "phone-a"]])
    def test_check_prints_the_users_unless_they_are_listed(self, tmp_path, names):
        (tmp_path / "there.csv").write_text(NAMED)
        keys = {"file": str(tmp_path / "there.csv")} | ({} if names is None else {"names": names})
        access = {"kind": "availability", "round_length": 10} | keys
        direct = validate(ScenarioDocument({"name": "x", "users": 2, "rounds": 3, "access": access}, "s"))
        network = {
            "name": "x",
            "users": 2,
            "rounds": 3,
            "access": NETWORK | {"outages": [{"kind": "availability"} | keys]},
        }
        through_network = validate(ScenarioDocument(network, "s"))
        expected = "there.csv has names, in ascending order: user 0 is phone-a, 1 is phone-b"
        for scenario in (direct, through_network):
            assert any(expected in text for text in warnings(scenario)) is (names is None)


class TestJsonOfOtherPrograms:
    @pytest.mark.parametrize(
        ("text", "problem", "remedy"),
        [
            (
                '{"0": {"duration": 5, "inactive": [3], "active": [1]}}',
                "it is an object with a key for each of 1 users, each with duration, inactive, active",
                'list entries such as [{"user": 0, "start": 0, "end": 3600}',
            ),
            ('[{"user": 0, "user": 1, "start": 1}]', "the key 'user' occurs 2 times", "give each key once"),
            ('[{"user": "\\ud800", "start": 1}]', "a text has half of a character", "list entries such as"),
        ],
    )
    def test_remedies_know_that_it_is_json(self, tmp_path, text, problem, remedy):
        (tmp_path / "there.json").write_text(text)
        (fault,) = read_availability(tmp_path / "there.json").faults
        assert problem in fault.problem
        assert remedy in fault.remedy
        assert "name a CSV" not in fault.remedy
