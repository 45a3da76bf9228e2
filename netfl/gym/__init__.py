"""Gymnasium environments over a simulated network: selection of users, and allocation of radio resources.

Importing this module registers the environments::

    import gymnasium
    import netfl.gym

    env = gymnasium.make("netfl/UserSelection-v0", scenario="rural_outage", rounds=100)
    observation, info = env.reset(seed=1)

`netfl.gym.environment` describes what both environments have in common: episodes, seeds, observations and information.
Rewards are functions of a `Transition`, see `netfl.gym.rewards`.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from netfl.errors import Fault, ScenarioError

if TYPE_CHECKING:
    from netfl.gym.environment import NetworkEnvironment
    from netfl.gym.resource_allocation import ResourceAllocation
    from netfl.gym.rewards import REWARDS, Transition
    from netfl.gym.user_selection import UserSelection

__all__ = ["REWARDS", "NetworkEnvironment", "ResourceAllocation", "Transition", "UserSelection"]

_HOMES = {
    "NetworkEnvironment": "netfl.gym.environment",
    "REWARDS": "netfl.gym.rewards",
    "ResourceAllocation": "netfl.gym.resource_allocation",
    "Transition": "netfl.gym.rewards",
    "UserSelection": "netfl.gym.user_selection",
}
_ENVIRONMENTS = {
    "UserSelection-v0": "netfl.gym.user_selection:UserSelection",
    "ResourceAllocation-v0": "netfl.gym.resource_allocation:ResourceAllocation",
}
"""Environments by the last part of their ids, with the places of their classes."""
_PREFIXES = ("netfl/", "netfl.gym.")
"""Gymnasium's namespace of the environments, and an alias."""
_OLDEST = 1
"""Oldest major version of Gymnasium that is supported."""


def _register() -> None:
    """Register the environments with Gymnasium, unless they are there already."""
    import gymnasium

    for prefix in _PREFIXES:
        for name, entry_point in _ENVIRONMENTS.items():
            if prefix + name not in gymnasium.registry:
                gymnasium.register(id=prefix + name, entry_point=entry_point)


def _check_installation() -> None:
    """Raise a `ScenarioError` if Gymnasium is missing or too old."""
    remedy = "pip install 'netfl-sim[gymnasium]'"
    if find_spec("gymnasium") is None:
        raise ScenarioError([Fault("", "netfl.gym needs Gymnasium, which is not installed", None, remedy)])
    import gymnasium

    version = gymnasium.__version__
    if int(version.partition(".")[0]) < _OLDEST:
        raise ScenarioError([Fault("", f"netfl.gym needs Gymnasium {_OLDEST}.0 or newer", version, remedy)])


def __getattr__(name: str) -> Any:
    """Import a public name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'netfl.gym' has no attribute '{name}'")
    _check_installation()
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__


if find_spec("gymnasium") is not None:
    _check_installation()
    _register()
