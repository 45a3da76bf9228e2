"""Reception up to the Shannon capacity of the channel."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.network.reception import PACKET_BITS, FadedFrames, Reception, rayleigh_fades
from netfl.streams import Streams
from netfl.types import Floats, Law
from netfl.units import Bitrate, Decibels, db_to_linear

_MIN_SNR_DB = -300.0
"""SNR of a sender that expects less, so that its airtime is finite."""
_ROUNDING = 1e-9
"""Relative difference of a rate and the capacity that counts as none."""
_LAW_MEAN_DB = 10.0


class Shannon(Reception):
    """Shannon capacity: a frame of rate R is received if the capacity is at least R.

    C = B log2(1 + snr / Γ) ≥ R, that is snr ≥ Γ (2^(R/B) - 1), for a bandwidth B.  With the gap Γ = 1, 0 dB, this is
    the limit of any code, for long messages; a practical code needs Γ times the SNR.
    If fading changes the SNR during a message, C is the mean over its parts, weighted by time:
    Σ share_i B log2(1 + snr_i / Γ) ≥ R.

    With ``rate``, all senders have the rate R, and fades below the minimum SNR are outages.  Without it, each sender
    sets R = C at the SNR that it expects: that at the start of its frame, without interference.  Its frame is then
    received unless the SNR falls during the frame, or interference adds to the noise.  A version that a tower sends to
    several users at once has the rate of the one with the lowest SNR.

    C. E. Shannon, "A mathematical theory of communication", 1948;
    outage capacity: Tse and Viswanath, "Fundamentals of Wireless Communication", §5.4; of several blocks: L. H. Ozarow,
    S. Shamai and A. D. Wyner, "Information theoretic considerations for cellular mobile radio", IEEE Trans. Veh.
    Technol. 43(2), 1994; the gap: J. M. Cioffi, G. P. Dudevoir, M. V. Eyuboglu and G. D. Forney, "MMSE
    decision-feedback equalizers and coding", IEEE Trans. Commun. 43(10), 1995.

    Example::

        kind: shannon
        rate: 1 Mbps
    """

    rate: Annotated[Bitrate, Field(gt=0)] | None = None
    """R, the bit rate of a sender that has the whole band; ``null``: the capacity at its expected SNR."""
    gap: Annotated[Decibels, Field(ge=0)] = 0.0
    """Γ, by which a code needs more SNR than the capacity states."""

    @property
    def follows_snr(self) -> bool:
        return self.rate is None

    @property
    def snr_gap_db(self) -> float:
        return self.gap

    def rate_bps(self, bandwidth_hz: float, mode: int = 0) -> float:
        if self.rate is None:
            raise NotImplementedError("shannon without rate has no fixed rate: expected_rate_bps returns it")
        return self.rate

    def expected_rate_bps(self, snr_db: Floats, bandwidth_hz: float) -> Floats:
        snr = db_to_linear(np.maximum(snr_db, _MIN_SNR_DB) - self.gap)
        return np.asarray(bandwidth_hz / math.log(2.0) * np.log1p(snr))

    def success(self, sinr_db: Floats, bandwidth_hz: float, bits: float, mode: int = 0) -> Floats:
        """Return 1 where C ≥ R; without ``rate`` everywhere, as the sender expects this SNR."""
        return np.asarray(np.asarray(sinr_db) >= self.threshold_db(bandwidth_hz), float)

    def success_over(self, frames: FadedFrames) -> Floats:
        snr = db_to_linear(frames.sinr_db - self.gap)
        nats = np.log1p(snr) @ frames.shares  # Σ share_i ln(1 + snr_i / Γ) ≥ R / B · ln 2
        if self.rate is not None:
            return np.asarray(nats * frames.bandwidth_hz >= self.rate * math.log(2.0), float)
        assert frames.rate_bps is not None
        needed = frames.rate_bps * math.log(2.0)
        return np.asarray(nats * frames.bandwidth_hz >= needed * (1.0 - _ROUNDING), float)

    def threshold_db(self, bandwidth_hz: float, bits: float = PACKET_BITS) -> float:
        """Return 10 log10(Γ (2^(R/B) - 1)), in a form without overflow or cancellation; without ``rate``, no limit."""
        if self.rate is None:
            return -math.inf
        nats = self.rate / bandwidth_hz * math.log(2.0)
        return self.gap + 10.0 / math.log(10.0) * (nats + math.log(-math.expm1(-nats)))

    def laws(self) -> tuple[Law, ...]:
        """Claim the fades under Rayleigh fading at 1 bit/s/Hz, where the minimum SNR is Γ, or the rates taken."""
        if self.rate is not None:
            return (rayleigh_fades(self, self.rate, float(db_to_linear(self.gap))),)
        return (self._ergodic_rate(),)

    def _ergodic_rate(self) -> Law:
        """Claim the spectral efficiency r = R / B of a sender under Rayleigh fading of mean SNR s̄, with a = Γ / s̄.

        P(r ≤ x) = 1 - exp(-a (2^x - 1)), and E[r] = exp(a) E1(a) / ln 2 (Tse and Viswanath, §5.4.5).
        """
        from scipy import special

        a = float(db_to_linear(self.gap - _LAW_MEAN_DB))

        def draw(streams: Streams, size: int) -> Floats:
            snr_db = _LAW_MEAN_DB + 10.0 * np.log10(streams.field("gain").exponential(np.arange(size)))
            return self.expected_rate_bps(snr_db, 1.0)

        return Law(
            "rate taken, bit/s/Hz",
            f"log2(1 + SNR / Γ) under Rayleigh fading of mean {_LAW_MEAN_DB:g} dB, which is known to the sender",
            draw=draw,
            mean=float(special.exp1(a) * math.exp(a) / math.log(2.0)),
            cdf=lambda rate: -np.expm1(-a * np.expm1(np.asarray(rate) * math.log(2.0))),
        )
