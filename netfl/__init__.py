"""netfl: a discrete-event network simulator coupled to federated learning.

>>> import netfl
>>> scenario = netfl.load("scenarios/access/stationary.yaml", {"rounds": 20})  # doctest: +SKIP
>>> run = netfl.run(scenario, "runs/mine")  # doctest: +SKIP
>>> run.metrics.query("metric == 'accuracy' and group == ''")  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netfl.coupling import resume, run, trace
    from netfl.extending import extend
    from netfl.reading import Run, open_run
    from netfl.scenario import Scenario, load

__version__ = "0.1.0"
__all__ = ["Run", "Scenario", "extend", "load", "open_run", "resume", "run", "trace"]

_HOMES = {
    "Run": "netfl.reading",
    "Scenario": "netfl.scenario",
    "extend": "netfl.extending",
    "load": "netfl.scenario",
    "open_run": "netfl.reading",
    "resume": "netfl.coupling",
    "run": "netfl.coupling",
    "trace": "netfl.coupling",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that ``import netfl`` is fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'netfl' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names."""
    return [*__all__, "__version__"]
