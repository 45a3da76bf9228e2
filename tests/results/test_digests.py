"""Digests of tables and versions of packages, and `netfl verify`, which checks them."""

import json
import logging
import shutil
from hashlib import blake2b

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.inline_sweep_engine import Here
from support.small_network import SECTION
from support.stop_run import StopAfter
from support.tiny_scenarios import example_settings, world
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.core.kinds import list_kinds
from netfl.errors import MachineError, ScenarioError
from netfl.learning.model import Model
from netfl.results import digests
from netfl.results.digests import verify_runs
from netfl.results.manifest import versions
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument

LEARNER = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 4, "local_steps": 1}
NETWORK_TABLES = ("rounds", "deliveries", "events", "users", "nodes")


def make_scenario(**changes):
    settings = {
        "name": "small", "users": 3, "rounds": 4, "replicas": 2, "access": SECTION,
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 20}, "partition": "iid", "model": "logistic",
        "learners": {"A": LEARNER}, "evaluate": {"every": 2}, **changes,
    }  # fmt: skip
    return validate(ScenarioDocument(settings, "small"))


def edit(folder, **changes):
    path = folder / "manifest.json"
    path.write_text(json.dumps(digests.signed(json.loads(path.read_text()) | changes)))


def table_digests(run, tables=NETWORK_TABLES):
    return {name: run.manifest["digests"][name] for name in tables}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return netfl.run(make_scenario(), tmp_path_factory.mktemp("alone") / "run", device="cpu")


@pytest.fixture(scope="module")
def with_versions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("versions") / "run"
    return netfl.run(make_scenario(record={"versions": True}), folder, device="cpu")


def test_the_stored_scenario_gives_the_same_digests(alone, tmp_path):
    rerun = netfl.run(netfl.load(alone.folder / "scenario.yaml"), tmp_path / "again", device="cpu")
    assert rerun.manifest["digests"] == alone.manifest["digests"] == digests.run_digests(rerun.folder)
    assert {*NETWORK_TABLES, "final_metrics", "metrics", "regions", "points"} == alone.manifest["digests"].keys()


@pytest.mark.slow
def test_workers_give_the_same_digests(alone, tmp_path):
    assert table_digests(netfl.run(make_scenario(), tmp_path / "run", device="cpu", workers=2)) == table_digests(alone)


def test_a_resumed_run_gives_the_same_digests(alone, tmp_path):
    stopped = netfl.run(make_scenario(), tmp_path / "run", device="cpu", observer=StopAfter(2))
    assert "digests" not in stopped.manifest
    assert netfl.resume(tmp_path / "run", device="cpu").manifest["digests"] == alone.manifest["digests"]


def test_an_extended_run_gives_the_same_digests(alone, tmp_path):
    netfl.run(make_scenario(replicas=1), tmp_path / "run", device="cpu")
    assert table_digests(netfl.extend(tmp_path / "run", 2, device="cpu")) == table_digests(alone)


def test_another_seed_gives_other_digests(alone, tmp_path):
    other = netfl.trace(make_scenario(seed=1), tmp_path / "run")
    assert all(
        digest != table_digests(alone)[name]
        for name, digest in table_digests(other, ("rounds", "deliveries", "events")).items()
    )


class TestDigests:
    def write(self, path, table, **options):
        pq.write_table(table, path / "t.parquet", **options)
        return digests.table_digest(path / "t.parquet")

    def test_the_file_layout_does_not_matter(self, tmp_path):
        """Row groups, dictionary encoding, integer width and the order of replicas do not change the digest."""
        words, numbers = ["up", "down", "up", "up"], [0.1, np.nan, -0.0, 3.0]
        table = pa.table({"replica": pa.array([0, 1, 0, 1], pa.int32()), "kind": words, "value": numbers})
        rewritten = pa.table(
            {"replica": [0, 0, 1, 1], "kind": pa.array(["up", "up", "down", "up"]).dictionary_encode(),
             "value": [0.1, -0.0, -np.nan, 3.0]}
        )  # fmt: skip
        assert self.write(tmp_path, table, row_group_size=1) == self.write(tmp_path, rewritten)

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
    def test_every_change_of_content_matters(self, tmp_path, change):
        table = pd.DataFrame({"kind": ["up", "down", "up", "up"], "value": [1.0, 2.0, 3.0, 4.0]})
        changed = pa.Table.from_pandas(change(table), preserve_index=False)
        assert self.write(tmp_path, changed) != self.write(tmp_path, pa.Table.from_pandas(table))

    def test_the_digest_equals_the_documentation(self, tmp_path):
        """Compute the documented form with hashlib and NumPy."""

        def digest_of(word):
            return blake2b(word.encode(), digest_size=8).digest()

        table = pa.table({"replica": [2, 2], "kind": ["a", "b"], "value": [1.5, 2.0]})
        columns = [
            np.array([2, 2], "<i8").tobytes(),
            digest_of("a") + digest_of("b"),
            np.array([1.5, 2.0], "<f8").tobytes(),
        ]
        message = b"".join(map(digest_of, ("replica", "kind", "value"))) + np.array([2, 2], "<i8").tobytes()
        message += b"".join(blake2b(column, digest_size=16).digest() for column in columns)
        assert self.write(tmp_path, table) == blake2b(message, digest_size=16).hexdigest()


class TestVerify:
    def test_an_unchanged_run_passes(self, alone):
        result = CliRunner().invoke(app, ["verify", str(alone.folder)])
        assert result.exit_code == 0
        assert f"{alone.manifest['digests']['rounds']}  {alone.folder / 'rounds.parquet'}\n" in result.output
        files = [*alone.manifest["digests"], *alone.manifest["files"], "manifest.json"]
        assert result.output.endswith(f"all {len(files)} files agree\n")

    def test_changed_and_missing_tables_are_reported(self, tmp_path):
        run = netfl.trace(make_scenario(), tmp_path / "run")
        run.rounds.assign(closed_s=run.rounds.closed_s + 1e-9).to_parquet(run.folder / "rounds.parquet")
        (run.folder / "events.parquet").unlink()
        result = CliRunner().invoke(app, ["verify", str(run.folder)])
        assert result.exit_code == 1
        assert "rounds.parquet: is not the file that the run wrote" in result.output
        assert "events.parquet: is missing" in result.output
        total = len(run.manifest["digests"]) + len(run.manifest["files"]) + 1
        assert result.output.endswith(f"files that do not agree: 2 of {total}\n")

    @pytest.mark.parametrize(
        ("name", "old", "new"),
        [
            ("scenario.yaml", "seed: 0", "seed: 1"),
            ("summary.json", '"replicas": 2', '"replicas": 3'),
            ("manifest.json", '"rounds_done": 4', '"rounds_done": 3'),
            ("versions/A-1.safetensors", "dtype", "dtypf"),
        ],
    )
    def test_every_file_is_verified_and_checked_before_an_extension(self, with_versions, tmp_path, name, old, new):
        folder = tmp_path / "run"
        shutil.copytree(with_versions.folder, folder)
        content = (folder / name).read_bytes()
        assert content.count(old.encode()) >= 1
        (folder / name).write_bytes(content.replace(old.encode(), new.encode(), 1))
        problem = f"{folder / name}: is not the file that the run wrote"
        [bad] = [str(verdict) for verdict in verify_runs(folder) if not verdict.good]
        assert bad.endswith(problem)
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        with pytest.raises(MachineError, match=f"{name} is not the file that the run wrote; restore it from a copy"):
            netfl.extend(folder, 3, device="cpu")
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before

    def test_the_keys_of_another_scenario_are_named(self, alone, tmp_path):
        other = netfl.run(make_scenario(seed=1, rounds=5), tmp_path / "run", device="cpu")
        result = CliRunner().invoke(app, ["verify", str(alone.folder), str(other.folder)])
        assert result.exit_code == 1
        assert f"differs from {alone.folder / 'scenario.yaml'}: seed (1 / 0), rounds (5 / 4)" in result.output
        assert "by rounding" not in result.output
        found = {verdict.file.stem: verdict for verdict in verify_runs(other.folder, alone.folder)}
        assert not any(found[name].good for name in ("scenario", "rounds", "metrics", "summary"))

    def test_a_run_is_compared_with_its_trace(self, alone, tmp_path):
        other = netfl.trace(make_scenario(), tmp_path / "run")
        found = {verdict.file.stem: verdict for verdict in verify_runs(alone.folder, other.folder)}
        assert all(verdict.good for verdict in found.values())
        assert "only one of the runs has learners" in found["metrics"].problem

    def test_training_may_differ_by_rounding(self, alone, tmp_path):
        run = netfl.run(make_scenario(), tmp_path / "run", device="cpu")
        run.metrics.assign(value=run.metrics.value + 1e-7).to_parquet(run.folder / "metrics.parquet")
        edit(run.folder, digests=digests.run_digests(run.folder))
        found = {verdict.file.stem: verdict for verdict in verify_runs(run.folder, alone.folder)}
        assert all(verdict.good for verdict in found.values())
        assert found["metrics"].problem.endswith("by rounding in the training")

    def test_rounding_is_accepted_between_runs(self, alone, tmp_path):
        run = netfl.trace(make_scenario(), tmp_path / "run")
        run.rounds.assign(closed_s=np.nextafter(run.rounds.closed_s, 1e9)).to_parquet(run.folder / "rounds.parquet")
        edit(run.folder, digests=digests.run_digests(run.folder))
        found = {verdict.file.stem: verdict for verdict in verify_runs(run.folder, alone.folder)}
        assert found["rounds"].good
        assert "to 9 digits" in found["rounds"].problem

    def test_a_run_without_digests_is_an_error(self, tmp_path):
        netfl.trace(make_scenario(), tmp_path / "run", observer=StopAfter(1))
        with pytest.raises(ScenarioError, match="not finished"):
            list(verify_runs(tmp_path / "run"))
        edit(tmp_path / "run", status="done")
        with pytest.raises(ScenarioError, match=r"has no digests: they were removed; run its scenario\.yaml again"):
            list(verify_runs(tmp_path / "run"))


class TestOtherVersions:
    @pytest.fixture
    def interrupted_run(self, tmp_path):
        """A run that an older NumPy version started and that was interrupted."""
        netfl.trace(make_scenario(), tmp_path / "run", observer=StopAfter(1))
        old = versions() | {"numpy": "1.0", "python": "3.9.1"}
        edit(tmp_path / "run", versions=old)
        return tmp_path / "run", old

    def test_resume_warns_once_and_records_both_versions(self, interrupted_run, caplog):
        folder, old = interrupted_run
        run = netfl.resume(folder)
        [record] = caplog.records
        assert record.levelno == logging.WARNING
        assert f"python 3.9.1, now {versions()['python']}; numpy 1.0, now {versions()['numpy']}" in record.message
        assert (run.manifest["versions"], run.manifest["versions_before"]) == (versions(), [old])

    def test_extend_warns_once_and_records_its_versions(self, interrupted_run, caplog):
        folder, old = interrupted_run
        run = netfl.resume(folder)
        edit(folder, versions=old, versions_before=[])
        caplog.clear()
        run = netfl.extend(folder, 3)
        assert len(caplog.records) == 1
        assert run.manifest["versions"] == old
        assert run.manifest["extensions"][0]["versions"] == versions()

    def test_equal_versions_give_no_warning(self, tmp_path, caplog):
        netfl.trace(make_scenario(), tmp_path / "run", observer=StopAfter(1))
        run = netfl.resume(tmp_path / "run")
        assert not caplog.records
        assert "versions_before" not in run.manifest

    @pytest.mark.slow
    def test_a_sweep_warns_about_finished_tasks(self, tmp_path, caplog):
        scenario = make_scenario(sweep={"grid": {"seed": [1, 2]}}, replicas=1)
        for expected_count in (0, 1):
            netfl.sweep(scenario, tmp_path / "sweep", engine=Here(), learning=False)
            assert len(caplog.records) == expected_count
            for manifest in (tmp_path / "sweep").glob("tasks/*/manifest.json"):
                edit(manifest.parent, versions=versions() | {"torch": "1.0"})
        assert f"torch 1.0, now {versions()['torch']}" in caplog.text


class TestPrecision:
    def test_both_precisions_give_similar_metrics(self, alone, tmp_path):
        run = netfl.run(make_scenario(precision="float64"), tmp_path / "run", device="cpu")
        assert table_digests(run) == table_digests(alone)
        assert not run.metrics.value.equals(alone.metrics.value)
        pd.testing.assert_frame_equal(run.metrics, alone.metrics, rtol=1e-5)

    @pytest.mark.parametrize("kind", [kind for kind in list_kinds(Model) if kind not in {"logistic", "cnn", "lstm"}])
    def test_every_model_uses_the_precision(self, kind, tmp_path):
        """After one round, single and double precision differ only by rounding."""
        settings = world("learning/model", example_settings("learning/model", kind), tmp_path) | {"rounds": 1}
        single, double = (
            netfl.run(
                validate(ScenarioDocument(settings | {"precision": precision}, "small")),
                tmp_path / precision,
                device="cpu",
            ).metrics
            for precision in ("float32", "float64")
        )
        losses = [table[table.metric == "loss"].value.to_numpy() for table in (single, double)]
        assert np.abs(losses[0] - losses[1]).max() > 0
        np.testing.assert_allclose(*losses, rtol=1e-3)

    def test_precision_without_learners_is_an_error(self):
        with pytest.raises(ScenarioError, match="precision: has no effect without learners"):
            validate(
                ScenarioDocument({"name": "n", "users": 2, "rounds": 1, "access": "bernoulli", "precision": "float64"})
            )
