"""Runs that survive: whatever fails at whichever moment, a run never reads as done that is not, and can go on."""

import os
import re
import shutil
from pathlib import Path

import pytest
from support.disk_faults import DiedError, Disk
from support.restarted_runs import LEARNER, TABLES, a_scenario, assert_same, assert_same_tables
from support.stop_run import StopAfter

import netfl
from netfl.errors import MachineError, ScenarioError
from netfl.simulation.checkpoints import BEFORE, CHECKPOINT, CheckpointStore

EVERY = int(os.environ.get("NETFL_EVERY_FAULT", "41"))
"""Of all acts every so many fail, each in a run of its own; 1 for all of them, which takes minutes."""


def run(folder, **more):
    return netfl.run(a_scenario(), folder, device="cpu", **more)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A run that nothing has happened to."""
    return run(tmp_path_factory.mktemp("alone") / "run")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """One that was stopped."""
    return run(tmp_path_factory.mktemp("stopped") / "run", observer=StopAfter(2))


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The run with a replica more, put in later."""
    folder = tmp_path_factory.mktemp("two") / "run"
    run(folder)
    return netfl.extend(folder, 2, device="cpu")


@pytest.fixture(scope="module")
def runs(alone, stopped, two):
    return alone, stopped, two


def begin(folder):
    run(folder)


def go_on(folder):
    netfl.resume(folder, device="cpu")


def extend(folder):
    netfl.extend(folder, 2, device="cpu")


def finish(folder):
    """What a user does after a failure: go on or, where there is no run yet, run it again."""
    if not (folder / "manifest.json").exists():
        return run(folder)
    found = netfl.open_run(folder)
    return found if found.status == "done" else netfl.resume(folder, device="cpu")


def acts(folder, source, what):
    """What *what* does to the disk in a copy of *source*: the first and the last of each run of acts that are alike."""
    if source is not None:
        shutil.copytree(source, folder)
    with Disk(folder).watched() as disk:
        what(folder)
    whole = disk.acts
    return [at for at, one in enumerate(whole) if whole[at - 1 : at] != [one] or whole[at + 1 : at + 2] != [one]]


@pytest.mark.parametrize("dies", [False, True], ids=["full", "dies"])
@pytest.mark.parametrize("what", [begin, go_on, extend])
@pytest.mark.slow
def test_whatever_fails_first_nothing_reads_as_done_that_is_not_and_it_can_go_on(what, dies, runs, tmp_path):
    alone, stopped, two = runs
    source = {begin: None, go_on: stopped.folder, extend: alone.folder}[what]
    whole = two if what is extend else alone
    every = acts(tmp_path / "counted", source, what)
    assert len(every) > 50
    for point in every[EVERY // 2 * dies :: EVERY]:
        folder = tmp_path / f"run{point}"
        if source is not None:
            shutil.copytree(source, folder)
        with Disk(folder, point, dies=dies).watched() as disk:
            try:
                what(folder)
            except (MachineError, DiedError) as error:
                ended = error
        assert disk.failed
        assert dies == isinstance(ended, DiedError)
        assert dies or "No space left" in str(ended)
        told = f"{disk.acts[point]}, act {point}"
        if what is extend:
            between = netfl.open_run(folder)
            assert between.status == "done", told
            if between.manifest["replicas"] == 1:
                assert_same_tables(between, alone, TABLES[:6])
                assert between.summary in ({}, alone.summary)
                between = netfl.extend(folder, 2, device="cpu")
            assert_same(between, whole)
        else:
            assert_same(finish(folder), whole)
        assert not [*folder.glob("*.part")], told
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def order(tmp_path_factory):
    """All acts of a run."""
    folder = tmp_path_factory.mktemp("order") / "run"
    with Disk(folder).watched() as disk:
        run(folder)
    return disk.acts


class TestOrder:
    def test_what_gets_a_name_is_on_the_disk_before_and_its_name_after(self, order):
        moved = [at for at, (kind, name) in enumerate(order) if kind == "replace" and name.endswith(".part")]
        assert len(moved) == 4 + 4 + len(TABLES) + 1  # checkpoints; manifest, scenario and summary; tables; versions
        for at in moved:
            assert order[at - 1] == ("fsync", order[at][1])
            assert order[at + 1][0] == "fsync"
            assert "." not in order[at + 1][1]

    def test_a_run_is_done_once_all_else_is_on_the_disk(self, order):
        last = max(at for at, act in enumerate(order) if act == ("replace", "manifest.json.part"))
        assert {kind for kind, _ in order[last + 1 :]} == {"fsync", "unlink"}
        assert "checkpoint.pt" not in {name for kind, name in order[:last] if kind == "unlink"}

    def test_versions_are_on_the_disk_before_the_checkpoint_that_counts_on_them(self, order):
        saved = [at for at, act in enumerate(order) if act == ("fsync", "checkpoint.pt.part")]
        rows = [at for at, act in enumerate(order) if act == ("fsync", "A-0.part")]
        added = [at for at, act in enumerate(order) if act == ("write", "A-0.part")]
        assert len(saved) == len(rows) == len(added) - 1
        assert all(add < row < save for add, row, save in zip(added[1:], rows, saved, strict=True))


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def damage(path):
    path.write_bytes(path.read_bytes()[:-100])


class TestCheckpoints:
    @pytest.fixture
    def halted(self, stopped, tmp_path):
        """A copy of the stopped run, with two checkpoints."""
        return Path(shutil.copytree(stopped.folder, tmp_path / "run"))

    def test_a_damaged_one_costs_what_came_after_the_one_before(self, halted, alone, caplog, monkeypatch):
        from netfl.learning.learner import BatchedLearner

        damage(halted / CHECKPOINT)
        steps, real = [], BatchedLearner.step
        monkeypatch.setattr(
            BatchedLearner, "step", lambda self, rounds: steps.append(rounds[0].index) or real(self, rounds)
        )
        assert_same(netfl.resume(halted, device="cpu"), alone)
        assert steps == [2, 3, 4]
        told = f"{halted / CHECKPOINT} is not a complete checkpoint; continuing from the previous one, of round 1"
        assert [one.getMessage() for one in caplog.records] == [told]
        assert not [*halted.glob("checkpoint*")]

    @pytest.mark.slow
    def test_a_damaged_one_never_takes_the_place_of_the_one_before(self, halted, alone):
        damage(halted / CHECKPOINT)
        netfl.resume(halted, device="cpu", observer=StopAfter(1))
        assert (halted / CHECKPOINT).exists()
        assert netfl.resume(halted, device="cpu", observer=StopAfter(3)).status == "interrupted"
        assert_same(netfl.resume(halted, device="cpu"), alone)

    def test_where_both_are_damaged_nothing_is_touched_and_the_way_out_is_told(self, halted, alone):
        for name in (CHECKPOINT, BEFORE):
            damage(halted / name)
        before = contents(halted)
        with pytest.raises(MachineError) as raised:
            netfl.resume(halted, device="cpu")
        assert str(raised.value) == (
            f"{halted / CHECKPOINT} and {halted / BEFORE} are not complete checkpoints. To start the run again, "
            f"remove checkpoint.pt and checkpoint.before.pt, and then: netfl resume {halted}"
        )
        assert contents(halted) == before
        for name in (CHECKPOINT, BEFORE):
            (halted / name).unlink()
        assert_same(netfl.resume(halted, device="cpu"), alone)

    @pytest.mark.parametrize(
        ("more", "told"),
        [
            ({"learners": {"A": LEARNER | {"lr": 0.2}}}, "learners.A.lr is 0.2 there, but 0.1 here"),
            ({"model": {"kind": "mlp", "hidden": [2]}}, "model.kind is 'mlp' there, but 'logistic' here"),
        ],
    )
    def test_that_of_another_scenario_is_refused_though_its_rounds_are_the_same(
        self, halted, alone, tmp_path, more, told
    ):
        scenario = a_scenario(access={"kind": "bernoulli", "probability": 1}, record="none")
        halted = netfl.run(scenario, tmp_path / "own", device="cpu", observer=StopAfter(2)).folder
        other = scenario.model_copy(update={name: getattr(a_scenario(**more), name) for name in more})
        foreign = netfl.run(other, tmp_path / "foreign", device="cpu", observer=StopAfter(2)).folder
        own = (halted / CHECKPOINT).read_bytes()
        shutil.copy(foreign / CHECKPOINT, halted)
        before = contents(halted)
        with pytest.raises(MachineError, match=re.escape(f"is the checkpoint of another scenario: {told}. Restore")):
            netfl.resume(halted, device="cpu")
        assert contents(halted) == before
        (halted / CHECKPOINT).write_bytes(own)
        assert netfl.resume(halted, device="cpu").status == "done"

    def test_data_may_have_been_moved_since(self, tmp_path):
        kept = {"data": {"kind": "table", "file": "/here/a.csv"}, "seed": 1}
        about = {"data": {"kind": "table", "file": "/there/a.csv", "new": 1}, "seed": 1}
        CheckpointStore(tmp_path, kept).save(3, "", {}, [])
        assert CheckpointStore(tmp_path, about).load()["round"] == 3
        with pytest.raises(MachineError, match="seed is 1 there, but 2 here"):
            CheckpointStore(tmp_path, about | {"seed": 2}).load()

    @pytest.mark.parametrize(
        ("pace", "kept"),
        [({"rounds": 2}, [2, 4]), ({"rounds": 3}, [3]), ({"time": "2 s"}, [3]), (None, []), ("none", [])],
    )
    def test_they_are_written_as_often_as_is_said(self, tmp_path, monkeypatch, pace, kept):
        """A second of the clock goes by with each look at it: one look at the start, then one each round."""
        from netfl.simulation import checkpoints

        saved, real, clock = [], CheckpointStore.save, iter(range(1000))
        monkeypatch.setattr(
            CheckpointStore, "save", lambda self, index, *more: saved.append(index) or real(self, index, *more)
        )
        monkeypatch.setattr(checkpoints.time, "monotonic", lambda: next(clock))
        netfl.run(a_scenario(checkpoint=pace, record="none"), tmp_path / "run", device="cpu", progress=False)
        assert saved == kept

    def test_a_stop_is_kept_however_seldom_they_are(self, tmp_path):
        netfl.run(a_scenario(checkpoint="none"), tmp_path / "run", device="cpu", observer=StopAfter(3))
        assert (tmp_path / "run" / CHECKPOINT).exists()

    @pytest.mark.parametrize(
        ("pace", "fault"),
        [
            ({}, "checkpoint: give exactly one of time and rounds"),
            ({"time": 3, "rounds": 3}, "checkpoint: give exactly one of time and rounds"),
            ({"time": 0}, "checkpoint.time: should be greater than 0 (0)"),
            ({"rounds": 0}, "checkpoint.rounds: should be greater than or equal to 1 (0)"),
            ({"every": 3}, "checkpoint.every: unknown key; known: time, rounds"),
            ("nun", "checkpoint: unknown value ('nun'); known: none"),
        ],
    )
    def test_what_is_no_pace_is_a_fault(self, pace, fault):
        with pytest.raises(ScenarioError) as raised:
            a_scenario(checkpoint=pace)
        assert fault in str(raised.value)

    @pytest.mark.parametrize("pace", [{"rounds": 2}, "none"])
    def test_without_learners_it_has_no_effect(self, pace):
        nothing = dict.fromkeys(("data", "partition", "model", "learners", "evaluate"))
        with pytest.raises(ScenarioError, match="checkpoint: has no effect without learners; add 'learners', or leave"):
            a_scenario(**nothing, record="none", checkpoint=pace)

    def test_scenarios_of_runs_that_knew_of_none_are_read(self, halted, alone):
        path = halted / "scenario.yaml"
        path.write_text(path.read_text().replace("checkpoint: {time: null, rounds: 1}\n", ""))
        assert "checkpoint" not in path.read_text()
        assert_same(netfl.resume(halted, device="cpu"), alone)
