"""FedAWE beside a simulation of its users in plain PyTorch and NumPy, as the paper states it."""

import numpy as np
import pytest
from support.learner_factory import DATA, SPLIT, USERS, a_round, flat, learner, network, spec, torch_model
from support.plain_loops import train_plainly
from torch import nn

import netfl
from netfl.errors import ScenarioError
from netfl.learning.aggregation.fedawe import Fedawe
from netfl.simulation.memory import MemoryEstimate

LR = 0.3
FULL = {"batch_size": "full", "local_steps": 2, "lr": LR}


def train(theta, user):
    """Return the parameters of *user* after two steps from *theta* over all its examples."""
    batches = [SPLIT[user], SPLIT[user]]
    return flat(train_plainly(torch_model(theta), batches, DATA, nn.CrossEntropyLoss(), lr=LR)).numpy()


def simulate(trace, server_lr=1.0, clip=None):
    """Return the version and the mean of the users' models after each round of *trace*, by algorithm 1 of the paper."""
    start = learner({"A": spec(**FULL)}).version(0)[:-1]
    own = np.tile(start, (USERS, 1))  # x_i
    last = np.full(USERS, -1)  # τ_i
    version = start
    found = []
    for index, result in enumerate(trace):  # t
        changes = {}
        for delivery in result.deliveries:
            user = delivery.user
            change = train(own[user], user) - own[user]
            changes[user] = changes.get(user, 0.0) + (index - last[user]) * change
        if changes:
            users = [*changes]
            move = server_lr * np.mean([changes[user] for user in users], axis=0)
            if clip is not None:
                move *= min(1.0, clip / np.linalg.norm(move))
            version = own[users].mean(0) + move
            own[users] = version
            last[users] = index
        found.append((version, own.mean(0)))
    return found


def rare_and_repeated():
    """Yield rounds in which a user is away for long, one comes twice, and nobody comes."""
    yield a_round(1, (0, 0), (1, 0))
    yield a_round(2, (1, 1), oldest=0)
    yield a_round(3)
    yield a_round(4, (1, 3), (1, 3), (2, 0), oldest=0)
    yield a_round(5, (0, 4), (2, 4), oldest=0)
    yield a_round(6, (3, 2), (0, 5), oldest=0)


TRACES = {"network": lambda: network(0, 7), "rare and repeated": rare_and_repeated}


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("options", [{}, {"server_lr": 0.5}, {"clip": 0.2}], ids=str)
def test_versions_and_the_reported_model_are_those_of_the_paper(trace, options):
    specs = {
        "FedAWE": spec(aggregation=Fedawe(**options), base="last_participation", **FULL),
        "FedAvg": spec(**FULL),
    }
    made, plain = learner(specs), learner({"FedAWE": spec(**FULL), "FedAvg": spec(**FULL)})
    moved = []
    for result, (version, mean) in zip(TRACES[trace](), simulate(TRACES[trace](), **options), strict=True):
        made.step([result])
        plain.step([result])
        reported = made._servers.reported(made._versions.newest)[0, :-1].numpy()
        np.testing.assert_allclose(made.version(0)[:-1], version, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(reported, mean, rtol=1e-10, atol=1e-13)
        np.testing.assert_array_equal(made.version(1), plain.version(1))  # its rival is as it is without it
        moved.append(np.abs(version - mean).max())
    assert max(moved) > 1e-2


def scenario(**options):
    return netfl.Scenario(
        **{
            "name": "away",
            "users": 8,
            "rounds": 12,
            "replicas": 2,
            "access": {"kind": "bernoulli", "probability": 0.3},
            "data": {"kind": "blobs", "centers": [[0, 0], [2, 1], [-1, 2]], "samples": 120},
            "partition": {"kind": "dirichlet", "concentration": 0.5},
            "model": "logistic",
            "learners": {
                "FedAvg": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 3},
                "FedAWE": {
                    "objective": "erm",
                    "aggregation": "fedawe",
                    "base": "last_participation",
                    "lr": 0.1,
                    "batch_size": 8,
                    "local_steps": 3,
                },
            },
            "evaluate": {"every": 3},
        }
        | options
    )


def test_a_rule_without_its_base_is_refused():
    learners = {"FedAWE": scenario().plain()["learners"]["FedAWE"] | {"base": "newest_received"}}
    with pytest.raises(ScenarioError, match=r"learners\.FedAWE\.aggregation: needs users .*write base: last_partic"):
        scenario(learners=learners)


@pytest.mark.slow
def test_workers_and_a_stop_change_nothing(tmp_path):
    from support.stop_run import StopAfter

    whole = netfl.run(scenario(), tmp_path / "whole", progress=False)
    netfl.run(scenario(), tmp_path / "part", progress=False, observer=StopAfter(5))
    resumed = netfl.resume(tmp_path / "part", progress=False)
    workers = netfl.run(scenario(), tmp_path / "workers", progress=False, workers=2)
    for run in (resumed, workers):
        assert run.metrics.equals(whole.metrics)


def test_versions_of_absent_users_are_in_the_forecast_of_memory():
    learners = scenario().plain()["learners"]
    plain = scenario(learners={"FedAvg": learners["FedAvg"]}, rounds=1000)
    estimates = [MemoryEstimate.of(each, (2,), 3, 2) for each in (plain, scenario(rounds=1000), scenario(rounds=5))]
    per_lane = [each.version_bytes / (each.replicas * len(each.learners)) for each in estimates]
    model_bytes = 4 * (3 * 3 + 1)
    assert per_lane[1] - per_lane[0] == 2 * 8 * model_bytes
    assert per_lane[2] - per_lane[0] == 5 * model_bytes
