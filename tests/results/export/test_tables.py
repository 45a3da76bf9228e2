"""Export of tables and positions."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow.csv import CSVWriter
from support.exported_runs import DIRECT, NETWORK, call

import netfl

MOVING = NETWORK + "  motion: {kind: random_waypoint, radius: 300 m, speed: [1 m/s, 2 m/s], pause: [0, 2 s]}\n"


@pytest.fixture
def trace_run(tmp_path, monkeypatch):
    """Trace a scenario from text into the folder x."""
    monkeypatch.chdir(tmp_path)

    def run(text):
        (tmp_path / "x.yaml").write_text(text)
        return netfl.trace(netfl.load("x.yaml"), "x")

    return run


class TestTables:
    def test_csv_files_equal_the_tables(self, trace_run):
        run = trace_run(NETWORK)
        code, output = call("export", "x", "--csv")
        assert code == 0
        for name in ("rounds", "deliveries", "events", "users", "nodes", "final_metrics"):
            table = run.table(name)
            assert f"x/csv/{name}.csv: {len(table)} rows\n" in output
            read = pd.read_csv(f"x/csv/{name}.csv", keep_default_na=False, na_values=[""])
            categorical = table.select_dtypes("category").columns
            expected = table.astype(dict.fromkeys(categorical, str))
            read[categorical] = read[categorical].astype(object).fillna("")
            pd.testing.assert_frame_equal(read, expected, check_dtype=False, check_exact=True)

    def test_a_run_without_tables(self, trace_run):
        run = trace_run(DIRECT)
        for table in run.folder.glob("*.parquet"):
            table.unlink()
        assert call("export", "x", "--csv") == (2, "x has no tables yet: it is done; finish it with: netfl resume x\n")


class TestDamage:
    """Damaged files are named in one line. `call` rejects tracebacks."""

    @pytest.mark.parametrize("form", ["--csv", "--perfetto"])
    @pytest.mark.parametrize("content", [b"", b"PAR1 is how such a file begins and ends"])
    def test_a_damaged_table_is_named(self, trace_run, form, content):
        (trace_run(DIRECT).folder / "events.parquet").write_bytes(content)
        code, output = call("export", "x", form)
        assert code == 1
        assert output.startswith("x/events.parquet cannot be read: it is damaged (")
        assert not list(Path("x").glob("*.part"))

    def test_a_full_disk_is_no_error_of_the_table(self, trace_run, monkeypatch):
        class FullDisk(CSVWriter):
            def write_table(self, *_):
                raise OSError(28, "No space left on device")

        trace_run(DIRECT)
        monkeypatch.setattr("pyarrow.csv.CSVWriter", FullDisk)
        remedy = "free some space on this disk, or choose a folder on another one"
        assert call("export", "x", "--csv") == (1, f"cannot write x: No space left on device; {remedy}\n")

    @pytest.mark.parametrize("options", [["--perfetto"], ["--availability", "there.csv"]])
    def test_a_run_without_its_scenario(self, trace_run, options):
        (trace_run(DIRECT).folder / "scenario.yaml").unlink()
        code, output = call("export", "x", *options)
        assert code == 1
        assert output.startswith("x/scenario.yaml has no section '")


class TestPositions:
    def test_positions_at_the_start(self, trace_run):
        run = trace_run(NETWORK)
        assert call("export", "x", "--positions", "--replica", 1) == (
            0,
            "x/positions.csv: 10 users and nodes, at 1 time\n",
        )
        read = pd.read_csv("x/positions.csv")
        users, nodes = run.users.query("replica == 1"), run.nodes.query("replica == 1")
        assert [*read["node"]] == [f"user:{user}" for user in range(6)] + nodes["node"].tolist()
        assert [*read["role"]] == ["user"] * 6 + nodes["role"].tolist()
        assert np.array_equal(read[["x_m", "y_m"]], pd.concat([users, nodes])[["x_m", "y_m"]])

    @pytest.mark.slow
    def test_positions_over_time(self, trace_run):
        run = trace_run(MOVING)
        code, output = call("export", "x", "--positions", "--every", "2 s", "--out", "p.csv")
        read = pd.read_csv("p.csv").query("role == 'user'")
        times = np.arange(0, run.rounds.query("replica == 0").closed_s.max(), 2.0)
        assert (code, output) == (0, f"p.csv: 10 users and nodes, at {len(times)} times\n")
        assert np.array_equal(read["time_s"].unique(), times)
        places = read[["x_m", "y_m"]].to_numpy().reshape(len(times), 6, 2)
        steps = np.hypot(*np.diff(places, axis=0).T)
        assert 1.0 < steps.max() <= 4.0 + 1e-9
        assert np.array_equal(places[0], run.users.query("replica == 0")[["x_m", "y_m"]])

    @pytest.mark.parametrize(
        ("text", "options", "problem"),
        [
            (DIRECT, (), "access: its users have no positions; export a run whose access is a network"),
            (NETWORK, ("--every", 5), "--every: has no effect: the users of this run do not move; leave it out"),
            (MOVING, ("--every", "5 m"), "--every: a value in m instead of a time ('5 m')"),
            (MOVING, ("--every", 0), "--every: not a time above 0 ('0')"),
            (MOVING, ("--replica", 2), "--replica: no such replica is recorded (2); recorded replicas: [0, 1]"),
        ],
    )
    @pytest.mark.quick_first
    def test_invalid_options_are_errors(self, trace_run, text, options, problem):
        trace_run(text)
        code, output = call("export", "x", "--positions", *options)
        assert (code, output.partition("\n")[0][: len(problem)]) == (2, problem)

    def test_a_wrong_interval_is_an_error_before_anything_is_written(self, trace_run):
        trace_run(MOVING)
        code, output = call("export", "x", "--csv", "--positions", "--every", "5 m")
        assert code == 2
        assert output.startswith("--every: a value in m instead of a time")
        assert not Path("x/csv").exists()


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ((), "no output is named; write --perfetto, --csv, --positions or --availability FILE"),
            (("--csv", "--positions", "--out", "y"), "--out: names the file of one output, but 2 are requested ('y')"),
            (("--csv", "--every", "1 s"), "--every: has no effect without --positions"),
            (
                ("--csv", "--replica", "1"),
                "--replica: has no effect without --perfetto or --positions or --availability",
            ),
            (("--csv", "--rounds"), "--rounds: has no effect without --availability"),
        ],
    )
    def test_options_without_effect_are_errors(self, trace_run, options, problem):
        trace_run(DIRECT)
        code, output = call("export", "x", *options)
        assert (code, output[: len(problem)]) == (2, problem)

    @pytest.mark.slow
    def test_several_formats_in_one_call(self, trace_run):
        run = trace_run(NETWORK)
        assert call("export", "x", "--csv", "--positions", "--perfetto")[0] == 0
        assert {"csv", "positions.csv", "trace.json"} <= {path.name for path in run.folder.iterdir()}

    def test_an_unwritable_file_is_an_error(self, trace_run):
        trace_run(NETWORK)
        code, output = call("export", "x", "--perfetto", "--out", "none/there.json")
        assert (code, "cannot write none/there.json" in output) == (1, True)
