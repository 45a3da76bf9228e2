"""Deadlines of rounds set by an agent: meaning of actions, and their effect on rounds."""

import numpy as np
import pytest
from support.gym_environments import NETWORK, make

import netfl
from netfl.core.kinds import kind_of
from netfl.errors import ScenarioError

gymnasium = pytest.importorskip("gymnasium", reason="netfl-sim[gymnasium] is not installed")
pytestmark = pytest.mark.extra

LIMIT_S = 100.0
SPEED = np.array([50.0, 20.0, 10.0])
SAMPLES, BITS, RATE_BPS = 200, 1e5, 1e5
LOSSLESS = {
    "name": "lossless",
    "users": 3,
    "rounds": 6,
    "access": {
        "kind": "network",
        "round": {"kind": "available", "deadline": LIMIT_S},
        "topology": {"kind": "star", "distance": "10 m", "rate": "1000 Gbps", "delay": 0},
        "radio": {"power": "20 dBm", "bandwidth": "1 MHz"},
        "channel": [{"kind": "free_space", "frequency": "868 MHz"}],
        "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": 3 * RATE_BPS},
        "mac": {"kind": "fdma", "among": "users"},
        "compute": {"speed": [*SPEED], "samples": SAMPLES},
        "broadcast_rate": "1000 Gbps",
        "update_size": BITS,
    },
}
"""Three users on lossless links, each with a third of the rate: their updates arrive after 5, 11 and 21 s."""
ARRIVALS_S = SAMPLES / SPEED + BITS / RATE_BPS


def make_with_deadline(overrides=None, scenario=LOSSLESS, **options):
    options = {"controls": ["deadline"]} | options
    return make("ResourceAllocation", scenario=scenario, overrides=overrides, **options)


def length_s(info):
    return info["round"].closed_s - info["round"].opened_s


@pytest.mark.parametrize(("fraction", "delivered"), [(0.04, 0), (0.06, 1), (0.2, 2), (0.9, 3)])
def test_a_round_closes_at_its_deadline_with_what_has_arrived(fraction, delivered):
    environment = make_with_deadline(action="dict", deadline_range=(0.01, 1.0))
    environment.reset(seed=1)
    u = (fraction - 0.01) / 0.99
    *_, info = environment.step({"deadline": [u]})
    assert [each.user for each in info["round"].deliveries] == [0, 1, 2][:delivered]
    expected_s = fraction * LIMIT_S if delivered < 3 else ARRIVALS_S.max()  # or once everybody has been delivered
    assert length_s(info) == pytest.approx(expected_s, rel=1e-6)


def test_each_round_has_its_own_deadline():
    environment = make_with_deadline(scenario=NETWORK, overrides={"access.outages": [], "access.mac.probability": 0.01})
    environment.reset(seed=1)
    lengths_s = []
    for x in (-1.0, 0.5, 1.0, 0.0, None):  # the last: that of the scenario
        *_, info = environment.step(None if x is None else np.array([x]))
        lengths_s.append(length_s(info))
    assert lengths_s == pytest.approx([3.0, 30 * 0.775, 30.0, 30 * 0.55, 30.0])


def test_a_deadline_may_be_later_than_that_of_the_scenario():
    environment = make_with_deadline(scenario=NETWORK, deadline_range=(0.5, 2.0))
    environment.reset(seed=1)
    assert environment.settings([1.0])["deadline"].tolist() == [60.0]
    assert length_s(environment.step([1.0])[-1]) == pytest.approx(60.0)


def test_the_deadline_is_the_last_number_of_a_flat_action():
    environment = make_with_deadline(scenario=NETWORK, controls=["deadline", "power"], deadline_range=(0.2, 0.8))
    assert environment.controls == ("power", "deadline")
    assert environment.action_space == gymnasium.spaces.Box(-1.0, 1.0, (7,))
    settings = environment.settings([-1.0, -0.5, 0.0, 0.5, 1.0, 1.0, -0.5])
    assert settings["power"].tolist() == [-20, -15, -10, -5, 0, 0]
    assert settings["deadline"] == pytest.approx([30 * (0.2 + 0.25 * 0.6)])


def test_settings_and_deadlines_reach_the_network():
    environment = make_with_deadline(scenario=NETWORK, controls=["probability", "power", "deadline"], action="dict")
    environment.reset(seed=5)
    environment.action_space.seed(1)
    with netfl.Simulation(environment.scenario, seed=5) as simulation:
        for _ in range(4):
            action = environment.action_space.sample()
            settings = environment.settings(action)
            [deadline_s] = settings.pop("deadline")
            expected = simulation.step(controls=settings, deadline_s=deadline_s)
            assert environment.step(action)[-1]["round"] == expected


def test_the_deadline_must_be_named():
    assert make("ResourceAllocation").controls == ("probability", "power")


ALLOCATED = {
    "access.mac": {"kind": "fdma", "division": "blocks", "interference": ["10 nW", "20 nW", "30 nW"]},
    "access.allocation": {"kind": "block_assignment", "weights": "equal"},
    "access.reception": {"kind": "waterfall", "threshold": "0.023 dB", "fading": "rayleigh"},
    "access.unreachable": "keep",
    "access.energy": {"per_training": "1 J", "transmit": "100 mW"},
}


def test_the_deadline_alone_leaves_mac_and_allocation_to_the_scenario():
    environment = make_with_deadline(overrides=ALLOCATED, action="dict")
    environment.reset(seed=1)
    assert kind_of(type(environment.scenario.access.mac)) == "fdma"
    assert kind_of(type(environment.scenario.access.allocation)) == "block_assignment"
    *_, info = environment.step({"deadline": [0.0]})
    assert length_s(info) == pytest.approx(LIMIT_S / 10)


@pytest.mark.parametrize(
    "options",
    [
        {"action": "flat"},
        {"action": "dict"},
        {"scenario": NETWORK, "controls": ["probability", "power", "deadline"]},
        {"scenario": NETWORK, "controls": ["power", "deadline"], "action": "dict"},
    ],
)
def test_checkers_find_nothing(options):
    from gymnasium.utils.env_checker import check_env

    environment = make_with_deadline(**options)
    check_env(environment)
    if options.get("action") != "dict":  # which stable-baselines3 does not support
        baselines = pytest.importorskip(
            "stable_baselines3.common.env_checker", reason="stable-baselines3 is not installed"
        )
        baselines.check_env(environment)


@pytest.mark.parametrize(
    ("overrides", "options", "message"),
    [
        ({"access.round": {"kind": "first", "m": 1}}, {},
         r"controls: has no effect .* \('deadline'\); use .*; deadline needs an access.round with a deadline"),
        ({}, {"scenario": "access/bernoulli"}, r"access: there is no network .* \('bernoulli'\); use kind: network"),
        ({}, {"deadline_range": (0.0, 1.0)}, "deadline_range: not a least and a larger fraction above 0"),
        ({}, {"deadline_range": (1.0, 1.0)}, "deadline_range: not a least and a larger fraction above 0"),
        ({}, {"deadline_range": (0.5, np.inf)}, "deadline_range: not a least and a larger fraction above 0"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_errors(overrides, options, message):
    with pytest.raises(ScenarioError, match=message):
        make_with_deadline(overrides, **options)


def test_a_network_without_settings_of_users_has_a_deadline():
    access = {key: value for key, value in LOSSLESS["access"].items() if key not in {"radio", "channel", "reception"}}
    access["mac"] = {"kind": "csma_ca", "rate": "12 Mbps"}
    scenario = LOSSLESS | {"access": access}
    with pytest.raises(ScenarioError, match=r"access: no setting of users exists .*; use controls=\['deadline'\], or"):
        make_with_deadline(scenario=scenario, controls=None)
    environment = make_with_deadline(scenario=scenario)
    environment.reset(seed=1)
    assert length_s(environment.step([-1.0])[-1]) == pytest.approx(LIMIT_S / 10)


@pytest.mark.parametrize("deadline", [[1.5], [-0.1], [0.5, 0.5], 0.5, [np.nan]])
def test_wrong_deadlines_are_errors(deadline):
    environment = make_with_deadline(action="dict")
    environment.reset(seed=1)
    with pytest.raises(ScenarioError, match=r"action: not in the action space.*'deadline': Box"):
        environment.step({"deadline": deadline})
