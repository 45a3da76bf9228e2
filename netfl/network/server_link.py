"""Access link of the server: description, and rates of its two directions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from netfl.core.spec import Spec
from netfl.errors import Fault
from netfl.network.compute import as_tuple
from netfl.types import Floats, ScenarioFacts
from netfl.units import Bitrate

UP = "server_link_up"
DOWN = "server_link_down"
"""Names of the directions in the metrics ``utilisation.*``."""


class ServerLink(Spec):
    """Access link of the server, whose rate in each direction all transfers of that direction share at once.

    The n transfers under way have equal parts of the rate, and with ``user_rate`` max-min fair ones: no more than the
    limit of each, and what one cannot use goes to the others (D. Bertsekas and R. Gallager, Data Networks, 2nd ed.,
    1992, sec. 6.5.2).  Rates change at each start and end of a transfer, at once and without slow start.

    A version crosses the link before the first link of its route, and an update after the last: each stage stores and
    forwards.  An update that comes in packets is a transfer for each packet, and a sum in the air is one.  Packets of
    ``traffic`` do not cross it.  A newer version for a user ends the transfer of an older one; a round that closes ends
    no transfer, so that late updates still load the link.  An outage of the server loses the updates on it; versions on
    it go on, and wait or are lost as their route decides.

    Example::

        rate: 1 Gbps
        user_rate: 100 Mbps
    """

    rate: Annotated[Bitrate, Field(gt=0)] | None = None
    """Rate of each direction."""
    rate_up: Annotated[Bitrate, Field(gt=0)] | None = None
    """Rate of updates, in place of ``rate``; without both, updates do not share a link."""
    rate_down: Annotated[Bitrate, Field(gt=0)] | None = None
    """Rate of versions, in place of ``rate``; without both, versions do not share a link."""
    user_rate: (
        Annotated[tuple[Annotated[Bitrate, Field(gt=0)], ...], BeforeValidator(as_tuple), Field(min_length=1)] | None
    ) = None
    """Largest rate of a transfer, such as that of the user's own access: one for all users, or a list, one for each."""
    copies: Literal["user", "tower"] | None = None
    """Transfers of a version: one for each ``user``, or one for each ``tower`` with receivers.  By default
    ``user``, and ``tower`` with a ``downlink`` whose ``mode`` is ``multicast``."""

    @model_validator(mode="after")
    def _has_rate(self) -> ServerLink:
        if self.rate is None and self.rate_up is None and self.rate_down is None:
            raise ValueError("no rate is given; give rate, rate_up or rate_down")
        if self.rate is not None and self.rate_up is not None and self.rate_down is not None:
            raise ValueError("rate has no effect with rate_up and rate_down; leave it out")
        return self

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if self.user_rate is not None and len(self.user_rate) not in {1, facts.users}:
            problem = f"{len(self.user_rate)} rates for {facts.users} users"
            yield Fault("user_rate", problem, None, f"give one rate, or {facts.users} of them")
        if self.copies is not None and self.down_bps is None:
            yield Fault(
                "copies", "has no effect without a rate of versions", self.copies, "give rate_down, or leave it out"
            )

    @property
    def up_bps(self) -> float | None:
        """Rate of updates; ``None`` if they share no link."""
        return self.rate_up or self.rate

    @property
    def down_bps(self) -> float | None:
        """Rate of versions; ``None`` if they share no link."""
        return self.rate_down or self.rate

    def limits_bps(self, users: int) -> Floats:
        """Return the largest rate of a transfer of each user, ``[users]``; infinite without a limit."""
        limits_bps = np.full(users, np.inf)
        if self.user_rate is not None:
            limits_bps[:] = self.user_rate
        return limits_bps
