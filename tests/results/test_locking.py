"""A run directory is written by one process, and says so."""

import multiprocessing
from contextlib import contextmanager

import pytest

import netfl
from netfl.errors import MachineError, ScenarioError
from netfl.results.locking import is_locked, locked
from netfl.results.run_writer import write_json
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.types import RunObserver


def test_a_folder_is_held_once(tmp_path):
    assert not is_locked(tmp_path)
    with locked(tmp_path):
        assert is_locked(tmp_path)
        with pytest.raises(ScenarioError, match="is being written by another process"), locked(tmp_path):
            pass
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)


def test_a_folder_that_cannot_be_locked_is_the_machine_s_fault(tmp_path):
    (tmp_path / ".lock").mkdir()
    with pytest.raises(MachineError, match="cannot write into"), locked(tmp_path):
        pass


def _hold_and_die(folder):
    locked(folder).__enter__()


@pytest.mark.slow
def test_a_process_that_dies_lets_go(tmp_path):
    process = multiprocessing.get_context("spawn").Process(target=_hold_and_die, args=(tmp_path,))
    process.start()
    process.join()
    assert not is_locked(tmp_path)


def test_a_run_that_nobody_runs_has_crashed(tmp_path):
    write_json(tmp_path / "manifest.json", {"status": "running", "learning": False})
    run = netfl.open_run(tmp_path)
    assert run.status == "crashed"
    with locked(tmp_path):
        assert run.status == "running"


def test_a_run_that_goes_on_cannot_be_resumed(tmp_path):
    said = {"name": "a", "users": 2, "rounds": 3, "access": {"kind": "bernoulli", "probability": 0.5}}

    class Other(RunObserver):
        def on_start(self, start):
            folder = start.folder
            with pytest.raises(ScenarioError, match="another process"):
                netfl.resume(folder)

    run = netfl.trace(validate(ScenarioDocument(said, "a")), tmp_path / "run", observer=Other())
    assert run.status == "done"
    assert len(run.rounds) == 3


def test_a_run_that_another_process_has_finished_meanwhile_is_not_resumed(tmp_path, monkeypatch):
    write_json(tmp_path / "manifest.json", {"status": "interrupted", "learning": False})

    @contextmanager
    def late(folder):
        write_json(folder / "manifest.json", {"status": "done", "learning": False})
        yield

    monkeypatch.setattr("netfl.simulation.run.locked", late)
    with pytest.raises(ScenarioError, match="is finished; use netfl extend to add replicas"):
        netfl.resume(tmp_path)


def test_replicas_that_are_being_added_cannot_be_resumed_nor_the_run_extended(tmp_path):
    said = {"name": "a", "users": 2, "rounds": 3, "access": {"kind": "bernoulli", "probability": 0.5}}
    seen = []

    class Other(RunObserver):
        def on_start(self, start):
            folder = start.folder
            for again in (lambda: netfl.resume(folder), lambda: netfl.extend(folder.parent, 3)):
                with pytest.raises(ScenarioError, match="another process"):
                    again()
            seen.append((netfl.open_run(folder).status, netfl.open_run(folder.parent).status))

    netfl.trace(validate(ScenarioDocument(said, "a")), tmp_path / "run")
    assert netfl.extend(tmp_path / "run", 2, observer=Other()).manifest["replicas"] == 2
    assert seen == [("running", "done")]
