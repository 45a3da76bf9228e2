"""The main loop with a tiny learner: order of calls, results, stops and failures."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import netfl
from netfl.access.bernoulli import Bernoulli
from netfl.errors import MachineError, ModelError, ScenarioError
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation import learners
from netfl.simulation import run as runs
from netfl.simulation.checkpoints import CHECKPOINT
from netfl.types import OUTCOMES, LearnerReport, RunObserver

ROUNDS = 12
TABLES = ("rounds", "deliveries", "events", "metrics", "users")


class Tiny:
    """A learner with one number per lane, which depends on all deliveries and their order."""

    def __init__(self, lanes, every=3, log=None, fail_at=None, error=None):
        self.lanes = lanes
        self._x = np.ones(len(lanes))
        self._at, self._every = 0, every
        self._log = [] if log is None else log
        self._fail_at, self._error = fail_at, error

    @contextmanager
    def working(self):
        self._log.append("set up")
        try:
            yield
        finally:
            self._log.append("set back")

    def start(self):
        self._log.append("start")
        return self._report()

    def step(self, rounds):
        self._at += 1
        assert [round_.index for round_ in rounds] == [self._at] * len(rounds)
        self._log.append(f"step {self._at}")
        if self._at == self._fail_at:
            raise self._error
        for lane, (_, replica) in enumerate(self.lanes):
            for delivery in rounds[replica].deliveries:
                self._x[lane] = (self._x[lane] * (1.1 + lane) + delivery.user + delivery.base) % 10.0
        return self._report() if self._at % self._every == 0 else LearnerReport(self._at)

    def state(self):
        import torch

        return {"x": torch.from_numpy(self._x.copy()), "at": self._at}

    def restore(self, state):
        self._x, self._at = state["x"].numpy().copy(), state["at"]

    diverged = ()
    training_method = gpu = ""

    def predict(self, lane, x):
        return np.full(len(x), lane)

    def _report(self):
        return LearnerReport(
            self._at, {"accuracy": self._x.copy(), "accuracy/class:1": self._x / 2, "accuracy/user:0": self._x.copy()}
        )


class StoppingObserver(RunObserver):
    """An observer that stops the run after a given round."""

    def __init__(self, stop_after=None, log=None):
        self._after, self._log = stop_after, [] if log is None else log
        self.stop = stop_after == 0
        self.progress_seen = []

    def on_start(self, start):
        self._log.append("opened")

    def on_round(self, progress):
        self._log.append(f"closed {progress.round}")
        self.progress_seen.append(progress)
        self.stop = progress.round == self._after


LIMITED = {"kind": "bernoulli", "probability": 0.9, "deliveries": 2}
"""An access whose users are seldom all delivered."""


def a_scenario(**overrides):
    settings = {
        "name": "tiny",
        "users": 4,
        "rounds": ROUNDS,
        "replicas": 2,
        "access": {"kind": "bernoulli", "probability": 0.5},
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 40},
        "partition": "iid",
        "model": "logistic",
        "learners": {
            name: {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 4, "local_steps": 1}
            for name in ("A", "B")
        },
        **overrides,
    }
    return validate(ScenarioDocument({key: value for key, value in settings.items() if value is not None}, "tiny"))


def trace_scenario(**overrides):
    return a_scenario(data=None, partition=None, model=None, learners=None, **overrides)


@pytest.fixture
def tiny_learner(monkeypatch):
    """Replace all learners by `Tiny`; the returned function sets its options."""

    def use(**options):
        def build(setup, device="auto", workers=1):
            names = setup.scenario.learners
            return Tiny([(name, replica) for name in names for replica in range(setup.scenario.replicas)], **options)

        monkeypatch.setattr(learners, "build_learner", build)

    use()
    return use


def tables(folder):
    run = netfl.open_run(folder)
    return {name: run.table(name) for name in TABLES}


def assert_same(first, second):
    for name in TABLES:
        pd.testing.assert_frame_equal(first[name], second[name], check_exact=True)


def test_the_observer_and_the_manifest_learn_how_models_are_trained(tiny_learner, tmp_path, monkeypatch):
    sentence, starts, observer = "one thread", [], StoppingObserver()
    monkeypatch.setattr(Tiny, "training_method", sentence)
    observer.on_start = starts.append
    run = netfl.run(a_scenario(), tmp_path / "run", observer=observer)
    assert run.manifest["training"] == starts[0].training == sentence


def test_the_manifest_names_the_gpu_that_trains(tiny_learner, tmp_path, monkeypatch):
    assert "gpu" not in netfl.run(a_scenario(), tmp_path / "cpu").manifest["machine"]
    monkeypatch.setattr(Tiny, "gpu", "a GPU")
    assert netfl.run(a_scenario(), tmp_path / "gpu").manifest["machine"]["gpu"] == "a GPU"


def test_a_continued_run_keeps_the_description_of_its_training(tiny_learner, tmp_path, monkeypatch):
    """Threads are measured again, but the number of the checkpoint is used."""
    monkeypatch.setattr(Tiny, "training_method", "two threads")
    stopped = runs.run(a_scenario(), tmp_path / "run", observer=StoppingObserver(2))
    monkeypatch.setattr(Tiny, "training_method", "one thread")
    starts, observer = [], StoppingObserver(4)
    observer.on_start = starts.append
    assert runs.resume(stopped.folder, observer=observer).manifest["training"] == starts[0].training == "two threads"
    for checkpoint in stopped.folder.glob("checkpoint*"):
        checkpoint.unlink()
    assert runs.resume(stopped.folder).manifest["training"] == "one thread"


def test_access_learner_and_observer_are_called_in_order(tiny_learner, tmp_path, monkeypatch):
    log = []
    tiny_learner(log=log)
    original = Bernoulli.rounds

    def rounds(self, context) -> Iterator:
        report = None
        inner = original(self, context)
        for index in range(1, context.rounds + 1):
            log.append(f"round {index} of {context.replica} after {None if report is None else report.round}")
            report = yield inner.send(report)

    monkeypatch.setattr(Bernoulli, "rounds", rounds)
    runs.run(a_scenario(rounds=3), tmp_path / "run", observer=StoppingObserver(log=log))
    assert log == [
        "set up", "opened", "start",
        "round 1 of 0 after None", "round 1 of 1 after None", "step 1", "closed 1",
        "round 2 of 0 after 1", "round 2 of 1 after 1", "step 2", "closed 2",
        "round 3 of 0 after 2", "round 3 of 1 after 2", "step 3", "closed 3",
        "set back",
    ]  # fmt: skip


def test_run_writes_all_files(tiny_learner, tmp_path):
    observer = StoppingObserver()
    run = runs.run(a_scenario(), tmp_path / "run", observer=observer)
    assert sorted(path.name for path in run.folder.glob("[a-z]*")) == [
        "deliveries.parquet", "events.parquet", "final_metrics.parquet", "manifest.json", "metrics.parquet",
        "points.parquet", "regions.parquet", "rounds.parquet", "scenario.yaml", "summary.json", "users.parquet",
    ]  # fmt: skip
    manifest = run.manifest
    assert (manifest["status"], manifest["rounds_done"], manifest["learning"]) == ("done", ROUNDS, True)
    assert run.rounds["round"].tolist() == [*range(1, ROUNDS + 1)] * 2
    assert len(run.deliveries) == run.rounds["delivered"].sum() == (run.events["kind"] == "delivered").sum()
    assert sorted(run.metrics["round"].unique()) == [0, 3, 6, 9, 12]
    assert run.users["samples"].sum() == 2 * 64
    assert (run.users["class:0"] + run.users["class:1"] == run.users["samples"]).all()
    assert [progress.round for progress in observer.progress_seen] == list(range(1, ROUNDS + 1))
    assert observer.progress_seen[0].metrics.keys() == observer.progress_seen[-1].metrics.keys()
    assert run.regions["learner"].unique().tolist() == ["A", "B"]
    assert run.regions.groupby("learner")["label"].unique().map(list).to_dict() == {"A": [0], "B": [2]}
    assert len(run.points) == 16


def test_summary_contains_means_over_replicas_and_outcome_counts(tiny_learner, tmp_path):
    run = runs.run(a_scenario(access=LIMITED), tmp_path / "run")
    metrics, summary = run.metrics, run.summary
    last = metrics[(metrics["round"] == ROUNDS) & (metrics["metric"] == "accuracy") & (metrics["group"] == "")]
    for learner, rows in last.groupby("learner", observed=True):
        assert summary[f"{learner}.accuracy.last_tenth"] == pytest.approx(rows["value"].mean())
        assert summary[f"{learner}.accuracy/class:1.last_tenth"] == pytest.approx(rows["value"].mean() / 2)
    assert not [key for key in summary if "user:" in key]
    outcomes = run.events["kind"].value_counts()
    counts = {outcome: summary[f"outcome.{outcome}"] for outcome in OUTCOMES if summary.get(f"outcome.{outcome}")}
    assert counts == {kind: count for kind, count in outcomes.items() if kind in OUTCOMES and count}
    assert {"delivered", "superseded"} <= counts.keys()


@pytest.mark.slow
def test_metrics_of_a_replica_match_its_tables(tmp_path):
    main = Path(__file__).parents[2] / "scenarios/rural_outage.yaml"
    changes = {"rounds": 40, "replicas": 2, "partition.by": "distance", "record": "none"}
    run = runs.trace(netfl.load(main, changes), tmp_path / "run")
    assert run.events.empty
    delivered = run.deliveries.merge(run.rounds, on=["replica", "round"])
    delivered["delay_s"] = delivered["arrived_s"] - delivered["opened_s"]
    for replica, metrics in enumerate(run.final_metrics_of([0, 1])):
        rows, rounds = delivered[delivered["replica"] == replica], run.rounds[run.rounds["replica"] == replica]
        end_s, counts = rounds["closed_s"].max(), rows.groupby("user").size().reindex(range(30), fill_value=0)
        assert metrics["simulated_s"] == end_s
        assert metrics["rounds_per_hour"] == pytest.approx(40 / (end_s / 3600))
        assert metrics["delivered_per_round"] == pytest.approx(rounds["delivered"].mean())
        for name, value in (
            ("mean", rows["delay_s"].mean()),
            *((f"p{q}", rows["delay_s"].quantile(q / 100)) for q in (50, 95, 99)),
        ):
            assert metrics[f"delay_{name}_s"] == pytest.approx(value)
        assert metrics["attempts_mean"] == pytest.approx(rows["attempts"].mean())
        assert metrics["jain"] == pytest.approx(counts.mean() ** 2 / (counts**2).mean())
        assert metrics["uplink_bits"] == pytest.approx(rounds["uplink_bits"].sum())
        assert metrics["outcome.delivered"] == len(rows)
        assert sum(metrics.get(f"share.{outcome}", 0.0) for outcome in OUTCOMES) == pytest.approx(1.0)
        assert run.summary["delay_mean_s"] == pytest.approx(delivered.groupby("replica")["delay_s"].mean().mean())
    assert run.summary["outcome.delivered"] == len(delivered)
    assert run.summary["replicas"] == 2


def test_metrics_of_an_access_extend_or_replace_the_summary(tmp_path, monkeypatch):
    original = Bernoulli.rounds

    def rounds(self, context):
        yield from original(self, context)
        context.recorder.final_metrics({"jain": 0.125, "own_share": 2.0 + context.replica})

    monkeypatch.setattr(Bernoulli, "rounds", rounds)
    summary = runs.trace(trace_scenario(), tmp_path / "run").summary
    assert (summary["jain"], summary["jain.ci95"]) == (0.125, 0.0)
    assert (summary["own_share"], summary["own_share.ci95"]) == (2.5, pytest.approx(12.706 * 0.5, rel=1e-4))


def test_error_after_the_last_round_names_the_access(tmp_path, monkeypatch):
    original = Bernoulli.rounds

    def rounds(self, context):
        yield from original(self, context)
        raise IndexError("no such user")

    monkeypatch.setattr(Bernoulli, "rounds", rounds)
    with pytest.raises(ModelError, match=r"^bernoulli, at 12 s of simulated time: IndexError: no such user$"):
        runs.trace(trace_scenario(), tmp_path / "run")
    assert netfl.open_run(tmp_path / "run").manifest["status"] == "failed"


def test_summary_averages_the_last_tenth_of_the_rounds(tiny_learner, tmp_path):
    tiny_learner(every=1)
    run = runs.run(a_scenario(rounds=40), tmp_path / "run")
    late = run.metrics.query("round >= 36 and metric == 'accuracy' and group == '' and learner == 'B'")
    assert len(late) == 5 * 2
    assert run.summary["B.accuracy.last_tenth"] == pytest.approx(late["value"].mean())
    assert run.summary["B.accuracy.last_tenth"] != pytest.approx(late.query("round == 40")["value"].mean())
    assert [name for name in run.summary if name.startswith("B.accuracy") and ".last_tenth" not in name] == []


def test_undefined_metric_is_null_in_the_summary(tiny_learner, tmp_path, monkeypatch):
    monkeypatch.setattr(
        Tiny,
        "_report",
        lambda self: LearnerReport(self._at, {"rare_accuracy": np.full(4, np.nan if self._at else 1.0)}),
    )
    run = runs.run(a_scenario(), tmp_path / "run")
    assert run.manifest["status"] == "done"
    assert run.summary["A.rare_accuracy.last_tenth"] is None


def test_stored_scenario_reproduces_the_run(tiny_learner, tmp_path):
    first = runs.run(a_scenario(seed=3), tmp_path / "first")
    runs.run(netfl.load(first.folder / "scenario.yaml"), tmp_path / "second")
    assert_same(tables(tmp_path / "first"), tables(tmp_path / "second"))
    runs.run(a_scenario(seed=4), tmp_path / "third")
    assert not tables(tmp_path / "first")["deliveries"].equals(tables(tmp_path / "third")["deliveries"])


def test_trace_has_the_deliveries_of_the_run(tiny_learner, tmp_path):
    run, trace = runs.run(a_scenario(), tmp_path / "run"), runs.trace(a_scenario(), tmp_path / "trace")
    pd.testing.assert_frame_equal(run.deliveries, trace.deliveries)
    pd.testing.assert_frame_equal(run.rounds, trace.rounds)
    assert trace.manifest["learning"] is False
    assert trace.metrics.empty


def test_more_replicas_do_not_change_the_first_ones(tmp_path):
    two = runs.trace(trace_scenario(), tmp_path / "two").deliveries
    three = runs.trace(trace_scenario(replicas=3), tmp_path / "three").deliveries
    pd.testing.assert_frame_equal(two, three[three["replica"] < 2].reset_index(drop=True))
    delivered = [rows[["round", "user"]].to_numpy().tolist() for _, rows in three.groupby("replica")]
    assert delivered[0] != delivered[1] != delivered[2] != delivered[0]


class TestStopping:
    @pytest.mark.quick_first
    @pytest.mark.parametrize("stop_after", [0, 1, 5, ROUNDS - 1])
    def test_stopped_run_is_readable_and_resumes_exactly(self, tiny_learner, tmp_path, stop_after):
        runs.run(a_scenario(), tmp_path / "whole")
        stopped = runs.run(a_scenario(), tmp_path / "run", observer=StoppingObserver(stop_after))
        assert (stopped.manifest["status"], stopped.manifest["rounds_done"]) == ("interrupted", stop_after)
        assert stopped.rounds["round"].max() == stop_after or stop_after == 0
        assert len(stopped.rounds) == 2 * stop_after
        assert stopped.summary == {}
        assert not list(stopped.folder.glob("*.part"))
        resumed = runs.resume(tmp_path / "run")
        assert resumed.manifest["status"] == "done"
        assert_same(tables(tmp_path / "whole"), tables(tmp_path / "run"))
        assert resumed.summary == netfl.open_run(tmp_path / "whole").summary
        assert not (resumed.folder / CHECKPOINT).exists()

    @pytest.mark.slow
    def test_run_can_be_stopped_repeatedly(self, tiny_learner, tmp_path):
        runs.run(a_scenario(), tmp_path / "whole")
        runs.run(a_scenario(), tmp_path / "run", observer=StoppingObserver(5))
        for stop_after, rounds_done in ((7, 7), (2, 7), (7, 7), (8, 8)):
            assert (
                runs.resume(tmp_path / "run", observer=StoppingObserver(stop_after)).manifest["rounds_done"]
                == rounds_done
            )
        runs.resume(tmp_path / "run")
        assert_same(tables(tmp_path / "whole"), tables(tmp_path / "run"))

    def test_resume_does_not_repeat_rounds_of_the_checkpoint(self, tiny_learner, tmp_path):
        runs.run(a_scenario(), tmp_path / "run", observer=StoppingObserver(5))
        log = []
        tiny_learner(log=log)
        runs.resume(tmp_path / "run")
        assert log == ["set up", *(f"step {index}" for index in range(6, ROUNDS + 1)), "set back"]

    def test_crashed_run_resumes_from_its_last_checkpoint(self, tiny_learner, tmp_path, monkeypatch):
        runs.run(a_scenario(), tmp_path / "whole")
        monkeypatch.setattr("netfl.simulation.checkpoints.CHECKPOINT_EVERY_S", -1.0)
        tiny_learner(fail_at=8, error=RuntimeError("the power went"))
        with pytest.raises(ModelError, match="the power went"):
            runs.run(a_scenario(), tmp_path / "run")
        log = []
        tiny_learner(log=log)
        runs.resume(tmp_path / "run")
        assert log[1] == "step 8"
        assert_same(tables(tmp_path / "whole"), tables(tmp_path / "run"))

    def test_run_without_a_checkpoint_starts_over(self, tiny_learner, tmp_path):
        runs.run(a_scenario(), tmp_path / "whole")
        runs.run(a_scenario(), tmp_path / "run", observer=StoppingObserver(5))
        (tmp_path / "run" / CHECKPOINT).unlink()
        runs.resume(tmp_path / "run")
        assert_same(tables(tmp_path / "whole"), tables(tmp_path / "run"))

    def test_trace_can_be_resumed(self, tmp_path):
        runs.trace(trace_scenario(), tmp_path / "whole")
        runs.trace(trace_scenario(), tmp_path / "run", observer=StoppingObserver(5))
        assert runs.resume(tmp_path / "run").manifest["status"] == "done"
        assert_same(tables(tmp_path / "whole"), tables(tmp_path / "run"))

    def test_finished_run_cannot_be_resumed(self, tmp_path):
        folder = runs.trace(trace_scenario(), tmp_path / "run").folder
        with pytest.raises(ScenarioError) as error:
            runs.resume(folder)
        assert str(error.value) == f"the run in {folder} is finished; use netfl.extend to add replicas"

    def test_resume_detects_changed_rounds(self, tiny_learner, tmp_path):
        runs.run(a_scenario(), tmp_path / "run", observer=StoppingObserver(5))
        path = tmp_path / "run" / "scenario.yaml"
        path.write_text(path.read_text().replace("probability: 0.5", "probability: 0.6"))
        with pytest.raises(MachineError, match="the rounds up to 5 differ from those before"):
            runs.resume(tmp_path / "run")
        assert netfl.open_run(tmp_path / "run").manifest["status"] == "failed"

    @pytest.mark.parametrize("damage", [lambda content: content[:-50], lambda content: b"", lambda content: b"x" * 300])
    def test_damaged_checkpoint_raises_an_error(self, tiny_learner, tmp_path, damage):
        stopped = runs.run(a_scenario(), tmp_path / "run", observer=StoppingObserver(5))
        before = stopped.rounds
        path = tmp_path / "run" / CHECKPOINT
        path.write_bytes(damage(path.read_bytes()))
        with pytest.raises(MachineError) as error:
            runs.resume(tmp_path / "run")
        assert str(error.value) == (
            f"{path} is not a complete checkpoint. To start the run again, remove checkpoint.pt, and then: "
            f"netfl.resume({str(tmp_path / 'run')!r})"
        )
        run = netfl.open_run(tmp_path / "run")
        assert run.status == "interrupted"
        pd.testing.assert_frame_equal(run.rounds, before)


class TestFailing:
    def test_failing_learner_keeps_finished_rounds(self, tiny_learner, tmp_path):
        log = []
        tiny_learner(fail_at=7, error=ZeroDivisionError("by zero"), log=log)
        with pytest.raises(ModelError) as error:
            runs.run(a_scenario(), tmp_path / "run")
        assert str(error.value) == "learning, at 7 s of simulated time: ZeroDivisionError: by zero"
        assert isinstance(error.value.__cause__, ZeroDivisionError)
        assert log[-1] == "set back"
        run = netfl.open_run(tmp_path / "run")
        assert (run.manifest["status"], run.manifest["rounds_done"]) == ("failed", 6)
        assert run.manifest["error"] == str(error.value)
        assert run.rounds["round"].max() == 6
        assert run.metrics["round"].max() == 6
        assert not (run.folder / "summary.json").exists()

    def test_model_error_is_raised_unchanged(self, tiny_learner, tmp_path):
        tiny_learner(fail_at=7, error=ModelError("A", "diverged", user=3, time_s=7.0))
        with pytest.raises(ModelError, match=r"^A, user 3, at 7 s of simulated time: diverged$"):
            runs.run(a_scenario(), tmp_path / "run")

    def test_error_names_the_failing_access(self, tmp_path, monkeypatch):
        original = Bernoulli.candidates

        def candidates(self, context, limit=None):
            for index, users in enumerate(original(self, context, limit)):
                if index == 4:
                    raise IndexError("no such user")
                yield users

        monkeypatch.setattr(Bernoulli, "candidates", candidates)
        with pytest.raises(ModelError) as error:
            runs.trace(trace_scenario(), tmp_path / "run")
        assert str(error.value) == "bernoulli, at 4 s of simulated time: IndexError: no such user"
        run = netfl.open_run(tmp_path / "run")
        assert (run.manifest["status"], run.manifest["rounds_done"]) == ("failed", 4)
        assert run.rounds["round"].max() == 4
        assert run.deliveries["round"].max() == 4

    def test_access_that_ends_early_raises_an_error(self, tmp_path, monkeypatch):
        original = Bernoulli.rounds

        def rounds(self, context):
            inner = original(self, context)
            for _ in range(3):
                yield next(inner)

        monkeypatch.setattr(Bernoulli, "rounds", rounds)
        with pytest.raises(
            ModelError, match=r"^bernoulli, at 3 s of simulated time: the network ends after round 3 of 12$"
        ):
            runs.trace(trace_scenario(), tmp_path / "run")

    def test_write_error_leaves_no_partial_tables(self, tiny_learner, tmp_path):
        tiny_learner(fail_at=7, error=OSError(28, "No space left on device"))
        with pytest.raises(MachineError) as error:
            runs.run(a_scenario(), tmp_path / "run")
        assert str(error.value) == (
            f"cannot write {tmp_path / 'run'}: No space left on device; "
            f"fix this, then continue with: netfl.resume({str(tmp_path / 'run')!r})"
        )
        assert error.value.exit_code == 1
        names = sorted(path.name for path in (tmp_path / "run").glob("*.parquet*"))
        assert names == ["users.parquet"]
        assert netfl.open_run(tmp_path / "run").manifest["status"] == "failed"
        assert netfl.open_run(tmp_path / "run").rounds.empty

    def test_second_interrupt_stops_at_once_with_readable_tables(self, tiny_learner, tmp_path):
        tiny_learner(fail_at=7, error=KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            runs.run(a_scenario(), tmp_path / "run")
        run = netfl.open_run(tmp_path / "run")
        assert run.manifest["status"] == "failed"
        assert run.rounds["round"].max() == 6

    def test_existing_folder_is_refused_and_unchanged(self, tmp_path):
        (tmp_path / "precious").write_text("x")
        with pytest.raises(ScenarioError, match="already exists and is not empty"):
            runs.trace(trace_scenario(), tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_default_folders_of_runs_are_numbered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = [runs.trace(trace_scenario()).folder for _ in range(2)]
    assert folders == [Path("runs/tiny-001"), Path("runs/tiny-002")]


def test_only_recorded_event_kinds_are_stored(tmp_path):
    run = runs.trace(trace_scenario(record=["superseded"], access=LIMITED), tmp_path / "run")
    assert run.events["kind"].unique().tolist() == ["superseded"]
    assert run.summary["outcome.delivered"] == len(run.deliveries)


def generator_states():
    """Return the states of all global random generators."""
    states = [random.getstate(), np.random.get_state()[1].tolist()]  # noqa: NPY002
    if "torch" in sys.modules:
        states.append(sys.modules["torch"].get_rng_state().tolist())
    return states


def test_global_random_generators_are_unchanged(tmp_path):
    import torch

    random.seed(1)
    torch.manual_seed(1)
    before = generator_states()
    runs.run(a_scenario(rounds=2), tmp_path / "run", device="cpu")
    assert generator_states() == before


def test_replayed_trace_reproduces_the_live_run(tmp_path):
    live = runs.run(a_scenario(rounds=6), tmp_path / "live", device="cpu")
    runs.trace(a_scenario(rounds=6), tmp_path / "trace")
    access = {"kind": "replay", "run": str(tmp_path / "trace")}
    replayed = runs.run(a_scenario(rounds=6, access=access), tmp_path / "replayed", device="cpu")
    pd.testing.assert_frame_equal(live.metrics, replayed.metrics, check_exact=True)
    pd.testing.assert_frame_equal(live.deliveries, replayed.deliveries, check_exact=True)


def test_resumed_run_equals_the_complete_run(tmp_path):
    runs.run(a_scenario(), tmp_path / "whole", device="cpu")
    runs.run(a_scenario(), tmp_path / "run", device="cpu", observer=StoppingObserver(5))
    runs.resume(tmp_path / "run", device="cpu")
    assert_same(tables(tmp_path / "whole"), tables(tmp_path / "run"))


def test_a_second_run_into_the_same_folder_names_the_argument_of_python(tmp_path):
    scenario = {"name": "twice", "users": 2, "rounds": 2, "access": {"kind": "bernoulli", "probability": 0.5}}
    netfl.trace(scenario, tmp_path / "run")
    with pytest.raises(ScenarioError) as raised:
        netfl.trace(scenario, tmp_path / "run")
    remedy = "use another folder, or give none for a new one"
    assert str(raised.value) == f"out: {tmp_path / 'run'} already exists and is not empty; {remedy}"
    with pytest.raises(ScenarioError, match=r"^out: an address"):
        netfl.trace(scenario, "s3://bucket/run")


def test_a_manifest_without_a_key_that_resume_needs_is_damaged(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "manifest.json").write_text("{}")
    (folder / "scenario.yaml").write_text("{name: a, users: 2, rounds: 1, access: {kind: bernoulli, probability: 1}}")
    with pytest.raises(MachineError, match=r"manifest\.json cannot be read: .*it has no 'learning'.*; restore it"):
        netfl.resume(folder, progress=False)
