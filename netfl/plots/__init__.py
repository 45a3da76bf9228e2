"""Pictures of the tables of runs and sweeps, as functions: pandas tables in, matplotlib Axes out, as seaborn's are.

Every function takes ``ax=``; without one it draws in a figure of its own, ``ax.figure``, that no registry holds:

>>> import netfl
>>> from netfl import plots
>>> run = netfl.open_run("runs/rural_outage-001")  # doctest: +SKIP
>>> plots.curves(run.metrics, "rare_accuracy").figure.savefig("rare.png")  # doctest: +SKIP

They are what reports are made of.  Learners stand in the order of the table unless *learners* says another, and keep
their colours in all pictures that name them in the same order.
"""

from __future__ import annotations

from netfl.plots.access import outages, participation, plot_layout, plot_outcomes, plot_participation
from netfl.plots.learning import class_accuracy, curves, regions, user_accuracy, user_scatter
from netfl.plots.sweeps import sweep_heat, sweep_lines
from netfl.plots.waits import delays, plot_backlog, plot_delays, plot_staleness, user_delays, utilisation

__all__ = [
    "class_accuracy",
    "curves",
    "delays",
    "outages",
    "participation",
    "plot_backlog",
    "plot_delays",
    "plot_layout",
    "plot_outcomes",
    "plot_participation",
    "plot_staleness",
    "regions",
    "sweep_heat",
    "sweep_lines",
    "user_accuracy",
    "user_delays",
    "user_scatter",
    "utilisation",
]
