'''Reception family: bit rate of a sender, and the probability that its frames are received.

The network asks a model three questions: the rate of a sender (`Reception.rate_bps`), the mode that a sender picks from
the SNR it expects (`Reception.choose`), and the probability of reception at a given SINR (`Reception.success`).  The
network draws one uniform number for each frame and compares it with that probability.

To add a model, write a file in this package, or a class in your own package, that derives from `Reception`.  A
complete one::

    class Logistic(Reception):
        """Reception with probability 1 / (1 + exp((m - s) / 1 dB)) at an SINR of s dB.

        Example::

            kind: mylab.logistic:Logistic
            middle: 5 dB
            rate: 50 kbps
        """

        middle: Decibels
        """m, the SINR at which half of the frames are received."""
        rate: Annotated[Bitrate, Field(gt=0)]
        """Bit rate of a sender."""

        def rate_bps(self, bandwidth_hz, mode=0):
            return self.rate

        def success(self, sinr_db, bandwidth_hz, bits, mode=0):
            return 1 / (1 + np.exp(np.clip(self.middle - sinr_db, -700, 700)))

        def laws(self):
            return (Law.none("no closed form under fading"),)

Optional parts: several modes (`Reception.modes`, `Reception.choose`), a formula for an SINR that changes during a frame
(`Reception.success_over`), modes that reject each other better than noise (`Reception.min_sir_db`), and a rate that
follows the SNR without modes (`Reception.follows_snr`).  Modes may be in any order: a broadcast uses the
`Reception.most_robust_mode`, whatever its number.

A sender that has a share of the band to itself, as in `fdma`, uses the same modes: it has the share of their rates, and
the noise in the share.  A model is asked with the bandwidth of the radio, and with the SNR in the share.
'''

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netfl.core.kinds import exported_models
from netfl.core.spec import Spec
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints, Law
from netfl.units import db_to_linear

PACKET_BITS = 12_000.0
"""Default size of a transmission in bits: 1500 bytes."""
NEGLIGIBLE = 1e-9
"""Probability of reception that counts as zero."""
_NEARLY_ALL = 0.95
"""Share of received frames at which a rate is compared with the capacity."""
_SEARCH_DB = (-300.0, 300.0)
_HALVINGS = 80
_LAW_MARGIN_DB = 3.0
"""Mean SNR of `rayleigh_fades` over the threshold."""


@dataclass(frozen=True, slots=True)
class FadedFrames:
    """Frames whose SINR changes while they are on the air.

    Args:
        sinr_db: SINR of each frame in each block of time, in dB, ``[n, blocks]``.
        shares: fraction of the airtime in each block, ``[blocks]``; they add up to 1.
    """

    sinr_db: Floats
    shares: Floats
    bandwidth_hz: float
    bits: float
    mode: int = 0
    rate_bps: Floats | None = None
    """Bit rate of each frame, ``[n]``, of a reception whose rate follows the SNR; ``None`` with modes."""


class Reception(Spec):
    """Base class of reception models.

    The modes of a model, such as the rows of a modulation and coding table, have the numbers 0 … ``modes - 1``, in any
    order.  Most models have one mode.
    """

    is_analogue: ClassVar[bool] = False
    """True if signals are analogue, and nothing is decoded: for sums in the air."""

    @abstractmethod
    def rate_bps(self, bandwidth_hz: float, mode: int = 0) -> float:
        """Return the bit rate of a sender in *mode*."""

    @abstractmethod
    def success(self, sinr_db: Floats, bandwidth_hz: float, bits: float, mode: int = 0) -> Floats:
        """Return the probability that each frame is received, ``[n]``; it increases with the SINR.

        Args:
            sinr_db: signal over interference and noise of each frame, in dB, ``[n]``.
            bandwidth_hz: bandwidth of the radio.
            bits: size of each frame.
            mode: mode of the frames.
        """

    def can_follow_fading(self, mode: int = 0) -> bool:
        """Return whether `success_over` supports frames in *mode*; by default, if the model defines it.

        If not, the SINR at the start decides.  That is valid for frames short against the coherence time; the network
        warns about longer ones.
        """
        return type(self).success_over is not Reception.success_over

    def success_over(self, frames: FadedFrames) -> Floats:
        """Return the probability that each of *frames* is received, ``[n]``; called only if `can_follow_fading`."""
        raise NotImplementedError(f"{type(self).__name__} judges by the SINR at the start")

    @property
    def follows_snr(self) -> bool:
        """True if senders have no modes: each sets its bit rate by the SNR that it expects, `expected_rate_bps`.

        `success_over` then judges all frames, by `FadedFrames.rate_bps`, and frames have no longest airtime.
        """
        return False

    def expected_rate_bps(self, snr_db: Floats, bandwidth_hz: float) -> Floats:
        """Return the bit rate that each sender sets at its expected SNR, ``[n]``; called only if `follows_snr`."""
        raise NotImplementedError(f"{type(self).__name__} has modes")

    @property
    def averages_fading(self) -> bool:
        """True if it takes the mean over the fading within a frame, which channels then do not have."""
        return False

    @property
    def snr_gap_db(self) -> float:
        """SNR that its codes need above Shannon's limit, in dB, from which a tower that divides the band estimates."""
        return 0.0

    @property
    def modes(self) -> int:
        """Number of modes."""
        return 1

    def mode_name(self, mode: int = 0) -> str:
        """Return the name of a mode in tables, such as ``SF7``; by default modes have none."""
        return ""

    @property
    def min_sir_db(self) -> Floats | None:
        """Minimum signal-to-interference ratio for each pair of modes, in dB, ``[modes, modes]``.

        Row: the mode of the frame.  Column: the mode of the interfering frames, whose powers add up.  A frame is
        received if it reaches the ratio for each interfering mode, and is received over the noise alone.  ``None``:
        interference of any mode acts as noise.
        """
        return None

    def choose(self, snr_db: Floats, bandwidth_hz: float) -> Ints:
        """Return the mode that each sender picks at its expected SNR, ``[n]``."""
        return np.zeros(len(snr_db), np.int64)

    def capacity_bps(self, bandwidth_hz: float, mode: int = 0) -> float:
        """Return the capacity at the lowest SNR at which nearly all long frames in *mode* are received.

        C = B log2(1 + SNR) bounds the rate of any code for long frames, here of `PACKET_BITS` (Shannon 1948).
        Infinity for a mode that is received at any SNR, or at none.
        """
        snr_db = minimum_snr_db(lambda snr_db: self.success(snr_db, bandwidth_hz, PACKET_BITS, mode), _NEARLY_ALL)
        if math.isinf(snr_db):
            return math.inf
        return bandwidth_hz * math.log1p(float(db_to_linear(snr_db))) / math.log(2.0)

    def most_robust_mode(self, bandwidth_hz: float, bits: float = PACKET_BITS) -> int:
        """Return the mode that needs the lowest SNR to receive *bits* with probability 1/2; of equals the fastest."""

        def rank(mode: int) -> tuple[float, float]:
            return self._median_snr_db(bandwidth_hz, bits, mode), -self.rate_bps(bandwidth_hz, mode)

        return min(range(self.modes), key=rank)

    def _median_snr_db(self, bandwidth_hz: float, bits: float, mode: int) -> float:
        """Return the SNR at which *bits* are received with probability 1/2 in *mode*."""
        return minimum_snr_db(lambda snr_db: self.success(snr_db, bandwidth_hz, bits, mode), 0.5)

    def threshold_db(self, bandwidth_hz: float, bits: float = PACKET_BITS) -> float:
        """Return the minimum SNR, in dB, at which *bits* are received with probability `NEGLIGIBLE` in some mode.

        Minus infinity if so few bits get through by chance at any SNR.
        """

        def mode_threshold_db(mode: int) -> float:
            return minimum_snr_db(lambda snr_db: self.success(snr_db, bandwidth_hz, bits, mode), NEGLIGIBLE)

        return min(map(mode_threshold_db, range(self.modes)))

    def is_received(self, snr_db: Floats, bandwidth_hz: float, bits: float = PACKET_BITS) -> Bools:
        """Return whether each frame in the most robust mode, without interference, is likely received, ``[n]``."""
        mode = self.most_robust_mode(bandwidth_hz, bits)
        return np.asarray(self.success(snr_db, bandwidth_hz, bits, mode) >= 0.5)


def minimum_snr_db(success: Callable[[Floats], Floats], probability: float) -> float:
    """Return the minimum SNR in dB at which *success*, which increases with the SNR, reaches *probability*.

    Bisection between -300 and 300 dB.  The result is minus infinity if the lower end suffices, and infinity if the
    upper end does not.

    >>> round(minimum_snr_db(lambda snr_db: 10 ** (snr_db / 10), 100.0), 9)
    20.0
    """
    low_db, high_db = _SEARCH_DB
    suffices_at_low, suffices_at_high = success(np.array(_SEARCH_DB)) >= probability
    if suffices_at_low:
        return -np.inf
    if not suffices_at_high:
        return np.inf
    for _ in range(_HALVINGS):
        middle_db = 0.5 * (low_db + high_db)
        if success(np.array([middle_db]))[0] >= probability:
            high_db = middle_db
        else:
            low_db = middle_db
    return high_db


def rayleigh_fades(model: Reception, bandwidth_hz: float, min_snr: float) -> Law:
    """Return the claim of 1 - exp(-threshold / mean SNR) failed receptions under Rayleigh fading.

    Args:
        model: the reception model.
        bandwidth_hz: the bandwidth to draw at.
        min_snr: the minimum SNR for reception, linear, from the model's formula.
    """
    mean_snr = min_snr * 10.0 ** (_LAW_MARGIN_DB / 10.0)
    fades = -math.expm1(-min_snr / mean_snr)

    def draw(streams: Streams, size: int) -> Floats:
        snr = mean_snr * streams.field("gain").exponential(np.arange(size))
        return np.asarray(~model.is_received(10.0 * np.log10(snr), bandwidth_hz), float)

    return Law(
        "failed receptions (0 or 1)",
        "under Rayleigh fading of mean SNR s̄ a frame fades with probability 1 - exp(-threshold / s̄); "
        f"drawn at {_LAW_MARGIN_DB:g} dB above the threshold",
        draw=draw,
        mean=fades,
        variance=fades * (1.0 - fades),
    )


__getattr__ = exported_models(__name__)
