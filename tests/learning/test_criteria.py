"""Criteria of tuning: their metrics, where they are listed, and the mean over users by hand."""

from typing import get_args

import pytest

import netfl
from netfl.learning.tuning import CRITERIA, TuningSpec
from netfl.results.digests import pass_folder
from netfl.results.formatting import learner_metrics
from netfl.results.metrics import CATALOGUE, metrics_in

LEARNER = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 2}
SCENARIO = {
    "name": "criteria",
    "users": 5,
    "rounds": 8,
    "access": {"kind": "bernoulli", "probability": 0.6},
    "data": {"kind": "blobs", "centers": [[0, 0], [2, 2], [0, 2]], "samples": 90},
    "partition": {"kind": "dirichlet", "concentration": 0.5},
    "model": "logistic",
    "learners": {"FedAvg": LEARNER, "equal": {**LEARNER, "weight_decay": 0.01}},
    "evaluate": {"every": 2, "validation": 0.3},
    "tuning": {"by": "mean_over_users", "factor": 20},
}


def test_a_scenario_can_name_every_criterion():
    assert {*get_args(TuningSpec.model_fields["by"].annotation)} == CRITERIA.keys()


@pytest.mark.parametrize("criterion", CRITERIA.values(), ids=CRITERIA)
def test_the_metric_of_a_criterion_is_declared_and_reports_list_it(criterion):
    (metric,) = [metric for metric in CATALOGUE if metric.name == criterion.metric]
    assert metric.is_learned
    assert metric.name in learner_metrics(in_report=True)
    if criterion.needs_labels:  # shares, which sweeps rank, and which exist on further test sets
        assert metric.name in metrics_in("sweep")
        assert metric.name + "@raw" in learner_metrics(["raw"], in_report=True)


def test_tuning_by_the_mean_over_users_gives_each_user_the_same_weight(tmp_path):
    run = netfl.run(SCENARIO, tmp_path / "run", device="cpu")
    metrics = netfl.open_run(pass_folder(run.folder, 1)).metrics
    of_users = metrics[
        (metrics["metric"] == "accuracy")
        & metrics["group"].astype(str).str.startswith("user:")
        & (metrics["round"] >= 0.75 * 8)
    ]
    of_all = metrics[(metrics["metric"] == "accuracy") & (metrics["group"] == "") & (metrics["round"] >= 0.75 * 8)]
    by_hand = of_users.groupby(["learner", "replica", "round"], observed=True)["value"].mean()
    by_candidate = (
        by_hand.groupby(["learner", "replica"], observed=True).mean().groupby("learner", observed=True).mean()
    )
    expected = sorted(by_candidate)
    first_pass = run.candidates[run.candidates["pass"] == 1]
    assert sorted(first_pass["value"]) == pytest.approx(expected)
    # by all examples it would be another value
    assert sorted(of_all.groupby("learner", observed=True)["value"].mean()) != pytest.approx(expected)
    assert "mean accuracy over users" in run.manifest["tuning"]["state"]
