"""Networks as users of netfl would bring them along, for pictures of 1 x 8 x 8 and ten classes unless they say so."""

import torch
from torch import nn


class Small(nn.Sequential):
    """Two layers, and a constant that is no parameter."""

    def __init__(self, width, inputs=64, classes=10):
        super().__init__(nn.Flatten(), nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, classes))
        self.register_buffer("scale", torch.linspace(0.5, 1.5, classes))

    def forward(self, x):
        return super().forward(x) * self.scale


class Tied(nn.Module):
    """Tokens in, and the embedding's weights once more on the way out."""

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


class Dropping(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10), nn.Dropout())


class Mixing(nn.Module):
    """Centres its batch."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x):
        x = x.flatten(1)
        return self.layer(x - x.mean(0))


class Counting(nn.Module):
    """Counts how often it is called."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.layer(x.flatten(1))


class Frozen(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))
        self[1].bias.requires_grad_(False)


class Pair(nn.Module):
    """Gives two things."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x):
        return self.layer(x.flatten(1)), x


class Double(nn.Sequential):
    """In float64 throughout."""

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
    """Its layer is float32, what it is given is not."""

    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x):
        return super().forward(x.double())


class DoubleScores(nn.Sequential):
    """Only what it gives is float64."""

    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x):
        return super().forward(x).double()
