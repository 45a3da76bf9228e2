"""Slotted ALOHA on several channels, with a random channel for each attempt."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from netfl.network.mac._hopping import Hopping, check_hopping, permutation_law
from netfl.network.mac.slotted_aloha import Aloha
from netfl.types import Law


class MultichannelAloha(Aloha):
    """Slotted ALOHA in which each attempt takes a random one of M channels; only frames on the same channel collide.

    With n saturated users that send with probability p, a channel has a success in a slot with probability
    n (p/M) (1 - p/M)^(n-1), and M channels have M times as many; two given channels both succeed with
    n (n-1) (p/M)² (1 - 2p/M)^(n-2).  The throughput of large populations is at most M/e per slot, at p = M/n.

    p is fixed or adaptive as in `slotted_aloha`, with M/n and M/v in place of 1/n and 1/v, and an estimate that adds
    up the feedback of all channels: for Poisson arrivals the channels are M slotted ALOHAs with 1/M of the load each
    (D. Shen and V. O. K. Li, "Performance analysis for a stabilized multi-channel slotted ALOHA algorithm", IEEE PIMRC
    2003).  Idle time has the effect that it has there.

    With ``hopping: permutation`` each user draws one order of all channels and repeats it, so that its M attempts in a
    row have M channels.  The formulas hold, as the orders of users are independent.  A list of channels, numbered from
    0, is the order of all users, which begin at its start.

    Example::

        kind: multichannel_aloha
        channels: 3
        probability: 0.1
    """

    channels: Annotated[int, Field(ge=1)]
    """M."""
    hopping: Hopping = "random"
    """Channel of each attempt: ``random``; ``permutation``, one order of all channels for each user; or a list of
    channels, from 0, the order of all users."""

    @model_validator(mode="after")
    def _check_order(self) -> MultichannelAloha:
        check_hopping(self.hopping, self.channels)
        return self

    @property
    def channel_count(self) -> int:
        return self.channels

    @property
    def hops(self) -> str | tuple[int, ...]:
        return self.hopping

    def laws(self) -> tuple[Law, ...]:
        if not isinstance(self.hopping, str):
            return (Law.none("the order of channels is given"),)
        laws = self._laws("n p (1 - p/M)^(n-1)", f", M = {self.channels} channels")
        if self.hopping == "permutation":
            return (*laws, permutation_law(self.channels))
        return laws
