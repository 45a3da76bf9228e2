"""All the outages of a network together: a node is up when every one of them lets it be."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.errors import Fault, ScenarioError
from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability, Outage
from netfl.registry import kind_of
from netfl.streams import Streams

_PATIENCE = 1_000
"""Outages in a row after which a node is taken to stay down for ever: its windows never meet, say."""


class CombinedOutages(NodeAvailability):
    """Several timelines as one.

    Args:
        timelines: those of the outages at work; with none, every node is always up.  They are asked in this order, and
            the later ones only where the earlier ones let a node be up: those that cost most belong at the end.
        sparing: those of outages at work that let a transmission finish that has begun.

    Attributes:
        cutting: the outages that do not; this object itself where there are no others.
    """

    def __init__(self, timelines: Sequence[NodeAvailability] = (), sparing: Sequence[NodeAvailability] = ()) -> None:
        self._timelines = (*timelines, *sparing)
        self.cutting = CombinedOutages(timelines) if sparing else self

    @classmethod
    def open(cls, outages: Sequence[Outage], sites: Layout, streams: Streams) -> CombinedOutages:
        """The outages of a scenario at work on *sites*; the i-th draws from its own place below *streams*.

        Raises:
            ScenarioError: what does not fit *sites*, of all outages at once; keys start with an outage's number.
        """
        timelines: dict[str, list[tuple[float, NodeAvailability]]] = {"nothing": [], "uploads": []}
        faults: list[Fault] = []
        for index, outage in enumerate(outages):
            try:
                opened = outage.open(sites, streams.at("outage", index, kind_of(type(outage))))
                timelines[outage.spares].append((outage.changes_hz(1), opened))
            except ScenarioError as error:
                faults += [fault.under(str(index)) for fault in error.faults]
        if faults:
            raise ScenarioError(faults)
        seldom_first = {key: [one for _, one in sorted(own, key=itemgetter(0))] for key, own in timelines.items()}
        return cls(seldom_first["nothing"], seldom_first["uploads"])

    def __bool__(self) -> bool:
        """Whether any node can ever be down."""
        return bool(self._timelines)

    @property
    def exact(self) -> bool:
        """Whether all timelines are."""
        return all(timeline.exact for timeline in self._timelines)

    @property
    def metered(self) -> bool:
        """Whether any timeline is."""
        return any(timeline.metered for timeline in self._timelines)

    def train(self, users: NDArray[np.int64], time_s: ArrayLike, samples: ArrayLike) -> None:
        """Tell all timelines that *users* train."""
        for timeline in self._timelines:
            timeline.train(users, time_s, samples)

    def transmit(self, users: NDArray[np.int64], time_s: ArrayLike, bits: ArrayLike) -> None:
        """Tell all timelines that *users* begin to transmit."""
        for timeline in self._timelines:
            timeline.transmit(users, time_s, bits)

    def up(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.bool_]:
        """Whether each node is up in all timelines."""
        up = np.ones(len(nodes), bool)
        for timeline in self._timelines:
            up &= timeline.up(nodes, time_s)
        return up

    def next_change(self, nodes: NDArray[np.int64], time_s: ArrayLike, by_s: float = np.inf) -> NDArray[np.float64]:
        """The first instant after *time_s* at which each node goes up or down, all timelines taken together.

        Who is down up to *by_s* and longer is not followed further, as in `next_up`.
        """
        change_s = np.full(len(nodes), np.inf)
        for timeline in self._timelines:
            change_s = np.minimum(change_s, timeline.next_change(nodes, time_s))
        down = ~self.up(nodes, time_s)
        change_s[down] = self.next_up(nodes[down], np.broadcast_to(time_s, len(nodes))[down], by_s)
        return change_s

    def next_up(self, nodes: NDArray[np.int64], time_s: ArrayLike, by_s: float = np.inf) -> NDArray[np.float64]:
        """The first instant from *time_s* on at which each node is up, ``[n]``; infinity if never.

        Who is down up to *by_s* and longer is not followed further: of such the answer is any instant after it.
        """
        at_s = np.array(np.broadcast_to(np.asarray(time_s, float), len(nodes)))
        todo = np.arange(len(nodes))
        for _ in range(_PATIENCE):
            up, was_s = todo, at_s[todo]
            for timeline in self._timelines:  # who is down in one is not looked at in the others, until that is over
                if not up.size:
                    break
                down = ~timeline.up(nodes[up], at_s[up])
                waiting, up = up[down], up[~down]
                at_s[waiting] = timeline.next_change(nodes[waiting], at_s[waiting])
            todo = todo[(at_s[todo] > was_s) & np.isfinite(at_s[todo]) & (at_s[todo] <= by_s)]
            if not todo.size:
                return at_s
        at_s[todo] = np.inf
        return at_s

    def changes(
        self, nodes: NDArray[np.int64], start_s: float, end_s: float
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]:
        """All changes of *nodes* in (start, end]: when, who, whether it went up; in the order of time, then node."""
        todo, at_s = np.asarray(nodes), np.full(len(nodes), float(start_s))
        was_up = self.up(todo, at_s)
        found = [(at_s[:0], todo[:0], was_up[:0])]
        while todo.size:
            at_s = self.next_change(todo, at_s, end_s)
            within = at_s <= end_s
            todo, at_s, was_up = todo[within], at_s[within], was_up[within]
            up = self.up(todo, at_s)
            changed = up != was_up  # two changes at one instant cancel
            found.append((at_s[changed], todo[changed], up[changed]))
            was_up = up
        when, who, state = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.lexsort((who, when))
        return when[order], who[order], state[order]
