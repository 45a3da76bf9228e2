"""Sweeps: shared work runs once, finished work is kept, and every point equals a run of its own."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.dataset as ds
import pytest
from support.inline_sweep_engine import Here
from typer.testing import CliRunner

import netfl
from netfl import plots
from netfl.cli import app
from netfl.core.formats import FORMAT
from netfl.errors import MachineError, ScenarioError
from netfl.results.locking import locked
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.sweeps import LocalEngine, SweepObserver
from netfl.sweeps.index import SweepIndex
from netfl.sweeps.plan import points_of, task_folder, tasks_of
from netfl.sweeps.task import TaskReporter, TaskUpdate, run_task

SETTINGS = {
    "name": "tiny", "seed": 3, "users": 4, "rounds": 12, "replicas": 2,
    "access": {"kind": "bernoulli", "probability": 0.5},
    "data": {"kind": "blobs", "centers": [[0, 0], [2, 2], [0, 3]], "samples": 60},
    "partition": "iid", "model": "logistic",
    "learners": {
        "A": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 2},
        "B": {
            "objective": {"kind": "cvar", "alpha": 0.5, "gamma": 0.1, "lr_t": 0.01}, "aggregation": "average",
            "lr": 0.1, "batch_size": 8, "local_steps": 2,
        },
    },
    "evaluate": {"every": 4},
}  # fmt: skip
ALPHAS = "learners.B.objective.alpha"
GRID = {ALPHAS: [0.2, 0.5, 1.0], "access.probability": [0.3, 0.6]}
TABLES = ("metrics", "final_metrics", "rounds", "deliveries", "events", "users")


def scenario(sweep, **settings):
    return validate(ScenarioDocument({**SETTINGS, **settings, "sweep": sweep}, "tiny"))


def trace_only(sweep, **settings):
    without_learning = {name: SETTINGS[name] for name in ("name", "seed", "users", "rounds", "replicas", "access")}
    return validate(ScenarioDocument({**without_learning, **settings, "sweep": sweep}, "tiny"))


def nothing_is_done(cell):
    return False


def cells(task):
    return {(lane, replica) for lane in task.lanes for replica in range(task.first, task.stop)}


def assert_equal(first, second):
    for name in TABLES:
        pd.testing.assert_frame_equal(first.table(name), second.table(name))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The grid, run in this process without interruption."""
    engine = Here()
    return netfl.sweep(scenario(GRID), tmp_path_factory.mktemp("whole") / "s", engine=engine), engine


class TestPlan:
    def test_points_that_differ_in_learners_share_a_trace(self):
        points = points_of(scenario(GRID))
        assert len(points) == 6
        assert len({point.trace for point in points}) == 2
        for point in points:
            assert {other.lanes["A"] for other in points if other.trace == point.trace} == {point.lanes["A"]}
        assert len({point.lanes["B"] for point in points}) == 6

    def test_a_trace_is_one_task_for_all_lanes_and_replicas(self):
        tasks = tasks_of(points_of(scenario(GRID)), nothing_is_done, 32)
        assert [(len(task.lanes), task.first, task.stop) for task in tasks] == [(4, 0, 2)] * 2
        assert sorted(tasks[0].scenario.learners) == ["A", "B alpha=0.2", "B alpha=0.5", "B alpha=1.0"]

    @pytest.mark.parametrize(
        ("max_lanes", "cuts"), [(8, [(4, 0, 2)]), (7, [(4, 0, 1), (4, 1, 2)]), (2, [(2, 0, 1), (2, 1, 2)] * 2)]
    )
    def test_tasks_have_similar_sizes(self, max_lanes, cuts):
        tasks = tasks_of(points_of(scenario({ALPHAS: [0.2, 0.5, 1.0]})), nothing_is_done, max_lanes)
        assert [(len(task.lanes), task.first, task.stop) for task in tasks] == cuts
        assert {cell for task in tasks for cell in cells(task)} == {
            (lane, replica) for task in tasks for lane in task.lanes for replica in (0, 1)
        }

    @pytest.mark.parametrize(
        ("max_lanes", "labels"),
        [
            (
                32,
                [
                    "alpha=0.2|0.5|1, probability=0.3, replicas 0 to 1",
                    "alpha=0.2|0.5|1, probability=0.6, replicas 0 to 1",
                ],
            ),
            (4, [f"alpha=0.2|0.5|1, probability={p}, replica {r}" for p in (0.3, 0.6) for r in (0, 1)]),
        ],
    )
    def test_labels_of_tasks_are_values_of_axes(self, max_lanes, labels):
        tasks = tasks_of(points_of(scenario(GRID)), nothing_is_done, max_lanes)
        assert [task.label for task in tasks] == labels
        assert {task.name for task in tasks} == {*labels}

    def test_labels_of_tasks_are_unique(self):
        tasks = tasks_of(points_of(scenario(GRID)), nothing_is_done, 1)
        assert len({task.label for task in tasks}) == len(tasks)
        assert tasks[0].label == "alpha=0.2|0.5|1, probability=0.3, replica 0, A"
        many = tasks_of(points_of(scenario({ALPHAS: [0.2, 0.4, 0.6, 0.8]}, replicas=1)), nothing_is_done, 32)
        assert [task.label for task in many] == ["alpha=0.2…0.8 (4 values)"]

    def test_updates_have_the_same_size_in_all_tasks_of_a_trace(self):
        points = points_of(scenario({ALPHAS: [0.2, 0.5]}))
        for task in tasks_of(points, nothing_is_done, 1):
            assert task.scenario.update_bits == points[0].scenario.update_bits

    def test_different_sizes_of_updates_need_different_traces(self):
        erm, cvar = {"kind": "erm"}, SETTINGS["learners"]["B"]["objective"]
        points = points_of(scenario({"learners.B.objective": [erm, cvar]}))
        assert points[0].trace != points[1].trace

    def test_finished_cells_are_omitted(self):
        points = points_of(scenario({ALPHAS: [0.2, 0.5]}, replicas=3))
        finished = {(lane, replica) for lane in points[0].lanes.values() for replica in (0, 2)}
        tasks = tasks_of(points, lambda cell: cell[:2] in finished, 32)
        expected = {(lane, replica) for point in points for lane in point.lanes.values() for replica in range(3)}
        assert {cell for task in tasks for cell in cells(task)} == expected - finished

    def test_names_and_the_order_of_axes_do_not_change_keys(self):
        points = points_of(scenario(GRID))
        reordered = points_of(scenario(dict(reversed(GRID.items())), name="other", description="d", replicas=9))
        assert {(point.trace, *point.lanes.values()) for point in points} == {
            (point.trace, *point.lanes.values()) for point in reordered
        }

    def test_learners_of_a_choice_are_in_one_task(self):
        evaluate = {"every": 4, "validation": 0.2, "choose": {"best": {"learners": ["A", "B"], "per": "user"}}}
        points = points_of(scenario({ALPHAS: [0.2, 0.5]}, evaluate=evaluate))
        tasks = tasks_of(points, nothing_is_done, 1)
        assert len({point.trace for point in points}) == 2
        assert {tuple(task.lanes.values()) for task in tasks} == {("A", "B")}

    def test_names_of_lanes_are_varied_values_or_keys(self):
        points = points_of(scenario({ALPHAS: [0.2], "learners.B.lr": [0.1, 0.2]}))
        names = [name for task in tasks_of(points, nothing_is_done, 32) for name in task.lanes.values()]
        assert names == ["A", "B alpha=0.2 lr=0.1", "B alpha=0.2 lr=0.2"]
        long = [{"kind": "cvar", "alpha": 0.123456789, "gamma": 0.1, "lr_t": lr_t} for lr_t in (0.1, 0.2)]
        points = points_of(scenario({"learners.B.objective": long}))
        names = [name for task in tasks_of(points, nothing_is_done, 32) for name in task.lanes.values()]
        assert names == ["A", *(f"B {point.lanes['B']}" for point in points)]

    def test_errors_of_all_points_are_reported_once(self, tmp_path):
        path = tmp_path / "s.yaml"
        path.write_text(scenario(GRID).to_yaml())
        with pytest.raises(ScenarioError) as error:
            points_of(netfl.load(path, {"sweep": {ALPHAS: [0.5, 2, 3], "users": [3, 0]}}))
        assert [fault.value for fault in error.value.faults] == [0, 2, 3]
        with pytest.raises(ScenarioError, match="sweep: missing: no key is varied"):
            points_of(netfl.load(path))


class TestTables:
    @pytest.mark.slow
    def test_each_point_equals_a_run(self, whole, tmp_path):
        sweep, _ = whole
        for number, point in enumerate(points_of(scenario(GRID))):
            if number not in {0, 3}:
                continue
            run = netfl.run(point.scenario, tmp_path / str(number), device="cpu")
            keys = ["learner", "replica", "round", "metric", "group"]
            metrics_of_point = sweep.metrics.query(f"point == {number}").astype(
                dict.fromkeys(("learner", "metric", "group"), str)
            )
            alone = run.metrics.astype(dict.fromkeys(("learner", "metric", "group"), str))
            both = metrics_of_point.merge(alone, on=keys, suffixes=("", "_alone"))
            assert len(both) == len(metrics_of_point) == len(alone)
            np.testing.assert_allclose(both["value"], both["value_alone"], rtol=1e-5, atol=1e-6)
            trace = sweep.points.loc[number, "trace"]
            for name in ("rounds", "deliveries", "events", "users"):
                shared = sweep.table(name).query(f"trace == '{trace}'").drop(columns="trace").reset_index(drop=True)
                table = run.table(name)[shared.columns]
                pd.testing.assert_frame_equal(shared.sort_values([*shared], ignore_index=True).astype(table.dtypes),
                                              table.sort_values([*shared], ignore_index=True))  # fmt: skip

    def test_points_have_the_values_of_their_axes(self, whole):
        sweep, _ = whole
        assert sweep.axes == ["alpha", "probability"]
        assert sweep.points[["alpha", "probability"]].to_numpy().tolist() == [
            [0.2, 0.3], [0.2, 0.6], [0.5, 0.3], [0.5, 0.6], [1.0, 0.3], [1.0, 0.6],
        ]  # fmt: skip
        assert (sweep.status, set(sweep.points["status"])) == ("done", {"done"})

    def test_the_summary_is_the_mean_over_replicas(self, whole):
        sweep, _ = whole
        last = sweep.metrics.query("metric == 'accuracy' and group == '' and round >= 0.9 * 12")
        means = last.groupby(["point", "learner"])["value"].mean()
        found = sweep.summary.query("metric == 'accuracy.last_tenth'").set_index(["point", "learner"])
        pd.testing.assert_series_equal(found["mean"].sort_index(), means.sort_index(), check_names=False)
        assert (found["replicas"] == 2).all()
        network = sweep.summary.query("learner == '' and metric == 'delivered_per_round'")
        assert network.groupby("probability")["mean"].nunique().tolist() == [1, 1]

    @pytest.mark.slow
    def test_lanes_with_a_common_prefix_are_separate(self, tmp_path):
        sweep = netfl.sweep(scenario({"learners.B.lr": [1, 1.5, 1.25]}), tmp_path / "s", engine=Here())
        assert sweep.summary["learner"].unique().tolist() == ["", "A", "B"]
        counts = sweep.final_metrics.groupby(["learner", "point"])["metric"].count()
        assert counts["B"].nunique() == 1
        assert not sweep.final_metrics["metric"].str.match(r"^\d").any()

    @pytest.mark.slow
    def test_choices_are_in_the_tables(self, tmp_path):
        evaluate = {"every": 4, "validation": 0.2, "choose": {"best": {"learners": ["A", "B"], "per": "user"}}}
        sweep = netfl.sweep(scenario({ALPHAS: [0.2, 0.5]}, evaluate=evaluate), tmp_path / "s", engine=Here())
        assert sweep.status == "done"
        counts = sweep.metrics.query("metric == 'accuracy' and group == ''").groupby(["point", "learner"]).size()
        assert counts.to_dict() == {(point, name): 2 * 4 for point in (0, 1) for name in ("A", "B", "best")}

    def test_tables_can_be_filtered(self, whole):
        sweep, _ = whole
        part = sweep.table("metrics", ["round", "value"], ds.field("metric") == "accuracy")
        assert [*part.columns] == ["point", "alpha", "probability", "learner", "replica", "round", "value"]
        assert len(part) == (sweep.metrics["metric"] == "accuracy").sum()

    def test_pyarrow_reads_the_folder_as_a_partitioned_data_set(self, whole):
        sweep, _ = whole
        found = ds.dataset(
            sorted(map(str, sweep.folder.glob("tasks/*/metrics.parquet"))),
            partitioning="hive",
            partition_base_dir=str(sweep.folder / "tasks"),
        ).to_table().to_pandas()  # fmt: skip
        lanes = pd.read_parquet(sweep.folder / "lanes.parquet")
        joined = lanes.merge(
            found.rename(columns={"learner": "lane"}).astype({"task": str, "lane": str}), on=["task", "lane", "replica"]
        )
        expected = sweep.metrics["metric"] != "cvar"  # a task may report more levels than a point requests
        assert (joined["metric"] != "cvar").sum() == expected.sum()
        assert len(pd.read_parquet(sweep.folder / "points.parquet")) == 6

    def test_values_that_are_not_numbers_are_json(self, tmp_path):
        rho = [[0.5, 0.5, 0, 0], [0.4, 0.4, 0.1, 0.1]]
        settings = {"access": {"kind": "stationary", "deliveries": 1, "rho": rho[0]}}
        sweep = netfl.sweep(trace_only({"access.rho": rho}, **settings), tmp_path / "s", engine=Here())
        assert sweep.points["rho"].tolist() == ["[0.5, 0.5, 0, 0]", "[0.4, 0.4, 0.1, 0.1]"]
        assert sweep.metrics.empty
        assert sweep.summary.query("metric == 'jain'")["mean"].nunique() == 2


class TestRepeatedSweeps:
    def test_finished_tasks_are_not_repeated(self, whole):
        sweep, engine = whole
        assert len(engine.done) == 2
        second_engine = Here()
        assert_equal(netfl.sweep(scenario(GRID), sweep.folder, engine=second_engine), sweep)
        assert not second_engine.done

    @pytest.mark.slow
    def test_more_replicas_and_points_add_only_missing_tasks(self, tmp_path):
        first_engine, second_engine = Here(), Here()
        netfl.sweep(scenario({ALPHAS: [0.2, 0.5]}, replicas=1), tmp_path / "s", engine=first_engine)
        grown = netfl.sweep(scenario({ALPHAS: [0.2, 0.5, 1.0]}, replicas=2), tmp_path / "s", engine=second_engine)
        assert [(*sorted(task.lanes.values()), task.first, task.stop) for task in second_engine.done] == [
            ("A", "B alpha=1.0", 0, 2), ("B alpha=0.2", "B alpha=0.5", 1, 2),
        ]  # fmt: skip
        at_once = netfl.sweep(scenario({ALPHAS: [0.2, 0.5, 1.0]}, replicas=2), tmp_path / "t", engine=Here())
        assert grown.status == "done"
        for name in ("metrics", "final_metrics"):
            keys = [key for key in at_once.table(name).columns if key not in {"value", "time_s"}]
            both = grown.table(name).merge(at_once.table(name), on=keys)
            assert len(both) == len(at_once.table(name)) == len(grown.table(name))
            np.testing.assert_allclose(both["value_x"], both["value_y"], rtol=1e-5, atol=1e-6)
        pd.testing.assert_frame_equal(
            *(
                sweep.deliveries.sort_values(["replica", "round", "user"], ignore_index=True)
                for sweep in (grown, at_once)
            )
        )

    def test_removed_points_keep_their_tasks(self, tmp_path):
        engine = Here()
        netfl.sweep(trace_only({"users": [3, 4]}), tmp_path / "s", engine=engine)
        smaller = netfl.sweep(trace_only({"users": [4]}), tmp_path / "s", engine=engine)
        assert smaller.points["users"].tolist() == [4]
        assert len(smaller.tasks) == len(engine.done) == 2
        assert set(smaller.rounds["trace"]) == set(smaller.points["trace"])

    def test_a_failed_task_is_reported_and_repeated(self, tmp_path):
        first_engine, second_engine = Here(fail={0}), Here()
        sweep = netfl.sweep(trace_only({"users": [3, 4, 5]}), tmp_path / "s", engine=first_engine)
        assert sweep.status == "partial"
        assert sweep.tasks[["status", "error"]].to_numpy().tolist() == [
            ["failed", "it broke"],
            ["done", ""],
            ["done", ""],
        ]
        assert sweep.points["status"].tolist() == ["missing", "done", "done"]
        assert len(sweep.rounds) == 2 * 2 * 12
        whole = netfl.sweep(trace_only({"users": [3, 4, 5]}), tmp_path / "s", engine=second_engine)
        assert [task.key for task in second_engine.done] == [sweep.tasks["task"][0]]
        assert (whole.status, set(whole.tasks["error"])) == ("done", {""})

    def test_an_interrupted_sweep_continues(self, tmp_path):
        netfl.sweep(trace_only({"users": [3, 4, 5]}), tmp_path / "s", engine=Here(most=1))
        second_engine = Here()
        assert netfl.sweep(trace_only({"users": [3, 4, 5]}), tmp_path / "s", engine=second_engine).status == "done"
        assert len(second_engine.done) == 2

    def test_an_interrupted_task_continues_from_its_checkpoint(self, tmp_path):
        (task,) = tasks_of(points_of(scenario({ALPHAS: [0.2, 0.5]})), nothing_is_done, 32)
        reporter = TaskReporter(task, lambda _: None, lambda: True)
        folder = task_folder(tmp_path, task.key)
        assert run_task(task, folder, "cpu", reporter).stopped
        assert netfl.open_run(folder).status == "interrupted"
        (folder / "mark").touch()
        assert run_task(task, folder, "cpu", TaskReporter(task, lambda _: None)) == TaskUpdate(task.key, ended=True)
        assert netfl.open_run(folder).status == "done"
        assert (folder / "mark").exists()

    def test_a_damaged_checkpoint_restarts_its_task(self, tmp_path):
        (task,) = tasks_of(points_of(scenario({ALPHAS: [0.2]})), nothing_is_done, 32)
        reporter = TaskReporter(task, lambda _: None, lambda: True)
        folder = task_folder(tmp_path, task.key)
        run_task(task, folder, "cpu", reporter)
        for file in folder.glob("checkpoint*"):
            file.write_bytes(b"cut")
        assert run_task(task, folder, "cpu", TaskReporter(task, lambda _: None)) == TaskUpdate(task.key, ended=True)


class TestFolder:
    def test_two_sweeps_cannot_write_one_folder(self, tmp_path):
        (tmp_path / "s").mkdir()
        with locked(tmp_path / "s"), pytest.raises(ScenarioError, match="being written by another process"):
            netfl.sweep(trace_only({"users": [3]}), tmp_path / "s", engine=Here())

    def test_other_folders_are_not_overwritten(self, tmp_path):
        (tmp_path / "mine.txt").touch()
        with pytest.raises(ScenarioError, match=r"out: .* already exists and is not the folder of a sweep"):
            netfl.sweep(trace_only({"users": [3]}), tmp_path, engine=Here())
        with pytest.raises(ScenarioError, match=r"out: .*mine.txt is a file; give a folder"):
            netfl.sweep(trace_only({"users": [3]}), tmp_path / "mine.txt", engine=Here())
        assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]

    def test_a_run_directory_is_not_overwritten(self, tmp_path):
        netfl.trace(trace_only({"users": [3]}), tmp_path / "run")
        before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
        with pytest.raises(ScenarioError, match=r"out: .* already exists and is not the folder of a sweep"):
            netfl.sweep(trace_only({"users": [3]}), tmp_path / "run", engine=Here())
        assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before

    def test_opening_another_folder_is_an_error(self, tmp_path):
        with pytest.raises(ScenarioError, match=r"is not the folder of a sweep: it has no sweep.json"):
            netfl.open_sweep(tmp_path)
        (tmp_path / "sweep.json").write_text('{"tasks": ')
        with pytest.raises(MachineError, match=r"sweep.json cannot be read"):
            netfl.open_sweep(tmp_path)

    def test_opening_a_sweep_as_a_run_names_its_runs(self, whole, tmp_path):
        folder = whole[0].folder
        first = sorted(folder.glob("tasks/*"))[0]
        with pytest.raises(ScenarioError) as error:
            netfl.open_run(folder)
        assert (
            f"{folder} is not a run directory: it is the folder of a sweep; give one of its runs, such as {first};"
            in str(error.value)
        )
        (tmp_path / "sweep.json").touch()
        with pytest.raises(ScenarioError, match=r"it has no runs yet; netfl\.open_sweep\(.*\) reads the whole sweep"):
            netfl.open_run(tmp_path)

    def test_the_index_is_readable_json(self, whole):
        index = json.loads((whole[0].folder / "sweep.json").read_text())
        assert index["format"] == FORMAT
        assert len(index["points"]) == 6
        pd.testing.assert_frame_equal(SweepIndex.read(whole[0].folder).lane_table(), whole[0].lanes)


class StoppingObserver(SweepObserver):
    """An observer that stops a sweep after *after* rounds of a task."""

    def __init__(self, after=None):
        self.after, self.stop, self.updates = after, False, []

    def on_plan(self, folder, points, tasks, done):
        self.count = len(tasks), done

    def on_update(self, update):
        self.updates.append(update)
        self.stop |= self.after is not None and update.round >= self.after


BREAKING_ACCESS = """
import os, signal
from netfl.access import Access
from netfl.types import Delivery, Law, Round


class Breaks(Access):
    failure: str = ""

    def rounds(self, setting):
        for index in range(1, setting.rounds + 1):
            if index == 5 and self.failure == "raise":
                raise RuntimeError("no more")
            if index == 5 and self.failure == "die" and not os.path.exists("died"):
                open("died", "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            if index == 5 and self.failure == "always":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.failure == "slow":
                __import__("time").sleep(0.05)
            update = Delivery(user=0, base=index - 1, sent_s=index - 1.0, arrived_s=float(index))
            yield Round(
                index=index, opened_s=index - 1.0, closed_s=float(index), deliveries=(update,), oldest=index
            )

    def laws(self):
        return (Law.none("a test model"),)
"""


class TestProcesses:
    @pytest.fixture
    def breaking_access(self, tmp_path, monkeypatch):
        (tmp_path / "broken.py").write_text(BREAKING_ACCESS)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.chdir(tmp_path)
        yield {"kind": "broken:Breaks"}
        sys.modules.pop("broken", None)

    @pytest.mark.slow
    def test_workers_equal_this_process(self, whole, tmp_path):
        observer = StoppingObserver()
        assert_equal(
            netfl.sweep(scenario(GRID), tmp_path / "s", engine=LocalEngine(2, "cpu"), observer=observer), whole[0]
        )
        assert observer.count == (2, 0)
        assert [update.ended for update in observer.updates].count(True) == 2

    @pytest.mark.slow
    def test_failed_and_killed_tasks_do_not_affect_others(self, breaking_access, tmp_path):
        sweep = netfl.sweep(
            trace_only({"access.failure": ["raise", "die", "always", ""]}, access=breaking_access),
            tmp_path / "s",
            engine=LocalEngine(2),
        )
        assert sweep.points["status"].tolist() == ["missing", "done", "missing", "done"]
        errors = [error for error in sweep.tasks["error"] if error]
        assert "broken:Breaks, at 4 s of simulated time: its method 'rounds' fails: RuntimeError: no more" in errors[0]
        assert "its process was killed by signal 9 (has the machine run out of memory?)" in errors[1]

    @pytest.mark.slow
    def test_a_stopped_sweep_continues(self, breaking_access, tmp_path):
        validated = trace_only({"seed": [1, 2, 3]}, access=breaking_access | {"failure": "slow"}, rounds=60)
        observer = StoppingObserver(after=3)
        stopped = netfl.sweep(validated, tmp_path / "s", engine=LocalEngine(1), observer=observer)
        assert stopped.status == "partial"
        assert stopped.tasks["status"].tolist() == ["interrupted", "missing", "missing"]
        assert netfl.sweep(validated, tmp_path / "s", engine=LocalEngine(2)).status == "done"


class TestCommand:
    @pytest.fixture(autouse=True)
    def scenario_files(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("COLUMNS", "110")
        (tmp_path / "s.yaml").write_text(trace_only({"access.probability": [0.3, 0.6]}).to_yaml(sweep=True))
        (tmp_path / "wrong.yaml").write_text((tmp_path / "s.yaml").read_text().replace("0.6", "1.6"))

    def call(self, *arguments):
        result = CliRunner().invoke(app, list(arguments))
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.output

    @pytest.mark.slow
    def test_points_are_printed_and_run_once(self):
        code, output = self.call("sweep", "s.yaml", "--workers", "1")
        lines = [line.split() for line in output.splitlines()]
        assert code == 0
        assert output.splitlines()[0] == "2 points, 2 tasks → runs/tiny-sweep"
        assert [line[0] for line in lines if line and line[0] in {"0.3", "0.6"}] == ["0.3", "0.6"]
        assert output.splitlines()[-1] == "points: 2 done: runs/tiny-sweep"
        code, output = self.call("sweep", "s.yaml", "--workers", "1")
        assert (code, output.splitlines()[0]) == (0, "2 points, 0 tasks, 2 done already → runs/tiny-sweep")
        assert self.call("sweep", "s.yaml", "--quiet") == (0, "")

    @pytest.mark.slow
    def test_progress_names_the_values_of_axes(self, monkeypatch):
        monkeypatch.setattr("netfl.sweeps.display.PLAIN_EVERY_S", 0.0)
        code, output = self.call("sweep", "s.yaml", "--workers", "1")
        assert code == 0
        assert "running: probability=0.3, replicas 0 to 1 " in output
        finished_sweep = netfl.open_sweep("runs/tiny-sweep")
        assert finished_sweep.tasks["label"].tolist() == [f"probability={p}, replicas 0 to 1" for p in (0.3, 0.6)]
        assert not any(task in output for task in finished_sweep.tasks["task"])

    @pytest.mark.slow
    def test_report_writes_a_page(self):
        code, output = self.call("sweep", "s.yaml", "--workers", "1", "--quiet", "--report")
        assert (code, output) == (0, "report: runs/tiny-sweep/report.html\n")
        assert Path("runs/tiny-sweep/report.html").read_text().startswith("<!DOCTYPE html>")

    def test_other_commands_mention_the_sweep(self):
        code, output = self.call("check", "s.yaml")
        assert (code, output.splitlines()[0]) == (0, "s.yaml: valid keys, at all 2 points of its sweep")
        _, output = self.call("check", "s.yaml", "--set", "sweep={users: [3]}")
        assert output.splitlines()[0] == "s.yaml: valid keys, at the only point of its sweep"
        code, output = self.call("trace", "s.yaml")
        assert code == 0
        assert "this is one run; the sweep is ignored. To run it: netfl sweep" in output
        assert "its sweep" not in self.call("trace", "s.yaml", "--quiet")[1]

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            (("wrong.yaml",), "access.probability: should be less than or equal to 1 (1.6)"),
            (("s.yaml", "--engine", "rya"), "--engine: no such engine ('rya'); did you mean 'ray'?"),
            (("s.yaml", "--address", "auto"), "--address: has no effect ('auto'); add --engine ray"),
            (("s.yaml", "--partition", "x"), "--partition: has no effect ('x'); add --engine slurm"),
            (("s.yaml", "--engine", "slurm", "--address", "x"), "--address: has no effect ('x'); add --engine ray"),
            (
                ("s.yaml", "--engine", "slurm", "--time", "5 m"),
                "--time: a value in m instead of a time ('5 m'); write a number with a unit, such as '2 h'",
            ),
            (("s.yaml", "--engine", "slurm", "--time", "-1 h"), "--time: not above 0 ('-1 h')"),
            (("s.yaml", "--engine", "slurm", "--sbatch", "x"), "--sbatch: not of the form NAME=VALUE ('x')"),
            (("s.yaml", "--engine", "slurm", "--gpus", "0.5"), "--gpus: not a whole number of GPUs"),
            (("s.yaml", "--set", "sweep.rounds=3"), "sweep.grid.rounds: not a list (3); write [3]"),
            (("s.yaml", "--out", "s.yaml"), "--out: s.yaml is a file; give a folder"),
            (("none.yaml",), "none.yaml: the file does not exist; "),
        ],
    )
    def test_invalid_input_exits_with_2(self, arguments, problem):
        code, output = self.call("sweep", *arguments)
        assert code == 2
        assert problem in output
        assert not Path("runs").exists()


def test_axes_of_quantities_come_back_in_si_units(tmp_path):
    access = {"kind": "stationary", "rho": {"zipf": 1}}
    axes = {"access.round_length": ["2 min", "30 s"], "access.deliveries": [1, 2], "access.rho.zipf": [0.5]}
    scenario = {"name": "lengths", "users": 4, "rounds": 3, "access": access, "sweep": axes}
    done = netfl.sweep(scenario, tmp_path / "sweep", engine=Here(), learning=False)
    assert done.axes == ["round_length", "deliveries", "zipf"]
    assert done.units == {"round_length": "s"}
    texts = done.points["round_length"].tolist()
    assert sorted({*texts}) == ["2 min", "30 s"]
    assert done.points["round_length_si"].tolist() == [{"2 min": 120.0, "30 s": 30.0}[text] for text in texts]
    assert "deliveries_si" not in done.points
    ends = done.summary[done.summary["metric"] == "simulated_s"]
    assert (ends["mean"] == 3 * ends["round_length_si"]).all()
    ax = plots.sweep_lines(done.summary, "simulated_s", "round_length", where={"deliveries": 1}).axes[0]
    assert ax.get_xlabel() == "round_length (min)"
