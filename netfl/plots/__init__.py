"""Plots of the tables of runs and sweeps: pandas tables in, a matplotlib Figure out.

Every function returns a figure, which a notebook shows and ``savefig`` writes; pyplot does not know it.  With ``ax=``
it draws on these axes, and returns their figure:

>>> import netfl
>>> from netfl import plots
>>> run = netfl.open_run("runs/rural_outage-001")  # doctest: +SKIP
>>> plots.curves(run.metrics, "rare_accuracy").savefig("rare.png")  # doctest: +SKIP

Reports are drawn by the same functions.  Learners are in the order of the table, or in that of *learners*, and keep
their colours in all plots that name them in the same order.
"""

from __future__ import annotations

from netfl.plots import deliveries, latency, learning, network, sweeps, timeout
from netfl.plots.style import as_figure

backlog = as_figure(latency.backlog)
candidates = as_figure(learning.candidates)
class_accuracy = as_figure(learning.class_accuracy)
curves = as_figure(learning.curves)
delays = as_figure(latency.delays)
layout = as_figure(network.layout)
node_delays = as_figure(latency.node_delays)
outages = as_figure(network.outages)
outcomes = as_figure(deliveries.outcomes)
participation = as_figure(deliveries.participation)
participation_bars = as_figure(deliveries.participation_bars)
regions = as_figure(learning.regions)
search_progress = as_figure(sweeps.search_progress)
staleness = as_figure(latency.staleness)
sweep_heat = as_figure(sweeps.sweep_heat)
sweep_lines = as_figure(sweeps.sweep_lines)
timeout_curve = as_figure(timeout.timeout_curve)
user_accuracy = as_figure(learning.user_accuracy)
user_delays = as_figure(latency.user_delays)
user_scatter = as_figure(learning.user_scatter)
utilisation = as_figure(latency.utilisation)

__all__ = [
    "backlog",
    "candidates",
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
    "search_progress",
    "staleness",
    "sweep_heat",
    "sweep_lines",
    "timeout_curve",
    "user_accuracy",
    "user_delays",
    "user_scatter",
    "utilisation",
]
