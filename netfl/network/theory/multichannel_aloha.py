"""Slotted ALOHA on several channels with users that always have something to send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from netfl.errors import Fault
from netfl.network.mac.multichannel_aloha import MultichannelAloha as Mac
from netfl.network.theory import Theory, TheoryCase
from netfl.network.theory._aloha import aloha_figures, aloha_misfits


class MultichannelAloha(Theory):
    """Of n saturated users each sends with probability p on one of M channels: n p (1 - p/M)^(n-1) packets in a slot.

    Each channel is a slotted ALOHA with p/M in the place of p; an attempt collides with probability
    1 - (1 - p/M)^(n-1), and a packet without a retry limit takes slot / (p (1 - p/M)^(n-1)).  D. Shen and V. O. K. Li,
    IEEE PIMRC 2003, §II.  For fixed p, without fading, capture and outages.

    Example::

        kind: multichannel_aloha
    """

    def misfits(self, case: TheoryCase) -> Iterator[Fault]:
        """Another MAC."""
        yield from aloha_misfits(case, Mac)

    def figures(self, case: TheoryCase) -> Mapping[str, float]:
        """Throughput, collisions, delay."""
        assert isinstance(case.said.mac, Mac)
        return aloha_figures(case, case.said.mac.channels)
