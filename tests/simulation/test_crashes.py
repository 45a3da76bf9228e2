"""Failures at any disk operation: an unfinished run is never marked done, and it can resume."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from support.disk_faults import DiedError, Disk
from support.restarted_runs import LEARNER, TABLES, a_scenario, assert_same, assert_same_tables
from support.stop_run import StopAfter

import netfl
from netfl.errors import MachineError, ScenarioError
from netfl.simulation.checkpoints import BEFORE, CHECKPOINT, CheckpointStore
from netfl.simulation.round_digest import RoundDigest

EVERY = int(os.environ.get("NETFL_EVERY_FAULT", "41"))
"""Distance of the tested failure points; 1 tests each disk operation, which takes minutes."""


def run(folder, **changes):
    return netfl.run(a_scenario(), folder, device="cpu", **changes)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A run without failures."""
    return run(tmp_path_factory.mktemp("alone") / "run")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run stopped after two rounds."""
    return run(tmp_path_factory.mktemp("stopped") / "run", observer=StopAfter(2))


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """The run, extended by one replica."""
    folder = tmp_path_factory.mktemp("two") / "run"
    run(folder)
    return netfl.extend(folder, 2, device="cpu")


@pytest.fixture(scope="module")
def runs(reference, stopped, extended):
    return reference, stopped, extended


def start(folder):
    run(folder)


def resume(folder):
    netfl.resume(folder, device="cpu")


def extend(folder):
    netfl.extend(folder, 2, device="cpu")


def finish(folder):
    """Resume the run after a failure, or start it if the folder has no run yet."""
    if not (folder / "manifest.json").exists():
        return run(folder)
    opened = netfl.open_run(folder)
    return opened if opened.status == "done" else netfl.resume(folder, device="cpu")


def failure_points(folder, source, action):
    """Return the indices of the disk operations of *action*: first and last of each series of equal ones."""
    if source is not None:
        shutil.copytree(source, folder)
    with Disk(folder).watched() as disk:
        action(folder)
    complete = disk.acts
    return [
        at
        for at, operation in enumerate(complete)
        if complete[at - 1 : at] != [operation] or complete[at + 1 : at + 2] != [operation]
    ]


@pytest.mark.parametrize("dies", [False, True], ids=["full", "dies"])
@pytest.mark.parametrize("action", [start, resume, extend])
@pytest.mark.slow
def test_run_recovers_from_a_failure_at_any_disk_operation(action, dies, runs, tmp_path):
    reference, stopped, extended = runs
    source = {start: None, resume: stopped.folder, extend: reference.folder}[action]
    complete = extended if action is extend else reference
    points = failure_points(tmp_path / "counted", source, action)
    assert len(points) > 50
    for point in points[EVERY // 2 * dies :: EVERY]:
        folder = tmp_path / f"run{point}"
        if source is not None:
            shutil.copytree(source, folder)
        with Disk(folder, point, dies=dies).watched() as disk:
            try:
                action(folder)
            except (MachineError, DiedError) as error:
                failure = error
        assert disk.failed
        assert dies == isinstance(failure, DiedError)
        assert dies or "No space left" in str(failure)
        message = f"{disk.acts[point]}, operation {point}"
        if action is extend:
            between = netfl.open_run(folder)
            assert between.status == "done", message
            if between.manifest["replicas"] == 1:
                assert_same_tables(between, reference, TABLES[:6])
                assert between.summary in ({}, reference.summary)
                between = netfl.extend(folder, 2, device="cpu")
            assert_same(between, complete)
        else:
            assert_same(finish(folder), complete)
        assert not [*folder.glob("*.part")], message
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def operations(tmp_path_factory):
    """All disk operations of a run."""
    folder = tmp_path_factory.mktemp("order") / "run"
    with Disk(folder).watched() as disk:
        run(folder)
    return disk.acts


class TestOrder:
    def test_files_are_synced_before_they_are_renamed(self, operations):
        moved = [at for at, (kind, name) in enumerate(operations) if kind == "replace" and name.endswith(".part")]
        # checkpoints; manifest, scenario and summary; tables, of which the users are written twice; versions
        assert len(moved) == 4 + 4 + len(TABLES) + 1 + 1
        for at in moved:
            assert operations[at - 1] == ("fsync", operations[at][1])
            assert operations[at + 1][0] == "fsync"
            assert "." not in operations[at + 1][1]

    def test_run_is_done_after_all_files_are_synced(self, operations):
        last = max(at for at, operation in enumerate(operations) if operation == ("replace", "manifest.json.part"))
        assert {kind for kind, _ in operations[last + 1 :]} == {"fsync", "unlink"}
        assert "checkpoint.pt" not in {name for kind, name in operations[:last] if kind == "unlink"}

    def test_versions_are_synced_before_their_checkpoint(self, operations):
        saved = [at for at, operation in enumerate(operations) if operation == ("fsync", "checkpoint.pt.part")]
        rows = [at for at, operation in enumerate(operations) if operation == ("fsync", "A-0.part")]
        added = [at for at, operation in enumerate(operations) if operation == ("write", "A-0.part")]
        assert len(saved) == len(rows) == len(added) - 1
        assert all(add < row < save for add, row, save in zip(added[1:], rows, saved, strict=True))


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def damage(path):
    path.write_bytes(path.read_bytes()[:-100])


class TestCheckpoints:
    @pytest.fixture
    def stopped_copy(self, stopped, tmp_path):
        """A copy of the stopped run with two checkpoints."""
        return Path(shutil.copytree(stopped.folder, tmp_path / "run"))

    def test_damaged_checkpoint_falls_back_to_the_previous_one(self, stopped_copy, reference, caplog, monkeypatch):
        from netfl.learning.learner import BatchedLearner

        damage(stopped_copy / CHECKPOINT)
        steps, real = [], BatchedLearner.step
        monkeypatch.setattr(
            BatchedLearner, "step", lambda self, rounds: steps.append(rounds[0].index) or real(self, rounds)
        )
        assert_same(netfl.resume(stopped_copy, device="cpu"), reference)
        assert steps == [2, 3, 4]
        message = (
            f"{stopped_copy / CHECKPOINT} is not a complete checkpoint; continuing from the previous one, of round 1"
        )
        assert [record.getMessage() for record in caplog.records] == [message]
        assert not [*stopped_copy.glob("checkpoint*")]

    @pytest.mark.slow
    def test_damaged_checkpoint_never_replaces_the_previous_one(self, stopped_copy, reference):
        damage(stopped_copy / CHECKPOINT)
        netfl.resume(stopped_copy, device="cpu", observer=StopAfter(1))
        assert (stopped_copy / CHECKPOINT).exists()
        assert netfl.resume(stopped_copy, device="cpu", observer=StopAfter(3)).status == "interrupted"
        assert_same(netfl.resume(stopped_copy, device="cpu"), reference)

    def test_two_damaged_checkpoints_raise_an_error_and_change_nothing(self, stopped_copy, reference):
        for name in (CHECKPOINT, BEFORE):
            damage(stopped_copy / name)
        before = contents(stopped_copy)
        with pytest.raises(MachineError) as error:
            netfl.resume(stopped_copy, device="cpu")
        assert str(error.value) == (
            f"{stopped_copy / CHECKPOINT} and {stopped_copy / BEFORE} are not complete checkpoints. "
            "To start the run again, remove checkpoint.pt and checkpoint.before.pt, and then: "
            f"netfl.resume({str(stopped_copy)!r})"
        )
        assert contents(stopped_copy) == before
        for name in (CHECKPOINT, BEFORE):
            (stopped_copy / name).unlink()
        assert_same(netfl.resume(stopped_copy, device="cpu"), reference)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"learners": {"A": LEARNER | {"lr": 0.2}}}, "learners.A.lr is 0.2 there, but 0.1 here"),
            ({"model": {"kind": "mlp", "hidden": [2]}}, "model.kind is 'mlp' there, but 'logistic' here"),
        ],
    )
    def test_checkpoint_of_another_scenario_is_refused(self, stopped_copy, reference, tmp_path, changes, message):
        scenario = a_scenario(access={"kind": "bernoulli", "probability": 1}, record="none")
        stopped_copy = netfl.run(scenario, tmp_path / "own", device="cpu", observer=StopAfter(2)).folder
        other = scenario.model_copy(update={name: getattr(a_scenario(**changes), name) for name in changes})
        foreign = netfl.run(other, tmp_path / "foreign", device="cpu", observer=StopAfter(2)).folder
        original = (stopped_copy / CHECKPOINT).read_bytes()
        shutil.copy(foreign / CHECKPOINT, stopped_copy)
        before = contents(stopped_copy)
        with pytest.raises(MachineError, match=re.escape(f"is the checkpoint of another scenario: {message}. Restore")):
            netfl.resume(stopped_copy, device="cpu")
        assert contents(stopped_copy) == before
        (stopped_copy / CHECKPOINT).write_bytes(original)
        assert netfl.resume(stopped_copy, device="cpu").status == "done"

    @pytest.mark.parametrize("names", [["A"], ["B", "A"], ["A", "B", "C"]])
    def test_other_learners_than_before_the_stop_are_a_located_error(self, tmp_path, names):
        stopped = netfl.run(
            a_scenario(learners={"A": LEARNER, "B": LEARNER}), tmp_path / "run", device="cpu", observer=StopAfter(2)
        ).folder
        path = stopped / "scenario.yaml"
        document = YAML(typ="safe").load(path.read_text())
        document["learners"] = dict.fromkeys(names, document["learners"]["A"])
        path.write_text(json.dumps(document))
        with pytest.raises(ScenarioError) as error:
            netfl.resume(stopped, device="cpu")
        problem = (
            f"learners: these are not the learners of {stopped / CHECKPOINT}, which are A, B ('{', '.join(names)}')"
        )
        assert str(error.value).startswith(f"{path}: {problem}; restore the section.")

    def test_other_replicas_than_before_the_stop_are_an_error(self, stopped_copy):
        path = stopped_copy / "scenario.yaml"
        path.write_text(path.read_text().replace("replicas: 1\n", "replicas: 2\n"))
        with pytest.raises(MachineError, match="another scenario: replicas is 1 there, but 2 here"):
            netfl.resume(stopped_copy, device="cpu")

    def test_data_files_may_move_between_runs(self, tmp_path):
        recorded = {"data": {"kind": "table", "file": "/here/a.csv"}, "seed": 1}
        moved = {"data": {"kind": "table", "file": "/there/a.csv", "new": 1}, "seed": 1}
        CheckpointStore(tmp_path, recorded).save(3, RoundDigest(), {}, [])
        assert CheckpointStore(tmp_path, moved).load()["round"] == 3
        with pytest.raises(MachineError, match="seed is 1 there, but 2 here"):
            CheckpointStore(tmp_path, moved | {"seed": 2}).load()

    @pytest.mark.parametrize(
        ("checkpoint", "saved_rounds"),
        [({"rounds": 2}, [2, 4]), ({"rounds": 3}, [3]), ({"time": "2 s"}, [3]), (None, []), ("none", [])],
    )
    def test_checkpoints_are_written_at_the_given_interval(self, tmp_path, monkeypatch, checkpoint, saved_rounds):
        """The clock advances by 1 s per call: one call at the start, then one in each round."""
        from netfl.simulation import checkpoints

        saved, real, clock = [], CheckpointStore.save, iter(range(1000))
        monkeypatch.setattr(
            CheckpointStore,
            "save",
            lambda self, index, *arguments: saved.append(index) or real(self, index, *arguments),
        )
        monkeypatch.setattr(checkpoints.time, "monotonic", lambda: next(clock))
        netfl.run(a_scenario(checkpoint=checkpoint, record="none"), tmp_path / "run", device="cpu", progress=False)
        assert saved == saved_rounds

    def test_stop_always_writes_a_checkpoint(self, tmp_path):
        netfl.run(a_scenario(checkpoint="none"), tmp_path / "run", device="cpu", observer=StopAfter(3))
        assert (tmp_path / "run" / CHECKPOINT).exists()

    @pytest.mark.parametrize(
        ("checkpoint", "message"),
        [
            ({}, "checkpoint: none of time and rounds is given; give exactly one of time and rounds"),
            (
                {"time": 3, "rounds": 3},
                "checkpoint: time and rounds are given together; give exactly one of time and rounds",
            ),
            ({"time": 0}, "checkpoint.time: should be greater than 0 (0)"),
            ({"rounds": 0}, "checkpoint.rounds: should be greater than or equal to 1 (0)"),
            ({"every": 3}, "checkpoint.every: unknown key; did you mean 'time'?"),
            ("nun", "checkpoint: unknown value ('nun'); known: none"),
        ],
    )
    def test_invalid_intervals_are_errors(self, checkpoint, message):
        with pytest.raises(ScenarioError) as error:
            a_scenario(checkpoint=checkpoint)
        assert message in str(error.value)

    @pytest.mark.parametrize("checkpoint", [{"rounds": 2}, "none"])
    def test_checkpoint_without_learners_is_an_error(self, checkpoint):
        no_learning = dict.fromkeys(("data", "partition", "model", "learners", "evaluate"))
        with pytest.raises(ScenarioError, match="checkpoint: has no effect without learners; add 'learners', or leave"):
            a_scenario(**no_learning, record="none", checkpoint=checkpoint)

    def test_scenarios_without_a_checkpoint_key_are_read(self, stopped_copy, reference):
        path = stopped_copy / "scenario.yaml"
        path.write_text(path.read_text().replace("checkpoint: {time: null, rounds: 1}\n", ""))
        assert "checkpoint" not in path.read_text()
        assert_same(netfl.resume(stopped_copy, device="cpu"), reference)
