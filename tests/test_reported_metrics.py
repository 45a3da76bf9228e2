"""Metrics that aggregations, selections and allocations report: in tables, reports and sweeps, after a stop, in errors.

The two plug-ins of the guide report a distance and an objective, which the tests compute again.
"""

import math
import re
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from support.exported_runs import Stopping
from support.small_network import SECTION
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.errors import ModelError, ScenarioError
from netfl.learning.aggregation import Aggregation
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.relay import Relay
from netfl.results.digests import run_digests
from netfl.results.metrics import find_metric, metrics_in, reported_metrics, with_reported
from netfl.results.reported_means import ReportedMeans
from netfl.results.tracking import MetricTracker
from netfl.scenario.sweep_axes import SearchSpec
from netfl.simulation.setup import prepare_run
from netfl.sweeps.search import check_direction
from netfl.tracker import RunLog, TensorBoard
from netfl.types import LearnerReport, Reported, reported_problem

EXAMPLES = Path(__file__).parents[1] / "examples/reports"
SMALL = {"lr": 0.1, "batch_size": 8, "local_steps": 2, "objective": "erm"}
GAP, SHARE = "trim_gap", "age_share"


def settings(**changes):
    """Return a scenario with both plug-ins of the guide."""
    return {
        "name": "reports", "users": 9, "rounds": 17, "replicas": 2, "seed": 3,
        "access": {
            "kind": "bernoulli", "probability": 0.7, "selection": {"kind": "oldest_share:OldestShare", "m": 5}
        },
        "data": "digits", "partition": "iid", "model": "logistic", "evaluate": {"every": 5},
        "learners": {
            "plain": {**SMALL, "aggregation": "average"},
            "own": {**SMALL, "aggregation": "trimmed:Trimmed"},
        },
    } | changes  # fmt: skip


@pytest.fixture(autouse=True)
def _examples(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setenv("PYTHONPATH", f"{EXAMPLES}")  # of worker processes
    monkeypatch.setenv("COLUMNS", "140")


def run_of(folder, **changes):
    return netfl.run(netfl.load(settings(**changes)), folder, device="cpu", progress=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        return run_of(tmp_path_factory.mktemp("reports") / "run")


def series(run, metric, learner):
    """Return the values of a metric by replica and round."""
    rows = run.metrics
    rows = rows[(rows["metric"] == metric) & (rows["learner"] == learner)]
    return rows.set_index(["replica", "round"])["value"]


# --- values -------------------------------------------------------------------


def test_a_selection_reports_the_mean_since_the_last_evaluation(run):
    """The objective follows from the recorded deliveries, by which the selection ages its users."""
    expected = {}
    for replica in range(2):
        last = np.zeros(9, int)
        shares = []
        for index in range(1, 18):
            ages = index - last
            shares.append(np.sort(ages)[-5:].sum() / ages.sum())
            deliveries = run.deliveries.query(f"replica == {replica} and round == {index}")
            last[deliveries["user"]] = index
        expected |= {(replica, end): np.mean(shares[begin:end]) for begin, end in ((0, 5), (5, 10), (10, 15), (15, 17))}
        final = run.final_metrics.query(f"replica == {replica} and metric == 'age_share'")["value"]
        assert final.tolist() == pytest.approx([np.mean(shares)])
    assert series(run, SHARE, "").to_dict() == pytest.approx(expected)


def test_an_aggregation_reports_the_mean_over_its_steps(run, tmp_path):
    every = series(run_of(tmp_path / "every", evaluate={"every": 1}), GAP, "own")
    for begin, end in ((0, 5), (5, 10), (10, 15), (15, 17)):
        for replica in range(2):
            steps = [every[replica, index] for index in range(begin + 1, end + 1) if (replica, index) in every]
            assert series(run, GAP, "own")[replica, end] == pytest.approx(np.mean(steps), rel=1e-12)
    assert series(run, GAP, "plain").empty
    assert 0 not in series(run, GAP, "own").index.get_level_values("round")


def test_the_value_of_a_step_is_that_of_its_formula(tmp_path):
    """With one delivery the trimmed mean is the mean: a gap of 0 is a value, and a round without a step has none."""
    access = {"kind": "bernoulli", "probability": 0.15, "deliveries": 1}
    run = run_of(tmp_path / "one", access=access, evaluate={"every": 1}, rounds=12, users=3)
    delivered = run.rounds.set_index(["replica", "round"])["delivered"]
    gaps = series(run, GAP, "own")
    assert (gaps == 0.0).all()
    assert {*gaps.index} == {*delivered[delivered > 0].index}
    assert len(gaps) < len(delivered)


class Senders(Average):
    """Reports the mean number of the senders of a step."""

    reports: ClassVar = (Reported("sender", "mean number of the senders"),)

    def metrics(self, state, current, updates, following):
        return {"sender": updates.users.double().mean()}


class Together(Relay):
    """Steps several lanes at once, unless it reports, which it does."""

    reports: ClassVar = Senders.reports

    @classmethod
    def step_together(cls, rules, states, current, updates):
        return super().step_together(rules, states, current, updates)

    metrics = Senders.metrics


def test_all_nodes_that_merge_report_their_steps(tmp_path):
    """Three edges have the users 0, 3, 6 and so on: the value is the mean over their steps, of 3, 4 and 5."""
    learners = {"own": {**SMALL, "aggregation": f"{__name__}:Senders"}}
    access = {"kind": "support.merging_accesses:Edges", "edges": 3}
    run = run_of(tmp_path / "edges", access=access, learners=learners, evaluate={"every": 1}, rounds=2)
    assert series(run, "sender", "own").tolist() == [4.0] * 4


def test_rules_that_report_step_lane_by_lane(tmp_path):
    learners = {"own": {**SMALL, "aggregation": f"{__name__}:Together"}}
    access = {"kind": "stationary", "rho": {"zipf": 1}, "deliveries": 1}
    run = run_of(tmp_path / "single", access=access, learners=learners, evaluate={"every": 1})
    users = run.deliveries.set_index(["replica", "round"])["user"]
    assert series(run, "sender", "own").to_dict() == users.astype(float).to_dict()


# --- where they are shown -----------------------------------------------------


def test_declarations_are_in_the_manifest(run):
    assert [metric.name for metric in run.reported] == [GAP, SHARE]
    gap, share = run.reported
    assert (gap.label, gap.low_is_good, gap.is_learned) == ("distance from the plain mean", True, True)
    assert (share.label, share.unit, share.low_is_good, share.is_learned) == (
        "ages of the selected users", "%", False, False
    )  # fmt: skip


def test_the_terminal_shows_labels_and_units(run):
    from netfl.cli.views.run_summary import show_run
    from netfl.core.screen import open_console

    console = open_console()
    with console.capture() as captured:
        show_run(run, console)
    text = captured.get()
    assert re.search(r"ages of the selected users\s+[\d.]+\s+%", text)
    assert "distance from the plain mean" in text


@pytest.mark.slow
def test_the_report_has_both(run, tmp_path):
    from netfl import report

    page = report.write(run, tmp_path / "page.html").read_text()
    assert "Distance from the plain mean" in page
    assert "ages of the selected users" in page
    assert "Each value is the mean over the decisions since the evaluation before." in page
    assert report.picture(run).exists()
    assert "Learner" in page
    several = report.write_several([run.folder, run.folder], tmp_path / "several.html").read_text()
    assert "Distance from the plain mean" in several


def test_plots_draw_both(run):
    from netfl import plots

    learned, of_network, accuracy = Figure().subplots(1, 3)
    plots.curves(run.metrics, GAP, ax=learned)
    assert learned.get_ylabel() == "distance from the plain mean"
    plots.curves(run.metrics, SHARE, ax=of_network)
    assert of_network.get_ylabel() == "ages of the selected users (%)"
    (line,) = [line for line in of_network.get_lines() if len(line.get_xdata()) == 4]
    assert line.get_ydata() == pytest.approx(100 * series(run, SHARE, "").groupby("round").mean().to_numpy())
    plots.curves(run.metrics, "accuracy", ax=accuracy)
    assert [text.get_text() for text in accuracy.get_legend().get_texts()] == ["plain", "own"]
    with pytest.raises(ValueError, match="no learner has the metric 'trim_gab'; did you mean 'trim_gap'"):
        plots.curves(run.metrics, "trim_gab")


def test_runs_are_compared_by_them(run):
    table = netfl.compare(run, [GAP, SHARE])
    assert "distance from the plain mean" in repr(table)
    assert "ages of the selected users (%)" in repr(table)
    assert "ages of the selected users" in table.to_latex()
    with pytest.raises(ScenarioError, match="no run has this metric \\('trim_gab'\\); did you mean 'trim_gap'"):
        netfl.compare(run, "trim_gab")


def test_names_are_known_only_where_a_run_is_shown(run):
    assert find_metric(GAP).label == "trim gap"
    with with_reported(run.reported):
        assert find_metric(GAP).label == "distance from the plain mean"
        assert GAP in metrics_in("final")
    assert GAP not in metrics_in("final")


def test_si_units_are_in_the_labels_of_learners():
    entry = {"name": "x", "label": "spent", "unit": "J", "low_is_good": None, "is_learned": True}
    assert reported_metrics([entry])[0].label == "spent (J)"


@pytest.mark.slow
def test_a_sweep_shows_and_places_them(tmp_path):
    sweep = {"grid": {"access.selection.m": [3, 5]}}
    found = netfl.sweep(netfl.load(settings(sweep=sweep, replicas=1)), tmp_path / "sweep", progress=False)
    assert [metric.name for metric in found.reported] == [GAP, SHARE]
    means = found.summary.set_index(["m", "learner", "metric"])["mean"]
    rows = found.metrics[found.metrics["learner"] == ""]
    assert {*rows["metric"]} == {SHARE}
    counts = rows.groupby("m")["value"].count()
    assert counts.to_dict() == {3: 4, 5: 4}
    assert means[5, "", SHARE] > means[3, "", SHARE]
    assert means[3, "own", f"{GAP}.last_tenth"] > 0
    from netfl import report
    from netfl.cli.views.sweep import show_sweep
    from netfl.core.screen import open_console

    console = open_console()
    with console.capture() as captured:
        show_sweep(found, console)
    text = captured.get()
    assert "distance from the plain mean" in text
    assert "ages of the selected users" in text
    page = report.write_sweep(found).read_text()
    assert "own: Distance from the plain mean" in page
    assert "ages of the selected users" in page


class Lines(RunLog):
    """A tracker's log that keeps what it gets."""

    def __init__(self):
        self.lines = []

    def log_metrics(self, lane, round, time_s, values):
        self.lines.append((lane, round, dict(values)))


def test_trackers_get_those_of_the_network_with_each_lane():
    log = Lines()
    tracker = MetricTracker([(TensorBoard(), log)], (("a", 2), ("a", 3)), "")
    of_access = {SHARE: np.array([0.5, np.nan])}
    tracker.on_metrics(LearnerReport(5, {GAP: np.array([1.0, 2.0])}, of_access=of_access), [1.0, 2.0])
    assert log.lines == [(("a", 2), 5, {GAP: 1.0, SHARE: 0.5}), (("a", 3), 5, {GAP: 2.0})]


@pytest.mark.parametrize(("direction", "is_right"), [("minimize", True), ("maximize", False)])
def test_a_search_has_the_direction_of_its_metric(direction, is_right, run):
    spec = SearchSpec(
        engine="optuna", trials=2, metric=f"{GAP}", learner="own", direction=direction,
        parameters={"learners.own.lr": {"uniform": [0.1, 0.2]}},
    )  # fmt: skip
    if is_right:
        check_direction(spec, run.reported)
        return
    message = "sweep.direction: contradicts the plug-in that reports 'trim_gap': low_is_good is True .*minimize"
    with pytest.raises(ScenarioError, match=message):
        check_direction(spec, run.reported)


@pytest.mark.extra
def test_a_search_optimises_a_reported_metric(tmp_path):
    pytest.importorskip("optuna", reason="netfl-sim[optuna] is not installed")
    sweep = {
        "engine": "optuna", "trials": 3, "metric": SHARE, "direction": "maximize",
        "parameters": {"access.selection.m": {"integer": [2, 6]}},
    }  # fmt: skip
    learners = {"own": settings()["learners"]["own"]}
    scenario = netfl.load(settings(sweep=sweep, replicas=1, learners=learners))
    found = netfl.sweep(scenario, tmp_path / "search", progress=False)
    best = found.trials.loc[found.trials["value"].idxmax()]
    assert best["m"] == found.trials["m"].max()


# --- other ways to run --------------------------------------------------------


@pytest.mark.parametrize("stop", [5, 7])
def test_a_stopped_run_has_the_tables_of_one_that_was_not(run, tmp_path, stop):
    folder = tmp_path / "stopped"
    scenario = netfl.load(settings())
    stopped = netfl.run(scenario, folder, device="cpu", observer=Stopping(stop))
    assert stopped.status == "interrupted"
    resumed = netfl.resume(folder, device="cpu", progress=False)
    assert run_digests(resumed.folder) == run_digests(run.folder)


@pytest.mark.slow
def test_workers_report_the_same(run, tmp_path):
    """A stop with two workers, and a resumption with one, after which the sums go on."""
    folder = tmp_path / "two"
    scenario = netfl.load(settings())
    netfl.run(scenario, folder, device="cpu", workers=2, observer=Stopping(7))
    resumed = netfl.resume(folder, device="cpu", progress=False)
    for metric, learner in ((GAP, "own"), (SHARE, "")):
        assert series(resumed, metric, learner).to_dict() == pytest.approx(series(run, metric, learner).to_dict())


def test_a_replay_reports_what_its_aggregations_report(run, tmp_path):
    access = {"kind": "replay", "run": str(run.folder)}
    replayed = run_of(tmp_path / "replay", access=access)
    assert series(replayed, GAP, "own").to_dict() == series(run, GAP, "own").to_dict()
    assert series(replayed, SHARE, "").empty
    assert SHARE not in replayed.summary


def test_a_trace_has_the_values_of_each_round(run, tmp_path):
    trace = netfl.trace(netfl.load(settings()), tmp_path / "trace", progress=False)
    values = series(trace, SHARE, "")
    assert len(values) == 2 * 17
    assert trace.summary[SHARE] == run.summary[SHARE]
    assert values[0].mean() == pytest.approx(trace.final_metrics.query("metric == 'age_share'")["value"].iloc[0])
    from netfl import report

    page = report.write(trace, tmp_path / "trace.html").read_text()
    assert "Each value is the mean over the decisions of a round." in page


def test_the_steps_of_a_simulation_report(run):
    with netfl.Simulation(netfl.load(settings())) as simulation:
        while not simulation.is_done:
            simulation.step()
        simulation.finish()
        tables = simulation.snapshot()
    final = tables["final_metrics"].set_index("metric")["value"]
    assert final[SHARE] == run.final_metrics.query("replica == 0 and metric == 'age_share'")["value"].iloc[0]


def test_an_extended_run_has_those_of_all_replicas(tmp_path):
    folder = tmp_path / "extended"
    run_of(folder, replicas=1)
    extended = netfl.extend(folder, 2, device="cpu", progress=False)
    whole = run_of(tmp_path / "whole")
    assert series(extended, SHARE, "").to_dict() == series(whole, SHARE, "").to_dict()


# --- errors -------------------------------------------------------------------

DECLARED = (Reported("gap", "a gap"),)


class Reporting(Aggregation):
    """The mean change; what it reports is set by each test."""

    reports: ClassVar = DECLARED
    values: ClassVar = {}

    def step(self, state, current, updates):
        return current + (updates.models - updates.bases).mean(0), state

    def metrics(self, state, current, updates, following):
        return type(self).values


class Late(Reporting):
    """Reports a number that is not finite from the third round on."""

    def metrics(self, state, current, updates, following):
        return {"gap": current.new_tensor(1.0 if updates.round < 3 else math.inf)}


class Breaking(Reporting):
    """Makes a version that is not finite, of which it reports the norm."""

    def step(self, state, current, updates):
        return current * (1.0 if updates.round < 3 else math.inf), state

    def metrics(self, state, current, updates, following):
        return {"gap": following.norm()}


class Silent(Average):
    """Returns a metric that it does not declare."""

    def metrics(self, state, current, updates, following):
        return {"gap": current.new_tensor(1.0)}


def with_rule(rule):
    learners = {"plain": settings()["learners"]["plain"], "own": {**SMALL, "aggregation": f"{__name__}:{rule}"}}
    return netfl.load(settings(learners=learners, access={"kind": "bernoulli", "probability": 0.7}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "does not give 'gap', which 'reports' declares .*return it each time, or remove it from 'reports'"),
        ([1], "gives a list, not values by name .*return a mapping with gap"),
        ({"gap": torch.tensor(1.0), "gab": 1}, "gives 'gab', which 'reports' does not declare .*add Reported\\('gab'"),
        ({"gap": 1.0}, "gives 'gap' as a float, not a tensor .*return a tensor with a single number"),
        ({"gap": torch.ones(2)}, "gives 'gap' as a tensor \\[2\\], not a single number"),
        ({"gap": torch.tensor(math.nan)}, "gives 'gap', which is not finite \\(nan\\)"),
    ],
)
def test_a_check_finds_what_an_aggregation_must_not_report(values, message, monkeypatch):
    monkeypatch.setattr(Reporting, "values", values)
    with pytest.raises(ScenarioError, match=f"learners.own.aggregation: its method 'metrics' {message}"):
        prepare_run(with_rule("Reporting"))


def test_metrics_without_a_declaration_are_an_error():
    with pytest.raises(ScenarioError, match="has a method 'metrics', which has no effect, because its 'reports' is"):
        prepare_run(with_rule("Silent"))


def test_a_value_that_is_not_finite_later_is_an_error_of_the_run(tmp_path):
    message = r"own, replica 0: the method 'metrics' of .*:Late gives 'gap', which is not finite \(inf\), by round 5; "
    with pytest.raises(ModelError, match=f"{message}return a finite number in each step"):
        netfl.run(with_rule("Late"), tmp_path / "late", device="cpu", progress=False)


def test_a_lane_that_diverges_has_no_values(tmp_path):
    run = netfl.run(with_rule("Breaking"), tmp_path / "broken", device="cpu", progress=False)
    assert len(run.diverged) == 2
    assert series(run, "gap", "own").empty


OF_HERE = {"__module__": __name__}


def declaring(*reports):
    """Return the error of a scenario whose rules declare these."""
    rules = [
        type(f"Declares{number}", (Reporting,), OF_HERE | {"reports": each}) for number, each in enumerate(reports)
    ]
    globals().update({rule.__name__: rule for rule in rules})
    learners = {
        f"L{number}": {**SMALL, "aggregation": f"{__name__}:{rule.__name__}"} for number, rule in enumerate(rules)
    }
    with pytest.raises(ScenarioError) as error:
        prepare_run(netfl.load(settings(learners=learners)))
    return str(error.value)


def test_names_with_another_meaning_are_errors():
    assert "reports 'accuracy', but netfl has a metric of this name" in declaring((Reported("accuracy", "x"),))
    assert "use another name, such as my_jain" in declaring((Reported("jain", "x"),))
    text = declaring((Reported("gap", "a gap"),), (Reported("gap", "another"),))
    assert "learners.L1.aggregation: reports 'gap', which learners.L0.aggregation reports, too, with" in text
    text = declaring((Reported(SHARE, "ages of the selected users", "%", low_is_good=False),))
    assert f"access.selection: reports '{SHARE}', which learners.L0.aggregation reports, too" in text


def test_declarations_that_are_none_are_errors():
    assert "reports 'a b', which is no name of a metric" in declaring((Reported("a b", "x"),))
    assert "in the unit 'furlong', which netfl does not display" in declaring((Reported("gap", "x", "furlong"),))
    assert "holds 'gap', which is no Reported" in declaring(Reported("gap", "a gap"))


def test_equal_declarations_of_two_learners_are_one(tmp_path):
    learners = {name: {**SMALL, "aggregation": "trimmed:Trimmed"} for name in ("a", "b")}
    run = run_of(tmp_path / "twice", learners=learners, replicas=1)
    assert [metric.name for metric in run.reported] == [GAP, SHARE]
    assert {*run.metrics.query(f"metric == '{GAP}'")["learner"]} == {"a", "b"}


SELECTOR = """
from netfl.access.selection import Selection, Selector
from netfl.types import Law, Reported
class Half(Selection):
    reports = ({declared})
    @property
    def selects_all(self):
        return {all}
    def open(self, population):
        return Opened(population.size)
    def laws(self):
        return (Law.none("draws nothing"),)
class Opened(Selector):
    def __init__(self, size):
        self.size = size
    def choose(self, moment):
        import numpy as np
        return np.arange(self.size // 2)
    def metrics(self):
        return {values}
"""


@pytest.mark.parametrize(
    ("declared", "values", "message"),
    [
        ("Reported('gap', 'a gap'),", "{}", "Half for round 1 does not give 'gap'"),
        ("Reported('gap', 'a gap'),", "{'gap': 1, 'x': 2}", "Half for round 1 gives 'x', which 'reports'"),
        ("Reported('gap', 'a gap'),", "{'gap': float('inf')}", "gives 'gap' = inf, not a finite number"),
        ("Reported('gap', 'a gap'),", "{'gap': 'much'}", "gives 'gap' = 'much', not a finite number"),
        ("Reported('gap', 'a gap'),", "1 / 0", "Half for round 1 fails: ZeroDivisionError"),
        ("", "{'gap': 1}", "access.selection: has a method 'metrics', which has no effect"),
    ],
)
def test_a_check_finds_what_a_selection_must_not_report(declared, values, message, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"half_{abs(hash((declared, values)))}"
    (tmp_path / f"{name}.py").write_text(SELECTOR.format(declared=declared, values=values, all=False))
    access = {"kind": "bernoulli", "probability": 0.5, "selection": f"{name}:Half"}
    path = tmp_path / "x.yaml"
    path.write_text(netfl.load(settings(access=access)).to_yaml())
    result = CliRunner().invoke(app, ["check", str(path)])
    assert result.exit_code != 0
    assert message in " ".join(result.output.split())


def test_a_selection_that_is_never_asked_cannot_report(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "all_half.py").write_text(
        SELECTOR.format(declared="Reported('gap', 'a gap'),", values="{'gap': 1}", all=True)
    )
    access = {"kind": "bernoulli", "probability": 0.5, "selection": "all_half:Half"}
    with pytest.raises(ScenarioError, match="reports gap, but selects all users in every round"):
        netfl.load(settings(access=access))


# --- allocations --------------------------------------------------------------

ALLOCATION = """
import numpy as np
from netfl.network.allocation import Allocation, full_power
from netfl.types import Law, Reported
class Even(Allocation):
    reports = (Reported("largest_share", "largest share", unit="%"),)
    def allocate(self, request):
        return full_power(np.full(request.users, 1 / request.users))
    def metrics(self, request, decision):
        return {values}
    def laws(self):
        return (Law.none("draws nothing"),)
"""


def network_of(kind):
    access = {
        **SECTION, "mac": {"kind": "fdma", "division": "allocated"}, "reception": {"kind": "shannon", "gap": "3 dB"},
        "allocation": kind, "selection": {"kind": "oldest_share:OldestShare", "m": 4},
        "round": {"kind": "available", "deadline": "10 min"}, "update_size": "2 kB",
        "compute": {"speed": 100, "samples": 10},
    }  # fmt: skip
    changes = {"access": access, "rounds": 4, "users": 8, "replicas": 1}
    return netfl.load({key: value for key, value in settings(**changes).items() if key in (*changes, "name", "seed")})


@pytest.fixture
def allocate(tmp_path, monkeypatch):
    def write(values):
        monkeypatch.syspath_prepend(tmp_path)
        name = f"even_{abs(hash(values))}"
        (tmp_path / f"{name}.py").write_text(ALLOCATION.format(values=values))
        return f"{name}:Even"

    return write


def test_an_allocation_reports_each_decision(tmp_path, allocate):
    kind = allocate("{'largest_share': decision.share.max()}")
    run = netfl.trace(network_of(kind), tmp_path / "run", progress=False)
    assert [metric.name for metric in run.reported] == [SHARE, "largest_share"]
    assert series(run, "largest_share", "").tolist() == [0.25] * 4
    assert run.summary["largest_share"] == 0.25


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("{}", "metrics\\(\\) of even_.*does not give 'largest_share'"),
        ("1 / 0", "metrics\\(\\) of even_.*fails: ZeroDivisionError"),
    ],
)
def test_a_wrong_report_of_an_allocation_is_an_error(values, message, tmp_path, allocate):
    with pytest.raises((ScenarioError, ModelError), match=message):
        netfl.trace(network_of(allocate(values)), tmp_path / "run", progress=False)


# --- helpers ------------------------------------------------------------------


def test_means_start_over_when_they_are_taken():
    means = ReportedMeans()
    assert means.take() == {}
    for value in (1.0, 3.0):
        means.add({"a": value})
    assert means.take() == {"a": 2.0}
    means.add({"a": 8.0})
    assert means.take() == {"a": 8.0}
    assert means.all_means() == {"a": 4.0}


def test_numbers_of_numpy_are_values():
    assert reported_problem(DECLARED, {"gap": np.float32(1)}, numbers=True) is None
    assert reported_problem(DECLARED, {"gap": np.int64(1)}, numbers=True) is None


def test_the_guide_has_the_plug_ins_of_the_examples():
    page = (EXAMPLES.parents[1] / "docs/howto/report.md").read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f"```python\n# {path.name}\n{path.read_text()}```" in page
