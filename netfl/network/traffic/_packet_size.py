"""How large packets are."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.registry import Spec
from netfl.units import Bits


class Size(Spec):
    """The law of a packet's size."""

    law: Literal["fixed", "exponential"] = "fixed"
    """All alike, or exponential; a MAC's slots are as long as the mean takes, and a larger packet takes several."""
    mean: Annotated[Bits, Field(gt=0)] = 12_000.0
    """The mean size."""

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """The sizes of *count* packets, in bits."""
        if self.law == "fixed":
            return np.full(count, self.mean)
        return rng.exponential(self.mean, count)
