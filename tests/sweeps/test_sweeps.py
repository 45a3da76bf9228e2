"""Sweeps: what is shared is done once, what is done is not done again, and every point is what a run of it would be."""

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
from netfl.cli import app
from netfl.errors import MachineError, ScenarioError
from netfl.results.locking import locked
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.sweeps import LocalEngine
from netfl.sweeps.index import SweepIndex
from netfl.sweeps.plan import points_of, tasks_of
from netfl.sweeps.task import TaskReporter, TaskUpdate, run_task, task_folder
from netfl.types import FORMAT

SAID = {
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


def scenario(sweep, **said):
    return validate(ScenarioDocument({**SAID, **said, "sweep": sweep}, "tiny"))


def trace_only(sweep, **said):
    left = {name: SAID[name] for name in ("name", "seed", "users", "rounds", "replicas", "access")}
    return validate(ScenarioDocument({**left, **said, "sweep": sweep}, "tiny"))


def NOTHING(cell):
    """Nothing is done."""
    return False


def cells(task):
    return {(lane, replica) for lane in task.lanes for replica in range(task.first, task.stop)}


def equal(one, other):
    for name in TABLES:
        pd.testing.assert_frame_equal(one.table(name), other.table(name))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The grid, done in one go in this process."""
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

    def test_a_world_is_a_task_of_all_its_lanes_in_all_replicas(self):
        tasks = tasks_of(points_of(scenario(GRID)), NOTHING, 32)
        assert [(len(task.lanes), task.first, task.stop) for task in tasks] == [(4, 0, 2)] * 2
        assert sorted(tasks[0].scenario.learners) == ["A", "B alpha=0.2", "B alpha=0.5", "B alpha=1.0"]

    @pytest.mark.parametrize(
        ("most", "cuts"), [(8, [(4, 0, 2)]), (7, [(4, 0, 1), (4, 1, 2)]), (2, [(2, 0, 1), (2, 1, 2)] * 2)]
    )
    def test_tasks_are_as_even_as_they_can_be(self, most, cuts):
        tasks = tasks_of(points_of(scenario({ALPHAS: [0.2, 0.5, 1.0]})), NOTHING, most)
        assert [(len(task.lanes), task.first, task.stop) for task in tasks] == cuts
        assert {cell for task in tasks for cell in cells(task)} == {
            (lane, replica) for task in tasks for lane in task.lanes for replica in (0, 1)
        }

    @pytest.mark.parametrize(
        ("most", "labels"),
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
    def test_a_task_is_called_by_the_values_of_the_axes(self, most, labels):
        tasks = tasks_of(points_of(scenario(GRID)), NOTHING, most)
        assert [task.label for task in tasks] == labels
        assert {task.name for task in tasks} == {*labels}

    def test_the_labels_of_tasks_tell_them_apart(self):
        tasks = tasks_of(points_of(scenario(GRID)), NOTHING, 1)
        assert len({task.label for task in tasks}) == len(tasks)
        assert tasks[0].label == "alpha=0.2|0.5|1, probability=0.3, replica 0, A"
        many = tasks_of(points_of(scenario({ALPHAS: [0.2, 0.4, 0.6, 0.8]}, replicas=1)), NOTHING, 32)
        assert [task.label for task in many] == ["alpha=0.2…0.8 (4 values)"]

    def test_updates_carry_t_in_every_task_of_a_trace(self):
        points = points_of(scenario({ALPHAS: [0.2, 0.5]}))
        for task in tasks_of(points, NOTHING, 1):
            assert task.scenario.update_bits == points[0].scenario.update_bits

    def test_worlds_differ_where_the_size_of_updates_does(self):
        erm, cvar = {"kind": "erm"}, SAID["learners"]["B"]["objective"]
        points = points_of(scenario({"learners.B.objective": [erm, cvar]}))
        assert points[0].trace != points[1].trace

    def test_what_is_done_is_left_out(self):
        points = points_of(scenario({ALPHAS: [0.2, 0.5]}, replicas=3))
        done = {(lane, replica) for lane in points[0].lanes.values() for replica in (0, 2)}
        tasks = tasks_of(points, lambda cell: cell[:2] in done, 32)
        wanted = {(lane, replica) for point in points for lane in point.lanes.values() for replica in range(3)}
        assert {cell for task in tasks for cell in cells(task)} == wanted - done

    def test_words_and_the_order_of_axes_make_no_other_lane(self):
        one = points_of(scenario(GRID))
        other = points_of(scenario(dict(reversed(GRID.items())), name="other", description="d", replicas=9))
        assert {(point.trace, *point.lanes.values()) for point in one} == {
            (point.trace, *point.lanes.values()) for point in other
        }

    def test_learners_that_are_chosen_among_stay_together(self):
        evaluate = {"every": 4, "validation": 0.2, "choose": {"best": {"learners": ["A", "B"]}}}
        points = points_of(scenario({ALPHAS: [0.2, 0.5]}, evaluate=evaluate))
        tasks = tasks_of(points, NOTHING, 1)
        assert len({point.trace for point in points}) == 2
        assert {tuple(task.lanes.values()) for task in tasks} == {("A", "B")}

    def test_a_lane_is_named_by_what_is_varied_of_it_or_by_its_key(self):
        points = points_of(scenario({ALPHAS: [0.2], "learners.B.lr": [0.1, 0.2]}))
        names = [name for task in tasks_of(points, NOTHING, 32) for name in task.lanes.values()]
        assert names == ["A", "B alpha=0.2 lr=0.1", "B alpha=0.2 lr=0.2"]
        long = [{"kind": "cvar", "alpha": 0.123456789, "gamma": 0.1, "lr_t": one} for one in (0.1, 0.2)]
        points = points_of(scenario({"learners.B.objective": long}))
        names = [name for task in tasks_of(points, NOTHING, 32) for name in task.lanes.values()]
        assert names == ["A", *(f"B {point.lanes['B']}" for point in points)]

    def test_all_faults_of_all_points_are_said_once(self, tmp_path):
        path = tmp_path / "s.yaml"
        path.write_text(scenario(GRID).to_yaml())
        with pytest.raises(ScenarioError) as found:
            points_of(netfl.load(path, {"sweep": {ALPHAS: [0.5, 2, 3], "users": [3, 0]}}))
        assert [fault.value for fault in found.value.faults] == [0, 2, 3]
        with pytest.raises(ScenarioError, match="sweep: missing: no key is varied"):
            points_of(netfl.load(path))


class TestTables:
    @pytest.mark.slow
    def test_each_point_is_what_a_run_of_it_would_be(self, whole, tmp_path):
        sweep, _ = whole
        for number, point in enumerate(points_of(scenario(GRID))):
            if number not in {0, 3}:
                continue
            run = netfl.run(point.scenario, tmp_path / str(number), device="cpu")
            keys = ["learner", "replica", "round", "metric", "group"]
            own = sweep.metrics.query(f"point == {number}").astype(dict.fromkeys(("learner", "metric", "group"), str))
            alone = run.metrics.astype(dict.fromkeys(("learner", "metric", "group"), str))
            both = own.merge(alone, on=keys, suffixes=("", "_alone"))
            assert len(both) == len(own) == len(alone)
            np.testing.assert_allclose(both["value"], both["value_alone"], rtol=1e-5, atol=1e-6)
            trace = sweep.points.loc[number, "trace"]
            for name in ("rounds", "deliveries", "events", "users"):
                shared = sweep.table(name).query(f"trace == '{trace}'").drop(columns="trace").reset_index(drop=True)
                table = run.table(name)[shared.columns]
                pd.testing.assert_frame_equal(shared.sort_values([*shared], ignore_index=True).astype(table.dtypes),
                                              table.sort_values([*shared], ignore_index=True))  # fmt: skip

    def test_points_say_the_values_of_their_axes(self, whole):
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
    def test_no_figure_of_a_lane_goes_to_one_whose_name_its_own_begins_with(self, tmp_path):
        sweep = netfl.sweep(scenario({"learners.B.lr": [1, 1.5, 1.25]}), tmp_path / "s", engine=Here())
        assert sweep.summary["learner"].unique().tolist() == ["", "A", "B"]
        counts = sweep.final_metrics.groupby(["learner", "point"])["metric"].count()
        assert counts["B"].nunique() == 1
        assert not sweep.final_metrics["metric"].str.match(r"^\d").any()

    @pytest.mark.slow
    def test_choices_stand_beside_the_learners(self, tmp_path):
        evaluate = {"every": 4, "validation": 0.2, "choose": {"best": {"learners": ["A", "B"]}}}
        sweep = netfl.sweep(scenario({ALPHAS: [0.2, 0.5]}, evaluate=evaluate), tmp_path / "s", engine=Here())
        assert sweep.status == "done"
        counts = sweep.metrics.query("metric == 'accuracy' and group == ''").groupby(["point", "learner"]).size()
        assert counts.to_dict() == {(point, name): 2 * 4 for point in (0, 1) for name in ("A", "B", "best")}

    def test_a_part_is_read_where_a_part_is_asked_for(self, whole):
        sweep, _ = whole
        part = sweep.table("metrics", ["round", "value"], ds.field("metric") == "accuracy")
        assert [*part.columns] == ["point", "alpha", "probability", "learner", "replica", "round", "value"]
        assert len(part) == (sweep.metrics["metric"] == "accuracy").sum()

    def test_other_tools_read_the_folder_as_a_partitioned_data_set(self, whole):
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
        every = sweep.metrics["metric"] != "cvar"  # of which a task may tell more than a point asks for
        assert (joined["metric"] != "cvar").sum() == every.sum()
        assert len(pd.read_parquet(sweep.folder / "points.parquet")) == 6

    def test_values_that_are_no_numbers_stand_as_json(self, tmp_path):
        rho = [[0.5, 0.5, 0, 0], [0.4, 0.4, 0.1, 0.1]]
        said = {"access": {"kind": "stationary", "deliveries": 1, "rho": rho[0]}}
        sweep = netfl.sweep(trace_only({"access.rho": rho}, **said), tmp_path / "s", engine=Here())
        assert sweep.points["rho"].tolist() == ["[0.5, 0.5, 0, 0]", "[0.4, 0.4, 0.1, 0.1]"]
        assert sweep.metrics.empty
        assert sweep.summary.query("metric == 'jain'")["mean"].nunique() == 2


class TestAgain:
    def test_nothing_is_done_twice(self, whole):
        sweep, engine = whole
        assert len(engine.done) == 2
        again = Here()
        equal(netfl.sweep(scenario(GRID), sweep.folder, engine=again), sweep)
        assert not again.done

    @pytest.mark.slow
    def test_more_replicas_and_points_do_only_what_is_missing(self, tmp_path):
        one, more = Here(), Here()
        netfl.sweep(scenario({ALPHAS: [0.2, 0.5]}, replicas=1), tmp_path / "s", engine=one)
        grown = netfl.sweep(scenario({ALPHAS: [0.2, 0.5, 1.0]}, replicas=2), tmp_path / "s", engine=more)
        assert [(*sorted(task.lanes.values()), task.first, task.stop) for task in more.done] == [
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
            *(one.deliveries.sort_values(["replica", "round", "user"], ignore_index=True) for one in (grown, at_once))
        )

    def test_points_that_are_no_longer_asked_for_are_left_alone(self, whole, tmp_path):
        engine = Here()
        netfl.sweep(trace_only({"users": [3, 4]}), tmp_path / "s", engine=engine)
        less = netfl.sweep(trace_only({"users": [4]}), tmp_path / "s", engine=engine)
        assert less.points["users"].tolist() == [4]
        assert len(less.tasks) == len(engine.done) == 2
        assert set(less.rounds["trace"]) == set(less.points["trace"])

    def test_a_task_that_failed_is_named_and_tried_again(self, tmp_path):
        first, again = Here(fail={0}), Here()
        sweep = netfl.sweep(trace_only({"users": [3, 4, 5]}), tmp_path / "s", engine=first)
        assert sweep.status == "partial"
        assert sweep.tasks[["status", "error"]].to_numpy().tolist() == [
            ["failed", "it broke"],
            ["done", ""],
            ["done", ""],
        ]
        assert sweep.points["status"].tolist() == ["missing", "done", "done"]
        assert len(sweep.rounds) == 2 * 2 * 12
        whole = netfl.sweep(trace_only({"users": [3, 4, 5]}), tmp_path / "s", engine=again)
        assert [task.key for task in again.done] == [sweep.tasks["task"][0]]
        assert (whole.status, set(whole.tasks["error"])) == ("done", {""})

    def test_a_sweep_cut_off_goes_on(self, tmp_path):
        netfl.sweep(trace_only({"users": [3, 4, 5]}), tmp_path / "s", engine=Here(most=1))
        rest = Here()
        assert netfl.sweep(trace_only({"users": [3, 4, 5]}), tmp_path / "s", engine=rest).status == "done"
        assert len(rest.done) == 2

    def test_a_task_that_was_stopped_goes_on_where_it_was(self, tmp_path):
        (task,) = tasks_of(points_of(scenario({ALPHAS: [0.2, 0.5]})), NOTHING, 32)
        watch = TaskReporter(task.key, lambda _: None, lambda: True)
        folder = task_folder(tmp_path, task.key)
        assert run_task(task, folder, "cpu", watch).stopped
        assert netfl.open_run(folder).status == "interrupted"
        (folder / "mark").touch()
        assert run_task(task, folder, "cpu", TaskReporter(task.key, lambda _: None)) == TaskUpdate(task.key, ended=True)
        assert netfl.open_run(folder).status == "done"
        assert (folder / "mark").exists()

    def test_a_damaged_checkpoint_costs_no_more_than_its_task(self, tmp_path):
        (task,) = tasks_of(points_of(scenario({ALPHAS: [0.2]})), NOTHING, 32)
        watch = TaskReporter(task.key, lambda _: None, lambda: True)
        folder = task_folder(tmp_path, task.key)
        run_task(task, folder, "cpu", watch)
        for file in folder.glob("checkpoint*"):
            file.write_bytes(b"cut")
        assert run_task(task, folder, "cpu", TaskReporter(task.key, lambda _: None)) == TaskUpdate(task.key, ended=True)


class TestFolder:
    def test_two_sweeps_do_not_write_one_folder(self, tmp_path):
        (tmp_path / "s").mkdir()
        with locked(tmp_path / "s"), pytest.raises(ScenarioError, match="being written by another process"):
            netfl.sweep(trace_only({"users": [3]}), tmp_path / "s", engine=Here())

    def test_what_is_no_folder_of_a_sweep_is_left_alone(self, tmp_path):
        (tmp_path / "mine.txt").touch()
        with pytest.raises(ScenarioError, match=r"--out: .* already exists and is not the folder of a sweep"):
            netfl.sweep(trace_only({"users": [3]}), tmp_path, engine=Here())
        with pytest.raises(ScenarioError, match=r"--out: .*mine.txt is a file; give a folder"):
            netfl.sweep(trace_only({"users": [3]}), tmp_path / "mine.txt", engine=Here())
        assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]

    def test_a_run_directory_is_left_alone(self, tmp_path):
        netfl.trace(trace_only({"users": [3]}), tmp_path / "run")
        before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
        with pytest.raises(ScenarioError, match=r"--out: .* already exists and is not the folder of a sweep"):
            netfl.sweep(trace_only({"users": [3]}), tmp_path / "run", engine=Here())
        assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before

    def test_what_is_opened_must_be_one(self, tmp_path):
        with pytest.raises(ScenarioError, match=r"is not the folder of a sweep: it has no sweep.json"):
            netfl.open_sweep(tmp_path)
        (tmp_path / "sweep.json").write_text('{"tasks": ')
        with pytest.raises(MachineError, match=r"sweep.json cannot be read"):
            netfl.open_sweep(tmp_path)

    def test_who_takes_it_for_a_run_is_told_of_its_runs(self, whole, tmp_path):
        folder = whole[0].folder
        first = sorted(folder.glob("tasks/*"))[0]
        with pytest.raises(ScenarioError) as told:
            netfl.open_run(folder)
        assert (
            f"{folder} is not a run directory: it is the folder of a sweep; give one of its runs, such as {first};"
            in str(told.value)
        )
        (tmp_path / "sweep.json").touch()
        with pytest.raises(ScenarioError, match="it has no runs yet; netfl report"):
            netfl.open_run(tmp_path)

    def test_what_it_says_is_there_for_other_readers(self, whole):
        told = json.loads((whole[0].folder / "sweep.json").read_text())
        assert told["format"] == FORMAT
        assert len(told["points"]) == 6
        pd.testing.assert_frame_equal(SweepIndex.read(whole[0].folder).lane_table(), whole[0].lanes)


class Watched:
    """Stops a sweep once a task has come so far."""

    def __init__(self, after=None):
        self.after, self.stop, self.words = after, False, []

    def on_plan(self, folder, points, tasks, done):
        self.count = len(tasks), done

    def on_update(self, word):
        self.words.append(word)
        self.stop |= self.after is not None and word.round >= self.after


BREAKS = """
import os, signal
from netfl.access import Access
from netfl.types import Delivery, Law, Round


class Breaks(Access):
    how: str = ""

    def rounds(self, setting):
        for index in range(1, setting.rounds + 1):
            if index == 5 and self.how == "raise":
                raise RuntimeError("no more")
            if index == 5 and self.how == "die" and not os.path.exists("died"):
                open("died", "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            if index == 5 and self.how == "always":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "slow":
                __import__("time").sleep(0.05)
            yield Round(index, index - 1.0, float(index), (Delivery(0, index - 1, index - 1.0, float(index)),), index)

    def laws(self):
        return (Law.none("a toy"),)
"""


class TestProcesses:
    @pytest.fixture
    def broken(self, tmp_path, monkeypatch):
        (tmp_path / "broken.py").write_text(BREAKS)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.chdir(tmp_path)
        yield {"kind": "broken:Breaks"}
        sys.modules.pop("broken", None)

    @pytest.mark.slow
    def test_workers_bring_what_this_process_brings(self, whole, tmp_path):
        watch = Watched()
        equal(netfl.sweep(scenario(GRID), tmp_path / "s", engine=LocalEngine(2, "cpu"), observer=watch), whole[0])
        assert watch.count == (2, 0)
        assert [word.ended for word in watch.words].count(True) == 2

    @pytest.mark.slow
    def test_a_task_that_fails_or_dies_leaves_the_others_alone(self, broken, tmp_path):
        sweep = netfl.sweep(
            trace_only({"access.how": ["raise", "die", "always", ""]}, access=broken),
            tmp_path / "s",
            engine=LocalEngine(2),
        )
        assert sweep.points["status"].tolist() == ["missing", "done", "missing", "done"]
        errors = [error for error in sweep.tasks["error"] if error]
        assert "broken:Breaks, at 4 s of simulated time: RuntimeError: no more" in errors[0]
        assert "its process was killed by signal 9 (has the machine run out of memory?)" in errors[1]

    @pytest.mark.slow
    def test_asked_to_stop_it_ends_soon_and_goes_on_later(self, broken, tmp_path):
        said = trace_only({"seed": [1, 2, 3]}, access=broken | {"how": "slow"}, rounds=60)
        watch = Watched(after=3)
        stopped = netfl.sweep(said, tmp_path / "s", engine=LocalEngine(1), observer=watch)
        assert stopped.status == "partial"
        assert stopped.tasks["status"].tolist() == ["interrupted", "missing", "missing"]
        assert netfl.sweep(said, tmp_path / "s", engine=LocalEngine(2)).status == "done"


class TestCommand:
    @pytest.fixture(autouse=True)
    def there(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("COLUMNS", "110")
        (tmp_path / "s.yaml").write_text(trace_only({"access.probability": [0.3, 0.6]}).to_yaml(sweep=True))
        (tmp_path / "wrong.yaml").write_text((tmp_path / "s.yaml").read_text().replace("0.6", "1.6"))

    def call(self, *words):
        result = CliRunner().invoke(app, list(words))
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.output

    @pytest.mark.slow
    def test_it_tells_the_points_and_does_them_once(self):
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
    def test_tasks_are_told_by_the_values_of_the_axes(self, monkeypatch):
        monkeypatch.setattr("netfl.cli.views.sweep.PLAIN_EVERY_S", 0.0)
        code, output = self.call("sweep", "s.yaml", "--workers", "1")
        assert code == 0
        assert "running: probability=0.3, replicas 0 to 1 " in output
        done = netfl.open_sweep("runs/tiny-sweep")
        assert done.tasks["label"].tolist() == [f"probability={p}, replicas 0 to 1" for p in (0.3, 0.6)]
        assert not any(task in output for task in done.tasks["task"])

    @pytest.mark.slow
    def test_a_report_is_written_if_it_is_asked_for(self):
        code, output = self.call("sweep", "s.yaml", "--workers", "1", "--quiet", "--report")
        assert (code, output) == (0, "report: runs/tiny-sweep/report.html\n")
        assert Path("runs/tiny-sweep/report.html").read_text().startswith("<!DOCTYPE html>")

    def test_other_commands_say_what_becomes_of_the_sweep(self):
        code, output = self.call("check", "s.yaml")
        assert (code, output.splitlines()[0]) == (0, "s.yaml: valid, at all 2 points of its sweep")
        code, output = self.call("trace", "s.yaml")
        assert code == 0
        assert "this is one run; the sweep is ignored. To run it: netfl sweep" in output
        assert "its sweep" not in self.call("trace", "s.yaml", "--quiet")[1]

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (("wrong.yaml",), "access.probability: should be less than or equal to 1 (1.6)"),
            (("s.yaml", "--engine", "rya"), "--engine: no such engine ('rya'); did you mean 'ray'?"),
            (("s.yaml", "--address", "auto"), "--address: has no effect ('auto'); add --engine ray"),
            (("s.yaml", "--set", "sweep.rounds=3"), "sweep.grid.rounds: not a list (3); write a list"),
            (("s.yaml", "--out", "s.yaml"), "--out: s.yaml is a file; give a folder"),
            (("none.yaml",), "none.yaml: the file does not exist; check the path"),
        ],
    )
    def test_bad_input_is_told_and_ends_with_2(self, words, told):
        code, output = self.call("sweep", *words)
        assert code == 2
        assert told in output
        assert not Path("runs").exists()
