"""The reception family: how fast bits are sent, and how likely a transmission is received.

A model is asked three things: at which rate a sender sends (`Reception.rate_bps`), which of several rates it takes
(`Reception.choose`, by the SNR that it expects), and how likely it gets through (`Reception.success`, by the ratio of
signal to interference and noise that it met).  Whoever asks draws one uniform number for each transmission.  A model
that has a law for an SINR that changes during a transmission also has `Reception.success_over`.

To write one: a file in this package, or a class in a package of your own, that derives from `Reception` and has at
least `rate_bps` and `success`.  One whose modes reject each other better than noise states `Reception.least_sir_db`.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from netfl.network.reception._search import minimum_snr_db
from netfl.registry import Spec

PACKET_BITS = 12_000.0
"""Bits of a transmission whose size nobody states: 1500 bytes."""
NEGLIGIBLE = 1e-9
"""Probability below which nothing is received."""


class Reception(Spec):
    """The contract of a reception model.

    Its modes, such as the rates of a modulation and coding table, are numbered 0 … ``modes - 1``; most models have one.
    """

    @abstractmethod
    def rate_bps(self, bandwidth_hz: float, mode: int = 0) -> float:
        """Bits that a sender in *mode* puts on the air each second."""

    @abstractmethod
    def success(
        self, sinr_db: NDArray[np.float64], bandwidth_hz: float, bits: float, mode: int = 0
    ) -> NDArray[np.float64]:
        """The probability that a transmission of *bits* in *mode* is received, ``[n]``; it grows with the SINR.

        Args:
            sinr_db: signal over interference and noise of each transmission, in dB, ``[n]``.
            bandwidth_hz: bandwidth of the radio.
            bits: size of a transmission.
            mode: the mode of all of them.
        """

    def follows_fading(self, mode: int = 0) -> bool:
        """Whether `success_over` has a law for transmissions in *mode* whose SINR changes meanwhile.

        The others are judged by the SINR at their start, which holds for those that are short against the coherence
        time; a longer one is worth a warning.
        """
        return False

    def success_over(
        self,
        sinr_db: NDArray[np.float64],
        shares: NDArray[np.float64],
        bandwidth_hz: float,
        bits: float,
        mode: int = 0,
    ) -> NDArray[np.float64]:
        """Return the probability that a transmission is received whose SINR changes on its way, ``[n]``.

        Asked only where `follows_fading`.

        Args:
            sinr_db: signal over interference and noise in each part of each transmission, in dB, ``[n, parts]``.
            shares: the share of the time that each part takes, ``[parts]``, adding up to 1.
            bandwidth_hz: as in `success`.
            bits: as in `success`.
            mode: as in `success`.
        """
        raise NotImplementedError(f"{type(self).__name__} judges by the SINR at the start")

    @property
    def modes(self) -> int:
        """How many modes there are."""
        return 1

    @property
    def least_sir_db(self) -> NDArray[np.float64] | None:
        """The least ratio of signal to interference for each pair of modes, in dB, ``[modes, modes]``.

        Row: the mode of the frame.  Column: the mode of the frames that disturb it, whose powers add up.  A frame that
        meets others must reach the ratio for each of their modes, and be received over the noise alone.  ``None``:
        interference acts as noise does, whatever its mode.
        """
        return None

    def choose(self, snr_db: NDArray[np.float64], bandwidth_hz: float) -> NDArray[np.int64]:
        """The mode that each sender takes which expects this SNR, ``[n]``."""
        return np.zeros(len(snr_db), np.int64)

    def threshold_db(self, bandwidth_hz: float, bits: float = PACKET_BITS) -> float:
        """The least SNR, in dB, at which *bits* are received with more than a `NEGLIGIBLE` probability in any mode.

        Minus infinity where so few bits get through by luck alone.
        """

        def least(mode: int) -> float:
            return minimum_snr_db(lambda snr_db: self.success(snr_db, bandwidth_hz, bits, mode), NEGLIGIBLE)

        return min(map(least, range(self.modes)))

    def received(
        self, snr_db: NDArray[np.float64], bandwidth_hz: float, bits: float = PACKET_BITS
    ) -> NDArray[np.bool_]:
        """Whether each transmission in the first mode, alone on the air, is more likely received than not, ``[n]``."""
        return np.asarray(self.success(snr_db, bandwidth_hz, bits) >= 0.5)
