"""User-defined PyTorch modules, by default for images of 1 x 8 x 8 and ten classes."""

import numpy as np
import torch
from torch import nn


class Small(nn.Sequential):
    """Two layers and a constant."""

    def __init__(self, width, inputs=64, classes=10):
        super().__init__(nn.Flatten(), nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, classes))
        self.register_buffer("scale", torch.linspace(0.5, 1.5, classes), persistent=False)

    def forward(self, x):
        return super().forward(x) * self.scale


class Tied(nn.Module):
    """A model of tokens whose output layer shares the weights of the embedding."""

    def __init__(self, tokens=5, width=3):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.out = nn.Linear(width, tokens, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, x):
        return self.out(self.embedding(x).mean(1))


class ByBatch(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10), nn.BatchNorm1d(10))


class ByBatchAlways(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10), nn.BatchNorm1d(10, track_running_stats=False))


class Dropping(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10), nn.Dropout())


class Mixing(nn.Module):
    """Centres its batch, so that examples depend on each other."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x):
        x = x.flatten(1)
        return self.layer(x - x.mean(0))


class Counting(nn.Module):
    """Counts its calls in a buffer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.layer(x.flatten(1))


class HiddenCounter(nn.Module):
    """Counts its calls in a buffer that is no part of its state."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)
        self.register_buffer("calls", torch.zeros(()), persistent=False)

    def forward(self, x):
        self.calls.add_(1)
        return self.layer(x.flatten(1))


class AlwaysDrawing(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x):
        return super().forward(x + torch.randn_like(x))


class NumpyNoise(nn.Sequential):
    """Draws from NumPy's generator in training."""

    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x):
        return super().forward(x) * (1 + np.random.default_rng().normal() * self.training)


class AllFrozen(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))
        self.requires_grad_(False)


class Lazy(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.LazyLinear(10))


class Frozen(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))
        self[1].bias.requires_grad_(False)


class Pair(nn.Module):
    """Returns two values."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x):
        return self.layer(x.flatten(1)), x


class Double(nn.Sequential):
    """Computes in float64."""

    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10).double())

    def forward(self, x):
        return super().forward(x.double())


class Half(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10).bfloat16())

    def forward(self, x):
        return super().forward(x.bfloat16())


class DoubleInside(nn.Sequential):
    """Passes float64 inputs to a float32 layer."""

    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x):
        return super().forward(x.double())


class DoubleScores(nn.Sequential):
    """Returns float64 outputs of a float32 layer."""

    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x):
        return super().forward(x).double()
