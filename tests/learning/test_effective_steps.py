"""Largest weights of objectives and aggregations against a search by force, and step sizes by effective steps."""

import numpy as np
import pytest
import torch

import netfl
from netfl.learning.aggregation import (
    Afl,
    Average,
    AverageAll,
    Fedadam,
    Fedasync,
    Fedau,
    Fedavgm,
    Fedbuff,
    Fedvarp,
    KnownParticipation,
    Mifa,
    Qfedavg,
    Relay,
    Scaffold,
    Updates,
)
from netfl.learning.effective_steps import StepRule
from netfl.learning.objective import Cvar, Erm, Proximal, Tilted
from netfl.learning.spec import LearnerSpec

USERS, DELIVERIES = 5, 3
SHARES = (0.9, 0.5, 0.5, 0.2, 0.1)


@pytest.mark.parametrize(
    "objective",
    [
        Erm(),
        Proximal(mu=1),
        Cvar(alpha=0.1, gamma=0.1, lr_t=1),
        Cvar(alpha=0.1, gamma=0.1, lr_t=1, per="sample"),
        Cvar(alpha=0.7, gamma=0.9, lr_t=1),
        Tilted(tau=3),
    ],
)
def test_largest_weight_of_an_objective_is_that_of_random_losses(objective):
    rng = torch.Generator().manual_seed(1)
    jobs, batch = 400, 6
    losses = torch.rand(jobs, batch, generator=rng)
    t = 3 * torch.rand(jobs, generator=rng) - 1
    share = torch.full((jobs, batch), 1 / batch)
    hyper = {
        name: value if isinstance(value, bool) else torch.full((jobs,), value)
        for name, value in objective.hyper().items()
    }
    weights, _ = objective.gradient_weights(losses, share, t, hyper)
    assert float(weights.sum(1).max()) == pytest.approx(objective.largest_weight, rel=1e-5)


def moves(rule, size=1.0, rounds=400, seed=2):
    """Return the factor of each round's move, where all changes are *size*, once every user has delivered."""
    rng = np.random.default_rng(seed)
    current = torch.zeros(3, dtype=torch.float64)
    state = rule.open(USERS, current)
    found = []
    for index in range(1, rounds + 1):
        count = USERS if index == 1 else DELIVERIES if rng.random() < 0.7 else int(rng.integers(DELIVERIES + 1))
        users = torch.tensor(np.sort(rng.choice(USERS, count, replace=False)))
        rates = torch.full((count, 2), 0.1, dtype=torch.float64)
        if not count:
            following, state = rule.idle(state, current, index, torch.full((2,), 0.1, dtype=torch.float64))
        else:
            bases = current.expand(count, -1)
            updates = Updates(
                round=index,
                users=users,
                base_rounds=torch.full((count,), index - 1),
                bases=bases,
                models=bases + size,
                samples=torch.tensor(rng.integers(1, 9, count).astype(float)),
                steps=torch.full((count,), 2),
                rates=rates,
                newest_rates=rates[0],
                losses=torch.tensor(rng.random(count)),
                messages=torch.zeros(count, 3, dtype=torch.float64),
            )
            following, state = rule.step(state, current, updates)
        if index > 1:
            found.append(float((following - current)[0]) / size)
        current = following
    return np.array(found)


@pytest.mark.parametrize(
    "rule",
    [
        Afl(lr_lambda=0.5, weights="share"),
        Afl(lr_lambda=0.5, weights="equal"),
        Average(),
        Average(weights="equal", server_lr=0.5),
        AverageAll(server_lr=2),
        Fedasync(alpha=0.4),
        Fedasync(alpha=0.4, staleness="polynomial", a=0.5),
        Fedau(cutoff=1, server_lr=2),
        Fedavgm(momentum=0.6, server_lr=0.5),
        Fedavgm(momentum=0.6, inner=Average(server_lr=3)),
        Fedbuff(server_lr=0.7),
        Fedvarp(server_lr=0.7),
        Fedvarp(server_lr=0.7, empty_round="keep"),
        KnownParticipation(probability=SHARES),
        Mifa(server_lr=2),
        Qfedavg(q=0),
        Scaffold(server_lr=0.3),
    ],
    ids=repr,
)
def test_largest_weight_of_an_aggregation_is_that_of_random_rounds(rule):
    found = moves(rule)
    largest = rule.largest_weight(USERS, DELIVERIES)
    assert found.max() <= largest * (1 + 1e-9)
    assert found.max() >= 0.97 * largest


def test_weights_without_a_bound_follow_losses_deliveries_or_sizes():
    for rule in (Afl(lr_lambda=0.5), Qfedavg(q=1), Fedadam(server_lr=0.1), Fedau(), Fedau(cutoff=50)):
        assert rule.largest_weight(USERS, DELIVERIES) is None
    assert moves(Fedadam(server_lr=0.1), size=1e-6).max() > 50 * moves(Fedadam(server_lr=0.1)).max()
    assert moves(Qfedavg(q=1), size=10.0).max() < 0.2 * moves(Qfedavg(q=1), size=0.01).max()
    afl = moves(Afl(lr_lambda=0.5))
    assert afl[afl > 0].min() < 0.3 * afl.max()
    assert Fedavgm(inner=Fedau()).largest_weight(USERS, DELIVERIES) is None


def learner(objective="erm", aggregation="average", lr=0.1, **settings):
    return {"objective": objective, "aggregation": aggregation, "lr": lr, "batch_size": 8, "local_steps": 2, **settings}


CVAR = {"kind": "cvar", "alpha": 0.1, "gamma": 0.1, "lr_t": 0.01}


def scenario(learners, **changes):
    return {
        "name": "steps",
        "users": 5,
        "rounds": 4,
        "access": {"kind": "bernoulli", "probability": 0.5},
        "data": {"kind": "digits"},
        "partition": "iid",
        "model": "logistic",
        "learners": learners,
        **changes,
    }


def test_effective_step_is_weight_times_step_size_by_one_minus_momentum():
    learners = {
        "a": learner(),
        "b": learner(CVAR, momentum=0.5),
        "c": learner(aggregation={"kind": "afl", "lr_lambda": 1}),
    }
    steps = netfl.load(scenario(learners)).effective_steps
    assert steps == {"a": 0.1, "b": pytest.approx(0.1 * 9.1 / 0.5), "c": None}


def test_local_momentum_lengthens_a_long_update_by_at_most_the_stated_factor():
    momentum, steps = 0.8, 500
    velocity = position = 0.0
    for _ in range(steps):
        velocity = momentum * velocity + 1
        position += velocity
    spec = LearnerSpec(objective=Erm(), aggregation=Relay(), lr=1, momentum=momentum, batch_size=8, local_steps=steps)
    weight = StepRule(users=5, deliveries=1).weight(spec)
    assert position / steps <= weight == pytest.approx(position / steps, rel=0.01)


def test_step_size_by_another_learner_has_its_effective_step():
    control = learner() | {"lr": None, "step_of": "CVaR"}
    loaded = netfl.load(scenario({"FedAvg": control, "CVaR": learner(CVAR, lr=0.05)}))
    assert loaded.learners["FedAvg"].step_size == pytest.approx(9.1 * 0.05)
    assert loaded.effective_steps["FedAvg"] == pytest.approx(loaded.effective_steps["CVaR"])
    again = netfl.load(loaded.to_yaml())
    assert again.learners["FedAvg"].step_of == "CVaR"
    assert again.learners["FedAvg"].step_size == loaded.learners["FedAvg"].step_size
    changed = netfl.load(loaded, {"learners.CVaR.lr": 0.1})
    assert changed.learners["FedAvg"].step_size == pytest.approx(0.91)


def test_participation_that_the_access_states_bounds_the_weights():
    learners = {"a": learner(aggregation="known_participation")}
    loaded = netfl.load(scenario(learners, access={"kind": "bernoulli", "probability": [0.5, 0.5, 0.2, 0.1, 1]}))
    assert loaded.effective_steps["a"] == pytest.approx(0.1 * (2 + 2 + 5 + 10 + 1) / 5)
    assert StepRule(5, 1).weight(loaded.learners["a"]) is None


def test_run_states_effective_steps_in_manifest_and_report(tmp_path):
    rounds = {"rounds": 2, "evaluate": {"every": 2}}
    run = netfl.run(scenario({"a": learner(), "b": learner(aggregation="fedau")}, **rounds), tmp_path / "run")
    assert run.effective_steps == {"a": 0.1, "b": None}
    assert run.comparison == "equal settings"
