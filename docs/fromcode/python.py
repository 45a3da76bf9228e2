"""The page of Python names: what netfl offers to scripts, and what models of one's own are made with."""

from __future__ import annotations

import importlib

import netfl
from fromcode import words

PARTS = (
    ("Pictures", "netfl.plots", ()),
    ("Diagnosis", "netfl.diagnosis", ()),
    ("Versions that were kept", "netfl.results.model_snapshots", ("ModelSnapshots",)),
    ("Who does a sweep", "netfl.sweeps", ("LocalEngine", "Engine", "SweepObserver", "TaskUpdate")),
    ("A sweep on a cluster", "netfl.sweeps.ray_engine", ("RayEngine",)),
    ("Clusters", "netfl.learning.workers.ray_cluster", ("Cluster",)),
    (
        "What the packages exchange",
        "netfl.types",
        (
            *("AccessContext", "ScenarioFacts", "Round", "Delivery", "Recorder", "LearnerReport", "Divergence"),
            *("Law", "StatisticClaim", "RunObserver", "RunStart", "RunProgress", "RoundProgress"),
        ),
    ),
    ("Holding a model to its laws", "netfl.testing.laws", ("check_laws",)),
    (
        "Figures over time, for laws",
        "netfl.network.channel._correlation_laws",
        ("autocorrelation", "crossing_rate", "fade_duration"),
    ),
    ("Random streams", "netfl.streams", ("Streams", "RandomField")),
    ("Errors", "netfl.errors", ("NetflError", "ScenarioError", "ModelError", "MachineError", "Fault")),
    (
        "Models and their kinds",
        "netfl.registry",
        ("Spec", "FamilyMember", "FAMILIES", "base_of", "list_kinds", "find_model", "example"),
    ),
    ("Layout", "netfl.network.layout", ("Layout", "Trajectories")),
    ("The cell that a MAC serves", "netfl.network.radio.cell", ("Cell",)),
)
"""Modules for scripts and for models, by what they are for, and their names that are of use; ``()``: ``__all__``."""
HELD = (
    "rates.Rates",
    "rates.Concentration",
    "age_of_information.AgeStatistics",
    "cvar_reach.CvarReach",
    "cvar_reach.LossTail",
    "memory.MarkovOrder",
    "memory.TransitionCounts",
    "memory.Memory",
    "run_lengths.RunLengths",
    "periodicity.Periodicity",
    "drift.Drift",
    "drift.WindowedRates",
    "dependence.Dependence",
)
"""What the parts of a diagnosis are, below `netfl.diagnosis`."""
_NEVER_MADE = {"netfl.Scenario", "netfl.network.radio.cell.Cell"}
"""Classes that netfl alone makes: nobody needs to know how."""


def page() -> str:
    """The names of `netfl` itself, then those of the modules."""
    return words.page(
        "Python",
        "What scripts use is in `netfl`, `netfl.plots` and `netfl.diagnosis`.  The rest is for models of your own; the "
        "contracts of the families stand on their pages.",
        "## netfl",
        words.rst(*(line for name in netfl.__all__ for line in _entry("netfl", name))),
        *(part for title, module, _ in PARTS for part in _module(title, module)),
    )


def names() -> list[str]:
    """Every name that the page holds."""
    own = [f"netfl.{name}" for name in netfl.__all__]
    return own + [f"{module}.{name}" for _, module, _ in PARTS for name in _named(module)]


def _named(module: str) -> tuple[str, ...]:
    """The names of a module that are shown."""
    (listed,) = (names for _, one, names in PARTS if one == module)
    return listed or tuple(importlib.import_module(module).__all__)


def _module(title: str, module: str) -> list[str]:
    """The section of one module."""
    entries = [line for name in _named(module) for line in _entry(module, name)]
    if module == "netfl.diagnosis":
        entries += [line for name in HELD for line in _entry(module, name)]
    return [f"## {title}: {module}", words.rst(f".. automodule:: {module}", "   :no-members:", "", *entries)]


def _entry(module: str, name: str) -> list[str]:
    """The directive for one name."""
    path, last = f"{module}.{name}", name.rpartition(".")[2]
    home = importlib.import_module(path.rpartition(".")[0])
    what = getattr(home, last)
    if not isinstance(what, type):
        return [f".. auto{'function' if callable(what) and last != 'Kind' else 'data'}:: {path}", ""]
    members = [] if path == "netfl.Scenario" else ["   :members:", "   :member-order: bysource"]
    return [
        f".. autoclass:: {path}{'()' if path in _NEVER_MADE else ''}",
        *members,
        "   :exclude-members: model_config",
        "",
    ]
