"""What the chapters on learning tell besides accuracies: fairness over users, costs of targets, what was asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

from netfl.report import markup, phrases, plots_heat, plots_learning
from netfl.report.view import RunData
from netfl.results import statistics
from netfl.results.formatting import format_parts, metric_cell

FAIRNESS = {
    "accuracy": "Over data",
    "accuracy_users_mean": "Over users",
    "accuracy_users_worst10": "Worst 10 %",
    "accuracy_users_best10": "Best 10 %",
    "accuracy_users_variance": "Variance",
}
"""The columns of the table of fairness, by metric."""

COSTS = {
    "rounds": "round {}",
    "time_s": "{}",
    "uplink_bits": "{} up",
    "downlink_bits": "{} down",
    "energy_J": "{}",
}
"""What it took to reach a target, by the name of the figure, and how that is told."""

BESIDES = {
    "validation_accuracy": "validation accuracy (%)",
    "validation_loss": "validation loss",
    "weight_divergence": "weight divergence",
    "gradient_norm": "gradient norm",
    "staleness_mean": "staleness",
}
"""Figures that are drawn over the rounds where they were asked for."""


def fairness(view: RunData) -> Iterator[str]:
    """Learners × how accuracy spreads over users, as in the table of Li et al. (q-FFL)."""
    if not all(view.has(metric) for metric in FAIRNESS):
        return
    found = {metric: view.final(metric) for metric in FAIRNESS}
    rows = [[name, *(_final(view, found[metric], metric, name) for metric in FAIRNESS)] for name in view.learners]
    spread = f" {statistics.name_spread(len(view.replicas))}." if len(view.replicas) > 1 else ""
    caption = (
        "Fairness: the average of test accuracy over data points and over users, the means of the worst and the best "
        f"10 % of the users, and the variance over users. In percent, the variance in its square; each value is the "
        f"{statistics.FINAL[statistics.LAST_TENTH]}.{spread}"
    )
    yield markup.table(["Learner", *FAIRNESS.values()], rows, caption)


def target_table(view: RunData) -> Iterator[str]:
    """Learners × targets: what it took to reach each."""
    costs = view.costs.dropna(subset="value")
    if view.costs.empty:
        return
    known = {key: own.groupby("cost")["value"].mean() for key, own in costs.groupby(["learner", "target"])}
    reached = costs[costs["cost"] == "rounds"].groupby(["learner", "target"]).size()
    learners, targets = (list(view.costs[name].unique()) for name in ("learner", "target"))
    nothing: pd.Series[float] = pd.Series(dtype=float)
    rows = []
    for learner in learners:
        cells = []
        for target in targets:
            told = known.get((learner, target), nothing)
            lines = [shown.format(_mean(name, told[name])) for name, shown in COSTS.items() if name in told]
            if 0 < reached.get((learner, target), 0) < len(view.replicas):
                lines.append(f"{reached[learner, target]} of {len(view.replicas)} replicas")
            cells.append("\n".join(lines) or "–")
        rows.append([learner, *cells])
    spread = ": means over the replicas that came to it" if len(view.replicas) > 1 else ""
    caption = (
        f"What it took to come to a test accuracy, at the first evaluation that finds no less{spread}. "
        "Sent is what all users send and are sent together. –: not reached."
    )
    yield markup.table(["Learner", *(f"{100 * float(target):g} %" for target in targets)], rows, caption)


def choice_table(view: RunData) -> Iterator[str]:
    """Choices × which learners they keep at the end."""
    told = view.metrics[view.metrics["metric"] == "chosen"]
    rows = []
    for name, choice in view.choices.items():
        own = told[told["learner"] == name]
        of, what = choice["of"], "users" if choice["per"] == "user" else "replicas"
        kept = own.loc[own["round"] == own["round"].max(), "value"].astype(int).value_counts(sort=False).sort_index()
        shares = [f"{of[place]} ({number} of {kept.sum()} {what})" for place, number in kept.items()]
        only = of[kept.index[0]] if len(kept) == 1 else ", ".join(shares)
        by = str(choice["by"]).replace("_", " ")
        rows.append([name, by, "each user its own" if what == "users" else "one for all", only or "–"])
    if rows:
        caption = "Choices among learners by their figures on validation examples, and whom they keep at the end"
        caption += "; users of all replicas are counted." if len(view.replicas) > 1 else "."
        yield markup.table(["Choice", "By", "For", "Keeps"], rows, caption)


def extra_metric_plots(view: RunData) -> Iterator[str]:
    """Over the rounds, what was asked for."""
    wanted = [metric for metric in BESIDES if view.has(metric)]
    if not wanted:
        return
    across = min(3, max(2, len(wanted)))
    deep = -(-len(wanted) // across)

    def paint(figure: Figure) -> None:
        cells = list(figure.subplots(deep, across, squeeze=False).flat)
        for ax in cells[len(wanted) :]:
            ax.set_axis_off()
        for metric, ax in zip(wanted, cells, strict=False):
            plots_learning.curves(view.metrics, metric, learners=view.learners, ax=ax)
            ax.set_ylabel(BESIDES[metric])
        plots_learning.learner_legend(figure, view.learners, lost=view.lost, loc="outside upper left", ncols=5)

    told = {
        "validation_accuracy": "Validation: on the validation examples, which are not trained on.",
        "weight_divergence": "Weight divergence: how far a version is from its central twin, in norms of the twin.",
        "gradient_norm": "Gradient norm: of the mean loss over all training examples.",
        "staleness_mean": "Staleness: how many versions behind the newest a delivery started, on average.",
    }
    caption = " ".join(told[metric] for metric in wanted if metric in told)
    yield markup.figure(paint, name="besides", caption=caption, size=(3.2 * across, 0.5 + 2.5 * deep))


def weight_plot(view: RunData) -> Iterator[str]:
    """How much a change of each user counts, where aggregations weigh users."""
    found = view.of_users("weight")
    if found.empty:
        return
    names = [name for name in view.learners if (found["learner"] == name).any()]
    rows = []
    for name in names:
        own = found.loc[found["learner"] == name, "value"]
        rows.append([name, *(f"{figure:.3g}" for figure in (own.min(), own.median(), own.max()))])

    def paint(figure: Figure) -> None:
        plots_learning.user_weights(found, learners=view.learners, ax=figure.add_subplot())

    caption = (
        "How much a change of each user counts at the end, where the aggregation weighs users, against how often the "
        f"user was heard: 1 is neither more nor less than others. Colours are those of {phrases.join_words(names)} "
        "above."
    )
    yield markup.figure(paint, name="weights", caption=caption, size=(6.4, 3.0))
    yield markup.table(["Learner", "Smallest weight", "Median", "Largest"], rows)


def user_heat(view: RunData) -> Iterator[str]:
    """Learners × users."""
    own = view.accuracy[view.accuracy["replica"] == view.first]
    if own.empty:
        return

    def paint(figure: Figure) -> None:
        plots_heat.user_heat(own, learners=view.learners, ax=figure.add_subplot())

    rare = " Users that hold a rare class are in bold orange." if own["rare"].any() else ""
    caption = f"Final accuracy on each user's own data.{rare}{view.which}"
    yield markup.figure(paint, name="user-heat", caption=caption, size=(9.6, 1.1 + 0.36 * own["learner"].nunique()))


def _final(view: RunData, found: dict[str, pd.Series[float]], metric: str, name: str) -> str:
    """A learner's final value of *metric* over replicas; a dash where it has none."""
    if name not in found:
        return "–"
    value = statistics.interval(found[name])
    return metric_cell(metric, value.mean, value.half, value.replicas, len(view.replicas))


def _mean(name: str, value: float) -> str:
    """The mean of a cost with its unit."""
    number, _, unit = format_parts(name, value)
    return f"{number} {unit}".strip()
