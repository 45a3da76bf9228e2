"""Delays, stays in queues and shares of time in use: plain pandas in, plain pandas out."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

UTILISATION = "utilisation."
"""What the names of figures begin with that say which share of the time a cell or link was in use."""


def delays(deliveries: pd.DataFrame, rounds: pd.DataFrame) -> pd.DataFrame:
    """*deliveries* with ``delay_s``, ``before_s``, ``way_s`` and ``age``.

    A delay runs from the opening of an update's round, when its broadcast begins, to its arrival; ``before_s`` is the
    part of it before the first attempt, in which the version is received, trained and kept waiting, ``way_s`` the part
    from then on.  An update that began in an earlier round has no such parts (NaN).  ``age`` is the number of versions
    that its base was behind the newest one when the round opened.

    Args:
        deliveries: the table of deliveries.
        rounds: the table of rounds.
    """
    table = deliveries.merge(rounds[["replica", "round", "opened_s"]], on=["replica", "round"])
    own = table["sent_s"] >= table["opened_s"]
    return table.assign(
        delay_s=table["arrived_s"] - table["opened_s"],
        before_s=(table["sent_s"] - table["opened_s"]).where(own),
        way_s=(table["arrived_s"] - table["sent_s"]).where(own),
        age=table["round"] - 1 - table["base"],
    ).drop(columns="opened_s")


def ages(age: pd.Series[int], most: int = 12) -> pd.Series[float]:
    """The share of updates of each age, in versions behind; from *most* on together, under ``12+``."""
    counts = age.clip(upper=most).value_counts(normalize=True).sort_index()
    counts = counts.reindex(range(min(0, int(age.min())), int(min(age.max(), most)) + 1), fill_value=0.0)
    return counts.rename(index=lambda one: f"{one}+" if one == most and age.max() > most else f"{one}")


def node_delays(events: pd.DataFrame) -> pd.DataFrame:
    """What towers and routers passed on: columns replica, node, from_s, to_s and stay_s, in the order of leaving.

    Args:
        events: the table of events, of which those of the kind ``forwarded`` count.
    """
    rows = events[events["kind"] == "forwarded"]
    found = pd.DataFrame(
        {
            "replica": rows["replica"],
            "node": rows["node"].astype(str),
            "from_s": rows["time_s"] - rows["value"],
            "to_s": rows["time_s"],
            "stay_s": rows["value"],
        }
    )
    return found.reset_index(drop=True)


def queues(rows: pd.DataFrame, length_s: float) -> pd.DataFrame:
    """A row for each node, the longest queue first: passed, mean_s, p95_s, longest_s, and ``held``.

    ``held`` is how many messages the node held on average, the one under way included: by Little's law the sum of
    their stays over the time.

    Args:
        rows: from `stays`.
        length_s: the time that was watched, of all replicas together.
    """
    by = rows.groupby("node")["stay_s"]
    table = pd.DataFrame({"passed": by.size(), "mean_s": by.mean(), "p95_s": by.quantile(0.95), "longest_s": by.max()})
    table = table.assign(held=by.sum() / max(length_s, 1e-12))
    return table.sort_values("held", ascending=False).reset_index()


def backlog_over_time(rows: pd.DataFrame, end_s: float, bins: int = 80) -> NDArray[np.float64]:
    """How many messages one node held, on average over each of equal bins of time, ``[bins]``.

    Args:
        rows: from `stays`, of one replica and node.
        end_s: the end of the last bin, in seconds.
        bins: their number.
    """
    edges = np.linspace(0.0, end_s, bins + 1)
    begun, ended = (_before(rows[name].to_numpy(float), edges) for name in ("from_s", "to_s"))
    return np.asarray(np.diff(begun - ended) / (end_s / bins))


def _before(times: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each edge the sum over *times* before it of the time since: the integral of how many there were."""
    ordered = np.sort(times)
    number = np.searchsorted(ordered, edges)
    return np.asarray(number * edges - np.append(0.0, ordered.cumsum())[number])


def utilisation(figures: pd.DataFrame) -> pd.DataFrame:
    """The share of the time that each cell and link was in use: columns replica, part and share.

    Args:
        figures: the table of figures.
    """
    rows = figures[figures["figure"].astype(str).str.startswith(UTILISATION)]
    part = rows["figure"].astype(str).str.removeprefix(UTILISATION)
    return pd.DataFrame({"replica": rows["replica"], "part": part, "share": rows["value"]}).reset_index(drop=True)
