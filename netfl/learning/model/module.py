"""The user's own network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from netfl.errors import Fault
from netfl.learning.model import Model
from netfl.types import Law

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from netfl.learning.network import Network
    from netfl.streams import Streams


class Module(Model):
    """A `torch.nn.Module` of the user's own, under cross-entropy: ``[batch, *shape]`` in, ``[batch, classes]`` out.

    Rows of tokens come as whole numbers.  All its parameters are trained, from where its class puts them when it is
    made; what that draws of PyTorch's generator comes from the run's own streams.  Refused is a module whose scores of
    an example depend on the rest of the batch or on chance (batch normalisation, dropout), that remembers, or whose
    parameters are not float32.  To know how large an update is, PyTorch and the class are imported as soon as the
    scenario is read.

    Example::

        kind: module
        module: my_models:Net
        args: {width: 32}
    """

    module: str
    """Its class, as ``package.module:Class``; a file of the folder that netfl is called in will do as a package."""
    args: dict[str, Any] = Field(default_factory=dict)
    """What the class is made with, by name."""

    @field_validator("module")
    @classmethod
    def _names_a_class(cls, value: str) -> str:
        """It tells the module from the class."""
        if not all(value.partition(":")):
            raise ValueError("write it as package.module:Class")
        return value

    def parameters(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> int:
        """As many as it has; imports torch."""
        return self.open(shape, classes, tokens).size

    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> Network:
        """The module at work."""
        from netfl.learning.model import _own  # noqa: PLC0415 - needs torch, other scenarios do not
        from netfl.learning.model._autograd import Modular  # noqa: PLC0415

        def begin(streams: Streams) -> NDArray[np.float64]:
            seed = int(streams.rng("module").integers(2**63))
            return _own.flat(_own.made(self.module, self.args, seed))

        return Modular(_own.made(self.module, self.args), begin, tokens=tokens is not None)

    def misfits(self, shape: tuple[int, ...], classes: int, tokens: int | None) -> Iterator[Fault]:
        """It must be there, fit the examples, and score each by itself."""
        from netfl.learning.model import _own  # noqa: PLC0415 - needs torch, other scenarios do not

        yield from _own.faults(self.module, self.args, shape, classes, tokens)

    def laws(self) -> tuple[Law, ...]:
        """Its class says where it starts."""
        return (Law.none("it starts as its class has it"),)
