"""Routes between the towers and the server: ports on the way up, delays on the way down."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import simpy

from netfl.network.ledger import Ledger
from netfl.network.port import Port, Sink
from netfl.network.presence import Presence
from netfl.network.queue import Queue
from netfl.network.sites import Sites


class Routes:
    """Where every tower and router sends on to, so that all routes through one node go on together.

    Args:
        sites: where everything stands and how it is linked.
    """

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._next: dict[str, str] = {}
        for tower in sites.towers:
            for node, after in pairwise(sites.route(tower)):
                if node in self._next:
                    break
                self._next[node] = after

    def of(self, tower: str) -> tuple[str, ...]:
        """The nodes from *tower* to the server, both included."""
        route = [tower]
        while route[-1] in self._next:
            route.append(self._next[route[-1]])
        return tuple(route)

    def numbers(self, tower: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The same as node numbers."""
        return np.array([self._sites.number(name) for name in self.of(tower)])

    def delay_s(self, tower: str, bits: float) -> float:
        """How long *bits* take from the server to *tower*: each link's delay and rate, stored and forwarded."""
        links = [self._sites.graph.edges[link] for link in pairwise(self.of(tower))]
        return float(sum(link["delay_s"] + bits / link["rate_bps"] for link in links))

    def ports(
        self, env: simpy.Environment, queue: Queue, presence: Presence, ledger: Ledger, server: Sink
    ) -> dict[str, Sink]:
        """What takes the messages of each tower and router; the last ones hand them to *server*."""
        sinks: dict[str, Sink] = {self._sites.server: server}
        for tower in self._sites.towers:
            for node, after in reversed(list(pairwise(self.of(tower)))):
                if node not in sinks:
                    link = self._sites.graph.edges[node, after]
                    place = (node, self._sites.number(node))
                    sinks[node] = Port(
                        env,
                        place,
                        rate_bps=link["rate_bps"],
                        delay_s=link["delay_s"],
                        buffer=queue.open(),
                        presence=presence,
                        ledger=ledger,
                        onward=sinks[after],
                    ).enter
        return sinks
