"""The model family: what is trained."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from netfl.registry import Spec

if TYPE_CHECKING:
    from netfl.learning.network import Network


class Model(Spec):
    """The contract of a model."""

    @abstractmethod
    def parameters(self, shape: tuple[int, ...], classes: int) -> int:
        """The number of trained parameters, found without torch: it decides how many bits an update has."""

    @abstractmethod
    def open(self, shape: tuple[int, ...], classes: int) -> Network:
        """The model at work over stacks of parameters; imports torch."""
