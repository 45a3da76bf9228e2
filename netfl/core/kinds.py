"""Kinds of models: a family is a package, and the name of a model's file is its ``kind``.

Nothing is registered, and no model is imported to list the kinds of a family.  A model from outside netfl has the kind
``package.module:Class``.  `netfl.core.family_members` finds the class of a kind.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

FAMILIES = (
    "access",
    "access/selection",
    "network/topology",
    "network/placement",
    "network/motion",
    "network/association",
    "network/channel",
    "network/reception",
    "network/interference",
    "network/power_control",
    "network/mac",
    "network/rate_adaptation",
    "network/allocation",
    "network/queue",
    "network/routing",
    "network/outage",
    "network/trains_when",
    "network/traffic",
    "network/round",
    "network/theory",
    "learning/data",
    "learning/partition",
    "learning/model",
    "learning/objective",
    "learning/schedule",
    "learning/aggregation",
    "learning/device",
    "learning/codec",
    "tracker",
)
"""All families, as paths of their packages below ``netfl``."""
_NETFL = Path(__file__).parents[1]
"""Folder of the package netfl, which has those of the families."""


def family_of(base: type) -> str:
    """Return the family whose contract is *base*, such as ``network/channel``."""
    return _path_below_netfl(base.__module__)


def list_kinds(base: type) -> list[str]:
    """Return the kinds of a family that netfl has, in alphabetical order."""
    return [*kinds_in(family_of(base))]


@cache
def kinds_in(family: str) -> tuple[str, ...]:
    """Return the kinds of *family* that netfl has, in alphabetical order: the names of its files, not imported.

    >>> kinds_in("network/routing")
    ('shortest_path', 'static')
    """
    kinds = []
    for module in pkgutil.iter_modules([str(_NETFL / family)]):
        is_helper = module.name.startswith("_")
        if not (module.ispkg or is_helper):
            kinds.append(module.name)
    return tuple(sorted(kinds))


def exported_models(package: str) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for the *package* of a family, which imports the class of each model at its first use.

    >>> from netfl.network.channel import Rayleigh
    >>> Rayleigh(coherence=10.0).coherence
    10.0
    """

    def import_model(name: str) -> Any:
        for kind in kinds_in(_path_below_netfl(package)):
            if not name.lower().startswith(kind.replace("_", "")):
                continue
            module = importlib.import_module(f"{package}.{kind}")
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    return import_model


def is_built_in(model: type) -> bool:
    """Return whether a class is one of netfl."""
    return model.__module__.startswith("netfl.")


def kind_of(model: type) -> str:
    """Return the ``kind`` of *model* in a scenario: its file in the package of its family, or where to import it."""
    package, _, name = model.__module__.rpartition(".")
    if is_built_in(model) and package != "netfl.flower":  # whose models need an optional package, and are in no family
        return name
    return f"{model.__module__}:{model.__qualname__}"


def stream_keys(models: Iterable[object]) -> list[tuple[int, str]]:
    """Return keys of random streams for a list of models: each model's number among those of its kind, and its kind.

    A model keeps its key when models of other kinds are added, removed or moved.
    """
    models_of_kind = Counter[str]()
    keys = []
    for model in models:
        kind = kind_of(type(model))
        keys.append((models_of_kind[kind], kind))
        models_of_kind[kind] += 1
    return keys


def _path_below_netfl(package: str) -> str:
    return package.removeprefix("netfl.").replace(".", "/")
