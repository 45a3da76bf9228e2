"""Table 1 of "Fair Resource Allocation in Federated Learning": q-FFL on Synthetic(1,1) and Shakespeare.

python analysis/qffl.py runs/qffl_synthetic-001 runs/qffl_synthetic-002 --out plots
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import drawing
import pandas as pd
from matplotlib.figure import Figure
from reproduction import Experiment, Order, Part, PlottedRun, Published, Result, Row, forms
from script import run_script

PAPER = "Fair Resource Allocation in Federated Learning"


def splits(
    scenario: str,
    blocks: tuple[str, ...],
    label: str = "",
    count: int = 5,
    changes: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, Part]:
    """Return the runs of some splits of the data into training and test examples; the paper has five."""
    return {
        f"{label}split {split}": Part(scenario, blocks, {"data.split": split, **(changes or {})}, **options)
        for split in range(count)
    }


def draws(blocks: tuple[str, ...], count: int, label: str = "", **options: Any) -> dict[str, Part]:
    """Return the runs of some draws of Synthetic(1,1)."""
    return {
        f"{label}draw {seed}": Part("paper/qffl_synthetic", blocks, {"data.seed": seed}, turn=1, **options)
        for seed in range(1, count + 1)
    }


HOURS = {
    "synthetic": 0.04,
    "uniform": 0.02,
    "device_q": 0.045,
    "efficiency": 0.003,
    "shakespeare": 80.0,
    "vehicle": 0.1,
    "sent140": 2.0,
}
"""Core-hours of a replica.

Those of Shakespeare follow from its 11 PFLOP at 40 GFLOPS. Those of Vehicle and Sent140 are guesses, because their data
are not here.
"""
DRAWS = draws(("full",), 20, core_hours=HOURS["synthetic"])
UNIFORM_DRAWS = draws(("full", "uniform"), 20, "uniform, ", core_hours=HOURS["uniform"])
"""Draws of the data. The published draw is one of these for us, since it is not known."""
EFFICIENCY = draws(("efficiency",), 5, core_hours=HOURS["efficiency"])
COUNT = 10
OF_ONE_DRAW: dict[str, Any] = {"count": COUNT, "published": False, "turn": 0}
DOWN = {"data.test_rounding": "down"}
BY_SIZE = {**DOWN, "learners.uniform.aggregation": "average"}
SPLITS = splits("paper/qffl_synthetic", ("full",), changes=DOWN, **OF_ONE_DRAW)
UNIFORM = splits("paper/qffl_synthetic", ("full", "uniform"), "uniform, ", changes=BY_SIZE, **OF_ONE_DRAW)
DEVICES = splits("paper/qffl_synthetic", ("full", "device_q"), changes=DOWN, **OF_ONE_DRAW)
"""Splits of one draw, with test shares rounded down, and with uniform draws of users weighted by size."""
ONE_DRAW = "splits of one draw: "
STEPS = ("q-FedSGD, lr 0.1", "q-FedSGD, lr 0.3", "q-FedSGD, lr 1")
CHOICE = "device-specific q"
FIFTH = "40 rounds"
METRICS = {
    "accuracy": ("accuracy over examples", 100.0, 1),
    "accuracy_users_worst10": ("worst 10 % of users", 100.0, 1),
    "accuracy_users_best10": ("best 10 % of users", 100.0, 1),
    "accuracy_users_variance": ("variance over users", 1e4, 0),
}
SYNTHETIC = {"q = 0": ((80.8, 0.9), (18.8, 5.0), (100.0, 0.0), (724, 72)),
             "q = 1": ((79.0, 1.2), (31.1, 1.8), (100.0, 0.0), (472, 14))}  # fmt: skip
UNIFORM_SAMPLING = {"uniform": ((82.2, 1.1), (30.0, 0.4), (100.0, 0.0), (525, 47))}
VEHICLE = {"q = 0": ((87.3, 0.5), (43.0, 1.0), (95.7, 1.0), (291, 18)),
           "q = 5": ((87.7, 0.7), (69.9, 0.6), (94.0, 0.9), (48, 5)),
           "device-specific q": ((88.5, 0.3), (70.0, 2.0), (95.8, 0.6), (52, 7))}  # fmt: skip
VEHICLE_UNIFORM = {"uniform": ((86.8, 0.3), (45.4, 0.3), (95.4, 0.7), (267, 7))}
TWEETS = {"q = 0": ((65.1, 4.8), (15.9, 4.9), (100.0, 0.0), (697, 132)),
          "q = 1": ((66.5, 0.2), (23.0, 1.4), (100.0, 0.0), (509, 30))}  # fmt: skip
TWEETS_UNIFORM = {"uniform": ((66.6, 2.6), (21.1, 1.9), (100.0, 0.0), (560, 19))}
PLAYS = {"q = 0": ((51.1, 0.3), (39.7, 2.8), (72.9, 6.7), (82, 41)),
         "q = 0.001": ((52.1, 0.3), (42.1, 2.1), (69.0, 4.4), (54, 27))}  # fmt: skip
"""Mean and standard deviation of each metric over five splits."""


def rows(
    parts: tuple[str, ...],
    table: Mapping[str, tuple[tuple[float, float], ...]],
    prefix: str = "",
    *,
    is_one_draw: bool = False,
) -> list[Row]:
    """Return the metrics of each learner with the published values.

    Args:
        parts: the runs.
        table: the published values.
        prefix: begins the labels; rows with a prefix have no published values.
        is_one_draw: whether the published splits are of one draw of the data, and our replicas are draws.
    """
    count = 1 if is_one_draw else 5
    basis = "1 draw, ± over 5 splits" if is_one_draw else "5 splits, SD"
    return [
        Row(
            f"{prefix}{label}, {learner}",
            parts,
            learner,
            metric,
            None if prefix else Published(*published[place], digits=digits, mean_of=count, basis=basis),
            scale,
            digits,
        )
        for place, (metric, (label, scale, digits)) in enumerate(METRICS.items())
        for learner, published in table.items()
    ]


def orders(
    parts: tuple[str, ...], less: str, more: str, against: tuple[str, ...] = (), prefix: str = ""
) -> list[Order]:
    """Return the claims of less variance and a better worst tenth with the larger q.

    Args:
        parts: the runs of the larger q.
        less: the learner with the larger variance.
        more: the learner with the larger q.
        against: the runs of the other learner, if they are not the same.
        prefix: begins the labels.
    """
    worst, variance = "accuracy_users_worst10", "accuracy_users_variance"
    reversed_parts = {"parts": against or parts, "against": parts if against else ()}
    labels = (f"variance lower with {more} than with {less}", f"worst 10 % higher with {more} than with {less}")
    lower, higher = (f"{prefix}{label}" for label in labels)
    return [
        Order(lower, metric=variance, above=less, below=more, scale=1e4, digits=0, **reversed_parts),
        Order(higher, parts, worst, more, less, against),
    ]


def pool(runs: Mapping[str, PlottedRun]) -> pd.DataFrame:
    """Return one metrics table of all runs, each of which is a replica."""
    tables = [run.metrics.assign(replica=index) for index, run in enumerate(runs.values())]
    return pd.concat(tables, ignore_index=True).astype({"learner": str, "metric": str, "group": str})


def draw(runs: Mapping[str, PlottedRun], figure: Figure) -> None:
    """Draw accuracy, the worst tenth and the variance over rounds, with bands over draws of the data."""
    metrics = pool({name: run for name, run in runs.items() if name in DRAWS})
    shown = ("accuracy", "accuracy_users_worst10", "accuracy_users_variance")
    axes = drawing.row(figure, {METRICS[name][0]: (metrics, name) for name in shown}, (*SYNTHETIC,), sharey=False)
    for ax, unit in zip(axes, ("%", "%", "share²"), strict=True):
        ax.set_ylabel(unit)


def _span_of_draws(results: Mapping[str, Result]) -> str:
    """Return the values of all draws of the data, and how many published ones lie among them."""
    lines, inside = [], []
    for metric in ("accuracy", "accuracy_users_worst10", "accuracy_users_variance"):
        label, scale, digits = METRICS[metric]
        spans = []
        for parts, table in ((DRAWS, SYNTHETIC), (UNIFORM_DRAWS, UNIFORM_SAMPLING)):
            known = [results[name] for name in parts if name in results]
            for learner, cells in table.items() if len(known) > 1 else ():
                values = [scale * value for result in known for value in result.values(learner, metric)]
                published = cells[[*METRICS].index(metric)][0]
                inside.append(min(values) <= published <= max(values))
                spans.append(f"{min(values):.{digits}f} to {max(values):.{digits}f} with {learner} (published "
                             f"{published})")  # fmt: skip
        lines += [f"- {label}: {', '.join(spans)}"] if spans else []
    if not lines:
        return ""
    count = sum(name in results for name in DRAWS)
    return (
        f"\n\nOf the published values {sum(inside)} of {len(inside)} lie between the lowest and the highest of our "
        f"{count} draws:\n\n" + "\n".join(lines)
    )


def draw_efficiency(runs: Mapping[str, PlottedRun], figure: Figure) -> None:
    """Draw accuracy over rounds, with bands over draws of the data."""
    drawing.row(figure, {"Synthetic(1,1)": (pool(runs), "accuracy")}, ("q-FedAvg", *STEPS))


def task(name: str, more_hours: float, needs: str) -> tuple[dict[str, Part], dict[str, Part]]:
    """Return the runs of data that this project cannot distribute: with q-FFL, and with uniform sampling."""
    options = {"turn": 1, "core_hours": more_hours, "needs": needs}
    scenario = f"paper/qffl_{name}"
    uniform = splits(scenario, ("full", "uniform"), "uniform, ", **{**options, "core_hours": more_hours / 2})
    return splits(scenario, ("full",), **options), uniform


OTHER_DATA = (
    ("vehicle", "Vehicle", "Tables 1, 6 and 8", "Sensors on a road tell two kinds of vehicle apart.", "q = 5",
     *task("vehicle", HOURS["vehicle"], "the file vehicle.mat, to be downloaded by hand"), VEHICLE, VEHICLE_UNIFORM),
    ("sent140", "Sent140", "Tables 1 and 8", "Accounts tell positive tweets from negative ones.", "q = 1",
     *task("sent140", HOURS["sent140"], "the data set sent140, `netfl data fetch sent140`"), TWEETS, TWEETS_UNIFORM),
)  # fmt: skip
"""Experiments whose data this project does not have."""

EXPERIMENTS = (
    Experiment(
        name="qffl_synthetic",
        title="q-FFL on Synthetic(1,1)",
        paper=PAPER,
        source="Tables 1 and 8",
        claim=(
            "A hundred users have data of different distributions, and ten participate in each round. With q = 1 the "
            "variance of the users' accuracies falls, and the accuracy of the worst tenth of the users rises. Overall "
            "accuracy stays about the same. This is also fairer than to draw users uniformly (table 8)."
        ),
        parts={**DRAWS, **UNIFORM_DRAWS, **SPLITS, **UNIFORM},
        rows=[
            *rows((*DRAWS,), SYNTHETIC, is_one_draw=True),
            *rows((*UNIFORM_DRAWS,), UNIFORM_SAMPLING, is_one_draw=True),
            *rows((*SPLITS,), SYNTHETIC, ONE_DRAW),
            *rows((*UNIFORM,), UNIFORM_SAMPLING, ONE_DRAW),
        ],
        orders=[
            *orders((*DRAWS,), "q = 0", "q = 1"),
            *orders((*DRAWS,), "uniform", "q = 1", (*UNIFORM_DRAWS,)),
            *orders((*SPLITS,), "q = 0", "q = 1", prefix=ONE_DRAW),
            *orders((*SPLITS,), "uniform", "q = 1", (*UNIFORM,), prefix=ONE_DRAW),
        ],
        remarks=lambda results: (
            "The paper has five splits of one draw of the data, which is not published. Its values are therefore those "
            "of one draw, whose ± says nothing of other draws: each is compared with our draws as one more of them. "
            "The splits of one draw of ours, in the file above, differ less than draws do: their interval is that of "
            "another draw than the paper's, and cannot decide.\n\n"
            "As in the published code, the test share of each user is rounded up, and updates of uniformly drawn users "
            "have equal weights. The splits of one draw have a test share rounded down, and weights by size. The "
            "paper's text and its table of the data disagree on the spread of the "
            "users' sizes. We chose the spread that gives the mean and the standard deviation of the table."
            f"{_span_of_draws(results)}"
        ),
        chosen="the spread of the users' sizes, on which text and table of the paper disagree",
        draw=draw,
        shown=(*DRAWS,),
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
        parts={
            **forms("paper/qffl_shakespeare", turn=8, core_hours=HOURS["shakespeare"], needs="a GPU, or much time"),
            "quick": Part("paper/qffl_shakespeare", ("quick",), {"replicas": 2}, full=False, core_hours=0.43),
            FIFTH: Part(
                "paper/qffl_shakespeare", ("rounds_40",), full=False, turn=8, core_hours=HOURS["shakespeare"] / 5
            ),
        },
        rows=[*rows(("full",), PLAYS), *rows((FIFTH,), PLAYS, f"{FIFTH}: "), *rows(("quick",), PLAYS, "quick: ")],
        remarks=lambda results: (
            "Our text is another edition than that of the paper. The roles are the draw whose sizes are nearest to "
            f"those of the paper. The full experiment takes about {5 * HOURS['shakespeare']:.0f} core-hours. The quick "
            "form has fewer LSTM cells and an eighth of each role's text. It cannot show a difference as small as the "
            "published one."
        ),
        orders=[
            order
            for part in ("full", FIFTH, "quick")
            for order in orders((part,), "q = 0", "q = 0.001", prefix="" if part == "full" else f"{part}: ")
        ],
        chosen="the edition of the text, and the draw of the roles",
    ),
    Experiment(
        name="qffl_efficiency",
        title="q-FedAvg and q-FedSGD on Synthetic(1,1)",
        paper=PAPER,
        source="Fig. 3",
        claim=(
            "q-FedAvg makes an epoch of local steps in each round, and q-FedSGD one step on all examples of a user. In "
            "most data sets q-FedAvg needs fewer rounds. On Synthetic(1,1) it needs more, because local models move "
            "too far apart. The figure has no numbers. We compare the accuracy of the last 250 of 1,000 rounds."
        ),
        parts=EFFICIENCY,
        rows=[
            Row(f"accuracy over examples, {learner}", (*EFFICIENCY,), learner, "accuracy")
            for learner in ("q-FedAvg", *STEPS)
        ],
        orders=[
            Order(
                f"accuracy higher with {STEPS[0]} than with q-FedAvg", (*EFFICIENCY,), "accuracy", STEPS[0], "q-FedAvg"
            )
        ],
        draw=draw_efficiency,
        size=lambda runs: (6.0, 3.6),
        remarks=lambda results: (
            "The paper uses the best step size of q-FedSGD with q = 0. We show three step sizes with q = 1. The first, "
            "which is that of q-FedAvg, is compared."
        ),
        chosen="the step size of q-FedSGD, and the rounds that are compared",
    ),
    Experiment(
        name="qffl_devices",
        title="q-FFL with a q for each user on Synthetic(1,1)",
        paper=PAPER,
        source="Table 6",
        claim=(
            "Models with several q are trained in parallel, and each user selects one by its validation examples. In "
            "the paper, the average accuracy then rises and the variance falls compared with q = 0. The paper has "
            "values for Vehicle and Shakespeare. Here the data are Synthetic(1,1)."
        ),
        parts=DEVICES,
        rows=[
            Row(f"{label}, {learner}", (*DEVICES,), learner, metric, scale=scale, digits=digits)
            for metric, (label, scale, digits) in METRICS.items()
            for learner in ("q = 0", "q = 1", CHOICE)
        ],
        orders=[
            Order(f"accuracy higher with {CHOICE} than with q = 0", (*DEVICES,), "accuracy", CHOICE, "q = 0"),
            orders((*DEVICES,), "q = 0", CHOICE)[0],
        ],
    ),
    *(
        Experiment(
            name=f"qffl_{name}",
            title=f"q-FFL on {title}",
            paper=PAPER,
            source=source,
            claim=f"{claim} The variance falls with {more}, and the accuracy of the worst tenth rises.",
            parts={**main, **uniform},
            rows=[*rows((*main,), table), *rows((*uniform,), uniform_table)],
            orders=[*orders((*main,), "q = 0", more), *orders((*main,), "uniform", more, (*uniform,))],
        )
        for name, title, source, claim, more, main, uniform, table, uniform_table in OTHER_DATA
    ),
)

if __name__ == "__main__":
    run_script(EXPERIMENTS, __doc__)
