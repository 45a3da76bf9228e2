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
            from netfl.learning.architecture import ModuleArchitecture
            from torch import nn

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

import sys
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from netfl.core.kinds import exported_models, kind_of
from netfl.core.plugins import is_plugin
from netfl.core.spec import Spec
from netfl.errors import Fault

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture as Architecture
else:
    Architecture = object  # torch is imported by runs that learn, not by scenarios


class Model(Spec):
    """The contract of a model."""

    @abstractmethod
    def parameters(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> int:
        """Return the number of trained parameters, without torch: it decides the number of bits of an update."""

    def buffers(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> int:
        """Return how many of the `parameters` are buffers, such as the means of a batch normalisation; imports torch.

        They are sent with the model, but have no gradient, so that an aggregation sends nothing beside them.
        """
        return self.open(shape, classes, tokens).buffers

    @abstractmethod
    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> Architecture:
        """Return the architecture for such examples; imports torch."""

    def misfits(self, shape: tuple[int, ...], classes: int, tokens: int | None) -> Iterator[Fault]:
        """Yield errors of such examples; keys are relative to the model.

        Tokens are names without numerical meaning, so that only models for tokens accept them.
        """
        if tokens is not None:
            override = f", or override misfits in {kind_of(type(self))}" if is_plugin(self) else ""
            remedy = f"use 'lstm', or data of measurements{override}"
            yield Fault("", "needs measurements, but these examples are rows of tokens", tokens, remedy)

    def target_misfits(
        self, shape: tuple[int, ...], classes: int, tokens: int | None, is_regression: bool
    ) -> Iterator[Fault]:
        """Yield errors of what such examples are labelled with, if `misfits` finds none.

        A model with a loss for numbers overrides this method.  In a regression, *classes* is the number of outputs.
        """
        if is_regression:
            problem = "needs labels, but the targets of these data are numbers"
            yield Fault("", problem, kind_of(type(self)), "use 'module' with a loss such as mse, or data with labels")

    @classmethod
    def from_object(cls, value: object) -> Mapping[str, Any] | None:
        """Return a `torch.nn.Module`, a class or an instance, as a model of kind ``module``.

        A mapping may hold it under the key ``module``, beside other keys of `netfl.learning.model.module.Module`.  An
        instance is trained from the weights that it has, in all replicas.
        """
        if isinstance(value, Mapping) and "module" in value:
            return {"kind": "module", **value}
        torch = sys.modules.get("torch")  # whoever has a module has imported it
        if torch is None:
            return None
        is_instance = isinstance(value, torch.nn.Module)
        is_class = isinstance(value, type) and issubclass(value, torch.nn.Module)
        if is_instance or is_class:
            return {"kind": "module", "module": value}
        return None


def not_image_fault(shape: tuple[int, ...]) -> Fault:
    """Return the error of examples that are not images."""
    problem = "needs images: channels, rows and columns of measurements"
    return Fault("", problem, list(shape), "use a model for such examples, or data of images")


__getattr__ = exported_models(__name__)
