"""Packet sizes."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.registry import Spec
from netfl.units import Bits


class Size(Spec):
    """Distribution of the packet size."""

    law: Literal["fixed", "exponential"] = "fixed"
    """Fixed or exponential; a slot of a MAC fits the mean size, and a larger packet takes several slots."""
    mean: Annotated[Bits, Field(gt=0)] = 12_000.0
    """Mean size."""

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Return the sizes of *count* packets, in bits."""
        if self.law == "fixed":
            return np.full(count, self.mean)
        return rng.exponential(self.mean, count)
