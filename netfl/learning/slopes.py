"""The gradient of the mean training loss of models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from netfl.learning.network import Network
    from netfl.learning.pool import Pool


def gradient_norms(network: Network, pool: Pool, replica: int, models: Tensor) -> NDArray[np.float64]:
    """``‖∇F‖`` of *models*, where F is the mean loss over all training examples of a replica's users, ``[models]``.

    A step of size 1 down the slope of some examples says what their part of the gradient is.  In float64, for the step
    is small beside the parameters.

    Args:
        network: what the models are parameters of.
        pool: the examples.
        replica: whose users' examples.
        models: ``[models, parameters]``.
    """
    rows, _ = pool.held(replica, np.arange(pool.sizes.shape[1]))
    theta, count = models.double(), len(models)
    slope, after = torch.zeros_like(theta), torch.empty_like(theta)
    for _, x, y in pool.examined(rows):
        stack, labels = network.open(theta), y.expand(count, -1)
        stack.scores(x.double().expand(count, *x.shape))
        stack.losses(labels)
        stack.descend(torch.full_like(labels, 1.0 / len(rows), dtype=theta.dtype))
        stack.store(after)
        slope += theta - after
    return np.asarray(torch.linalg.vector_norm(slope, dim=1).cpu().numpy())
