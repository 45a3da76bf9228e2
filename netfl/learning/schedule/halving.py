"""Step sizes that are halved again and again."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.learning.schedule import Schedule


class Halving(Schedule):
    """The step sizes are halved after every so many versions: ``lr · 2^-⌊version / every⌋``.

    Example::

        kind: halving
        every: 1000
    """

    every: Annotated[int, Field(ge=1)]
    """After how many versions."""

    def factors(self, versions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Powers of a half."""
        return np.asarray(0.5 ** (versions // self.every))
