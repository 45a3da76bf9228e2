"""Pictures of what was learned."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pandas as pd
from matplotlib.axes import Axes

from netfl.report import measures, plots_learning, tallies
from netfl.report.measures import Over


def curves(
    metrics: pd.DataFrame,
    metric: str = "accuracy",
    *,
    group: str = "",
    over: Over = "round",
    rounds: pd.DataFrame | None = None,
    learners: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """A metric of each learner, the mean over replicas with its 95 % t-interval.

    Args:
        metrics: `Run.metrics`.
        metric: which metric; accuracies are drawn in percent.
        group: which group of it, such as ``class:9``.
        over: rounds, simulated ``time``, ``bits`` sent up, or ``energy`` spent by the users.
        rounds: `Run.rounds`, for bits and energy.
        learners: whose, in the order of their colours.
        ax: where to draw.

    Raises:
        ValueError: bits or energy without *rounds*.
    """
    shown = _learners(metrics, learners)
    if over in ("bits", "energy"):
        if rounds is None:
            raise ValueError(f"over={over!r} needs the table of rounds: rounds=run.rounds")
        metrics = measures.with_cost(metrics, rounds)
    ax = plots_learning.curves(metrics, metric, group=group, over=over, learners=shown, ax=ax)
    plots_learning.learner_legend(ax, shown)
    return ax


def class_accuracy(
    metrics: pd.DataFrame,
    *,
    rare: Collection[int] = (),
    learners: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Learners × classes: accuracy in percent, the mean over the last tenth of the rounds and over replicas.

    Args:
        metrics: `Run.metrics`.
        rare: classes that are marked.
        learners: the rows.
        ax: where to draw.
    """
    return plots_learning.class_heat(metrics, learners=_learners(metrics, learners), rare=rare, ax=ax)


def user_accuracy(metrics: pd.DataFrame, *, learners: Sequence[str] | None = None, ax: Axes | None = None) -> Axes:
    """How accuracy is spread over users: the share of users with at most so much, for each learner.

    Args:
        metrics: `Run.metrics`; figures are means over the last tenth of the rounds.
        learners: whose, in the order of their colours.
        ax: where to draw.
    """
    shown = _learners(metrics, learners)
    ax = plots_learning.user_spread(measures.grouped_final_metrics(metrics, "accuracy", "user"), learners=shown, ax=ax)
    plots_learning.learner_legend(ax, shown)
    return ax


def user_scatter(
    metrics: pd.DataFrame,
    users: pd.DataFrame,
    deliveries: pd.DataFrame,
    *,
    rare: Collection[int] = (),
    learners: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """How well each user is served against how often it was heard; rings are users who hold a rare class.

    Args:
        metrics: `Run.metrics`.
        users: `Run.users`.
        deliveries: `Run.deliveries`.
        rare: the rare classes.
        learners: whose, in the order of their colours.
        ax: where to draw.
    """
    shown = _learners(metrics, learners)
    rows = measures.grouped_final_metrics(metrics, "accuracy", "user").rename(columns={"number": "user"})
    known = tallies.with_delivery_counts(users, deliveries, rare)
    rows = rows.merge(known[["replica", "user", "heard", "rare"]], on=["replica", "user"])
    ax = plots_learning.user_scatter(rows, learners=shown, ax=ax)
    plots_learning.learner_legend(ax, shown)
    return ax


def regions(
    grid: pd.DataFrame, points: pd.DataFrame, learner: str, *, rare: Collection[int] = (), ax: Axes | None = None
) -> Axes:
    """For data in the plane: what a learner predicts where; test points of rare classes are crosses.

    Args:
        grid: `Run.regions`.
        points: `Run.points`.
        learner: whose predictions.
        rare: the rare classes.
        ax: where to draw.
    """
    return plots_learning.regions(grid[grid["learner"] == learner], points, rare=rare, ax=ax)


def _learners(metrics: pd.DataFrame, asked: Sequence[str] | None) -> list[str]:
    """The learners to draw: those asked for, or all in the order of the table."""
    return [*asked] if asked is not None else metrics["learner"].astype(str).drop_duplicates().tolist()
