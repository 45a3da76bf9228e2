"""Metrics for TensorBoard and MLflow: what arrives is what the tables hold, once, whatever stops in between."""

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
    """Reads a scenario in text, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def read(text, **overrides):
        (tmp_path / "x.yaml").write_text(text)
        return netfl.load("x.yaml", overrides)

    return read


def expected(run, learner, replica, metric="accuracy", group=""):
    own = run.metrics.query("learner == @learner and replica == @replica and metric == @metric and group == @group")
    return own["round"].tolist(), own["value"].to_numpy(), own["time_s"].to_numpy()


class Board:
    """What TensorBoard reads in a folder."""

    def __init__(self, folder):
        accumulator = pytest.importorskip(
            "tensorboard.backend.event_processing.event_accumulator",
            reason="the extra netfl-sim[tensorboard] is not installed",
            exc_type=ImportError,
        )
        self.read = accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
        self.read.Reload()

    def scalars(self, tag):
        told = self.read.Scalars(tag)
        return [one.step for one in told], np.array([one.value for one in told]), [one.wall_time for one in told]


class Either:
    """What holds for each teller; its `same` says whether it was told what the tables of a run hold."""

    @pytest.mark.parametrize("crash", [False, True])
    @pytest.mark.slow
    def test_a_run_that_goes_on_tells_nothing_twice(self, scenario, crash):
        loaded = scenario(SCENARIO + self.track)
        run = netfl.run(loaded, "r", observer=Stopping(17))
        if crash:
            (run.folder / "checkpoint.pt").unlink()
        self.same(netfl.resume("r"))


class TestTensorBoard(Either):
    track = TENSORBOARD

    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("tensorboard", reason="the extra netfl-sim[tensorboard] is not installed")

    def same(self, run, folder="board/r"):
        for learner in ("one", "two"):
            for replica in range(run.manifest["replicas"]):
                board = Board(f"{folder}/{learner}-{replica}")
                for metric, group in (("accuracy", ""), ("loss", "class:9"), ("t", "")):
                    rounds, values, times = expected(run, learner, replica, metric, group)
                    told = board.scalars(f"{metric}/{group}".rstrip("/"))
                    assert told[0] == rounds == [0, 5, 10, 15, 20, 25, 30][: len(rounds)]
                    assert np.allclose(told[1], values, rtol=1e-6)
                    assert np.allclose(told[2], times)
                assert not any("user:" in tag for tag in board.read.Tags()["scalars"])
        return Board(folder)

    def test_what_arrives(self, scenario):
        run = netfl.run(scenario(SCENARIO + TENSORBOARD), "r")
        whole = self.same(run)
        assert whole.scalars("summary/one.accuracy.last_tenth")[1][0] == pytest.approx(
            run.summary["one.accuracy.last_tenth"]
        )
        assert b"zipf: 1" in whole.read.Tensors("scenario")[0].tensor_proto.string_val[0]

    def test_another_run_of_that_name_has_a_folder_of_its_own(self, scenario):
        loaded = scenario(SCENARIO + TENSORBOARD, rounds=5)
        netfl.run(loaded, "r")
        netfl.run(loaded, "other/r")
        places = json.loads((Path("other/r") / PLACES).read_text())
        assert places["tensorboard"].endswith("board/r-2")

    def test_replicas_that_are_added(self, scenario):
        netfl.run(scenario(SCENARIO + TENSORBOARD), "r")
        assert call("extend", "r", "--replicas", 3)[0] == 0
        run = netfl.open_run("r")
        whole = self.same(run)
        assert whole.scalars("summary/one.accuracy.last_tenth")[0] == [2, 3]
        final = run.summary["one.accuracy.last_tenth"]
        assert whole.scalars("summary/one.accuracy.last_tenth")[1][1] == pytest.approx(final)


@pytest.mark.filterwarnings("ignore")  # of MLflow's own
class TestMlflow(Either):
    track = MLFLOW

    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("mlflow", reason="the extra netfl-sim[mlflow] is not installed")
        pytest.importorskip("alembic", reason="the extra netfl-sim[mlflow] is not installed")

    def same(self, run):
        from mlflow.tracking import MlflowClient

        client = MlflowClient(tracking_uri=f"sqlite:///{Path('flow.db').absolute()}")
        experiment = client.get_experiment_by_name("x").experiment_id
        runs = {one.info.run_name: one for one in client.search_runs([experiment])}
        lanes = {(learner, replica) for learner in ("one", "two") for replica in range(run.manifest["replicas"])}
        assert {*runs} == {"r", *(f"{learner}-{replica}" for learner, replica in lanes)}
        for learner, replica in lanes:
            own = runs[f"{learner}-{replica}"]
            for metric, group in (("accuracy", ""), ("loss", "class:9"), ("t", "")):
                rounds, values, times = expected(run, learner, replica, metric, group)
                told = client.get_metric_history(own.info.run_id, f"{metric}/{group}".rstrip("/"))
                assert [one.step for one in told] == rounds
                assert np.allclose([one.value for one in told], values)
                assert [one.timestamp for one in told] == [int(1000 * time_s) for time_s in times]
            assert own.data.tags["mlflow.parentRunId"] == runs["r"].info.run_id
            assert own.data.params["lr"] == "0.1"
            assert own.data.params["replica"] == str(replica)
            assert own.info.status == "FINISHED"
        assert runs["r"].data.params["access.rho.zipf"] == "1.0"
        final = run.summary["one.accuracy.last_tenth"]
        assert runs["r"].data.metrics["one.accuracy.last_tenth"] == pytest.approx(final)
        assert runs["r"].info.status == "FINISHED"

    def test_what_arrives(self, scenario):
        self.same(netfl.run(scenario(SCENARIO + MLFLOW), "r"))

    def test_replicas_that_are_added(self, scenario):
        netfl.run(scenario(SCENARIO + MLFLOW), "r")
        assert call("extend", "r", "--replicas", 3)[0] == 0
        self.same(netfl.open_run("r"))

    def test_a_crash_before_it_is_noted_how_far_the_figures_are(self, scenario):
        from netfl.results.tracking.mlflow import Mlflow

        run = netfl.run(scenario(SCENARIO + MLFLOW), "r")
        places = json.loads((run.folder / PLACES).read_text())["mlflow"]
        again = Mlflow(f"sqlite:///{Path('flow.db').absolute()}", ("x", "r"), run.scenario, [("one", 0)], places)
        again._rounds["one", 0] = 10
        for index, value, time_s in zip(*expected(run, "one", 0), strict=True):
            again.log_metrics(("one", 0), index, time_s, {"accuracy": value})
        again.close("done")
        self.same(run)

    def test_a_store_that_cannot_be_reached(self, scenario):
        loaded = scenario(SCENARIO + MLFLOW.replace("sqlite:///flow.db", "nosuch://flow"))
        with pytest.raises(MachineError, match=r"track.mlflow: cannot log the run: .*netfl resume r"):
            netfl.run(loaded, "r")
        assert netfl.open_run("r").status == "failed"


class Heard:
    """Is told, in the place of packages that may not be there."""

    def __init__(self, broken=False):
        self.told, self.broken = [], broken

    def log_metrics(self, *told):
        if self.broken:
            raise ValueError("no\nroom")
        self.told.append(told)

    def summary(self, *told):
        self.told.append(told)

    def close(self, status):
        self.told.append(status)


class TestFollower:
    LANES = (("a", 2), ("b", 3))

    def test_each_lane_is_told_what_it_has(self):
        heard, nan = Heard(), np.nan
        follower = MetricTracker({"x": heard}, self.LANES, "")
        metrics = {"accuracy": [0.1, nan], "loss/class:1": [0.2, 0.3], "loss/user:1": [1, 1], "norm/layer:w": [1, 1]}
        follower.on_metrics(LearnerReport(7, {name: np.array(values) for name, values in metrics.items()}), [5.0, 6.0])
        follower.on_metrics(LearnerReport(8), [7.0, 8.0])
        follower.log_summary({"replicas": 4, "rounds": None, "a.accuracy": 0.5})
        follower.on_end("done")
        assert heard.told == [
            (("a", 2), 7, 5.0, {"accuracy": 0.1, "loss/class:1": 0.2}),
            (("b", 3), 7, 6.0, {"loss/class:1": 0.3}),
            ({"replicas": 4.0, "a.accuracy": 0.5}, 4),
            "done",
        ]

    def test_what_goes_wrong_is_one_line(self):
        follower = MetricTracker({"mlflow": Heard(broken=True)}, self.LANES, "netfl extend r --replicas 4")
        with pytest.raises(MachineError) as found:
            follower.on_metrics(LearnerReport(0, {"accuracy": np.zeros(2)}), [0.0, 0.0])
        problem = "track.mlflow: cannot log the run: ValueError: no room; when that is fixed, continue with"
        assert str(found.value) == f"{problem}: netfl extend r --replicas 4"


@pytest.fixture
def stand_in(monkeypatch):
    """A TensorBoard module of ours, whether there is the package or not: who was told."""
    made = []

    class Board(Heard):
        def __init__(self, folder, scenario, lanes):
            super().__init__()
            self.folder, self.lanes = folder, lanes
            made.append(self)

    module = types.ModuleType("netfl.results.tracking.tensorboard")
    module.TensorBoard, module.new_log_folder = Board, lambda folder, name: folder / name
    monkeypatch.setitem(sys.modules, "netfl.results.tracking.tensorboard", module)
    monkeypatch.setattr("netfl.scenario.tracking._NEEDED", {})
    return made


class TestRuns:
    def test_a_run_tells_all_its_metrics(self, scenario, stand_in):
        run = netfl.run(scenario(SCENARIO + TENSORBOARD), "r")
        (board,) = stand_in
        rounds, values, times = expected(run, "two", 1)
        told = [one for one in board.told if one[0] == ("two", 1)]
        assert [one[1] for one in told] == rounds
        assert [one[3]["accuracy"] for one in told] == values.tolist()
        assert [one[2] for one in told] == times.tolist()
        assert board.told[-1] == "done"
        assert board.told[-2][0]["two.accuracy.last_tenth"] == run.summary["two.accuracy.last_tenth"]
        assert json.loads((run.folder / PLACES).read_text()) == {
            "tensorboard": str(run.folder.absolute().parent / "board/r")
        }

    def test_a_run_that_stops_and_goes_on_stays_in_its_place(self, scenario, stand_in):
        netfl.run(scenario(SCENARIO + TENSORBOARD), "r", observer=Stopping(17))
        netfl.resume("r")
        first, second = stand_in
        assert first.folder == second.folder
        assert (first.told[-1], second.told[-1]) == ("interrupted", "done")
        assert [one[1] for one in second.told if one[0] == ("one", 0)] == [0, 5, 10, 15, 20, 25, 30]

    @pytest.mark.slow
    def test_an_extension_that_cannot_be_told_of_goes_on_by_its_own_command(self, scenario, stand_in, monkeypatch):
        before = netfl.run(scenario(SCENARIO + TENSORBOARD, replicas=1, rounds=5), "r").summary

        def deaf(*_):
            raise ValueError("no room")

        with monkeypatch.context() as patch:
            patch.setattr(type(stand_in[0]), "summary", deaf)
            with pytest.raises(MachineError, match=r"continue with: netfl extend r --replicas 2$"):
                netfl.extend("r", 2)
        between = netfl.open_run("r")
        assert (between.status, between.manifest["replicas"], between.summary) == ("done", 1, before)
        after = netfl.extend("r", 2)
        assert (after.manifest["replicas"], after.summary["replicas"]) == (2, 2)
        assert stand_in[-1].told[-2][0]["two.accuracy.last_tenth"] == after.summary["two.accuracy.last_tenth"]

    def test_a_trace_tells_nobody(self, scenario, stand_in):
        run = netfl.trace(scenario(SCENARIO + TENSORBOARD), "r")
        assert not stand_in
        assert not (run.folder / PLACES).exists()

    @pytest.mark.slow
    def test_nothing_is_imported_that_is_not_asked_for(self, scenario):
        scenario(SCENARIO.replace("rounds: 30", "rounds: 1"))
        code = (
            "import sys, netfl; netfl.run(netfl.load('x.yaml'), 'r');"
            "print(sorted({'tensorboard', 'mlflow', 'sqlalchemy'} & {*sys.modules}))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"


class TestFaults:
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
    def test_what_is_wrong_with_it(self, scenario, track, problem):
        with pytest.raises(ScenarioError) as found:
            scenario(f"{SCENARIO}track: {track}\n")
        assert problem in str(found.value)

    def test_nobody_learns(self, scenario):
        text = "".join(line for line in SCENARIO.splitlines(keepends=True)[:5]) + TENSORBOARD
        with pytest.raises(ScenarioError) as found:
            scenario(text)
        assert str(found.value) == "x.yaml:6: track: has no effect without learners; add 'learners', or leave it out"

    def test_a_package_that_is_missing(self, scenario, monkeypatch):
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

    def test_places_are_kept_from_the_root_on(self, scenario, tmp_path):
        track = scenario(SCENARIO + "track: {tensorboard: x, mlflow: {}}\n").track
        assert track.tensorboard == tmp_path / "x"
        assert track.mlflow.tracking_uri == f"sqlite:///{tmp_path}/mlflow.db"
