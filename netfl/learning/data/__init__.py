"""The data family: labelled examples to train on and to test with, as NumPy arrays."""

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
    """Labelled examples beside those to train on and to test with.

    Args:
        x: ``[examples, *shape]``.
        y: ``[examples]``, int64.
        user: whose each is, ``[examples]``, int64; ``None`` where the data have no users of their own.
    """

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    user: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """Labelled examples; features are float32 with the examples along the first axis, labels are 0 … classes-1.

    Tokens, such as the letters of a text, are whole numbers in float32, which holds them exactly up to 2**24.  Data
    that have users of their own say whose each example is; users count from 0, and everyone has training examples.

    Args:
        train_x: ``[train, *shape]``.
        train_y: ``[train]``, int64.
        test_x: ``[test, *shape]``.
        test_y: ``[test]``, int64.
        classes: the number of labels.
        train_user: whose each training example is, ``[train]``, int64; ``None`` where the data have no users.
        test_user: the same for the test examples; a user may have none.
        validation: examples to choose hyper-parameters by; ``None`` where none are kept for that.
        augment: how the training examples, pictures, are moved about while they are trained on; ``None`` for not.
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
        """How many tokens there are, 0 … tokens-1, where examples are rows of tokens; ``None`` for measurements."""
        return None

    @property
    def memory(self) -> float:
        """Bytes of memory that the examples take while they are made up, roughly; 0 where they come from files."""
        return 0.0

    @abstractmethod
    def load(self, streams: Streams) -> Dataset:
        """The examples; what is drawn comes from *streams*.

        Raises:
            netfl.errors.ScenarioError: a file is missing; the message says which and how to get it.
            netfl.errors.MachineError: a file cannot be read, or is not what it should be.
        """
