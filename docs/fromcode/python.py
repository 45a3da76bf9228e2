"""Reference page of Python names, for scripts and for models of your own."""

from __future__ import annotations

import importlib

import netfl
from fromcode import words

PARTS = (
    ("State of a simulation", "netfl.simulation.simulation", ("SimulationState",)),
    ("Plots", "netfl.plots", ()),
    ("Diagnosis", "netfl.diagnosis", ()),
    ("Time-outs of rounds", "netfl.diagnosis.timeout", ()),
    ("Intervals over replicas", "netfl.results.statistics", ("ConfidenceInterval",)),
    ("Recorded versions", "netfl.results.model_snapshots", ("ModelSnapshots",)),
    ("Engines of sweeps", "netfl.sweeps", ("LocalEngine", "Engine", "SweepObserver", "TaskUpdate")),
    ("A sweep on a cluster", "netfl.sweeps.ray_engine", ("RayEngine",)),
    ("Clusters", "netfl.simulation.workers.ray_cluster", ("Cluster",)),
    (
        "Types that packages exchange",
        "netfl.types",
        (
            *(
                "AccessContext",
                "RoundControls",
                "Observed",
                "ScenarioFacts",
                "Round",
                "Delivery",
                "LinkReport",
                "Merge",
                "MergedModel",
                "VersionRef",
                "Event",
                "Recorder",
                "LearnerReport",
                "Divergence",
            ),
            *("Law", "StatisticClaim", "RunObserver", "RunStart", "RunProgress", "RoundProgress"),
        ),
    ),
    ("Tests of the properties of a model", "netfl.testing.laws", ("check_laws",)),
    (
        "Statistics over time, for properties",
        "netfl.network.channel._correlation_laws",
        ("autocorrelation", "crossing_rate", "fade_duration"),
    ),
    ("Random streams", "netfl.streams", ("Streams", "RandomField")),
    ("Errors", "netfl.errors", ("Fault",)),
    ("Models", "netfl.core.spec", ("Spec",)),
    ("Models of a family", "netfl.core.family_members", ("FamilyMember", "base_of", "find_model")),
    ("Kinds of models", "netfl.core.kinds", ("FAMILIES", "list_kinds")),
    ("Examples of models", "netfl.core.descriptions", ("example",)),
    (
        "Models that learners train",
        "netfl.learning.architecture",
        ("ModuleArchitecture", "Architecture", "BatchedModel"),
    ),
    ("Layout", "netfl.network.layout", ("Layout", "Trajectories")),
    ("Limits of a receiver", "netfl.network.radio.receiver", ("ReceiverLimits",)),
    ("The cell that a MAC serves", "netfl.network.radio.cell", ("Cell",)),
    ("Links that an association compares", "netfl.network.radio.tower_links", ("TowerLinks",)),
)
"""Modules for scripts and models: title, module and public names; ``()`` means ``__all__``."""
DIAGNOSIS_PARTS = (
    "rates.Rates",
    "rates.Concentration",
    "rates.AgeStatistics",
    "rates.CvarReach",
    "rates.LossTail",
    "memory.MarkovOrder",
    "memory.TransitionCounts",
    "memory.Memory",
    "memory.RunLengths",
    "periodicity.Periodicity",
    "drift.Drift",
    "drift.WindowedRates",
    "dependence.Dependence",
)
"""Classes of the parts of a diagnosis, below `netfl.diagnosis`."""
_NEVER_MADE = {"netfl.Scenario", "netfl.network.radio.cell.Cell", "netfl.network.radio.tower_links.TowerLinks"}
"""Classes that only netfl creates; the page omits their arguments."""


def page() -> str:
    """Return the page: the names of `netfl`, then those of the modules."""
    return words.page(
        "Python",
        "Scripts use `netfl`, `netfl.plots` and `netfl.diagnosis`.  The other modules are for models of your own.  The "
        "contract of a family is on the page of the family.",
        "## netfl",
        words.rst(*(line for name in netfl.__all__ for line in _entry("netfl", name))),
        *(part for title, module, _ in PARTS for part in _module(title, module)),
    )


def names() -> list[str]:
    """Return every name on the page."""
    own = [f"netfl.{name}" for name in netfl.__all__]
    return own + [f"{module}.{name}" for _, module, _ in PARTS for name in _named(module)]


def _named(module: str) -> tuple[str, ...]:
    """Return the names of a module on the page."""
    (listed,) = (names for _, one, names in PARTS if one == module)
    return listed or tuple(importlib.import_module(module).__all__)


def _module(title: str, module: str) -> list[str]:
    """Return the section of a module."""
    entries = [line for name in _named(module) for line in _entry(module, name)]
    if module == "netfl.diagnosis":
        entries += [line for name in DIAGNOSIS_PARTS for line in _entry(module, name)]
    return [f"## {title}: {module}", words.rst(f".. automodule:: {module}", "   :no-members:", "", *entries)]


def _entry(module: str, name: str) -> list[str]:
    """Return the directive for a name."""
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
