"""Reception of LoRa: six spreading factors, each with its rate and its least SNR."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.network.reception import PACKET_BITS, Reception
from netfl.network.reception._fading_laws import rayleigh_outage
from netfl.types import Law
from netfl.units import Decibels

FACTORS = np.arange(7, 13)
"""The spreading factors of modes 0 to 5."""
LEAST_DB = np.array([-7.5, -10.0, -12.5, -15.0, -17.5, -20.0])
"""The least SNR of each."""
LEAST_SIR_DB = np.array(
    [
        [1, -8, -9, -9, -9, -9],
        [-11, 1, -11, -12, -13, -13],
        [-15, -13, 1, -13, -14, -15],
        [-19, -18, -17, 1, -17, -18],
        [-22, -22, -21, -20, 1, -20],
        [-25, -25, -25, -24, -23, 1],
    ],
    float,
)
"""The least ratio of signal to interference: a row for each spreading factor, a column for each that disturbs it."""
_LAW_HZ = 125e3


class Lora(Reception):
    """LoRa with spreading factors 7 to 12, which are its modes 0 to 5: received from a least SNR on, not below.

    Least SNR of SF 7 to 12: -7.5, -10, -12.5, -15, -17.5 and -20 dB; at 125 kHz and 4/5 they carry 5469, 3125, 1758,
    977, 537 and 293 bit/s.

    The SNR is that in the bandwidth B of the scenario's radio, 125, 250 or 500 kHz; the rate of the payload is
    SF · B / 2^SF times the code rate (Semtech, SX1276 data sheet, table 13 and §4.1.1).  Preamble, header and rounding
    to whole symbols are added by `lorawan`, which sets the mode; with any other MAC each sender takes the fastest whose
    least SNR is met by what it expects, less a margin, and the slowest if none is.

    **Interference.**  With ``interference: sinr`` a frame that meets others is received if it has its least SNR, and if
    its power exceeds the summed power of those with each spreading factor, at every moment, by a threshold for that
    pair.  For the same spreading factor it is 1 dB: of equal powers none is received.  For different ones it is, in dB:
    SF7 among SF8 to 12, -8, -9, -9, -9, -9; SF8 among SF7, 9, 10, 11, 12, -11, -11, -12, -13, -13; SF9 among SF7, 8,
    10, 11, 12, -15, -13, -13, -14, -15; SF10 among SF7, 8, 9, 11, 12, -19, -18, -17, -17, -18; SF11 among SF7, 8, 9,
    10, 12, -22, -22, -21, -20, -20; SF12 among SF7 to 11, -25, -25, -25, -24, -23 (D. Croce, M. Gucciardo, S. Mangione,
    G. Santaromita and I. Tinnirello, "Impact of LoRa imperfect orthogonality: analysis of link-level performance", IEEE
    Communications Letters 22(4), 2018, 796-799).  `lorawan` lets different spreading factors meet only with
    ``orthogonal: false``.

    Example::

        kind: lora
        code_rate: 4/5
    """

    code_rate: Literal["4/5", "4/6", "4/7", "4/8"] = "4/5"
    """Information bits over bits sent."""
    margin: Annotated[Decibels, Field(ge=0)] = 0.0
    """How far below the expected SNR a mode that a sender takes must still do."""

    @property
    def modes(self) -> int:
        """Six."""
        return len(FACTORS)

    def rate_bps(self, bandwidth_hz: float, mode: int = 0) -> float:
        """SF · B / 2^SF · code rate."""
        factor = int(FACTORS[mode])
        return float(factor * bandwidth_hz / 2**factor * 4.0 / int(self.code_rate[2]))

    def success(
        self, sinr_db: NDArray[np.float64], bandwidth_hz: float, bits: float, mode: int = 0
    ) -> NDArray[np.float64]:
        """1 from the least SNR of the mode on, 0 below."""
        return np.asarray(np.asarray(sinr_db) >= LEAST_DB[mode], float)

    @property
    def least_sir_db(self) -> NDArray[np.float64]:
        """The thresholds of Croce et al."""
        return LEAST_SIR_DB

    def choose(self, snr_db: NDArray[np.float64], bandwidth_hz: float) -> NDArray[np.int64]:
        """The fastest mode that would do; the slowest if none would."""
        return fastest_mode(np.asarray(snr_db) - self.margin)

    def threshold_db(self, bandwidth_hz: float, bits: float = PACKET_BITS) -> float:
        """That of the slowest mode."""
        return float(LEAST_DB.min())

    def laws(self) -> tuple[Law, ...]:
        """Outage of spreading factor 7 under Rayleigh fading."""
        return (rayleigh_outage(self, _LAW_HZ, 10.0 ** (float(LEAST_DB[0]) / 10.0)),)


def fastest_mode(snr_db: NDArray[np.float64]) -> NDArray[np.int64]:
    """The fastest mode that is received at each SNR; the slowest where none is.

    >>> fastest_mode(np.array([0.0, -7.5, -7.6, -30.0])).tolist()
    [0, 0, 1, 5]
    """
    return np.asarray(np.minimum(np.count_nonzero(snr_db[:, None] < LEAST_DB, axis=1), len(LEAST_DB) - 1))
