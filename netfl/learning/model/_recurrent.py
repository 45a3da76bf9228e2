"""Recurrent networks over tokens: by cuDNN or PyTorch's kernels, and step by step for `torch.func`."""

from __future__ import annotations

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
        """Return the scores."""
        values = self.embedding(x)
        for layer in range(self.cells.num_layers):
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            inner, recurrent, *biases = (getattr(self.cells, f"{name}_l{layer}") for name in names)
            sums = values @ inner.T + sum(biases)
            cell = hidden = torch.zeros_like(sums[:, 0, : self.cells.hidden_size])
            outputs = []
            for step in sums.unbind(1):
                i, f, g, o = (step + hidden @ recurrent.T).chunk(4, -1)
                cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
                hidden = o.sigmoid() * cell.tanh()
                outputs.append(hidden)
            values = torch.stack(outputs, 1)
        return torch.as_tensor(self.last(values[:, -1]))
