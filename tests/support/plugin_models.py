"""User-defined models, correct and faulty, for 64 inputs and ten classes."""

import numpy as np
from torch import nn

from netfl.learning.architecture import ModuleArchitecture
from netfl.learning.model import Model


class Linear(Model):
    """A correct linear model, unless *fault* names an error."""

    fault: str = ""

    def parameters(self, shape, classes, tokens=None):
        counts = {"few": 100, "text": "650", "none": 0}
        if self.fault == "count":
            return tokens * classes
        return counts.get(self.fault, 650)

    def module(self, classes=10):
        layers = {"norm": [nn.BatchNorm1d(10, affine=False)], "classes": [nn.Unflatten(1, (5, 2)), nn.Flatten(2)]}
        return nn.Sequential(nn.Flatten(), nn.Linear(64, classes), *layers.get(self.fault, []))

    def start(self, streams):
        start = streams.rng("start").normal(0, 0.1, 650)
        if self.fault == "draw":
            raise LookupError("no such stream")
        starts = {"list": start.tolist(), "short": start[:-1], "nan": np.full(650, np.nan)}
        return starts.get(self.fault, start)

    def open(self, shape, classes, tokens=None):
        if self.fault == "module":
            return self.module()
        if self.fault == "bare":
            return ModuleArchitecture(self.module())
        return ModuleArchitecture(self.module(), self.start)


class Defaulted(Linear):
    """Its default has the wrong type."""

    kernel: int = "five"


class Embedded(Model):
    """A model of tokens; *whole* and *takes* are declarations that an author may forget."""

    whole: bool = True
    takes: bool = True

    def misfits(self, shape, classes, tokens):
        if not self.takes:
            yield from super().misfits(shape, classes, tokens)

    def parameters(self, shape, classes, tokens=None):
        return tokens * 4 + 4 * classes + classes

    def open(self, shape, classes, tokens=None):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding, self.out = nn.Embedding(tokens, 4), nn.Linear(4, classes)

            def forward(self, x):
                return self.out(self.embedding(x).mean(1))

        size = self.parameters(shape, classes, tokens)
        return ModuleArchitecture(Net(), lambda streams: streams.rng("start").normal(size=size), has_tokens=self.whole)
