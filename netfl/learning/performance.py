"""Metrics from the accuracies, errors and losses of models by class and by user.  This module does not import torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netfl.types import Bools, Floats

if TYPE_CHECKING:
    from netfl.learning.objective import Objective

NAMES = ("accuracy", "loss", "mse", "mae")
"""Metrics that are means over examples: accuracy and loss or, in a regression, loss and errors."""


def metric_on_set(metric: str, name: str) -> str:
    """Return the name of *metric* on the test set *name*.

    >>> metric_on_set("accuracy/class:9", "raw")
    'accuracy@raw/class:9'
    """
    metric, slash, group = metric.partition("/")
    return f"{metric}@{name}{slash}{group}"


def split_set(metric: str) -> tuple[str, str]:
    """Return a metric without its test set, and the test set, empty for that of the data.

    >>> split_set("accuracy@raw"), split_set("loss")
    (('accuracy', 'raw'), ('loss', ''))
    """
    metric, _, name = metric.partition("@")
    return metric, name


def split_group(metric: str) -> tuple[str, str]:
    """Return a metric without its group, and the group, empty for a metric of all examples.

    >>> split_group("accuracy@raw/class:9"), split_group("loss")
    (('accuracy@raw', 'class:9'), ('loss', ''))
    """
    metric, _, group = metric.partition("/")
    return metric, group


@dataclass(frozen=True, slots=True)
class UserPerformance:
    """Performance of models on groups of examples, such as those of a user or of a label.

    Args:
        means: means over the examples of each group by name, of `NAMES`, ``[lanes, groups]``; 0 for an empty group.
            ``accuracy`` is the share of correctly classified examples; ``mse`` and ``mae`` are the squared and the
            absolute error, averaged over the outputs.
        counts: number of examples of each group, or its weight, ``[lanes, groups]``.
    """

    means: Mapping[str, Floats]
    counts: Floats

    def whole(self) -> dict[str, Floats]:
        """Return the means over all groups, ``[lanes]``; NaN without examples."""
        total = self.counts.sum(1)
        means = {}
        for name, values in self.means.items():
            sums = (values * self.counts).sum(1)
            means[name] = _ratio(sums, total)
        return means

    def by_group(self) -> dict[str, Floats]:
        """Return the means of each group, ``[lanes, groups]``; NaN for an empty group."""
        return {name: np.where(self.counts > 0, values, np.nan) for name, values in self.means.items()}


def cvar(losses: Floats, rho: Floats, alpha: float) -> Floats:
    """Return the mean of the worst share *alpha* of the losses with probabilities *rho*, over the last axis.

    The conditional value at risk of a discrete distribution (Rockafellar and Uryasev); an atom at the edge is split.

    >>> cvar(np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.4, 0.1]), 0.2)
    array(3.)
    """
    order = np.argsort(-losses, axis=-1)  # the worst first
    worst = np.take_along_axis(losses, order, -1)
    mass = np.take_along_axis(np.broadcast_to(rho, losses.shape), order, -1)
    mass_of_worse = np.cumsum(mass, -1) - mass
    in_tail = np.clip(alpha - mass_of_worse, 0.0, mass)  # the mass that belongs to the worst share α
    return np.asarray((in_tail * worst).sum(-1) / in_tail.sum(-1))


def class_metrics(classes: UserPerformance, rare: Sequence[int]) -> Iterator[tuple[str, Floats]]:
    """Yield the metrics of the whole test set, of each class with examples, and of the *rare* classes together."""
    is_regression = "accuracy" not in classes.means
    by_class = classes.by_group()
    for name, whole in classes.whole().items():
        yield name, whole
        if is_regression:  # has no classes
            continue
        for label, of_class in enumerate(by_class[name].T):
            if not np.isnan(of_class).all():
                yield f"{name}/class:{label}", of_class
    if rare:
        labels = [*rare]
        accuracy = {"accuracy": classes.means["accuracy"][:, labels]}
        rare_classes = UserPerformance(accuracy, classes.counts[:, labels])
        yield "rare_accuracy", rare_classes.whole()["accuracy"]


def user_metrics(users: UserPerformance, prefix: str = "") -> Iterator[tuple[str, Floats]]:
    """Yield the metrics of each user, with *prefix* before the names; NaN for users without examples."""
    for name, values in users.by_group().items():
        for user, of_user in enumerate(values.T):
            yield f"{prefix}{name}/user:{user}", of_user


def own_metrics(users: UserPerformance, prefix: str) -> Iterator[tuple[str, Floats]]:
    """Yield the metrics of a model of each user's own: of each user, the mean over users, and that of the worst tenth.

    Each user with examples has the same weight.
    """
    has_examples = users.counts > 0
    rank = np.arange(has_examples.shape[1])
    tenth = np.maximum(has_examples.sum(1) // 10, 1)[:, None]
    for name, values in users.by_group().items():
        yield f"{prefix}{name}", _mean(values, has_examples)
        if name == "accuracy":
            rising = np.sort(values, 1)
            yield f"{prefix}{name}_worst10", _mean(rising, rank < tenth)
    yield from user_metrics(users, prefix)


def block_metrics(users: UserPerformance, members: Mapping[str, Bools]) -> Iterator[tuple[str, Floats]]:
    """Yield the metrics of each block of users; NaN for a block without examples.

    Args:
        users: performance of each user.
        members: which users are in each block, by its name, ``[lanes, users]``.
    """
    for block, is_member in members.items():
        of_block = UserPerformance(users.means, np.where(is_member, users.counts, 0.0))
        for name, values in of_block.whole().items():
            yield f"{name}/block:{block}", values


def accuracy_spread(users: UserPerformance) -> Iterator[tuple[str, Floats]]:
    """Yield statistics of the accuracies over the users with examples; none in a regression.

    The best and the worst 10 % are a tenth of the users, rounded down, and at least one.  The variance is that of
    accuracies in [0, 1].  Jain's index is ``(Σ a)² / (K Σ a²)``, which is 1 if all are equal.
    """
    if "accuracy" not in users.means:
        return
    accuracies = users.by_group()["accuracy"]
    has_examples = users.counts > 0
    count = has_examples.sum(1)
    mean = _mean(accuracies, has_examples)
    yield "accuracy_users_mean", mean

    rising = np.sort(accuracies, 1)  # users without examples, of NaN, come last
    rank = np.arange(accuracies.shape[1])
    end = count[:, None]
    tenth = np.maximum(count // 10, 1)[:, None]
    yield "accuracy_users_worst10", _mean(rising, rank < tenth)
    yield "accuracy_users_best10", _mean(rising, (rank >= end - tenth) & (rank < end))

    deviations = accuracies - mean[:, None]
    yield "accuracy_users_variance", _mean(deviations**2, has_examples)

    total = np.where(has_examples, accuracies, 0.0).sum(1)
    squares = np.where(has_examples, accuracies**2, 0.0).sum(1)
    all_are_zero = (count > 0) & (squares == 0)  # and so equal
    yield "accuracy_users_jain", np.where(all_are_zero, 1.0, _ratio(total**2, squares * count))


def objective_metrics(
    objectives: Sequence[Objective], users: UserPerformance, deliveries: Floats, t: Floats, levels: Sequence[float]
) -> Iterator[tuple[str, Floats]]:
    """Yield t, each lane's own objective, and for all lanes the CVaR at some levels.

    Args:
        objectives: of each lane.
        users: performance of each user; users without examples do not count.
        deliveries: of each user, ``[lanes, users]``; without any, the users have equal weights.
        t: ``[lanes]``.
        levels: α of the CVaR.
    """
    has_examples = users.counts > 0
    weights = np.where(has_examples, deliveries, 0.0)
    has_deliveries = weights.sum(1, keepdims=True) > 0
    weights = np.where(has_deliveries, weights, has_examples)
    rho = weights / np.maximum(weights.sum(1, keepdims=True), np.finfo(float).tiny)
    losses = users.means["loss"]
    yield "t", t
    values = np.full(len(t), np.nan)
    with np.errstate(invalid="ignore", over="ignore"):  # the losses of a lane that diverges are infinite
        for lane, (objective, tested) in enumerate(zip(objectives, has_examples, strict=True)):
            if tested.any():
                values[lane] = objective.value(losses[lane][tested], rho[lane][tested], float(t[lane]))
    yield "objective", values
    lanes = has_examples.any(1)
    for level in levels:
        values = np.full(len(t), np.nan)
        with np.errstate(invalid="ignore", over="ignore"):
            values[lanes] = cvar(losses[lanes], rho[lanes], level)
        yield f"cvar/alpha:{level:g}", values


def _mean(values: Floats, mask: Bools) -> Floats:
    """Return the mean of the *values* in *mask*, ``[lanes]``; NaN of none."""
    return _ratio(np.where(mask, values, 0.0).sum(1), mask.sum(1).astype(float))


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Divide *part* by *whole*; NaN for 0."""
    return np.divide(part, whole, out=np.full_like(part, np.nan), where=whole > 0)
