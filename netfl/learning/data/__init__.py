'''The data family: labelled examples for training and testing, as NumPy arrays.

A data set is a class derived from `Data`.  Its fields are the keys of the scenario.  `Data.classes` and `Data.shape`,
class attributes or properties, describe the examples before anything is loaded, and `Data.load` returns a `Dataset`.
Random draws come from named streams, so that a run can be repeated.  A complete data set::

    class Clouds(Data):
        """Two normal clouds in the plane.

        Example::

            kind: my_data:Clouds
            distance: 3
        """

        classes: ClassVar[int] = 2
        shape: ClassVar[tuple[int, ...]] = (2,)
        distance: float = 2.0
        """Distance between the centres."""

        def load(self, streams):
            rng = streams.rng("clouds")
            y = rng.integers(0, 2, 1000)
            x = rng.standard_normal((1000, 2)).astype(np.float32)
            x[:, 0] += self.distance * y
            return Dataset(x[:800], y[:800], x[800:], y[800:], self.classes)

        def laws(self):
            return (Law.none("two normal clouds"),)

Data with users of their own (a writer's letters, a sensor's recordings) also give ``train_user``, which ``partition:
natural`` follows.
'''

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netfl.learning.data._augmentation import Augment
from netfl.registry import Spec
from netfl.streams import Streams


@dataclass(frozen=True, slots=True)
class Examples:
    """Labelled examples.

    Args:
        x: features, ``[examples, *shape]``.
        y: labels, ``[examples]``, int64.
        user: the user of each example, ``[examples]``, int64; ``None`` if the data have no users.
    """

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    user: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """Training, test and validation examples; labels are 0 … classes-1.

    Tokens, such as the letters of a text, are whole numbers in float32, which is exact up to 2**24.  Users count from
    0, and each of them has training examples.

    Args:
        train_x: features, ``[train, *shape]``.
        train_y: labels, ``[train]``, int64.
        test_x: features, ``[test, *shape]``.
        test_y: labels, ``[test]``, int64.
        classes: the number of labels.
        train_user: the user of each training example, ``[train]``, int64; ``None`` if the data have no users.
        test_user: the same for the test examples; a user may have none.
        validation: examples for the choice of hyper-parameters; ``None`` without them.
        augment: random shifts and reflections of training images; ``None`` without them.
    """

    train_x: NDArray[np.float32]
    train_y: NDArray[np.int64]
    test_x: NDArray[np.float32]
    test_y: NDArray[np.int64]
    classes: int
    train_user: NDArray[np.int64] | None = None
    test_user: NDArray[np.int64] | None = None
    validation: Examples | None = None
    augment: Augment | None = None


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

    @property
    def tokens(self) -> int | None:
        """The number of tokens, 0 … tokens-1, if examples are rows of tokens; ``None`` for measurements."""
        return None

    @property
    def memory(self) -> float:
        """Approximate memory in bytes that drawing the examples takes; 0 for examples from files."""
        return 0.0

    @abstractmethod
    def load(self, streams: Streams) -> Dataset:
        """Return the examples; random draws come from *streams*.

        Raises:
            netfl.errors.ScenarioError: a file is missing; the message names it and the way to get it.
            netfl.errors.MachineError: a file cannot be read, or has the wrong content.
        """
