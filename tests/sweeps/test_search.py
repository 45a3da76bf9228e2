"""Searches with Optuna: trials are points of a sweep, and a search that was stopped equals one that was not."""

# ruff: noqa: E501 - each expected message is on one line

import json

import numpy as np
import pandas as pd
import pytest
from support.inline_sweep_engine import Here
from typer.testing import CliRunner

import netfl
from netfl import plots, report
from netfl.cli import app
from netfl.errors import ScenarioError
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.sweeps import LocalEngine, SweepObserver
from netfl.sweeps.search import JOURNAL

optuna = pytest.importorskip("optuna", reason="netfl-sim[optuna] is not installed")
pytestmark = pytest.mark.extra

NETWORK = {"name": "net", "seed": 3, "users": 6, "rounds": 10, "replicas": 2}
LEARNER = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 2}
LEARNING = {
    "name": "learn", "seed": 3, "users": 4, "rounds": 20, "replicas": 2,
    "access": {"kind": "bernoulli", "probability": 0.5},
    "data": {"kind": "blobs", "centers": [[0, 0], [2, 2], [0, 3]], "samples": 60},
    "partition": "iid", "model": "logistic", "learners": {"A": LEARNER, "B": LEARNER}, "evaluate": {"every": 4},
}  # fmt: skip


def network(**search):
    """Return a search of the probability with which users deliver."""
    sweep = {"engine": "optuna", "trials": 12, "metric": "delivered_per_round",
             "parameters": {"access.probability": {"uniform": [0.05, 0.95]}}} | search  # fmt: skip
    access = {"kind": "bernoulli", "probability": 0.5}
    return validate(ScenarioDocument({**NETWORK, "access": access, "sweep": sweep}, "net.yaml"))


def learning(**search):
    """Return a search of the step size of a learner."""
    sweep = {"engine": "optuna", "trials": 4, "metric": "accuracy", "learner": "A",
             "parameters": {"learners.A.lr": {"log_uniform": [1e-4, 1]}}} | search  # fmt: skip
    return validate(ScenarioDocument({**LEARNING, "sweep": sweep}, "learn.yaml"))


def study_of(folder):
    """Return the one study in a sweep's folder as Optuna reads it."""
    file = str(folder / JOURNAL)
    lock = optuna.storages.journal.JournalFileOpenLock(file)
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(file, lock_obj=lock))
    (summary,) = optuna.get_all_study_summaries(storage)
    return optuna.load_study(study_name=summary.study_name, storage=storage)


class Recording(SweepObserver):
    """Record trials and updates; stop after *after* trials have ended."""

    def __init__(self, after=None):
        self.after, self.stop, self.updates, self.started, self.ended = after, False, [], [], []

    def on_search(self, folder, search):
        self.before = len(search.entries)

    def on_trial(self, number, trial, point, tasks):
        (self.started if trial.state == "running" else self.ended).append(number)
        self.stop |= self.after is not None and len(self.ended) >= self.after

    def on_update(self, update):
        self.updates.append(update)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The search of the network, without interruption."""
    return netfl.sweep(network(), tmp_path_factory.mktemp("whole") / "s", engine=Here())


class TestTrials:
    def test_the_value_of_a_trial_is_the_mean_of_its_point(self, whole):
        expected = whole.summary.query("metric == 'delivered_per_round'").set_index("point")["mean"]
        assert whole.trials["value"].tolist() == pytest.approx(expected.tolist())
        study = study_of(whole.folder)
        assert [trial.value for trial in study.trials] == pytest.approx(expected.tolist())
        assert [trial.params["access.probability"] for trial in study.trials] == whole.points["probability"].tolist()
        assert (whole.status, {*whole.trials["status"]}, {*whole.points["status"]}) == ("done", {"done"}, {"done"})

    def test_the_sampler_learns_from_the_trials(self, whole):
        assert whole.trials["probability"][10:].min() > 0.8
        best = int(whole.trials["value"].idxmax())
        assert whole.best == {"access.probability": whole.trials["probability"][best]}
        assert network().at(whole.best).access.probability == whole.trials["probability"][best]

    def test_minimize_ranks_the_smallest_first(self, tmp_path):
        sweep = netfl.sweep(network(direction="minimize", trials=4), tmp_path / "s", engine=Here())
        assert sweep.search.ranked() == np.argsort(sweep.trials["value"]).tolist()

    def test_the_state_of_the_comparison_names_what_was_searched(self, tmp_path):
        sweep = netfl.sweep(learning(trials=2), tmp_path / "s", engine=Here())
        assert sweep.comparison == "settings as given, not tuned; learners.A.lr searched by test accuracy"
        tuned = validate(ScenarioDocument({**LEARNING, "tuning": {"by": "loss", "trials": 3, "replicas": 1},
                                           "evaluate": {"every": 4, "validation": 0.2},
                                           "sweep": learning(trials=2).sweep.model_dump(mode="json")
                                           | {"parameters": {"learners.A.momentum": {"uniform": [0, 0.5]}}}}, "t.yaml"))  # fmt: skip
        assert netfl.sweep(tuned, tmp_path / "t", engine=Here()).comparison.endswith(
            "; learners.A.momentum searched by test accuracy"
        )

    def test_a_metric_of_a_learner_is_its_final_value(self, tmp_path):
        sweep = netfl.sweep(learning(), tmp_path / "s", engine=Here())
        rows = sweep.summary.query("learner == 'A' and metric == 'accuracy.last_tenth'")
        assert sweep.trials["value"].tolist() == pytest.approx(rows["mean"].tolist())
        assert sweep.lanes.query("learner == 'B'")["task"].nunique() == 1  # trained once, as nothing varies it

    @pytest.mark.parametrize("sampler", ["tpe", "random", "gp"])
    def test_samplers_have_seeds(self, sampler, tmp_path):
        scenario, other = network(sampler=sampler, trials=3), network(sampler=sampler, trials=3, seed=1)
        first, second, third = (
            netfl.sweep(each, tmp_path / str(number), engine=Here()).trials["probability"].tolist()
            for number, each in enumerate((scenario, scenario, other))
        )
        assert first == second != third

    def test_every_distribution_and_kind_of_choice(self, tmp_path):
        rho = [[0.5, 0.5, 0, 0, 0, 0], [0.1, 0.1, 0.1, 0.1, 0.1, 0.5]]
        access = {"kind": "stationary", "rho": rho[0], "round_length": 1.0}
        sweep = {
            "engine": "optuna", "trials": 6, "metric": "jain", "sampler": "random",
            "parameters": {
                "access.rho": {"choice": rho}, "access.deliveries": {"integer": [1, 2]}, "seed": {"choice": [1, 2]},
                "access.round_length": {"log_uniform": [0.1, 10]},
            },
        }  # fmt: skip
        scenario = validate(ScenarioDocument({**NETWORK, "access": access, "sweep": sweep}, "net.yaml"))
        found = netfl.sweep(scenario, tmp_path / "s", engine=Here())
        assert found.status == "done"
        assert {*found.trials["rho"]} == {json.dumps(each) for each in rho}
        assert {*found.trials["deliveries"]} == {1, 2} == {*found.trials["seed"]}
        assert found.trials["round_length"].between(0.1, 10).all()
        assert found.best["access.rho"] in rho

    def test_a_repeated_point_is_not_run_again(self, tmp_path):
        engine = Here()
        search = {"trials": 8, "parameters": {"access.probability": {"choice": [0.2, 0.4]}}}
        sweep = netfl.sweep(network(**search), tmp_path / "s", engine=engine)
        assert len(engine.done) == 2
        assert sweep.trials.groupby("probability")["value"].nunique().tolist() == [1, 1]

    def test_trials_of_a_batch_share_a_task(self, tmp_path):
        engine = Here()
        sweep = netfl.sweep(learning(batch=4), tmp_path / "s", engine=engine)
        (task,) = engine.done
        assert len(task.lanes) == 5  # four of A, one of B
        assert sweep.trials["value"].nunique() > 1


class TestContinuation:
    @pytest.mark.parametrize("after", [1, 5])
    def test_a_stopped_search_continues_as_if_it_was_not(self, whole, after, tmp_path):
        observer = Recording(after)
        stopped = netfl.sweep(network(), tmp_path / "s", engine=Here(), observer=observer)
        assert (stopped.status, len(stopped.trials)) == ("partial", after)
        continued = netfl.sweep(network(), tmp_path / "s", engine=Here(), observer=(observer := Recording()))
        pd.testing.assert_frame_equal(continued.trials, whole.trials)
        assert observer.before == after
        assert len(observer.ended) == 12 - after

    def test_a_trial_that_was_running_is_completed_first(self, whole, tmp_path):
        class Dying(Here):
            def run(self, tasks, folder, report, stop):
                super().run(tasks, folder, report, stop)
                next(iter(tasks))
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            netfl.sweep(network(), tmp_path / "s", engine=Dying(most=3))
        stopped = netfl.open_sweep(tmp_path / "s")
        assert stopped.trials["status"].tolist() == ["done", "done", "done", "running"]
        continued = netfl.sweep(network(), tmp_path / "s", engine=Here())
        assert continued.trials["status"].tolist() == ["done"] * 12
        pd.testing.assert_frame_equal(continued.trials[:4], whole.trials[:4])

    def test_more_trials_keep_the_first(self, whole, tmp_path):
        netfl.sweep(network(trials=5), tmp_path / "s", engine=Here())
        engine = Here()
        more = netfl.sweep(network(), tmp_path / "s", engine=engine)
        assert len(engine.done) == 7
        pd.testing.assert_frame_equal(more.trials, whole.trials)

    def test_another_search_in_the_folder_has_its_own_trials(self, tmp_path):
        first = netfl.sweep(network(trials=3), tmp_path / "s", engine=Here())
        engine = Here()
        second = netfl.sweep(network(trials=3, metric="jain"), tmp_path / "s", engine=engine)
        assert second.trials["probability"].tolist() == first.trials["probability"].tolist()
        assert not engine.done  # the same points, whose runs are there
        assert second.trials["value"].tolist() != first.trials["value"].tolist()


class TestFailures:
    def test_a_failed_task_fails_its_trial(self, tmp_path):
        sweep = netfl.sweep(network(trials=4), tmp_path / "s", engine=Here(fail={1}))
        assert sweep.trials["status"].tolist() == ["done", "failed", "done", "done"]
        assert (sweep.trials["error"][1], sweep.status) == ("it broke", "done")
        assert sweep.points["status"].tolist() == ["done", "failed", "done", "done"]
        assert [trial.state.name for trial in study_of(sweep.folder).trials][1] == "FAIL"
        again = netfl.sweep(network(trials=4), tmp_path / "s", engine=(engine := Here()))
        assert not engine.done
        pd.testing.assert_frame_equal(again.trials, sweep.trials)

    def test_impossible_values_fail_their_trial(self, tmp_path):
        access = {"kind": "stationary", "rho": {"zipf": 1}, "deliveries": 1}
        parameters = {"users": {"choice": [4, 6]}, "access.deliveries": {"integer": [1, 6]}}
        sweep = {"engine": "optuna", "trials": 12, "metric": "jain", "sampler": "random", "parameters": parameters}
        scenario = validate(ScenarioDocument({**NETWORK, "access": access, "sweep": sweep}, "net.yaml"))
        found = netfl.sweep(scenario, tmp_path / "s", engine=Here())
        impossible = (found.trials["users"] == 4) & (found.trials["deliveries"] > 4)
        assert 0 < impossible.sum() < 12
        assert (found.trials["status"] == np.where(impossible, "failed", "done")).all()
        assert found.trials["error"][impossible].str.contains("access.deliveries").all()

    def test_divergence_fails_a_trial(self, tmp_path):
        parameters = {"learners.A.lr": {"choice": [0.1, 1e38]}}
        sweep = netfl.sweep(learning(trials=6, parameters=parameters), tmp_path / "s", engine=Here())
        assert (sweep.trials["status"] == np.where(sweep.trials["lr"] > 1, "failed", "done")).all()
        assert sweep.trials["error"][sweep.trials["lr"] > 1].unique().tolist() == [
            "accuracy is not a number: training diverged"
        ]

    @pytest.mark.parametrize(
        ("search", "learned", "problem"),
        [
            ({"metric": "jian"}, False, "net.yaml: sweep.metric: no such metric of the network ('jian'); did you mean 'jain'?"),
            ({"metric": "acuracy"}, True, "learn.yaml: sweep.metric: no such metric of learner 'A' ('acuracy'); did you mean 'accuracy'?"),
            ({"metric": "accuracy"}, False, "net.yaml: sweep.metric: is a metric of learners, and the sweep runs the network alone ('accuracy'); leave out learning=False"),
            ({"learner": None}, True, "learn.yaml: sweep.learner: missing; several learners have the metric; name one of A, B"),
            ({"pruner": "median", "metric": "delivered_per_round"}, True, "learn.yaml: sweep.pruner: has no effect: 'delivered_per_round' is not evaluated during a run ('median'); leave it out"),
        ],
    )  # fmt: skip
    def test_wrong_metrics_are_errors(self, search, learned, problem, tmp_path):
        with pytest.raises(ScenarioError) as error:
            netfl.sweep((learning if learned else network)(**search), tmp_path / "s", engine=Here())
        assert str(error.value) == problem


PRUNED = {"trials": 12, "pruner": "median", "sampler": "random"}


class TestPruning:
    def test_poor_trials_end_early(self, tmp_path):
        sweep = netfl.sweep(learning(**PRUNED), tmp_path / "s", engine=Here())
        pruned = sweep.trials[sweep.trials["status"] == "pruned"]
        assert 0 < len(pruned) < 8  # the first five are complete
        assert pruned["trial"].min() >= 5
        assert sweep.status == "done"
        tasks = sweep.tasks.set_index("task")["status"]
        assert (tasks == "pruned").sum() == len(pruned)
        for key in tasks.index[tasks == "pruned"]:
            assert sweep.run(key).rounds["round"].max() < 20
        study = study_of(sweep.folder)
        for trial in study.trials:
            assert (trial.state.name == "PRUNED") == (trial.number in pruned["trial"].tolist())
            assert next(iter(trial.intermediate_values)) == 4  # the start is not compared
        again = netfl.sweep(learning(**PRUNED), tmp_path / "s", engine=(engine := Here()))
        assert not engine.done
        pd.testing.assert_frame_equal(again.trials, sweep.trials)

    def test_replicas_in_several_tasks_are_averaged(self, tmp_path):
        whole = netfl.sweep(learning(**PRUNED), tmp_path / "s", engine=Here())
        cut = netfl.sweep(learning(**PRUNED, lanes=1), tmp_path / "t", engine=LocalEngine(2, "cpu"))
        first, second = study_of(whole.folder).trials[0], study_of(cut.folder).trials[0]
        assert [*second.intermediate_values] == [*first.intermediate_values]
        assert [*second.intermediate_values.values()] == pytest.approx([*first.intermediate_values.values()])

    def test_processes_end_poor_trials_early(self, tmp_path):
        long = {**LEARNING, "rounds": 400, "replicas": 1, "learners": {"A": LEARNER}, "evaluate": {"every": 10}}
        sweep = {"engine": "optuna", "metric": "loss", "direction": "minimize", **PRUNED,
                 "parameters": {"learners.A.lr": {"log_uniform": [1e-5, 1]}}}  # fmt: skip
        scenario = validate(ScenarioDocument({**long, "sweep": sweep}, "learn.yaml"))
        found = netfl.sweep(scenario, tmp_path / "s", engine=LocalEngine(1, "cpu"))
        keys = found.tasks.loc[found.tasks["status"] == "pruned", "task"]
        assert len(keys)
        assert all(found.run(key).status == "interrupted" for key in keys)
        assert found.trials["status"].iloc[-1] in {"done", "pruned"}


class TestEngines:
    def test_trials_run_in_parallel(self, tmp_path):
        observer = Recording()
        sweep = netfl.sweep(network(trials=8), tmp_path / "s", engine=LocalEngine(2), observer=observer)
        assert sweep.status == "done"
        assert sorted(observer.started) == sorted(observer.ended) == [*range(8)]
        expected = sweep.summary.query("metric == 'delivered_per_round'").set_index("point")["mean"]
        assert sweep.trials["value"].tolist() == pytest.approx(expected.tolist())

    def test_one_process_equals_this_process(self, whole, tmp_path):
        sweep = netfl.sweep(network(), tmp_path / "s", engine=LocalEngine(1))
        pd.testing.assert_frame_equal(sweep.trials, whole.trials)


class TestViews:
    @pytest.fixture(autouse=True)
    def files(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("COLUMNS", "110")
        (tmp_path / "net.yaml").write_text(network(trials=3).to_yaml(sweep=True))

    def call(self, *words):
        result = CliRunner().invoke(app, [*words])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.output

    def test_the_command_shows_the_best_trial(self):
        code, output = self.call("sweep", "net.yaml", "--workers", "1")
        lines = output.splitlines()
        assert code == 0
        assert lines[0] == "3 trials → runs/net-sweep"
        assert lines[-1] == "trials: 3 done: runs/net-sweep"
        best = netfl.open_sweep("runs/net-sweep").search.ranked()[0]
        assert lines[-2].startswith(f"best: trial {best}: ")
        assert sum(line.startswith("best so far: trial") for line in lines) >= 1
        assert self.call("sweep", "net.yaml")[1].startswith("3 trials, 3 done already → runs/net-sweep\n")

    def test_a_check_tries_the_ends_of_the_space(self):
        assert self.call("check", "net.yaml")[1].startswith(
            "net.yaml: valid keys, at all 3 points of the space to search\n"
        )
        code, output = self.call(
            "check", "net.yaml", "--set", "sweep.parameters={access.probability: {uniform: [0, 2]}}"
        )
        assert (code, "access.probability: should be less than or equal to 1" in output) == (2, True)

    def test_the_report_has_the_search(self, whole):
        text = report.write_sweep(whole, whole.folder.parent / "search.html").read_text()
        best = whole.search.ranked()[0]
        for part in (
            "All 12 trials are over: 12 done.",
            f"Best: trial {best}: ",
            "chosen by Optuna",
            "search-progress",
        ):
            assert part in text, part

    def test_the_report_of_an_unfinished_search(self):
        stopped = netfl.sweep(network(trials=3), "t", engine=Here(), observer=Recording(after=1))
        text = " ".join(report.write_sweep(stopped).read_text().split())
        assert "1 of 3 trials have started: 1 done. Repeat its" in text

    def test_the_plot_follows_the_best_value(self, whole):
        (ax,) = plots.search_progress(whole.trials, "delivered_per_round").axes
        pruned, done, best = ax.lines
        assert done.get_ydata().tolist() == pytest.approx(whole.trials["value"].tolist())
        assert best.get_ydata().tolist() == pytest.approx(np.maximum.accumulate(whole.trials["value"]).tolist())
        assert len(pruned.get_ydata()) == 0
