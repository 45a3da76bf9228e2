'''The model family: the functions that users train.

A model is a class derived from `Model`.  Its fields are the keys of the scenario.  Three values describe examples:
their *shape*, the number of *classes* and, if examples are rows of tokens, such as the letters of a text, the number of
*tokens*.  From these, `Model.parameters` counts parameters without torch, because that number decides the size of an
update, and `Model.open` returns the architecture, which trains many models at once.  The usual architecture is a
`torch.nn.Module`::

    class Narrow(Model):
        """A linear layer of rank 8.

        Example::

            kind: my_models:Narrow
        """

        def parameters(self, shape, classes, tokens=None):
            return (math.prod(shape) + classes) * 8

        def open(self, shape, classes, tokens=None):
            from torch import nn
            from netfl.learning.model._batched import ModuleArchitecture

            inputs = math.prod(shape)
            layers = (nn.Linear(inputs, 8, bias=False), nn.Linear(8, classes, bias=False))

            def start(streams):
                return streams.rng("start").normal(0, inputs**-0.5, self.parameters(shape, classes))

            return ModuleArchitecture(nn.Sequential(nn.Flatten(), *layers), start)

        def laws(self):
            return (Law.none("normal weights"),)

A model that is only a `torch.nn.Module` needs no such class: ``kind: module`` trains it.
'''

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
        """Return the number of trained parameters, without torch: it decides the number of bits of an update."""

    @abstractmethod
    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> Architecture:
        """Return the architecture for such examples; imports torch."""

    def misfits(self, shape: tuple[int, ...], classes: int, tokens: int | None) -> Iterator[Fault]:
        """Yield faults of such examples; keys are relative to the model.

        Tokens are names without numerical meaning, so that only models for tokens accept them.
        """
        if tokens is not None:
            remedy = "take 'lstm', or data that are measurements"
            yield Fault("", "takes measurements, but these examples are rows of tokens", tokens, remedy)


def not_image_fault(shape: tuple[int, ...]) -> Fault:
    """Return the fault of examples that are not images."""
    problem = "takes pictures: channels, rows and columns of measurements"
    return Fault("", problem, list(shape), "take a model for such examples, or data that are pictures")
