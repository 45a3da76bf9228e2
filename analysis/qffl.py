"""Table 1 of "Fair Resource Allocation in Federated Learning": q-FFL on Synthetic(1,1) and Shakespeare.

python analysis/qffl.py runs/qffl_synthetic-001 runs/qffl_synthetic-002 --out plots
"""

from __future__ import annotations

from collections.abc import Mapping

import drawing
import pandas as pd
from matplotlib.figure import Figure
from reproduction import Experiment, Order, Part, Published, Row, forms
from script import run_script

from netfl.results.run_reader import Run

PAPER = "Fair Resource Allocation in Federated Learning"
SPLITS = {f"split {split}": Part("paper/qffl_synthetic", ("full",), {"data.split": split}) for split in range(5)}
METRICS = {
    "accuracy": ("accuracy over examples", 100.0, 1),
    "accuracy_users_worst10": ("worst 10 % of users", 100.0, 1),
    "accuracy_users_best10": ("best 10 % of users", 100.0, 1),
    "accuracy_users_variance": ("variance over users", 1e4, 0),
}
SYNTHETIC = {"q = 0": ((80.8, 0.9), (18.8, 5.0), (100.0, 0.0), (724, 72)),
             "q = 1": ((79.0, 1.2), (31.1, 1.8), (100.0, 0.0), (472, 14))}  # fmt: skip
PLAYS = {"q = 0": ((51.1, 0.3), (39.7, 2.8), (72.9, 6.7), (82, 41)),
         "q = 0.001": ((52.1, 0.3), (42.1, 2.1), (69.0, 4.4), (54, 27))}  # fmt: skip
"""Mean and standard deviation of each metric over five splits."""


def rows(parts: tuple[str, ...], table: Mapping[str, tuple[tuple[float, float], ...]], prefix: str = "") -> list[Row]:
    """Return the metrics of each learner with the published values; rows with a *prefix* have no published values."""
    return [
        Row(
            f"{prefix}{label}, {learner}",
            parts,
            learner,
            metric,
            None if prefix else Published(*published[place]),
            scale,
            digits,
        )
        for place, (metric, (label, scale, digits)) in enumerate(METRICS.items())
        for learner, published in table.items()
    ]


def orders(parts: tuple[str, ...], less: str, more: str) -> list[Order]:
    """Return the claims of less variance and a better worst tenth with the larger q."""
    worst, variance = "accuracy_users_worst10", "accuracy_users_variance"
    return [
        Order(f"variance lower with {more} than with {less}", parts, variance, less, more, scale=1e4, digits=0),
        Order(f"worst 10 % higher with {more} than with {less}", parts, worst, more, less),
    ]


def draw(runs: Mapping[str, Run], figure: Figure) -> None:
    """Draw accuracy, the worst tenth and the variance over rounds, with bands over splits."""
    tables = [run.metrics.assign(replica=index) for index, run in enumerate(runs.values())]
    metrics = pd.concat(tables, ignore_index=True).astype({"learner": str, "metric": str, "group": str})
    shown = ("accuracy", "accuracy_users_worst10", "accuracy_users_variance")
    axes = drawing.row(figure, {METRICS[name][0]: (metrics, name) for name in shown}, (*SYNTHETIC,), sharey=False)
    for ax, unit in zip(axes, ("%", "%", "share²"), strict=True):
        ax.set_ylabel(unit)


EXPERIMENTS = (
    Experiment(
        name="qffl_synthetic",
        title="q-FFL on Synthetic(1,1)",
        paper=PAPER,
        source="Table 1",
        claim=(
            "A hundred users have data of different distributions, and ten participate in each round. With q = 1 the "
            "variance of the users' accuracies falls, and the accuracy of the worst tenth of the users rises. Overall "
            "accuracy stays about the same."
        ),
        parts=SPLITS,
        rows=rows((*SPLITS,), SYNTHETIC),
        orders=orders((*SPLITS,), "q = 0", "q = 1"),
        remarks=lambda results: (
            "The paper does not publish its draw of the data. Ours is another draw from the same distribution, and the "
            "five splits divide it into training and test examples. The paper's text and its table of the data "
            "disagree on the spread of the users' sizes. We chose the spread that gives the mean and the standard "
            "deviation of the table."
        ),
        draw=draw,
    ),
    Experiment(
        name="qffl_shakespeare",
        title="q-FFL on Shakespeare",
        paper=PAPER,
        source="Table 1",
        claim=(
            "The learners predict the next letter of 31 roles. With q = 0.001 the roles differ less, and the accuracy "
            "of the worst tenth rises a little."
        ),
        parts=forms("paper/qffl_shakespeare"),
        rows=[*rows(("full",), PLAYS), *rows(("quick",), PLAYS, "quick: ")],
        remarks=lambda results: (
            "Our text is another edition than that of the paper. The roles are the draw whose sizes are nearest to "
            "those of the paper. The full experiment takes some processor-days and has not been run yet because it "
            "needs a GPU. The quick form has fewer LSTM cells and an eighth of each role's text. It cannot show a "
            "difference as small as the published one."
        ),
        orders=[*orders(("full",), "q = 0", "q = 0.001"), *orders(("quick",), "q = 0", "q = 0.001")],
    ),
)

if __name__ == "__main__":
    run_script(EXPERIMENTS, __doc__)
