"""User-defined rules of devices, correct and faulty."""

from typing import ClassVar

import numpy as np
import torch

from netfl.learning.aggregation.average import Average
from netfl.learning.device import DeviceRule


class Whole(Average):
    """A rule that computes something from whole models, but no gradients from changes."""

    needs_whole_models: ClassVar[bool] = True


class HeadAlone(DeviceRule):
    """A correct rule that keeps and first trains the last layer, and counts the updates of a device."""

    def personal(self, layout):
        return [*layout][-2:]

    def steps_of_head(self, per_pass):
        return np.minimum(per_pass, 1)

    def keep(self, start, trained, kept):
        return {"count": kept.get("count", 0 * trained[:1]) + 1}


class Faulty(DeviceRule):
    """A rule with one error."""

    error: str

    def start(self, base, kept):
        if self.error == "writes":
            base += 1
        if self.error == "short":
            return base[:-1]
        if self.error == "needs kept":
            return kept["model"]
        return base

    def keep(self, start, trained, kept):
        if self.error == "matrix":
            return {"model": trained[None]}
        if self.error == "grows":
            return {"model": trained[: 1 + len(kept)]}
        if self.error == "number":
            return {"count": 1}
        return {}

    def steps_of_head(self, per_pass):
        if self.error == "steps":
            return per_pass["all"]
        return None


class FaultyHead(DeviceRule):
    """A rule with an error in its steps of the head."""

    error: str

    def personal(self, layout):
        return [*layout][-2:]

    def steps_of_head(self, per_pass):
        results = {
            "list": per_pass.tolist(),
            "number": 1,
            "tensor": torch.tensor(per_pass),
            "half": per_pass / 2,
            "flags": per_pass > 1,
            "column": per_pass[:, None],
            "first": per_pass[:1],
            "negative": per_pass - 2,
            "large": per_pass + 3,
        }
        if self.error == "writes":
            per_pass += 1
        return results.get(self.error, per_pass)


class HeadWithoutLayers(DeviceRule):
    """A rule with steps of a head, but no personal layers."""

    def steps_of_head(self, per_pass):
        return np.minimum(per_pass, 1)


class Misnamed(DeviceRule):
    """A rule whose layers are not those of the model."""

    error: str

    def personal(self, layout):
        if self.error == "fails":
            return layout["head.weight"]
        return [*layout] if self.error == "all" else ["head.weight"]
