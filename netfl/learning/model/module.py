"""A PyTorch module of the user."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from netfl.core.plugins import name_object, one_line
from netfl.core.remedies import function
from netfl.core.spec_errors import invalid
from netfl.errors import Fault, ScenarioError
from netfl.files import STORED, store_object
from netfl.learning.model import Model
from netfl.streams import Streams
from netfl.types import Floats, Law

if TYPE_CHECKING:
    from netfl.learning.architecture import ModuleArchitecture

_LOSSES = ("cross_entropy", "mse", "mae", "huber")


class Module(Model):
    """A `torch.nn.Module` of the user: ``[batch, *shape]`` in, ``[batch, classes]`` out, by default with cross-entropy.

    Rows of tokens are whole numbers.  Initial values are those that the class sets; its draws from PyTorch's generator
    come from the run's random streams.  An update carries the parameters that require a gradient and the floating-point
    buffers that ``state_dict`` lists, such as the running statistics of a batch normalisation.  Users train in training
    mode; models are evaluated in evaluation mode.  Dropout and other draws in training come from the run's random
    streams.  PyTorch and the class are imported when the scenario is read, because the size of an update must be known.

    Example::

        kind: module
        module: my_models:Net
        args: {width: 32}
    """

    module: str
    """The class as ``package.module:Class``; a file in the current folder can be the package.  In Python also a class
    or an instance."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the class."""
    loss: str = "cross_entropy"
    """Loss of an example: ``cross_entropy`` for labels; ``mse``, ``mae`` or ``huber`` for targets that are numbers; or
    a function as ``package.module:function``, which takes the scores ``[batch, classes]`` and the labels ``[batch]`` or
    targets ``[batch, outputs]``, and returns the losses ``[batch]``.  In Python also the function itself; one that is
    not in a file, such as a lambda, can be used in the same process only."""

    @field_validator("module", mode="before")
    @classmethod
    def _name_module(cls, value: object) -> object:
        if isinstance(value, type):
            package = value.__module__
            name = value.__qualname__
            if package == "__main__" or getattr(sys.modules.get(package), name, None) is not value:
                problem = (
                    f"the class '{name}' cannot be imported by other processes, such as those of {function('extend')}"
                )
                raise invalid(problem, "define it in a file, and import it from there; or give an instance of it")
            return f"{package}:{name}"
        torch = sys.modules.get("torch")  # whoever has a module has imported it
        if torch is not None and isinstance(value, torch.nn.Module):
            return _store(value)
        return value

    @field_validator("module")
    @classmethod
    def _check_name(cls, value: str) -> str:
        if not all(value.partition(":")):
            raise ValueError("not the name of a class; write it as package.module:Class")
        return value

    @field_validator("loss", mode="before")
    @classmethod
    def _name_loss(cls, value: object) -> object:
        if isinstance(value, FunctionType):
            return name_object(value)
        if callable(value):
            return _store(value)
        return value

    @field_validator("loss")
    @classmethod
    def _check_loss(cls, value: str) -> str:
        if value not in _LOSSES and not all(value.partition(":")):
            raise invalid(
                f"no such loss: '{value}'", f"known: {', '.join(_LOSSES)}; or a function as package.module:function"
            )
        return value

    def parameters(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> int:
        """Count the trained parameters and the buffers of an update; imports torch."""
        return self.open(shape, classes, tokens).size

    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> ModuleArchitecture:
        from netfl.learning.architecture import ModuleArchitecture
        from netfl.learning.model._losses import find_loss
        from netfl.learning.model._user_module import create_module, flatten_parameters

        def start(streams: Streams) -> Floats:
            seed = int(streams.rng("module").integers(2**63))
            return flatten_parameters(create_module(self.module, self.args, seed))

        module = create_module(self.module, self.args)
        loss = find_loss(self.loss)
        return ModuleArchitecture(module, start, has_tokens=tokens is not None, loss=loss)

    def misfits(self, shape: tuple[int, ...], classes: int, tokens: int | None) -> Iterator[Fault]:
        """Yield the first problem: of the class, of its parameters or of its scores."""
        from netfl.learning.model._trial import find_problem

        try:
            architecture = self.open(shape, classes, tokens)
            problem_and_remedy = find_problem(architecture, shape, classes, tokens)
        except ScenarioError as error:
            yield from error.faults
            return
        if problem_and_remedy is not None:
            problem, remedy = problem_and_remedy
            name = self.module
            if name.startswith(STORED):
                name = type(architecture.module).__name__
            yield Fault("module", problem, name, remedy)

    def target_misfits(
        self, shape: tuple[int, ...], classes: int, tokens: int | None, is_regression: bool
    ) -> Iterator[Fault]:
        from netfl.learning.model._losses import loss_faults

        yield from loss_faults(self.loss, classes, is_regression)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the class determines the initial values"),)


def _store(value: object) -> str:
    """Store an object with its tensors as a file by its content, and return its name for a scenario."""
    import torch

    from netfl.learning.model._user_module import HOOK_REMEDY, find_hooked_parameter

    hooked = find_hooked_parameter(value) if isinstance(value, torch.nn.Module) else None
    if hooked is not None:
        raise invalid(f"a {type(value).__name__} has a hook on its parameter '{hooked}'", HOOK_REMEDY)
    content = io.BytesIO()
    try:
        torch.save(value, content)
    except Exception as error:  # an object that cannot be pickled can raise anything
        remedy = "define its class, or the function, in a file that can be imported"
        raise invalid(f"a {type(value).__name__} cannot be stored: {one_line(error)}", remedy) from error
    return f"{STORED}{store_object(content.getvalue(), '.pt').stem}"
