"""Packet sizes."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from netfl.core.spec import Spec
from netfl.types import Floats
from netfl.units import PacketSize


class Size(Spec):
    """Distribution of the packet size."""

    distribution: Literal["fixed", "exponential"] = "fixed"
    """Fixed or exponential; a slot of a MAC fits the mean size, and a larger packet lasts into the next slots."""
    mean: Annotated[PacketSize, Field(gt=0)] = 12_000.0
    """Mean size."""

    @property
    def is_drawn(self) -> bool:
        """``True`` if sizes are random."""
        return self.distribution != "fixed"

    def draw(self, rng: np.random.Generator | None, count: int) -> Floats:
        """Return the sizes of *count* packets, in bits; *rng* may be ``None`` where they are not random."""
        if rng is None or not self.is_drawn:
            return np.full(count, self.mean)
        return rng.exponential(self.mean, count)
