"""Long short-term memory: what comes next in a row of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from netfl.errors import Fault
from netfl.learning.model import Model, _start
from netfl.learning.model._start import Part
from netfl.types import Law

if TYPE_CHECKING:
    from netfl.learning.network import Network


class Lstm(Model):
    """An embedding of the tokens, layers of LSTM cells, and a linear layer on what the last one says at the end.

    Hochreiter and Schmidhuber, "Long short-term memory", Neural Computation 9 (8), 1997; cells and start as in
    PyTorch: ``i, f, o = σ(…)``, ``g = tanh(…)``, ``c⁺ = f c + i g``, ``h⁺ = o tanh c⁺``, with two biases; embeddings
    start standard normal, all else uniform on ±1/√hidden.  The example is the model of LEAF (Caldas et al. 2018) and
    q-FFL for Shakespeare's next letter.

    Example::

        kind: lstm
        embedding: 8
        hidden: 256
        layers: 2
    """

    embedding: Annotated[int, Field(ge=1)] = 8
    """How many numbers stand for a token."""
    hidden: Annotated[int, Field(ge=1)] = 256
    """Cells in each layer."""
    layers: Annotated[int, Field(ge=1, le=64)] = 2
    """How many layers of cells there are."""

    def parameters(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> int:
        """Embeddings, weights and biases."""
        return _start.count(self._parts(classes, tokens or 0))

    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> Network:
        """The layers at work."""
        from netfl.learning.model._autograd import Modular  # noqa: PLC0415 - needs torch, a scenario does not
        from netfl.learning.model._recurrent import Recurrent, StepByStep  # noqa: PLC0415

        sizes = (tokens or 0, self.embedding, self.hidden, self.layers, classes)
        begin = partial(_start.draw, self._parts(classes, tokens or 0))
        return Modular(Recurrent(*sizes), begin, together=StepByStep(*sizes), tokens=True)

    def misfits(self, shape: tuple[int, ...], classes: int, tokens: int | None) -> Iterator[Fault]:
        """It takes rows of tokens."""
        if tokens is None or len(shape) != 1:
            problem = "takes rows of tokens, such as the letters of a text"
            yield Fault("", problem, list(shape), "take data such as shakespeare, or another model")

    def laws(self) -> tuple[Law, ...]:
        """Where it starts."""
        return _start.laws(self._parts(10, 80))

    def _parts(self, classes: int, tokens: int) -> tuple[Part, ...]:
        """All parameters."""
        embeddings = Part("embedding.weight", (tokens, self.embedding), ("embeddings",), "normal", 1.0)
        widths = (self.embedding, *[self.hidden] * self.layers)
        cells = (
            Part(f"cells.{what}_l{layer}", shape, (what, layer), "uniform", self.hidden**-0.5)
            for layer, (into, out) in enumerate(pairwise(widths))
            for what, shape in (
                ("weight_ih", (4 * out, into)),
                ("weight_hh", (4 * out, out)),
                ("bias_ih", (4 * out,)),
                ("bias_hh", (4 * out,)),
            )
        )
        return (embeddings, *cells, *_start.linear("last", classes, (self.hidden,), self.layers))
