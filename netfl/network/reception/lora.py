"""Reception of LoRa with six spreading factors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from netfl.core.spec import ByForm, OnlyWith
from netfl.network.reception import NEGLIGIBLE, PACKET_BITS, Reception, rayleigh_fades
from netfl.streams import Streams
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
_LAW_MARGIN_DB = 3.0
"""Mean SNR of the law of the logistic curve over its middle."""
_MAX_EXPONENT = 700.0
"""Exponent up to which exp is finite."""

_Width = Annotated[Decibels, Field(gt=0, le=20)]
_Shifts = Annotated[Decibels | Mapping[int, Decibels], ByForm()]
_Widths = Annotated[_Width | Mapping[int, _Width], ByForm()]


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

    **The edge of reception.**  Those minima are of the data sheet, and a frame below them is lost.  Real receivers
    lose some frames above and receive some below.  With ``curve: logistic`` a frame of the minimum SNR m is received at
    the SNR s with probability 1 / (1 + exp(-(s - m - shift) / width)): 1/2 at m + shift, and from 10 % to 90 % within
    4.4 times the width.  ``shift`` and ``width`` are one for all spreading factors, or a mapping with all six:
    ``width: {7: 1 dB, 8: 1 dB, 9: 1 dB, 10: 1.5 dB, 11: 1.5 dB, 12: 2 dB}``.  Senders and `lorawan` choose spreading
    factors by the data sheet with either curve.  A broadcast uses the factor that is received at the lowest SNR.

    The curve states in ratios that P = 1 / (1 + (x / x_0)^-k), with k = 10 / (width ln 10).  Over a distribution of the
    SNR the mean reception is the integral of P; under Rayleigh fading of the mean s̄ it is
    ∫ exp(-y) / (1 + (s̄ y / x_0)^-k) dy over y > 0.

    Example::

        kind: lora
        code_rate: 4/5
    """

    code_rate: Literal["4/5", "4/6", "4/7", "4/8"] = "4/5"
    """Information bits over transmitted bits."""
    margin: Annotated[Decibels, Field(ge=0)] = 0.0
    """Margin between the expected SNR and the minimum SNR of the mode that a sender picks."""
    curve: Literal["datasheet", "logistic"] = "datasheet"
    """Probability of reception over the SNR: a step at the minimum SNR of the data sheet, or a logistic curve."""
    shift: Annotated[_Shifts | None, OnlyWith("curve", "logistic")] = None
    """SNR at which half of the frames are received, above the minimum SNR of the data sheet: one number, or one for
    each spreading factor; ``null`` is 0 dB."""
    width: Annotated[_Widths | None, OnlyWith("curve", "logistic", needed=True)] = None
    """Scale of the logistic curve in dB: one number, or one for each spreading factor."""

    @model_validator(mode="after")
    def _check_factors(self) -> Lora:
        for key in ("shift", "width"):
            value = getattr(self, key)
            if isinstance(value, Mapping) and sorted(value) != FACTORS.tolist():
                given = ", ".join(map(str, sorted(value))) or "none"
                raise ValueError(f"{key} is given for the spreading factors {given}; give it for each of 7 to 12")
        return self

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
        if self.curve == "datasheet":
            return np.asarray(np.asarray(sinr_db) >= MIN_SNR_DB[mode], float)
        exponent = (self._middle_db(mode) - np.asarray(sinr_db)) / self._width_db(mode)
        return np.asarray(1.0 / (1.0 + np.exp(np.minimum(exponent, _MAX_EXPONENT))))

    @property
    def min_sir_db(self) -> Floats:
        return MIN_SIR_DB

    def choose(self, snr_db: Floats, bandwidth_hz: float) -> Ints:
        return fastest_mode(np.asarray(snr_db) - self.margin)

    def threshold_db(self, bandwidth_hz: float, bits: float = PACKET_BITS) -> float:
        if self.curve == "datasheet":
            return float(MIN_SNR_DB.min())
        widths_over_middle = math.log(NEGLIGIBLE / (1.0 - NEGLIGIBLE))
        return min(self._middle_db(mode) + self._width_db(mode) * widths_over_middle for mode in range(self.modes))

    def laws(self) -> tuple[Law, ...]:
        if self.curve == "datasheet":
            return (rayleigh_fades(self, _LAW_HZ, 10.0 ** (float(MIN_SNR_DB.min()) / 10.0)),)
        return (self._logistic_law(0),)

    def _middle_db(self, mode: int) -> float:
        """Return the SNR at which half of the frames in *mode* are received."""
        return _MIN_SNR_DB[mode] + _of_factor(self.shift, mode)

    def _width_db(self, mode: int) -> float:
        """Return the scale of the logistic curve of *mode*."""
        return _of_factor(self.width, mode)

    def _logistic_law(self, mode: int) -> Law:
        """Return the claim of the mean reception under Rayleigh fading, ∫ exp(-y) / (1 + (s̄ y / x_0)^-k) dy."""
        from scipy import integrate

        mean_db = self._middle_db(mode) + _LAW_MARGIN_DB
        mean_ratio = 10.0 ** (_LAW_MARGIN_DB / 10.0)  # s̄ / x_0
        k = 10.0 / (self._width_db(mode) * math.log(10.0))
        # from 0 to infinity; the steep part is where s̄ y = x_0
        parts = [(0.0, 1.0 / mean_ratio), (1.0 / mean_ratio, math.inf)]
        received = sum(
            integrate.quad(lambda y: math.exp(-y) / (1.0 + (mean_ratio * y) ** -k) if y else 0.0, low, high)[0]
            for low, high in parts
        )

        def draw(streams: Streams, size: int) -> Floats:
            frames = np.arange(size)
            gain_db = 10.0 * np.log10(streams.field("gain").exponential(frames))
            chance = self.success(mean_db + gain_db, _LAW_HZ, PACKET_BITS, mode)
            return np.asarray(streams.field("reception").uniform(frames) < chance, float)

        return Law(
            "received frames (0 or 1)",
            "under Rayleigh fading of mean SNR s̄ a frame is received with probability "
            f"∫ exp(-y) / (1 + (s̄ y / x_0)^-k) dy, k = 10 / (width ln 10); drawn in {self.mode_name(mode)} at "
            f"{_LAW_MARGIN_DB:g} dB above the middle x_0",
            draw=draw,
            mean=received,
            variance=received * (1.0 - received),
        )


def _of_factor(value: float | Mapping[int, float] | None, mode: int) -> float:
    """Return the value of the spreading factor of *mode*, of one for all or one for each; 0 for none."""
    if isinstance(value, Mapping):
        return value[int(FACTORS[mode])]
    return value or 0.0


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
