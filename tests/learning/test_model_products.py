"""How many multiplications a model takes, against PyTorch's own count of them."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from netfl.learning.model._convolution import Convolutional, Shape
from netfl.learning.model._residual import Residual
from netfl.learning.model.cnn import Cnn
from netfl.learning.model.logistic import Logistic
from netfl.learning.model.lstm import Lstm
from netfl.learning.model.mlp import Mlp
from netfl.learning.model.resnet8 import Resnet8


def counted(module, x):
    """Multiplications of matrices and convolutions on the way forward: half of the operations."""
    with FlopCounterMode(display=False) as counter:
        module(x)
    return counter.get_total_flops() // 2


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (2, 17, 23)])
def test_convolutions(shape):
    model = Cnn(channels=[6, 16], kernel=5, padding=2, hidden=[120, 84])
    module = Convolutional(Shape(model._windows(shape), 2, model._sizes(shape, 10), "relu"))
    expected = counted(module.to_empty(device="cpu"), torch.zeros(1, *shape))
    assert model.multiplications(shape, 10) == expected


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 17, 23)])
def test_residual_blocks(shape):
    model = Resnet8(width=8, groups=4)
    module = Residual(shape[0], model._widths, 4, 7).to_empty(device="cpu")
    assert model.multiplications(shape, 7) == counted(module, torch.zeros(1, *shape))


def test_dense_layers_have_one_for_each_weight():
    assert Mlp(hidden=[32]).multiplications((8, 8), 10) == Mlp(hidden=[32]).parameters((8, 8), 10)
    assert Logistic().multiplications((784,), 10) == 785 * 10


def test_cells_are_seen_at_every_token():
    """Each weight of a cell once for each token, with the biases, which hardly count."""
    model = Lstm(embedding=8, hidden=64, layers=2)
    weights = 4 * 64 * (8 + 64) + 4 * 64 * (64 + 64)
    found = model.multiplications((80,), 80, 80)
    assert 80 * weights + 64 * 80 < found < 1.05 * (80 * weights + 64 * 80)
