"""Pictures of who was heard, and of what became of updates."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from netfl.report import plots_access, plots_network, tallies


def plot_participation(
    users: pd.DataFrame,
    deliveries: pd.DataFrame,
    *,
    by: str = "heard",
    rare: Collection[int] = (),
    replica: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """How often each user was heard, as bars; a cross: never.

    Args:
        users: `Run.users`.
        deliveries: `Run.deliveries`.
        by: what they are sorted by: ``heard``, or ``distance_m``.
        rare: users who hold one of these classes have their own colour.
        replica: whose users.
        ax: where to draw.
    """
    return plots_access.heard(_one(tallies.with_delivery_counts(users, deliveries, rare), replica), by=by, ax=ax)


def participation(
    users: pd.DataFrame,
    deliveries: pd.DataFrame,
    *,
    rare: Collection[int] = (),
    replica: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """User × round: when each user was heard, from the most often heard (top) to the least.

    Args:
        users: `Run.users`.
        deliveries: `Run.deliveries`.
        rare: users who hold one of these classes have their own colour.
        replica: whose users.
        ax: where to draw.
    """
    own, few = tallies.sample_users(
        _one(tallies.with_delivery_counts(users, deliveries, rare), replica), plots_access.MOST
    )
    known = _one(deliveries, replica)
    rounds = max(1, int(known["round"].max())) if len(known) else 1
    share = tallies.delivery_shares(known, own["user"], rounds)
    names = own["user"].astype(str).tolist()
    return plots_access.participation(share, names, rounds, rare=own["rare"].tolist(), few=few, ax=ax)


def plot_outcomes(events: pd.DataFrame, *, attempts: bool = False, ax: Axes | None = None) -> Axes:
    """What became of updates, per round, mean over replicas.

    Args:
        events: `Run.events`.
        attempts: of attempts that failed, by cause, in place of updates.
        ax: where to draw.

    Raises:
        ValueError: no such events were recorded.
    """
    rows = tallies.failures(events) if attempts else tallies.fates(events)
    if rows.empty:
        raise ValueError("there are no such events in the table; the scenario's 'record' says which are kept")
    binned = tallies.outcome_bins(rows, max(1, int(rows["round"].max())), rows["replica"].nunique())
    ax = plots_access.fate_areas(binned, ax=ax)
    ax.set(xlabel="round", ylabel=f"{'failed attempts' if attempts else 'updates'} per round")
    return ax


def outages(events: pd.DataFrame, *, end_s: float | None = None, replica: int = 0, ax: Axes | None = None) -> Axes:
    """Who was down, when: a bar for each outage of each node and user that had one.

    Args:
        events: `Run.events`, with the kinds ``down`` and ``up``.
        end_s: the end of the run in seconds; by default the last event.
        replica: whose.
        ax: where to draw.
    """
    own = _one(events, replica)
    end_s = float(own["time_s"].max()) if end_s is None and len(own) else end_s or 0.0
    down = tallies.outages(own, end_s)
    names = np.where(down["user"] < 0, down["node"], "user " + down["user"].astype(str))
    labels = list(dict.fromkeys(sorted(names, key=lambda name: (name.startswith("user "), len(name), name))))
    rows = down.assign(row=[labels.index(name) for name in names])
    nothing = pd.DataFrame({"row": [], "from_s": [], "to_s": [], "arrived_s": []}, dtype=float)
    rare = [False] * len(labels)
    return plots_network.outage_lines(rows, nothing, nothing, labels=labels, rare=rare, end_s=max(end_s, 1e-9), ax=ax)


def plot_layout(
    users: pd.DataFrame,
    deliveries: pd.DataFrame,
    nodes: pd.DataFrame | None = None,
    *,
    rare: Collection[int] = (),
    replica: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Where users stand, coloured by how often each was heard, with towers, routers and the server.

    Args:
        users: `Run.users`, with positions.
        deliveries: `Run.deliveries`.
        nodes: `Run.nodes`.
        rare: users who hold one of these classes have a ring.
        replica: whose.
        ax: where to draw.
    """
    own = _one(tallies.with_delivery_counts(users, deliveries, rare), replica)
    known = None if nodes is None or nodes.empty else _one(nodes, replica)
    shown, few = tallies.sample_users(own, plots_access.MOST)
    return plots_network.user_map(shown, "heard", f"times heard{few and f' ({few})'}", nodes=known, ax=ax)


def _one(table: pd.DataFrame, replica: int) -> pd.DataFrame:
    """The rows of one replica."""
    return table[table["replica"] == replica].reset_index(drop=True)
