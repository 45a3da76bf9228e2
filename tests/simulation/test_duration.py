"""Runs that simulate traffic for a duration instead of rounds, with a plug-in access."""

import json
import textwrap

import numpy as np
import pytest
from rich.console import Console
from support.stop_run import StopAfter
from typer.testing import CliRunner

import netfl
from netfl.access import AccessInfo
from netfl.cli import app
from netfl.cli.views.run_summary import _shortened, show_run
from netfl.errors import ScenarioError
from netfl.scenario.validation import WINDOWS
from netfl.simulation import progress as consoles
from netfl.simulation.dry_run import run_dry
from netfl.simulation.setup import prepare_run

TOY = """\
name: toy
users: 4
duration: 20 s
access: {kind: "watched:Watched"}
"""
LEARNING = """\
data: digits
partition: iid
model: logistic
learners:
  A: {objective: erm, aggregation: average, lr: 0.1, batch_size: 16, local_steps: 2}
evaluate: {every: 5}
"""


@pytest.fixture
def scenario(tmp_path, monkeypatch, watched):
    """A function that loads ``scenario(text, {path: value})`` from a file ``s.yaml``."""
    monkeypatch.chdir(tmp_path)

    def load(text=TOY, changes=None):
        (tmp_path / "s.yaml").write_text(textwrap.dedent(text))
        return netfl.load("s.yaml", changes)

    return load


@pytest.fixture
def messages_of(scenario):
    """A function that returns the errors of a scenario text, one per line."""

    def messages(text):
        try:
            scenario(text)
        except ScenarioError as error:
            return str(error).splitlines()
        return []

    return messages


class TestErrors:
    def test_traffic_has_a_duration_and_no_rounds(self, messages_of):
        problem = "has no effect on traffic alone: the network serves no rounds; leave it out, or add access.round"
        assert messages_of(TOY) == []
        assert messages_of(TOY.replace("duration: 20 s\n", "")) == ["s.yaml: rounds: missing; give it, or 'duration'"]
        assert messages_of(TOY + "rounds: 5\n") == [f"s.yaml:5: rounds: {problem}"]
        assert messages_of(TOY + "rounds: many\n") == [
            "s.yaml:5: rounds: not a whole number ('many'); write a whole number",
            f"s.yaml:5: rounds: {problem}",
        ]

    @pytest.mark.parametrize(
        ("duration", "message"),
        [
            ("0 s", "s.yaml:3: duration: should be greater than 0 ('0 s'); write more than 0"),
            ("-3", "s.yaml:3: duration: should be greater than 0 (-3); write more than 0"),
            ("5 m", "s.yaml:3: duration: a value in m instead of a time ('5 m'); "
             "write a number in s, or a quantity such as '20 ms'"),
        ],
    )  # fmt: skip
    def test_invalid_durations(self, messages_of, duration, message):
        assert messages_of(TOY.replace("20 s", duration)) == [message]

    def test_duration_requires_traffic_or_rounds_that_end_at_a_time(self, messages_of, monkeypatch):
        problem = "s.yaml:3: duration: this access has neither rounds that end at a time, nor traffic (20.0)"
        monkeypatch.setattr("watched.Watched.info", AccessInfo())
        assert messages_of(TOY) == [f"{problem}; give 'rounds' in place of 'duration'"]
        network = TOY.replace('"watched:Watched"', "network, topology: {kind: star, radius: 1 km}")
        assert f"{problem}; give access.round, or access.traffic" in messages_of(network)

    def test_warmup_is_shorter_than_the_duration(self, messages_of):
        assert messages_of(TOY + "warmup: 19 s\n") == []
        assert messages_of(TOY + "warmup: 20 s\n") == [
            "s.yaml:5: warmup: is not shorter than the duration, 20 s (20.0); make it shorter than 'duration'"
        ]
        assert messages_of(TOY + "warmup: -1 s\n") == [
            "s.yaml:5: warmup: should be greater than or equal to 0 ('-1 s'); write 0 or more"
        ]
        text = "name: x\nusers: 2\nrounds: 3\naccess: {kind: bernoulli, probability: 0.5}\nwarmup: 1 s\n"
        assert messages_of(text) == ["s.yaml:5: warmup: has no effect without 'duration' (1.0); leave it out"]

    def test_learning_sections_have_no_effect(self, messages_of):
        assert [line.split(": ", 2)[1:] for line in messages_of(TOY + LEARNING)] == [
            [key, "has no effect on traffic alone: the network serves no rounds; leave it out, or add access.round"]
            for key in ("data", "partition", "model", "learners", "evaluate")
        ]
        assert messages_of(TOY + "data: digts\n") == [
            "s.yaml:5: data: no such data: 'digts'; did you mean 'digits'?",
            "s.yaml:5: data: has no effect on traffic alone: the network serves no rounds; leave it out, or add "
            "access.round",
        ]


def test_resolved_scenario_loads_as_an_equal_scenario(scenario, tmp_path):
    loaded = scenario(TOY + "warmup: 2 s\n")
    (tmp_path / "again.yaml").write_text(loaded.to_yaml())
    assert netfl.load("again.yaml") == loaded
    assert (loaded.duration, loaded.warmup, loaded.steps, loaded.rounds) == (20.0, 2.0, WINDOWS, None)


def test_context_contains_duration_and_warmup(scenario):
    (context,) = prepare_run(scenario(TOY + "warmup: 2 s\n")).contexts
    assert (context.duration_s, context.warmup_s, context.rounds) == (20.0, 2.0, WINDOWS)
    run_dry(scenario())


def test_windows_have_equal_length(scenario):
    run = netfl.trace(scenario(), "run")
    assert run.rounds["closed_s"].to_numpy() == pytest.approx(np.arange(1, WINDOWS + 1) * 20.0 / WINDOWS)
    assert run.deliveries.empty
    assert run.manifest["duration_s"] == 20.0


def test_summary_contains_the_metrics_of_the_access(scenario):
    run = netfl.run(scenario(TOY + "replicas: 3\nwarmup: 2 s\n"), "run")
    assert run.manifest["status"] == "done"
    summary = run.summary
    assert (summary["duration_s"], summary["warmup_s"], summary["replicas"]) == (20.0, 2.0, 3)
    rates = run.final_metrics[run.final_metrics["metric"] == "throughput_bps"]
    assert rates["replica"].tolist() == [0, 1, 2]
    assert rates["value"].nunique() == 3
    assert summary["throughput_bps"] == pytest.approx(rates["value"].mean())
    assert summary["throughput_bps.ci95"] == pytest.approx(4.3027 * rates["value"].std() / np.sqrt(3), rel=1e-4)
    assert abs(summary["throughput_bps"] - 50_000) < 4 * np.sqrt(50 / 54) * 1000
    assert not {"rounds", "outcome.delivered", "rounds_per_hour"} & summary.keys()
    assert "warmup_s" not in netfl.trace(scenario(), "without").summary


def test_metrics_after_the_last_window_are_in_the_summary(scenario, monkeypatch):
    loaded = scenario()
    original = type(loaded.access).rounds

    def rounds(self, context):
        yield from original(self, context)
        context.recorder.final_metrics({"backlog": 1.5})

    monkeypatch.setattr(type(loaded.access), "rounds", rounds)
    assert netfl.trace(loaded, "run").summary["backlog"] == 1.5


def test_resumed_run_equals_the_complete_run(scenario):
    complete = netfl.trace(scenario(), "whole")
    stopped = netfl.trace(scenario(), "run", observer=StopAfter(30))
    assert (stopped.status, stopped.manifest["rounds_done"], stopped.summary) == ("interrupted", 30, {})
    assert stopped.final_metrics.empty
    resumed = netfl.resume("run")
    assert resumed.summary == complete.summary
    assert resumed.final_metrics.equals(complete.final_metrics)


class TestOutput:
    def lines(self, run, width):
        console = Console(width=width, record=True, markup=False, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
        with console.file:
            show_run(run, console)
            return console.export_text().splitlines()

    @pytest.mark.parametrize("width", [80, 120])
    def test_summary_shows_intervals_replicas_and_warmup(self, scenario, width):
        lines = self.lines(netfl.trace(scenario(TOY + "replicas: 3\nwarmup: 2 s\n"), "run"), width)
        assert lines[0] == "20 s simulated · the first 2 s are warm-up and excluded from the metrics"
        assert max(map(len, lines)) <= width
        text = " ".join(" ".join(lines).split())
        assert "Means over 3 replicas; ± is the half width of the 95 % t interval; where it leaves" in text
        for words in ("throughput 4", "± ", "kbps", "delay, mean", "delay, p99", "lost, dropped 17", "Jain index"):
            assert words in text
        assert "utilisation, router:0 90 %" in text
        assert "lost, collided" not in text
        assert "and 3 more in summary.json" in text
        assert lines[-1].startswith("done in ")

    @pytest.mark.parametrize(("nodes", "left_out"), [(7, 0), (8, 2)])
    def test_no_single_metric_of_a_family_is_left_out(self, nodes, left_out):
        summary = {f"utilisation.router:{node}": 0.5 for node in range(nodes)}
        names, count = _shortened([*summary], summary)
        assert (len(names), count) == (nodes - left_out, left_out)

    def test_one_replica_has_no_interval(self, scenario):
        text = "\n".join(self.lines(netfl.trace(scenario(), "run"), 80))
        assert "±" not in text
        assert "warm-up" not in text

    def test_progress_shows_simulated_time(self, scenario, monkeypatch):
        monkeypatch.setattr(consoles, "PLAIN_EVERY_S", -1.0)
        scenario()
        output = CliRunner().invoke(app, ["trace", "s.yaml", "--out", "run"]).output.splitlines()
        assert output[10].startswith("2 s of 20 s · ")
        assert "round" not in output[10]

    @pytest.mark.slow
    def test_report_shows_duration_warmup_and_intervals(self, scenario):
        from netfl import report

        run = netfl.trace(scenario(TOY + "replicas: 3\nwarmup: 2 s\n"), "run")
        page = report.write(run).read_text().replace("\u00a0", " ")
        assert "4 users · 20 s · 3 replicas" in page
        assert "the first 2 s are warm-up and excluded from the metrics" in page
        assert "Means over 3 replicas; ± is the half width of the 95 % t interval" in page
        assert '<th scope="row">throughput</th>' in page
        assert "Participation" not in page
        assert report.picture(run).stat().st_size > 10_000


def test_summary_is_json(scenario):
    netfl.trace(scenario(), "run")
    with open("run/summary.json") as file:  # noqa: PTH123
        assert json.load(file)["replicas"] == 1
