"""Weight divergence of federated averaging from central training, for users with all, two or one classes.

python analysis/divergence.py runs/divergence_iid-001 runs/divergence_one_class-001 --out plots
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import drawing
import pandas as pd
from matplotlib.figure import Figure
from reproduction import Experiment, Order, Part, PlottedRun, Result, Row
from run_results import difference, verdict
from script import run_script

PAPER = "User Selection in Federated Learning"
CASES = {"iid": "IID", "two_class": "two classes", "one_class": "one class"}
RANDOM = ", three random users"
SIZES = {"": (), ", uneven": ("uneven",), ", selected": ("selected",), RANDOM: ("random_three",)}
CIFAR = ", CIFAR-10"
STARTED = 0.3
"""Accuracy above which training has left its plateau."""
HOURS, CIFAR_HOURS = 0.115, 0.17
"""Core-hours of a replica on MNIST and on CIFAR-10."""
KINDS = {"full": "", "quick": ", quick"}


def parts() -> dict[str, Part]:
    """Return the full and the quick run of each case: with even sizes, uneven sizes, and large users only.

    The full runs of even sizes are also made on CIFAR-10.
    """
    found = {}
    for kind, form in KINDS.items():
        for size, blocks in SIZES.items():
            for case, label in CASES.items():
                options = {"value": 4.0, "core_hours": HOURS} if kind == "full" else {"value": 0.0, "full": False}
                found[f"{label}{size}{form}"] = Part(f"paper/divergence_{case}", (kind, *blocks),
                                                     published=size != RANDOM, **options)  # fmt: skip
    for case, label in CASES.items():
        found[f"{label}{CIFAR}"] = Part(f"paper/divergence_{case}", ("full", "cifar10"), value=4.0,
                                        core_hours=CIFAR_HOURS)  # fmt: skip
    return found


def orders(form: str) -> list[Order]:
    """Return the claims: divergence grows from case to case, and is smaller if only large users participate."""
    metric, labels = "weight_divergence", [*CASES.values()]
    by_case = [
        Order(f"divergence larger with {b} than with {a}{form}", (f"{b}{form}",), metric, "FedAvg", "FedAvg",
              (f"{a}{form}",), 1.0, 4)
        for a, b in pairwise(labels)
    ]  # fmt: skip
    by_size = [
        Order(f"divergence smaller with large users only: {label}{form}", (f"{label}, uneven{form}",), metric, "FedAvg",
              "FedAvg", (f"{label}, selected{form}",), 1.0, 4)
        for label in labels
    ]  # fmt: skip
    return by_case + (by_size if form in KINDS.values() else [])


def tests_of_selection(form: str) -> list[Order]:
    """Return the orders that test whether fewer users alone make the divergence larger, whatever their sizes."""
    return [
        Order(f"divergence larger with three random users: {label}{form}", (f"{label}{RANDOM}{form}",),
              "weight_divergence", "FedAvg", "FedAvg", (f"{label}, uneven{form}",), 1.0, 4)
        for label in CASES.values()
    ]  # fmt: skip


def draw(runs: Mapping[str, PlottedRun], figure: Figure) -> None:
    """Draw divergence and accuracy over rounds, of the three cases with even sizes, with a curve for each replica."""
    form = "" if any(label in runs for label in CASES.values()) else KINDS["quick"]
    shown = {label: runs[f"{label}{form}"] for label in CASES.values() if f"{label}{form}" in runs}
    metrics = pd.concat([run.metrics.assign(learner=label) for label, run in shown.items()], ignore_index=True)
    metrics = metrics.astype({"metric": str, "group": str})
    panels = {"divergence": "weight_divergence", "accuracy (%)": "accuracy"}
    for ax, (title, metric) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        for _, table in metrics.groupby("replica"):
            drawing.curves(ax, table, metric, (*shown,))
        largest = metrics.loc[metrics["metric"] == metric, "value"].max()
        ax.set(title=title, ylabel="", ylim=(0, 102 if metric == "accuracy" else 1.05 * largest))
    drawing.legend(figure, (*shown,))


def remarks(results: Mapping[str, Result]) -> str:
    """Return what the runs show about the claims, of the full runs or, without these, of the quick ones."""
    form = KINDS["full"] if all(label in results for label in CASES.values()) else KINDS["quick"]
    known = [order for order in orders(form) if all(part in results for part in (*order.parts, *order.against))]
    answers = [verdict(difference(results, order)) for order in known]
    by_case, by_size = answers[: len(CASES) - 1], answers[len(CASES) - 1 :]
    words = "The quick runs" if form else "The full runs"
    tests = [verdict(difference(results, order)) for order in tests_of_selection(form)
             if all(part in results for part in (*order.parts, *order.against))]  # fmt: skip
    return (
        f"{words} agree with {by_case.count('yes')} of {len(by_case)} claims on the order of the three cases, and with "
        f"{by_size.count('yes')} of {len(by_size)} claims on selection ({by_size.count('no')} disagree). The paper "
        "derives the claim on selection from a bound. With selection the bound has fewer terms, but their weights stay "
        "unchanged, and a separate constant covers the other users. A likely reason for a larger divergence: an "
        "average over fewer users gives each more weight, so that less of their noise and of their label differences "
        "cancels." + _tested(tests) + _plateau(results)
    )


def _plateau(results: Mapping[str, Result]) -> str:
    """Return how many replicas of the full runs on MNIST have not begun to learn, and so widen the intervals."""
    ends = [value for name, result in results.items() if KINDS["quick"] not in name and CIFAR not in name
            for value in result.values("FedAvg", "accuracy", last=True)]  # fmt: skip
    slow = sum(value < STARTED for value in ends)
    if not slow:
        return ""
    return (
        f"\n\nAfter 40 rounds {slow} of {len(ends)} replicas of the full runs on MNIST still have an accuracy below "
        f"{100 * STARTED:.0f} %: this network leaves its initial plateau late at this step size. Then the divergence "
        "is almost 0, which widens the intervals. The quick runs have a network without a plateau."
    )


def _tested(tests: Sequence[str]) -> str:
    """Return what runs with three random users show about that reason, given whether each has a larger divergence."""
    if not tests:
        return ""
    return (
        " We test it with three random users in each round, about as many as hold 6,000 examples: the divergence is "
        f"larger than with all users in {tests.count('yes')} of {len(tests)} cases, and smaller in {tests.count('no')}."
    )


EXPERIMENTS = (
    Experiment(
        name="divergence",
        title="Weight divergence of users with few classes",
        paper=PAPER,
        source="Weight divergence",
        claim=(
            "Ten users hold MNIST. The weight divergence is the distance of the averaged weights from those of a "
            "centrally trained twin, relative to the norm of the latter. It is smallest if each user holds all "
            "classes, larger with two, and largest with one. Accuracy falls as divergence grows. The paper also "
            "claims that the divergence is smaller if only users with many examples participate. The experiment "
            'follows Zhao et al., "Federated Learning with Non-IID Data" (arXiv:1806.00582).'
        ),
        parts=parts(),
        rows=[
            Row(f"{name}: {label}", (name,), "FedAvg", metric, scale=scale, digits=digits)
            for name in parts()
            for metric, label, scale, digits in (
                ("weight_divergence", "divergence", 1.0, 4),
                ("accuracy", "accuracy", 100.0, 1),
            )
        ],
        orders=[
            *orders(KINDS["full"]),
            *orders(CIFAR),
            *orders(KINDS["quick"]),
            *(order for form in KINDS.values() for order in tests_of_selection(form)),
        ],
        remarks=remarks,
        draw=draw,
        shown=(*CASES.values(),),
        size=lambda runs: (7.5, 3.3),
    ),
)

if __name__ == "__main__":
    run_script(EXPERIMENTS, __doc__)
