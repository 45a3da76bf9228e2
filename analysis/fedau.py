"""Table 1 of "A Lightweight Method for Tackling Unknown Participation Statistics in Federated Averaging".

python analysis/fedau.py runs/fedau_markov_cifar10-001 --out plots
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import drawing
from matplotlib.figure import Figure
from reproduction import ASSUMED, Experiment, Order, Part, PlottedRun, Published, Result, Row
from run_results import difference
from script import run_script

PAPER = "A Lightweight Method for Tackling Unknown Participation Statistics in Federated Averaging"
LEARNERS = ("FedAU K=50", "FedAU K=∞", "average participating", "average all", "known participation")
PROCESSES = {"bernoulli": "Bernoulli", "markov": "Markovian", "cyclic": "cyclic"}
MEMORY = ("FedVARP", "MIFA")
"""Learners that store the last update of every user."""
SHORT = "Fashion-MNIST, 2,000 rounds"
HOURS = {"cifar10": 14.0, "fashion_mnist": 8.7}
SHORT_HOURS, MEMORY_HOURS, QUICK_HOURS = 1.75, 0.75, 0.11
"""Core-hours of a replica: all rounds, by data set; 2,000 rounds; 2,000 rounds of the methods that store updates; the
quick form of CIFAR-10."""
GPU = "a GPU, or much time"
SETS = {"cifar10": "CIFAR-10", "fashion_mnist": "Fashion-MNIST"}
PUBLISHED = {
    "bernoulli": "77.3 0.3 77.1 0.4 74.1 0.8 72.7 0.9 77.0 0.5",
    "markov": "77.2 0.3 77.1 0.3 74.2 0.7 72.5 0.5 76.9 0.3",
    "cyclic": "76.6 0.4 76.3 0.7 73.3 0.8 73.8 0.8 76.1 0.5",
}
"""Test accuracy on CIFAR-10 and its standard deviation, for the learners in their order."""


def parts() -> dict[str, Part]:
    """Return the runs, by data set and process; the quick runs of CIFAR-10 also without crops and flips.

    Fashion-MNIST has also runs of a fifth of the rounds, and the same of the methods that store users' updates.
    """
    found = {}
    for block in ("full", "quick"):
        full = block == "full"
        more = [("cifar10", f"{SETS['cifar10']} unaugmented", ("plain",))] if not full else []
        for data, name, blocks in [*((data, name, ()) for data, name in SETS.items()), *more]:
            options = {"turn": 8, "core_hours": HOURS[data], "needs": GPU} if full else {"turn": 0}
            if blocks:  # five replicas, because three leave orders open
                options = {"changes": {"replicas": 5}, "turn": 3, "core_hours": QUICK_HOURS}
            options["published"] = data == "cifar10"  # Fashion-MNIST is our addition
            for process, word in PROCESSES.items():
                part = Part(f"paper/fedau_{process}_{data}", (block, *blocks), full=full, **options)
                found[f"{name}, {word}{'' if full else ', quick'}"] = part
    for blocks, label, hours in ((), "", SHORT_HOURS), (("only_memory",), ", memory", MEMORY_HOURS):
        for process, word in PROCESSES.items():
            found[f"{SHORT}, {word}{label}"] = Part(
                f"paper/fedau_{process}_fashion_mnist", ("rounds_2000", *blocks), full=False, published=False,
                core_hours=hours)  # fmt: skip
    return found


def learners_of(name: str) -> tuple[str, ...]:
    """Return the learners of a part."""
    return MEMORY if name.endswith("memory") else LEARNERS


def rows() -> Iterator[Row]:
    """Yield the test accuracy of every learner in every run; published values exist for CIFAR-10 only."""
    for name, part in parts().items():
        _, process, data = part.scenario.split("_", 2)
        numbers = [float(word) for word in PUBLISHED[process].split()]
        for place, learner in enumerate(learners_of(name)):
            is_known = data == "cifar10" and part.full
            values = numbers[2 * place : 2 * place + 2]
            known = Published(*values, mean_of=5, basis=ASSUMED) if is_known else None
            yield Row(f"{name}: {learner}", (name,), learner, "accuracy", known)


def orders() -> Iterator[Order]:
    """Yield the claims that FedAU is better than the averages."""
    for name in parts():
        if not name.endswith("memory"):
            for other in LEARNERS[2:4]:
                yield Order(f"{name}: {LEARNERS[0]} higher than {other}", (name,), "accuracy", LEARNERS[0], other)


def compare_with_memory(results: Mapping[str, Result]) -> Iterator[str]:
    """Yield the paired differences of FedAU from the methods that store updates, as a list."""
    lines = []
    for word in PROCESSES.values():
        ours, theirs = f"{SHORT}, {word}", f"{SHORT}, {word}, memory"
        if ours in results and theirs in results:
            for other in MEMORY:
                found = difference(results, Order("", (ours,), "accuracy", LEARNERS[0], other, against=(theirs,)))
                if found.replicas:
                    half = f" ± {found.half:.1f}" if found.is_shown else ""
                    lines.append(f"- {word}, {other}: {found.mean:+.1f}{half} points in {found.replicas} replicas")
    if lines:
        yield f"{LEARNERS[0]} compared with the methods that store the last update of every user, on the same traces:"
        yield "\n".join(lines)


def draw(runs: Mapping[str, PlottedRun], figure: Figure) -> None:
    """Draw test accuracy over rounds: a line of panels for each data set, a panel for each process."""
    names = [name for name in parts() if name in runs and not name.endswith("memory")]
    panels = figure.subplots(-(-len(names) // 3), 3, squeeze=False).ravel()
    for ax in panels[len(names) :]:
        ax.set_axis_off()
    for ax, name in zip(panels, names, strict=False):
        drawing.curves(ax, runs[name].metrics, "accuracy", LEARNERS).set_title(name)
    drawing.legend(figure, LEARNERS)


FULL_RUNS = (
    "The full experiments train a CNN for 250 users over ten thousand rounds, which takes "
    f"{HOURS['fashion_mnist']:.0f} to {HOURS['cifar10']:.0f} core-hours for each replica. The runs of 2,000 rounds "
    "have the same users, rates, processes, local work and step sizes, with the model of the paper for grey images. "
    "The quick form has a model of one hidden layer of 32. Therefore only orders can be compared, not accuracies."
)
CODE = """\
CIFAR-10 is trained with random crops and flips and Fashion-MNIST without them, as in the published code. The published
code differs from our runs in four points:

- It crops and flips all images of a mini-batch in the same way. Here each image has its own draw.
- It divides pixels by 0.2023, 0.1994 and 0.2010. Here they are divided by the standard deviations of the data, 0.247,
  0.243 and 0.262.
- Each user continues through its shuffled data from round to round and skips mini-batches of fewer than 16 examples.
  Here each round shuffles the data again, and the last mini-batch of a pass may be smaller.
- Cyclic users all start switched off, at a random place of the part of their cycle that is off. Here they start at a
  random place of the whole cycle."""
PLAIN = (
    "The results on CIFAR-10 are of runs without crops and flips (`--override plain`). Runs with crops and flips do "
    "not exist yet."
)


def remarks(results: Mapping[str, Result]) -> str:
    """Return which runs exist, and the differences from the published code."""
    augmented = any(name.startswith(f"{SETS['cifar10']},") for name in results)
    return "\n\n".join([FULL_RUNS, CODE, *([] if augmented else [PLAIN]), *compare_with_memory(results)])


EXPERIMENTS = (
    Experiment(
        name="fedau",
        title="FedAU under Bernoulli, Markovian and cyclic participation",
        paper=PAPER,
        source="Table 1",
        claim=(
            "The participation of 250 users depends on the labels that they hold. FedAU estimates the weight of each "
            "user from the intervals between its deliveries. Its test accuracy is higher than that of averages over "
            "participating users or over all users. It is about as high as with known participation rates. "
            "Fashion-MNIST is our addition, with the model for grey images."
        ),
        parts=parts(),
        rows=[*rows()],
        orders=[*orders()],
        remarks=remarks,
        draw=draw,
        size=lambda runs: (10.0, 2.9 * -(-sum(not name.endswith("memory") for name in runs) // 3)),
    ),
)

if __name__ == "__main__":
    run_script(EXPERIMENTS, __doc__)
