"""Planned outages: windows in which named nodes are down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from netfl.core.spec import Spec
from netfl.errors import Fault, prefix_faults
from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability, Outage
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._daily import recurring_window
from netfl.network.outage._targets import Nodes, node_rows
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints, Law, ScenarioFacts
from netfl.units import Seconds


class Window(Spec):
    """A maintenance window, single or recurring."""

    nodes: Nodes
    """Affected nodes: ``users``, ``towers``, ``routers``, ``links``, or a list of numbers and names."""
    start: Annotated[Seconds, Field(ge=0)]
    """First begin."""
    duration: Annotated[Seconds, Field(gt=0)]
    """Duration."""
    every: Annotated[Seconds, Field(gt=0)] | None = None
    """Time from one begin to the next; ``null`` for a single window."""

    @model_validator(mode="after")
    def _check_duration(self) -> Window:
        if self.every is not None and self.duration >= self.every:
            raise ValueError("is as long as the interval, so the nodes would never be up; make it shorter")
        return self


class Maintenance(Outage):
    """Nodes are down in [begins + k·every, begins + k·every + lasts), k = 0, 1, …, of each window; nothing is drawn.

    Windows may overlap; a node is down while any of its windows lasts.

    Example::

        kind: maintenance
        windows:
          - {nodes: towers, start: 2 h, duration: 30 min, every: 7 day}
          - {nodes: ["tower:0-server"], start: 90 s, duration: 1 min}
    """

    windows: Annotated[tuple[Window, ...], Field(min_length=1)]
    """The windows, a list of ``nodes``, ``start``, ``duration`` and ``every``."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        for index, window in enumerate(self.windows):
            yield from (fault.under(f"windows.{index}") for fault in facts.unknown_users("nodes", window.nodes))

    def open(self, layout: Layout, streams: Streams) -> NodeAvailability:
        timelines = []
        for index, window in enumerate(self.windows):
            with prefix_faults(f"windows.{index}"):
                timelines.append(_PlannedWindow(node_rows(window.nodes, layout) >= 0, window))
        return CombinedOutages(timelines)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the times are given: nothing is drawn"),)


@dataclass(frozen=True, slots=True, eq=False)
class _PlannedWindow(NodeAvailability):
    """Nodes that are down while a window lasts.

    Args:
        is_affected: whether the window affects each node, ``[nodes]``.
        window: the window, single or recurring.
    """

    is_affected: Bools
    window: Window

    def up(self, nodes: Ints, time_s: ArrayLike) -> Bools:
        lasts, _ = self._window_at(time_s)
        return ~(self.is_affected[nodes] & lasts)

    def next_change(self, nodes: Ints, time_s: ArrayLike) -> Floats:
        _, until_s = self._window_at(time_s)
        return np.where(self.is_affected[nodes], until_s, np.inf)

    def _window_at(self, time_s: ArrayLike) -> tuple[Bools, Floats]:
        """Return whether the window lasts at *time_s*, and until when this holds."""
        time = np.asarray(time_s, float)
        window = self.window
        first_s = np.full(time.shape, window.start)
        if window.every is None:
            end_s = first_s + window.duration
            lasts = time < end_s
            until_s = np.where(lasts, end_s, np.inf)
        else:
            lasts, until_s = recurring_window(first_s, window.duration, window.every, time)
        is_before_first = time < first_s  # recurring windows have no first one
        return lasts & ~is_before_first, np.where(is_before_first, first_s, until_s)
