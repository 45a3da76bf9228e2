"""Reception of LoRa with six spreading factors."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from netfl.network.reception import PACKET_BITS, Reception, rayleigh_fades
from netfl.types import Floats, Ints, Law
from netfl.units import Decibels

FACTORS = np.arange(7, 13)
"""The spreading factors of modes 0 to 5."""
MIN_SNR_DB = np.array([-7.5, -10.0, -12.5, -15.0, -17.5, -20.0])
"""Minimum SNR of each mode, in dB."""
_MIN_SNR_DB: list[float] = MIN_SNR_DB.tolist()
MIN_SIR_DB = np.array(
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
"""Minimum signal-to-interference ratio in dB: a row for each mode, a column for each interfering mode."""
_LAW_HZ = 125e3


class Lora(Reception):
    """LoRa with spreading factors 7 to 12 as modes 0 to 5, each received from its minimum SNR.

    Minimum SNR of SF 7 to 12: -7.5, -10, -12.5, -15, -17.5 and -20 dB.  Their rates at 125 kHz and 4/5 are 5469, 3125,
    1758, 977, 537 and 293 bit/s.

    The SNR refers to the bandwidth B of the scenario's radio, 125, 250 or 500 kHz.  The rate of the payload is
    SF · B / 2^SF times the code rate (Semtech, SX1276 data sheet, table 13 and §4.1.1).  `lorawan` adds preamble,
    header and rounding to whole symbols, and sets the mode.  With any other MAC each sender picks the fastest mode
    whose minimum SNR is met by the expected SNR less a margin, or SF12 if there is none.

    **Interference.**  With ``interference: sinr`` a frame that overlaps others is received if it has its minimum SNR,
    and if its power exceeds the summed power of the frames of each spreading factor, at every moment, by a threshold
    for that pair.  For equal spreading factors it is 1 dB: of equal powers none is received.  For others it is, in dB:
    SF7 among SF8 to 12, -8, -9, -9, -9, -9; SF8 among SF7, 9, 10, 11, 12, -11, -11, -12, -13, -13; SF9 among SF7, 8,
    10, 11, 12, -15, -13, -13, -14, -15; SF10 among SF7, 8, 9, 11, 12, -19, -18, -17, -17, -18; SF11 among SF7, 8, 9,
    10, 12, -22, -22, -21, -20, -20; SF12 among SF7 to 11, -25, -25, -25, -24, -23 (D. Croce, M. Gucciardo, S. Mangione,
    G. Santaromita and I. Tinnirello, "Impact of LoRa imperfect orthogonality: analysis of link-level performance", IEEE
    Communications Letters 22(4), 2018, 796-799).  With `lorawan`, different spreading factors
    interfere only if ``orthogonal: false``.

    Example::

        kind: lora
        code_rate: 4/5
    """

    code_rate: Literal["4/5", "4/6", "4/7", "4/8"] = "4/5"
    """Information bits over transmitted bits."""
    margin: Annotated[Decibels, Field(ge=0)] = 0.0
    """Margin between the expected SNR and the minimum SNR of the mode that a sender picks."""

    @property
    def modes(self) -> int:
        return len(FACTORS)

    def rate_bps(self, bandwidth_hz: float, mode: int = 0) -> float:
        """Return SF · B / 2^SF times the code rate, 4/5 to 4/8."""
        factor = int(FACTORS[mode])
        return float(factor * bandwidth_hz / 2**factor * 4.0 / int(self.code_rate[2]))

    def mode_name(self, mode: int = 0) -> str:
        return f"SF{FACTORS[mode]}"

    def success(self, sinr_db: Floats, bandwidth_hz: float, bits: float, mode: int = 0) -> Floats:
        return np.asarray(np.asarray(sinr_db) >= MIN_SNR_DB[mode], float)

    @property
    def min_sir_db(self) -> Floats:
        return MIN_SIR_DB

    def choose(self, snr_db: Floats, bandwidth_hz: float) -> Ints:
        return fastest_mode(np.asarray(snr_db) - self.margin)

    def threshold_db(self, bandwidth_hz: float, bits: float = PACKET_BITS) -> float:
        return float(MIN_SNR_DB.min())

    def laws(self) -> tuple[Law, ...]:
        return (rayleigh_fades(self, _LAW_HZ, 10.0 ** (float(MIN_SNR_DB.min()) / 10.0)),)


def fastest_mode(snr_db: Floats) -> Ints:
    """Return the fastest mode that is received at each SNR, or the slowest if there is none.

    >>> fastest_mode(np.array([0.0, -7.5, -7.6, -30.0])).tolist()
    [0, 0, 1, 5]
    """
    slowest = len(MIN_SNR_DB) - 1
    unusable_modes = np.count_nonzero(snr_db[:, None] < MIN_SNR_DB, axis=1)  # the fastest ones, as they need most
    return np.asarray(np.minimum(unusable_modes, slowest))


def fastest_mode_of(snr_db: float) -> int:
    """Return `fastest_mode` of one SNR.

    >>> [fastest_mode_of(snr_db) for snr_db in (0.0, -7.5, -7.6, -30.0)]
    [0, 0, 1, 5]
    """
    for mode, min_snr_db in enumerate(_MIN_SNR_DB[:-1]):
        if not snr_db < min_snr_db:  # as in `fastest_mode`, an SNR that is not a number suffices
            return mode
    return len(_MIN_SNR_DB) - 1
