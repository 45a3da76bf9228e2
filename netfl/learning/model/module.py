"""A PyTorch module of the user."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from netfl.errors import Fault, ScenarioError
from netfl.learning.model import Model
from netfl.streams import Streams
from netfl.types import Floats, Law

if TYPE_CHECKING:
    from netfl.learning.architecture import ModuleArchitecture


class Module(Model):
    """A `torch.nn.Module` of the user under cross-entropy: ``[batch, *shape]`` in, ``[batch, classes]`` out.

    Rows of tokens are whole numbers.  All parameters are trained, from the values that the class sets; its draws from
    PyTorch's generator come from the run's random streams.  A module is refused if an example's scores depend on the
    rest of the batch or on chance (batch normalisation, dropout), if it keeps state, or if its parameters are not
    float32.  PyTorch and the class are imported when the scenario is read, because the size of an update must be known.

    Example::

        kind: module
        module: my_models:Net
        args: {width: 32}
    """

    module: str
    """The class as ``package.module:Class``; a file in the current folder can be the package."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the class."""

    @field_validator("module")
    @classmethod
    def _check_name(cls, value: str) -> str:
        if not all(value.partition(":")):
            raise ValueError("write it as package.module:Class")
        return value

    def parameters(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> int:
        """Count the parameters; imports torch."""
        return self.open(shape, classes, tokens).size

    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> ModuleArchitecture:
        from netfl.learning.architecture import ModuleArchitecture
        from netfl.learning.model._user_module import create_module, flatten_parameters

        def start(streams: Streams) -> Floats:
            seed = int(streams.rng("module").integers(2**63))
            return flatten_parameters(create_module(self.module, self.args, seed))

        return ModuleArchitecture(create_module(self.module, self.args), start, has_tokens=tokens is not None)

    def misfits(self, shape: tuple[int, ...], classes: int, tokens: int | None) -> Iterator[Fault]:
        """Yield the first problem: of the class, of its parameters or of its scores."""
        from netfl.learning.model._trial import find_problem
        from netfl.learning.model._user_module import STORED

        try:
            architecture = self.open(shape, classes, tokens)
            found = find_problem(architecture, shape, classes, tokens)
        except ScenarioError as error:
            yield from error.faults
            return
        if found is not None:
            name = type(architecture.module).__name__ if self.module.startswith(STORED) else self.module
            yield Fault("module", found[0], name, found[1])

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the class determines the initial values"),)
