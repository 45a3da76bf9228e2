"""A scale-free mesh of routers, grown by preferential attachment."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from netfl.network.topology._graph import MAX_NODES, RandomMesh
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law

_MAX_LINKS = 100_000
"""Largest number of links, each of which is drawn before anything runs."""


class BarabasiAlbert(RandomMesh):
    """A scale-free mesh: each new router links to m earlier ones, each chosen in proportion to its links.

    A.-L. Barabási and R. Albert, "Emergence of scaling in random networks", Science 286 (1999).  The first m + 1
    routers are a star; every later one draws m different partners, one after the other, in proportion to their degrees.
    For many routers P(degree = k) tends to 2m(m+1) / (k(k+1)(k+2)), k ≥ m (S. N. Dorogovtsev, J. F. F. Mendes and
    A. N. Samukhin, Phys. Rev. Lett. 85 (2000)).  The mesh is connected.

    Routers are placed uniformly in a square, independently of their links; a link's delay is its length over the speed
    of light.  Some, drawn at random, carry a tower each; the server is at the router with the most links, the first
    among equals.  Both are joined to their router by a link of no length.  Users are placed uniformly in the square, or
    as a placement states; each belongs to the nearest tower.

    Example::

        kind: barabasi_albert
        routers: 30
        m: 1
        towers: 4
        side: 600 m
        rate: 100 Mbps
    """

    routers: Annotated[int, Field(ge=2, le=MAX_NODES)]
    """Number of routers."""
    m: Annotated[int, Field(ge=1)]
    """Number of earlier routers that each new router is linked to."""

    @model_validator(mode="after")
    def _check_links(self) -> BarabasiAlbert:
        if self.m >= self.routers:
            raise ValueError(f"m is {self.m} with {self.routers} routers; give m less than routers")
        links = self.m * (self.routers - self.m)
        if links > _MAX_LINKS:
            raise ValueError(f"{links:,} links, more than {_MAX_LINKS:,}; use fewer routers or a smaller m")
        return self

    def _link(self, positions: Floats, tower_routers: Ints, streams: Streams) -> tuple[Ints, int]:
        ends = grow_meshes(1, self.routers, self.m, streams.rng("links"))[0]
        return ends.reshape(-1, 2), int(np.bincount(ends).argmax())

    def laws(self) -> tuple[Law, ...]:
        links = self.m * (self.routers - self.m)
        by_degree = Law(
            "number of links between a router and others",
            "mean 2m(n-m)/n; for m = 1, P(k) by the growth of n P(k) from router to router, exact for every n",
            draw=self._degrees,
            mean=2.0 * links / self.routers,
        )
        if self.m == 1:
            shares = _tree_degrees(self.routers)
            by_degree = replace(by_degree, cdf=lambda x: np.cumsum(shares)[np.asarray(x, np.int64)])
        return (by_degree,)

    def _degrees(self, streams: Streams, size: int) -> Floats:
        """Return the degree of a random router in each of *size* meshes."""
        rng = streams.rng("degrees")
        degrees = []
        batch = max(1, 4_000_000 // (2 * self.m * self.routers))
        for begin in range(0, size, batch):
            count = min(batch, size - begin)
            chosen = rng.integers(self.routers, size=(count, 1))
            degrees.append((grow_meshes(count, self.routers, self.m, rng) == chosen).sum(axis=1))
        return np.concatenate(degrees).astype(float)


def grow_meshes(meshes: int, routers: int, m: int, rng: np.random.Generator) -> Ints:
    """Return the ends of all links of independent meshes, in pairs, ``[meshes, 2m(routers - m)]``.

    A uniformly chosen end of a link is a router with probability proportional to its degree; a repeated one is redrawn.
    """
    ends = np.empty((meshes, 2 * m * (routers - m)), np.int64)
    # the star: router m is linked to routers 0 … m - 1
    ends[:, : 2 * m : 2] = m
    ends[:, 1 : 2 * m : 2] = np.arange(m)
    every_mesh = np.arange(meshes)
    for router in range(m + 1, routers):
        begin = 2 * m * (router - m)  # of its links; the ends before are those of earlier routers
        ends[:, begin : begin + 2 * m : 2] = router
        for link in range(m):
            partners_before = ends[:, begin + 1 : begin + 2 * link : 2]
            undecided = every_mesh
            while undecided.size:
                partner = ends[undecided, rng.integers(begin, size=undecided.size)]
                ends[undecided, begin + 2 * link + 1] = partner
                is_repeated = (partners_before[undecided] == partner[:, None]).any(axis=1)
                undecided = undecided[is_repeated]
    return ends


def _tree_degrees(routers: int) -> Floats:
    """Return P(degree = k), k from 0, of a tree (m = 1): a new router adds a leaf and raises one degree.

    Of N_k routers with degree k among n routers, k N_k / 2(n - 1) get one link more, in the mean.
    """
    degree = np.arange(routers + 1)
    number = np.zeros(routers + 1)  # N_k, k from 0
    number[1] = 2.0
    for present in range(2, routers):
        raised = number * degree / (2.0 * (present - 1))
        number -= raised
        number[1:] += raised[:-1]
        number[1] += 1.0
    return number / routers
