"""Slotted ALOHA on several channels with saturated users."""

from __future__ import annotations

from collections.abc import Mapping

from netfl.network.mac.multichannel_aloha import MultichannelAloha as Mac
from netfl.network.theory import Theory, TheoryCase
from netfl.network.theory.slotted_aloha import ALOHA, aloha_of, predict_aloha


class MultichannelAloha(Theory):
    """Of n saturated users each sends with probability p on one of M channels: n p (1 - p/M)^(n-1) packets in a slot.

    Each channel is a slotted ALOHA with p/M instead of p; an attempt collides with probability
    1 - (1 - p/M)^(n-1), and a packet without a retry limit takes slot / (p (1 - p/M)^(n-1)).  D. Shen and V. O. K. Li,
    IEEE PIMRC 2003, §II.  For fixed p, without fading, capture and outages.

    Example::

        kind: multichannel_aloha
    """

    conditions = (aloha_of(Mac), *ALOHA)

    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        assert isinstance(case.network.mac, Mac)
        return predict_aloha(case, case.network.mac.channels)
