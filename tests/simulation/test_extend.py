"""Extension of a run: only new replicas run, and the result equals a run with all replicas."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from support.stop_run import StopAfter
from typer.testing import CliRunner

import netfl
from netfl.access.bernoulli import Bernoulli
from netfl.cli import app
from netfl.errors import MachineError, ModelError, ScenarioError
from netfl.results.atomic_write import write_json
from netfl.results.digests import run_digests, signed, verify_runs
from netfl.results.run_reader import EXTENSION
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation import extend
from netfl.simulation.progress import ProgressDisplay

ROUNDS = 12
NETWORK = ("rounds", "deliveries", "events", "users", "nodes", "final_metrics")
MAIN = Path(__file__).parents[2] / "scenarios/rural_outage.yaml"


def bernoulli(replicas, **overrides):
    access = {"kind": "bernoulli", "probability": 0.5}
    settings = {"name": "tiny", "users": 4, "rounds": ROUNDS, "replicas": replicas, "access": access, **overrides}
    return validate(ScenarioDocument(settings, "tiny"))


def learning(replicas, **overrides):
    average_risk = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 4, "local_steps": 1}
    tail_risk = average_risk | {"objective": {"kind": "cvar", "alpha": 0.3, "gamma": 0.3, "lr_t": 0.01}}
    data = {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 40}
    sections = {"data": data, "partition": "iid", "model": "logistic", "learners": {"A": average_risk, "B": tail_risk}}
    return bernoulli(replicas, **sections, evaluate={"every": 3}, **overrides)


def sort_by_replica(run, name):
    """Return a table sorted by replica; the order within a replica is unchanged."""
    table = run.table(name)
    keys = ["replica", "time_s"] if name == "events" else ["replica"]
    return table.sort_values(keys, kind="stable", ignore_index=True) if len(table) else table


def assert_same(first, second, tables=NETWORK):
    for name in tables:
        pd.testing.assert_frame_equal(sort_by_replica(first, name), sort_by_replica(second, name), check_exact=True)


@pytest.fixture
def two_replicas(tmp_path):
    """A finished trace of two replicas."""
    return netfl.trace(bernoulli(2), tmp_path / "run")


@pytest.fixture
def complete(tmp_path):
    """A finished trace of five replicas."""
    return netfl.trace(bernoulli(5), tmp_path / "whole")


def test_extended_run_equals_the_run_with_all_replicas(two_replicas, complete):
    run = netfl.extend(two_replicas.folder, 5)
    assert_same(run, complete)
    assert run.summary == complete.summary
    assert (run.folder / "scenario.yaml").read_text() == (complete.folder / "scenario.yaml").read_text()
    assert (run.status, run.manifest["replicas"]) == ("done", 5)
    assert [(extension["first"], extension["replicas"]) for extension in run.manifest["extensions"]] == [(2, 5)]
    assert {path.name for path in run.folder.iterdir()} == {path.name for path in complete.folder.iterdir()}


@pytest.mark.slow
def test_network_is_extended_exactly(tmp_path):
    changes = {"rounds": 15, "record": "all", "partition.by": "distance"}
    for name, replicas in (("run", 1), ("whole", 3)):
        netfl.trace(netfl.load(MAIN, changes | {"replicas": replicas}), tmp_path / name)
    run, complete = netfl.extend(tmp_path / "run", 3), netfl.open_run(tmp_path / "whole")
    assert len(run.nodes) > 3
    assert_same(run, complete)
    assert run.summary == complete.summary


@pytest.mark.slow
def test_columns_that_were_added_since_get_their_defaults(tmp_path):
    """A run whose tables lack columns of this version is extended, and its rows have the defaults."""
    run = netfl.trace(netfl.load(MAIN, {"rounds": 5, "partition.by": "distance"}), tmp_path / "run")
    for name, columns in (("events", ["traffic"]), ("users", ["node", "attempts", "attempts_lost"])):
        path = run.folder / f"{name}.parquet"
        pq.write_table(pq.read_table(path).drop_columns(columns), path)
    write_json(run.folder / "manifest.json", signed(run.manifest | {"digests": run_digests(run.folder)}))
    extended = netfl.extend(run.folder, 2)
    assert set(extended.events["traffic"]) == {""}
    users = extended.users.set_index("replica")
    assert users.loc[0, ["node", "attempts", "attempts_lost"]].isna().all(axis=None)
    assert users.loc[1, ["node", "attempts", "attempts_lost"]].notna().all(axis=None)


def test_run_with_a_duration_is_extended_exactly(tmp_path, watched):
    for name, replicas in (("run", 2), ("whole", 4)):
        settings = {"name": "toy", "users": 2, "replicas": replicas, "duration": "5 s", "access": {"kind": watched}}
        netfl.trace(validate(ScenarioDocument(settings, "toy")), tmp_path / name)
    run, complete = netfl.extend(tmp_path / "run", 4), netfl.open_run(tmp_path / "whole")
    assert_same(run, complete)
    assert run.summary == complete.summary


@pytest.mark.slow
def test_learning_is_extended_within_a_float_tolerance(tmp_path):
    before = netfl.run(learning(1), tmp_path / "run", device="cpu")
    regions, points, metrics = before.regions, before.points, before.metrics
    run = netfl.extend(tmp_path / "run", 3, device="cpu")
    complete = netfl.run(learning(3), tmp_path / "whole", device="cpu")
    assert_same(run, complete, ("rounds", "deliveries", "events", "users"))
    keys = ["learner", "replica", "round", "metric", "group"]
    extended_metrics, complete_metrics = (
        run_.metrics.astype({"learner": str}).sort_values(keys, ignore_index=True) for run_ in (run, complete)
    )
    pd.testing.assert_frame_equal(extended_metrics[keys], complete_metrics[keys], check_categorical=False)
    np.testing.assert_allclose(extended_metrics["value"], complete_metrics["value"], rtol=1e-5, atol=1e-6)
    assert run.summary.keys() == complete.summary.keys()
    for name, value in complete.summary.items():
        assert run.summary[name] == pytest.approx(value, rel=1e-4, abs=1e-5), name
    pd.testing.assert_frame_equal(run.metrics[run.metrics["replica"] == 0], metrics, check_categorical=False)
    pd.testing.assert_frame_equal(run.regions, regions)
    pd.testing.assert_frame_equal(run.points, points)


def test_existing_replicas_are_not_run_again(two_replicas, monkeypatch):
    simulated, original = [], Bernoulli.rounds

    def rounds(self, context):
        simulated.append(context.replica)
        return original(self, context)

    monkeypatch.setattr(Bernoulli, "rounds", rounds)
    netfl.extend(two_replicas.folder, 4)
    assert simulated == [2, 3]


def test_run_can_be_extended_repeatedly(two_replicas, complete):
    for replicas in (3, 5):
        run = netfl.extend(two_replicas.folder, replicas)
    assert_same(run, complete)
    assert run.summary == complete.summary
    assert [(extension["first"], extension["replicas"]) for extension in run.manifest["extensions"]] == [(2, 3), (3, 5)]


def test_resumed_run_can_be_extended(tmp_path, complete):
    netfl.trace(bernoulli(2), tmp_path / "run", observer=StopAfter(5))
    netfl.resume(tmp_path / "run")
    assert_same(netfl.extend(tmp_path / "run", 5), complete)


def test_extension_deletes_reports_and_plots(two_replicas):
    for name in ("report.html", "overview.png"):
        (two_replicas.folder / name).write_text("old")
    run = netfl.extend(two_replicas.folder, 3)
    assert not {"report.html", "overview.png"} & {path.name for path in run.folder.iterdir()}


class TestRefusals:
    def model_with_file(self, folder, replicas):
        with pytest.raises(ScenarioError) as error:
            netfl.extend(folder, replicas)
        assert not (Path(folder) / EXTENSION).exists()
        return str(error.value)

    def test_unfinished_run(self, tmp_path):
        folder = netfl.trace(bernoulli(2), tmp_path / "run", observer=StopAfter(5)).folder
        assert self.model_with_file(folder, 5) == (
            f"the run in {folder} is not finished (interrupted); finish it first: netfl.resume({str(folder)!r})"
        )

    @pytest.mark.parametrize("replicas", [1, 2])
    def test_number_of_replicas_must_increase(self, two_replicas, replicas):
        assert self.model_with_file(two_replicas.folder, replicas) == (
            f"replicas: the run in {two_replicas.folder} already has 2 ({replicas}); "
            "give more than 2: it is the total number"
        )
        assert netfl.open_run(two_replicas.folder).summary["replicas"] == 2

    def test_replay_of_a_run_with_fewer_replicas(self, two_replicas, tmp_path):
        access = {"kind": "replay", "run": str(two_replicas.folder)}
        folder = netfl.trace(bernoulli(1, access=access), tmp_path / "replay").folder
        assert len(netfl.extend(folder, 2).rounds) == 2 * ROUNDS
        line = self.model_with_file(folder, 3)
        assert line.endswith("access.run: 2 replicas are recorded, the scenario needs 3; set fewer replicas")
        assert line.startswith(f"{folder}/scenario.yaml:")

    def test_folder_without_a_run(self, tmp_path):
        (tmp_path / "empty").mkdir()
        assert "is not a run directory" in self.model_with_file(tmp_path / "empty", 3)


class TestCrashes:
    def unchanged(self, folder, before):
        run = netfl.open_run(folder)
        assert all(result.good for result in verify_runs(folder))
        assert (run.status, run.manifest["replicas"]) == ("done", 2)
        for name in NETWORK:
            pd.testing.assert_frame_equal(run.table(name), before[name], check_exact=True, check_categorical=False)

    @pytest.mark.parametrize("damage", ["missing", "empty", "zeros"])
    @pytest.mark.parametrize("name", ["users", "events"])
    def test_damaged_table_is_reported_before_replicas_are_simulated(self, two_replicas, monkeypatch, name, damage):
        path = two_replicas.folder / f"{name}.parquet"
        content = path.read_bytes()
        if damage == "missing":
            path.unlink()
        else:  # zeros: only the data are damaged, the footer is readable
            path.write_bytes(b"" if damage == "empty" else content[:4] + bytes(100) + content[104:])
        monkeypatch.setattr(extend, "RunPerformer", lambda *_: pytest.fail("replicas are simulated"))
        with pytest.raises(MachineError) as error:
            netfl.extend(two_replicas.folder, 5)
        problem = "is missing" if damage == "missing" else "cannot be read: it is damaged"
        assert str(error.value).startswith(f"{path} {problem}")
        assert str(error.value).endswith("; restore it from a copy, or repeat the run that wrote it")
        assert not (two_replicas.folder / EXTENSION).exists()

    @pytest.mark.slow
    def test_stopped_extension_leaves_the_run_unchanged_and_resumes(self, two_replicas, complete):
        before = {name: two_replicas.table(name) for name in NETWORK}
        for stop_after in (3, 7, 7):
            stopped = netfl.extend(two_replicas.folder, 5, observer=StopAfter(stop_after))
            assert stopped.manifest["replicas"] == 2
            self.unchanged(two_replicas.folder, before)
        run = netfl.extend(two_replicas.folder, 5)
        assert_same(run, complete)
        assert run.summary == complete.summary

    @pytest.mark.slow
    def test_resumed_extension_does_not_repeat_training(self, tmp_path, monkeypatch):
        from netfl.learning.learner import BatchedLearner

        netfl.run(learning(1), tmp_path / "run", device="cpu")
        netfl.extend(tmp_path / "run", 3, device="cpu", observer=StopAfter(8))
        steps, original = [], BatchedLearner.step
        monkeypatch.setattr(
            BatchedLearner, "step", lambda self, rounds: (steps.append(rounds[0].index), original(self, rounds))[1]
        )
        run = netfl.extend(tmp_path / "run", 3, device="cpu")
        assert steps == list(range(9, ROUNDS + 1))
        assert sorted(run.metrics["replica"].unique()) == [0, 1, 2]

    @pytest.mark.quick_first
    @pytest.mark.parametrize("tables_done", range(6))
    def test_crash_between_tables_leaves_the_run_unchanged(self, two_replicas, complete, monkeypatch, tables_done):
        before, original, calls = {name: two_replicas.table(name) for name in NETWORK}, extend.append_replicas, []

        def append(*arguments):
            if len(calls) == tables_done:
                raise KeyboardInterrupt
            calls.append(arguments)
            original(*arguments)

        monkeypatch.setattr(extend, "append_replicas", append)
        if tables_done < 5:
            with pytest.raises(KeyboardInterrupt):
                netfl.extend(two_replicas.folder, 5)
            self.unchanged(two_replicas.folder, before)
            assert all(result.good for result in verify_runs(two_replicas.folder))
        monkeypatch.setattr(extend, "append_replicas", original)
        run = netfl.extend(two_replicas.folder, 5)
        assert_same(run, complete)
        assert run.summary == complete.summary

    @pytest.mark.quick_first
    @pytest.mark.parametrize("function", ["write_text", "write_json", "write_extended", "publish_folder"])
    def test_crash_between_small_files_can_be_recovered(self, two_replicas, complete, monkeypatch, function):
        original = getattr(extend, function)

        def crash(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(extend, function, crash)
        before = {name: two_replicas.table(name) for name in NETWORK}
        with pytest.raises(KeyboardInterrupt):
            netfl.extend(two_replicas.folder, 5)
        self.unchanged(two_replicas.folder, before)
        monkeypatch.setattr(extend, function, original)
        assert netfl.extend(two_replicas.folder, 5).summary == complete.summary

    @pytest.mark.quick_first
    @pytest.mark.parametrize("files_done", range(8))
    def test_crash_while_files_are_replaced_leaves_the_extended_run(
        self, two_replicas, complete, monkeypatch, files_done
    ):
        """Scenario, summary, manifest and five tables take their places; from the first on, the run has all of them."""
        original, calls = extend.publish_file, []

        def publish(*arguments):
            if len(calls) == files_done:
                raise KeyboardInterrupt
            calls.append(arguments)
            original(*arguments)

        monkeypatch.setattr(extend, "publish_file", publish)
        with pytest.raises(KeyboardInterrupt):
            netfl.extend(two_replicas.folder, 5)
        run = netfl.open_run(two_replicas.folder)
        assert all(result.good for result in verify_runs(run.folder, complete.folder))
        assert_same(run, complete)
        assert (run.status, run.manifest["replicas"], run.summary) == ("done", 5, complete.summary)
        monkeypatch.setattr(extend, "publish_file", original)
        extended = netfl.extend(two_replicas.folder, 5)
        assert_same(extended, complete)
        assert {path.name for path in run.folder.iterdir()} == {path.name for path in complete.folder.iterdir()}

    def test_crash_before_the_folder_is_deleted_can_be_recovered(self, two_replicas, complete, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(extend.shutil, "rmtree", lambda *_, **__: None)
            netfl.extend(two_replicas.folder, 4)
        assert (two_replicas.folder / EXTENSION / "manifest.json").exists()
        assert_same(netfl.extend(two_replicas.folder, 5), complete)

    def test_other_number_of_replicas_starts_the_extension_over(self, two_replicas, complete):
        netfl.extend(two_replicas.folder, 3, observer=StopAfter(5))
        assert_same(netfl.extend(two_replicas.folder, 5), complete)

    def test_full_disk_raises_a_machine_error(self, two_replicas, monkeypatch):
        def append(*_):
            raise OSError(28, "No space left on device")

        before = {name: two_replicas.table(name) for name in NETWORK}
        monkeypatch.setattr(extend, "append_replicas", append)
        with pytest.raises(MachineError) as error:
            netfl.extend(two_replicas.folder, 5)
        assert str(error.value) == (
            f"cannot continue to extend {two_replicas.folder}: No space left on device; its 2 replicas are unchanged. "
            f"Fix this, then repeat: netfl.extend({str(two_replicas.folder)!r}, replicas=5)"
        )
        self.unchanged(two_replicas.folder, before)

    def test_full_disk_in_the_merge_is_no_error_of_the_table(self, two_replicas, monkeypatch):
        """The tables are read and written at the same time, but only writing fails."""
        original = extend.append_replicas

        def write_table(*_):
            raise OSError(28, "No space left on device")

        def append(*arguments):
            monkeypatch.setattr(pq.ParquetWriter, "write_table", write_table)
            original(*arguments)

        monkeypatch.setattr(extend, "append_replicas", append)
        with pytest.raises(
            MachineError, match=r"^cannot continue to extend .*: No space left on device; its 2 replicas"
        ):
            netfl.extend(two_replicas.folder, 5)
        assert all(result.good for result in verify_runs(two_replicas.folder))

    def test_failing_model_leaves_the_run_unchanged(self, two_replicas, monkeypatch):
        before, original = {name: two_replicas.table(name) for name in NETWORK}, Bernoulli.candidates

        def candidates(self, context, limit=None):
            yield from list(original(self, context, limit))[:4]
            raise LookupError("no more luck")

        monkeypatch.setattr(Bernoulli, "candidates", candidates)
        with pytest.raises(ModelError, match="no more luck"):
            netfl.extend(two_replicas.folder, 5)
        self.unchanged(two_replicas.folder, before)


class TestCommand:
    def call(self, *arguments):
        result = CliRunner().invoke(app, ["extend", *map(str, arguments)])
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result.exit_code, result.output

    def test_command_extends_and_shows_means(self, two_replicas):
        code, output = self.call(two_replicas.folder, "--replicas", 3)
        assert code == 0
        assert "Means over 3 replicas" in output
        assert len(netfl.open_run(two_replicas.folder).rounds) == 3 * ROUNDS

    def test_invalid_arguments(self, two_replicas):
        assert self.call(two_replicas.folder)[0] == 2
        assert self.call(two_replicas.folder, "--replicas", 0)[0] == 2
        code, output = self.call(two_replicas.folder, "--replicas", 2)
        assert code == 2
        assert "already has 2" in output

    @pytest.mark.parametrize(("place", "function"), [(ProgressDisplay, "on_round"), (extend, "append_replicas")])
    def test_immediate_interruption_prints_the_command_to_continue(self, two_replicas, monkeypatch, place, function):
        def interrupt(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(place, function, interrupt)
        code, output = self.call(two_replicas.folder, "--replicas", 4, "-q")
        command = f"netfl extend {two_replicas.folder} --replicas 4"
        assert (code, output) == (130, f"stopped; continue with: {command}\n")

    def test_stop_prints_the_command_to_continue(self, two_replicas, monkeypatch):
        original = extend.RunPerformer
        monkeypatch.setattr(extend, "RunPerformer", lambda _, *arguments: original(StopAfter(4), *arguments))
        code, output = self.call(two_replicas.folder, "--replicas", 4)
        assert code == 130
        assert (
            output
            == f"interrupted with 2 of 4 replicas; continue with: netfl extend {two_replicas.folder} --replicas 4\n"
        )
