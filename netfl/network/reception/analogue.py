"""Analogue reception: each number of an update is one symbol, and nothing is decoded."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.network.reception import PACKET_BITS, Reception
from netfl.types import Floats, Law

_NO_THRESHOLD_DB = -300.0


class Analogue(Reception):
    """Each number of an update is sent as the amplitude of one symbol, of which a second has as many as a hertz.

    So d numbers take d / B in the bandwidth B.  Nothing is decoded, and nothing is lost by a weak signal: noise
    disturbs the numbers instead.  It is for sums in the air, ``interference: over_the_air``.  M. M. Amiri and
    D. Gunduz, IEEE Trans. Signal Process. 68, 2020, §III.

    Example::

        kind: analogue
    """

    is_analogue = True

    bits: Annotated[float, Field(gt=0)] = 32.0
    """Size of a number in an update that is sent digitally, by which the numbers of an update are counted."""

    def rate_bps(self, bandwidth_hz: float, mode: int = 0) -> float:
        return self.bits * bandwidth_hz

    def success(self, sinr_db: Floats, bandwidth_hz: float, bits: float, mode: int = 0) -> Floats:
        return np.ones(np.shape(sinr_db))

    def threshold_db(self, bandwidth_hz: float, bits: float = PACKET_BITS) -> float:
        return _NO_THRESHOLD_DB

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("nothing is decoded, and nothing is drawn"),)
