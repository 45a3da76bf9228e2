"""Slotted ALOHA with saturated users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from netfl.errors import Fault
from netfl.network.mac.slotted_aloha import SlottedAloha as Mac
from netfl.network.theory import Theory, TheoryCase
from netfl.network.theory._aloha import aloha_misfits, predict_aloha


class SlottedAloha(Theory):
    """Of n saturated users each sends in a slot with probability p: a slot delivers n p (1-p)^(n-1) packets.

    An attempt collides with probability 1 - (1-p)^(n-1); a packet without a retry limit takes slot / (p (1-p)^(n-1))
    from being first to being received, its delay being geometric.  N. Abramson, AFIPS 1970; L. G. Roberts, ACM CCR
    5(2), 1975.  For fixed p, without fading, capture and outages.

    Example::

        kind: slotted_aloha
    """

    def misfits(self, case: TheoryCase) -> Iterator[Fault]:
        """Yield misfits of the MAC, of the traffic, and of the medium."""
        yield from aloha_misfits(case, Mac)

    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        """Return throughput, collision probability and delay."""
        return predict_aloha(case, 1)
