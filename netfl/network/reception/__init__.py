"""The reception family: which signal-to-noise ratio is enough, and at which rate bits are sent."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from netfl.registry import Spec


class Reception(Spec):
    """The contract of a reception model."""

    @abstractmethod
    def rate_bps(self, bandwidth_hz: float) -> float:
        """Bits that a sender puts on the air each second."""

    @abstractmethod
    def threshold_db(self, bandwidth_hz: float) -> float:
        """The least SNR, in dB, at which anything can be received."""

    def received(self, snr_db: NDArray[np.float64], bandwidth_hz: float) -> NDArray[np.bool_]:
        """Whether each transmission, alone on the air at *snr_db*, is received, ``[n]``."""
        return np.asarray(snr_db >= self.threshold_db(bandwidth_hz))
