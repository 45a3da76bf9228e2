"""Selection of users by an agent: forms of actions, and which users take part."""

import numpy as np
import pytest
from support.gym_environments import NETWORK, make

import netfl
from netfl.errors import ScenarioError

gymnasium = pytest.importorskip("gymnasium", reason="netfl-sim[gymnasium] is not installed")
pytestmark = pytest.mark.extra


def first_rounds(taken, options, seed=5, rounds=6):
    environment = make(**options)
    environment.reset(seed=seed)
    return [environment.step(taken)[-1]["round"] for _ in range(rounds)]


def expected_rounds(selected, seed=5, rounds=6):
    with netfl.Simulation(NETWORK, seed=seed) as simulation:
        return [simulation.step(selected) for _ in range(rounds)]


@pytest.mark.parametrize(
    ("options", "action", "selected"),
    [
        ({}, np.array([1, 0, 1, 0, 0, 1], np.int8), [0, 2, 5]),
        ({}, [True, False, False, False, False, True], [0, 5]),
        ({}, np.zeros(6, np.int8), []),
        ({"action": "user"}, 4, [4]),
        ({"action": "user"}, np.int64(0), [0]),
        ({"action": "scores", "m": 2}, np.array([-0.5, 0.9, -1, 0.3, 0.2, 0.3], np.float32), [1, 3]),
        ({"action": "scores", "m": 3}, np.zeros(6), [0, 1, 2]),
    ],
)
def test_actions_select_users(options, action, selected):
    assert first_rounds(action, options) == expected_rounds(selected)


def test_action_spaces():
    assert make().action_space == gymnasium.spaces.MultiBinary(6)
    assert make(action="scores", m=2).action_space == gymnasium.spaces.Box(-1.0, 1.0, (6,))
    assert make(action="user").action_space == gymnasium.spaces.Discrete(6)


@pytest.mark.parametrize(
    ("options", "action"),
    [
        ({}, np.ones(5, np.int8)),
        ({}, np.full(6, 2)),
        ({}, np.full(6, 0.5)),
        ({"action": "user"}, 6),
        ({"action": "user"}, -1),
        ({"action": "user"}, 1.5),
        ({"action": "scores", "m": 2}, np.array([np.nan] * 6)),
        ({"action": "scores", "m": 2}, np.zeros((6, 1))),
    ],
)
def test_wrong_actions_are_errors(options, action):
    environment = make(**options)
    environment.reset(seed=1)
    with pytest.raises(ScenarioError, match="action: not in the action space"):
        environment.step(action)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"action": "users"}, r"action: no such form of actions \('users'\); use mask, scores or user"),
        ({"action": "scores"}, "m: missing: the number of users that take part; give one from 1 to 6"),
        ({"action": "scores", "m": 7}, r"m: not a number of users that take part \(7\)"),
        ({"m": 3}, "m: has no effect with action: mask"),
    ],
)
def test_wrong_arguments_are_errors(options, message):
    with pytest.raises(ScenarioError, match=message):
        make(**options)


def test_access_given_directly_can_be_an_environment():
    environment = make(scenario="access/bernoulli", rounds=30)
    environment.reset(seed=1)
    mask = np.arange(environment.users) < 5
    counts = sum(environment.step(mask)[-1]["deliveries"] for _ in range(30))
    assert counts[:5].sum() > 0
    assert counts[5:].sum() == 0
    assert {*environment.observation_space} == {
        *("age", "participation", "delivered", "failed", "collided", "faded", "progress", "outcomes")
    }
