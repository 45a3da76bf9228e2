"""How well models do on all that users hold: the loss F_k of a version for user k."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture
    from netfl.learning.user_data import UserDatasets


def user_losses(
    network: Architecture, pool: UserDatasets, replica: int, users: NDArray[np.int64], models: Tensor
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
    for part, x, y in pool.examined(rows):
        stack.scores(x.expand(count, *x.shape))
        losses[:, part] = stack.losses(y.expand(count, -1)).cpu().double().numpy()
    return np.asarray((np.add.reduceat(losses, np.cumsum(sizes) - sizes, axis=1) / sizes).T)
