"""How well models do on all that users hold: the loss F_k of a version for user k."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from netfl.learning.tensors import tensor

if TYPE_CHECKING:
    from netfl.learning.network import Network
    from netfl.learning.training import Pool

_EXAMPLES_AT_ONCE = 1024


def held_losses(
    network: Network, pool: Pool, replica: int, users: NDArray[np.int64], models: Tensor
) -> NDArray[np.float64]:
    """The mean losses of *models* over all training examples that users hold, ``[users, models]``.

    Args:
        network: what the models are parameters of.
        pool: the examples.
        replica: where the users live.
        users: the users.
        models: ``[models, parameters]``.
    """
    rows, sizes = pool.held(replica, users)
    stack, count = network.open(models, trained=False), len(models)
    losses = np.empty((count, len(rows)))
    for start in range(0, len(rows), _EXAMPLES_AT_ONCE):
        part = tensor(rows[start : start + _EXAMPLES_AT_ONCE]).to(models.device)
        x = pool.x[part]
        stack.scores(x.expand(count, *x.shape))
        found = stack.losses(pool.y[part].expand(count, -1))
        losses[:, start : start + len(part)] = found.cpu().double().numpy()
    return np.asarray((np.add.reduceat(losses, np.cumsum(sizes) - sizes, axis=1) / sizes).T)
