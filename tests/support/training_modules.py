"""Modules whose training mode differs, for rows of four numbers and three classes."""

import torch
from torch import nn
from torch.nn import functional


class Normed(nn.Sequential):
    """A batch normalisation between two layers."""

    def __init__(self, momentum=0.1):
        super().__init__(nn.Linear(4, 6), nn.BatchNorm1d(6, momentum=momentum), nn.ReLU(), nn.Linear(6, 3))


class NormedImages(nn.Sequential):
    """A convolution with batch normalisation, for images of 1 x 2 x 2."""

    def __init__(self):
        super().__init__(nn.Conv2d(1, 3, 2, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 3))


class Dropped(nn.Module):
    """A dropout that is used twice, once as a module and once as a function."""

    def __init__(self, p=0.5):
        super().__init__()
        self.first, self.second, self.drop = nn.Linear(4, 8), nn.Linear(8, 3), nn.Dropout(p)

    def forward(self, x):
        hidden = self.drop(torch.relu(self.first(x)))
        return self.second(functional.dropout(hidden, self.drop.p, self.training))


class Noisy(nn.Module):
    """Noise from PyTorch's generator in training."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x + 0.5 * torch.randn_like(x) if self.training else x)


class Branching(nn.Module):
    """Control flow that depends on values."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        scores = self.layer(x)
        return scores * 2 if x.sum() > 0 else scores


class Centred(nn.Module):
    """Subtracts the mean of the batch in training, and a running mean, which it replaces, in evaluation."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        if self.training:
            self.calls += 1
            self.mean = 0.5 * self.mean + 0.5 * x.mean(0).detach()
            return self.layer(x - x.mean(0))
        return self.layer(x - self.mean)


class HalfFrozen(nn.Sequential):
    """A frozen layer and a frozen batch normalisation, and a layer that is trained."""

    def __init__(self):
        super().__init__(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3))
        self[0].requires_grad_(False)
        self[1].requires_grad_(False)


class Regressor(nn.Sequential):
    """Two outputs."""

    def __init__(self, outputs=2):
        super().__init__(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, outputs))


def focal(scores, y):
    """Return the focal loss with γ = 2 of each example."""
    log = functional.log_softmax(scores, 1).gather(1, y[:, None])[:, 0]
    return -((1 - log.exp()) ** 2) * log


def pinball(scores, y):
    """Return the quantile loss at 0.8, the mean over the outputs."""
    error = y - scores
    return torch.maximum(0.8 * error, -0.2 * error).mean(1)


def mean_focal(scores, y):
    return focal(scores, y).mean()


def by_output(scores, y):
    return (scores - y).square()


def in_context(scores, y):
    """Return losses that depend on the rest of the batch."""
    return (focal(scores, y) - focal(scores, y).mean()).abs()


def broken(scores, y):
    raise RuntimeError("no such loss")
