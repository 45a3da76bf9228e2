"""Known participation without a list: each replica uses the probabilities that its access states."""

import numpy as np
import pandas as pd
import pytest
from support.stop_run import StopAfter

import netfl
from netfl.errors import ScenarioError
from netfl.learning.aggregation.known_participation import KnownParticipation
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation.setup import prepare_run
from netfl.streams import Streams
from netfl.types import ScenarioFacts

USERS, ROUNDS = 8, 12
LABEL_CORRELATED = {"label_correlated": {"concentration": 0.1, "minimum": 0.02, "mean": 0.2}}
LISTED = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.25]
BERNOULLI = {"kind": "bernoulli", "probability": LABEL_CORRELATED}


def scenario(access=BERNOULLI, rule="known_participation", replicas=1, **changes):
    learner = {"objective": "erm", "aggregation": rule, "lr": 0.1, "batch_size": 4, "local_steps": 2}
    settings = {
        "name": "known", "users": USERS, "rounds": ROUNDS, "replicas": replicas, "access": access,
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3], [0, 3]], "samples": 60}, "model": "logistic",
        "partition": {"kind": "dirichlet", "concentration": 0.3}, "learners": {"one": learner, "two": learner},
        "evaluate": {"every": 3, "metrics": ["weight"]},
    }  # fmt: skip
    return validate(ScenarioDocument(settings | changes, "known"))


def probabilities(validated, replica):
    """Return FedAU's p_n = max(0.02, 0.2 C <κ_n, q>), from the labels of users."""
    setup = prepare_run(validated)
    labels, streams = setup.dataset.train_y, Streams(validated.seed).at("replica", replica).at("access")
    mixes = np.array([[np.mean(labels[rows] == label) for label in range(3)] for rows in setup.splits[replica]])
    return np.clip(0.2 * 3 * mixes @ streams.rng("labels").dirichlet([0.1] * 3), 0.02, 1)


def weights(run, replica, learner="one"):
    """Return the final weight of each user."""
    metrics = run.table("metrics").query("metric == 'weight' and replica == @replica and learner == @learner")
    last = metrics[metrics["round"] == ROUNDS].assign(
        user=lambda rows: rows["group"].str.removeprefix("user:").astype(int)
    )
    return last.sort_values("user")["value"].to_numpy()


@pytest.mark.slow
def test_stated_probabilities_equal_a_list_exactly(tmp_path):
    validated = scenario(record={"versions": True})
    listed = {"kind": "known_participation", "probability": probabilities(validated, 0).tolist()}
    run = netfl.run(validated, tmp_path / "stated", device="cpu")
    listed_run = netfl.run(scenario(rule=listed, record={"versions": True}), tmp_path / "listed", device="cpu")
    pd.testing.assert_frame_equal(run.table("metrics"), listed_run.table("metrics"), check_exact=True)
    version, expected = (finished.versions("one", replica=0)[ROUNDS] for finished in (run, listed_run))
    assert all(np.array_equal(version[name], expected[name]) for name in version)
    assert max(weights(run, 0)) > 2


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.slow
def test_each_replica_has_its_own_probabilities(tmp_path, workers):
    validated = scenario(replicas=3)
    run = netfl.run(validated, tmp_path / "run", device="cpu", workers=workers)
    expected = [probabilities(validated, replica) for replica in range(3)]
    assert all(not np.allclose(expected[0], another) for another in expected[1:])
    for replica, p in enumerate(expected):
        for learner in ("one", "two"):
            assert weights(run, replica, learner) == pytest.approx(1 / p, rel=1e-6)


@pytest.mark.slow
def test_resumed_and_extended_runs_keep_the_probabilities(tmp_path):
    netfl.run(scenario(replicas=2), tmp_path / "run", device="cpu", observer=StopAfter(5))
    netfl.resume(tmp_path / "run", device="cpu", workers=2)
    run, validated = netfl.extend(tmp_path / "run", 3, device="cpu"), scenario(replicas=3)
    for replica in range(3):
        assert weights(run, replica) == pytest.approx(1 / probabilities(validated, replica), rel=1e-6)


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        ({"kind": "bernoulli", "probability": 0.5}, [0.5] * USERS),
        ({"kind": "markov", "probability": LISTED}, LISTED),
        ({"kind": "cyclic", "probability": LISTED, "cycle": 4}, [1.0, 0.75, 0.75, 0.5, 0.5, 0.5, 0.25, 0.25]),
        (
            {"kind": "stationary", "rho": [p / sum(LISTED) for p in LISTED], "deliveries": 1},
            np.array(LISTED) / sum(LISTED),
        ),
    ],
    ids=lambda case: case["kind"] if isinstance(case, dict) else "",
)
def test_weights_are_inverse_participation_rates(tmp_path, access, expected):
    run = netfl.run(scenario(access), tmp_path / "run", device="cpu")
    assert weights(run, 0) == pytest.approx(1 / np.array(expected), rel=1e-6)


def test_a_user_without_deliveries_has_weight_0(tmp_path):
    inner = {"kind": "bernoulli", "probability": 0.5}
    run = netfl.run(scenario({"kind": "adversarial", "inner": inner, "users": [3]}), tmp_path / "run", device="cpu")
    assert weights(run, 0).tolist() == [2.0, 2.0, 2.0, 0.0, 2.0, 2.0, 2.0, 2.0]


@pytest.mark.parametrize("kind", [{"kind": "fedavgm"}, {"kind": "fedadam", "server_lr": 0.1}])
def test_server_optimisers_forward_the_probabilities(tmp_path, kind):
    run = netfl.run(scenario(rule={**kind, "inner": "known_participation"}), tmp_path / "run", device="cpu")
    assert weights(run, 0) == pytest.approx(1 / probabilities(scenario(), 0), rel=1e-6)


@pytest.mark.parametrize(
    "access",
    [
        {**BERNOULLI, "deliveries": 2},
        {**BERNOULLI, "selection": {"kind": "oldest", "m": 1}},
        {"kind": "stationary", "rho": {"zipf": 1}, "deliveries": 2},
        {"kind": "drifting", "knots": [{"round": 1, "probability": 0.5}, {"round": 9, "probability": 0.2}]},
    ],
    ids=["first", "selection", "stationary", "drifting"],
)
@pytest.mark.parametrize("is_inner", [False, True])
def test_an_access_without_participation_rates_is_an_error(access, is_inner):
    rule = {"kind": "fedavgm", "inner": "known_participation"} if is_inner else "known_participation"
    with pytest.raises(ScenarioError) as error:
        scenario(access, rule)
    fault = error.value.faults[0]
    assert fault.key == f"learners.one.aggregation{'.inner' if is_inner else ''}.probability"
    assert fault.problem == "missing; this access does not state the participation rate of each user"
    assert fault.remedy == "give a list, or use 'fedau', which estimates them"


def test_a_list_does_not_need_the_access():
    rule = KnownParticipation(probability=tuple(LISTED))
    assert not [*rule.faults(ScenarioFacts(USERS, ROUNDS))]
    assert rule.with_participation(np.full(USERS, 0.5)) is rule
    assert [fault.key for fault in KnownParticipation().faults(ScenarioFacts(USERS, ROUNDS))] == ["probability"]
    assert not [*KnownParticipation().faults(ScenarioFacts(USERS, ROUNDS, participation_known=True))]


def test_plugins_must_forward_the_probabilities():
    """The check before a run detects a missing call."""
    changes = {"evaluate": {"every": 3}}
    with pytest.raises(ScenarioError, match=r"method 'open' fails .*must forward the call to 'with_participation'"):
        prepare_run(
            scenario(rule={"kind": "support.plugin_learning:Inside", "inner": "known_participation"}, **changes)
        )
    listed = {"kind": "known_participation", "probability": LISTED}
    prepare_run(scenario(rule={"kind": "support.plugin_learning:Inside", "inner": listed}, **changes))
    prepare_run(scenario(rule={"kind": "support.plugin_learning:Telling", "inner": "known_participation"}, **changes))
