"""Long short-term memory in PyTorch's own words, and step by step."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Recurrent(nn.Module):
    """Embedding, cells and last layer."""

    def __init__(self, tokens: int, embedding: int, hidden: int, layers: int, classes: int) -> None:
        super().__init__()
        with torch.device("meta"):
            self.embedding = nn.Embedding(tokens, embedding)
            self.cells = nn.LSTM(embedding, hidden, layers, batch_first=True)
            self.last = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        """The scores of what follows rows of tokens, ``[batch, length]``."""
        said, _ = self.cells(self.embedding(x))
        return torch.as_tensor(self.last(said[:, -1]))


class StepByStep(Recurrent):
    """The same by matrix products, which can be batched over models; on a processor that takes twice as long."""

    def forward(self, x: Tensor) -> Tensor:
        """The scores."""
        said = self.embedding(x)
        for layer in range(self.cells.num_layers):
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            inner, recurrent, *biases = (getattr(self.cells, f"{name}_l{layer}") for name in names)
            sums = said @ inner.T + sum(biases)
            cell = heard = torch.zeros_like(sums[:, 0, : self.cells.hidden_size])
            outputs = []
            for at_once in sums.unbind(1):
                i, f, g, o = (at_once + heard @ recurrent.T).chunk(4, -1)
                cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
                heard = o.sigmoid() * cell.tanh()
                outputs.append(heard)
            said = torch.stack(outputs, 1)
        return torch.as_tensor(self.last(said[:, -1]))
