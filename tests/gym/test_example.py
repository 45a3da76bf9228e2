"""The example that trains agents: a short training, and the comparison with other policies."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.gym_environments import make

from netfl.results.statistics import interval

pytest.importorskip("gymnasium", reason="netfl-sim[gymnasium] is not installed")
pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")
pytestmark = pytest.mark.extra
EXAMPLE = Path(__file__).parents[2] / "examples/gymnasium"


@pytest.fixture
def train(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLE)
    yield importlib.import_module("train")
    for name in ("train", "per_user_policy"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["selection", "allocation"])
def test_agents_are_trained_and_compared(name, train, monkeypatch):
    monkeypatch.setattr(train, "TUNING", range(1))
    monkeypatch.setattr(train, "TESTING", range(2, 4))
    task = train.TASKS[name]
    few = {rival: dict([*variants.items()][:2]) for rival, variants in task.rivals.items()}
    task = train.Task(task.environment, {**task.options, "rounds": 8}, few, task.others)
    values = train.compare(task, [train.train(task, seed=1, steps=512)])
    assert len(values) == 2 * (len(task.rivals) + len(task.others) + 1)
    assert np.isfinite(values.drop(columns="policy").to_numpy()).all()
    lines = train.summary(values, len(task.rivals)).splitlines()
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines[2:]] == [*values["policy"].unique()]


def test_rules_are_members_of_the_action_spaces_and_prefer_links(train):
    for name, task in train.TASKS.items():
        environment = task.make(rounds=5).unwrapped
        observation, _ = environment.reset(seed=3)
        able = environment.simulation.state.user_up & (environment.simulation.state.snr_db >= -7.5)
        act = [*task.others.values()][-1]
        action = act(observation, environment)
        assert (np.abs(action) <= 1).all()
        assert action[able].min() > action[~able].max()
        if name == "allocation":
            assert environment.settings(action)["probability"][able] == pytest.approx(1 / able.sum())


def test_table_has_differences_of_the_same_seeds(train):
    rewards = {"a (1)": [1.0, 2.0, 3.0], "b (2)": [2.0, 2.5, 3.5], "PPO": [3.0, 3.5, 4.6]}
    rows = [
        {"policy": name, "seed": seed, "reward": value, "deliveries": 1.0, "energy_j": 2.0, "mean_age": 3.0}
        for name, values in rewards.items()
        for seed, value in enumerate(values)
    ]
    head, _, *lines = train.summary(pd.DataFrame(rows), 2).splitlines()
    assert "minus that of b (2)" in head
    gains = interval([1.0, 1.0, 1.1])
    assert lines[2].startswith(
        f"| PPO | 3.70 ± {interval(rewards['PPO']).half:.2f} | {gains.mean:.2f} ± {gains.half:.2f} |"
    )


def test_per_user_network_treats_users_alike(train):
    import torch

    network = importlib.import_module("per_user_policy").PerUserNetwork(features=3, users=5, outputs=2)
    observation = torch.randn(4, 15)
    order = torch.tensor([3, 1, 4, 0, 2])
    moved = observation.reshape(4, 3, 5)[:, :, order].reshape(4, 15)
    (outputs, values), (moved_outputs, moved_values) = network(observation), network(moved)
    torch.testing.assert_close(moved_outputs, outputs.reshape(4, 2, 5)[:, :, order].reshape(4, 10))
    torch.testing.assert_close(moved_values, values)


def test_environment_of_the_example_is_that_of_the_scenario():
    assert make(scenario="gym/user_selection").users == 20
    assert make("ResourceAllocation", scenario="gym/resource_allocation").controls == ("probability", "power")
