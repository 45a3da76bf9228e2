"""Allocation of radio resources by an agent: meaning of actions, and their effect on the air."""

import numpy as np
import pytest
from support.gym_environments import NETWORK, make

import netfl
from netfl.errors import ScenarioError

gymnasium = pytest.importorskip("gymnasium", reason="netfl-sim[gymnasium] is not installed")
pytestmark = pytest.mark.extra

CONTROLLED = {"access.mac": {"kind": "controlled", "probability": 0.3, "channels": 3}}
CALM = {"access.outages": [], "access.topology.radius": "500 m"}
"""Overrides under which only collisions prevent deliveries."""


def make_allocation(overrides=None, **options):
    return make("ResourceAllocation", overrides=CONTROLLED | (overrides or {}), **options)


def test_flat_action_follows_the_formulas():
    environment = make_allocation(power_range=(-10.0, 2.0), min_probability=1e-2)
    assert environment.controls == ("probability", "channel", "power")
    assert environment.action_space == gymnasium.spaces.Box(-1.0, 1.0, (18,))
    x = np.array([-1.0, -0.5, 0.0, 0.2, 0.9, 1.0])
    settings = environment.settings(np.tile(x, 3))
    u = (x + 1) / 2
    np.testing.assert_allclose(settings["probability"], np.exp(np.log(0.01) * (1 - u)))
    assert settings["channel"].tolist() == [0, 0, 1, 1, 2, 2]
    np.testing.assert_allclose(settings["power"], -10 + 12 * u)


def test_dictionary_action_has_values_as_they_are():
    environment = make_allocation(action="dict", controls=["channel", "power", "probability"])
    action = {
        "probability": np.linspace(0, 1, 6),
        "channel": np.array([0, 1, 2, 0, 1, 2]),
        "power": np.array([0, 0.25, 0.5, 0.75, 1, 1]),
    }
    settings = environment.settings(action)
    assert settings["probability"].tolist() == action["probability"].tolist()
    assert settings["channel"].tolist() == action["channel"].tolist()
    assert settings["power"].tolist() == [-20, -15, -10, -5, 0, 0]


def test_settings_reach_the_users():
    environment = make_allocation(action="dict")
    environment.reset(seed=5)
    action = environment.action_space.sample()
    with netfl.Simulation(netfl.load(NETWORK, CONTROLLED), seed=5) as simulation:
        for _ in range(4):
            expected = simulation.step(controls=environment.settings(action))
            assert environment.step(action)[-1]["round"] == expected


def test_only_users_with_a_probability_are_delivered():
    environment = make_allocation(CALM, action="dict", controls=["probability"], rounds=4)
    environment.reset(seed=2)
    probability = np.array([0, 0, 0.6, 0, 0, 0])
    counts = sum(environment.step({"probability": probability})[-1]["deliveries"] for _ in range(4))
    assert counts[2] >= 3
    assert counts.sum() == counts[2]


def test_users_with_channels_of_their_own_do_not_collide():
    overrides = {**CALM, "access.mac": {"kind": "controlled", "channels": 6}}
    environment = make("ResourceAllocation", overrides=overrides, action="dict", controls=["probability", "channel"])

    def collisions(channel):
        environment.reset(seed=3)
        action = {"probability": np.full(6, 0.9), "channel": channel}
        infos = [environment.step(action)[-1] for _ in range(5)]
        return sum(environment.simulation.history.failed["collided"]), sum(info["deliveries"].sum() for info in infos)

    assert collisions(np.arange(6)) == (0, 30)
    assert collisions(np.zeros(6, int))[1] < 15


def test_less_power_takes_less_energy():
    environment = make_allocation(CALM, controls=["power"], reward="energy", rounds=5)

    def energy_j(x):
        environment.reset(seed=3)
        return -sum(environment.step(np.full(6, x))[1] for _ in range(5))

    trainings_j = 5 * 6 * 1.0
    full_j, low_j = energy_j(1.0), energy_j(0.0)
    assert low_j - trainings_j == pytest.approx((full_j - trainings_j) / 10, rel=1e-6)  # -10 dB, all are received


def test_another_mac_is_replaced_with_its_settings():
    environment = make("ResourceAllocation")
    assert environment.scenario.access.mac.model_dump(exclude={"kind"}) == {
        "probability": 0.3, "channels": 1, "slot": None, "max_attempts": 4,
    }  # fmt: skip
    assert environment.controls == ("probability", "power")
    replaced = make(
        "ResourceAllocation",
        overrides={"access.mac": {"kind": "multichannel_aloha", "channels": 2, "probability": 0.2}},
    )
    assert (replaced.channels, replaced.scenario.access.mac.probability) == (2, 0.2)
    scheduled = make("ResourceAllocation", overrides={"access.mac": {"kind": "round_robin"}})
    assert scheduled.scenario.access.mac.probability == pytest.approx(1 / 6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"scenario": "access/bernoulli"},
            r"access: there is no network with a MAC .* \('bernoulli'\); use kind: network",
        ),
        ({"controls": ["channel"]}, r"controls: has no effect on this scenario \('channel'\); use probability, power"),
        ({"controls": "power"}, "controls: not a list of settings"),
        ({"controls": []}, "controls: not a list of settings"),
        ({"action": "box"}, "action: no such form of actions"),
        ({"power_range": (0.0, 0.0)}, "power_range: not a least and a larger power"),
        ({"min_probability": 1.0}, "min_probability: not between 0 and 1"),
    ],
)
def test_wrong_arguments_are_errors(options, message):
    with pytest.raises(ScenarioError, match=message):
        make("ResourceAllocation", **options)


@pytest.mark.parametrize("action", [np.zeros(5), np.full(12, 1.5), np.full(12, np.nan)])
def test_wrong_flat_actions_are_errors(action):
    environment = make("ResourceAllocation")
    environment.reset(seed=1)
    with pytest.raises(ScenarioError, match="action: not in the action space"):
        environment.step(action)


@pytest.mark.parametrize(
    "changes", [{"power": np.full(6, 2.0)}, {"channel": np.full(6, 3)}, {"probability": np.zeros(3)}, {"rate": 1}]
)
def test_wrong_dictionary_actions_are_errors(changes):
    environment = make_allocation(action="dict")
    environment.reset(seed=1)
    with pytest.raises(ScenarioError, match="action: not in the action space"):
        environment.step({**environment.action_space.sample(), **changes})
