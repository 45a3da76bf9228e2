"""Model selection by validation for each user, and its metrics."""

import numpy as np
import pytest
from support.stop_run import StopAfter

import netfl
from netfl.errors import ScenarioError
from netfl.learning.model_selection import ModelSelection
from netfl.learning.spec import ChoiceSpec
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument

LANES = [("a", 3), ("a", 4), ("b", 3), ("b", 4), ("c", 3), ("c", 4)]
WEIGHTS = [np.array([4.0, 2.0, 0.0]), np.array([1.0, 1.0, 2.0])]
NAN = np.nan


def random_metrics():
    """Draw metrics of two replicas with three users.

    User 2 of replica 3 has no test, user 1 of replica 4 no validation.
    """
    rng = np.random.default_rng(2)
    values = {name: rng.random(6) for name in ("accuracy", "loss", "validation_accuracy", "validation_loss", "t")}
    for name in ("accuracy", "loss", "validation_accuracy", "validation_loss"):
        for user in range(3):
            values[f"{name}/user:{user}"] = rng.random(6)
    for name in ("accuracy/user:2", "loss/user:2"):
        values[name][::2] = NAN
    for name in ("validation_accuracy/user:1", "validation_loss/user:1"):
        values[name][1::2] = NAN
    return values


def lane_of(learner, replica):
    return LANES.index((learner, replica))


@pytest.mark.parametrize("by", ["validation_accuracy", "validation_loss"])
def test_users_get_the_learner_with_the_best_validation(by):
    tested, learners = random_metrics(), ("b", "a", "c")
    choices = ModelSelection({"own": ChoiceSpec(learners=learners, by=by, per="user")}, LANES, WEIGHTS)
    assert choices.lanes == (("own", 3), ("own", 4))
    found = choices.extend_metrics(tested)
    for name, values in tested.items():
        assert found[name][:6].tolist() == pytest.approx(values.tolist(), nan_ok=True)
    sign = 1 if by == "validation_accuracy" else -1
    for column, replica in enumerate((3, 4)):
        pooled = max(learners, key=lambda learner: sign * tested[by][lane_of(learner, replica)])
        chosen = []
        for user in range(3):
            scores = {learner: sign * tested[f"{by}/user:{user}"][lane_of(learner, replica)] for learner in learners}
            chosen.append(pooled if np.isnan([*scores.values()]).all() else max(learners, key=scores.__getitem__))
            assert found[f"chosen/user:{user}"][6 + column] == learners.index(chosen[user])
            for name in ("accuracy", "loss", "validation_accuracy", "validation_loss"):
                expected = tested[f"{name}/user:{user}"][lane_of(chosen[user], replica)]
                assert found[f"{name}/user:{user}"][6 + column] == pytest.approx(expected, nan_ok=True)
        tested_users = range(2 if replica == 3 else 3)
        accuracies = np.array(
            [tested[f"accuracy/user:{user}"][lane_of(chosen[user], replica)] for user in tested_users]
        )
        weights = WEIGHTS[column][: len(accuracies)]
        assert found["accuracy"][6 + column] == pytest.approx(accuracies @ weights / weights.sum())
        assert found["accuracy_users_mean"][6 + column] == pytest.approx(accuracies.mean())
        assert found["accuracy_users_variance"][6 + column] == pytest.approx(accuracies.var())
        assert found["accuracy_users_worst10"][6 + column] == accuracies.min()
        assert np.isnan(found["t"][6 + column])
    assert np.isnan(found["accuracy_users_mean"][:6]).all()


def test_diverged_lanes_are_never_chosen():
    tested = random_metrics()
    for values in tested.values():
        values[[lane_of("a", 3), lane_of("b", 3), lane_of("a", 4)]] = NAN
    pair = ChoiceSpec(learners=("a", "b"), per="user")
    found = ModelSelection({"own": pair}, LANES, WEIGHTS).extend_metrics(tested)
    assert np.isnan(found["accuracy"][6])
    assert {found[f"chosen/user:{user}"][7] for user in range(3)} == {1.0}


def scenario(**evaluate):
    learner = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 10, "local_epochs": 1}
    return {
        "name": "a",
        "users": 6,
        "rounds": 4,
        "replicas": 2,
        "access": {"kind": "bernoulli", "probability": 0.7},
        "data": {"kind": "synthetic", "users": 6, "sigma": 0.5},
        "partition": "natural",
        "model": "logistic",
        "learners": {name: learner | {"lr": lr} for name, lr in (("slow", 0.01), ("fast", 0.2))},
        "evaluate": {"every": 2, **evaluate},
    }


def test_choices_are_in_tables_and_summary(tmp_path):
    choose = {
        "best": {"learners": ["slow", "fast"], "per": "user"},
        "own": {"learners": ["slow", "fast"], "by": "validation_loss", "per": "user"},
    }
    validated = validate(ScenarioDocument(scenario(choose=choose), "a"))
    run = netfl.run(validated, tmp_path / "run", device="cpu")
    assert set(run.metrics["learner"].astype(str)) == {"slow", "fast", "best", "own"}
    wide = run.metrics.pivot_table(
        index=["replica", "round", "metric", "group"], columns="learner", values="value", observed=True
    )
    for (replica, index), rows in wide.groupby(["replica", "round"]):
        chosen = [rows.loc[(replica, index, "chosen", f"user:{user}"), "own"] for user in range(6)]
        chosen_losses = [
            rows.loc[(replica, index, "validation_loss", f"user:{user}"), ["slow", "fast"][int(choice)]]
            for user, choice in enumerate(chosen)
        ]
        best = [
            rows.loc[(replica, index, "validation_loss", f"user:{user}"), ["slow", "fast"]].min() for user in range(6)
        ]
        assert chosen_losses == best
    assert run.learners == ("slow", "fast", "best", "own")
    assert {
        f"{name}.last_round" for name in ("best.accuracy", "own.accuracy_users_variance", "own.accuracy")
    } <= run.summary.keys()
    assert not [name for name in run.summary if name.startswith(("own.objective", "own.t", "slow.chosen"))]


@pytest.mark.parametrize(
    ("choose", "problem"),
    [
        (
            {"best": {"learners": ["slow", "fest"], "per": "user"}},
            "choose.best.learners: no such learner .*did you mean 'fast'",
        ),
        ({"slow": {"learners": ["slow", "fast"], "per": "user"}}, "evaluate.choose.slow: is the name of a learner"),
        (
            {"best": {"learners": ["slow", "fast"], "by": "accuracy", "per": "user"}},
            "evaluate.choose.best.by: unknown value",
        ),
        ({"best": {"learners": ["slow", "fast"]}}, "evaluate.choose.best.per: .*use the section tuning"),
        ({"best": {"learners": ["slow", "fast"], "per": "all"}}, "evaluate.choose.best.per: .*use the section tuning"),
    ],
)
def test_invalid_choices_are_errors(choose, problem):
    with pytest.raises(ScenarioError, match=problem):
        validate(ScenarioDocument(scenario(choose=choose), "a"))


def test_an_unknown_metric_is_an_error_with_a_hint():
    with pytest.raises(ScenarioError, match="did you mean 'gradient_norm'"):
        validate(ScenarioDocument(scenario(metrics=["gradient_norms"]), "a"))


@pytest.mark.parametrize(
    ("evaluate", "problem"),
    [
        ({"metrics": ["staleness", "gradient_norm", "staleness"]}, "evaluate.metrics: lists an entry twice"),
        ({"targets": [0.5, 0.9, 0.5]}, "evaluate.targets: lists an entry twice"),
        ({"rare_classes": [1, 1]}, "evaluate.rare_classes: lists an entry twice"),
        (
            {"metrics": ["weight"]},
            "evaluate.metrics: no learner has an aggregation that weighs users .'weight'.; leave",
        ),
    ],
)
def test_duplicate_or_ineffective_entries_are_errors(evaluate, problem):
    with pytest.raises(ScenarioError, match=problem):
        validate(ScenarioDocument(scenario(**evaluate), "a"))


@pytest.mark.parametrize("rule", ["fedau", {"kind": "fedavgm", "inner": "average_all"}])
def test_weights_need_a_learner_with_weights(rule):
    settings = scenario(metrics=["weight"])
    settings["learners"]["fast"]["aggregation"] = rule
    assert validate(ScenarioDocument(settings, "a")).evaluation.metrics == ("weight",)
    settings["learners"]["fast"]["aggregation"] = {"kind": "fedau", "cutof": 3}
    with pytest.raises(ScenarioError) as error:
        validate(ScenarioDocument(settings, "a"))
    assert [fault.key for fault in error.value.faults] == ["learners.fast.aggregation.cutof"]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.slow
def test_choices_and_metrics_continue_after_a_stop(tmp_path, workers):
    metrics = ["validation", "staleness", "gradient_norm", "weight_divergence"]
    choose = {"own": {"learners": ["slow", "fast"], "per": "user"}}
    validated = validate(ScenarioDocument(scenario(metrics=metrics, choose=choose, targets=[0.2]), "a"))
    whole = netfl.run(validated, tmp_path / "whole", device="cpu")
    stopped = netfl.run(validated, tmp_path / "part", device="cpu", workers=workers, observer=StopAfter(3))
    assert len(stopped.metrics) < len(whole.metrics)
    resumed = netfl.resume(stopped.folder, device="cpu")
    key = ["learner", "replica", "round", "metric", "group"]
    both = whole.metrics.merge(resumed.metrics, on=key, how="outer", suffixes=("", "_again"))
    assert len(both) == len(whole.metrics) == len(resumed.metrics)
    assert both["value_again"].to_numpy() == pytest.approx(both["value"].to_numpy(), rel=1e-4, abs=1e-6)
    assert {"slow.target:0.2.rounds", "own.target:0.2.rounds"} <= resumed.summary.keys()
