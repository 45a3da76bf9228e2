"""Locks: one process writes a run directory."""

import multiprocessing
import sys
import threading
from contextlib import contextmanager

import pytest

import netfl
from netfl.core.formats import FORMAT
from netfl.errors import MachineError, ScenarioError
from netfl.results.atomic_write import write_json
from netfl.results.locking import is_locked, locked
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.types import RunObserver


def test_a_folder_is_locked_once(tmp_path):
    assert not is_locked(tmp_path)
    with locked(tmp_path):
        assert is_locked(tmp_path)
        with pytest.raises(ScenarioError, match="is being written by another process"), locked(tmp_path):
            pass
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)


def test_a_folder_that_cannot_be_locked_is_an_error(tmp_path):
    (tmp_path / ".lock").mkdir()
    with pytest.raises(MachineError, match=r"cannot write .*; "), locked(tmp_path):
        pass


def _lock_and_exit(folder):
    locked(folder).__enter__()


@pytest.mark.slow
def test_the_end_of_a_process_releases_its_lock(tmp_path):
    process = multiprocessing.get_context("spawn").Process(target=_lock_and_exit, args=(tmp_path,))
    process.start()
    process.join()
    assert not is_locked(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="locks can be queried on Linux")
def test_reading_the_status_takes_no_lock(tmp_path):
    """A run can be started in the instant in which another process reads its status."""
    write_json(tmp_path / "manifest.json", {"status": "running", "learning": False, "format": FORMAT})
    (tmp_path / ".lock").touch(0o444)
    refused = []
    is_over = threading.Event()

    def read():
        while not is_over.is_set():
            _ = netfl.open_run(tmp_path).status

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(300):
        try:
            with locked(tmp_path):
                pass
        except ScenarioError as error:
            refused.append(error)
    is_over.set()
    reader.join()
    assert not refused


def test_an_unlocked_running_run_has_crashed(tmp_path):
    write_json(tmp_path / "manifest.json", {"status": "running", "learning": False, "format": FORMAT})
    run = netfl.open_run(tmp_path)
    assert run.status == "crashed"
    with locked(tmp_path):
        assert run.status == "running"


def test_a_running_run_cannot_be_resumed(tmp_path):
    settings = {"name": "a", "users": 2, "rounds": 3, "access": {"kind": "bernoulli", "probability": 0.5}}

    class ResumingObserver(RunObserver):
        def on_start(self, start):
            folder = start.folder
            with pytest.raises(ScenarioError, match="another process"):
                netfl.resume(folder)

    run = netfl.trace(validate(ScenarioDocument(settings, "a")), tmp_path / "run", observer=ResumingObserver())
    assert run.status == "done"
    assert len(run.rounds) == 3


def test_a_run_finished_by_another_process_is_not_resumed(tmp_path, monkeypatch):
    write_json(tmp_path / "manifest.json", {"status": "interrupted", "learning": False, "format": FORMAT})

    @contextmanager
    def finish_and_lock(folder):
        write_json(folder / "manifest.json", {"status": "done", "learning": False, "format": FORMAT})
        yield

    monkeypatch.setattr("netfl.simulation.run.locked", finish_and_lock)
    with pytest.raises(ScenarioError, match=r"is finished; use netfl\.extend to add replicas"):
        netfl.resume(tmp_path)


def test_a_run_being_extended_cannot_be_resumed_or_extended(tmp_path):
    settings = {"name": "a", "users": 2, "rounds": 3, "access": {"kind": "bernoulli", "probability": 0.5}}
    statuses = []

    class ResumingObserver(RunObserver):
        def on_start(self, start):
            folder = start.folder
            for call in (lambda: netfl.resume(folder), lambda: netfl.extend(folder.parent, 3)):
                with pytest.raises(ScenarioError, match="another process"):
                    call()
            statuses.append((netfl.open_run(folder).status, netfl.open_run(folder.parent).status))

    netfl.trace(validate(ScenarioDocument(settings, "a")), tmp_path / "run")
    assert netfl.extend(tmp_path / "run", 2, observer=ResumingObserver()).manifest["replicas"] == 2
    assert statuses == [("running", "done")]
