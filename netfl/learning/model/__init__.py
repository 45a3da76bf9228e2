"""The model family: what is trained.

What examples look like is told in three words: their *shape*, how many *classes* there are, and, where examples are
rows of tokens, such as the letters of a text, how many *tokens* there are.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from netfl.errors import Fault
from netfl.registry import Spec

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture


class Model(Spec):
    """The contract of a model."""

    @abstractmethod
    def parameters(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> int:
        """The number of trained parameters, found without torch: it decides how many bits an update has."""

    @abstractmethod
    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> Architecture:
        """The model at work over stacks of parameters; imports torch."""

    def misfits(self, shape: tuple[int, ...], classes: int, tokens: int | None) -> Iterator[Fault]:
        """Why it cannot be trained on such examples; keys relative to the model.

        Tokens are names, whose numbers mean nothing: a model that takes them says so here.
        """
        if tokens is not None:
            remedy = "take 'lstm', or data that are measurements"
            yield Fault("", "takes measurements, but these examples are rows of tokens", tokens, remedy)


def not_image_fault(shape: tuple[int, ...]) -> Fault:
    """The fault of examples of *shape*, or of tokens, where pictures are wanted."""
    problem = "takes pictures: channels, rows and columns of measurements"
    return Fault("", problem, list(shape), "take a model for such examples, or data that are pictures")
