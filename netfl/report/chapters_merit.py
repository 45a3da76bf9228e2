"""What the chapters on learning tell besides accuracies: fairness over users, costs of targets, what was asked for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netfl.figures import parts
from netfl.report import markup, plots_learning
from netfl.report.view import View

FAIRNESS = {
    "accuracy": ("Over data", 100.0),
    "accuracy_users_mean": ("Over users", 100.0),
    "accuracy_users_worst10": ("Worst 10 %", 100.0),
    "accuracy_users_best10": ("Best 10 %", 100.0),
    "accuracy_users_variance": ("Variance", 1e4),
}
"""The columns of the table of fairness, and what turns their figures into percent, or its square."""

COSTS = {
    "rounds": "Rounds",
    "time_s": "Time",
    "uplink_bits": "Sent up",
    "downlink_bits": "Sent down",
    "energy_J": "Spent",
}
"""What it took to reach a target, by the name of the figure."""

BESIDES = {
    "weight_divergence": "weight divergence",
    "gradient_norm": "gradient norm",
    "staleness_mean": "staleness",
}
"""Figures that are drawn over the rounds where they were asked for."""


def fairness(view: View) -> Iterator[str]:
    """Learners × how accuracy spreads over users, as in the table of Li et al. (q-FFL)."""
    if not all(view.has(metric) for metric in FAIRNESS):
        return
    found = {metric: view.final(metric) for metric in FAIRNESS}
    rows = [
        [
            name,
            *(
                _spread(scale * found[metric][name]) if name in found[metric] else "–"
                for metric, (_, scale) in FAIRNESS.items()
            ),
        ]
        for name in view.learners
    ]
    spread = " ± is the standard deviation over replicas." if len(view.replicas) > 1 else ""
    caption = (
        "Fairness: the average of test accuracy over data points and over users, the means of the worst and the best "
        f"10 % of the users, and the variance over users. In percent, the variance in its square.{spread}"
    )
    yield markup.table(["Learner", *(title for title, _ in FAIRNESS.values())], rows, caption)


def targets(view: View) -> Iterator[str]:
    """Learners and targets × what it took to reach them."""
    costs = view.costs
    if costs.empty:
        return
    there = {name: title for name, title in COSTS.items() if (costs["cost"] == name).any()}
    rows = []
    for (learner, target), own in costs.groupby(["learner", "target"], sort=False):
        known = {str(name): part["value"].dropna() for name, part in own.groupby("cost")}
        reached = len(known["rounds"])
        cells = [_mean(name, known.get(name)) for name in there]
        rows.append([str(learner), f"{100 * float(str(target)):g} %", f"{reached} of {len(view.replicas)}", *cells])
    caption = (
        "What it took to come to a test accuracy, at the first evaluation that finds no less: means over the replicas "
        "that came to it."
    )
    yield markup.table(["Learner", "Target", "Reached by", *there.values()], rows, caption)


def besides(view: View) -> Iterator[str]:
    """Over the rounds, what was asked for."""
    wanted = [metric for metric in BESIDES if view.has(metric)]
    if not wanted:
        return

    def paint(figure: Figure) -> None:
        row = figure.subplots(1, len(wanted), squeeze=False)[0]
        for metric, ax in zip(wanted, row, strict=True):
            plots_learning.curves(view.metrics, metric, learners=view.learners, ax=ax)
            ax.set_ylabel(BESIDES[metric])
        plots_learning.learner_legend(figure, view.learners, loc="outside upper left", ncols=5)

    told = {
        "weight_divergence": "Weight divergence: how far a version is from its central twin, in norms of the twin.",
        "gradient_norm": "Gradient norm: of the mean loss over all training examples.",
        "staleness_mean": "Staleness: how many versions behind the newest a delivery started, on average.",
    }
    caption = " ".join(told[metric] for metric in wanted)
    yield markup.figure(paint, name="besides", caption=caption, size=(3.2 * max(len(wanted), 2), 3.0))


def _spread(values: pd.Series[float]) -> str:
    """Mean and standard deviation over replicas."""
    known = values.dropna()
    if not len(known):
        return "no figure"
    told = f"{known.mean():.1f}"
    return told if len(known) < 2 else f"{told} ± {known.std():.1f}"


def _mean(name: str, values: pd.Series[float] | None) -> str:
    """The mean of a cost with its unit."""
    if values is None or not len(values):
        return "–"
    number, _, unit = parts(name, float(np.mean(values)))
    return f"{number} {unit}".strip()
