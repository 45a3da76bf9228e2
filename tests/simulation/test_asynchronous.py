"""Learners of all sorts where versions are made of stale updates, of the same user more than once, or of none."""

import numpy as np
import pandas as pd
import pytest
from support.stop_run import StopAfter

from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation import run

CVAR = {"kind": "cvar", "alpha": 0.3, "lr_t": 0.1}
LEARNERS = {
    "FedAvg": ("erm", "average"),
    "average all": ("erm", {"kind": "average_all", "server_lr": 2}),
    "known": ("erm", {"kind": "known_participation", "probability": [0.9, 0.7, 0.5, 0.3]}),
    "FedAU": ("erm", {"kind": "fedau", "cutoff": 6}),
    "FedBuff": ("erm", "fedbuff"),
    "FedAsync": ("erm", {"kind": "fedasync", "alpha": 0.6, "staleness": "polynomial", "a": 0.5}),
    "CVaR": (CVAR, "average"),
    "CVaR and FedAU": (CVAR, "fedau"),
    "CVaR and FedBuff": (CVAR, {"kind": "fedbuff", "exponent": 1}),
}


def scenario(**more):
    work = {"lr": 0.2, "batch_size": 4, "local_steps": 3}
    said = {
        "name": "hurried",
        "users": 4,
        "rounds": 24,
        "replicas": 2,
        "access": {"kind": "support.listening_models:Hurried"},
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3], [1, 2]], "samples": 40},
        "partition": "iid",
        "model": "logistic",
        "learners": {name: {"objective": f, "aggregation": rule} | work for name, (f, rule) in LEARNERS.items()},
        "evaluate": {"every": 4},
        **more,
    }
    return validate(ScenarioDocument(said, "hurried"))


def same(one, other, tables=("rounds", "deliveries", "metrics")):
    for name in tables:
        pd.testing.assert_frame_equal(one.table(name), other.table(name), check_exact=True)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    return run.run(scenario(), tmp_path_factory.mktemp("live") / "run", device="cpu")


def test_the_rounds_are_what_they_are_meant_to_be(live):
    deliveries = live.deliveries
    assert (live.rounds["delivered"] == 0).any()
    assert (deliveries["round"] - 1 - deliveries["base"]).max() > 3
    assert deliveries.duplicated(["replica", "round", "user"]).any()
    assert not deliveries.duplicated(["replica", "round", "user"]).all()
    assert (deliveries.groupby(["replica", "round"])["base"].nunique() > 1).any()


def test_every_learner_learns_and_none_like_another(live):
    last = live.metrics.query("round == 24 and metric == 'loss' and group == '' and replica == 0").set_index("learner")
    first = live.metrics.query("round == 0 and metric == 'loss' and group == '' and replica == 0").set_index("learner")
    assert np.isfinite(last["value"]).all()
    assert (last["value"] < first["value"]).all()
    assert last["value"].nunique() == len(LEARNERS)


@pytest.mark.slow
def test_learning_live_is_learning_from_the_trace(live, tmp_path):
    traced = run.trace(scenario(), tmp_path / "trace")
    same(live, traced, ("rounds", "deliveries"))
    access = {"kind": "replay", "run": str(traced.folder)}
    same(live, run.run(scenario(access=access), tmp_path / "replayed", device="cpu"))


@pytest.mark.parametrize("after", [1, 10, 21])
@pytest.mark.quick_first
def test_a_stop_and_a_resume_between_change_nothing(live, tmp_path, after):
    run.run(scenario(), tmp_path / "run", device="cpu", observer=StopAfter(after))
    resumed = run.resume(tmp_path / "run", device="cpu")
    same(live, resumed)
    assert live.summary == resumed.summary
