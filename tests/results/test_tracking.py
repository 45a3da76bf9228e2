"""Trackers receive the metrics of a run once, also after a stop; wrong and failing trackers are one error."""

# ruff: noqa: E501 - each expected message is on one line

import importlib
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from support.exported_runs import Stopping, call
from support.tracked_runs import SCENARIO, read_scenario, tracked_curves

import netfl
from netfl import tracker as family
from netfl.errors import MachineError, ScenarioError
from netfl.results.tracking import PLACES, MetricTracker
from netfl.tracker import RunLog, TensorBoard, Tracker
from netfl.types import LearnerReport

NOTES = """
from netfl.tracker import RunLog, Tracker


class Notes(Tracker):
    "A tracker that keeps its logs in this module."
    fails: str = ""
    text: str = ""

    def open(self, run):
        run.memory["opened"] = run.memory.get("opened", 0) + 1
        LOGS.append(Log(self.fails, run))
        return LOGS[-1] if self.fails != "open" else None


class Needy(Notes):
    "A tracker that needs packages that do not exist."
    packages = ("nowhere_a", "nowhere_b")


class Log(RunLog):
    def __init__(self, fails, run):
        self.fails, self.run, self.metrics, self.summaries, self.status = fails, run, [], [], None

    def log_metrics(self, *entry):
        self.metrics.append(entry)
        if self.fails == "log":
            raise ValueError("no\\nroom")

    def log_summary(self, values, replicas):
        self.summaries.append((values, replicas))
        if self.fails == "summary" and replicas > 1:
            raise ValueError("no room")

    def close(self, status):
        self.status = status


LOGS = []
"""
NOTED = "track: notes_of_tests:Notes\n"


@pytest.fixture(autouse=True)
def logs(tmp_path, monkeypatch):
    """The logs of a tracker in a file of the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("notes_of_tests.py").write_text(NOTES)
    yield importlib.import_module("notes_of_tests").LOGS
    sys.modules.pop("notes_of_tests", None)


class TestContract:
    def test_the_example_of_the_family_logs_every_metric(self):
        names = {"Tracker": Tracker, "RunLog": RunLog, "Path": Path, "json": json, "__name__": "lab_of_tests"}
        code = family.__doc__.partition("::\n\n")[2]
        module = sys.modules["lab_of_tests"] = type(sys)("lab_of_tests")
        vars(module).update(names)
        exec(textwrap.dedent(code), vars(module))
        try:
            run = netfl.run(read_scenario(SCENARIO + "track: {kind: lab_of_tests:JsonLines, file: m.jsonl}\n"), "r")
        finally:
            del sys.modules["lab_of_tests"]
        lines = [json.loads(line) for line in (run.folder / "m.jsonl").read_text().splitlines()]
        for learner, replica, name, rounds, values, times_s in tracked_curves(run):
            rows = [line for line in lines if (line["learner"], line["replica"]) == (learner, replica)]
            assert [row["round"] for row in rows] == rounds
            assert [row[name] for row in rows] == values.tolist()
            assert [row["time_s"] for row in rows] == times_s.tolist()

    def test_a_tracker_may_be_a_python_object(self):
        scenario = netfl.load({**read_scenario(SCENARIO).model_dump(), "track": TensorBoard(folder="x")})
        assert scenario.track == (TensorBoard(folder=Path("x").absolute()),)

    @pytest.mark.parametrize("track", ["tensorboard", "[tensorboard, {kind: mlflow, experiment: x}]", "[]"])
    def test_trackers_round_trip(self, track):
        scenario = read_scenario(f"{SCENARIO}track: {track}\n")
        assert read_scenario(scenario.to_yaml()).track == scenario.track

    def test_no_tracker_may_be_null_as_in_older_runs(self):
        assert read_scenario(f"{SCENARIO}track: null\n").track == ()


class TestMetricTracker:
    LANES = (("a", 2), ("b", 3))

    def test_each_lane_logs_its_metrics(self, logs):
        notes = sys.modules["notes_of_tests"]
        log, nan = notes.Log("", None), np.nan
        metric_tracker = MetricTracker([(notes.Notes(), log)], self.LANES, "")
        metrics = {"accuracy": [0.1, nan], "loss/class:1": [0.2, 0.3], "loss/user:1": [1, 1], "norm/layer:w": [1, 1]}
        metric_tracker.on_metrics(
            LearnerReport(7, {name: np.array(values) for name, values in metrics.items()}), [5.0, 6.0]
        )
        metric_tracker.on_metrics(LearnerReport(8), [7.0, 8.0])
        metric_tracker.log_summary({"replicas": 4, "rounds": None, "a.accuracy": 0.5})
        metric_tracker.on_end("done")
        assert log.metrics == [
            (("a", 2), 7, 5.0, {"accuracy": 0.1, "loss/class:1": 0.2}),
            (("b", 3), 7, 6.0, {"loss/class:1": 0.3}),
        ]
        assert (log.summaries, log.status) == ([({"replicas": 4.0, "a.accuracy": 0.5}, 4)], "done")


class TestRuns:
    def test_a_run_logs_all_metrics(self, logs):
        run = netfl.run(read_scenario(SCENARIO + NOTED), "r")
        (log,) = logs
        for learner, replica, name, rounds, values, times_s in tracked_curves(run):
            entries = [entry for entry in log.metrics if entry[0] == (learner, replica)]
            assert [entry[1] for entry in entries] == rounds
            assert [entry[2] for entry in entries] == times_s.tolist()
            assert [entry[3][name] for entry in entries] == values.tolist()
        assert log.status == "done"
        assert log.summaries[0][0]["two.accuracy.last_tenth"] == run.summary["two.accuracy.last_tenth"]
        assert (log.run.name, log.run.folder) == ("r", Path("r").absolute())
        assert not log.run.is_extension

    def test_a_resumed_run_has_its_memory(self, logs):
        netfl.run(read_scenario(SCENARIO + NOTED), "r", observer=Stopping(17))
        netfl.resume("r")
        first, second = logs
        assert (first.status, second.status) == ("interrupted", "done")
        assert second.run.memory["opened"] == 2
        assert [entry[1] for entry in second.metrics if entry[0] == ("one", 0)] == [0, 5, 10, 15, 20, 25, 30]

    def test_two_trackers_of_one_kind_have_separate_memories(self, logs):
        twice = "track: [notes_of_tests:Notes, {kind: notes_of_tests:Notes, text: b}]\n"
        run = netfl.run(read_scenario(SCENARIO + twice, rounds=1, replicas=1), "r")
        memories = json.loads((run.folder / PLACES).read_text())
        assert memories == {"notes_of_tests:Notes": {"opened": 1}, "notes_of_tests:Notes 2": {"opened": 1}}
        assert logs[0].metrics == logs[1].metrics

    @pytest.mark.slow
    def test_a_failed_extension_names_the_command_to_continue(self, logs):
        failing = "track: {kind: notes_of_tests:Notes, fails: summary}\n"
        before = netfl.run(read_scenario(SCENARIO + failing, replicas=1, rounds=5), "r").summary
        with pytest.raises(MachineError, match=r"continue with: netfl.extend\('r', replicas=2\)$"):
            netfl.extend("r", 2)
        between = netfl.open_run("r")
        assert (between.status, between.manifest["replicas"], between.summary) == ("done", 1, before)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(logs[0]), "log_summary", lambda log, *entry: log.summaries.append(entry))
            after = netfl.extend("r", 2)
        assert (after.manifest["replicas"], after.summary["replicas"]) == (2, 2)
        assert logs[-1].summaries[0][0]["two.accuracy.last_tenth"] == after.summary["two.accuracy.last_tenth"]
        assert logs[-1].run.is_extension

    def test_a_trace_logs_nothing(self, logs):
        run = netfl.trace(read_scenario(SCENARIO + NOTED), "r")
        assert not logs
        assert not (run.folder / PLACES).exists()

    @pytest.mark.slow
    def test_trackers_are_imported_only_on_request(self):
        read_scenario(SCENARIO.replace("rounds: 30", "rounds: 1"))
        code = (
            "import sys, netfl; netfl.run(netfl.load('x.yaml'), 'r');"
            "netfl.load('x.yaml', {'track': ['mlflow', 'tensorboard', 'wandb']});"
            "print(sorted({'tensorboard', 'mlflow', 'sqlalchemy', 'wandb'} & {*sys.modules}))"
        )
        process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert process.stdout == "[]\n"


class TestErrors:
    @pytest.mark.parametrize(
        ("track", "problem"),
        [
            ("{tensorboard: runs/board}", "x.yaml:18: track: a tracker is a mapping with 'kind'; write track: {kind: tensorboard, …}, or a list of such mappings"),
            ("{mlflow: {experiment: x}}", "x.yaml:18: track: a tracker is a mapping with 'kind'; write track: {kind: mlflow, …}, or a list of such mappings"),
            ("{}", "x.yaml:18: track.0: a model of tracker is needed: its kind, or a mapping with 'kind'; kinds: mlflow, tensorboard, wandb"),
            ("tensorbord", "x.yaml:18: track.0: no such tracker: 'tensorbord'; did you mean 'tensorboard'?"),
            ("[mlflow, {kind: tensorboard, foldr: x}]", "x.yaml:18: track.1.foldr: unknown key; did you mean 'folder'?"),
            ("{kind: wandb, mode: of}", "x.yaml:18: track.0.mode: unknown value ('of'); known: offline, online"),
            ("{kind: mlflow, tracking_uri: runs}", "not the address of a store ('runs'); write one such as sqlite:///mlflow.db or http"),
            ("{kind: notes_of_tests:Log}", "'notes_of_tests:Log' is no subclass of Tracker; derive it from netfl.tracker.Tracker"),
        ],
    )  # fmt: skip
    def test_invalid_trackers_are_errors(self, track, problem):
        with pytest.raises(ScenarioError) as error:
            read_scenario(f"{SCENARIO}track: {track}\n")
        assert problem in str(error.value)

    def test_a_tracker_without_learners_is_an_error(self):
        text = "".join(line for line in SCENARIO.splitlines(keepends=True)[:5]) + NOTED
        with pytest.raises(ScenarioError) as error:
            read_scenario(text)
        assert str(error.value) == "x.yaml:6: track.0: has no effect without learners; add 'learners', or leave it out"

    def test_missing_packages_are_an_error(self, monkeypatch):
        monkeypatch.setattr(TensorBoard, "packages", ("nowhere_board",))
        read_scenario(f"{SCENARIO}track: [tensorboard, notes_of_tests:Notes, notes_of_tests:Needy]\n")
        code, output = call("check", "x.yaml")
        assert code == 2
        assert output.splitlines() == [
            "x.yaml:18: track.0: needs nowhere_board, which is not installed ('tensorboard'); "
            "pip install 'netfl-sim[tensorboard]'",
            "x.yaml:18: track.2: needs nowhere_a and nowhere_b, which are not installed ('notes_of_tests:Needy'); "
            "pip install nowhere_a nowhere_b",
        ]
        assert call("run", "x.yaml", "--out", "r")[0] == 2
        assert call("trace", "x.yaml", "--out", "t", "-q")[0] == 0

    @pytest.mark.parametrize(
        ("fails", "problem"),
        [
            ("log", "track: notes_of_tests:Notes cannot log the run: ValueError: no room (notes_of_tests.py, line 28); when that is fixed, continue with: netfl.resume('r')"),
            ("open", "track: notes_of_tests:Notes cannot log the run: TypeError: its method 'open' returns None instead of a RunLog; when that is fixed, continue with: netfl.resume('r')"),
        ],
    )  # fmt: skip
    def test_an_error_of_a_tracker_is_one_line(self, fails, problem):
        with pytest.raises(MachineError) as error:
            netfl.run(read_scenario(f"{SCENARIO}track: {{kind: notes_of_tests:Notes, fails: {fails}}}\n"), "r")
        assert str(error.value) == problem
        assert netfl.open_run("r").status == "failed"

    def test_paths_are_absolute(self, tmp_path):
        trackers = read_scenario(SCENARIO + "track: [{kind: tensorboard, folder: x}, mlflow]\n").track
        assert trackers[0].folder == tmp_path / "x"
        assert trackers[1].tracking_uri == f"sqlite:///{tmp_path}/mlflow.db"
