"""Nodes that are up in one window of each day, such as phones on their chargers at night."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability
from netfl.network.outage._alternating_renewal import state_law
from netfl.network.outage._daily import draw_shifts_s, recurring_window
from netfl.network.outage._targets import NodeOutage, node_numbers
from netfl.network.placement._sampling import uniform_law
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints, Law
from netfl.units import Seconds


class Diurnal(NodeOutage):
    """A node is up from ``opens`` to ``closes`` in every period, and down otherwise.

    The window is half-open, [opens, closes), and may extend over the end of the period: 22 h to 6 h is the night.  With
    a ``spread`` w each node's window has a constant shift, uniform on ±w/2, which models time zones and
    habits.  Time 0 of the simulation is the start of a period.

    Example::

        kind: diurnal
        nodes: users
        opens: 22 h
        closes: 6 h
        spread: 4 h
    """

    period: Annotated[Seconds, Field(gt=0)] = 86400.0
    """Length of a period."""
    opens: Annotated[Seconds, Field(ge=0)]
    """Time at which the window opens, from the start of the period."""
    closes: Annotated[Seconds, Field(ge=0)]
    """Time at which it closes."""
    spread: Annotated[Seconds, Field(ge=0)] = 0.0
    """Width of the interval from which each node's shift is drawn."""

    @model_validator(mode="after")
    def _check_window(self) -> Diurnal:
        for key in ("opens", "closes", "spread"):
            if getattr(self, key) > self.period:
                raise ValueError(
                    f"{key} is later than the end of the period; write a time within it, or a longer period"
                )
        if self._length_s == 0.0:
            raise ValueError("opens and closes are the same time of the period; change one of them")
        return self

    def open(self, layout: Layout, streams: Streams) -> NodeAvailability:
        affected = node_numbers(self.nodes, layout)
        opens_s = np.full(layout.nodes, np.nan)
        opens_s[affected] = self.opens + draw_shifts_s(self.spread, len(affected), streams)
        return _Windows(opens_s, self._length_s, self.period)

    def laws(self) -> tuple[Law, ...]:
        def open_users(streams: Streams, size: int) -> tuple[NodeAvailability, Ints]:
            graph: nx.Graph[str] = nx.Graph()
            users_only = self.model_copy(update={"nodes": "users"})
            return users_only.open(Layout(graph, np.zeros((size, 2))), streams), np.arange(size)

        def state(streams: Streams, size: int) -> Floats:
            timeline, users = open_users(streams, size)
            instants_s = self.period * (3.0 + streams.rng("instants").random(size))
            return timeline.up(users, instants_s).astype(float)

        def shift(streams: Streams, size: int) -> Floats:
            timeline, users = open_users(streams, size)
            earliest_s = self.opens + self.period - self.spread / 2.0
            # the first opening from there on is the first change or the second
            first_change_s = timeline.next_change(users, earliest_s)
            is_opening = timeline.up(users, first_change_s)
            opens_s = np.where(is_opening, first_change_s, timeline.next_change(users, first_change_s))
            return opens_s - earliest_s - self.spread / 2.0

        quantity = "state at an instant uniform over the period (1 is up)"
        share = self._length_s / self.period
        by_day = state_law(quantity, "up with probability window / period", state, share)
        if not self.spread:
            return (by_day,)
        return (by_day, uniform_law("shift of a node's window in s", self.spread, shift))

    @property
    def _length_s(self) -> float:
        return (self.closes - self.opens) % self.period


@dataclass(frozen=True, slots=True, eq=False)
class _Windows(NodeAvailability):
    """One window per period for each node.

    Args:
        opens_s: opening of each node's first window, ``[nodes]``; NaN for nodes that are always up.
        length_s: length of a window.
        period_s: time from one opening to the next.
    """

    opens_s: Floats
    length_s: float
    period_s: float

    def up(self, nodes: Ints, time_s: ArrayLike) -> Bools:
        opens_s = self.opens_s[nodes]
        is_open, _ = recurring_window(opens_s, self.length_s, self.period_s, time_s)
        return is_open | np.isnan(opens_s)

    def next_change(self, nodes: Ints, time_s: ArrayLike) -> Floats:
        _, change_s = recurring_window(self.opens_s[nodes], self.length_s, self.period_s, time_s)
        return np.where(np.isnan(change_s), np.inf, change_s)
