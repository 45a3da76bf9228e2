"""Reception above a signal-to-noise threshold."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.network.reception import PACKET_BITS, Reception, rayleigh_fades
from netfl.types import Floats, Law
from netfl.units import Bitrate, Decibels


class SnrThreshold(Reception):
    """SNR threshold: frames at or above the threshold are received, frames below are lost.

    Models a radio with one modulation and a strong code, whose error rate falls from 1 to 0 within about 1 dB.  Take
    threshold and rate from its data sheet, at the bandwidth of the scenario's radio.

    Example::

        kind: snr_threshold
        threshold: -7.5 dB
        rate: 5.5 kbps
    """

    threshold: Decibels
    """Minimum SNR for reception."""
    rate: Annotated[Bitrate, Field(gt=0)]
    """Bit rate of a sender."""

    def rate_bps(self, bandwidth_hz: float, mode: int = 0) -> float:
        return self.rate

    def success(self, sinr_db: Floats, bandwidth_hz: float, bits: float, mode: int = 0) -> Floats:
        return np.asarray(np.asarray(sinr_db) >= self.threshold, float)

    def threshold_db(self, bandwidth_hz: float, bits: float = PACKET_BITS) -> float:
        return self.threshold

    def laws(self) -> tuple[Law, ...]:
        return (rayleigh_fades(self, self.rate, 10.0 ** (self.threshold / 10.0)),)
