"""Slotted ALOHA with users that always have something to send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from netfl.errors import Fault
from netfl.network.mac.slotted_aloha import SlottedAloha as Mac
from netfl.network.theory import Theory, TheoryCase
from netfl.network.theory._aloha import aloha_figures, aloha_misfits


class SlottedAloha(Theory):
    """Of n saturated users each sends in a slot with probability p: it brings a packet with n p (1-p)^(n-1).

    An attempt collides with probability 1 - (1-p)^(n-1); a packet without a retry limit takes slot / (p (1-p)^(n-1))
    from being first to being received, its delay being geometric.  N. Abramson, AFIPS 1970; L. G. Roberts, ACM CCR
    5(2), 1975.  For fixed p, without fading, capture and outages.

    Example::

        kind: slotted_aloha
    """

    def misfits(self, case: TheoryCase) -> Iterator[Fault]:
        """Another MAC."""
        yield from aloha_misfits(case, Mac)

    def figures(self, case: TheoryCase) -> Mapping[str, float]:
        """Throughput, collisions, delay."""
        return aloha_figures(case, 1)
