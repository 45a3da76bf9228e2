"""Figures of merit: from accuracies and losses by class and by user to what a report says of every lane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from netfl.learning.objective import Objective

Floats = NDArray[np.float64]

NAMES = ("accuracy", "loss")


@dataclass(frozen=True, slots=True)
class UserPerformance:
    """How well models do on groups of examples, such as those of a label or of a user.

    Args:
        accuracy: share of each group's examples that is labelled right, ``[lanes, groups]``; 0 for an empty group.
        loss: mean loss of each group's examples, alike.
        counts: how many examples each group has, or what it weighs among the others, alike.
    """

    accuracy: Floats
    loss: Floats
    counts: Floats

    def whole(self) -> tuple[Floats, Floats]:
        """Accuracy and mean loss over the examples of all groups, ``[lanes]``; NaN where there are none."""
        total = self.counts.sum(1)
        accuracy, loss = (_ratio((figures * self.counts).sum(1), total) for figures in (self.accuracy, self.loss))
        return accuracy, loss

    def shown(self) -> tuple[Floats, Floats]:
        """Accuracy and loss of each group, ``[lanes, groups]``; NaN where it is empty."""
        accuracy, loss = (np.where(self.counts > 0, figures, np.nan) for figures in (self.accuracy, self.loss))
        return accuracy, loss


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


def class_metrics(classes: UserPerformance, rare: Sequence[int]) -> Iterator[tuple[str, Floats]]:
    """Figures over the whole test set, of each class that it has examples of, and of the rare classes together.

    Args:
        classes: of each class.
        rare: the rare classes.
    """
    for name, whole, figures in zip(NAMES, classes.whole(), classes.shown(), strict=True):
        yield name, whole
        for label, column in enumerate(figures.T):
            if not np.isnan(column).all():
                yield f"{name}/class:{label}", column
    if rare:
        own = [*rare]
        yield (
            "rare_accuracy",
            UserPerformance(*(part[:, own] for part in (classes.accuracy, classes.loss, classes.counts))).whole()[0],
        )


def user_metrics(users: UserPerformance, prefix: str = "") -> Iterator[tuple[str, Floats]]:
    """Figures of each user; those without any have NaN.  *prefix* goes before the names."""
    for name, figures in zip(NAMES, users.shown(), strict=True):
        yield from ((f"{prefix}{name}/user:{user}", column) for user, column in enumerate(figures.T))


def accuracy_spread(users: UserPerformance) -> Iterator[tuple[str, Floats]]:
    """How accuracies spread over the users that have one.

    The best and the worst 10 % are the tenth of them, rounded down, and at least one user; the variance is that of
    accuracies in [0, 1], over all of them; Jain's index is ``(Σ a)² / (K Σ a²)``, which is 1 where all are equal.
    """
    there, figures = users.counts > 0, users.shown()[0]
    known = there.sum(1)
    ranked, place = np.sort(figures, 1), np.arange(there.shape[1])
    tenth, last = np.maximum(known // 10, 1)[:, None], known[:, None]
    mean = _mean(figures, there)
    total, squares = (np.where(there, part, 0.0).sum(1) for part in (figures, figures**2))
    yield "accuracy_users_mean", mean
    yield "accuracy_users_worst10", _mean(ranked, place < tenth)
    yield "accuracy_users_best10", _mean(ranked, (place >= last - tenth) & (place < last))
    yield "accuracy_users_variance", _mean((figures - mean[:, None]) ** 2, there)
    yield "accuracy_users_jain", np.where((known > 0) & (squares == 0), 1.0, _ratio(total**2, squares * known))


def objective_metrics(
    objectives: Sequence[Objective], users: UserPerformance, rho: Floats, t: Floats, levels: Sequence[float]
) -> Iterator[tuple[str, Floats]]:
    """t, each lane's own objective, and for all lanes the CVaR at some levels.

    Args:
        objectives: of each lane.
        users: of each user; those without figures do not count.
        rho: how often each user has been heard, ``[lanes, users]``; if none of those that count, they count alike.
        t: ``[lanes]``.
        levels: of the CVaR.
    """
    there = users.counts > 0
    weights = np.where(there, rho, 0.0)
    weights = np.where(weights.sum(1, keepdims=True) > 0, weights, there)
    shares = weights / np.maximum(weights.sum(1, keepdims=True), np.finfo(float).tiny)
    yield "t", t
    lanes = zip(objectives, users.loss, there, shares, t, strict=True)
    yield (
        "objective",
        np.array([one.value(f[own], p[own], float(at)) if own.any() else np.nan for one, f, own, p, at in lanes]),
    )
    some = there.any(1)
    for level in levels:
        found = np.full(len(t), np.nan)
        found[some] = cvar(users.loss[some], shares[some], level)
        yield f"cvar/alpha:{level:g}", found


def _mean(figures: Floats, counted: NDArray[np.bool_]) -> Floats:
    """The mean of those of *figures* that are *counted*, ``[lanes]``; NaN of none."""
    return _ratio(np.where(counted, figures, 0.0).sum(1), counted.sum(1).astype(float))


def _ratio(part: Floats, whole: Floats) -> Floats:
    """*part* of *whole*, NaN of nothing."""
    return np.divide(part, whole, out=np.full_like(part, np.nan), where=whole > 0)
