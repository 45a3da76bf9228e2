"""Fractional power control: users near the tower lower their power by a part of what they are nearer."""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np
from pydantic import Field

from netfl.network.power_control import PowerControl, SenderLinks
from netfl.types import Floats, Law
from netfl.units import Decibels


class Fractional(PowerControl):
    """A user whose mean SNR at full power is x dB above ``reference`` sends with α x dB less than full power.

    It compensates the part α of the path loss and the shadowing, as the open loop of LTE does: with the loss PL it
    sends at min(P_max, P_0 + α PL) (3GPP TS 36.213, §5.1.1.1), where ``reference`` stands for P_0: the mean SNR of a
    user that needs full power.  Fast fading is not compensated.  With α = 0 all send at full power, with α = 1 all have
    the same mean SNR.  Users below the reference send at full power.

    Example::

        kind: fractional
        alpha: 0.8
    """

    alpha: Annotated[float, Field(ge=0, le=1)]
    """Part α of the loss that is compensated."""
    reference: Decibels | None = None
    """Mean SNR at full power at which, and below which, a user sends at full power; by default the least of all users
    at the start."""

    @property
    def can_withhold(self) -> bool:
        return False

    def fitted(self, mean_snr_db: Floats) -> Self:
        if self.reference is not None:
            return self
        return self.model_copy(update={"reference": float(np.min(mean_snr_db))})

    def power_db(self, links: SenderLinks) -> Floats:
        assert self.reference is not None
        return self.alpha * (self.reference - links.mean_snr_db)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the power follows from the path loss and the shadowing, and nothing is drawn"),)
