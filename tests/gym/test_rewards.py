"""Rewards: each against its definition, and weighted sums."""

import numpy as np
import pytest
from support.gym_environments import make

from netfl.errors import ScenarioError
from netfl.gym import rewards

gymnasium = pytest.importorskip("gymnasium", reason="netfl-sim[gymnasium] is not installed")
pytestmark = pytest.mark.extra


def transitions(rounds=10):
    """Return what a reward function gets in each round, and the information of these rounds."""
    seen = []
    environment = make(reward=lambda transition: seen.append(transition) or 0.0)
    environment.action_space.seed(1)
    environment.reset(seed=5)
    infos = [environment.step(environment.action_space.sample())[-1] for _ in range(rounds)]
    return seen, infos


def test_rewards_follow_their_definitions():
    seen, infos = transitions()
    energy_j, closed_s, last = 0.0, 0.0, np.zeros(6)
    for index, (transition, info) in enumerate(zip(seen, infos, strict=True), start=1):
        assert rewards.deliveries(transition) == info["deliveries"].sum()
        assert rewards.time(transition) == pytest.approx(closed_s - info["time_s"])
        assert rewards.energy(transition) == pytest.approx(energy_j - info["round"].energy_j)
        energy_j, closed_s = info["round"].energy_j, info["time_s"]
        last[info["deliveries"] > 0] = index
        assert rewards.max_age(transition) == -max(index + 1 - last)
        assert rewards.mean_age(transition) == pytest.approx(-np.mean(index + 1 - last))
        assert rewards.collisions(transition) == -transition.failed["collided"].sum()
    assert {rewards.collisions(transition) for transition in seen} > {0.0}
    assert {*rewards.REWARDS} == {"deliveries", "time", "energy", "accuracy", "max_age", "mean_age", "collisions"}


def test_weighted_sum_has_named_terms():
    def attempts(transition):
        return sum(delivery.attempts for delivery in transition.round.deliveries)

    environment = make(reward={"deliveries": 2.0, "max_age": 0.5, attempts: -0.1})
    environment.action_space.seed(1)
    environment.reset(seed=5)
    for _ in range(10):
        _, reward, _, _, info = environment.step(environment.action_space.sample())
        result, state = info["round"], environment.simulation.state
        assert info["rewards"] == {
            "deliveries": 2.0 * len(result.deliveries),
            "max_age": -0.5 * state.age.max(),
            "attempts": pytest.approx(-0.1 * sum(each.attempts for each in result.deliveries)),
        }
        assert reward == pytest.approx(sum(info["rewards"].values()))
        assert isinstance(reward, float)


def test_functions_of_one_name_are_terms_of_their_own():
    def deliveries(transition):
        return 100.0

    environment = make(reward={"deliveries": 1.0, deliveries: 1.0, (lambda _: 1.0): 1.0, (lambda _: 2.0): 1.0})
    environment.reset(seed=1)
    _, reward, *_, info = environment.step(environment.action_space.sample())
    delivered = len(info["round"].deliveries)
    expected = {"deliveries": delivered, "deliveries_2": 100.0, "<lambda>": 1.0, "<lambda>_2": 2.0}
    assert info["rewards"] == expected
    assert reward == delivered + 103.0


@pytest.mark.parametrize("reward", [[], {}, None, {"deliveries": "1"}, {"deliveries": float("nan")}])
def test_what_is_no_reward_is_refused(reward):
    with pytest.raises(ScenarioError, match="reward"):
        make(reward=reward)


@pytest.mark.parametrize("value", [None, float("nan"), "1"])
def test_rewards_are_numbers(value):
    def mine(transition):
        return value

    environment = make(reward=mine)
    environment.reset(seed=1)
    with pytest.raises(ScenarioError, match=r"mine\(\) returned no number in round 1"):
        environment.step(environment.action_space.sample())
