"""All aggregations with stale updates, repeated users, and rounds without updates."""

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


def scenario(**overrides):
    local_work = {"lr": 0.2, "batch_size": 4, "local_steps": 3}
    settings = {
        "name": "hurried",
        "users": 4,
        "rounds": 24,
        "replicas": 2,
        "access": {"kind": "support.listening_models:Hurried"},
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3], [1, 2]], "samples": 40},
        "partition": "iid",
        "model": "logistic",
        "learners": {name: {"objective": f, "aggregation": rule} | local_work for name, (f, rule) in LEARNERS.items()},
        "evaluate": {"every": 4},
        **overrides,
    }
    return validate(ScenarioDocument(settings, "hurried"))


def assert_same(first, second, tables=("rounds", "deliveries", "metrics")):
    for name in tables:
        pd.testing.assert_frame_equal(first.table(name), second.table(name), check_exact=True)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    return run.run(scenario(), tmp_path_factory.mktemp("live") / "run", device="cpu")


def test_rounds_contain_stale_repeated_and_missing_updates(live):
    deliveries = live.deliveries
    assert (live.rounds["delivered"] == 0).any()
    assert (deliveries["round"] - 1 - deliveries["base"]).max() > 3
    assert deliveries.duplicated(["replica", "round", "user"]).any()
    assert not deliveries.duplicated(["replica", "round", "user"]).all()
    assert (deliveries.groupby(["replica", "round"])["base"].nunique() > 1).any()


def test_every_learner_reduces_its_loss_differently(live):
    last = live.metrics.query("round == 24 and metric == 'loss' and group == '' and replica == 0").set_index("learner")
    first = live.metrics.query("round == 0 and metric == 'loss' and group == '' and replica == 0").set_index("learner")
    assert np.isfinite(last["value"]).all()
    assert (last["value"] < first["value"]).all()
    assert last["value"].nunique() == len(LEARNERS)


@pytest.mark.slow
def test_replayed_trace_reproduces_the_live_run(live, tmp_path):
    traced = run.trace(scenario(), tmp_path / "trace")
    assert_same(live, traced, ("rounds", "deliveries"))
    access = {"kind": "replay", "run": str(traced.folder)}
    assert_same(live, run.run(scenario(access=access), tmp_path / "replayed", device="cpu"))


@pytest.mark.parametrize("stop_after", [1, 10, 21])
@pytest.mark.quick_first
def test_stop_and_resume_change_nothing(live, tmp_path, stop_after):
    run.run(scenario(), tmp_path / "run", device="cpu", observer=StopAfter(stop_after))
    resumed = run.resume(tmp_path / "run", device="cpu")
    assert_same(live, resumed)
    assert live.summary == resumed.summary
