"""Availability files: read, written, exported, and each thing that can be wrong with them."""

# ruff: noqa: E501 - a message that is pinned stands on one line

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.errors import MachineError, ScenarioError
from netfl.network import files
from netfl.network.outage import _availability_file as forms
from netfl.network.outage._availability_file import (
    limit_faults,
    past_period_faults,
    read_availability,
    unknown_user_faults,
    write_availability,
)
from netfl.network.outage._schedule import AvailabilitySchedule, UserSchedule
from netfl.results.export import availability, presence_by_rounds


@pytest.fixture
def said(tmp_path):
    """Writes a text to a file of that name and reads it: rows as plain values, and what is wrong."""

    def of(text, name="there.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        rows, faults = read_availability(path)
        return [(row.user, row.start, row.times.tolist()) for row in rows], [str(fault) for fault in faults]

    return of


WANTED = [(0, True, [3600.0, 7200.5]), (1, False, [120.0]), (2, True, [])]


class TestGood:
    @pytest.mark.parametrize(
        "text",
        [
            "user,start,times\n0,on,3600,7200.5\n1,off,120\n2,on\n",
            "0,1,3600,7200.5\n1,0,120\n2,1\n",
            "\ufeffUser , start , times\r\n0, TRUE, 3600 , 7.2005e3\r\n\r\n1,False,120,,,\r\n2,on,,,\r\n",
            'user,start,times\n0,on,"[3600, 7200.5]"\n1,off,[120]\n2,on,[]\n',
            "0,on,3600 7200.5\n1,off,120\n2,on,\n",
        ],
    )
    def test_csv(self, said, text):
        assert said(text) == (WANTED, [])

    @pytest.mark.parametrize(
        "text",
        [
            '[{"user": 0, "start": "on", "times": [3600, 7200.5]}, {"user": 1, "start": "off", "times": [120]}, {"user": 2, "start": "ON"}]',
            '{"0": {"start": true, "times": [3600, 7200.5]},\n "1": {"start": 0, "times": [120]}, "2": {"start": 1}}',
            '\n[\n{"start": "true", "user": "0", "times": ["3600", 7200.5]}, {"user": 1, "start": false, "times": [120]}\n,{"user": 2, "start": 1, "times": []}]\n',
        ],
    )
    def test_json(self, said, text):
        assert said(text, "there.json") == (WANTED, [])

    def test_users_come_in_any_order(self, said):
        assert said("5,on\n3,off,1\n")[0] == [(5, True, []), (3, False, [1.0])]

    def test_a_timetable_lays_rows_flat(self):
        told = AvailabilitySchedule.from_rows(
            [UserSchedule(2, False, np.array([1.0, 4.0])), UserSchedule(0, True, np.array([3.0]))], 4
        )
        assert told.start.tolist() == [True, True, False, True]
        assert told.first.tolist() == [0, 1, 1, 3, 3]
        assert told.times.tolist() == [3.0, 1.0, 4.0]


class TestParquet:
    @staticmethod
    def read(tmp_path, columns):
        pd.DataFrame(columns).to_parquet(tmp_path / "there.parquet", index=False)
        rows, faults = read_availability(tmp_path / "there.parquet")
        return [(row.user, row.start, row.times.tolist()) for row in rows], [str(fault) for fault in faults]

    @pytest.mark.parametrize("start", [[True, False, True], ["on", "off", "TRUE"], [1, 0, 1]])
    @pytest.mark.parametrize("times", [[[3600, 7200.5], [120], []], [np.array([3600, 7200.5]), [120.0], None]])
    def test_the_columns_are_those_of_the_other_forms(self, tmp_path, start, times):
        assert self.read(tmp_path, {"user": [0, 1, 2], "start": start, "times": times}) == (WANTED, [])

    def test_lists_of_other_writers_and_times_that_users_share_are_read(self, tmp_path):
        path, times = tmp_path / "there.parquet", np.arange(1.0, 3001.0)
        shared = pa.array([times] * 1000, pa.large_list(pa.float64()))
        pq.write_table(
            pa.table({"user": np.arange(1000), "start": [True] * 1000, "times": shared}), path, compression="zstd"
        )
        rows, faults = read_availability(path)
        assert not faults
        assert len(rows) == 1000
        np.testing.assert_array_equal(rows[-1].times, times)

    def test_the_number_of_values_is_limited_before_they_are_read(self, tmp_path, monkeypatch):
        def refuse(*_, **__):
            raise AssertionError("the values are read")

        monkeypatch.setattr("netfl.network.outage._availability_file._MAX_VALUES", 7)
        columns = {"user": [0, 1], "start": [True, True], "times": [[1.0, 2.0], [3.0]]}
        assert self.read(tmp_path, columns)[1] == []
        monkeypatch.setattr("netfl.network.outage._availability_file._MAX_VALUES", 6)
        monkeypatch.setattr("pyarrow.parquet.ParquetFile.read", refuse)
        (fault,) = self.read(tmp_path, columns)[1]
        assert "it holds 7 values, and 6 are possible" in fault

    def test_who_never_changes_needs_no_times(self, tmp_path):
        assert self.read(tmp_path, {"user": [4], "start": [True]}) == ([(4, True, [])], [])

    @pytest.mark.parametrize(
        ("columns", "told"),
        [
            ({"user": [0, 1], "start": ["on", "x"]}, "there.parquet:2: no state to start from ('x'); write on or off"),
            ({"user": [0, -1], "start": [1, 1]}, "there.parquet:2: no number of a user (-1); users are numbered"),
            ({"user": [0], "start": [1], "times": [[5.0, 2.0]]}, "there.parquet:1: times do not rise: 2 comes after 5"),
            ({"user": [0], "start": [1], "times": [[5.0, None]]}, "there.parquet:1: no finite time"),
            ({"user": [0], "start": [1], "times": [["5"]]}, "times are lists of numbers, and not list<"),
            ({"user": [0], "start": [1], "times": [5.0]}, "times are lists of numbers, and not double"),
            ({"who": [0], "start": [1]}, "it has no column user, but who, start"),
            ({"user": [0, 0], "start": [1, 1]}, "there.parquet:2: a second row for user 0; see there.parquet:1"),
            ({"user": [], "start": []}, "there.parquet tells of no user"),
        ],
    )
    def test_what_is_wrong_is_told_by_its_row(self, tmp_path, columns, told):
        assert told in self.read(tmp_path, columns)[1][0]

    def test_a_file_that_is_cut_off_or_no_parquet(self, tmp_path):
        path = tmp_path / "there.parquet"
        write_availability(path, [UserSchedule(user, True, np.arange(1.0, 50.0)) for user in range(50)])
        whole = path.read_bytes()
        for content in (whole[:-20], whole[:200], b"user,start\n0,on\n", b""):
            path.write_bytes(content)
            rows, (fault,) = read_availability(path)
            assert not rows
            assert "there.parquet cannot be read" in str(fault)


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
@pytest.mark.parametrize("kind", ["access", "outage"])
def test_a_file_is_read_once_while_a_scenario_loads_and_runs(tmp_path, monkeypatch, kind, ending):
    path = tmp_path / f"there.{ending}"
    write_availability(
        path, [UserSchedule(user, True, np.arange(1.0, 9.0)) for user in range(7 if kind == "access" else 6)]
    )
    opened, reading = [], files.read_text
    monkeypatch.setattr(files, "read_text", lambda file, *most: opened.append(file) or reading(file, *most))
    parse_parquet = forms.parse_parquet
    monkeypatch.setattr(
        "netfl.network.outage._availability_file.parse_parquet", lambda file: opened.append(file) or parse_parquet(file)
    )
    said = f"{{kind: availability, file: {path}, repeat: 20}}"
    text = DIRECT.replace("ACCESS", said)
    if kind == "outage":
        text = NETWORK.partition("  outages:")[0].replace("RECORD", "none") + f"  outages: [{said}]\n"
    (tmp_path / "s.yaml").write_text(text)
    netfl.trace(netfl.load(tmp_path / "s.yaml"), tmp_path / "run")
    assert opened.count(path) == 1


class TestBad:
    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("0,up\n1,on\n", "there.csv:1: no state to start from ('up'); write on or off, true or false, 1 or 0"),
            ("user,start\n0\n", "there.csv:2: no state to start from (''); write on or off, true or false, 1 or 0"),
            ("0,on,5,4\n", "there.csv:1: times do not rise: 4 comes after 5; put them in order, each once"),
            ("0,on,5,5\n", "there.csv:1: times do not rise: 5 comes after 5; put them in order, each once"),
            (
                "0,on\n1,on,-5\n",
                "there.csv:2: a change that is not after time 0 ('-5'); say by the start how it begins",
            ),
            ("0,on,0\n", "there.csv:1: a change that is not after time 0 ('0'); say by the start how it begins"),
            ("0,on,1,inf\n", "there.csv:1: no finite time ('inf'); leave out a change that never comes"),
            ("0,on,nan\n", "there.csv:1: no finite time ('nan'); leave out a change that never comes"),
            ("0,on,1,,5\n", "there.csv:1: no time (''); write numbers, such as 3600"),
            ("0,on,2 h\n", "there.csv:1: no time ('h'); write numbers, such as 3600"),
            ("x,on\n", "there.csv:1: no number of a user ('x'); users are numbered 0, 1, 2, …"),
            ("-1,on\n", "there.csv:1: no number of a user ('-1'); users are numbered 0, 1, 2, …"),
            ("1.5,on\n", "there.csv:1: no number of a user ('1.5'); users are numbered 0, 1, 2, …"),
            ("4294967296,on\n", "there.csv:1: no number of a user ('4294967296'); users are numbered 0, 1, 2, …"),
            ("0,on\n1,on\n0,off\n", "there.csv:3: a second row for user 0; see there.csv:1"),
            ("", "there.csv tells of no user; give a row for each: user,start,times"),
            ("user,start,times\n", "there.csv tells of no user; give a row for each: user,start,times"),
        ],
    )
    def test_csv(self, said, text, told):
        (fault,) = said(text)[1]
        assert fault == f"file: {told}"

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ('[{"user": 0, "start": "on", "times": [5, 4]}]', "1: times do not rise: 4 comes after 5"),
            ('[\n{"user": 0, "start": "on"},\n\n{"user": 1, "start": 2}]', "4: no state to start from (2)"),
            ('{\n"0": {"start": 1},\n"0": {"start": 0}}', "3: a second row for user 0"),
            ('{"zero": {"start": 1}}', "1: no number of a user ('zero')"),
            ('[{"user": true, "start": 1}]', "1: no number of a user (True)"),
            ('[{"user": 0, "start": 1.0}]', "1: no state to start from (1.0)"),
            ('[{"user": 0, "start": null}]', "1: no state to start from"),
            ('[{"user": 0, "start": 1, "times": [NaN]}]', "1: no finite time (nan)"),
            ('[{"user": 0, "start": 1, "times": [1, null]}]', "1: no finite time"),
            ('[{"user": 0, "start": 1, "times": [[1]]}]', "1: no time ([1])"),
            ('[\n{"user": 0, "start": 1, "times": 5}]', "2: no JSON of the kind: times are a list"),
            ('[\n{"user": 0, "begin": 1}]', "2: no JSON of the kind: an entry holds start, times, user"),
            ('[{"user": 0, "start": 1, "time": [1]}]', "1: no JSON of the kind: an entry holds start, times, user"),
            ('{"0": [5, 6]}', "1: no JSON of the kind: an entry holds start, times"),
            ('[{"user": 0, "start": 1}\n', "2: no JSON of the kind: Expecting ',' delimiter"),
            ('[{"user": 0, "start": 1}]\n]', "2: no JSON of the kind: Extra data"),
            ("5", "1: no JSON of the kind: neither a list nor a mapping"),
            ("", "1: no JSON of the kind: neither a list nor a mapping"),
        ],
    )
    def test_json(self, said, text, told):
        (fault,) = said(text, "there.json")[1]
        assert fault.startswith(f"file: there.json:{told}")

    @pytest.mark.parametrize("text", ["[]", "{}", " [ ] "])
    def test_empty_json(self, said, text):
        assert "tells of no user" in said(text, "there.json")[1][0]

    def test_good_rows_are_read_beside_bad_ones(self, said):
        rows, faults = said("0,on\n1,maybe\n2,off,3\n3,off,3,2\n")
        assert [row[0] for row in rows] == [0, 2]
        assert [fault.split(": ")[1] for fault in faults] == ["there.csv:2", "there.csv:4"]

    def test_files_that_cannot_be_read(self, said, tmp_path):
        assert "cannot be read" in said(b"\xff\xfe,on\n")[1][0]
        assert "cannot be read" in said('"0,on\n')[1][0]
        assert "cannot be read" in said('[{"user": 0, "start": 1, "times": [' + "9" * 5_000 + "]}]", "big.json")[1][0]
        assert "cannot be read" in said("[" * 200_000, "deep.json")[1][0]
        assert "No such file" in str(read_availability(tmp_path / "none.csv")[1][0])
        assert "cannot be read" in str(read_availability(tmp_path)[1][0])

    def test_strangers_and_what_is_never_reached(self):
        rows = [UserSchedule(0, True, np.array([5.0]), "f:1"), UserSchedule(7, True, np.array([2.0, 9.0]), "f:2")]
        assert [str(fault) for fault in unknown_user_faults(rows, 7)] == [
            "file: f:2: no such user (7); users are numbered 0 to 6"
        ]
        assert [fault.problem for fault in past_period_faults(rows, 9.0)] == [
            "f:2: a change at 9 is never reached: all begins anew at 9"
        ]
        assert not [*past_period_faults(rows, 9.5)]

    def test_many_faults_are_not_all_told(self, said, tmp_path):
        (tmp_path / "many.csv").write_text("".join(f"{user},no\n" for user in range(30)))
        assert len(told := limit_faults(read_availability(tmp_path / "many.csv")[1])) == 11
        assert told[-1].problem == "and 20 more like these"


class TestWritten:
    @settings(
        max_examples=40,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(
        st.dictionaries(
            st.integers(0, 2**32 - 1),
            st.tuples(st.booleans(), st.sets(st.floats(5e-324, 1.7e308), max_size=8)),
            min_size=1,
            max_size=6,
        ),
        st.sampled_from(["f.csv", "f.json", "F.JSON", "f.parquet"]),
    )
    @pytest.mark.slow
    def test_what_is_written_is_read_exactly(self, tmp_path, wanted, name):
        path = tmp_path / name
        write_availability(
            path, [UserSchedule(user, start, np.array(sorted(times))) for user, (start, times) in wanted.items()]
        )
        rows, faults = read_availability(path)
        assert not faults
        assert {row.user: (row.start, set(row.times.tolist())) for row in rows} == wanted

    def test_json_is_json(self, tmp_path):
        write_availability(
            tmp_path / "f.json", [UserSchedule(0, True, np.array([1.5])), UserSchedule(1, False, np.empty(0))]
        )
        assert json.loads((tmp_path / "f.json").read_text()) == [
            {"user": 0, "start": "on", "times": [1.5]},
            {"user": 1, "start": "off", "times": []},
        ]

    def test_other_endings_and_folders_that_are_not_there(self, tmp_path):
        with pytest.raises(ScenarioError, match=r"none of \.csv, \.json and \.parquet"):
            write_availability(tmp_path / "f.txt", [])
        with pytest.raises(MachineError, match="cannot write"):
            write_availability(tmp_path / "none" / "f.csv", [])
        with pytest.raises(MachineError, match="cannot write"):
            write_availability(tmp_path / "none" / "f.parquet", [])


def test_presence_by_rounds_by_hand():
    heard = np.array([[0, 1], [0, 2], [0, 4], [2, 2], [2, 3], [3, 1], [3, 2], [3, 3], [3, 4]])
    opened, closed = np.array([0.0, 10.0, 21.0, 30.0]), np.array([10.0, 20.0, 30.0, 40.0])
    rows = presence_by_rounds(4, heard, opened, closed)
    assert [(row.user, row.start, row.times.tolist()) for row in rows] == [
        (0, True, [20.0, 30.0]),
        (1, False, []),
        (2, False, [10.0, 30.0]),
        (3, True, []),
    ]


DIRECT = """\
name: direct
users: 7
rounds: 300
replicas: 2
access: ACCESS
"""
NETWORK = """\
name: radio
users: 6
rounds: 30
replicas: 2
record: RECORD
access:
  kind: network
  round: {kind: first, m: 2}
  topology: {kind: star, radius: 200 m, rate: 1 Mbps}
  radio: {power: 14 dBm, bandwidth: 125 kHz}
  channel: [{kind: log_distance, exponent: 2.5, frequency: 868 MHz}]
  reception: {kind: snr_threshold, threshold: 0 dB, rate: 50 kbps}
  mac: {kind: slotted_aloha, probability: 0.2}
  compute: {speed: 1, samples: 5}
  broadcast_rate: 50 kbps
  update_size: 10 kB
  outages:
    - {kind: renewal, nodes: towers, up: {law: exponential, mean: 50 s}, down: {law: fixed, mean: 2 s}}
    - {kind: renewal, nodes: users, up: {law: exponential, mean: 20 s}, down: {law: lognormal, sigma: 1, mean: 10 s}}
    - {kind: renewal, nodes: [1, 4], up: {law: fixed, mean: 31 s}, down: {law: fixed, mean: 7 s}}
"""
BURSTY = "{kind: bursty, probability: 0.4, stay: {law: exponential, mean: 3}, round_length: 0.1}"


@pytest.fixture
def traced(tmp_path, monkeypatch):
    """Traces a scenario in text in a folder of that name, by the command line's own path."""
    monkeypatch.chdir(tmp_path)

    def run(text, name, overrides=None):
        (tmp_path / f"{name}.yaml").write_text(text)
        return netfl.trace(netfl.load(f"{name}.yaml", overrides), tmp_path / name)

    return run


def call(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def heard(run, replica):
    own = run.deliveries[run.deliveries["replica"] == replica]
    return [set(own["user"][own["round"] == index]) for index in range(1, int(run.rounds["round"].max()) + 1)]


class TestExported:
    @pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
    @pytest.mark.parametrize("unit", ["s", "rounds"])
    @pytest.mark.parametrize("access", [BURSTY, "{kind: stationary, rho: {zipf: 1}, first: 2, round_length: 0.1}"])
    @pytest.mark.quick_first
    def test_a_direct_access_read_again_hears_the_same_users(self, traced, access, unit, ending):
        run = traced(DIRECT.replace("ACCESS", access), "first")
        more = ["--rounds"] if unit == "rounds" else []
        assert call("export", "first", "--availability", f"there.{ending}", "--replica", "1", *more)[0] == 0
        again = f"{{kind: availability, file: there.{ending}, unit: {unit}, round_length: 0.1}}"
        second = traced(DIRECT.replace("ACCESS", again), "second")
        assert heard(second, 0) == heard(run, 1)
        assert heard(run, 0) != heard(run, 1)

    @pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
    @pytest.mark.quick_first
    def test_outages_read_again_are_the_same(self, traced, ending):
        text = NETWORK.replace("RECORD", "all")
        run = traced(text, "first", {"replicas": 1})
        code, output = call("export", "first", "--availability", f"there.{ending}")
        assert code == 0
        assert output.startswith(f"there.{ending}: 6 users, ")
        users = f"    - {{kind: availability, file: there.{ending}}}\n"
        again = traced("".join(text.splitlines(keepends=True)[:-2]) + users, "second", {"replicas": 1})
        for name in ("rounds", "deliveries", "events"):
            pd.testing.assert_frame_equal(getattr(again, name), getattr(run, name), check_exact=True)
        changes = run.events[run.events["user"] >= 0]["kind"].isin(["down", "up"]).sum()
        starts_down = ((run.events["kind"] == "down") & (run.events["time_s"] == 0)).sum()
        assert changes - starts_down == int(output.split()[-2]) > 40
        assert starts_down > 0

    @pytest.mark.slow
    def test_who_was_heard_in_a_network_in_rounds(self, traced):
        run = traced(NETWORK.replace("RECORD", "none"), "first")
        assert call("export", "first", "--availability", "there.csv", "--rounds")[0] == 0
        text = "name: x\nusers: 6\nrounds: 30\naccess: {kind: availability, file: there.csv, unit: rounds, round_length: 1 min}\n"
        assert heard(traced(text, "second"), 0) == heard(run, 0)

    @pytest.mark.slow
    def test_outages_that_were_not_recorded(self, traced):
        traced(NETWORK.replace("RECORD", "[delivered, up]"), "first")
        code, output = call("export", "first", "--availability", "there.csv")
        assert code == 2
        assert "record: events of the kind down were not recorded, and say when users were there" in output
        assert "--set record=all" in output

    def test_a_network_without_outages_is_always_up(self, traced):
        traced(NETWORK.replace("RECORD", "all").partition("  outages:")[0], "first")
        assert call("export", "first", "--availability", "there.csv") == (0, "there.csv: 6 users, 0 changes\n")

    def test_what_cannot_be_exported(self, traced):
        run = traced(DIRECT.replace("ACCESS", BURSTY), "first")
        assert call("export", "first")[0] == 2
        code, output = call("export", "first", "--availability", "there.csv", "--replica", "2")
        assert (code, "recorded are [0, 1]" in output) == (2, True)
        assert call("export", ".", "--availability", "there.csv")[0] == 2
        assert call("export", "first", "--availability", "there.txt")[0] == 2
        assert call("export", "first", "--availability", "none/there.csv")[0] == 1
        run.rounds.loc[3, "closed_s"] = run.rounds.loc[3, "opened_s"]
        with pytest.raises(ScenarioError, match="took no time at all"):
            availability(run, int(run.rounds.loc[3, "replica"]))
