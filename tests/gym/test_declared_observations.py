"""Environments whose agents see declared values only."""

from __future__ import annotations

import numpy as np
import pytest
from support.gym_environments import make
from support.small_network import PLAIN

from netfl.errors import ScenarioError

SCENARIO = {
    "name": "x", "seed": 3, "users": 5, "rounds": 4,
    "access": {
        "kind": "network", **PLAIN, "round": {"kind": "first", "m": 2, "deadline": "30 s"},
        "outages": [{"kind": "battery", "capacity": 9.0, "initial": [0.5, 1.0]}],
        "energy": {"per_training": 0.5, "idle": 0.01},
    },
}  # fmt: skip
DECLARED = {"check_in": {"airtime": "100 ms"}, "battery_j": "last_delivery", "snr_db": "present"}


@pytest.fixture
def environment():
    with_declared = make(scenario=SCENARIO, declare=DECLARED)
    yield with_declared
    with_declared.close()


def test_only_declared_values_are_features(environment):
    names = {*environment.observation_space.spaces}
    assert names == {"age", "link_margin", "battery", "check_in", "participation", "delivered", "upload", "progress"}


def test_a_declared_speed_is_a_feature():
    environment = make(scenario=SCENARIO, overrides={"access.compute.spread": 0.5}, declare={"speed": "present"})
    seen, _ = environment.reset(seed=1)
    speed = environment.simulation.users["speed"].to_numpy()
    np.testing.assert_allclose(seen["speed"], speed / speed.max(), rtol=1e-6)
    assert len({*speed}) == 5
    environment.close()


def test_features_have_the_declared_age(environment):
    """The battery is known of delivered users alone; the round opens after the answers."""
    first, _ = environment.reset(seed=1)
    assert not first["battery"].any()
    assert first["check_in"].all()
    known = np.zeros(5, bool)
    while True:
        seen, _, _, is_over, info = environment.step(np.ones(5, int))
        if is_over:
            break
        known |= info["deliveries"] > 0
        assert ((seen["battery"] > 0) == known).all()
        assert info["round"].opened_s > 0


def test_value_that_is_not_declared_is_an_error():
    with pytest.raises(ScenarioError, match=r"observe: this scenario has no such values .*up.*declare"):
        make(scenario=SCENARIO, observe=["up"], declare=DECLARED)


def test_declared_value_that_does_not_exist_is_an_error():
    with pytest.raises(ScenarioError, match=r"^declare\.energy_j"):
        make(
            scenario=SCENARIO, overrides={"access.outages": [], "access.energy": None}, declare={"energy_j": "present"}
        )
    with pytest.raises(
        ScenarioError, match=r"^declare\.battery_j: comes with an answer, .* add 'check_in: \{\}' to declare,"
    ):
        make(scenario=SCENARIO, declare={"battery_j": "check_in"})
    with pytest.raises(ScenarioError, match=r"^declare\.batery_j: unknown key; did you mean 'battery_j'"):
        make(scenario=SCENARIO, declare={"batery_j": "present"})
