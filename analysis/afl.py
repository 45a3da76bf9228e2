"""Table 2 of "Fair Resource Allocation in Federated Learning": q-FFL and AFL on Adult and Fashion-MNIST.

python analysis/afl.py runs/afl_adult-001 runs/afl_fashion_mnist-001 --out plots
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import drawing
from agreement import Comparison
from matplotlib.figure import Figure
from reproduction import ASSUMED, Experiment, Order, Part, Published, Result, Row, forms
from run_results import compare
from script import run_script
from wording import listed, signed

from netfl.results.run_reader import Run

PAPER = "Fair Resource Allocation in Federated Learning"
FIXED = "AFL, fixed λ"
PublishedTable = Mapping[str, tuple[tuple[float, float], ...]]
ADULT: PublishedTable = {
    "q = 0": ((83.2, 0.1), (69.9, 0.4), (83.3, 0.1)),
    "AFL": ((82.5, 0.5), (73.0, 2.2), (82.6, 0.5)),
    FIXED: ((82.5, 0.5), (73.0, 2.2), (82.6, 0.5)),
    "q = 0.01": ((82.6, 0.1), (74.1, 0.6), (82.7, 0.1)),
    "q = 2": ((82.3, 0.1), (74.4, 0.9), (82.4, 0.1)),
}
FASHION: PublishedTable = {
    "q = 0": ((78.8, 0.2), (66.0, 0.7), (84.5, 0.8), (85.9, 0.7)),
    "AFL": ((77.8, 1.2), (71.4, 4.2), (81.0, 3.6), (82.1, 3.9)),
    "q = 5": ((77.8, 0.2), (74.2, 0.3), (78.9, 0.4), (80.4, 0.6)),
    "q = 15": ((77.1, 0.4), (74.7, 0.9), (77.9, 0.4), (78.7, 0.6)),
}
"""Accuracy of all and of each user, each with its standard deviation; AFL with λ fixed has the values of AFL."""


def rows(
    part: str, users: Sequence[str], published: PublishedTable, more: Sequence[str] = (), prefix: str = ""
) -> list[Row]:
    """Return the accuracy of all and of each user in one part, of the published learners and of *more* learners.

    The published values of AFL are those of the published code. If it is one of the learners, AFL itself makes no
    claim.
    """
    metrics = {"accuracy": "all", **{f"accuracy/user:{user}": label for user, label in enumerate(users)}}
    return [
        Row(f"{prefix}{learner}: {label}", (part,), learner, metric,
            Published(*published[learner][place], mean_of=5, basis=ASSUMED) if learner in published else None,
            claimed=learner != "AFL" or FIXED not in published)
        for learner in (*published, *more)
        for place, (metric, label) in enumerate(metrics.items())
    ]  # fmt: skip


def compare_afl(results: Mapping[str, Result], rows: Sequence[Row]) -> str:
    """Return for how many published values of AFL the interval includes 0, with AFL and with AFL with λ fixed."""
    words = []
    for learner in ("AFL", FIXED):
        found = [compare(results, row) for row in rows if row.learner == learner and "full" in results]
        if not found:
            return ""
        words.append(f"{_including_zero(found)} of {len(found)} with our {learner}")
    return (
        "The published command for AFL has the sampling option 2. With this option the code averages the updates "
        "without λ. In effect λ keeps its initial value, and the reported model is the mean of the versions with equal "
        f"weights. Our learner *{FIXED}* does the same (`weights: equal`), so that the claims are tested with it. The "
        f"interval of the difference from a published value of AFL includes 0 for {' and '.join(words)}."
    )


def _including_zero(found: Iterable[Comparison]) -> int:
    """Return the number of differences that include 0."""
    return sum(each.includes_zero for each in found)


def compare_steps(results: Mapping[str, Result]) -> str:
    """Return how far AFL on Fashion-MNIST is from the published values with each step size of λ, as a table."""
    runs = {"full": (6000, 0.01), **LAMBDA_RUNS}
    rows_of = {"full": [row for row in FASHION_ROWS if row.learner == "AFL"], **LAMBDA_ROWS}
    lines = []
    for part, (rounds, step) in sorted(runs.items(), key=lambda entry: (-entry[1][0], -entry[1][1])):
        if part not in results:
            continue
        found = [compare(results, row) for row in rows_of[part]]
        differences = [signed(each.interval) for each in found]
        words = "fixed, as in the published code for Adult" if step == FIXED_STEP else f"{step:g}"
        count = f"{_including_zero(found)} of {len(found)}"
        lines.append(f"| {words} | {rounds:,} | {' | '.join(differences)} | {count} |")
    if not lines:
        return ""
    labels = " | ".join(("all", *LABELS))
    head = f"| step of λ | rounds | {labels} | include 0 |\n|---|---|{'---|' * len(LABELS)}---|---|"
    return (
        "The step size of λ is the likeliest reason for the differences of AFL. We test others, and λ fixed. The table "
        "shows our values minus the published ones with their 95 % intervals, and how many of these include 0. A "
        "smaller step moves the values of the users towards the published ones, and λ fixed moves them past these, so "
        "that a step between is likely to fit best. The published ± of AFL is up to 4.2 points, which makes the "
        "intervals wide.\n\n" + "\n".join([head, *lines])
    )


def _others(results: Mapping[str, Result]) -> str:
    """Return whether the values of q-FFL on Fashion-MNIST differ from the published ones in one direction."""
    found = [compare(results, row) for row in FASHION_ROWS if row.learner != "AFL"]
    differences = [each.difference for each in found]
    if not differences or not (min(differences) > 0.0 or max(differences) < 0.0):
        return ""
    side = "above" if min(differences) > 0.0 else "below"
    low, high = sorted((abs(min(differences)), abs(max(differences))))
    apart = len(found) - _including_zero(found)
    return (
        f"All {len(differences)} values without AFL lie {side} the published ones, by {low:.1f} to {high:.1f} points, "
        f"and {apart} of the intervals exclude 0. These are not {len(differences)} independent values: *all* is the "
        "mean of the three users, and the same three replicas are behind each. They may be one small difference in the "
        "data or the number of rounds."
    )


def compare_adult_steps(results: Mapping[str, Result]) -> str:
    """Return for how many published values of q = 2 on Adult the interval includes 0 with each step size."""
    rows_of = {"full": [row for row in ADULT_ROWS if row.learner == "q = 2"], **STEP_ROWS}
    if not all(part in results for part in rows_of):
        return ""
    counts = {
        step: _including_zero(compare(results, row) for row in rows_of[part])
        for part, step in {"full": 0.1, **STEPS}.items()
    }
    words = [f"{count} with a step of {step:g}" for step, count in sorted(counts.items())]
    return (
        "\n\nThe step size also scales the updates of q-FedAvg, so that q = 2 depends on it. Of the differences from "
        f"its three published values, so many include 0: {listed(words)}. The published command has 0.1."
    )


def draw(runs: Mapping[str, Run], figure: Figure, users: Sequence[str], learners: Sequence[str]) -> None:
    """Draw the accuracy of all and of each user over rounds."""
    run = runs.get("full") or [*runs.values()][-1]
    metrics = {"all": "accuracy", **{label: f"accuracy/user:{user}" for user, label in enumerate(users)}}
    drawing.row(figure, {label: (run.metrics, metric) for label, metric in metrics.items()}, learners,
                sharey=False, label="accuracy (%)")  # fmt: skip


STEPS = {f"q = 2, step {step:g}": step for step in (0.05, 0.2)}
"""Step sizes of q = 2 on Adult by part, which test the likeliest reason for its difference."""
STEP_ROWS = {part: rows(part, ("doctors", "others"), {"q = 2": ADULT["q = 2"]}, prefix=f"{part}, ") for part in STEPS}
ADULT_ROWS = rows("full", ("doctors", "others"), ADULT, ("equal weights",))
LABELS = ("shirt", "pullover", "T-shirt")
SHORT = "3,000 rounds"
FIXED_STEP = 1e-9
"""A step of λ with which λ keeps its initial value."""
LAMBDA_RUNS = {
    f"{rounds:,} rounds, λ step {step:g}": (rounds, step)
    for rounds, steps in {3000: (FIXED_STEP, 0.001, 0.003), 6000: (0.001,)}.items()
    for step in steps
}
"""Rounds and step of λ of the runs of AFL alone, by part."""
LAMBDA_HOURS = 0.15
"""Core-hours of a replica of AFL alone with 6,000 rounds."""
FASHION_HOURS = 0.55
"""Core-hours of a replica of all 6,000 rounds; 3,000 rounds took 0.27 h."""
FASHION_ROWS = rows("full", LABELS, FASHION)
LAMBDA_ROWS = {part: rows(part, LABELS, {"AFL": FASHION["AFL"]}, prefix=f"{part}, ") for part in LAMBDA_RUNS}


def part_of_lambda(rounds: int, step: float) -> Part:
    """Return the runs of AFL alone with a step of λ, which test the likeliest reason for its difference."""
    changes: dict[str, Any] = {"rounds": rounds, "learners.AFL.aggregation.lr_lambda": step}
    hours = LAMBDA_HOURS * rounds / 6000
    return Part("paper/afl_fashion_mnist", ("full", "afl_only"), changes, published=False, turn=4, core_hours=hours)


EXPERIMENTS = (
    Experiment(
        name="afl_adult",
        title="AFL and q-FFL on Adult",
        paper=PAPER,
        source="Table 2",
        claim=(
            "There are two users: a small one of people with a doctorate, and one of all others. The accuracy on "
            "the doctors is higher with q-FFL and AFL than with q = 0, at a small cost to the others. It is higher "
            "with q-FFL than with AFL."
        ),
        parts={
            **forms("paper/afl_adult", turn=1, core_hours=0.035),
            **{
                part: Part(
                    "paper/afl_adult",
                    ("full", "q2_only"),
                    {"learners.q = 2.lr": step},
                    published=False,
                    turn=1,
                    core_hours=0.01,
                )
                for part, step in STEPS.items()
            },
        },
        rows=[*ADULT_ROWS, *chain(*STEP_ROWS.values())],
        orders=[
            Order(
                f"doctors: accuracy higher with {above} than with {below}", ("full",), "accuracy/user:0", above, below
            )
            for above, below in (
                (FIXED, "q = 0"),
                ("q = 0.01", "q = 0"),
                ("q = 2", "q = 0"),
                ("q = 0.01", FIXED),
                ("q = 2", FIXED),
            )
        ]
        + [
            Order(
                f"doctors: accuracy higher with {above} than with {below}",
                ("full",),
                "accuracy/user:0",
                above,
                below,
                claimed=False,
            )
            for above, below in (("AFL", "q = 0"), ("q = 2", "AFL"), ("q = 0.01", "equal weights"))
        ],
        remarks=lambda results: (
            "Rounds and step sizes are those of the published command: 600 rounds, 0.1 for the model, 0.1 for λ. The "
            "command also names mini-batches of 10, but its trainers for AFL and q-FedSGD ignore them. There and here, "
            "a round is one step on all examples.\n\n"
            f"{compare_afl(results, ADULT_ROWS)} If λ is updated, it ends with all weight on the doctors, and AFL "
            "loses much of the overall accuracy. One of the 181 test examples of doctors is half a point.\n\n"
            "q = 0.01 has the same effect as q-FedAvg with q = 0: both give equal weights to two users of unequal "
            f"size. None of its gain comes from q.{compare_adult_steps(results)}"
        ),
        draw=lambda runs, figure: draw(runs, figure, ("doctors", "others"), (*ADULT, "equal weights")),
        size=lambda runs: (9.5, 3.3),
    ),
    Experiment(
        name="afl_fashion_mnist",
        title="AFL and q-FFL on Fashion-MNIST",
        paper=PAPER,
        source="Table 2",
        claim=(
            "Three users hold shirts, pullovers and T-shirts. Shirts have the lowest accuracy. This accuracy is higher "
            "with q-FFL and AFL than with q = 0, at a cost to the others. It is higher with q-FFL than with AFL."
        ),
        parts={
            **forms("paper/afl_fashion_mnist", turn=4, core_hours=FASHION_HOURS),
            SHORT: Part("paper/afl_fashion_mnist", ("full",), {"rounds": 3000}, full=False, turn=0),
            **{part: part_of_lambda(rounds, step) for part, (rounds, step) in LAMBDA_RUNS.items()},
        },
        rows=[
            *FASHION_ROWS,
            *rows(SHORT, LABELS, FASHION, prefix=f"{SHORT}, "),
            *chain(*LAMBDA_ROWS.values()),
        ],
        orders=[
            Order(
                f"{prefix}shirts: accuracy higher with {above} than with {below}",
                (part,),
                "accuracy/user:0",
                above,
                below,
            )
            for part, prefix in (("full", ""), (SHORT, f"{SHORT}, "))
            for above, below in (("AFL", "q = 0"), ("q = 5", "q = 0"), ("q = 15", "q = 0"), ("q = 15", "AFL"))
        ],
        remarks=lambda results: (
            "The published README suggests 6,000 rounds. Neither it nor our copy of the paper has the step sizes. We "
            "use 0.001 for the model and 0.01 for λ. Only the initial model is random in this experiment. "
            f"{_others(results)}\n\n{compare_steps(results)}"
        ),
        chosen="the step sizes",
        draw=lambda runs, figure: draw(runs, figure, LABELS, (*FASHION,)),
        shown=("full",),
        size=lambda runs: (11.5, 3.3),
    ),
)

if __name__ == "__main__":
    run_script(EXPERIMENTS, __doc__)
