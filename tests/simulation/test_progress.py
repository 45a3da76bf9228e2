"""Progress display of a run: outages, deliveries and metrics of learners."""

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import netfl
from netfl.simulation.progress import SHOWN, ProgressDisplay
from netfl.simulation.run import OutageTracker
from netfl.sweeps.display import SweepDisplay
from netfl.sweeps.plan import Task
from netfl.types import Event, RoundProgress, RunObserver, RunProgress, RunStart

ROOT = Path(__file__).parents[2]


class Recorder:
    """A recorder that stores all calls."""

    def __init__(self):
        self.calls = []

    def wants(self, kind):
        return kind != "sent"

    def record(self, event):
        self.calls.append(event)

    def round_metrics(self, round, values):
        self.calls.append(("round_metrics", round, values))

    def final_metrics(self, values):
        self.calls.append(("final_metrics", values))

    def add_rows(self, table, columns):
        self.calls.append((table, columns))


def test_down_nodes_follow_the_latest_event_in_time():
    tracker = OutageTracker(Recorder())
    tracker.record(Event("up", np.array([5.0, 30.0]), round=1, user=np.array([3, 4])))  # ups are recorded before downs
    tracker.record(Event("down", np.array([1.0, 2.0, 20.0]), round=1, user=np.array([3, 9, 4])))
    tracker.record(Event("down", 7.0, round=1, node="tower:0"))
    tracker.record(Event("down", np.array([8.0]), round=1, user=2))
    assert tracker.down == ("tower:0", 2, 9)
    tracker.record(Event("up", 40.0, round=2, node="tower:0"))
    tracker.record(Event("delivered", 41.0, round=2, user=9))
    assert tracker.down == (2, 9)


def test_tracker_forwards_all_calls():
    recorder = Recorder()
    tracker = OutageTracker(recorder)
    tracker.record(Event("down", 1.0, round=2, user=3, value=4.0, detail="storm"))
    tracker.round_metrics(2, {"c": 0.5})
    tracker.final_metrics({"a": 1.0})
    tracker.add_rows("energy", {"b": np.ones(2)})
    assert recorder.calls == [
        ("down", 1.0, 2, 3, "", 4.0, "storm", ""),
        ("round_metrics", 2, {"c": 0.5}),
        ("final_metrics", {"a": 1.0}),
        ("energy", {"b": pytest.approx(np.ones(2))}),
    ]
    assert (tracker.wants("sent"), tracker.wants("down")) == (False, True)


@pytest.mark.slow
def test_observer_receives_the_down_nodes_of_each_round(tmp_path):
    class DownObserver(RunObserver):
        down_nodes: list

        def __init__(self):
            self.down_nodes = []

        def on_round(self, progress):
            self.down_nodes.append((progress.time_s, progress.down))

    observer = DownObserver()
    scenario = netfl.load(ROOT / "scenarios/rural_outage.yaml", {"rounds": 60, "record": "all"})
    run = netfl.trace(scenario, tmp_path / "run", observer=observer)
    events = run.events.astype({"kind": str, "node": str}).query("replica == 0 and kind in ('down', 'up')")
    events = events.assign(who=events["node"].where(events["node"] != "", events["user"].astype(str)))
    for time_s, down in observer.down_nodes:
        last = events[events["time_s"] <= time_s].sort_values("time_s", kind="stable").groupby("who")["kind"].last()
        assert {*map(str, down)} == {*last[last == "down"].index}
    assert any(down for _, down in observer.down_nodes)


@pytest.fixture
def now(monkeypatch):
    """Return the time of a clock in a list, for a test to move it."""
    now = [0.0]
    monkeypatch.setattr("netfl.simulation.progress.time.monotonic", lambda: now[0])
    return now


def open_display(*, terminal, quiet=False):
    """Return a display, and its console, which writes into a text."""
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100, markup=False, color_system=None)
    return ProgressDisplay(console, quiet=quiet), console


def screen_of(display, console):
    """Return what the display shows on its terminal now: it is drawn when it is left."""
    console.file.seek(0)
    console.file.truncate()
    with display:
        pass
    return console.file.getvalue()


def render_round(now, *, terminal, learners=2):
    """Return what the progress display writes for one round that takes a minute."""
    display, console = open_display(terminal=terminal)
    lanes = [(f"learner {index}", replica) for index in range(learners) for replica in range(2)]
    metrics = {"accuracy": np.linspace(0, 1, len(lanes)), "rare_accuracy": np.full(len(lanes), 0.25)}
    with display:
        display.on_start(RunStart(Path("here"), "rural_outage", 200))
        now[0] += 60
        display.on_round(RunProgress(20, 200, 7260.0, (4, 5, 6, 7), ("tower:1", 8), metrics, lanes))
    return console.file.getvalue()


def render_pass(now, *, terminal):
    """Return what the progress display writes for one round of a pass of tuning, and for one of the run after it."""
    display, console = open_display(terminal=terminal)
    lanes = tuple((f"FedAvg lr={index}", replica) for index in range(14) for replica in range(2))
    metrics = {"accuracy": np.linspace(0, 1, len(lanes))}
    with display:
        of_pass = display.pass_observer()
        of_pass.on_start(RunStart(Path("here/tuning/pass-2"), "rural_outage", 200, lanes=lanes))
        now[0] += 60
        of_pass.on_round(RunProgress(20, 200, 7260.0, (4,), (), metrics, lanes))
    with display:  # a terminal is drawn when it is left
        display.on_start(RunStart(Path("here"), "rural_outage", 200))
        now[0] += 60
        display.on_round(RunProgress(30, 200, 7260.0, (4,), (), {}, ()))
    return console.file.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_passes_of_tuning_are_named(now, terminal):
    output = render_pass(now, terminal=terminal)
    assert "tuning rural_outage: pass 2, 14 candidates" in output
    assert "tuning: round 20/200" in output
    assert "rural_outage → here" in output
    assert "tuning: round 30/200" not in output


def test_lines_of_tuning_are_short_off_a_terminal(now):
    lines = render_pass(now, terminal=False).splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("lr=" in line for line in lines)


def test_terminal_shows_the_round(now):
    output = render_round(now, terminal=True)
    assert "round 20/200" in output
    assert "2 h 01 min simulated · delivered 4 5 6 and 1 more · out: tower:1, users 8" in output
    assert "learner 0 16.7%, rare 25.0%" in output  # the mean of 0 and 1/3
    assert "more learners" not in output


@pytest.mark.parametrize("terminal", [True, False])
def test_the_start_shows_how_models_are_trained_if_it_is_not_the_usual_way(terminal):
    lines = {}
    for training in ("", "one thread, because 2 were only 1.03 times as fast"):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=60, markup=False, color_system=None)
        with ProgressDisplay(console, quiet=False) as display:
            display.on_start(RunStart(Path("here"), "rural_outage", 200, training=training))
        lines[training] = console.file.getvalue()
    for training, output in lines.items():
        assert (f"training: {training}" in output) == bool(training)


def test_terminal_shows_a_requested_stop():
    display, console = open_display(terminal=True)
    with display:
        display.on_start(RunStart(Path("here"), "rural_outage", 200))
        assert not display.stop
        display.ask_to_stop()
        with pytest.raises(KeyboardInterrupt):
            display.ask_to_stop()
    assert display.stop
    assert "stops after this round; press Ctrl-C again to stop immediately" in console.file.getvalue()
    display.ask_to_stop()  # there is nothing left to stop


def test_sweep_display_shows_a_requested_stop():
    console = Console(file=io.StringIO(), force_terminal=True, width=120, markup=False, color_system=None)
    task = Task(trace="world", lanes={}, first=0, stop=1, levels=[], text="", learning=False)
    with SweepDisplay(console, quiet=False) as display:
        display.on_plan(Path("here"), 1, [task], 0)
        display.ask_to_stop()
    assert display.stop
    assert "stops after this round; press Ctrl-C again to stop immediately" in console.file.getvalue()


def test_terminal_shows_the_first_learners_of_many(now):
    output = render_round(now, terminal=True, learners=SHOWN + 3)
    assert f"learner {SHOWN - 1} " in output
    assert f"learner {SHOWN} " not in output
    assert "and 3 more learners" in output


def test_pipe_receives_lines(now):
    (line,) = [line for line in render_round(now, terminal=False).replace("\n", " ").split("here ") if "round" in line]
    assert (
        "round 20/200 · 2 h 01 min simulated · delivered 4 5 6 and 1 more · out: tower:1, users 8 · learner 0" in line
    )
    assert " s left" in line


def test_remaining_time_uses_recent_rounds_and_ignores_diverged_replicas(monkeypatch):
    clock = iter([0.0, 0.0, 10.0, 20.0])
    monkeypatch.setattr("netfl.simulation.progress.time.monotonic", lambda: next(clock))
    console = Console(file=io.StringIO(), width=200, markup=False)
    display = ProgressDisplay(console, quiet=False)
    display.on_start(RunStart(Path("here"), "rural_outage", 1000))
    lanes = [("A", 0), ("A", 1), ("B", 0)]
    metrics = {"accuracy": np.array([0.5, np.nan, np.nan])}
    for index in (900, 910):  # the first 900 rounds are restored at once
        display.on_round(RunProgress(index, 1000, 1.0, (1,), (), metrics, lanes))
    last = console.file.getvalue().splitlines()[-1]
    assert last.endswith("A 50.0% · B diverged · 90 s left")


def run_pulses(now, *times, terminal=False, opened=True, stop=False, timed=False, quiet=False):
    """Return a display that receives progress of a round at *times* (s), and its console."""
    now[0] = 0.0
    display, console = open_display(terminal=terminal, quiet=quiet)
    if opened:
        display.on_start(RunStart(Path("here"), "rural_outage", 200, 9000.0 if timed else None))
    if stop:
        display.ask_to_stop()
    for index, now[0] in enumerate(times):
        display.on_progress(RoundProgress(3, 60.0 * index, 10_000 * index, 5_000 * index))
    return display, console


def lines_of_pulses(now, *times, **options):
    """Return the lines that a display writes of a round whose progress it receives at *times* (s)."""
    _, console = run_pulses(now, *times, **options)
    return console.file.getvalue().splitlines()


def test_slow_round_prints_lines_periodically(now):
    assert lines_of_pulses(now, 0.1, 4.9, 5.1, 5.2, 10.0, 10.2) == [
        "rural_outage → here",
        "in round 3: 2 min 00 s simulated · 20,000 attempts, the last 10,000 of them failed",
        "in round 3: 5 min 00 s simulated · 50,000 attempts, the last 25,000 of them failed",
    ]
    assert lines_of_pulses(now, 0.1, 4.9, 5.1, timed=True)[-1].startswith("running: 2 min 00 s simulated")


def test_slow_round_reports_a_stop_and_preparation_stops_at_once(now):
    last = lines_of_pulses(now, 6.0, stop=True)[-1]
    assert last.startswith("in round 3: 0 s simulated")
    assert last.endswith("stops after this round; press Ctrl-C again to stop immediately")
    assert lines_of_pulses(now, 6.0, opened=False)[0].startswith("partitioning the data, in round 3: 0 s simulated")
    with pytest.raises(KeyboardInterrupt):
        run_pulses(now, 0.1, opened=False, stop=True)


def test_terminal_shows_a_slow_round_until_it_ends(now):
    assert "in round" not in screen_of(*run_pulses(now, 0.5, 1.9, terminal=True))
    display, console = run_pulses(now, 0.5, 1.9, 2.1, 2.15, terminal=True)
    assert "in round 3: 2 min 00 s simulated" in screen_of(display, console)
    display.on_round(RunProgress(3, 200, 200.0, (1,), (), {}, ()))
    assert "in round" not in screen_of(display, console)


def test_quiet_display_prints_nothing(now):
    assert lines_of_pulses(now, 0.1, 99.0, quiet=True) == []
