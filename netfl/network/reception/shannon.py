"""Reception up to the capacity of the channel."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.network.reception import PACKET_BITS, Reception
from netfl.network.reception._fading_laws import rayleigh_outage
from netfl.types import Law
from netfl.units import Bitrate, db_to_linear


class Shannon(Reception):
    """A sender at a fixed rate R is received when the capacity of its channel is at least R, else there is outage.

    C = B log2(1 + snr) ≥ R, that is snr ≥ 2^(R/B) - 1, for a bandwidth B: the best that any code could do, for
    messages long enough.  Where fading changes the SNR during a message, C is the mean over its parts, each by its
    share of the time: Σ share_i B log2(1 + snr_i) ≥ R.  C. E. Shannon, "A mathematical theory of communication", 1948;
    outage capacity: Tse and Viswanath, "Fundamentals of Wireless Communication", §5.4; of several blocks: L. H. Ozarow,
    S. Shamai and A. D. Wyner, "Information theoretic considerations for cellular mobile radio", IEEE Trans. Veh.
    Technol. 43(2), 1994.

    Example::

        kind: shannon
        rate: 1 Mbps
    """

    rate: Annotated[Bitrate, Field(gt=0)]
    """R, bits that a sender puts on the air each second."""

    def rate_bps(self, bandwidth_hz: float, mode: int = 0) -> float:
        """As stated."""
        return self.rate

    def success(
        self, sinr_db: NDArray[np.float64], bandwidth_hz: float, bits: float, mode: int = 0
    ) -> NDArray[np.float64]:
        """1 where the capacity is enough, 0 elsewhere."""
        return np.asarray(np.asarray(sinr_db) >= self.threshold_db(bandwidth_hz), float)

    def follows_fading(self, mode: int = 0) -> bool:
        """It does."""
        return True

    def success_over(
        self,
        sinr_db: NDArray[np.float64],
        shares: NDArray[np.float64],
        bandwidth_hz: float,
        bits: float,
        mode: int = 0,
    ) -> NDArray[np.float64]:
        """1 where the mean of the capacity over the parts is enough, 0 elsewhere."""
        nats = np.log1p(db_to_linear(sinr_db)) @ shares
        return np.asarray(nats * bandwidth_hz >= self.rate * math.log(2.0), float)

    def threshold_db(self, bandwidth_hz: float, bits: float = PACKET_BITS) -> float:
        """10 log10(2^(R/B) - 1), in a form that neither overflows nor cancels."""
        nats = self.rate / bandwidth_hz * math.log(2.0)
        return 10.0 / math.log(10.0) * (nats + math.log(-math.expm1(-nats)))

    def laws(self) -> tuple[Law, ...]:
        """Outage under Rayleigh fading, at one bit per second and hertz, where the least SNR is 1."""
        return (rayleigh_outage(self, self.rate, 1.0),)
