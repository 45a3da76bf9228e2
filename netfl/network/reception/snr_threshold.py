"""Reception above a stated signal-to-noise ratio."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.network.reception import PACKET_BITS, Reception
from netfl.network.reception._fading_laws import rayleigh_outage
from netfl.types import Law
from netfl.units import Bitrate, Decibels


class SnrThreshold(Reception):
    """Everything at or above a stated SNR is received, nothing below.

    The model of a radio with one modulation and a strong code, whose error rate falls from 1 to 0 within a dB or so;
    the threshold and the rate are those of its data sheet, at the bandwidth of the scenario's radio.

    Example::

        kind: snr_threshold
        threshold: -7.5 dB
        rate: 5.5 kbps
    """

    threshold: Decibels
    """The least SNR that is received."""
    rate: Annotated[Bitrate, Field(gt=0)]
    """Bits that a sender puts on the air each second."""

    def rate_bps(self, bandwidth_hz: float, mode: int = 0) -> float:
        """As stated."""
        return self.rate

    def success(
        self, sinr_db: NDArray[np.float64], bandwidth_hz: float, bits: float, mode: int = 0
    ) -> NDArray[np.float64]:
        """1 from the threshold on, 0 below."""
        return np.asarray(np.asarray(sinr_db) >= self.threshold, float)

    def threshold_db(self, bandwidth_hz: float, bits: float = PACKET_BITS) -> float:
        """As stated."""
        return self.threshold

    def laws(self) -> tuple[Law, ...]:
        """Outage under Rayleigh fading."""
        return (rayleigh_outage(self, self.rate, 10.0 ** (self.threshold / 10.0)),)
