"""Capture: the strongest of the frames that overlap can be received."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.network.interference import DisturbedFrames, Interference
from netfl.network.interference._overlaps import overlap_law
from netfl.types import Floats, Law
from netfl.units import Decibels, db_to_linear

_LAW_FRAMES = 3


class Capture(Interference):
    """Of frames that overlap, one is received as if it were alone if its power exceeds that of all others together.

    With S the power of a frame at its start, and I the sum of the others at its worst moment, it is captured if S > I
    and S ≥ margin · I.  Of frames that overlap with each other, at most one is.  Of n frames of equal mean power under
    Rayleigh fading one is captured with probability n (1 + margin)^-(n - 1).  L. G. Roberts, ACM CCR 5(2), 1975;
    J. C. Arnbak and W. van Blitterswijk, IEEE J. Sel. Areas Commun. 5(2), 1987.

    Example::

        kind: capture
        margin: 6 dB
    """

    margin: Annotated[Decibels, Field(ge=0)]
    """Ratio by which a signal must exceed the sum of its interference."""

    receives_several = False

    def success(self, frames: DisturbedFrames) -> Floats:
        interference = frames.interference()
        signal = frames.signal
        margin = float(db_to_linear(self.margin))
        is_captured = (signal >= interference * margin) & (signal > interference)
        return np.where(is_captured, frames.alone, 0.0)

    def laws(self) -> tuple[Law, ...]:
        margin = float(db_to_linear(self.margin))
        chance = _LAW_FRAMES * (1.0 + margin) ** (1.0 - _LAW_FRAMES)
        return (overlap_law(self, _LAW_FRAMES, chance),)
