"""A start between the version and the device's own last model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from netfl.learning.device import DeviceRule, Tensor


class Mixture(DeviceRule):
    """A device starts from a mixture of the version x and the model θ_k that it trained last: ``(1 - s) x + s θ_k``.

    θ_k is that after its last delivered update; a device starts from x before its first.  The server reads the change
    from x, so that the rules which take models, such as ``average``, get the trained one.  Buffers and t are mixed as
    θ is.

    Source: ours; a share of 1 starts from the device's own model, as in personal models that are only averaged.

    Example::

        kind: mixture
        share: 0.5
    """

    share: Annotated[float, Field(gt=0, le=1)]
    """Share s of the device's own model."""

    def start(self, base: Tensor, kept: Mapping[str, Tensor]) -> Tensor:
        if "model" not in kept:
            return base
        return base + self.share * (kept["model"] - base)

    def keep(self, start: Tensor, trained: Tensor, kept: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return {"model": trained}

    def memory(self, parameters: int) -> int:
        return parameters + 1
