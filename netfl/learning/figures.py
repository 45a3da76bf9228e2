"""Figures of merit: from accuracies and losses by class and by user to what a report says of every lane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from netfl.learning.objective import Objective

Floats = NDArray[np.float64]


def cvar(losses: Floats, rho: Floats, alpha: float) -> Floats:
    """The mean of the worst share *alpha* of the losses, which have the probabilities *rho*; over the last axis.

    Rockafellar and Uryasev's CVaR of a discrete distribution, an atom at the edge being split.

    >>> cvar(np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.4, 0.1]), 0.2)
    array(3.)
    """
    order = np.argsort(-losses, axis=-1)
    worst = np.take_along_axis(losses, order, -1)
    mass = np.take_along_axis(np.broadcast_to(rho, losses.shape), order, -1)
    before = np.cumsum(mass, -1) - mass
    taken = np.clip(alpha - before, 0.0, mass)
    return np.asarray((taken * worst).sum(-1) / taken.sum(-1))


def over_classes(accuracy: Floats, loss: Floats, counts: Floats, rare: Sequence[int]) -> Iterator[tuple[str, Floats]]:
    """Figures over the whole test set, of each class, and of the rare classes together.

    Args:
        accuracy: share of each class's test examples that is labelled right, ``[lanes, classes]``.
        loss: mean cross-entropy of each class's test examples, ``[lanes, classes]``.
        counts: test examples of each class, ``[lanes, classes]``.
        rare: the rare classes.
    """
    shares = counts / counts.sum(1, keepdims=True)
    for name, figures in (("accuracy", accuracy), ("loss", loss)):
        yield name, (figures * shares).sum(1)
        yield from ((f"{name}/class:{label}", column) for label, column in enumerate(figures.T))
    if rare:
        own = counts[:, [*rare]]
        yield "rare_accuracy", (accuracy[:, [*rare]] * own).sum(1) / own.sum(1)


def over_users(accuracy: Floats, loss: Floats) -> Iterator[tuple[str, Floats]]:
    """Figures of each user, and how they spread over the users; both ``[lanes, users]``.

    A user's figure is the mean of the figures by class over the user's own mix of labels.  The best and the worst
    10 % are at least one user; the variance is that of accuracies in [0, 1], over all users; Jain's index is
    ``(Σ a)² / (K Σ a²)``, which is 1 where all are equal.
    """
    for name, figures in (("accuracy", accuracy), ("loss", loss)):
        yield from ((f"{name}/user:{user}", column) for user, column in enumerate(figures.T))
    users = accuracy.shape[1]
    tenth, ranked = max(1, users // 10), np.sort(accuracy, 1)
    squares = users * (accuracy**2).sum(1)
    yield "accuracy_users_mean", accuracy.mean(1)
    yield "accuracy_users_worst10", ranked[:, :tenth].mean(1)
    yield "accuracy_users_best10", ranked[:, -tenth:].mean(1)
    yield "accuracy_users_variance", accuracy.var(1)
    yield "accuracy_users_jain", np.where(squares > 0, accuracy.sum(1) ** 2 / np.where(squares > 0, squares, 1.0), 1.0)


def over_objectives(
    objectives: Sequence[Objective], loss: Floats, rho: Floats, t: Floats
) -> Iterator[tuple[str, Floats]]:
    """t, each lane's own objective, and for all lanes the CVaR at every level that one of them has.

    Args:
        objectives: of each lane.
        loss: mean losses of each user, ``[lanes, users]``.
        rho: shares of the deliveries so far, ``[lanes, users]``.
        t: ``[lanes]``.
    """
    yield "t", t
    lanes = zip(objectives, loss, rho, t, strict=True)
    yield "objective", np.array([one.value(f, own, float(at)) for one, f, own, at in lanes])
    levels: Mapping[float, None] = dict.fromkeys(level for one in objectives for level in one.levels)
    yield from ((f"cvar/alpha:{level:g}", cvar(loss, rho, level)) for level in sorted(levels))
