"""Routers in a square, linked at random, near ones more often."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.errors import Fault, ScenarioError
from netfl.network.placement._sampling import in_rectangle
from netfl.network.topology._graph import RandomMesh, bottleneck_hop
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)


class Waxman(RandomMesh):
    """Routers uniform in a square; two at distance d are linked with probability β exp(-d / (αL)).

    B. M. Waxman, "Routing of multipoint connections", IEEE JSAC 6 (1988); L, the largest distance that there can be, is
    the square's diagonal.  A larger β makes more links, a larger α longer ones; some authors swap the two letters.
    Pairs are linked independently given where the routers are.

    Some of the routers, drawn at random, carry a tower each; the server is at the router nearest the centre.  Both
    are joined to their router by a link of no length.  A link's delay is its length over the speed of light.  Users
    are placed uniformly in the square, or as a placement states; each belongs to the nearest tower.  Routers may be
    disconnected; a disconnected tower is an error, which names the β or α that would join it with the same draws.

    Example::

        kind: waxman
        routers: 40
        towers: 4
        side: 600 m
        alpha: 0.3
        beta: 0.8
        rate: 100 Mbps
    """

    routers: Annotated[int, Field(ge=1, le=2000)]
    """Number of routers."""
    alpha: Annotated[float, Field(gt=0, le=100)]
    """α, the reach of links as a share of the diagonal."""
    beta: Annotated[float, Field(gt=0, le=1)]
    """β, the probability of a link between routers at the same place."""

    def _link(self, positions: Floats, tower_routers: Ints, streams: Streams) -> tuple[Ints, int]:
        server_router = int(np.hypot(*positions.T).argmin())
        share, draw = self._pairs(positions, streams)
        is_linked = draw < self.beta * np.exp(-share / self.alpha)
        is_cut_off = bottleneck_hop(np.where(is_linked, 0.0, 1.0), server_router)[tower_routers] > 0.0
        if is_cut_off.any():
            raise self._cut_off_error(np.flatnonzero(is_cut_off), tower_routers, server_router, share, draw)
        return np.argwhere(np.triu(is_linked, k=1)), server_router

    def _cut_off_error(
        self, towers: Ints, tower_routers: Ints, server_router: int, share: Floats, draw: Floats
    ) -> ScenarioError:
        """Return the error of towers that are cut off, with the least β that joins all of them with the same draws.

        If that is above 1, the error names the least α with β = 1.  A larger β or α only adds links: two routers are
        linked from β = draw · exp(share/α) on, and for β = 1 from α = share / -ln(draw) on.
        """
        names = ", ".join(f"tower:{index}" for index in towers)
        problem = f"no path of routers connects {names} to the server"
        needed_beta = draw * np.exp(np.minimum(share / self.alpha, 700.0))  # as exp(710) is no number
        enough = _round_up(bottleneck_hop(needed_beta, server_router)[tower_routers].max())
        if enough <= 1.0:
            remedy = f"beta: {enough:.3f} is enough to connect all towers"
            return ScenarioError([Fault("beta", problem, self.beta, remedy)])
        needed_alpha = share / -np.log(np.minimum(draw, 1.0 - 1e-16))
        enough = _round_up(bottleneck_hop(needed_alpha, server_router)[tower_routers].max())
        remedy = f"alpha: {enough:.3f} with beta: 1 is enough to connect all towers"
        return ScenarioError([Fault("alpha", problem, self.alpha, remedy)])

    def laws(self) -> tuple[Law, ...]:
        unit = (_NODES + 1.0) / 2.0
        density = _WEIGHTS * (1.0 - unit)  # of the distance along one side: 2(1 - u), on [0, 1]
        distance = np.hypot(unit[:, None], unit[None]) / math.sqrt(2.0)
        chance = float(density @ (self.beta * np.exp(-distance / self.alpha)) @ density)
        return (
            Law(
                "whether two routers are linked (1 is yes)",
                "probability ∫ β exp(-d/(αL)) f(d) dd, with f the density of the distance of two points of a square",
                draw=self._links,
                mean=chance,
                variance=chance * (1.0 - chance),
            ),
        )

    def _pairs(self, positions: Floats, streams: Streams) -> tuple[Floats, Floats]:
        """Return, for each pair of routers, the distance as a share of the diagonal, and the draw for a link."""
        number = np.arange(len(positions))
        first = np.minimum.outer(number, number)
        second = np.maximum.outer(number, number)
        draw = streams.field("links").uniform(first, index=second)
        np.fill_diagonal(draw, 1.0)  # no router is linked to itself
        distance_m = np.hypot(*(positions[:, None] - positions[None]).transpose(2, 0, 1))
        return distance_m / (self.side * math.sqrt(2.0)), draw

    def _links(self, streams: Streams, size: int) -> Floats:
        """Return whether independent pairs of routers are linked: 0 and 1, 2 and 3, … of many networks."""
        is_linked = []
        for network in range(math.ceil(size / 100)):
            network_streams = streams.at(network)
            positions = in_rectangle(200, self.side, self.side, network_streams.at("routers"))
            share, draw = self._pairs(positions, network_streams)
            even = np.arange(0, 200, 2)
            pairs = (even, even + 1)
            is_linked.append(draw[pairs] < self.beta * np.exp(-share[pairs] / self.alpha))
        return np.concatenate(is_linked).astype(float)


def _round_up(value: float) -> float:
    """Round up to three decimals."""
    return math.ceil(value * 1000.0 + 1e-9) / 1000.0
