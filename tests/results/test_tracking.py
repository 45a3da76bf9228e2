"""Metrics for TensorBoard and MLflow: trackers receive the values of the tables once, also after a stop."""

import json
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from support.exported_runs import Stopping, call

import netfl
from netfl.errors import MachineError, ScenarioError
from netfl.results.tracking.tracker import PLACES, MetricTracker
from netfl.types import LearnerReport

SCENARIO = """\
name: tracked
users: 4
rounds: 30
replicas: 2
access: {kind: stationary, rho: {zipf: 1}, deliveries: 1}
data: {kind: digits}
partition: {kind: iid}
model: {kind: logistic}
learners:
  one: {objective: erm, aggregation: relay, lr: 0.1, batch_size: 8, local_steps: 2}
  two:
    objective: {kind: cvar, alpha: 0.3, gamma: 0.1, lr_t: 0.02}
    aggregation: relay
    lr: 0.1
    batch_size: 8
    local_steps: 2
evaluate: {every: 5}
"""
TENSORBOARD = "track: {tensorboard: board}\n"
MLFLOW = "track: {mlflow: {tracking_uri: 'sqlite:///flow.db', experiment: x}}\n"


@pytest.fixture
def scenario(tmp_path, monkeypatch):
    """Load a scenario from text, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def read(text, **overrides):
        (tmp_path / "x.yaml").write_text(text)
        return netfl.load("x.yaml", overrides)

    return read


def expected(run, learner, replica, metric="accuracy", group=""):
    rows = run.metrics.query("learner == @learner and replica == @replica and metric == @metric and group == @group")
    return rows["round"].tolist(), rows["value"].to_numpy(), rows["time_s"].to_numpy()


class TensorBoardReader:
    """Events that TensorBoard reads in a folder."""

    def __init__(self, folder):
        accumulator = pytest.importorskip(
            "tensorboard.backend.event_processing.event_accumulator",
            reason="the extra netfl-sim[tensorboard] is not installed",
            exc_type=ImportError,
        )
        self.events = accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
        self.events.Reload()

    def scalars(self, tag):
        scalars = self.events.Scalars(tag)
        return (
            [scalar.step for scalar in scalars],
            np.array([scalar.value for scalar in scalars]),
            [scalar.wall_time for scalar in scalars],
        )


class TrackerTests:
    """Tests of every tracker. `check_tables` compares the tracked values with the tables of a run."""

    @pytest.mark.parametrize("crash", [False, True])
    @pytest.mark.slow
    def test_a_resumed_run_logs_every_value_once(self, scenario, crash):
        loaded = scenario(SCENARIO + self.track)
        run = netfl.run(loaded, "r", observer=Stopping(17))
        if crash:
            (run.folder / "checkpoint.pt").unlink()
        self.check_tables(netfl.resume("r"))


class TestTensorBoard(TrackerTests):
    track = TENSORBOARD

    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("tensorboard", reason="the extra netfl-sim[tensorboard] is not installed")

    def check_tables(self, run, folder="board/r"):
        for learner in ("one", "two"):
            for replica in range(run.manifest["replicas"]):
                board = TensorBoardReader(f"{folder}/{learner}-{replica}")
                for metric, group in (("accuracy", ""), ("loss", "class:9"), ("t", "")):
                    rounds, values, times = expected(run, learner, replica, metric, group)
                    found = board.scalars(f"{metric}/{group}".rstrip("/"))
                    assert found[0] == rounds == [0, 5, 10, 15, 20, 25, 30][: len(rounds)]
                    assert np.allclose(found[1], values, rtol=1e-6)
                    assert np.allclose(found[2], times)
                assert not any("user:" in tag for tag in board.events.Tags()["scalars"])
        return TensorBoardReader(folder)

    def test_tracked_values_equal_the_tables(self, scenario):
        run = netfl.run(scenario(SCENARIO + TENSORBOARD), "r")
        board = self.check_tables(run)
        assert board.scalars("summary/one.accuracy.last_tenth")[1][0] == pytest.approx(
            run.summary["one.accuracy.last_tenth"]
        )
        assert b"zipf: 1" in board.events.Tensors("scenario")[0].tensor_proto.string_val[0]

    def test_another_run_of_this_name_uses_another_folder(self, scenario):
        loaded = scenario(SCENARIO + TENSORBOARD, rounds=5)
        netfl.run(loaded, "r")
        netfl.run(loaded, "other/r")
        places = json.loads((Path("other/r") / PLACES).read_text())
        assert places["tensorboard"].endswith("board/r-2")

    def test_an_extended_run_is_tracked(self, scenario):
        netfl.run(scenario(SCENARIO + TENSORBOARD), "r")
        assert call("extend", "r", "--replicas", 3)[0] == 0
        run = netfl.open_run("r")
        board = self.check_tables(run)
        assert board.scalars("summary/one.accuracy.last_tenth")[0] == [2, 3]
        final = run.summary["one.accuracy.last_tenth"]
        assert board.scalars("summary/one.accuracy.last_tenth")[1][1] == pytest.approx(final)


@pytest.mark.filterwarnings("ignore")  # warnings of MLflow
class TestMlflow(TrackerTests):
    track = MLFLOW

    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("mlflow", reason="the extra netfl-sim[mlflow] is not installed")
        pytest.importorskip("alembic", reason="the extra netfl-sim[mlflow] is not installed")

    def check_tables(self, run):
        from mlflow.tracking import MlflowClient

        client = MlflowClient(tracking_uri=f"sqlite:///{Path('flow.db').absolute()}")
        experiment = client.get_experiment_by_name("x").experiment_id
        runs = {tracked.info.run_name: tracked for tracked in client.search_runs([experiment])}
        lanes = {(learner, replica) for learner in ("one", "two") for replica in range(run.manifest["replicas"])}
        assert {*runs} == {"r", *(f"{learner}-{replica}" for learner, replica in lanes)}
        for learner, replica in lanes:
            tracked = runs[f"{learner}-{replica}"]
            for metric, group in (("accuracy", ""), ("loss", "class:9"), ("t", "")):
                rounds, values, times = expected(run, learner, replica, metric, group)
                history = client.get_metric_history(tracked.info.run_id, f"{metric}/{group}".rstrip("/"))
                assert [entry.step for entry in history] == rounds
                assert np.allclose([entry.value for entry in history], values)
                assert [entry.timestamp for entry in history] == [int(1000 * time_s) for time_s in times]
            assert tracked.data.tags["mlflow.parentRunId"] == runs["r"].info.run_id
            assert tracked.data.params["lr"] == "0.1"
            assert tracked.data.params["replica"] == str(replica)
            assert tracked.info.status == "FINISHED"
        assert runs["r"].data.params["access.rho.zipf"] == "1.0"
        final = run.summary["one.accuracy.last_tenth"]
        assert runs["r"].data.metrics["one.accuracy.last_tenth"] == pytest.approx(final)
        assert runs["r"].info.status == "FINISHED"

    def test_tracked_values_equal_the_tables(self, scenario):
        self.check_tables(netfl.run(scenario(SCENARIO + MLFLOW), "r"))

    def test_an_extended_run_is_tracked(self, scenario):
        netfl.run(scenario(SCENARIO + MLFLOW), "r")
        assert call("extend", "r", "--replicas", 3)[0] == 0
        self.check_tables(netfl.open_run("r"))

    def test_values_logged_again_after_a_crash_are_ignored(self, scenario):
        from netfl.results.tracking.mlflow import Mlflow

        run = netfl.run(scenario(SCENARIO + MLFLOW), "r")
        places = json.loads((run.folder / PLACES).read_text())["mlflow"]
        tracker = Mlflow(f"sqlite:///{Path('flow.db').absolute()}", ("x", "r"), run.scenario, [("one", 0)], places)
        tracker._rounds["one", 0] = 10
        for index, value, time_s in zip(*expected(run, "one", 0), strict=True):
            tracker.log_metrics(("one", 0), index, time_s, {"accuracy": value})
        tracker.close("done")
        self.check_tables(run)

    def test_an_unreachable_store_is_an_error(self, scenario):
        unreachable = scenario(SCENARIO + MLFLOW.replace("sqlite:///flow.db", "nosuch://flow"))
        with pytest.raises(MachineError, match=r"track.mlflow: cannot log the run: .*netfl resume r"):
            netfl.run(unreachable, "r")
        assert netfl.open_run("r").status == "failed"


class TrackerStub:
    """A tracker that records its calls, for packages that may not be installed."""

    def __init__(self, broken=False):
        self.logged, self.broken = [], broken

    def log_metrics(self, *args):
        if self.broken:
            raise ValueError("no\nroom")
        self.logged.append(args)

    def summary(self, *args):
        self.logged.append(args)

    def close(self, status):
        self.logged.append(status)


class TestMetricTracker:
    LANES = (("a", 2), ("b", 3))

    def test_each_lane_logs_its_metrics(self):
        tracker, nan = TrackerStub(), np.nan
        metric_tracker = MetricTracker({"x": tracker}, self.LANES, "")
        metrics = {"accuracy": [0.1, nan], "loss/class:1": [0.2, 0.3], "loss/user:1": [1, 1], "norm/layer:w": [1, 1]}
        metric_tracker.on_metrics(
            LearnerReport(7, {name: np.array(values) for name, values in metrics.items()}), [5.0, 6.0]
        )
        metric_tracker.on_metrics(LearnerReport(8), [7.0, 8.0])
        metric_tracker.log_summary({"replicas": 4, "rounds": None, "a.accuracy": 0.5})
        metric_tracker.on_end("done")
        assert tracker.logged == [
            (("a", 2), 7, 5.0, {"accuracy": 0.1, "loss/class:1": 0.2}),
            (("b", 3), 7, 6.0, {"loss/class:1": 0.3}),
            ({"replicas": 4.0, "a.accuracy": 0.5}, 4),
            "done",
        ]

    def test_an_error_of_a_tracker_is_one_line(self):
        metric_tracker = MetricTracker({"mlflow": TrackerStub(broken=True)}, self.LANES, "netfl extend r --replicas 4")
        with pytest.raises(MachineError) as error:
            metric_tracker.on_metrics(LearnerReport(0, {"accuracy": np.zeros(2)}), [0.0, 0.0])
        problem = "track.mlflow: cannot log the run: ValueError: no room; when that is fixed, continue with"
        assert str(error.value) == f"{problem}: netfl extend r --replicas 4"


@pytest.fixture
def tensorboard_stub(monkeypatch):
    """Replace the TensorBoard module by stubs, and list them."""
    boards = []

    class TensorBoardStub(TrackerStub):
        def __init__(self, folder, scenario, lanes):
            super().__init__()
            self.folder, self.lanes = folder, lanes
            boards.append(self)

    module = types.ModuleType("netfl.results.tracking.tensorboard")
    module.TensorBoard, module.new_log_folder = TensorBoardStub, lambda folder, name: folder / name
    monkeypatch.setitem(sys.modules, "netfl.results.tracking.tensorboard", module)
    monkeypatch.setattr("netfl.scenario.tracking._NEEDED", {})
    return boards


class TestRuns:
    def test_a_run_logs_all_metrics(self, scenario, tensorboard_stub):
        run = netfl.run(scenario(SCENARIO + TENSORBOARD), "r")
        (board,) = tensorboard_stub
        rounds, values, times = expected(run, "two", 1)
        entries = [entry for entry in board.logged if entry[0] == ("two", 1)]
        assert [entry[1] for entry in entries] == rounds
        assert [entry[3]["accuracy"] for entry in entries] == values.tolist()
        assert [entry[2] for entry in entries] == times.tolist()
        assert board.logged[-1] == "done"
        assert board.logged[-2][0]["two.accuracy.last_tenth"] == run.summary["two.accuracy.last_tenth"]
        assert json.loads((run.folder / PLACES).read_text()) == {
            "tensorboard": str(run.folder.absolute().parent / "board/r")
        }

    def test_a_resumed_run_uses_the_same_folder(self, scenario, tensorboard_stub):
        netfl.run(scenario(SCENARIO + TENSORBOARD), "r", observer=Stopping(17))
        netfl.resume("r")
        first, second = tensorboard_stub
        assert first.folder == second.folder
        assert (first.logged[-1], second.logged[-1]) == ("interrupted", "done")
        assert [entry[1] for entry in second.logged if entry[0] == ("one", 0)] == [0, 5, 10, 15, 20, 25, 30]

    @pytest.mark.slow
    def test_a_failed_extension_names_the_command_to_continue(self, scenario, tensorboard_stub, monkeypatch):
        before = netfl.run(scenario(SCENARIO + TENSORBOARD, replicas=1, rounds=5), "r").summary

        def fail(*_):
            raise ValueError("no room")

        with monkeypatch.context() as patch:
            patch.setattr(type(tensorboard_stub[0]), "summary", fail)
            with pytest.raises(MachineError, match=r"continue with: netfl extend r --replicas 2$"):
                netfl.extend("r", 2)
        between = netfl.open_run("r")
        assert (between.status, between.manifest["replicas"], between.summary) == ("done", 1, before)
        after = netfl.extend("r", 2)
        assert (after.manifest["replicas"], after.summary["replicas"]) == (2, 2)
        assert tensorboard_stub[-1].logged[-2][0]["two.accuracy.last_tenth"] == after.summary["two.accuracy.last_tenth"]

    def test_a_trace_logs_nothing(self, scenario, tensorboard_stub):
        run = netfl.trace(scenario(SCENARIO + TENSORBOARD), "r")
        assert not tensorboard_stub
        assert not (run.folder / PLACES).exists()

    @pytest.mark.slow
    def test_trackers_are_imported_only_on_request(self, scenario):
        scenario(SCENARIO.replace("rounds: 30", "rounds: 1"))
        code = (
            "import sys, netfl; netfl.run(netfl.load('x.yaml'), 'r');"
            "print(sorted({'tensorboard', 'mlflow', 'sqlalchemy'} & {*sys.modules}))"
        )
        process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert process.stdout == "[]\n"


class TestErrors:
    @pytest.mark.parametrize(
        ("track", "problem"),
        [
            ("{}", "x.yaml:18: track: has no tracker; give tensorboard: FOLDER or mlflow: {}, or leave it out"),
            ("{tensorbord: x}", "x.yaml:18: track.tensorbord: unknown key; did you mean 'tensorboard'?"),
            (
                "{mlflow: {tracking_uri: runs}}",
                "not the address of a store; write one such as sqlite:///mlflow.db or http",
            ),
        ],
    )
    def test_invalid_trackers_are_errors(self, scenario, track, problem):
        with pytest.raises(ScenarioError) as error:
            scenario(f"{SCENARIO}track: {track}\n")
        assert problem in str(error.value)

    def test_a_tracker_without_learners_is_an_error(self, scenario):
        text = "".join(line for line in SCENARIO.splitlines(keepends=True)[:5]) + TENSORBOARD
        with pytest.raises(ScenarioError) as error:
            scenario(text)
        assert str(error.value) == "x.yaml:6: track: has no effect without learners; add 'learners', or leave it out"

    def test_a_missing_package_is_an_error(self, scenario, monkeypatch):
        monkeypatch.setattr(
            "netfl.scenario.tracking._NEEDED", {"tensorboard": ("nowhere_board",), "mlflow": ("nowhere_a", "nowhere_b")}
        )
        scenario(SCENARIO + "track: {tensorboard: x, mlflow: {}}\n")
        code, output = call("check", "x.yaml")
        assert code == 2
        assert output.splitlines() == [
            f"x.yaml:18: track.{name}: needs {packages} not installed; pip install 'netfl-sim[{name}]'"
            for name, packages in (
                ("tensorboard", "nowhere_board, which is"),
                ("mlflow", "nowhere_a and nowhere_b, which are"),
            )
        ]
        assert call("run", "x.yaml", "--out", "r")[0] == 2
        assert call("trace", "x.yaml", "--out", "t", "-q")[0] == 0

    def test_paths_are_absolute(self, scenario, tmp_path):
        track = scenario(SCENARIO + "track: {tensorboard: x, mlflow: {}}\n").track
        assert track.tensorboard == tmp_path / "x"
        assert track.mlflow.tracking_uri == f"sqlite:///{tmp_path}/mlflow.db"
