"""The campaign runs what is missing, the cheap runs first, and continues after kills to the same page."""

import json
import math
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import campaign as campaigns
import paper
import pytest
from campaign import Campaign, join_adjacent
from kept_checkpoints import KeptCheckpoints, round_of_run
from reproduction import TURNS, Result
from run_results import merge_results, write_results
from support import toy_experiment
from support.inline_sweep_engine import Here
from support.stop_run import StopAfter

import netfl
from netfl.results.run_reader import open_run
from netfl.scenario import yaml_document
from netfl.simulation.learners import open_learner
from netfl.simulation.run import perform_run
from netfl.simulation.setup import prepare_run


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The toy experiment, in a folder of its own."""
    return toy_experiment.use(tmp_path, monkeypatch.setattr)


@pytest.fixture
def campaign(toy, tmp_path):
    return Campaign([toy], tmp_path / "runs", tmp_path / "results")


def stems(replicas):
    return [replica.stem for replica in replicas]


def run_part_of(replica, folder, observer):
    """Run a replica in its folder until the observer stops it."""
    setup = prepare_run(replica.task.scenario, replicas=replica.numbers)
    with open_learner(setup, "cpu", learning=True) as learner:
        folder.mkdir(parents=True, exist_ok=True)
        return perform_run(setup, learner, folder, observer)


def test_cheap_runs_come_first(campaign):
    expected = ["main.0", "main.1", "main.2", "other.0", "other.1", "other.2"]
    assert stems(campaign.missing()) == [f"toy.{name}" for name in expected]


def test_turns_come_before_costs_and_first_replicas_before_further_ones(toy, tmp_path):
    settings = {"main": (2, 0.01), "other": (1, 0.05), "equal": (1, 0.05), "never": (0, 0.01), "unknown": (1, math.nan)}
    parts = {name: replace(toy.parts["main"], turn=turn, core_hours=hours) for name, (turn, hours) in settings.items()}
    found = stems(Campaign([replace(toy, parts=parts)], tmp_path / "runs", tmp_path / "results").missing())
    pairs = [f"toy.{name}.{number}" for number in range(3) for name in ("other", "equal")]
    rest = [f"toy.{name}.{number}" for name in ("unknown", "main") for number in range(3)]
    assert found == [*pairs, *rest]


def test_replica_of_a_campaign_equals_that_of_a_whole_run(campaign, toy, tmp_path):
    whole = netfl.run(toy.parts["main"].load(), tmp_path / "whole")
    write_results(toy, {"main": [whole]}, tmp_path / "other")
    campaign.run(Here(most=2), lambda: False)
    stored, expected = campaign.results_of(toy)["main"], Campaign([toy], tmp_path, tmp_path / "other").results_of(toy)
    assert (stored.replicas, expected["main"].replicas) == ([0, 1], [0, 1, 2])
    for learner in ("A", "B"):
        assert stored.values(learner, "accuracy") == pytest.approx(expected["main"].values(learner, "accuracy")[:2])
    assert {*stems(campaign.missing())} == {"toy.main.2", *(f"toy.other.{number}" for number in range(3))}


def test_replicas_that_run_together_equal_those_of_single_runs(campaign, toy, tmp_path):
    campaign.run(Here(), lambda: False)
    single = campaign.results_of(toy)["main"]
    batched = Campaign([toy], tmp_path / "batched", tmp_path / "other")
    batched.run(Here(most=1), lambda: False)  # the first replica alone, so that two remain
    engine = Here()
    batched.run(engine, lambda: False, together=True)
    assert [task.label for task in engine.done] == ["toy.main.1-2", "toy.other.0-2"]
    together = batched.results_of(toy)["main"]
    assert together.replicas == single.replicas == [0, 1, 2]
    for learner in ("A", "B"):
        assert together.values(learner, "accuracy") == pytest.approx(single.values(learner, "accuracy"))
    assert batched.missing() == []


def test_only_replicas_with_adjacent_numbers_run_together(campaign):
    replicas = [replica for replica in campaign.missing() if (replica.name, replica.first) != ("main", 1)]
    assert stems(join_adjacent(replicas)) == ["toy.main.0", "toy.main.2", "toy.other.0-2"]


def test_hours_of_a_gpu_do_not_count_as_those_of_cores(campaign, toy):
    campaign.run(Here(most=3), lambda: False)
    result = campaign.results_of(toy)["main"]
    for number, replica in result.content["replicas"].items():
        replica.update({"wall_s": 3600.0} | ({} if number == "0" else {"gpu": "a GPU"}))
    assert (result.core_s, result.gpu_s) == (3600.0, 7200.0)
    assert toy.hours("main", result) == 1.0
    del result.content["replicas"]["0"]
    assert toy.hours("main", result) == toy.parts["main"].core_hours


def test_stored_replicas_do_not_run_again(campaign, tmp_path):
    assert campaign.run(Here(most=3), lambda: False) == {"toy"}
    shutil.rmtree(tmp_path / "runs")
    left, engine = campaign.missing(), Here()
    assert {*stems(left)} == {"toy.other.0", "toy.other.1", "toy.other.2"}
    campaign.run(engine, lambda: False)
    assert [task.label for task in engine.done] == stems(left)
    assert campaign.missing() == []
    engine = Here()
    assert campaign.run(engine, lambda: False) == set()
    assert engine.done == []


def test_results_of_other_settings_do_not_count(campaign, toy, tmp_path):
    campaign.run(Here(most=3), lambda: False)
    changed = replace(toy.parts["main"], changes={"learners.A.lr": 0.2})
    other = Campaign([replace(toy, parts={"main": changed})], tmp_path / "runs", tmp_path / "results")
    assert stems(other.missing()) == ["toy.main.0", "toy.main.1", "toy.main.2"]
    new_metric = replace(toy, rows=[replace(toy.rows[0], metric="loss")])
    assert len(Campaign([new_metric], tmp_path / "runs", tmp_path / "results").missing()) == 6


def test_new_keys_count_unless_they_have_their_defaults(campaign, toy):
    """A result of a version without the key ``weights`` has its default; ``model.weights`` and learners likewise."""
    campaign.run(Here(most=1), lambda: False)
    settings = json.loads(json.dumps(campaign.results_of(toy)["main"].content["settings"]))
    part = toy.parts["main"]
    assert part.has_settings(settings)
    del settings["learners"]["A"]["aggregation"]["weights"]
    del settings["model"]["weights"]
    assert part.has_settings(settings)
    equal = replace(part, changes={"learners.A.aggregation.weights": "equal"})
    assert not equal.has_settings(settings)
    settings["learners"]["A"]["aggregation"]["weights"] = "equal"
    assert equal.has_settings(settings)
    del settings["learners"]["B"]
    assert not equal.has_settings(settings)


def test_new_keys_of_models_in_a_list_count_unless_they_have_their_defaults():
    part = paper.EXPERIMENTS["cvar_access"].parts["emergent"]
    settings = json.loads(json.dumps(part.settings))
    channel = settings["access"]["channel"]
    del channel[0]["min_distance"]
    assert part.has_settings(settings)
    exponent = channel[0].pop("exponent")
    assert not part.has_settings(settings)
    channel[0]["exponent"] = exponent + 1.0
    assert not part.has_settings(settings)
    channel[0]["exponent"] = exponent
    channel.pop()
    assert not part.has_settings(settings)


def test_results_of_other_settings_are_not_read(campaign, toy, tmp_path):
    campaign.run(Here(most=1), lambda: False)
    changed = replace(toy, parts={"main": replace(toy.parts["main"], changes={"seed": 9})})
    assert Campaign([changed], tmp_path / "runs", tmp_path / "results").results_of(changed) == {}


def test_a_plan_reads_each_scenario_once(campaign, monkeypatch):
    """The YAML of a scenario takes most of the time of a plan."""
    read, paths = yaml_document.read, []
    monkeypatch.setattr(yaml_document, "read", lambda path: paths.append(path) or read(path))
    assert len([*campaigns.plan_lines(campaign)]) == 4
    assert len(paths) == 1


def test_results_are_merged_by_replica_unless_settings_differ():
    old = Result({"rounds": 1, "settings": {"lr": 1, "old": 0}, "replicas": {"0": "a", "2": "b"}})
    added = {"rounds": 1, "settings": {"lr": 1, "new": 0}, "replicas": {"10": "c", "2": "d"}}
    merged = merge_results(old, added)
    assert [*merged["replicas"].items()] == [("0", "a"), ("2", "d"), ("10", "c")]
    assert merge_results(old, added | {"settings": {"lr": 2}})["replicas"] == added["replicas"]
    assert merge_results(None, added) == added


def test_failed_run_is_reported_and_others_continue(campaign):
    lines = []
    campaign.run(Here(fail=[1], error="no memory"), lambda: False, lines.append)
    assert "toy.main.1: failed: no memory" in lines
    assert stems(campaign.missing()) == ["toy.main.1"]


def test_run_that_finished_before_a_kill_is_stored(campaign, tmp_path):
    first = campaign.missing()[0]
    run_part_of(first, campaign.run_folder(first), StopAfter(1000))
    engine, lines = Here(most=0), []
    assert campaign.run(engine, lambda: False, lines.append) == {"toy"}
    assert lines == ["toy.main.0: done"]


def test_checkpoint_continues_in_a_new_clone(campaign, toy, tmp_path):
    first = campaign.missing()[0]
    run_part_of(first, campaign.run_folder(first), StopAfter(20))
    campaign.run(Here(most=0), lambda: True)
    (archive,) = (tmp_path / "results/checkpoints").iterdir()
    assert archive.name == "toy.main.0.round-20.tar.xz"
    assert campaign.share_done(first) == 20 / 30
    shutil.rmtree(tmp_path / "runs")
    assert campaign.share_done(first) == 20 / 30
    lines = []
    campaign.run(Here(most=1), lambda: False, lines.append)
    assert lines == ["toy.main.0: continues from the stored checkpoint", "toy.main.0: done"]
    assert open_run(campaign.run_folder(first)).manifest["timings"]["rounds_kept"] == 20
    assert not [*(tmp_path / "results/checkpoints").iterdir()]
    whole = netfl.run(toy.parts["main"].load(replicas=1), tmp_path / "whole")
    write_results(toy, {"main": [whole]}, tmp_path / "other")
    expected = Campaign([toy], tmp_path, tmp_path / "other").results_of(toy)["main"].values("A", "accuracy")
    assert campaign.results_of(toy)["main"].values("A", "accuracy") == expected


def test_kept_checkpoints_stay_below_their_limit(campaign, tmp_path):
    first, second = campaign.missing()[:2]
    for replica in (first, second):
        run_part_of(replica, campaign.run_folder(replica), StopAfter(10))
    kept = KeptCheckpoints(tmp_path / "kept")
    assert kept.keep("a", campaign.run_folder(first))
    size = kept.archives["a"].stat().st_size
    small = KeptCheckpoints(tmp_path / "kept", limit=size + size // 2)
    assert not small.keep("b", campaign.run_folder(second))
    assert [*small.archives] == ["a"]
    assert kept.keep("b", campaign.run_folder(second))
    run_part_of(first, campaign.run_folder(first), StopAfter(12))
    assert kept.keep("a", campaign.run_folder(first))
    assert [kept.round_of(name) for name in ("a", "b", "c")] == [12, 10, 0]
    assert len([*kept.folder.iterdir()]) == 2
    assert not kept.restore("a", campaign.run_folder(first))  # the run directory is as far
    assert kept.restore("a", tmp_path / "new")
    assert round_of_run(tmp_path / "new") == 12


def test_plan_lists_hours_and_replicas(campaign):
    campaign.run(Here(most=1), lambda: False)
    head, first, second, total = campaigns.plan_lines(campaign)
    assert head.split() == ["run", "replicas", "h", "done", "h", "left", "turn"]
    rows = {line.split()[0]: line.split()[1:4] for line in (first, second)}
    assert rows == {"toy.main": ["1", "of", "3"], "toy.other": ["0", "of", "3"]}
    assert ["0.15", "1"] in (first.split()[-2:], second.split()[-2:])
    assert total.startswith("all")


@pytest.mark.slow
def test_parts_have_documented_turns_and_estimates():
    for experiment in paper.EXPERIMENTS.values():
        stored = paper.read_results(experiment, paper.RESULTS)
        for name, part in experiment.parts.items():
            assert part.turn in TURNS
            done = experiment.count_done(name, stored.get(name)) == part.replicas
            assert part.turn == 0 or done or experiment.hours(name, stored.get(name)) > 0, (experiment.name, name)


@pytest.mark.slow
def test_kept_checkpoints_belong_to_unfinished_replicas_and_are_small():
    kept = KeptCheckpoints(paper.RESULTS / "checkpoints")
    campaign = Campaign([*paper.EXPERIMENTS.values()], paper.ROOT / "runs", paper.RESULTS)
    assert {*kept.archives} <= {*stems(campaign.missing())}
    assert sum(path.stat().st_size for path in kept.archives.values()) <= 20_000_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the time is missing. Give it with --hours"),
        (["--hours", "1", "--workers", "0"], "--workers 0 is no number of runs"),
        (["--only", "fig9"], "there is no experiment 'fig9'"),
    ],
)
def test_command_line_errors(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        campaigns.main(arguments)
    assert message in capsys.readouterr().err


PROGRAM = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
import campaign
from support import toy_experiment
toy_experiment.use(Path(sys.argv[1]))
campaign.KEEP_EVERY_S, campaign.MARGIN_S = 0.1, 0
campaign.main(["--hours", "1", "--workers", "1", "--runs", str(Path(sys.argv[1]) / "runs")])
"""


def start(folder):
    """Start a campaign of the toy in a process of its own."""
    command = [sys.executable, "-c", PROGRAM, str(folder), *sys.path]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def without_times(folder):
    """Return the stored results without their times, and the page written from them."""
    found = {}
    for path in sorted((folder / "results").glob("*.json")):
        content = json.loads(path.read_text())
        for replica in content["replicas"].values():
            replica["wall_s"] = 3600.0
        path.write_text(json.dumps(content))
        found[path.name] = content
    return found, paper.write_page().read_text()


@pytest.mark.slow
@pytest.mark.thorough
def test_killed_three_times_ends_in_the_same_page(tmp_path, monkeypatch):
    expected, resumed = tmp_path / "expected", tmp_path / "resumed"
    process = start(expected)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    points = [
        (resumed / "runs/tasks").exists,  # in the first run, or before
        lambda: [*resumed.glob("results/*.json")],  # after the first result
        lambda: [*resumed.glob("results/checkpoints/toy.other.*.xz")],  # in a slow run
    ]
    for number, is_reached in enumerate(points):
        process, limit = start(resumed), time.monotonic() + 300
        while not is_reached() and process.poll() is None and time.monotonic() < limit:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, number
    assert [*resumed.glob("results/checkpoints/toy.other.*.xz")]
    time.sleep(2)  # until the worker of the killed campaign has ended
    shutil.rmtree(resumed / "runs")  # a new clone: only what is committed
    process = start(resumed)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert re.search(r"toy\.other\.\d: continues from the stored checkpoint", output)
    found = []
    for folder in (expected, resumed):
        toy_experiment.use(folder, monkeypatch.setattr)
        found.append(without_times(folder))
    assert found[0] == found[1]
    assert not [*resumed.rglob("*.part")]
    assert "| Toy: one | 6.0 | 0 | nothing |" in found[0][1]


@pytest.mark.slow
def test_terminated_campaign_stops_with_checkpoints_and_writes_the_page(tmp_path):
    process = start(tmp_path)
    while not [*tmp_path.glob("results/checkpoints/toy.other.*.xz")] and process.poll() is None:
        time.sleep(0.01)
    process.terminate()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "stopped after" in output
    assert (tmp_path / "docs/reproduction/index.md").exists()
