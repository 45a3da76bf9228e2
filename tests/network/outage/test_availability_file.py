"""Availability files: reading, writing, export, and errors."""

# ruff: noqa: E501 - expected messages are on one line

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
from netfl import files
from netfl.cli import app
from netfl.errors import ScenarioError
from netfl.files import tables
from netfl.files.parquet import open_parquet
from netfl.network.outage._availability_file import read_availability, schedule_faults, write_availability
from netfl.network.outage._schedule import AvailabilitySchedule, UserSchedule
from netfl.network.outage.availability import Availability as AvailabilityOutage
from netfl.results.export.availability import availability, presence_by_rounds


@pytest.fixture
def read_text(tmp_path):
    """Fixture that writes text to a file and reads it as plain rows and errors."""

    def read(text, name="there.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        rows, faults, _ = read_availability(path)
        return [(row.user, row.start, row.times.tolist()) for row in rows], [str(fault) for fault in faults]

    return read


NOT_ASCENDING = "times are not ascending"
EXPECTED = [(0, True, [3600.0, 7200.5]), (1, False, [120.0]), (2, True, [])]


class TestValidFiles:
    @pytest.mark.parametrize(
        "text",
        [
            "user,start,times\n0,on,3600,7200.5\n1,off,120\n2,on\n",
            "0,1,3600,7200.5\n1,0,120\n2,1\n",
            "\ufeffuser , start , times\r\n0, TRUE, 3600 , 7.2005e3\r\n\r\n1,False,120,,,\r\n2,on,,,\r\n",
        ],
    )
    def test_csv(self, read_text, text):
        assert read_text(text) == (EXPECTED, [])

    @pytest.mark.parametrize(
        "text",
        [
            '[{"user": 0, "start": "on", "times": [3600, 7200.5]}, {"user": 1, "start": "off", "times": [120]}, {"user": 2, "start": "ON"}]',
            '\n[\n{"start": "true", "user": "0", "times": ["3600", 7200.5]}, {"user": 1, "start": false, "times": [120]}\n,{"user": 2, "start": 1, "times": []}]\n',
        ],
    )
    def test_json(self, read_text, text):
        assert read_text(text, "there.json") == (EXPECTED, [])

    def test_users_can_have_any_order(self, read_text):
        assert read_text("5,on\n3,off,1\n")[0] == [(5, True, []), (3, False, [1.0])]

    def test_schedule_stores_flat_arrays(self):
        schedule = AvailabilitySchedule.from_rows(
            [UserSchedule(2, False, np.array([1.0, 4.0])), UserSchedule(0, True, np.array([3.0]))], 4
        )
        assert schedule.start.tolist() == [True, True, False, True]
        assert schedule.first.tolist() == [0, 1, 1, 3, 3]
        assert schedule.times.tolist() == [3.0, 1.0, 4.0]


class TestParquet:
    @staticmethod
    def read(tmp_path, columns):
        pd.DataFrame(columns).to_parquet(tmp_path / "there.parquet", index=False)
        rows, faults, _ = read_availability(tmp_path / "there.parquet")
        return [(row.user, row.start, row.times.tolist()) for row in rows], [str(fault) for fault in faults]

    @pytest.mark.parametrize("start", [[True, False, True], ["on", "off", "TRUE"], [1, 0, 1]])
    @pytest.mark.parametrize("times", [[[3600, 7200.5], [120], []], [np.array([3600, 7200.5]), [120.0], None]])
    def test_parquet_has_same_columns(self, tmp_path, start, times):
        assert self.read(tmp_path, {"user": [0, 1, 2], "start": start, "times": times}) == (EXPECTED, [])

    def test_large_lists_and_shared_times_are_read(self, tmp_path):
        path, times = tmp_path / "there.parquet", np.arange(1.0, 3001.0)
        shared = pa.array([times] * 1000, pa.large_list(pa.float64()))
        pq.write_table(
            pa.table({"user": np.arange(1000), "start": [True] * 1000, "times": shared}), path, compression="zstd"
        )
        rows, faults, _ = read_availability(path)
        assert not faults
        assert len(rows) == 1000
        np.testing.assert_array_equal(rows[-1].times, times)

    def test_times_are_optional(self, tmp_path):
        assert self.read(tmp_path, {"user": [4], "start": [True]}) == ([(4, True, [])], [])

    @pytest.mark.parametrize(
        ("columns", "problem"),
        [
            (
                {"user": [0, 1], "start": ["on", "x"]},
                "there.parquet:2: column start: not a valid initial state ('x'); write on or off",
            ),
            (
                {"user": [0, -1], "start": [1, 1]},
                "there.parquet:2: column user: not the number of a user (-1); users are numbered",
            ),
            (
                {"user": [0], "start": [1], "times": [[5.0, 2.0]]},
                "there.parquet:1: times are not ascending: 2 follows 5",
            ),
            (
                {"user": [0], "start": [1], "times": [[5.0, None]]},
                "there.parquet:1: an empty cell instead of a number",
            ),
            (
                {"user": [0], "start": [1], "times": [["x"]]},
                "there.parquet:1: not a time: not a number with a unit ('x')",
            ),
            (
                {"user": [0], "start": [1], "times": [5.0]},
                "there.parquet:1: column times: not a list of times (5.0); write numbers",
            ),
            ({"who": [0], "start": [1]}, "there.parquet has no column user; its columns: who, start"),
            ({"user": [0, 0], "start": [1, 1]}, "there.parquet:2: user 0 occurs twice, first in there.parquet:1"),
            ({"user": [], "start": []}, "there.parquet has no user"),
        ],
    )
    def test_errors_name_row(self, tmp_path, columns, problem):
        assert problem in self.read(tmp_path, columns)[1][0]

    def test_truncated_file_is_rejected(self, tmp_path):
        path = tmp_path / "there.parquet"
        write_availability(path, [UserSchedule(user, True, np.arange(1.0, 50.0)) for user in range(50)])
        complete = path.read_bytes()
        for content in (complete[:-20], complete[:200], b"user,start\n0,on\n", b""):
            path.write_bytes(content)
            rows, (fault,), _ = read_availability(path)
            assert not rows
            assert fault.problem.startswith("there.parquet cannot be read")


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
@pytest.mark.parametrize("kind", ["access", "outage"])
def test_file_is_read_once_per_scenario(tmp_path, monkeypatch, kind, ending):
    path = tmp_path / f"there.{ending}"
    write_availability(
        path, [UserSchedule(user, True, np.arange(1.0, 9.0)) for user in range(7 if kind == "access" else 6)]
    )
    opened, open_file = [], files.open_file
    monkeypatch.setattr(files, "open_file", lambda path_, *args: opened.append(path_) or open_file(path_, *args))
    monkeypatch.setattr(tables, "open_parquet", lambda path_: opened.append(path_) or open_parquet(path_))
    model = f"{{kind: availability, file: {path}, repeat: 20}}"
    text = DIRECT.replace("ACCESS", model)
    if kind == "outage":
        text = NETWORK.partition("  outages:")[0].replace("RECORD", "none") + f"  outages: [{model}]\n"
    (tmp_path / "s.yaml").write_text(text)
    netfl.trace(netfl.load(tmp_path / "s.yaml"), tmp_path / "run")
    assert opened.count(path) == 1


class TestInvalidFiles:
    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            (
                "0,up\n1,on\n",
                "there.csv:1: column start: not a valid initial state ('up'); write on or off, true or false, 1 or 0",
            ),
            (
                "user,start\n0\n",
                "there.csv:2: number of cells: 1 instead of 2; put text with commas in quotes, and write numbers with a decimal point",
            ),
            (
                "0,on,5,4\n",
                f"there.csv:1: {NOT_ASCENDING}: 4 follows 5; write finite times above 0 in order, each once",
            ),
            (
                "0,on,5,5\n",
                f"there.csv:1: {NOT_ASCENDING}: 5 follows 5; write finite times above 0 in order, each once",
            ),
            (
                "0,on\n1,on,-5\n",
                f"there.csv:2: {NOT_ASCENDING}: -5 follows 0; write finite times above 0 in order, each once",
            ),
            ("0,on,0\n", f"there.csv:1: {NOT_ASCENDING}: 0 follows 0; write finite times above 0 in order, each once"),
            (
                "0,on,1,inf\n",
                "there.csv:1: not a time: not a number with a unit ('inf'); write seconds, a quantity such as '90 min', or a date such as 2024-03-01T08:00",
            ),
            (
                "0,on,2 m\n",
                "there.csv:1: not a time: a value in m instead of a time ('2 m'); write seconds, a quantity such as '90 min', or a date such as 2024-03-01T08:00",
            ),
            (
                "0,on\nx,on\n",
                "there.csv:2: column user: not the number of a user ('x'); users are numbered 0, 1, 2, …, or all of them are names; the key names lists names",
            ),
            (
                "-1,on\n",
                "there.csv:1: column user: not the number of a user ('-1'); users are numbered 0, 1, 2, …, or all of them are names; the key names lists names",
            ),
            (
                "1.5,on\n",
                "there.csv:1: column user: not the number of a user ('1.5'); users are numbered 0, 1, 2, …, or all of them are names; the key names lists names",
            ),
            ("0,on\n1,on\n0,off\n", "there.csv:3: user 0 occurs twice, first in there.csv:1; leave one of them out"),
            ("", "there.csv has no users; give a row for each user: user,start,times or user,start,end"),
            (
                "user,start,times\n",
                "there.csv has no users; give a row for each user: user,start,times or user,start,end",
            ),
        ],
    )
    def test_csv(self, read_text, text, problem):
        (fault,) = read_text(text)[1]
        assert fault == f"file: {problem}"

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ('[{"user": 0, "start": "on", "times": [5, 4]}]', f"there.json:1: {NOT_ASCENDING}: 4 follows 5"),
            (
                '[{"user": 0, "start": "on"}, {"user": 1, "start": 2}]',
                "there.json:2: column start: not a valid initial state ('2')",
            ),
            ('[{"user": 0, "start": null}]', "there.json:1: column start: not a valid initial state"),
            ('[{"user": true, "start": 1}]', "there.json:1: column user: not the number of a user ('true')"),
            ('[{"user": 0, "start": 1, "times": [1, null]}]', "there.json:1: an empty cell instead of a number"),
            ('[{"user": 0, "start": 1, "times": 5}]', "there.json:1: not a list of times (5)"),
            (
                '[\n{"user": 0, "begin": 1}]',
                "there.json cannot be read: entry 1 has keys other than user, start, times or user, start, end",
            ),
            ('[{"user": 0, "start": 1, "time": [1]}]', "there.json cannot be read: entry 1 has keys other"),
            ('[{"user": 0, "start": 1}\n', "there.json cannot be read: Expecting ',' delimiter: line 2"),
            ("5", "there.json cannot be read: entry 1 has keys other than user, start, times or user, start, end"),
            ("", "there.json cannot be read: Expecting value"),
        ],
    )
    def test_json(self, read_text, text, problem):
        (fault,) = read_text(text, "there.json")[1]
        assert fault.startswith(f"file: {problem}")

    def test_empty_json(self, read_text):
        assert "has no user" in read_text("[]", "there.json")[1][0]

    def test_valid_rows_are_read_beside_invalid_rows(self, read_text):
        rows, faults = read_text("0,on\n1,maybe\n2,off,3\n3,off,3,2\n")
        assert [row[0] for row in rows] == [0, 2]
        assert [fault.split(": ")[1] for fault in faults] == ["there.csv:2", "there.csv:4"]

    def test_unreadable_files_are_rejected(self, read_text, tmp_path):
        assert "cannot be read" in read_text(b"\xff\xfe,on\n")[1][0]
        assert "cannot be read" in read_text('"0,on\n')[1][0]
        assert "No such file" in str(read_availability(tmp_path / "none.csv")[1][0])
        assert "cannot be read" in str(read_availability(tmp_path)[1][0])

    def test_unknown_users_and_late_changes_are_rejected(self):
        rows = [UserSchedule(0, True, np.array([5.0]), "f:1"), UserSchedule(7, True, np.array([2.0, 9.0]), "f:2")]
        assert [fault.problem for fault in schedule_faults(rows, 7, 9.0)] == [
            "f:2: no such user",
            "f:2: a change at 9 is after the end of the period of 9",
        ]
        assert not [*schedule_faults(rows, 8, 9.5)]

    def test_number_of_errors_is_limited(self, read_text, tmp_path):
        (tmp_path / "many.csv").write_text("".join(f"{user},no\n" for user in range(30)))
        limited = read_availability(tmp_path / "many.csv")[1]
        assert len(limited) == 11
        assert limited[-1].problem == "and 20 more errors of this kind"


class TestWriting:
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
    def test_written_file_is_read_exactly(self, tmp_path, expected, name):
        path = tmp_path / name
        write_availability(
            path, [UserSchedule(user, start, np.array(sorted(times))) for user, (start, times) in expected.items()]
        )
        rows, faults, _ = read_availability(path)
        assert not faults
        assert {row.user: (row.start, set(row.times.tolist())) for row in rows} == expected

    def test_json_format(self, tmp_path):
        write_availability(
            tmp_path / "f.json", [UserSchedule(0, True, np.array([1.5])), UserSchedule(1, False, np.empty(0))]
        )
        assert json.loads((tmp_path / "f.json").read_text()) == [
            {"user": 0, "start": "on", "times": [1.5]},
            {"user": 1, "start": "off", "times": []},
        ]

    def test_unknown_suffixes_and_missing_folders_are_rejected(self, tmp_path):
        with pytest.raises(ScenarioError, match=r"the suffix is not \.csv, \.json or \.parquet"):
            write_availability(tmp_path / "f.txt", [])
        for name in ("f.csv", "f.parquet"):
            with pytest.raises(FileNotFoundError):
                write_availability(tmp_path / "none" / name, [])


def test_presence_by_rounds_by_hand():
    deliveries = np.array([[0, 1], [0, 2], [0, 4], [2, 2], [2, 3], [3, 1], [3, 2], [3, 3], [3, 4]])
    opened, closed = np.array([0.0, 10.0, 21.0, 30.0]), np.array([10.0, 20.0, 30.0, 40.0])
    rows = presence_by_rounds(4, deliveries, opened, closed)
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
    - {kind: renewal, nodes: towers, up: {distribution: exponential, mean: 50 s}, down: {distribution: fixed, mean: 2 s}}
    - {kind: renewal, nodes: users, up: {distribution: exponential, mean: 20 s}, down: {distribution: lognormal, sigma: 1, mean: 10 s}}
    - {kind: renewal, nodes: [1, 4], up: {distribution: fixed, mean: 31 s}, down: {distribution: fixed, mean: 7 s}}
"""
BURSTY = "{kind: bursty, probability: 0.4, presence: {distribution: exponential, mean: 3}, round_length: 0.1}"


@pytest.fixture
def trace_scenario(tmp_path, monkeypatch):
    """Fixture that writes a scenario to a file, loads it and traces it."""
    monkeypatch.chdir(tmp_path)

    def run(text, name, overrides=None):
        (tmp_path / f"{name}.yaml").write_text(text)
        return netfl.trace(netfl.load(f"{name}.yaml", overrides), tmp_path / name)

    return run


def run_cli(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def delivered_users(run, replica):
    """Return the set of delivered users of each round."""
    deliveries = run.deliveries[run.deliveries["replica"] == replica]
    return [
        set(deliveries["user"][deliveries["round"] == index]) for index in range(1, int(run.rounds["round"].max()) + 1)
    ]


class TestExport:
    @pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
    @pytest.mark.parametrize("unit", ["s", "rounds"])
    @pytest.mark.parametrize("access", [BURSTY, "{kind: stationary, rho: {zipf: 1}, deliveries: 2, round_length: 0.1}"])
    @pytest.mark.quick_first
    def test_exported_direct_access_delivers_same_users(self, trace_scenario, access, unit, ending):
        run = trace_scenario(DIRECT.replace("ACCESS", access), "first")
        options = ["--rounds"] if unit == "rounds" else []
        assert run_cli("export", "first", "--availability", f"there.{ending}", "--replica", "1", *options)[0] == 0
        access_settings = f"{{kind: availability, file: there.{ending}, unit: {unit}, round_length: 0.1}}"
        second = trace_scenario(DIRECT.replace("ACCESS", access_settings), "second")
        assert delivered_users(second, 0) == delivered_users(run, 1)
        assert delivered_users(run, 0) != delivered_users(run, 1)

    @pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
    @pytest.mark.quick_first
    def test_exported_outages_are_identical(self, trace_scenario, ending):
        text = NETWORK.replace("RECORD", "all")
        run = trace_scenario(text, "first", {"replicas": 1})
        code, output = run_cli("export", "first", "--availability", f"there.{ending}")
        assert code == 0
        assert output.startswith(f"there.{ending}: 6 users, ")
        users = f"    - {{kind: availability, file: there.{ending}}}\n"
        second = trace_scenario("".join(text.splitlines(keepends=True)[:-2]) + users, "second", {"replicas": 1})
        for name in ("rounds", "deliveries", "events"):
            pd.testing.assert_frame_equal(getattr(second, name), getattr(run, name), check_exact=True)
        changes = run.events[run.events["user"] >= 0]["kind"].isin(["down", "up"]).sum()
        starts_down = ((run.events["kind"] == "down") & (run.events["time_s"] == 0)).sum()
        assert changes - starts_down == int(output.split()[-2]) > 40
        assert starts_down > 0

    @pytest.mark.slow
    def test_export_of_network_deliveries_by_rounds(self, trace_scenario):
        run = trace_scenario(NETWORK.replace("RECORD", "none"), "first")
        assert run_cli("export", "first", "--availability", "there.csv", "--rounds")[0] == 0
        text = "name: x\nusers: 6\nrounds: 30\naccess: {kind: availability, file: there.csv, unit: rounds, round_length: 1 min}\n"
        assert delivered_users(trace_scenario(text, "second"), 0) == delivered_users(run, 0)

    @pytest.mark.slow
    def test_export_requires_recorded_outages(self, trace_scenario):
        trace_scenario(NETWORK.replace("RECORD", "[delivered, up]"), "first")
        code, output = run_cli("export", "first", "--availability", "there.csv")
        assert code == 2
        assert "record: events of the kind down were not recorded, but state when users were available" in output
        assert "--set record=all" in output

    def test_export_of_network_without_outages(self, trace_scenario):
        trace_scenario(NETWORK.replace("RECORD", "all").partition("  outages:")[0], "first")
        assert run_cli("export", "first", "--availability", "there.csv") == (0, "there.csv: 6 users, 0 changes\n")

    def test_impossible_exports_are_rejected(self, trace_scenario):
        run = trace_scenario(DIRECT.replace("ACCESS", BURSTY), "first")
        assert run_cli("export", "first")[0] == 2
        code, output = run_cli("export", "first", "--availability", "there.csv", "--replica", "2")
        assert (code, "recorded replicas: [0, 1]" in output) == (2, True)
        assert run_cli("export", ".", "--availability", "there.csv")[0] == 2
        assert run_cli("export", "first", "--availability", "there.txt")[0] == 2
        assert run_cli("export", "first", "--availability", "none/there.csv")[0] == 1
        run.rounds.loc[3, "closed_s"] = run.rounds.loc[3, "opened_s"]
        with pytest.raises(ScenarioError, match="have a duration of 0"):
            availability(run, int(run.rounds.loc[3, "replica"]))


def test_names_of_users_are_listed_once(tmp_path):
    """A repeated name was reported as a user without rows."""
    with pytest.raises(ScenarioError, match=r"the name 'a' occurs 2 times.*give each name once"):
        AvailabilityOutage(file=tmp_path / "x.csv", names=("a", "a"))
