"""The section ``sweep`` with ``engine: optuna``: keys, errors and the points that are checked."""

# ruff: noqa: E501 - each expected message is on one line

import sys

import pytest
from support.error_messages import assert_messages

import netfl
from netfl.errors import ScenarioError
from netfl.scenario.sweep_axes import SearchSpec, SweepSpec

HEAD = """\
name: s
users: 4
rounds: 3
access: {kind: bernoulli, probability: 0.5}
"""


def load(sweep):
    return netfl.load(f"{HEAD}sweep: {sweep}\n")


SEARCH = "{engine: optuna, trials: 3, metric: jain, parameters: {access.probability: {uniform: [0.1, 0.9]}}}"


def test_the_engine_selects_the_form():
    assert isinstance(load(SEARCH).sweep, SearchSpec)
    assert isinstance(load("{users: [3, 4]}").sweep, SweepSpec)
    scenario = load(SEARCH)
    assert netfl.load(scenario.to_yaml(sweep=True)).sweep == scenario.sweep


def test_ends_middle_and_choices_are_checked():
    parameters = {
        "access.probability": {"uniform": (0.1, 0.9)},
        "users": {"integer": (2, 5)},
        "seed": {"choice": (7, 8)},
    }
    points = [*SearchSpec(engine="optuna", trials=1, metric="jain", parameters=parameters).points()]
    assert [point["users"] for point in points] == [2, 4, 5, 4, 4]
    assert [point["seed"] for point in points] == [7, 8, 8, 7, 8]
    assert [point["access.probability"] for point in points] == pytest.approx([0.1, 0.5, 0.9, 0.5, 0.5])


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("engine: optuna", "engine: optun", "sweep.engine: unknown value ('optun'); did you mean 'optuna'?"),
        ("trials: 3, ", "", "sweep.trials: missing; give it a value"),
        ("trials: 3", "trails: 3", "sweep.trails: unknown key; did you mean 'trials'?"),
        ("metric: jain", "metric: jain, learner: A", "sweep.learner: no such learner ('A'); known: none"),
        ("metric: jain", "metric: jain, pruner: median", "sweep.pruner: has no effect without learners ('median'); leave it out"),
        ("access.probability", "replicas", "sweep.parameters.replicas: cannot be varied; it is equal at all points; write it outside of 'sweep'"),
        ("uniform: [0.1, 0.9]", "uniform: [0.9, 0.1]", "the first bound is not below the second"),
        ("uniform: [0.1, 0.9]", "unifrm: [0.1, 0.9]", "unknown key; did you mean 'uniform'?"),
    ],
)  # fmt: skip
def test_wrong_keys_are_errors(old, new, problem):
    assert SEARCH.count(old) == 1
    with pytest.raises(ScenarioError) as error:
        load(SEARCH.replace(old, new))
    assert problem in str(error.value)


def test_a_missing_package_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ScenarioError) as error:
        netfl.sweep(load(SEARCH), tmp_path / "s")
    assert_messages([str(error.value)], ["the text:5: sweep.engine: … not installed … pip install 'netfl-sim[optuna]'"])
