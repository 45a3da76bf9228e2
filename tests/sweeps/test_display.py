"""Progress of a sweep that a program starts: in a notebook, and on a terminal."""

import io
from pathlib import Path

import pytest
from rich.console import Console

import netfl
from netfl.sweeps import TaskUpdate, display
from netfl.sweeps.display import NotebookSweepDisplay, SweepDisplay, sweep_display
from netfl.sweeps.observer import SweepObserver

SCENARIO = {
    "name": "x", "users": 2, "rounds": 2, "access": {"kind": "bernoulli", "probability": 0.5},
    "sweep": {"access.probability": [0.2, 0.5]},
}  # fmt: skip


class Output:
    """An output that keeps what it shows."""

    def __init__(self):
        self.shown = []

    def show(self, html):
        self.shown.append(html)


class Engine:
    """An engine in which the first task is done and the second one fails."""

    def run(self, tasks, folder, report, stop):
        first, second = tasks
        report(TaskUpdate(first.key, 1, 2, 0.5))
        report(TaskUpdate(first.key, 2, 2, ended=True))
        report(TaskUpdate(second.key, ended=True, error="a < b"))


@pytest.fixture
def notebook(monkeypatch):
    monkeypatch.setattr(display, "is_notebook", lambda: True)
    monkeypatch.setattr(display, "NotebookOutput", Output)


def test_a_notebook_shows_tasks_that_ended_and_their_errors(notebook, tmp_path, monkeypatch):
    displays = []
    monkeypatch.setattr(
        display, "NotebookSweepDisplay", lambda: displays.append(NotebookSweepDisplay()) or displays[-1]
    )
    netfl.sweep(SCENARIO, tmp_path, engine=Engine())
    (shown,) = displays
    first, second, last = shown._output.shown
    assert f"2 points → <code>{tmp_path}</code>" in first
    assert "0 of 2 tasks" in first
    assert "1 of 2 tasks" in second
    assert "2 of 2 tasks" in last
    assert last.endswith("<br>probability=0.5 failed: a &lt; b")
    netfl.sweep(SCENARIO, tmp_path, engine=Engine(), progress=False)
    assert len(displays) == 1


def test_an_observer_replaces_the_display(notebook):
    observer = SweepObserver()
    with sweep_display(observer, progress=True) as shown:
        assert shown is observer


def test_a_terminal_shows_the_sweep():
    console = Console(file=io.StringIO(), force_terminal=True, width=100, markup=False, color_system=None)
    with SweepDisplay(console, quiet=False) as shown:
        shown.on_plan(Path("here"), 2, [], 0)
    assert "2 points, 0 tasks → here" in console.file.getvalue()
