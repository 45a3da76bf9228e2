"""The data family: labelled examples to train on and to test with, as NumPy arrays."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netfl.registry import Spec
from netfl.streams import Streams


@dataclass(frozen=True, slots=True)
class Dataset:
    """Labelled examples; features are float32 with the examples along the first axis, labels are 0 … classes-1.

    Args:
        train_x: ``[train, *shape]``.
        train_y: ``[train]``, int64.
        test_x: ``[test, *shape]``.
        test_y: ``[test]``, int64.
        classes: the number of labels.
    """

    train_x: NDArray[np.float32]
    train_y: NDArray[np.int64]
    test_x: NDArray[np.float32]
    test_y: NDArray[np.int64]
    classes: int


class Data(Spec):
    """The contract of a data set."""

    @property
    @abstractmethod
    def classes(self) -> int:
        """The number of labels, known without loading."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of one example, known without loading."""

    @abstractmethod
    def load(self, streams: Streams) -> Dataset:
        """The examples; what is drawn comes from *streams*.

        Raises:
            netfl.errors.ScenarioError: a file is missing; the message says which and how to get it.
            netfl.errors.MachineError: a file cannot be read, or is not what it should be.
        """
