"""The same scenario gives the same tables, a run says which, can be held to them, and says what else has changed."""

import json
import logging
from hashlib import blake2b

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.small_network import SECTION
from support.stop_run import StopAfter
from support.tiny_scenarios import said_of, world
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.errors import ScenarioError
from netfl.learning.model import Model
from netfl.registry import list_kinds
from netfl.results import digests
from netfl.results.digests import verify_runs
from netfl.results.manifest import versions
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.sweeps import task as work
from netfl.sweeps.task import task_folder

LEARNER = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 4, "local_steps": 1}
DECIDED = ("rounds", "deliveries", "events", "users", "nodes")


def a_scenario(**more):
    said = {
        "name": "small", "users": 3, "rounds": 4, "replicas": 2, "access": SECTION,
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 20}, "partition": "iid", "model": "logistic",
        "learners": {"A": LEARNER}, "evaluate": {"every": 2}, **more,
    }  # fmt: skip
    return validate(ScenarioDocument(said, "small"))


class Here:
    """Does the tasks of a sweep in this process."""

    def run(self, tasks, folder, heard, stop):
        for task in tasks:
            heard(
                work.run_task(
                    task, task_folder(folder, task.key), "cpu", work.TaskReporter(task.key, lambda told: None)
                )
            )


def edit(folder, **told):
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | told))


def told(run, tables=DECIDED):
    return {name: run.manifest["digests"][name] for name in tables}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return netfl.run(a_scenario(), tmp_path_factory.mktemp("alone") / "run", device="cpu")


def test_the_scenario_that_a_run_keeps_gives_the_same_digests(alone, tmp_path):
    again = netfl.run(netfl.load(alone.folder / "scenario.yaml"), tmp_path / "again", device="cpu")
    assert again.manifest["digests"] == alone.manifest["digests"] == digests.run_digests(again.folder)
    assert {*DECIDED, "final_metrics", "metrics", "regions", "points"} == alone.manifest["digests"].keys()


@pytest.mark.slow
def test_so_do_workers(alone, tmp_path):
    assert told(netfl.run(a_scenario(), tmp_path / "run", device="cpu", workers=2)) == told(alone)


def test_so_does_a_run_that_was_stopped(alone, tmp_path):
    stopped = netfl.run(a_scenario(), tmp_path / "run", device="cpu", observer=StopAfter(2))
    assert "digests" not in stopped.manifest
    assert netfl.resume(tmp_path / "run", device="cpu").manifest["digests"] == alone.manifest["digests"]


def test_so_does_one_that_was_extended(alone, tmp_path):
    netfl.run(a_scenario(replicas=1), tmp_path / "run", device="cpu")
    assert told(netfl.extend(tmp_path / "run", 2, device="cpu")) == told(alone)


def test_another_seed_gives_others(alone, tmp_path):
    other = netfl.trace(a_scenario(seed=1), tmp_path / "run")
    assert all(digest != told(alone)[name] for name, digest in told(other, ("rounds", "deliveries", "events")).items())


class TestDigests:
    def write(self, path, table, **how):
        pq.write_table(table, path / "t.parquet", **how)
        return digests.table_digest(path / "t.parquet")

    def test_it_counts_what_a_table_says_and_not_how_it_is_written(self, tmp_path):
        """Row groups, the dictionary of words, narrower integers and the order of replicas are how it is written."""
        words, numbers = ["up", "down", "up", "up"], [0.1, np.nan, -0.0, 3.0]
        one = pa.table({"replica": pa.array([0, 1, 0, 1], pa.int32()), "kind": words, "value": numbers})
        other = pa.table(
            {"replica": [0, 0, 1, 1], "kind": pa.array(["up", "up", "down", "up"]).dictionary_encode(),
             "value": [0.1, -0.0, -np.nan, 3.0]}
        )  # fmt: skip
        assert self.write(tmp_path, one, row_group_size=1) == self.write(tmp_path, other)

    @pytest.mark.parametrize(
        "change",
        [
            lambda table: table.assign(value=np.nextafter(table.value, 9)),
            lambda table: table.assign(kind=["up", "down", "up", "down"]),
            lambda table: table.rename(columns={"value": "values"}),
            lambda table: table[["value", "kind"]],
            lambda table: table[::-1],
            lambda table: table[:3],
            lambda table: table.assign(replica=[0, 0, 0, 1]),
        ],
    )
    def test_all_that_it_says_counts(self, tmp_path, change):
        table = pd.DataFrame({"kind": ["up", "down", "up", "up"], "value": [1.0, 2.0, 3.0, 4.0]})
        changed = pa.Table.from_pandas(change(table), preserve_index=False)
        assert self.write(tmp_path, changed) != self.write(tmp_path, pa.Table.from_pandas(table))

    def test_it_is_as_documented(self, tmp_path):
        """The documented form, worked out by other means."""

        def code(word):
            return blake2b(word.encode(), digest_size=8).digest()

        table = pa.table({"replica": [2, 2], "kind": ["a", "b"], "value": [1.5, 2.0]})
        columns = [np.array([2, 2], "<i8").tobytes(), code("a") + code("b"), np.array([1.5, 2.0], "<f8").tobytes()]
        whole = b"".join(map(code, ("replica", "kind", "value"))) + np.array([2, 2], "<i8").tobytes()
        whole += b"".join(blake2b(column, digest_size=16).digest() for column in columns)
        assert self.write(tmp_path, table) == blake2b(whole, digest_size=16).hexdigest()


class TestVerify:
    def test_a_good_run(self, alone):
        answer = CliRunner().invoke(app, ["verify", str(alone.folder)])
        assert answer.exit_code == 0
        assert f"{alone.manifest['digests']['rounds']}  {alone.folder / 'rounds.parquet'}\n" in answer.output

    def test_a_changed_and_a_missing_table_are_named(self, tmp_path):
        run = netfl.trace(a_scenario(), tmp_path / "run")
        run.rounds.assign(closed_s=run.rounds.closed_s + 1e-9).to_parquet(run.folder / "rounds.parquet")
        (run.folder / "events.parquet").unlink()
        answer = CliRunner().invoke(app, ["verify", str(run.folder)])
        assert answer.exit_code == 1
        assert "rounds.parquet: is not the table that the run wrote" in answer.output
        assert "events.parquet: is missing" in answer.output

    def test_against_another_run(self, alone, tmp_path):
        other = netfl.trace(a_scenario(seed=1), tmp_path / "run")
        found = {verdict.file.stem: verdict for verdict in verify_runs(other.folder, alone.folder)}
        assert not found["rounds"].good
        assert found["metrics"].good
        assert "by rounding in the training" in found["metrics"].problem

    def test_last_bits_are_forgiven_between_runs_but_not_within_one(self, alone, tmp_path):
        run = netfl.trace(a_scenario(), tmp_path / "run")
        run.rounds.assign(closed_s=np.nextafter(run.rounds.closed_s, 1e9)).to_parquet(run.folder / "rounds.parquet")
        edit(run.folder, digests=digests.run_digests(run.folder))
        found = {verdict.file.stem: verdict for verdict in verify_runs(run.folder, alone.folder)}
        assert found["rounds"].good
        assert "to 9 digits" in found["rounds"].problem

    def test_a_run_without_digests(self, tmp_path):
        netfl.trace(a_scenario(), tmp_path / "run", observer=StopAfter(1))
        with pytest.raises(ScenarioError, match="not finished"):
            list(verify_runs(tmp_path / "run"))
        edit(tmp_path / "run", status="done")
        with pytest.raises(ScenarioError, match="an earlier version of netfl wrote it"):
            list(verify_runs(tmp_path / "run"))


class TestOtherVersions:
    @pytest.fixture
    def aged(self, tmp_path):
        """A run that was stopped, by an older NumPy."""
        netfl.trace(a_scenario(), tmp_path / "run", observer=StopAfter(1))
        old = versions() | {"numpy": "1.0", "python": "3.9.1"}
        edit(tmp_path / "run", versions=old)
        return tmp_path / "run", old

    def test_going_on_with_a_run_says_so_once_and_keeps_both(self, aged, caplog):
        folder, old = aged
        run = netfl.resume(folder)
        [record] = caplog.records
        assert record.levelno == logging.WARNING
        assert f"python 3.9.1, now {versions()['python']}; numpy 1.0, now {versions()['numpy']}" in record.message
        assert (run.manifest["versions"], run.manifest["versions_before"]) == (versions(), [old])

    def test_so_does_an_extension(self, aged, caplog):
        folder, old = aged
        run = netfl.resume(folder)
        edit(folder, versions=old, versions_before=[])
        caplog.clear()
        run = netfl.extend(folder, 3)
        assert len(caplog.records) == 1
        assert run.manifest["versions"] == old
        assert run.manifest["extensions"][0]["versions"] == versions()

    def test_the_same_versions_say_nothing(self, tmp_path, caplog):
        netfl.trace(a_scenario(), tmp_path / "run", observer=StopAfter(1))
        run = netfl.resume(tmp_path / "run")
        assert not caplog.records
        assert "versions_before" not in run.manifest

    @pytest.mark.slow
    def test_a_sweep_says_it_of_what_it_has_already(self, tmp_path, caplog):
        scenario = a_scenario(sweep={"grid": {"seed": [1, 2]}}, replicas=1)
        for more in (0, 1):
            netfl.sweep(scenario, tmp_path / "sweep", engine=Here(), learning=False)
            assert len(caplog.records) == more
            for manifest in (tmp_path / "sweep").glob("tasks/*/manifest.json"):
                edit(manifest.parent, versions=versions() | {"torch": "1.0"})
        assert f"torch 1.0, now {versions()['torch']}" in caplog.text


class TestPrecision:
    def test_either_gives_nearly_the_same(self, alone, tmp_path):
        run = netfl.run(a_scenario(precision="float64"), tmp_path / "run", device="cpu")
        assert told(run) == told(alone)
        assert not run.metrics.value.equals(alone.metrics.value)
        pd.testing.assert_frame_equal(run.metrics, alone.metrics, rtol=1e-5)

    @pytest.mark.parametrize("kind", [kind for kind in list_kinds(Model) if kind not in {"logistic", "cnn", "lstm"}])
    def test_it_is_that_of_every_model(self, kind, tmp_path):
        """In a round single precision leads away from double by its rounding, and by no more."""
        said = world("learning/model", said_of("learning/model", kind), tmp_path) | {"rounds": 1}
        single, double = (
            netfl.run(
                validate(ScenarioDocument(said | {"precision": one}, "small")), tmp_path / one, device="cpu"
            ).metrics
            for one in ("float32", "float64")
        )
        losses = [table[table.metric == "loss"].value.to_numpy() for table in (single, double)]
        assert np.abs(losses[0] - losses[1]).max() > 0
        np.testing.assert_allclose(*losses, rtol=1e-3)

    def test_it_is_of_use_to_learners_alone(self):
        with pytest.raises(ScenarioError, match="precision: has no effect without learners"):
            validate(
                ScenarioDocument({"name": "n", "users": 2, "rounds": 1, "access": "bernoulli", "precision": "float64"})
            )
