"""Interface between models and local training.

`Architecture` describes one model: its parameters as a flat vector, and their initial values.  `BatchedModel` holds
several models of one architecture side by side, and trains or evaluates all of them at once.
`netfl.learning.local_training` calls ``scores``, ``losses`` and ``descend`` in each SGD step.  Dense models compute
their gradients by hand (`netfl.learning.model._manual_dense`); a batched model may also use autograd
(`netfl.learning.model._batched`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from netfl.streams import Streams


class BatchedModel(ABC):
    """Models side by side, each with its own parameters, in the layout that suits its arithmetic.

    `scores` runs the first models, as many as there are examples for; `losses` and `descend` use its results.  The
    caller puts models that stop early last.
    """

    @abstractmethod
    def scores(self, x: Tensor) -> Tensor:
        """Return the score of each class, ``[models, batch, classes]``; the largest is the prediction.

        Args:
            x: examples, ``[models, batch, *shape]``; may be an expanded view, and may be overwritten after `descend`.
        """

    @abstractmethod
    def losses(self, y: Tensor) -> Tensor:
        """Return the loss of each example of the last `scores` for the labels *y*; both ``[models, batch]``."""

    @abstractmethod
    def descend(self, weights: Tensor) -> None:
        """Move the parameters of each model by ``-Σ_b weights_b ∇ℓ_b``, with the last `losses`.

        Args:
            weights: ``[models, batch]``, including the step size.
        """

    @abstractmethod
    def values(self, models: int) -> Sequence[Tensor]:
        """Return the parameters of the first *models*, ``[models, …]`` each, as views for changes in place.

        The layout is the same for all batched models of one architecture, so values of one can be added to another.
        """

    @abstractmethod
    def store(self, into: Tensor) -> None:
        """Copy the parameters of all models to *into*, ``[models, parameters]``."""


class Architecture(ABC):
    """The parameters of a model, and how to open a `BatchedModel`."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of parameters."""

    @property
    @abstractmethod
    def layout(self) -> Mapping[str, tuple[int, ...]]:
        """Names and shapes of the parameters, in the order of the flat vector."""

    @abstractmethod
    def start(self, streams: Streams) -> NDArray[np.float64]:
        """Draw initial parameters from *streams*, ``[parameters]``."""

    @abstractmethod
    def open(self, theta: Tensor, trained: bool = True) -> BatchedModel:
        """Open models with the parameters *theta*, ``[models, parameters]``, which are not changed.

        Args:
            theta: the parameters.
            trained: whether `BatchedModel.descend` will be called; if not, less memory is needed.
        """
