"""Reception by the waterfall bound on packet errors."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from netfl.network.reception import PACKET_BITS, FadedFrames, Reception
from netfl.streams import Streams
from netfl.types import Floats, Law
from netfl.units import Bitrate, Decibels, db_to_linear

_MAX_DB = 300.0
"""Signals this much weaker or stronger than noise do not differ."""
_MAX_EXPONENT = 500.0
"""Exponent up to which E_1 is far from the smallest float."""
_LAW_MARGIN_DB = 10.0
"""Mean SNR of the law over the waterfall threshold."""


class Waterfall(Reception):
    """Waterfall threshold: a frame is lost with probability q = 1 - exp(-m / sinr).

    sinr = P h / (I + B N_0) is a ratio of powers: of the received signal to interference and noise in the band B of the
    frame.  m, the waterfall threshold, is given in dB and used as a ratio, 10^(m / 10).  A frame is lost with the
    probability q of its own SINR; if fading changes the SINR during a frame, q is the mean over its parts, weighted by
    time.  Over many frames the losses are therefore E[1 - exp(-m (I + B N_0) / (P h))], where the mean is over the
    fading and the interference of the scenario's channels.  Under Rayleigh fading of mean SNR s̄, and without
    interference, it is 1 - z K_1(z) with z = 2 √(m / s̄), where K_1 is a modified Bessel function.

    q at the mean SNR is already the mean loss of a code with the threshold m under Rayleigh fading (Xi et al.).  With
    fading as well, the losses are larger than those of such a code: this is the model of Chen et al.  Leave fading out
    for the first meaning.

    With ``rate``, all senders have this rate.  Without it, each sender sets the capacity B log2(1 + snr) at the SNR
    that it expects: that at the start of its frame, without interference from other frames.

    With ``fading: rayleigh`` the gains of ``channel`` are mean gains, and every frame spans many fades: it is lost with
    the mean probability 1 - z K_1(z), and without ``rate`` its rate is the ergodic capacity
    B E[log2(1 + s̄ x)] = B e^a E_1(a) / ln 2 with a = 1 / s̄, where the gain x is exponential with mean 1.  Senders and
    towers then know the mean of the SNR and nothing of the fades, as in Chen et al.

    M. Chen, Z. Yang, W. Saad, C. Yin, H. V. Poor and S. Cui, "A joint learning and communications framework for
    federated learning over wireless networks", IEEE Trans. Wireless Commun. 20(1), 2021, eq. (8); the bound: Y. Xi,
    A. Burr, J. Wei and D. Grace, "A general upper bound to evaluate packet error rate over quasi-static fading
    channels", IEEE Trans. Wireless Commun. 10(5), 2011.

    Example::

        kind: waterfall
        threshold: 0.023 dB
        rate: 1 Mbps
    """

    threshold: Decibels
    """m, the SINR at which a frame is lost with probability 1 - 1/e = 0.63."""
    rate: Annotated[Bitrate, Field(gt=0)] | None = None
    """Bit rate of a sender that has the whole band; ``null``: the capacity at its expected SNR."""
    fading: Literal["channel", "rayleigh"] = "channel"
    """Fading of a frame: that of ``channel``, or the mean over Rayleigh fading, which ``channel`` then leaves out."""

    @property
    def follows_snr(self) -> bool:
        return self.rate is None

    @property
    def averages_fading(self) -> bool:
        return self.fading == "rayleigh"

    def rate_bps(self, bandwidth_hz: float, mode: int = 0) -> float:
        if self.rate is None:
            raise NotImplementedError("waterfall without rate has no fixed rate: expected_rate_bps returns it")
        return self.rate

    def expected_rate_bps(self, snr_db: Floats, bandwidth_hz: float) -> Floats:
        snr = db_to_linear(np.clip(snr_db, -_MAX_DB, _MAX_DB))
        if self.fading == "rayleigh":
            return np.asarray(bandwidth_hz / math.log(2.0) * _scaled_integral(1.0 / snr))
        return np.asarray(bandwidth_hz / math.log(2.0) * np.log1p(snr))

    def success(self, sinr_db: Floats, bandwidth_hz: float, bits: float, mode: int = 0) -> Floats:
        """Return exp(-m / sinr), or its mean z K_1(z) with z = 2 √(m / s̄) under Rayleigh fading of mean SINR s̄."""
        sinr_db = np.clip(sinr_db, -_MAX_DB, _MAX_DB)
        inverse = db_to_linear(self.threshold - sinr_db)  # m / sinr
        if self.fading == "rayleigh":
            return _mean_success(inverse)
        return np.exp(-inverse)

    def success_over(self, frames: FadedFrames) -> Floats:
        """Return Σ share_i (1 - q_i), where q_i is the loss at sinr_i."""
        parts = self.success(frames.sinr_db, frames.bandwidth_hz, frames.bits)
        return np.asarray(parts @ frames.shares)

    def laws(self) -> tuple[Law, ...]:
        """Claim the losses under Rayleigh fading, q = 1 - z K_1(z) with z = 2 √(m / s̄).

        With the gain x of mean 1, E[exp(-a / x)] = ∫ exp(-a / x - x) dx = 2 √a K_1(2 √a), where a = m / s̄.
        """
        inverse = db_to_linear(np.array([-_LAW_MARGIN_DB]))  # m / s̄
        lost = 1.0 - float(_mean_success(inverse)[0])

        def draw(streams: Streams, size: int) -> Floats:
            frames = np.arange(size)
            gain_db = np.zeros(size)
            if self.fading == "channel":
                gain_db = 10.0 * np.log10(streams.field("gain").exponential(frames))
            success = self.success(self.threshold + _LAW_MARGIN_DB + gain_db, 1.0, PACKET_BITS)
            return np.asarray(streams.field("reception").uniform(frames) >= success, float)

        return (
            Law(
                "lost frames (0 or 1)",
                "under Rayleigh fading of mean SNR s̄ a frame is lost with probability 1 - z K_1(z), z = 2 √(m / s̄); "
                f"drawn at {_LAW_MARGIN_DB:g} dB above the threshold",
                draw=draw,
                mean=lost,
                variance=lost * (1.0 - lost),
            ),
        )


def _mean_success(inverse: Floats) -> Floats:
    """Return z K_1(z) with z = 2 √(m / s̄), the mean of exp(-m / sinr) under Rayleigh fading; *inverse* is m / s̄."""
    from scipy import special

    z = 2.0 * np.sqrt(inverse)
    return np.asarray(z * special.k1(z))


def _scaled_integral(a: Floats) -> Floats:
    """Return e^a E_1(a); for large a as U(1, 1, a), which does not overflow but takes longer."""
    from scipy import special

    near = np.minimum(a, _MAX_EXPONENT)
    values = np.exp(near) * special.exp1(near)
    is_far = a > _MAX_EXPONENT
    if is_far.any():
        values = np.where(is_far, special.hyperu(1.0, 1.0, a), values)
    return np.asarray(values)
