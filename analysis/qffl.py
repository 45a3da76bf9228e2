"""Table 1 of "Fair Resource Allocation in Federated Learning": q-FFL on Synthetic(1,1) and Shakespeare.

python analysis/qffl.py runs/qffl_synthetic-001 runs/qffl_synthetic-002 --out pictures
"""

from __future__ import annotations

from collections.abc import Mapping

import drawing
import pandas as pd
from matplotlib.figure import Figure
from reproduction import Experiment, Order, Part, Published, Row, forms
from script import script

from netfl.results.run_reader import Run

SPLITS = {f"split {split}": Part("paper/qffl_synthetic", ("full",), {"data.split": split}) for split in range(5)}
FIGURES = {
    "accuracy": ("accuracy over examples", 100.0, 1),
    "accuracy_users_worst10": ("worst 10 % of users", 100.0, 1),
    "accuracy_users_best10": ("best 10 % of users", 100.0, 1),
    "accuracy_users_variance": ("variance over users", 1e4, 0),
}
SYNTHETIC = {"q = 0": ((80.8, 0.9), (18.8, 5.0), (100.0, 0.0), (724, 72)),
             "q = 1": ((79.0, 1.2), (31.1, 1.8), (100.0, 0.0), (472, 14))}  # fmt: skip
PLAYS = {"q = 0": ((51.1, 0.3), (39.7, 2.8), (72.9, 6.7), (82, 41)),
         "q = 0.001": ((52.1, 0.3), (42.1, 2.1), (69.0, 4.4), (54, 27))}  # fmt: skip
"""Mean and deviation over five splits of each of the figures."""


def rows(parts: tuple[str, ...], table: Mapping[str, tuple[tuple[float, float], ...]], told: str = "") -> list[Row]:
    """The figures of each learner, beside published ones; without these in a run that is told apart by *told*."""
    return [
        Row(
            f"{told}{label}, {learner}",
            parts,
            learner,
            metric,
            None if told else Published(*figures[place]),
            scale,
            digits,
        )
        for place, (metric, (label, scale, digits)) in enumerate(FIGURES.items())
        for learner, figures in table.items()
    ]


def orders(parts: tuple[str, ...], less: str, more: str) -> list[Order]:
    """Less variance and a better worst tenth with the larger q."""
    worst, variance = "accuracy_users_worst10", "accuracy_users_variance"
    return [
        Order(f"variance lower with {more} than with {less}", parts, variance, less, more, scale=1e4, digits=0),
        Order(f"worst 10 % higher with {more} than with {less}", parts, worst, more, less),
    ]


def draw(runs: Mapping[str, Run], figure: Figure) -> None:
    """Accuracy, the worst tenth and the variance over rounds, with bands over splits."""
    tables = [run.metrics.assign(replica=index) for index, run in enumerate(runs.values())]
    metrics = pd.concat(tables, ignore_index=True).astype({"learner": str, "metric": str, "group": str})
    shown = ("accuracy", "accuracy_users_worst10", "accuracy_users_variance")
    axes = drawing.row(figure, {FIGURES[one][0]: (metrics, one) for one in shown}, (*SYNTHETIC,), sharey=False)
    for ax, unit in zip(axes, ("%", "%", "share²"), strict=True):
        ax.set_ylabel(unit)


EXPERIMENTS = (
    Experiment(
        name="qffl_synthetic",
        title="q-FFL on Synthetic(1,1)",
        source='Table 1 of "Fair Resource Allocation in Federated Learning"',
        claim=(
            "A hundred users with data of their own, ten a round.  With q = 1 the variance of the users' accuracies "
            "falls and the worst tenth is served better, while overall accuracy stays about the same."
        ),
        parts=SPLITS,
        rows=rows((*SPLITS,), SYNTHETIC),
        orders=orders((*SPLITS,), "q = 0", "q = 1"),
        remarks=lambda results: (
            "The paper's examples are one draw that it does not print; ours are another draw of the same law, and the "
            "five splits are splits of it.  The spread of the sizes is chosen to give the mean and the deviation of "
            "the paper's own table of its data, as that of its text does not."
        ),
        draw=draw,
    ),
    Experiment(
        name="qffl_shakespeare",
        title="q-FFL on Shakespeare",
        source='Table 1 of "Fair Resource Allocation in Federated Learning"',
        claim=(
            "The next letter, for 31 roles.  With q = 0.001 roles differ less, and the worst tenth is served a little "
            "better."
        ),
        parts=forms("paper/qffl_shakespeare"),
        rows=[*rows(("full",), PLAYS), *rows(("quick",), PLAYS, "quick: ")],
        remarks=lambda results: (
            "The text is another edition than theirs, and the roles are ours: the draw of roles whose sizes come "
            "nearest to theirs.  The whole experiment is some days of work for a processor and waits for a GPU.  The "
            "quick one has fewer cells and an eighth of each role's text; it cannot show a difference as small as the "
            "published one."
        ),
        orders=[*orders(("full",), "q = 0", "q = 0.001"), *orders(("quick",), "q = 0", "q = 0.001")],
    ),
)

if __name__ == "__main__":
    script(EXPERIMENTS, __doc__)
