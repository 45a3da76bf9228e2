"""Outages that are planned: windows in which named nodes are taken down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault, ScenarioError
from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability, Outage
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._diurnal_clock import surrounding_instants
from netfl.network.outage._targets import Nodes, node_faults, node_numbers
from netfl.registry import Spec
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts
from netfl.units import Seconds


class Window(Spec):
    """One window, once or again and again."""

    nodes: Nodes
    """Which nodes are taken down: ``users``, ``towers``, ``routers``, ``links``, or a list of numbers and names."""
    begins: Annotated[Seconds, Field(ge=0)]
    """When it begins, the first time."""
    lasts: Annotated[Seconds, Field(gt=0)]
    """How long it lasts."""
    every: Annotated[Seconds, Field(gt=0)] | None = None
    """After what time it begins again; ``null`` for once only."""

    @model_validator(mode="after")
    def _ends(self) -> Window:
        """A window is over before the next one begins."""
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
        """Users that there are not."""
        for index, window in enumerate(self.windows):
            yield from (fault.under(f"windows.{index}") for fault in node_faults(window.nodes, facts))

    def open(self, sites: Layout, streams: Streams) -> NodeAvailability:
        """All windows together.

        Raises:
            ScenarioError: nodes that there are not, of all windows at once.
        """
        timelines, faults = [], []
        for index, window in enumerate(self.windows):
            try:
                concerned = np.zeros(sites.nodes, np.bool_)
                concerned[node_numbers(window.nodes, sites)] = True
                timelines.append(_Planned(concerned, window))
            except ScenarioError as error:
                faults += [fault.under(f"windows.{index}") for fault in error.faults]
        if faults:
            raise ScenarioError(faults)
        return CombinedOutages(timelines)

    def laws(self) -> tuple[Law, ...]:
        """There are none."""
        return (Law.none("all is planned: nothing is drawn"),)


class _Planned(NodeAvailability):
    """One window of some nodes."""

    def __init__(self, concerned: NDArray[np.bool_], window: Window) -> None:
        self._concerned, self._window = concerned, window

    def up(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.bool_]:
        """Whether the last window to begin, if one has, is over."""
        began_s, _ = self._around(time_s)
        return ~self._concerned[nodes] | ~(np.asarray(time_s) < began_s + self._window.lasts)

    def next_change(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """When that window ends, or the next one begins."""
        began_s, begins_s = self._around(time_s)
        ends_s = began_s + self._window.lasts
        change_s = np.where(np.asarray(time_s) < ends_s, ends_s, begins_s)
        return np.where(self._concerned[nodes], change_s, np.inf)

    def _around(self, time_s: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """When the last window up to *time_s* began, minus infinity if none has, and when the next one will."""
        time, first_s, every = np.asarray(time_s, float), self._window.begins, self._window.every
        if every is None:
            began_s, begins_s = np.full(time.shape, first_s), np.full(time.shape, np.inf)
        else:
            began_s, begins_s = surrounding_instants(np.full(time.shape, first_s), every, time)
        before = time < first_s
        return np.where(before, -np.inf, began_s), np.where(before, first_s, begins_s)
