"""The schedule family: how the step sizes of local training change as versions of the global model go by.

To write one: a file in this package, or a class in a package of your own, that derives from `Schedule`.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from netfl.registry import Spec
from netfl.types import Law


class Schedule(Spec):
    """The contract of a schedule."""

    @abstractmethod
    def factors(self, versions: NDArray[np.int64]) -> NDArray[np.float64]:
        """What `lr` and the objective's step size on t are multiplied by.

        Args:
            versions: the version that each user starts from, 0 before the first round, ``[n]``; an update that comes
                late was made with the step size of its own version.

        Returns:
            A positive factor for each, ``[n]``.
        """

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("a schedule draws nothing"),)
