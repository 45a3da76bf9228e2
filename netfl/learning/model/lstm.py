"""Long short-term memory for the next token of a row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Annotated, ClassVar

from pydantic import Field

from netfl.errors import Fault
from netfl.learning.model import Architecture
from netfl.learning.model._initialization import ParameterSpec, draw_parameters, linear_parameters
from netfl.learning.model._layered_model import ExampleFormat, LayeredModel


class Lstm(LayeredModel):
    """An embedding of the tokens, layers of LSTM cells, and a linear layer on the last output.

    Hochreiter and Schmidhuber, "Long short-term memory", Neural Computation 9 (8), 1997; cells and initial values as in
    PyTorch: ``i, f, o = σ(…)``, ``g = tanh(…)``, ``c⁺ = f c + i g``, ``h⁺ = o tanh c⁺``, with two biases; embeddings
    start standard normal, all else uniform on ±1/√hidden.  The example is the model of LEAF (Caldas et al. 2018) and
    q-FFL for Shakespeare's next letter.

    Example::

        kind: lstm
        embedding: 8
        hidden: 256
        layers: 2
    """

    law_example: ClassVar[ExampleFormat] = ((80,), 10, 80)
    embedding: Annotated[int, Field(ge=1)] = 8
    """Size of the embedding of a token."""
    hidden: Annotated[int, Field(ge=1)] = 256
    """Cells in each layer."""
    layers: Annotated[int, Field(ge=1, le=64)] = 2
    """Layers of cells."""

    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> Architecture:
        from netfl.learning.architecture import ModuleArchitecture
        from netfl.learning.model._modules import Recurrent, StepByStep
        from netfl.learning.module_training import PLAIN

        sizes = (tokens or 0, self.embedding, self.hidden, self.layers, classes)
        start = partial(draw_parameters, self._parts(shape, classes, tokens))
        return ModuleArchitecture(
            Recurrent(*sizes), start, vmap_module=StepByStep(*sizes), has_tokens=True, traits=PLAIN
        )

    def misfits(self, shape: tuple[int, ...], classes: int, tokens: int | None) -> Iterator[Fault]:
        if tokens is None or len(shape) != 1:
            problem = "needs rows of tokens, such as the letters of a text"
            yield Fault("", problem, list(shape), "use data such as shakespeare, or another model")

    def _parts(self, shape: tuple[int, ...], classes: int, tokens: int | None) -> tuple[ParameterSpec, ...]:
        embeddings = ParameterSpec("embedding.weight", (tokens or 0, self.embedding), ("embeddings",), "normal", 1.0)
        parts = [embeddings]
        widths = (self.embedding, *[self.hidden] * self.layers)
        for layer, (into, out) in enumerate(pairwise(widths)):
            sums = 4 * out  # of the gates i, f, o and of g
            shapes: dict[str, tuple[int, ...]] = {
                "weight_ih": (sums, into),
                "weight_hh": (sums, out),
                "bias_ih": (sums,),
                "bias_hh": (sums,),
            }
            for name, of_part in shapes.items():
                part = ParameterSpec(f"cells.{name}_l{layer}", of_part, (name, layer), "uniform", self.hidden**-0.5)
                parts.append(part)
        parts += linear_parameters("last", classes, (self.hidden,), self.layers)
        return tuple(parts)
