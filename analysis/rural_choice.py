"""Print what the theory says of data and model of the scenario `rural_outage`, from the data alone.

    python analysis/rural_choice.py

The users of one block see digits turned by 180 degrees, those of another alone hold digits 8 and 9, and a linear model
with weight decay is all that there is.  Its loss is convex: the optimum for each weight of the blocks follows from the
examples, without a network, a learner or a run.  docs/background/cvar.md says which rule gives which weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from netfl.learning.blocks import turned
from netfl.learning.data.digits import Digits
from netfl.streams import Streams
from netfl.types import Floats, Ints

RARE = (8, 9)
WEIGHT_DECAY = 1e-3
BLOCKS = 9  # the examples of the block in conflict are one of so many equal parts of the common ones: 3 of 27 users
WEIGHTS = ((0.03, 0.025), (0.1, 0.1), (0.2, 0.1), (0.3, 0.2), (0.45, 0.2))
"""Weights of the blocks in conflict and in absence.  The first are those of FedAvg, the second 1/N."""

Examples = tuple[Floats, Ints]


def mean_loss(theta: Floats, examples: Examples) -> tuple[float, Floats]:
    """Return the cross-entropy of a linear model on *examples*, and its gradient, ``[65, 10]``."""
    x, y = examples
    inputs = np.column_stack([x, np.ones(len(x))])
    scores = inputs @ theta
    scores -= scores.max(axis=1, keepdims=True)
    shares = np.exp(scores)
    shares /= shares.sum(axis=1, keepdims=True)
    loss = -np.log(shares[np.arange(len(y)), y]).mean()
    shares[np.arange(len(y)), y] -= 1.0
    return float(loss), inputs.T @ shares / len(y)


def optimum(parts: Sequence[Examples], weights: Sequence[float]) -> Floats:
    """Return the parameters, ``[65, 10]``, of the smallest weighted sum of the losses on *parts*."""

    def objective(flat: Floats) -> tuple[float, Floats]:
        theta = flat.reshape(65, 10)
        value, gradient = WEIGHT_DECAY / 2 * float(flat @ flat), WEIGHT_DECAY * theta
        for part, weight in zip(parts, weights, strict=True):
            loss, slope = mean_loss(theta, part)
            value += weight * loss
            gradient = gradient + weight * slope
        return value, gradient.ravel()

    found = minimize(objective, np.zeros(650), jac=True, method="L-BFGS-B", options={"maxiter": 1000})
    return np.asarray(found.x).reshape(65, 10)


def flatten(images: NDArray[np.float32]) -> Floats:
    """Return images as rows of pixels, ``[images, 64]``."""
    return images.reshape(len(images), 64).astype(float)


def main() -> None:
    """Print the losses of the others and of both blocks at the optimum of each pair of weights."""
    data = Digits().load(Streams(3))
    order = np.random.default_rng(0).permutation(len(data.train_y))
    is_rare = np.isin(data.train_y[order], RARE)
    common, rare = order[~is_rare], order[is_rare]
    in_conflict = common[: len(common) // BLOCKS]
    others = common[len(common) // BLOCKS :]
    parts = [
        (flatten(data.train_x[others]), data.train_y[others]),
        (flatten(turned(data.train_x[in_conflict], 2)), data.train_y[in_conflict]),
        (flatten(data.train_x[rare]), data.train_y[rare]),
    ]
    print("weights: conflict, absence | loss: others, conflict, absence")
    for conflict, absence in WEIGHTS:
        theta = optimum(parts, (1 - conflict - absence, conflict, absence))
        losses = "  ".join(f"{mean_loss(theta, part)[0]:.2f}" for part in parts)
        print(f"{conflict:.3f}  {absence:.3f} | {losses}", flush=True)


if __name__ == "__main__":
    main()
