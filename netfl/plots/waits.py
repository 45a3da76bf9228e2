"""Pictures of delays, queues and utilisation."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pandas as pd
from matplotlib.axes import Axes

from netfl.report import plots_waits, tallies, waits


def delays(deliveries: pd.DataFrame, rounds: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """The distribution of delays, from the opening of an update's round to its arrival, on a logarithmic axis.

    Args:
        deliveries: `Run.deliveries`.
        rounds: `Run.rounds`.
        ax: where to draw.
    """
    table = waits.delays(deliveries, rounds)
    return plots_waits.distributions({"": table["delay_s"]}, ax=ax)


def user_delays(
    users: pd.DataFrame,
    deliveries: pd.DataFrame,
    rounds: pd.DataFrame,
    *,
    by: str = "heard",
    rare: Collection[int] = (),
    replica: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Each user's delays: a box over the middle half, whiskers over the middle 90 %, a bar at the median.

    Args:
        users: `Run.users`.
        deliveries: `Run.deliveries`.
        rounds: `Run.rounds`.
        by: what users are sorted by: ``heard``, or ``distance_m``.
        rare: users who hold one of these classes have their own colour.
        replica: whose users.
        ax: where to draw.
    """
    table, known = waits.delays(deliveries, rounds), tallies.with_delivery_counts(users, deliveries, rare)
    own = [one[one["replica"] == replica] for one in (table, known)]
    return plots_waits.user_delays(own[0], own[1], by=by, ax=ax)


def plot_staleness(deliveries: pd.DataFrame, rounds: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """How many versions behind the newest, as their round opened, updates had started from that counted.

    Args:
        deliveries: `Run.deliveries`.
        rounds: `Run.rounds`.
        ax: where to draw.
    """
    return plots_waits.ages(waits.delays(deliveries, rounds)["age"], ax=ax)


def plot_delays(events: pd.DataFrame, *, nodes: Sequence[str] | None = None, ax: Axes | None = None) -> Axes:
    """How long messages stayed in towers and routers, waiting and being put on the link.

    Args:
        events: `Run.events`, with the kind ``forwarded``.
        nodes: which towers and routers; by default all that passed something on.
        ax: where to draw.

    Raises:
        ValueError: no such events were recorded.
    """
    rows = _recorded(events)
    named = sorted(rows["node"].unique()) if nodes is None else nodes
    parts = {node: rows.loc[rows["node"] == node, "stay_s"] for node in named}
    return plots_waits.distributions(parts, xlabel="stay in the port", ax=ax)


def plot_backlog(
    events: pd.DataFrame,
    *,
    nodes: Sequence[str] | None = None,
    end_s: float | None = None,
    replica: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """How many messages towers and routers held over time, the one under way included.

    Args:
        events: `Run.events`, with the kind ``forwarded``.
        nodes: which towers and routers; by default all that passed something on.
        end_s: the end of the run in seconds; by default the last event.
        replica: whose.
        ax: where to draw.

    Raises:
        ValueError: no such events were recorded.
    """
    rows = _recorded(events)
    own = rows[rows["replica"] == replica]
    named = sorted(own["node"].unique()) if nodes is None else nodes
    end_s = float(events["time_s"].max()) if end_s is None else end_s
    ax = plots_waits.plot_backlog(own, end_s, named, ax=ax)
    return plots_waits.with_node_legend(ax, named)


def utilisation(figures: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """The share of the time that cells and links were in use, the busiest on top; a line is a 95 % t-interval.

    Args:
        figures: `Run.figures`.
        ax: where to draw.

    Raises:
        ValueError: the run has no such figures.
    """
    table = waits.utilisation(figures)
    if table.empty:
        raise ValueError("there are no figures of utilisation: the run has no network, or is not done")
    return plots_waits.utilisation(table, ax=ax)


def _recorded(events: pd.DataFrame) -> pd.DataFrame:
    """What was passed on.

    Raises:
        ValueError: that was not recorded.
    """
    rows = waits.node_delays(events)
    if rows.empty:
        raise ValueError("there are no such events in the table; the scenario's 'record' says which are kept")
    return rows
