"""Planned outages: windows in which named nodes are down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from netfl.errors import Fault, ScenarioError
from netfl.network.layout import Layout
from netfl.network.outage import Bools, Floats, Ints, NodeAvailability, Outage
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._daily import recurring_window
from netfl.network.outage._targets import Nodes, node_numbers
from netfl.registry import Spec
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts
from netfl.units import Seconds


class Window(Spec):
    """A maintenance window, single or recurring."""

    nodes: Nodes
    """Affected nodes: ``users``, ``towers``, ``routers``, ``links``, or a list of numbers and names."""
    begins: Annotated[Seconds, Field(ge=0)]
    """First begin."""
    lasts: Annotated[Seconds, Field(gt=0)]
    """Duration."""
    every: Annotated[Seconds, Field(gt=0)] | None = None
    """Time from one begin to the next; ``null`` for a single window."""

    @model_validator(mode="after")
    def _check_duration(self) -> Window:
        if self.every is not None and self.lasts >= self.every:
            raise ValueError("lasts as long as the time until it begins again, so that the nodes would never be up")
        return self


class Maintenance(Outage):
    """Nodes are down in [begins + k·every, begins + k·every + lasts), k = 0, 1, …, of each window; nothing is drawn.

    Windows may overlap; a node is down while any of its windows lasts.

    Example::

        kind: maintenance
        windows:
          - {nodes: towers, begins: 2 h, lasts: 30 min, every: 7 day}
          - {nodes: ["tower:0-server"], begins: 90 s, lasts: 1 min}
    """

    windows: Annotated[tuple[Window, ...], Field(min_length=1)]
    """The windows, a list of ``nodes``, ``begins``, ``lasts`` and ``every``."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield an error for unknown users."""
        for index, window in enumerate(self.windows):
            yield from (fault.under(f"windows.{index}") for fault in facts.strangers("nodes", window.nodes))

    def open(self, layout: Layout, streams: Streams) -> NodeAvailability:
        """Combine all windows.

        Raises:
            ScenarioError: nodes are unknown; has the errors of all windows.
        """
        timelines, faults = [], []
        for index, window in enumerate(self.windows):
            try:
                is_affected = np.zeros(layout.nodes, np.bool_)
                is_affected[node_numbers(window.nodes, layout)] = True
                timelines.append(_PlannedWindow(is_affected, window))
            except ScenarioError as error:
                faults += [fault.under(f"windows.{index}") for fault in error.faults]
        if faults:
            raise ScenarioError(faults)
        return CombinedOutages(timelines)

    def laws(self) -> tuple[Law, ...]:
        """Claim that nothing is drawn."""
        return (Law.none("all is planned: nothing is drawn"),)


class _PlannedWindow(NodeAvailability):
    """One window of some nodes."""

    def __init__(self, is_affected: Bools, window: Window) -> None:
        self._is_affected, self._window = is_affected, window

    def up(self, nodes: Ints, time_s: ArrayLike) -> Bools:
        return ~(self._is_affected[nodes] & self._window_at(time_s)[0])

    def next_change(self, nodes: Ints, time_s: ArrayLike) -> Floats:
        return np.where(self._is_affected[nodes], self._window_at(time_s)[1], np.inf)

    def _window_at(self, time_s: ArrayLike) -> tuple[Bools, Floats]:
        """Return whether the window lasts at *time_s*, and until when this holds."""
        time, window = np.asarray(time_s, float), self._window
        first_s = np.full(time.shape, window.begins)
        if window.every is None:
            end_s = first_s + window.lasts
            lasts, until_s = time < end_s, np.where(time < end_s, end_s, np.inf)
        else:
            lasts, until_s = recurring_window(first_s, window.lasts, window.every, time)
        is_before = time < first_s
        return lasts & ~is_before, np.where(is_before, first_s, until_s)
