"""netfl: a discrete-event network simulator coupled to federated learning.

>>> import netfl
>>> scenario = netfl.load("scenarios/access/stationary.yaml", {"rounds": 20})  # doctest: +SKIP
>>> run = netfl.run(scenario, "runs/mine")  # doctest: +SKIP
>>> run.metrics.query("metric == 'accuracy' and group == ''")  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from netfl.errors import MachineError, ModelError, NetflError, NetflWarning, ScenarioError
from netfl.errors import __version__ as __version__

if TYPE_CHECKING:
    from netfl.report.paper_tables import compare
    from netfl.results.run_reader import Run, open_run
    from netfl.scenario.scenario import Scenario, load
    from netfl.simulation.extend import extend
    from netfl.simulation.run import resume, run, trace
    from netfl.simulation.simulation import Simulation
    from netfl.sweeps import Sweep, open_sweep, sweep

__all__ = [
    "MachineError",
    "ModelError",
    "NetflError",
    "NetflWarning",
    "Run",
    "Scenario",
    "ScenarioError",
    "Simulation",
    "Sweep",
    "compare",
    "extend",
    "load",
    "open_run",
    "open_sweep",
    "resume",
    "run",
    "sweep",
    "trace",
]

_HOMES = {
    "Run": "netfl.results.run_reader",
    "Scenario": "netfl.scenario.scenario",
    "Simulation": "netfl.simulation.simulation",
    "Sweep": "netfl.sweeps",
    "compare": "netfl.report.paper_tables",
    "extend": "netfl.simulation.extend",
    "load": "netfl.scenario.scenario",
    "open_run": "netfl.results.run_reader",
    "open_sweep": "netfl.sweeps",
    "resume": "netfl.simulation.run",
    "run": "netfl.simulation.run",
    "sweep": "netfl.sweeps",
    "trace": "netfl.simulation.run",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that ``import netfl`` is fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'netfl' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
