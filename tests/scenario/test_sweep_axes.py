"""Axes of a sweep: points, conditions that exclude points, and errors."""

import math

import pytest

import netfl
from netfl.errors import ScenarioError
from netfl.scenario.scenario import load
from netfl.scenario.sweep_axes import SweepSpec, short_names
from netfl.scenario.sweep_condition import Condition
from netfl.sweeps.plan import points_of

SCENARIO = """\
name: small
users: 3
rounds: 4
access:
  kind: stationary
  rho: [0.5, 0.4, 0.1]
  deliveries: 1
"""


def points(**settings):
    return [*SweepSpec.model_validate(settings).points()]


class TestPoints:
    def test_grid_contains_all_combinations(self):
        assert points(grid={"a.x": [1, 2], "a.y": [3, 4]}) == [
            {"a.x": 1, "a.y": 3}, {"a.x": 1, "a.y": 4}, {"a.x": 2, "a.y": 3}, {"a.x": 2, "a.y": 4},
        ]  # fmt: skip

    def test_paths_outside_a_grid_are_axes(self):
        assert points(users=[1, 2], grid={"seed": [5]}) == [{"seed": 5, "users": 1}, {"seed": 5, "users": 2}]

    def test_paths_may_be_mappings_and_set_by_options(self, tmp_path):
        assert points(a={"x": [1, 2], "b": {"y": [3]}}) == [{"a.x": 1, "a.b.y": 3}, {"a.x": 2, "a.b.y": 3}]
        path = tmp_path / "good.yaml"
        path.write_text(f"{SCENARIO}sweep: {{access.first: [1, 2], seed: [1, 2]}}\n")
        sweep = load(path, {"sweep.access.first": [1], "sweep.rounds": [5]}).sweep
        assert [*sweep.points()] == [{"access.first": 1, "seed": seed, "rounds": 5} for seed in (1, 2)]

    def test_zipped_lists_vary_together(self):
        result = points(zip={"a": [1, 2], "b": [3, 4]}, c=[5, 6])
        assert [(point["a"], point["b"], point["c"]) for point in result] == [
            (1, 3, 5),
            (2, 4, 5),
            (1, 3, 6),
            (2, 4, 6),
        ]

    def test_random_draws_follow_their_distributions(self):
        parameters = {
            "u": {"uniform": [2, 4]}, "l": {"log_uniform": [1e-4, 1]}, "i": {"integer": [3, 5]},
            "c": {"choice": ["a", "b"]},
        }  # fmt: skip
        result = points(random={"draws": 4000, "parameters": parameters})
        uniform, log_uniform = ([point[name] for point in result] for name in "ul")
        assert min(uniform) >= 2
        assert max(uniform) <= 4
        assert abs(sum(uniform) / 4000 - 3) < 5 * 2 / math.sqrt(12 * 4000)
        assert abs(sum(math.log10(value) for value in log_uniform) / 4000 + 2) < 5 * 4 / math.sqrt(12 * 4000)
        for name, values in (("i", (3, 4, 5)), ("c", ("a", "b"))):
            shares = [sum(point[name] == value for point in result) / 4000 for value in values]
            assert max(abs(share - 1 / len(values)) for share in shares) < 5 * 0.5 / math.sqrt(4000)

    def test_draws_do_not_depend_on_their_number_or_other_axes(self):
        first = points(random={"draws": 3, "seed": 7, "parameters": {"x": {"uniform": [0, 1]}}})
        more = points(
            random={"draws": 5, "seed": 7, "parameters": {"y": {"integer": [0, 9]}, "x": {"uniform": [0, 1]}}}
        )
        other = points(random={"draws": 3, "seed": 8, "parameters": {"x": {"uniform": [0, 1]}}})
        assert [point["x"] for point in more[:3]] == [point["x"] for point in first]
        assert [point["x"] for point in other] != [point["x"] for point in first]

    def test_conditions_use_short_names(self):
        result = points(**{"a.alpha": [0, 0.5, 1], "b.lr": [1, 2]}, exclude=["alpha > 0.4 and lr == 2", "alpha == 1"])
        assert [(point["a.alpha"], point["b.lr"]) for point in result] == [(0, 1), (0, 2), (0.5, 1)]


class TestNames:
    def test_unique_last_part_is_the_short_name(self):
        assert short_names(["learners.A.lr", "learners.B.lr", "learners.B.objective.alpha"]) == {
            "learners.A.lr": "A.lr", "learners.B.lr": "B.lr", "learners.B.objective.alpha": "alpha",
        }  # fmt: skip

    def test_short_names_do_not_collide_with_columns(self):
        assert short_names(["access.round", "a.learner"]) == {"access.round": "access.round", "a.learner": "a.learner"}


class TestConditions:
    @pytest.mark.parametrize(
        ("text", "holds"),
        [
            ("a < 2 <= b", True),
            ("a + 1 == b / 2", True),
            ("not (a == 1 or b == 4)", False),
            ("a in [1, 3] and name not in ['x']", True),
            ("`A.b c` == -3.5", True),
            ("name != 'y'", False),
        ],
    )
    def test_conditions_are_evaluated(self, text, holds):
        values = {"a": 1, "b": 4, "name": "y", "A.b c": -3.5}
        assert Condition.read(text, [*values]).holds(values) is holds

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("alhpa > 1", "'alhpa' is not an axis; did you mean 'alpha'?"),
            ("alpha >", "not a condition; write one such as"),
            ("__import__('os')", "call is not allowed in a condition"),
            ("alpha.real > 1", "attribute is not allowed"),
            ("[x for x in [1]]", "listcomp is not allowed"),
            ("alpha ** 9", "pow is not allowed"),
        ],
    )
    def test_invalid_conditions_raise_an_error(self, text, problem):
        with pytest.raises(ValueError, match=problem.replace("?", r"\?").replace("'", ".")):
            Condition.read(text, ["alpha"])

    def test_strings_and_numbers_cannot_be_compared(self):
        with pytest.raises(ValueError, match="'2 s' cannot be compared with 2"):
            Condition.read("a == 2", ["a"]).holds({"a": "2 s"})
        with pytest.raises(ValueError, match="not supported"):
            Condition.read("a > 2", ["a"]).holds({"a": "2 s"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("{}", "bad.yaml:8: sweep: varies nothing; give a dotted path and a list of values"),
        ("{access.first: []}", "bad.yaml:8: sweep.grid.access.first: has too few entries ([]); give 1 or more"),
        ("{access.first: 2}", "bad.yaml:8: sweep.grid.access.first: not a list (2); write [2]"),
        ("{replicas: [1, 2]}", "sweep.grid.replicas: cannot be varied; it is equal at all points"),
        ("{access.first: [1, 1]}", "sweep.grid.access.first: has a value twice; leave one of them out"),
        ("{seed: [1], zip: {seed: [2]}}", "seed: is varied twice; leave one of them out"),
        ("{zip: {seed: [1, 2], rounds: [1]}}", "sweep.zip: the lists have 1 and 2 values; give lists of one length"),
        ("{seed: [1, 2], exclude: sed > 1}", "sweep.exclude.0: 'sed' is not an axis ('sed > 1'); did you mean 'seed'?"),
        ("{seed: [1, 2], exclude: seed > 0}", "sweep.exclude: leaves no point; exclude fewer"),
        (
            "{random: {draws: 2, parameters: {seed: {unifrom: [0, 1]}}}}",
            "seed.unifrom: unknown key; did",
        ),
        ("{random: {draws: 2, parameters: {seed: {uniform: [1, 0]}}}}", "the first bound is not below the second"),
        (
            "{random: {draws: 0, parameters: {seed: {integer: [0, 1]}}}}",
            "sweep.random.draws: should be greater than or equal",
        ),
    ],
)
def test_invalid_sweep_raises_an_error_with_its_location(tmp_path, settings, message):
    path = tmp_path / "bad.yaml"
    path.write_text(f"{SCENARIO}sweep: {settings}\n")
    with pytest.raises(ScenarioError) as error:
        load(path)
    assert message in str(error.value)


def sweep_errors(sweep):
    settings = {"name": "x", "users": 4, "rounds": 2, "access": {"kind": "bernoulli", "probability": 0.5}}
    with pytest.raises(ScenarioError) as raised:
        points_of(netfl.load(settings | {"sweep": sweep}))
    return str(raised.value)


MANY = {"seed": [*range(300)], "access.probability": [share / 200 for share in range(1, 201)]}


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        (MANY, "sweep: has 60,000 combinations, more than 10,000; use fewer values or draws, or divide"),
        (MANY | {"users": [5, 6], "exclude": "users == 5"}, "sweep: has 120,000 combinations, more than 100,000"),
        (MANY | {"exclude": "seed == 5"}, "sweep: the 60,000 combinations leave more than 10,000 points"),
        ({"random": {"draws": 10**9, "parameters": {"seed": {"integer": [0, 9]}}}}, "less than or equal to 10000"),
        ({f"learners.{number}.lr": [1] for number in range(300)}, "sweep: varies 300 keys, more than 200"),
        ({"seed": [1], "exclude": ["seed * [1] * 1000000000 == 3"]}, "is not a number"),
    ],
)  # fmt: skip
def test_large_sweeps_are_refused_before_they_are_expanded(sweep, message):
    assert message in sweep_errors(sweep)


def test_deeply_nested_condition_is_an_error():
    assert "not a condition" in sweep_errors({"seed": [1], "exclude": ["(" * 300 + "seed" + ")" * 300 + " == 1"]})


def test_sweep_of_too_many_results_is_refused():
    settings = {"name": "x", "users": 4, "rounds": 2, "access": {"kind": "bernoulli", "probability": 0.5}}
    scenario = netfl.load(settings | {"replicas": 10**6, "record": "none", "sweep": {"seed": [*range(20)]}})
    with pytest.raises(ScenarioError, match="replicas: the points have 20,000,000 learners in all replicas"):
        points_of(scenario)


def test_sweep_is_not_part_of_the_run_scenario(tmp_path):
    path = tmp_path / "good.yaml"
    path.write_text(f"{SCENARIO}sweep: {{seed: [1, 2]}}\n")
    scenario = load(path)
    assert "sweep" not in scenario.to_yaml()
    assert "sweep:" in scenario.to_yaml(sweep=True)
    assert scenario.at({"seed": 2}).seed == 2
    assert scenario.at({"seed": 2}).sweep is None
    assert scenario.seed == 0
