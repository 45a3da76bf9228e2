"""Reception up to the Shannon capacity of the channel."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.network.reception import PACKET_BITS, FadedFrames, Reception, rayleigh_fades
from netfl.types import Floats, Law
from netfl.units import Bitrate, db_to_linear


class Shannon(Reception):
    """Shannon capacity with outage: a sender at a fixed rate R is received if the capacity is at least R.

    C = B log2(1 + snr) ≥ R, that is snr ≥ 2^(R/B) - 1, for a bandwidth B: the limit of any code, for long messages.
    If fading changes the SNR during a message, C is the mean over its parts, weighted by time:
    Σ share_i B log2(1 + snr_i) ≥ R.  C. E. Shannon, "A mathematical theory of communication", 1948;
    outage capacity: Tse and Viswanath, "Fundamentals of Wireless Communication", §5.4; of several blocks: L. H. Ozarow,
    S. Shamai and A. D. Wyner, "Information theoretic considerations for cellular mobile radio", IEEE Trans. Veh.
    Technol. 43(2), 1994.

    Example::

        kind: shannon
        rate: 1 Mbps
    """

    rate: Annotated[Bitrate, Field(gt=0)]
    """R, the bit rate of a sender."""

    def rate_bps(self, bandwidth_hz: float, mode: int = 0) -> float:
        return self.rate

    def success(self, sinr_db: Floats, bandwidth_hz: float, bits: float, mode: int = 0) -> Floats:
        return np.asarray(np.asarray(sinr_db) >= self.threshold_db(bandwidth_hz), float)

    def success_over(self, frames: FadedFrames) -> Floats:
        nats = np.log1p(db_to_linear(frames.sinr_db)) @ frames.shares  # Σ share_i ln(1 + snr_i) ≥ R / B · ln 2
        return np.asarray(nats * frames.bandwidth_hz >= self.rate * math.log(2.0), float)

    def threshold_db(self, bandwidth_hz: float, bits: float = PACKET_BITS) -> float:
        """Return 10 log10(2^(R/B) - 1), in a form without overflow or cancellation."""
        nats = self.rate / bandwidth_hz * math.log(2.0)
        return 10.0 / math.log(10.0) * (nats + math.log(-math.expm1(-nats)))

    def laws(self) -> tuple[Law, ...]:
        """Claim the fades under Rayleigh fading at 1 bit/s/Hz, where the minimum SNR is 1."""
        return (rayleigh_fades(self, self.rate, 1.0),)
