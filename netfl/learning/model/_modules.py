"""Recurrent and residual networks as PyTorch modules.  Only the shapes of their parameters are used."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


class Recurrent(nn.Module):
    """The network as a PyTorch module."""

    def __init__(self, tokens: int, embedding: int, hidden: int, layers: int, classes: int) -> None:
        super().__init__()
        with torch.device("meta"):
            self.embedding = nn.Embedding(tokens, embedding)
            self.cells = nn.LSTM(embedding, hidden, layers, batch_first=True)
            self.last = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores of the tokens that follow rows ``[batch, length]``."""
        outputs, _ = self.cells(self.embedding(x))
        return torch.as_tensor(self.last(outputs[:, -1]))


class StepByStep(Recurrent):
    """The same network by matrix products, which `vmap` supports; it takes twice as long on a CPU."""

    def forward(self, x: Tensor) -> Tensor:
        values = self.embedding(x)
        for layer in range(self.cells.num_layers):
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            of_inputs, of_hidden, *biases = (getattr(self.cells, f"{name}_l{layer}") for name in names)
            sums = values @ of_inputs.T + sum(biases)  # of all tokens at once, [batch, length, 4 hidden]
            cell = hidden = torch.zeros_like(sums[:, 0, : self.cells.hidden_size])  # c and h, [batch, hidden]
            outputs = []
            for of_token in sums.unbind(1):
                i, f, g, o = (of_token + hidden @ of_hidden.T).chunk(4, -1)
                cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()  # c⁺ = σ(f) c + σ(i) tanh(g)
                hidden = o.sigmoid() * cell.tanh()  # h⁺ = σ(o) tanh c⁺
                outputs.append(hidden)
            values = torch.stack(outputs, 1)
        return torch.as_tensor(self.last(values[:, -1]))


class Residual(nn.Module):
    """A convolution, a block for each two neighbours of *widths*, the mean over the image, and a linear layer."""

    def __init__(self, channels: int, widths: Sequence[int], groups: int, classes: int) -> None:
        super().__init__()
        with torch.device("meta"):
            self.first = _normalized_convolution(channels, widths[0], groups, 3, 1)
            self.blocks = nn.ModuleList(_Block(into, out, groups) for into, out in pairwise(widths))
            self.last = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores."""
        x = self.first(x).relu()
        for block in self.blocks:
            x = block(x)
        return torch.as_tensor(self.last(x.mean((2, 3))))


class _Block(nn.Module):
    """Two convolutions and a shortcut; a block that adds channels halves rows and columns."""

    def __init__(self, into: int, out: int, groups: int) -> None:
        super().__init__()
        stride = 1 if into == out else 2
        self.first = _normalized_convolution(into, out, groups, 3, stride)
        self.second = _normalized_convolution(out, out, groups, 3, 1)
        self.shortcut = nn.Identity() if into == out else _normalized_convolution(into, out, groups, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x).relu()
        return torch.as_tensor((self.second(hidden) + self.shortcut(x)).relu())


def _normalized_convolution(into: int, out: int, groups: int, kernel: int, stride: int) -> nn.Module:
    convolution = nn.Conv2d(into, out, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.GroupNorm(groups, out))
