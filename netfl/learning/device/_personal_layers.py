"""Rules with layers that stay on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from netfl.core.spec import ByForm
from netfl.errors import Fault, suggest
from netfl.learning.device import DeviceRule, Layout


class PersonalLayers(DeviceRule):
    """Base of the rules that name their personal layers.

    A layer has all parameters and buffers whose names differ in their last part only, such as ``layers.1.weight`` and
    ``layers.1.bias``.
    """

    personal_layers: Annotated[
        Annotated[int, Field(ge=1)] | Annotated[tuple[str, ...], Field(min_length=1)], ByForm()
    ] = 1
    """Layers that stay on the device: so many of the last ones, or a list of names, such as ``[layers.1]``.  A name
    also stands for all layers and parameters below it."""

    def personal(self, layout: Layout) -> Sequence[str]:
        if isinstance(self.personal_layers, int):
            chosen = layers_of(layout)[-self.personal_layers :]
        else:
            chosen = [*self.personal_layers]
        return [name for name in layout if any(_is_in(name, layer) for layer in chosen)]

    def layer_faults(self, layout: Layout) -> Iterator[Fault]:
        layers = layers_of(layout)
        names = () if isinstance(self.personal_layers, int) else self.personal_layers
        unknown = [layer for layer in names if not any(_is_in(name, layer) for name in layout)]
        for layer in unknown:
            yield Fault("personal_layers", "the model has no such layer", layer, suggest(layer, layers))
        if not unknown:
            yield from (fault.under("personal_layers") for fault in super().layer_faults(layout))


def layers_of(layout: Layout) -> list[str]:
    """Return the names of the layers of a *layout*, in order.

    >>> layers_of({"layers.0.weight": (5, 2), "layers.0.bias": (5,), "scale": (1,)})
    ['layers.0', 'scale']
    """
    layers = [name.rpartition(".")[0] or name for name in layout]
    return [*dict.fromkeys(layers)]  # each once


def _is_in(name: str, layer: str) -> bool:
    """Return whether a parameter or buffer is, or belongs to, *layer*."""
    return name == layer or name.startswith(f"{layer}.")
