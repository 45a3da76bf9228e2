"""Objectives and aggregations of the user's own are tried before a run, and told what they give and should."""

import inspect
import sys

import pytest
from support import plugin_learning
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.errors import ScenarioError
from netfl.learning import plugin_check
from netfl.learning.spec import LearnerSpec
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument, dump
from netfl.simulation.setup import prepare_run

LEARNER = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 2}


def scenario(most=2, **more):
    """A small scenario whose learner is partly the user's own; rounds bring so many deliveries at *most*."""
    said = {
        "name": "tried", "users": 5, "rounds": 2, "access": {"kind": "bernoulli", "probability": 0.9},
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 60}, "partition": "iid", "model": "logistic",
        "learners": {"plain": LEARNER, "own": LEARNER | more},
    }  # fmt: skip
    if most == 1:
        said["access"] = {"kind": "stationary", "rho": {"zipf": 1}}
    return said


def told(most=2, **more):
    """The faults of staging."""
    with pytest.raises(ScenarioError) as raised:
        prepare_run(validate(ScenarioDocument(scenario(most, **more), "x")))
    return list(map(str, raised.value.faults))


@pytest.mark.parametrize(
    "more",
    [
        {"objective": "support.plugin_learning:Softened", "aggregation": "support.plugin_learning:Kept"},
        {"aggregation": {"kind": "support.plugin_learning:Around", "inner": "support.plugin_learning:Kept"}},
        {"aggregation": "support.plugin_learning:CountsInPlace"},
    ],
)
@pytest.mark.quick_first
def test_those_that_are_right_are_left_alone(tmp_path, more):
    run = netfl.run(validate(ScenarioDocument(scenario(**more), "x")), tmp_path / "run", device="cpu")
    assert run.status == "done"


def test_no_more_deliveries_are_made_up_than_there_can_be():
    prepare_run(validate(ScenarioDocument(scenario(1, aggregation="support.plugin_learning:Single"), "x")))
    assert "too many values to unpack" in told(aggregation="support.plugin_learning:Single")[0]


def line_of(method):
    """The place of the last line of a method in a message."""
    lines, first = inspect.getsourcelines(method)
    return f"plugin_learning.py, line {first + len(lines) - 1}"


OPEN = "it was given a first version of 7 numbers; it returns the state, tensors by name"
WEIGHTS = "it was given 2 jobs with mini-batches of 3; it returns weights, [jobs, batch], and the slope of t, [jobs]"
STEP = "it was given versions of 7 numbers, the last of which is t; it returns the next version and the next state"


@pytest.mark.parametrize(
    ("kind", "method", "found", "rest"),
    [
        ("NoWeights", "gradient_weights", "gives nothing, not (tensor [2, 3], tensor [2])", WEIGHTS),
        ("OneWeight", "gradient_weights", "gives tensor [2, 3], not (tensor [2, 3], tensor [2])", WEIGHTS),
        (
            "WeightOfAll",
            "gradient_weights",
            "gives (tensor [2, 1], tensor [2]), not (tensor [2, 3], tensor [2])",
            WEIGHTS,
        ),
        ("OnPadding", "gradient_weights", "gives padding a weight", "multiply by share, which is 0 there"),
        (
            "NoKey",
            "gradient_weights",
            f"fails on test values: KeyError: 'tau' ({line_of(plugin_learning.NoKey.gradient_weights)})",
            WEIGHTS,
        ),
        ("Wordy", "value", "gives a str, not a number", "it was given 4 users; it returns the global objective"),
    ],
)
def test_an_objective_that_is_wrong_is_told(kind, method, found, rest):
    named = f"support.plugin_learning:{kind}"
    assert told(objective=named) == [f"x: learners.own.objective: its method '{method}' {found} ('{named}'); {rest}"]


@pytest.mark.parametrize(
    ("kind", "method", "found", "rest"),
    [
        ("OnlyVersion", "step", "gives tensor [7], not (tensor [7], tensors by name)", STEP),
        ("NotSummed", "step", "gives (tensor [3, 7], tensors by name), not (tensor [7], tensors by name)", STEP),
        (
            "Failing",
            "step",
            f"fails on test values: LookupError: no such user ({line_of(plugin_learning.Failing.step)})",
            STEP,
        ),
        (
            "NoState",
            "open",
            "gives nothing, not tensors by name",
            OPEN,
        ),
        ("Idle", "idle", "gives nothing, not (tensor [7], tensors by name)", STEP),
    ],
)
def test_an_aggregation_that_is_wrong_is_told_also_inside_another(kind, method, found, rest):
    named = f"support.plugin_learning:{kind}"
    said = f"its method '{method}' {found} ('{named}'); {rest}"
    assert told(aggregation=named) == [f"x: learners.own.aggregation: {said}"]
    around = {"kind": "support.plugin_learning:Around", "inner": named}
    assert told(aggregation=around) == [f"x: learners.own.aggregation.inner: {said}"]


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("memory", "its method 'memory' gives a str, not a number"),
        ("list", "its method 'open' gives a mapping (last: (a number)), not tensors by name"),
        (
            "type",
            "its method 'step' gives (tensor [7] of float64, tensors by name (last: tensor [5])), not (tens",
        ),
        ("later", "its method 'step' gives (tensor [7], a mapping (last: (a number"),
        ("shape", "its method 'step' gives (tensor [7], tensors by name (last: tensor [2])), not (tensor [7], tensors"),
        ("second", "its method 'step' fails on test values: LookupError: no such row"),
    ],
)
def test_an_aggregation_whose_state_is_wrong_is_told(fault, found):
    (line,) = told(aggregation={"kind": "support.plugin_learning:Remembering", "fault": fault})
    assert line.startswith(f"x: learners.own.aggregation: {found}")
    assert "('support.plugin_learning:Remembering'); it was given" in line or fault == "second"


@pytest.mark.parametrize("hook", ["with_participation", "message"])
def test_an_aggregation_whose_hook_fails_is_told(hook):
    (line,) = told(aggregation={"kind": "support.plugin_learning:FailingHook", "hook": hook})
    assert f"its method '{hook}' fails on test values: LookupError: no rates" in line


def test_an_own_rule_is_named_where_a_version_is_not_finite(tmp_path):
    said = scenario(aggregation="support.plugin_learning:Nan") | {"rounds": 6}
    run = netfl.run(validate(ScenarioDocument(said, "x")), tmp_path / "run", device="cpu")
    (line,) = run.diverged
    assert "not finite: training diverged, or 'support.plugin_learning:Nan' returned such numbers; a smaller" in line


@pytest.mark.parametrize(
    ("where", "method", "written"),
    [
        ("current", "step", "current"),
        ("models", "step", "updates.models"),
        ("samples", "step", "updates.samples"),
        ("users", "step", "updates.users"),
        ("idle", "idle", "current"),
        ("open", "open", "current"),
    ],
)
def test_an_aggregation_that_writes_into_what_it_is_given_is_told(where, method, written):
    problem = f"its method '{method}' writes into its argument {written} ('support.plugin_learning:InPlace')"
    remedy = f"make a new tensor: {written} + x, not {written} += x or {written}.add_(x)"
    (fault,) = told(aggregation={"kind": "support.plugin_learning:InPlace", "where": where})
    assert fault == f"x: learners.own.aggregation: {problem}; {remedy}"


@pytest.mark.parametrize(
    ("kind", "method", "written"),
    [("WeightsInPlace", "gradient_weights", "share"), ("ValueInPlace", "value", "losses")],
)
def test_an_objective_that_writes_into_what_it_is_given_is_told(kind, method, written):
    problem = f"its method '{method}' writes into its argument {written} ('support.plugin_learning:{kind}')"
    assert told(objective=f"support.plugin_learning:{kind}")[0].startswith(
        f"x: learners.own.objective: {problem}; make a new"
    )


def test_check_and_run_tell_it_and_trace_goes_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.yaml").write_text(dump(scenario(objective="support.plugin_learning:WeightOfAll")))
    for command in ("check", "run"):
        result = CliRunner().invoke(app, [command, "x.yaml"])
        assert result.exit_code == 2
        assert (
            "learners.own.objective: its method 'gradient_weights' gives (tensor [2, 1], tensor [2])" in result.output
        )
    assert not (tmp_path / "runs").exists() or not [*(tmp_path / "runs").iterdir()]
    assert CliRunner().invoke(app, ["trace", "x.yaml"]).exit_code == 0


def test_nothing_is_imported_for_what_netfl_brings(monkeypatch):
    monkeypatch.setitem(sys.modules, "netfl.learning.plugin_check", None)
    prepare_run(validate(ScenarioDocument(scenario(), "x")))


def test_an_aggregation_from_a_notebook_fails_without_a_line():
    failing = type("Failing", (plugin_learning.Failing,), {"__module__": "no_module", "__doc__": "No file."})()
    fault = next(plugin_check._faults(failing, LearnerSpec(**LEARNER), 3, 2))
    assert "fails on test values: LookupError: no such user" in fault.problem
    assert "line" not in fault.problem
