"""User-defined objectives and aggregations are checked before a run, and errors state the expected result."""

import inspect
import sys

import pytest
from support import plugin_learning
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.errors import ScenarioError
from netfl.learning import plugin_trials
from netfl.learning.aggregation import Average
from netfl.learning.spec import LearnerSpec
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument, dump
from netfl.simulation.setup import prepare_run

LEARNER = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 2}


def scenario(max_deliveries=2, **changes):
    """Return a small scenario with a user-defined learner and rounds of at most *max_deliveries* deliveries."""
    settings = {
        "name": "tried", "users": 5, "rounds": 2, "access": {"kind": "bernoulli", "probability": 0.9},
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 60}, "partition": "iid", "model": "logistic",
        "learners": {"plain": LEARNER, "own": LEARNER | changes},
    }  # fmt: skip
    if max_deliveries == 1:
        settings["access"] = {"kind": "stationary", "rho": {"zipf": 1}}
    return settings


def errors_of(max_deliveries=2, **changes):
    """Return the errors of preparing the run."""
    with pytest.raises(ScenarioError) as error:
        prepare_run(validate(ScenarioDocument(scenario(max_deliveries, **changes), "x")))
    return list(map(str, error.value.faults))


@pytest.mark.parametrize(
    "changes",
    [
        {"objective": "support.plugin_learning:Softened", "aggregation": "support.plugin_learning:Kept"},
        {"aggregation": {"kind": "support.plugin_learning:Around", "inner": "support.plugin_learning:Kept"}},
        {"aggregation": "support.plugin_learning:CountsInPlace"},
    ],
)
@pytest.mark.quick_first
def test_correct_plugins_run(tmp_path, changes):
    run = netfl.run(validate(ScenarioDocument(scenario(**changes), "x")), tmp_path / "run", device="cpu")
    assert run.status == "done"


PLAIN = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 4, "local_steps": 1}


@pytest.mark.parametrize("more", [{}, {"step_of": "A"}, {"tuning": {"by": "loss"}}])
@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"aggregation": {"kind": "support.plugin_learning:Weighing", "gives": "negative"}}, "gives -1.0"),
        ({"aggregation": {"kind": "support.plugin_learning:Weighing", "gives": "zero"}}, "gives 0.0"),
        ({"aggregation": {"kind": "support.plugin_learning:Weighing", "gives": "infinite"}}, "gives inf"),
        ({"aggregation": {"kind": "support.plugin_learning:Weighing", "gives": "nan"}}, "gives nan"),
        ({"aggregation": {"kind": "support.plugin_learning:Weighing", "gives": "much"}}, "fails: KeyError"),
        ({"aggregation": "support.plugin_learning:WeighingInWords"}, "gives one"),
    ],
)
def test_a_largest_weight_that_is_no_positive_number_is_refused(part, problem, more):
    learner = PLAIN | part | more
    settings = scenario()
    settings["tuning"] = learner.pop("tuning", None)
    if "step_of" in learner:
        del learner["lr"]
    settings |= {"learners": {"A": PLAIN, "B": learner}, "evaluate": {"validation": 0.2}}
    with pytest.raises(ScenarioError) as error:
        netfl.load(settings)
    (fault,) = error.value.faults
    (key,) = part
    assert fault.key == f"learners.B.{key}"
    assert fault.problem.startswith(f"its largest_weight {problem}")
    assert fault.remedy == "give a positive number, or None if the weights have no bound"


def test_a_stated_weight_gives_the_effective_step():
    halving = {"kind": "support.plugin_learning:Weighing", "gives": "half", "server_lr": 0.5}
    half = PLAIN | {"aggregation": halving, "step_of": "A"}
    del half["lr"]
    loaded = netfl.load(scenario() | {"learners": {"A": PLAIN, "B": half}})
    assert loaded.learners["B"].step_size == pytest.approx(0.2)


def test_the_check_uses_no_more_deliveries_than_the_access():
    prepare_run(validate(ScenarioDocument(scenario(1, aggregation="support.plugin_learning:Single"), "x")))
    assert "too many values to unpack" in errors_of(aggregation="support.plugin_learning:Single")[0]


def test_parts_of_netfl_are_not_tried(monkeypatch):
    monkeypatch.setattr(plugin_trials, "try_learners", lambda *_: pytest.fail("tried"))
    prepare_run(validate(ScenarioDocument(scenario(), "x")))


def test_inputs_of_the_check_follow_the_contracts():
    """The versions of the check have as many parameters as the model of 2 features and 2 classes, 6."""
    learner = {"objective": "support.plugin_learning:Normalised", "aggregation": "support.plugin_learning:Sized"}
    prepare_run(validate(ScenarioDocument(scenario(**learner), "x")))


def line_of(method):
    """The place of the last line of a method in a message."""
    lines, first = inspect.getsourcelines(method)
    return f"plugin_learning.py, line {first + len(lines) - 1}"


OPEN = "it was given a first version of 7 numbers; it returns the state, tensors by name"
WEIGHTS = "it was given 2 jobs with mini-batches of 3; it returns weights, [jobs, batch], and the slope of t, [jobs]"
STEP = "it was given versions of 7 numbers, the last of which is t; it returns the next version and the next state"


@pytest.mark.parametrize(
    ("kind", "method", "problem", "explanation"),
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
def test_a_wrong_objective_is_an_error(kind, method, problem, explanation):
    kind_path = f"support.plugin_learning:{kind}"
    assert errors_of(objective=kind_path) == [
        f"x: learners.own.objective: its method '{method}' {problem} ('{kind_path}'); {explanation}"
    ]


@pytest.mark.parametrize(
    ("kind", "method", "reason", "explanation"),
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
def test_a_wrong_aggregation_is_an_error_also_inside_another(kind, method, reason, explanation):
    kind_path = f"support.plugin_learning:{kind}"
    problem = f"its method '{method}' {reason} ('{kind_path}'); {explanation}"
    assert errors_of(aggregation=kind_path) == [f"x: learners.own.aggregation: {problem}"]
    around = {"kind": "support.plugin_learning:Around", "inner": kind_path}
    assert errors_of(aggregation=around) == [f"x: learners.own.aggregation.inner: {problem}"]


@pytest.mark.parametrize(
    ("fault", "problem"),
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
def test_a_wrong_state_is_an_error(fault, problem):
    (error,) = errors_of(aggregation={"kind": "support.plugin_learning:Remembering", "fault": fault})
    assert error.startswith(f"x: learners.own.aggregation: {problem}")
    assert "('support.plugin_learning:Remembering'); it was given" in error or fault == "second"


@pytest.mark.parametrize("hook", ["with_participation", "with_examples", "message"])
def test_a_failing_hook_is_an_error(hook):
    (error,) = errors_of(aggregation={"kind": "support.plugin_learning:FailingHook", "hook": hook})
    assert f"its method '{hook}' fails on test values: LookupError: no rates" in error


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        ("writes", "its method 'start' writes into its argument base"),
        ("short", "its method 'start' gives tensor [6], not tensor [7]"),
        ("needs kept", "its method 'start' fails on test values: KeyError: 'model'"),
        ("matrix", "its method 'keep' gives tensors by name (model: tensor [1, 7]), not vectors by name"),
        ("grows", "its method 'keep' gives tensors by name (model: tensor [2]), not vectors by name"),
        ("number", "its method 'keep' gives a mapping (count: a number), not vectors by name"),
        ("steps", "its method 'steps_of_head' fails on test values"),
    ],
)
def test_a_wrong_rule_of_devices_is_an_error(error, problem):
    (found,) = errors_of(device={"kind": "support.plugin_devices:Faulty", "error": error})
    assert f"learners.own.device: {problem}" in found


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        ("list", "gives (a number, a number), not an array [2] of whole numbers"),
        ("number", "gives a number, not an array [2] of whole numbers"),
        ("tensor", "gives tensor [2] of int64, not an array [2] of whole numbers"),
        ("half", "gives an array [2] of float64, not an array [2] of whole numbers"),
        ("flags", "gives an array [2] of bool, not an array [2] of whole numbers"),
        ("column", "gives an array [2, 1] of int64, not an array [2] of whole numbers"),
        ("first", "gives an array [1] of int64, not an array [2] of whole numbers"),
        ("negative", "gives -1 and 998 steps, of which one is negative"),
        ("large", "gives 1003 steps of the head, but an update has 2"),
        ("writes", "writes into its argument per_pass"),
    ],
)
def test_wrong_steps_of_a_head_are_an_error(error, problem):
    settings = scenario(device={"kind": "support.plugin_devices:FaultyHead", "error": error})
    settings["model"] = {"kind": "mlp", "hidden": [3]}
    with pytest.raises(ScenarioError) as found:
        prepare_run(validate(ScenarioDocument(settings, "x")))
    (fault,) = found.value.faults
    assert f"learners.own.device: its method 'steps_of_head' {problem}" in str(fault)


def test_the_range_of_steps_of_a_head_is_that_of_the_learner():
    """All mini-batches of a pass are half of two passes, and more than the two steps of the learner above."""
    whole = {"kind": "support.plugin_devices:FaultyHead", "error": "none"}
    passes = LEARNER | {"device": whole, "local_epochs": 2}
    del passes["local_steps"]
    spec = LearnerSpec(**passes)
    assert not [*plugin_trials._faults(spec.device, spec, 5, 2)]
    full = LearnerSpec(**LEARNER | {"device": whole, "batch_size": "full"})
    assert not [*plugin_trials._faults(full.device, full, 5, 2)]
    short = LearnerSpec(**LEARNER | {"device": whole})
    (fault,) = plugin_trials._faults(short.device, short, 5, 2)
    assert fault.problem == "its method 'steps_of_head' gives 1000 steps of the head, but an update has 2"
    assert fault.remedy == "give at most 2, for 1000 mini-batches of a pass"


def test_steps_of_a_head_need_personal_layers():
    (found,) = errors_of(device="support.plugin_devices:HeadWithoutLayers")
    assert "states steps of the personal parameters, but it names none" in found
    assert "override personal(layout), too" in found


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        ("unknown", "the model has no 'head.weight' to keep"),
        ("all", "all layers of the model stay on the device"),
        ("fails", "its method 'personal' fails for layers.0.weight, layers.0.bias: KeyError: 'head.weight'"),
    ],
)
def test_layers_that_a_rule_names_wrongly_are_an_error(error, problem):
    (found,) = errors_of(device={"kind": "support.plugin_devices:Misnamed", "error": error})
    assert f"learners.own.device: {problem}" in found


def test_a_correct_rule_of_devices_runs(tmp_path):
    settings = scenario(device="support.plugin_devices:HeadAlone") | {"model": {"kind": "mlp", "hidden": [3]}}
    found = validate(ScenarioDocument(settings, "x"))
    assert netfl.run(found, tmp_path / "run", device="cpu").status == "done"
    assert found.payloads["own"].uplink_bits == found.payloads["plain"].uplink_bits - 32 * (3 * 2 + 2)


def test_divergence_names_the_plugin(tmp_path):
    settings = scenario(aggregation="support.plugin_learning:Nan") | {"rounds": 6}
    run = netfl.run(validate(ScenarioDocument(settings, "x")), tmp_path / "run", device="cpu")
    (message,) = run.diverged
    assert "not finite: training diverged, or 'support.plugin_learning:Nan' returned such numbers; a smaller" in message


@pytest.mark.parametrize(
    ("where", "method", "argument"),
    [
        ("current", "step", "current"),
        ("models", "step", "updates.models"),
        ("samples", "step", "updates.samples"),
        ("users", "step", "updates.users"),
        ("idle", "idle", "current"),
        ("open", "open", "current"),
    ],
)
def test_an_aggregation_that_changes_its_arguments_is_an_error(where, method, argument):
    problem = f"its method '{method}' writes into its argument {argument} ('support.plugin_learning:InPlace')"
    remedy = f"make a new tensor: {argument} + x, not {argument} += x or {argument}.add_(x)"
    (error,) = errors_of(aggregation={"kind": "support.plugin_learning:InPlace", "where": where})
    assert error == f"x: learners.own.aggregation: {problem}; {remedy}"


@pytest.mark.parametrize(
    ("kind", "method", "argument"),
    [("WeightsInPlace", "gradient_weights", "share"), ("ValueInPlace", "value", "losses")],
)
def test_an_objective_that_changes_its_arguments_is_an_error(kind, method, argument):
    problem = f"its method '{method}' writes into its argument {argument} ('support.plugin_learning:{kind}')"
    assert errors_of(objective=f"support.plugin_learning:{kind}")[0].startswith(
        f"x: learners.own.objective: {problem}; make a new"
    )


def test_check_and_run_report_errors_and_trace_ignores_them(tmp_path, monkeypatch):
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


def test_packaged_rules_do_not_import_the_check(monkeypatch):
    monkeypatch.setitem(sys.modules, "netfl.learning.plugin_trials", None)
    prepare_run(validate(ScenarioDocument(scenario(), "x")))


def test_an_aggregation_from_a_notebook_fails_without_a_line():
    def step(self, state, current, updates):
        raise LookupError("no such user")

    step.__module__ = "no_module"
    failing = type("Failing", (Average,), {"__module__": "no_module", "__doc__": "No file.", "step": step})()
    fault = next(plugin_trials._faults(failing, LearnerSpec(**LEARNER), 3, 2))
    assert "fails on test values: LookupError: no such user" in fault.problem
    assert "line" not in fault.problem
