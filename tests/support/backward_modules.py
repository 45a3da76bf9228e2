"""Modules that have code in their backward pass, or keep something between batches, for rows of four numbers."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Checkpointed(nn.Module):
    """A hidden layer with gradient checkpointing, or without it."""

    def __init__(self, checkpointed=True, dropout=0.0, normed=False, reentrant=False):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.norm = nn.BatchNorm1d(8) if normed else nn.Identity()
        self.checkpointed, self.dropout, self.reentrant = checkpointed, dropout, reentrant

    def hidden(self, x):
        return functional.dropout(torch.tanh(self.norm(self.second(x))), self.dropout, self.training)

    def forward(self, x):
        if self.checkpointed:
            return self.last(checkpoint(self.hidden, self.first(x), use_reentrant=self.reentrant))
        return self.last(self.hidden(self.first(x)))


class CheckpointedDropout(nn.Module):
    """Only the dropout is repeated in the backward pass, which reads no parameter there."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)

    def drop(self, x):
        return functional.dropout(torch.tanh(x), 0.5, self.training)

    def forward(self, x):
        return self.last(checkpoint(self.drop, self.first(x), use_reentrant=False))


class ScaledBackward(nn.Sequential):
    """A hook of a module scales the gradient of its output by a parameter."""

    def __init__(self):
        super().__init__(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        self[2].register_full_backward_pre_hook(lambda layer, slope: (slope[0] * layer.weight.detach().mean(),))


class ClippedBackward(nn.Sequential):
    """A hook of a module clips the gradient of its output."""

    def __init__(self):
        super().__init__(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        self[2].register_full_backward_pre_hook(lambda _, slope: (slope[0].clamp(-1e-4, 1e-4),))


class NoisyBackward(nn.Sequential):
    """A hook of a module adds noise to the gradient of its output."""

    def __init__(self):
        super().__init__(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        self[2].register_full_backward_pre_hook(lambda _, slope: (slope[0] + 0.1 * torch.randn_like(slope[0]),))


class Hooked(nn.Sequential):
    """A hook on a parameter keeps its first row as it is."""

    def __init__(self):
        super().__init__(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        self[0].weight.register_hook(lambda slope: slope * (torch.arange(8) > 0)[:, None])


class HookedAfter(nn.Sequential):
    """A hook after the accumulation of a gradient removes it."""

    def __init__(self):
        super().__init__(nn.Linear(4, 3))
        self[0].bias.register_post_accumulate_grad_hook(lambda parameter: parameter.grad.zero_())


class Closed(nn.Module):
    """Forward reads a parameter from a closure."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        weight = self.layer.weight
        self.score = lambda x: x @ weight.T

    def forward(self, x):
        return self.score(x) + self.layer.bias


class Remembering(nn.Module):
    """A recurrent layer that goes on where the last batch ended."""

    def __init__(self):
        super().__init__()
        self.cells, self.last = nn.GRU(1, 5, batch_first=True), nn.Linear(5, 3)
        self.hidden = None

    def forward(self, x):
        outputs, self.hidden = self.cells(x[:, :, None], self.hidden)
        return self.last(outputs[:, -1])


class Annealed(nn.Module):
    """The temperature falls with each batch in training."""

    def __init__(self):
        super().__init__()
        self.layer, self.batches = nn.Linear(4, 3), []

    def forward(self, x):
        if self.training:
            self.batches.append(len(x))
        return self.layer(x) * (1 + len(self.batches))


class Recurrent(nn.Module):
    """A recurrent layer."""

    def __init__(self):
        super().__init__()
        self.cells, self.last = nn.GRU(1, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x):
        return self.last(self.cells(x[:, :, None])[0][:, -1])


class TiedRows(nn.Module):
    """Two layers with one weight."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.last(torch.tanh(self.second(torch.tanh(self.first(x)))))


class Attention(nn.Module):
    """Self-attention over the four numbers, and a layer norm."""

    def __init__(self):
        super().__init__()
        self.inputs, self.last = nn.Linear(1, 8), nn.Linear(8, 3)
        self.attention, self.norm = nn.MultiheadAttention(8, 2, batch_first=True), nn.LayerNorm(8)

    def forward(self, x):
        tokens = self.inputs(x[:, :, None])
        return self.last(self.norm(tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]).mean(1))


class WeightNormed(nn.Sequential):
    """A layer whose weight is a length times a direction."""

    def __init__(self):
        super().__init__(nn.utils.parametrizations.weight_norm(nn.Linear(4, 8)), nn.Tanh(), nn.Linear(8, 3))
