"""Flower over a simulated network: a grid on which ServerApps and ClientApps run unmodified.

`run` runs a ServerApp and a ClientApp into a run directory, as ``netfl flower run`` does.  `NetworkGrid` is the grid
itself, for own scripts.  `user_data` and `evaluation_data` give apps the data of the scenario.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netfl.flower.app_run import run
    from netfl.flower.examples import evaluation_data, user_data
    from netfl.flower.grid import NetworkGrid

__all__ = ["NetworkGrid", "evaluation_data", "run", "user_data"]

_HOMES = {"NetworkGrid": "grid", "run": "app_run", "evaluation_data": "examples", "user_data": "examples"}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, after a check that Flower is installed in a supported version."""
    if name not in _HOMES:
        raise AttributeError(f"module 'netfl.flower' has no attribute '{name}'")
    from netfl.flower.versions import check_flower

    check_flower()
    return getattr(importlib.import_module(f"netfl.flower.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
