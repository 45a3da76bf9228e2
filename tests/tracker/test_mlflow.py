"""MLflow stores the values of the tables."""

import json
from pathlib import Path

import pytest
from support.tracked_runs import SCENARIO, TrackerTests, read_scenario, tracked_curves

import netfl
from netfl.errors import MachineError, ScenarioError
from netfl.results.tracking import PLACES
from netfl.tracker import TrackedRun
from netfl.tracker.mlflow import Mlflow

pytest.importorskip("mlflow", reason="netfl-sim[mlflow] is not installed")
pytest.importorskip("alembic", reason="netfl-sim[mlflow] is not installed")
pytestmark = [pytest.mark.extra, pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")]  # of MLflow


class TestMlflow(TrackerTests):
    track = "track: {kind: mlflow, tracking_uri: 'sqlite:///flow.db', experiment: x}\n"

    @property
    def client(self):
        from mlflow.tracking import MlflowClient

        return MlflowClient(tracking_uri=f"sqlite:///{Path('flow.db').absolute()}")

    def runs(self):
        experiment = self.client.get_experiment_by_name("x").experiment_id
        return {tracked.info.run_name: tracked for tracked in self.client.search_runs([experiment])}

    def curve(self, run, learner, replica, name):
        tracked = self.runs()[f"{learner}-{replica}"]
        history = self.client.get_metric_history(tracked.info.run_id, name)
        return (
            [entry.step for entry in history],
            [entry.value for entry in history],
            [entry.timestamp / 1000 for entry in history],
        )

    def summaries(self, run, name):
        history = sorted(
            self.client.get_metric_history(self.runs()["r"].info.run_id, name), key=lambda entry: entry.step
        )
        return [entry.step for entry in history], [entry.value for entry in history]

    def check(self, run):
        super().check(run)
        runs = self.runs()
        lanes = {(learner, replica) for learner in ("one", "two") for replica in range(run.manifest["replicas"])}
        assert {*runs} == {"r", *(f"{learner}-{replica}" for learner, replica in lanes)}
        for learner, replica in lanes:
            tracked = runs[f"{learner}-{replica}"]
            assert tracked.data.tags["mlflow.parentRunId"] == runs["r"].info.run_id
            assert (tracked.data.params["lr"], tracked.data.params["replica"]) == ("0.1", str(replica))
            assert tracked.info.status == "FINISHED"
        assert runs["r"].data.params["access.rho.zipf"] == "1.0"
        assert runs["r"].info.status == "FINISHED"

    def test_values_logged_again_after_a_crash_are_ignored(self):
        run = netfl.run(read_scenario(SCENARIO + self.track), "r")
        memory = json.loads((run.folder / PLACES).read_text())["mlflow"]
        store = Mlflow(tracking_uri="sqlite:///flow.db", experiment="x")
        log = store.open(TrackedRun(run.folder.absolute(), run.scenario, [("one", 0)], memory))
        *_, rounds, values, times_s = next(tracked_curves(run))
        for index, value, time_s in zip(rounds, values, times_s, strict=True):
            log.log_metrics(("one", 0), index, time_s, {"accuracy": value})
        log.close("done")
        self.check(run)

    def test_metrics_that_have_one_name_in_mlflow_are_an_error(self):
        """MLflow would show two test sets as one curve."""
        run = netfl.run(read_scenario(SCENARIO + self.track), "r")
        memory = json.loads((run.folder / PLACES).read_text())["mlflow"]
        store = Mlflow(tracking_uri="sqlite:///flow.db", experiment="x")
        log = store.open(TrackedRun(run.folder.absolute(), run.scenario, [("one", 0)], memory))
        log.log_metrics(("one", 0), 10**6, 0.0, {"accuracy@raw": 0.5, "accuracy@other": 0.5})
        message = (
            r"track: the metrics 'accuracy@raw' and 'accuracy_raw' have one name in MLflow \('accuracy_raw'\); use"
        )
        with pytest.raises(ScenarioError, match=message):
            log.log_metrics(("one", 0), 10**6 + 1, 1.0, {"accuracy_raw": 0.5})

    def test_parameters_that_have_one_name_in_mlflow_are_an_error(self):
        text = (SCENARIO + self.track).replace("  one:", "  a+b:").replace("  two:", "  a=b:")
        with pytest.raises(ScenarioError, match=r"track: the parameters 'learners.a\+b..*' and 'learners.a=b..*' have"):
            netfl.run(read_scenario(text), "r")

    def test_an_unreachable_store_is_an_error(self):
        unreachable = read_scenario(SCENARIO + self.track.replace("sqlite:///flow.db", "nosuch://flow"))
        with pytest.raises(MachineError, match=r"track: mlflow cannot log the run: .*netfl.resume\('r'\)"):
            netfl.run(unreachable, "r")
        assert netfl.open_run("r").status == "failed"
