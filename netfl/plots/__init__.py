"""Plots of the tables of runs and sweeps: pandas tables in, matplotlib Axes out.

Every function takes ``ax=``; without it, it draws in a new figure, ``ax.figure``, that is not registered with pyplot:

>>> import netfl
>>> from netfl import plots
>>> run = netfl.open_run("runs/rural_outage-001")  # doctest: +SKIP
>>> plots.curves(run.metrics, "rare_accuracy").figure.savefig("rare.png")  # doctest: +SKIP

Reports are drawn by the same functions.  Learners stand in the order of the table, or in that of *learners*, and keep
their colours in all plots that name them in the same order.
"""

from __future__ import annotations

from netfl.plots.deliveries import outcomes, participation, participation_bars
from netfl.plots.latency import backlog, delays, node_delays, staleness, user_delays, utilisation
from netfl.plots.learning import class_accuracy, curves, regions, user_accuracy, user_scatter
from netfl.plots.network import layout, outages
from netfl.plots.sweeps import sweep_heat, sweep_lines

__all__ = [
    "backlog",
    "class_accuracy",
    "curves",
    "delays",
    "layout",
    "node_delays",
    "outages",
    "outcomes",
    "participation",
    "participation_bars",
    "regions",
    "staleness",
    "sweep_heat",
    "sweep_lines",
    "user_accuracy",
    "user_delays",
    "user_scatter",
    "utilisation",
]
