"""A residual network that normalises by groups, in PyTorch's own words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


class Residual(nn.Module):
    """A convolution, a block for each two neighbours of *widths*, the mean over the picture, a linear layer."""

    def __init__(self, channels: int, widths: Sequence[int], groups: int, classes: int) -> None:
        super().__init__()
        with torch.device("meta"):
            self.first = _normalised(channels, widths[0], groups, 3, 1)
            self.blocks = nn.ModuleList(_Block(into, out, groups) for into, out in pairwise(widths))
            self.last = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """The scores."""
        x = self.first(x).relu()
        for block in self.blocks:
            x = block(x)
        return torch.as_tensor(self.last(x.mean((2, 3))))


class _Block(nn.Module):
    """Two convolutions beside a shortcut; one that widens the picture halves its rows and columns."""

    def __init__(self, into: int, out: int, groups: int) -> None:
        super().__init__()
        stride = 1 if into == out else 2
        self.first = _normalised(into, out, groups, 3, stride)
        self.second = _normalised(out, out, groups, 3, 1)
        self.shortcut = nn.Identity() if into == out else _normalised(into, out, groups, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """What the next block sees."""
        found = self.second(self.first(x).relu()) + self.shortcut(x)
        return torch.as_tensor(found.relu())


def _normalised(into: int, out: int, groups: int, kernel: int, stride: int) -> nn.Module:
    """A convolution and the normalisation of what it gives."""
    convolution = nn.Conv2d(into, out, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.GroupNorm(groups, out))
