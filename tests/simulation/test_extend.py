"""Replicas added later: only they are run, and the run becomes what it would have been with all from the start."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.stop_run import StopAfter
from typer.testing import CliRunner

import netfl
from netfl.access.bernoulli import Bernoulli
from netfl.cli import app
from netfl.errors import MachineError, ModelError, ScenarioError
from netfl.results.run_reader import EXTENSION
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation import extend

ROUNDS = 12
NETWORK = ("rounds", "deliveries", "events", "users", "nodes", "final_metrics")
MAIN = Path(__file__).parents[2] / "scenarios/rural_outage.yaml"


def bernoulli(replicas, **more):
    access = {"kind": "bernoulli", "probability": 0.5}
    said = {"name": "tiny", "users": 4, "rounds": ROUNDS, "replicas": replicas, "access": access, **more}
    return validate(ScenarioDocument(said, "tiny"))


def learning(replicas, **more):
    one = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 4, "local_steps": 1}
    two = one | {"objective": {"kind": "cvar", "alpha": 0.3, "gamma": 0.3, "lr_t": 0.01}}
    data = {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 40}
    parts = {"data": data, "partition": "iid", "model": "logistic", "learners": {"A": one, "B": two}}
    return bernoulli(replicas, **parts, evaluate={"every": 3}, **more)


def in_order(run, name):
    """A table by replica, its rows of a replica as they were."""
    table = run.table(name)
    keys = ["replica", "time_s"] if name == "events" else ["replica"]
    return table.sort_values(keys, kind="stable", ignore_index=True) if len(table) else table


def assert_same(one, other, tables=NETWORK):
    for name in tables:
        pd.testing.assert_frame_equal(in_order(one, name), in_order(other, name), check_exact=True)


@pytest.fixture
def two(tmp_path):
    """A finished trace of two replicas."""
    return netfl.trace(bernoulli(2), tmp_path / "run")


@pytest.fixture
def whole(tmp_path):
    """One with all five from the start."""
    return netfl.trace(bernoulli(5), tmp_path / "whole")


def test_an_extended_run_is_the_run_with_all_replicas(two, whole):
    run = netfl.extend(two.folder, 5)
    assert_same(run, whole)
    assert run.summary == whole.summary
    assert (run.folder / "scenario.yaml").read_text() == (whole.folder / "scenario.yaml").read_text()
    assert (run.status, run.manifest["replicas"]) == ("done", 5)
    assert [(one["first"], one["replicas"]) for one in run.manifest["extensions"]] == [(2, 5)]
    assert {path.name for path in run.folder.iterdir()} == {path.name for path in whole.folder.iterdir()}


@pytest.mark.slow
def test_a_network_is_extended_exactly(tmp_path):
    changes = {"rounds": 15, "record": "all", "partition.by": "distance"}
    for name, replicas in (("run", 1), ("whole", 3)):
        netfl.trace(netfl.load(MAIN, changes | {"replicas": replicas}), tmp_path / name)
    run, whole = netfl.extend(tmp_path / "run", 3), netfl.open_run(tmp_path / "whole")
    assert len(run.nodes) > 3
    assert_same(run, whole)
    assert run.summary == whole.summary


def test_traffic_that_is_watched_is_extended_exactly(tmp_path, watched):
    for name, replicas in (("run", 2), ("whole", 4)):
        said = {"name": "toy", "users": 2, "replicas": replicas, "duration": "5 s", "access": {"kind": watched}}
        netfl.trace(validate(ScenarioDocument(said, "toy")), tmp_path / name)
    run, whole = netfl.extend(tmp_path / "run", 4), netfl.open_run(tmp_path / "whole")
    assert_same(run, whole)
    assert run.summary == whole.summary


@pytest.mark.slow
def test_learning_is_extended_within_a_float_tolerance(tmp_path):
    before = netfl.run(learning(1), tmp_path / "run", device="cpu")
    regions, points, kept = before.regions, before.points, before.metrics
    run = netfl.extend(tmp_path / "run", 3, device="cpu")
    whole = netfl.run(learning(3), tmp_path / "whole", device="cpu")
    assert_same(run, whole, ("rounds", "deliveries", "events", "users"))
    keys = ["learner", "replica", "round", "metric", "group"]
    ours, theirs = (one.metrics.astype({"learner": str}).sort_values(keys, ignore_index=True) for one in (run, whole))
    pd.testing.assert_frame_equal(ours[keys], theirs[keys], check_categorical=False)
    np.testing.assert_allclose(ours["value"], theirs["value"], rtol=1e-5, atol=1e-6)
    assert run.summary.keys() == whole.summary.keys()
    for name, value in whole.summary.items():
        assert run.summary[name] == pytest.approx(value, rel=1e-4, abs=1e-5), name
    pd.testing.assert_frame_equal(run.metrics[run.metrics["replica"] == 0], kept, check_categorical=False)
    pd.testing.assert_frame_equal(run.regions, regions)
    pd.testing.assert_frame_equal(run.points, points)


def test_replicas_that_are_there_are_not_run_again(two, monkeypatch):
    asked, real = [], Bernoulli.rounds

    def rounds(self, setting):
        asked.append(setting.replica)
        return real(self, setting)

    monkeypatch.setattr(Bernoulli, "rounds", rounds)
    netfl.extend(two.folder, 4)
    assert asked == [2, 3]


def test_a_run_can_be_extended_again_and_again(two, whole):
    for replicas in (3, 5):
        run = netfl.extend(two.folder, replicas)
    assert_same(run, whole)
    assert run.summary == whole.summary
    assert [(one["first"], one["replicas"]) for one in run.manifest["extensions"]] == [(2, 3), (3, 5)]


def test_a_resumed_run_can_be_extended(tmp_path, whole):
    netfl.trace(bernoulli(2), tmp_path / "run", observer=StopAfter(5))
    netfl.resume(tmp_path / "run")
    assert_same(netfl.extend(tmp_path / "run", 5), whole)


def test_what_was_made_of_the_run_before_is_gone(two):
    for name in ("report.html", "overview.png"):
        (two.folder / name).write_text("old")
    run = netfl.extend(two.folder, 3)
    assert not {"report.html", "overview.png"} & {path.name for path in run.folder.iterdir()}


class TestRefusals:
    def refused(self, folder, replicas):
        with pytest.raises(ScenarioError) as raised:
            netfl.extend(folder, replicas)
        assert not (Path(folder) / EXTENSION).exists()
        return str(raised.value)

    def test_an_unfinished_run(self, tmp_path):
        folder = netfl.trace(bernoulli(2), tmp_path / "run", observer=StopAfter(5)).folder
        assert self.refused(folder, 5) == (
            f"the run in {folder} is not finished (interrupted); finish it first: netfl resume {folder}"
        )

    @pytest.mark.parametrize("replicas", [1, 2])
    def test_no_more_than_there_are(self, two, replicas):
        assert self.refused(two.folder, replicas) == (
            f"--replicas: the run in {two.folder} already has 2 ({replicas}); give more than 2: it is the total number"
        )
        assert netfl.open_run(two.folder).summary["replicas"] == 2

    def test_a_replay_of_fewer(self, two, tmp_path):
        access = {"kind": "replay", "run": str(two.folder)}
        folder = netfl.trace(bernoulli(1, access=access), tmp_path / "replay").folder
        assert len(netfl.extend(folder, 2).rounds) == 2 * ROUNDS
        line = self.refused(folder, 3)
        assert line.endswith("access.run: 2 replicas are recorded, the scenario has 3; set fewer replicas")
        assert line.startswith(f"{folder}/scenario.yaml:")

    def test_no_run(self, tmp_path):
        (tmp_path / "empty").mkdir()
        assert "is not a run directory" in self.refused(tmp_path / "empty", 3)


class TestCrashes:
    def unchanged(self, folder, before):
        run = netfl.open_run(folder)
        assert (run.status, run.manifest["replicas"]) == ("done", 2)
        for name in NETWORK:
            pd.testing.assert_frame_equal(run.table(name), before[name], check_exact=True, check_categorical=False)

    @pytest.mark.slow
    def test_a_stopped_extension_leaves_the_run_and_goes_on(self, two, whole):
        before = {name: two.table(name) for name in NETWORK}
        for after in (3, 7, 7):
            stopped = netfl.extend(two.folder, 5, observer=StopAfter(after))
            assert stopped.manifest["replicas"] == 2
            self.unchanged(two.folder, before)
        run = netfl.extend(two.folder, 5)
        assert_same(run, whole)
        assert run.summary == whole.summary

    @pytest.mark.slow
    def test_what_was_learned_before_the_stop_is_not_learned_again(self, tmp_path, monkeypatch):
        from netfl.learning.learner import BatchedLearner

        netfl.run(learning(1), tmp_path / "run", device="cpu")
        netfl.extend(tmp_path / "run", 3, device="cpu", observer=StopAfter(8))
        steps, real = [], BatchedLearner.step
        monkeypatch.setattr(
            BatchedLearner, "step", lambda self, rounds: (steps.append(rounds[0].index), real(self, rounds))[1]
        )
        run = netfl.extend(tmp_path / "run", 3, device="cpu")
        assert steps == list(range(9, ROUNDS + 1))
        assert sorted(run.metrics["replica"].unique()) == [0, 1, 2]

    @pytest.mark.quick_first
    @pytest.mark.parametrize("joined", range(6))
    def test_a_crash_between_tables_leaves_the_run_as_it_was(self, two, whole, monkeypatch, joined):
        before, real, calls = {name: two.table(name) for name in NETWORK}, extend.append_replicas, []

        def join(*words):
            if len(calls) == joined:
                raise KeyboardInterrupt
            calls.append(words)
            real(*words)

        monkeypatch.setattr(extend, "append_replicas", join)
        if joined < 5:
            with pytest.raises(KeyboardInterrupt):
                netfl.extend(two.folder, 5)
            self.unchanged(two.folder, before)
        monkeypatch.setattr(extend, "append_replicas", real)
        run = netfl.extend(two.folder, 5)
        assert_same(run, whole)
        assert run.summary == whole.summary

    @pytest.mark.quick_first
    @pytest.mark.parametrize("function", ["write_text", "write_json", "write_extended"])
    def test_a_crash_between_the_small_files_can_be_finished(self, two, whole, monkeypatch, function):
        real = getattr(extend, function)

        def crash(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(extend, function, crash)
        before = {name: two.table(name) for name in NETWORK}
        with pytest.raises(KeyboardInterrupt):
            netfl.extend(two.folder, 5)
        self.unchanged(two.folder, before)
        monkeypatch.setattr(extend, function, real)
        assert netfl.extend(two.folder, 5).summary == whole.summary

    def test_a_crash_before_the_folder_is_removed_does_no_harm(self, two, whole, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(extend.shutil, "rmtree", lambda *_, **__: None)
            netfl.extend(two.folder, 4)
        assert (two.folder / EXTENSION / "manifest.json").exists()
        assert_same(netfl.extend(two.folder, 5), whole)

    def test_another_number_begins_anew(self, two, whole):
        netfl.extend(two.folder, 3, observer=StopAfter(5))
        assert_same(netfl.extend(two.folder, 5), whole)

    def test_a_full_disk_is_the_machine_s_fault(self, two, monkeypatch):
        def join(*_):
            raise OSError(28, "No space left on device")

        before = {name: two.table(name) for name in NETWORK}
        monkeypatch.setattr(extend, "append_replicas", join)
        with pytest.raises(MachineError) as raised:
            netfl.extend(two.folder, 5)
        assert str(raised.value) == (
            f"cannot continue to extend {two.folder}: No space left on device; the run is unchanged. "
            f"Fix this, then repeat: netfl extend {two.folder} --replicas 5"
        )
        self.unchanged(two.folder, before)

    def test_a_model_that_fails_leaves_the_run(self, two, monkeypatch):
        before, real = {name: two.table(name) for name in NETWORK}, Bernoulli.candidates

        def candidates(self, context, limit=None):
            yield from list(real(self, context, limit))[:4]
            raise LookupError("no more luck")

        monkeypatch.setattr(Bernoulli, "candidates", candidates)
        with pytest.raises(ModelError, match="no more luck"):
            netfl.extend(two.folder, 5)
        self.unchanged(two.folder, before)


class TestCommand:
    def call(self, *words):
        result = CliRunner().invoke(app, ["extend", *map(str, words)])
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result.exit_code, result.output

    def test_it_extends_and_shows_the_means(self, two):
        code, output = self.call(two.folder, "--replicas", 3)
        assert code == 0
        assert "Means over 3 replicas" in output
        assert len(netfl.open_run(two.folder).rounds) == 3 * ROUNDS

    def test_bad_words(self, two):
        assert self.call(two.folder)[0] == 2
        assert self.call(two.folder, "--replicas", 0)[0] == 2
        code, output = self.call(two.folder, "--replicas", 2)
        assert code == 2
        assert "already has 2" in output

    def test_a_stop_says_how_to_go_on(self, two, monkeypatch):
        real = extend.perform_run
        monkeypatch.setattr(extend, "perform_run", lambda *words: real(*words[:3], StopAfter(4), *words[4:]))
        code, output = self.call(two.folder, "--replicas", 4, "-q")
        assert code == 1
        assert output == f"interrupted; continue with: netfl extend {two.folder} --replicas 4\n"
