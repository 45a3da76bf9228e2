"""The one picture of a run."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netfl.report import canvas, measures, phrases, plots_access, plots_learning, tallies, words
from netfl.report.view import RunData, read_view
from netfl.results import formatting, statistics
from netfl.results.run_reader import Run

_LINES = 12
"""How many figures there is room for below each other."""

_ACROSS = 6
"""How many learners there is room for beside each other."""


def picture(run: Run) -> Path:
    """Write ``overview.png`` into the run directory: learning above, who was heard and what became of updates below.

    A run without learners has only the lower half.
    """
    view = read_view(run)
    lines = 2 if view.learners else 1

    def paint(figure: Figure) -> None:
        parts = figure.subfigures(lines, 1, squeeze=False)[:, 0]
        cells = [part.subplots(1, 2) for part in parts]
        figure.suptitle(view.name, x=0.012, ha="left", fontweight="bold", fontsize=13)
        figure.text(0.988, 0.985, words.run_facts(view), ha="right", va="top", fontsize=8, alpha=0.7)
        figure.supxlabel(_legend(view), x=0.012, ha="left", fontsize=7, alpha=0.7)
        if view.learners:
            _learning(view, *cells[0])
            plots_learning.learner_legend(
                parts[0], view.learners, lost=view.lost, loc="outside upper left", ncols=_ACROSS, fontsize=8
            )
        _access(view, *cells[-1])

    return canvas.png(paint, run.folder / "overview.png", size=(10.4, 3.3 * lines))


def _learning(view: RunData, first: Axes, second: Axes) -> None:
    """Accuracy and rare-class accuracy, or that of the worst served users where no class is rare."""
    metrics = [metric for metric in ("accuracy", "rare_accuracy", "accuracy_users_worst10") if view.has(metric)][:2]
    for metric, ax in zip(metrics, (first, second), strict=False):
        plots_learning.curves(view.metrics, metric, learners=view.learners, ax=ax)
        ax.set_title(_title(view, metric))
    for ax in (first, second)[len(metrics) :]:
        _absent(ax, "no figures")


def _legend(view: RunData) -> str:
    """What the lines and bands of the upper panels are."""
    widths = {
        measures.smoothing_window(view.metrics, metric) for metric in ("accuracy", "rare_accuracy") if view.has(metric)
    }
    wide = max(widths, default=1)
    thin = [f"thin lines: as evaluated, bold lines: mean of the last {wide} evaluations"] if wide > 1 else []
    band = [f"bands: 95 % t-interval over {len(view.replicas)} replicas"] if len(view.replicas) > 1 else []
    return "; ".join([*thin, *band]) if view.learners else ""


def _title(view: RunData, metric: str) -> str:
    """A panel's title."""
    if metric != "rare_accuracy" or not view.rare_classes:
        return (
            f"Test {plots_learning.label(metric)}"
            if metric == "accuracy"
            else plots_learning.label(metric).capitalize()
        )
    return f"Rare-class accuracy ({phrases.labels(view.rare_classes)})"


def _access(view: RunData, third: Axes, fourth: Axes) -> None:
    """Who was heard and what became of updates."""
    if view.duration_s is not None:
        _figures(view, third, fourth)
        return
    if view.one.empty or view.run.rounds.empty:
        _absent(third, "no rounds yet")
    else:
        plots_access.heard(view.one, ax=third)
        third.set_title("Who was heard" + (f" in replica {view.first}" if len(view.replicas) > 1 else ""))
    if view.fates.empty or view.run.rounds.empty:
        _absent(fourth, "no fates were recorded")
    else:
        plots_access.fate_areas(
            tallies.outcome_bins(view.fates, view.rounds, len(view.replicas)), inside=True, ax=fourth
        )
        fourth.set_title("What became of updates")
        fourth.set_ylabel("updates per round")


def _figures(view: RunData, third: Axes, fourth: Axes) -> None:
    """What a run without updates has to show: its figures, in two columns."""
    names, summary = view.own_figures[: 2 * _LINES], view.run.summary
    if not names:
        _absent(third, "no figures yet")
        _absent(fourth, "")
        return
    half = min(_LINES, -(-len(names) // 2))
    for ax, part in ((third, names[:half]), (fourth, names[half:])):
        ax.set_axis_off()
        for line, name in enumerate(part):
            value = formatting.format_metric(name, summary[name], summary.get(name + statistics.HALF))
            at_y = 1.0 - line / _LINES
            ax.text(0.0, at_y, formatting.metric_label(name), va="top", transform=ax.transAxes)
            ax.text(0.78, at_y, value, va="top", ha="right", fontweight="bold", transform=ax.transAxes)


def _absent(ax: Axes, why: str) -> None:
    """An empty panel that says why."""
    ax.set_axis_off()
    ax.text(0.5, 0.5, why, ha="center", va="center", transform=ax.transAxes, alpha=0.6)
