"""Models at work over stacks of parameters: what a model family member gives to the learner.

A `Network` knows how its parameters lie in a flat vector.  A `BatchedModel` holds several models of one network side
by side,
in whatever layout its arithmetic likes best, and trains or evaluates all of them at once.  Dense networks write their
gradients out by hand (`netfl.learning.model._manual_dense`); nothing here asks for that: a stack may use autograd
inside.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from netfl.streams import Streams


class BatchedModel(ABC):
    """Models side by side, each with parameters of its own.

    `scores` runs the first of them, as many as it is given examples for, and remembers what `losses` and `descend`
    need.  The caller puts models that stop early last, and leaves them out.
    """

    @abstractmethod
    def scores(self, x: Tensor) -> Tensor:
        """The score of each class for each example, ``[models, batch, classes]``; the largest is the prediction.

        Args:
            x: examples, ``[models, batch, *shape]``; may be an expanded view, and may be overwritten after `descend`.
        """

    @abstractmethod
    def losses(self, y: Tensor) -> Tensor:
        """The loss of each example whose scores were found last, for the labels *y*; both ``[models, batch]``."""

    @abstractmethod
    def descend(self, weights: Tensor) -> None:
        """Move the parameters of each model by ``-Σ_b weights_b ∇ℓ_b``, with the losses found last.

        Args:
            weights: ``[models, batch]``; the step size is in them.
        """

    @abstractmethod
    def values(self, models: int) -> Sequence[Tensor]:
        """The parameters of the first so many *models*, ``[models, …]`` each, to be changed in place.

        They lie as the stack likes it, and those of all stacks of one network alike: so a step of training can add to
        one stack what another holds.
        """

    @abstractmethod
    def store(self, into: Tensor) -> None:
        """Copy the parameters of all models to *into*, ``[models, parameters]``."""


class Architecture(ABC):
    """A model's shape: how many parameters, where they start, and how to open a stack of them."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of parameters."""

    @property
    @abstractmethod
    def layout(self) -> Mapping[str, tuple[int, ...]]:
        """The parameters' names and shapes, in the order in which they lie in a flat vector."""

    @abstractmethod
    def start(self, streams: Streams) -> NDArray[np.float64]:
        """Parameters to start from, ``[parameters]``, drawn from *streams*."""

    @abstractmethod
    def open(self, theta: Tensor, trained: bool = True) -> BatchedModel:
        """A stack of the models with the parameters *theta*, ``[models, parameters]``, which is left as it is.

        Args:
            theta: the models.
            trained: whether they will `descend`; those that will not need remember less of what they score.
        """
