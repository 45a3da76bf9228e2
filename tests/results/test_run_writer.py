"""Run directories: tables in chunks, arrays of events, and folders that are not runs."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from netfl.access import AccessInfo
from netfl.core.columns import complete_columns
from netfl.core.formats import FORMAT
from netfl.errors import MachineError, ModelError, ScenarioError
from netfl.results import tables
from netfl.results.atomic_write import write_json, write_text
from netfl.results.run_reader import open_run
from netfl.results.run_writer import RunWriter, append_replicas, create_run_directory
from netfl.results.tables import SCHEMAS, EventRecorder, TableWriter
from netfl.scenario.recording import EventFilter
from netfl.types import KINDS, Delivery, Event, LearnerReport, Round, RunProgress

ALL = EventFilter(frozenset(KINDS))
LANES = (("A", 0), ("A", 1), ("B", 0), ("B", 1))


@pytest.fixture
def run(tmp_path):
    """A run directory with only a manifest."""
    (tmp_path / "manifest.json").write_text(f'{{"status": "running", "format": {FORMAT}}}')
    return tmp_path


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(tables, "CHUNK", 8)


def a_round(index, users, oldest=0):
    return Round(
        index=index,
        opened_s=index - 1.0,
        closed_s=float(index),
        deliveries=tuple(
            Delivery(user=user, base=index - 1, sent_s=index - 1, arrived_s=index, attempts=2) for user in users
        ),
        oldest=oldest,
        uplink_bits=10.0,
        downlink_bits=5.0,
    )


def make_writer(folder, replicas=1, event_filter=ALL, lanes=(), first=0):
    """Return a writer of a run with *replicas* replicas."""
    evaluation = SimpleNamespace(choose={}, targets=())
    access = SimpleNamespace(info=AccessInfo(), merging_nodes=lambda users: 0, reporting_parts={})
    scenario = SimpleNamespace(
        access=access,
        keeping=event_filter,
        users=10,
        rounds=100,
        has_rounds=True,
        reports_lost=False,
        reports_not_summed=False,
        stop_s=None,
        evaluation=evaluation,
        model=None,
    )
    return RunWriter(folder, scenario, range(first, first + replicas), lanes)


def add(writer, rounds):
    writer.on_round(RunProgress(rounds[0].index, 100, rounds[0].closed_s, results=rounds))


class TestTables:
    def test_rows_are_read_as_written_over_many_chunks(self, run, small_chunks):
        table = TableWriter(run, "rounds", SCHEMAS["rounds"])
        for index in range(1, 31):
            given = {"round": index, "opened_s": [0.0, 0.5], "closed_s": [1.0, 1.5], "delivered": [1, 0], "oldest": 0}
            columns = complete_columns(Round, 2, given)
            table.append([np.array([0, 1]), *columns.values()])
        table.finish()
        table.publish()
        read = open_run(run).rounds
        assert read["round"].tolist() == [*range(1, 31)] * 2
        assert read["closed_s"].tolist() == [1.0] * 30 + [1.5] * 30
        assert pq.ParquetFile(run / "rounds.parquet").num_row_groups > 3

    def test_full_tables_are_written_as_a_round_closes(self, run, small_chunks):
        """The rows in memory are fewer than a chunk and those of one round."""
        writer = make_writer(run)
        for index in range(1, 51):
            add(writer, [a_round(index, [])])
            assert not writer.tables["events"].is_full
            writer.recorders[0].record(Event("sent", [index] * 10, round=index + 1, user=range(10)))
        assert len(tables.read_stream(run / "events.arrows.part")) > 400
        writer.abandon()

    def test_a_table_is_renamed_when_complete(self, run):
        table = TableWriter(run, "rounds", SCHEMAS["rounds"])
        assert [path.name for path in run.glob("rounds*")] == ["rounds.arrows.part"]
        table.finish()
        table.finish()
        assert {path.name for path in run.glob("rounds*")} == {"rounds.arrows.part", "rounds.parquet.part"}
        table.publish()
        table.publish()
        assert [path.name for path in run.glob("rounds*")] == ["rounds.parquet"]

    def test_an_abandoned_table_is_removed(self, run):
        table = TableWriter(run, "rounds", SCHEMAS["rounds"])
        table.abandon()
        assert list(run.glob("rounds*")) == []
        assert open_run(run).rounds.empty

    def test_categories_may_change_between_chunks(self, run, small_chunks):
        writer = make_writer(run)
        for index in range(40):
            writer.recorders[0].record(Event("sent", index, round=1, user=index, node=f"tower:{index % 7}"))
        writer.on_end("interrupted")
        read = open_run(run).events
        assert isinstance(read["node"].dtype, pd.CategoricalDtype)
        assert read["node"].tolist() == [f"tower:{index % 7}" for index in range(40)]

    def test_an_unfinished_or_missing_table_is_empty(self, run):
        make_writer(run, lanes=LANES)
        opened = open_run(run)
        for name, schema in SCHEMAS.items():
            assert opened.table(name).columns.tolist() == schema.names
            assert opened.table(name).empty
        assert opened.users.empty
        assert opened.summary == {}
        assert opened.scenario == {}

    def test_a_truncated_table_is_an_error(self, run):
        writer = make_writer(run)
        writer.on_end("interrupted")
        path = run / "events.parquet"
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(MachineError, match=r"events\.parquet cannot be read"):
            _ = open_run(run).events


class TestEvents:
    def recorded(self, run, record, kinds=ALL):
        writer = make_writer(run, 1, kinds if isinstance(kinds, EventFilter) else EventFilter(kinds))
        record(writer.recorders[0])
        writer.on_end("interrupted")
        return writer.recorders[0], open_run(run).events

    def test_one_call_records_one_event_per_element(self, run):
        def record(recorder):
            recorder.record(
                Event("sent", [1.0, 2.0, 3.0], round=4, user=[7, 8, 9], node="tower:0", value=5.0, detail="x")
            )
            recorder.record(Event("faded", 2.5, round=4, user=np.array([1, 2]), value=[-3.0, -4.0]))
            recorder.record(Event("broadcast", 0.0, round=4))
            recorder.record(Event("late", [], round=4, user=[]))

        recorder, read = self.recorded(run, record)
        columns = ["time_s", "kind", "user", "node", "round", "value", "detail"]
        rows = [tuple(row) for row in read[columns].itertuples(index=False)]
        assert rows[1:3] == [(1.0, "sent", 7, "tower:0", 4, 5.0, "x"), (2.0, "sent", 8, "tower:0", 4, 5.0, "x")]
        assert rows[3:5] == [(2.5, "faded", 1, "", 4, -3.0, ""), (2.5, "faded", 2, "", 4, -4.0, "")]
        assert rows[5][:3] == (3.0, "sent", 9)
        assert rows[0][:4] == (0.0, "broadcast", -1, "")
        assert np.isnan(rows[0][5])
        assert {kind: count for kind, count in recorder.counts.items() if count} == {
            "sent": 3,
            "faded": 2,
            "broadcast": 1,
        }

    def test_arrays_may_change_after_the_call(self, run):
        def record(recorder):
            times, users = np.array([1.0, 2.0]), np.array([3, 4])
            recorder.record(Event("sent", times, round=1, user=users))
            times[:], users[:] = 0, 0

        _, read = self.recorded(run, record)
        assert read["time_s"].tolist() == [1.0, 2.0]
        assert read["user"].tolist() == [3, 4]

    def test_filtered_kinds_are_counted_but_not_stored(self, run):
        def record(recorder):
            recorder.record(Event("sent", 1.0, round=1, user=1))
            recorder.record(Event("collided", [1.0, 1.0], round=1, user=[1, 2]))
            assert recorder.wants("sent")
            assert not recorder.wants("collided")

        recorder, read = self.recorded(run, record, frozenset({"sent"}))
        assert read["kind"].tolist() == ["sent"]
        assert recorder.counts["collided"] == 2

    def test_events_are_sorted_by_replica_time_and_call(self, run, small_chunks):
        writer = make_writer(run, 2)
        rng = np.random.default_rng(1)
        for step in range(40):
            for recorder in writer.recorders:
                recorder.record(Event("sent", float(rng.integers(5)), round=1, user=step))
        writer.on_end("interrupted")
        read = open_run(run).events
        keys = list(zip(read["replica"], read["time_s"], read["user"], strict=True))
        assert keys == sorted(keys)
        assert len(keys) == 80

    def test_arrays_equal_single_events(self, tmp_path, small_chunks):
        reads = []
        for name, step in (("many", 100), ("few", 1)):
            folder = tmp_path / name
            folder.mkdir()
            (folder / "manifest.json").write_text("{}")
            writer = make_writer(folder)
            times, users = np.linspace(0, 1, 100), np.arange(100) % 7
            for start in range(0, 100, step):
                writer.recorders[0].record(
                    Event("sent", times[start : start + step], round=1, user=users[start : start + step])
                )
            writer.on_end("interrupted")
            reads.append(open_run(folder).events)
        pd.testing.assert_frame_equal(reads[0], reads[1])

    def test_buffered_events_are_bounded(self, run, small_chunks):
        recorder = EventRecorder(TableWriter(run, "events", SCHEMAS["events"]), 0, ALL)
        for _ in range(50):
            recorder.record(Event("sent", 1.0, round=1))
            assert len(recorder._users) < tables.CHUNK


class TestWriter:
    def test_buffered_rounds_use_no_arrow_memory(self, run):
        writer = make_writer(run)
        before = pa.total_allocated_bytes()
        for index in range(1, 1001):
            add(writer, [a_round(index, [0])])
        assert pa.total_allocated_bytes() - before < 100_000  # one Arrow batch per round needs ten times as much
        writer.on_end("interrupted")
        assert len(open_run(run).rounds) == len(open_run(run).deliveries) == 1000

    def test_rounds_and_deliveries_of_all_replicas(self, run):
        writer = make_writer(run, 2)
        add(writer, [a_round(1, [3, 1]), a_round(1, [])])
        add(writer, [a_round(2, []), a_round(2, [])])
        add(writer, [a_round(3, [0], oldest=2), a_round(3, [2, 4, 5])])
        writer.on_end("interrupted")
        opened = open_run(run)
        assert opened.rounds[["replica", "round", "delivered"]].to_numpy().tolist() == [
            [0, 1, 2], [0, 2, 0], [0, 3, 1], [1, 1, 0], [1, 2, 0], [1, 3, 3],
        ]  # fmt: skip
        assert opened.rounds["oldest"].tolist() == [0, 0, 2, 0, 0, 0]
        assert opened.deliveries[["replica", "round", "user", "base", "attempts"]].to_numpy().tolist() == [
            [0, 1, 1, 0, 2], [0, 1, 3, 0, 2], [0, 3, 0, 2, 2], [1, 3, 2, 2, 2], [1, 3, 4, 2, 2], [1, 3, 5, 2, 2],
        ]  # fmt: skip

    def test_metrics_have_lane_metric_and_group(self, run):
        writer = make_writer(run, 2, lanes=LANES)
        values = {
            "accuracy": np.arange(4.0),
            "accuracy/class:9": np.arange(4.0) + 10,
            "loss/user:3": np.arange(4.0) + 20,
        }
        writer.on_metrics(LearnerReport(5, values), [50.0, 60.0])
        writer.on_end("interrupted")
        read = open_run(run).metrics
        assert len(read) == 12
        row = read.query("learner == 'B' and replica == 1 and metric == 'accuracy' and group == 'class:9'").iloc[0]
        assert (row["round"], row["time_s"], row["value"]) == (5, 60.0, 13.0)
        row = read.query("learner == 'A' and replica == 0 and group == ''").iloc[0]
        assert (row["metric"], row["time_s"], row["value"]) == ("accuracy", 50.0, 0.0)

    def test_a_trace_has_no_metrics_table(self, run):
        writer = make_writer(run)
        writer.on_end("interrupted")
        assert not (run / "metrics.parquet").exists()
        assert open_run(run).metrics.empty

    def test_users_have_the_given_columns(self, run):
        writer = make_writer(run, 2)
        writer.write_replicas(
            "users",
            [{"user": np.arange(2), "x_m": np.array([1.0, 2.0])}, {"user": np.arange(2), "x_m": np.array([3.0, 4.0])}],
        )
        read = open_run(run).users
        assert read.columns.tolist() == ["replica", "user", "x_m"]
        assert read["x_m"].tolist() == [1, 2, 3, 4]
        writer.write_replicas("nodes", [{}, {}])
        assert not (run / "nodes.parquet").exists()
        assert open_run(run).nodes.empty
        writer.abandon()

    def test_replicas_keep_their_numbers(self, run):
        writer = make_writer(run, 2, lanes=(("A", 3), ("A", 4)), first=3)
        add(writer, [a_round(1, [2]), a_round(1, [1])])
        writer.recorders[1].record(Event("sent", 1.0, round=1))
        writer.on_metrics(LearnerReport(1, {"loss": np.array([0.5, 0.6])}), [10.0, 20.0])
        writer.write_replicas("users", [{"user": np.arange(1)}, {"user": np.arange(1)}])
        for recorder, values in zip(writer.recorders, ({"jain": 1.0, "backlog": 2.0}, {"jain": 3.0}), strict=True):
            recorder.final_metrics(values)
        writer.on_end("done")
        opened = open_run(run)
        for name in ("rounds", "deliveries", "metrics", "users"):
            assert opened.table(name)["replica"].tolist() == [3, 4], name
        assert opened.events["replica"].tolist() == [4]
        assert opened.metrics["time_s"].tolist() == [10.0, 20.0]
        metrics = [
            {name: values[name] for name in ("jain", "backlog") if name in values}
            for values in opened.final_metrics_of([3, 4])
        ]
        assert metrics == [{"jain": 1.0, "backlog": 2.0}, {"jain": 3.0}]

    def test_appending_replicas_can_be_repeated(self, tmp_path, small_chunks):
        for name, first in (("old", 0), ("new", 2)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "manifest.json").write_text("{}")
            writer = make_writer(tmp_path / name, 2, first=first)
            for index in range(20):
                for recorder in writer.recorders:
                    recorder.record(Event("sent", index, round=1, node=f"{name}:{index}"))
            writer.on_end("interrupted")
        old, new = (open_run(tmp_path / name).table("events") for name in ("old", "new"))
        old_path = tmp_path / "old/events.parquet"
        for _ in range(2):
            append_replicas(old_path, tmp_path / "new/events.parquet", 2, tmp_path / "both.parquet")
            (tmp_path / "both.parquet").replace(old_path)
            both = open_run(tmp_path / "old").table("events")
            expected = pd.concat([old.astype({"node": str}), new.astype({"node": str})], ignore_index=True)
            pd.testing.assert_frame_equal(both.astype({"node": str}), expected, check_categorical=False)
        assert [path.name for path in (tmp_path / "old").glob("events*")] == ["events.parquet"]


class TestFolders:
    def test_missing_folders_are_created(self, tmp_path):
        with create_run_directory(tmp_path / "a" / "b") as folder:
            assert folder.is_dir()
            assert [path.name for path in folder.iterdir()] == [".lock"]

    def test_an_empty_folder_is_accepted(self, tmp_path):
        with create_run_directory(tmp_path) as folder:
            assert folder == tmp_path

    @pytest.mark.parametrize("existed", [True, False])
    def test_an_invalid_scenario_leaves_no_files(self, tmp_path, existed):
        folder = tmp_path / "run"
        if existed:
            folder.mkdir()
        with pytest.raises(ScenarioError), create_run_directory(folder):
            (folder / "manifest.json").write_text("{}")
            raise ScenarioError([])
        assert folder.exists() == existed
        assert not existed or not list(folder.iterdir())

    def test_a_failure_before_the_manifest_leaves_no_files(self, tmp_path):
        with pytest.raises(ModelError), create_run_directory(tmp_path / "run"):
            raise ModelError("data", "failed")
        assert not (tmp_path / "run").exists()

    def test_a_folder_with_a_lock_only_is_empty(self, tmp_path):
        (tmp_path / ".lock").touch()
        with create_run_directory(tmp_path) as folder:
            assert folder == tmp_path

    def test_a_folder_of_a_run_killed_before_its_manifest_is_used(self, tmp_path):
        for name in (".lock", "scenario.yaml", "manifest.json.part"):
            (tmp_path / name).touch()
        with create_run_directory(tmp_path) as folder:
            assert folder == tmp_path

    def test_files_of_a_failed_run_are_kept(self, tmp_path):
        with pytest.raises(ModelError), create_run_directory(tmp_path / "run") as folder:
            (folder / "manifest.json").write_text("{}")
            raise ModelError("mac", "failed")
        assert (tmp_path / "run/manifest.json").exists()

    @pytest.mark.parametrize("kind", ["folder", "file"])
    def test_existing_files_are_not_overwritten(self, tmp_path, kind):
        path = tmp_path / "there"
        if kind == "folder":
            path.mkdir()
            (path / "precious").write_text("x")
        else:
            path.write_text("x")
        with pytest.raises(ScenarioError) as error:
            create_run_directory(path).__enter__()
        remedy = "use another folder, or give none for a new one"
        problem = "already exists and is not empty" if kind == "folder" else "is a file"
        assert str(error.value) == f"out: {path} {problem}; {remedy}"

    @pytest.mark.parametrize("names", [["scenario.yaml"], [".lock", "scenario.yaml", "rounds.parquet"]])
    def test_a_folder_with_a_scenario_is_not_overwritten(self, tmp_path, names):
        for name in names:
            (tmp_path / name).write_text("")
        with pytest.raises(ScenarioError, match="already exists and is not empty"):
            create_run_directory(tmp_path).__enter__()
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)

    @pytest.mark.parametrize("path", ["file/run", "file/deep/run"])
    def test_a_folder_that_cannot_be_created_is_an_error(self, tmp_path, path):
        (tmp_path / "file").write_text("x")
        with pytest.raises(MachineError, match=r"cannot write a run into .*: Not a directory") as error:
            create_run_directory(tmp_path / path).__enter__()
        assert error.value.exit_code == 1

    def test_a_folder_that_cannot_be_written_is_an_error(self):
        with pytest.raises(MachineError, match=r"cannot write a run into /proc/run: .*; name another folder with out$"):
            create_run_directory(Path("/proc/run")).__enter__()

    @pytest.mark.parametrize("folder", ["nowhere", "empty", "file"])
    def test_opening_another_folder_is_an_error(self, tmp_path, folder):
        (tmp_path / "empty").mkdir()
        (tmp_path / "file").write_text("x")
        with pytest.raises(ScenarioError) as error:
            open_run(tmp_path / folder)
        path = tmp_path / folder
        problem = {"nowhere": "it does not exist", "empty": "it has no manifest.json", "file": "it is a file"}[folder]
        assert str(error.value) == f"{path} is not a run directory: {problem}; give a folder that netfl wrote"

    def test_a_truncated_manifest_is_an_error(self, run):
        (run / "manifest.json").write_text('{"status": ')
        with pytest.raises(MachineError, match=r"manifest\.json cannot be read"):
            _ = open_run(run).manifest

    def test_small_files_are_written_completely_or_not(self, tmp_path):
        path = tmp_path / "a.json"
        write_json(path, {"a": 1})
        with pytest.raises(ValueError):
            write_json(path, {"a": float("nan")})
        assert json.loads(path.read_text()) == {"a": 1}
        write_text(path, "ü")
        assert path.read_bytes() == "ü".encode()
        assert [file.name for file in tmp_path.iterdir()] == ["a.json"]
