"""Table 1 of "A Lightweight Method for Tackling Unknown Participation Statistics in Federated Averaging".

python analysis/fedau.py runs/fedau_markov_cifar10-001 --out plots
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import drawing
from matplotlib.figure import Figure
from reproduction import Experiment, Order, Part, Published, Result, Row
from script import run_script

from netfl.results.run_reader import Run

PAPER = "A Lightweight Method for Tackling Unknown Participation Statistics in Federated Averaging"
LEARNERS = ("FedAU K=50", "FedAU K=∞", "average participating", "average all", "known participation")
PROCESSES = {"bernoulli": "Bernoulli", "markov": "Markovian", "cyclic": "cyclic"}
SETS = {"cifar10": "CIFAR-10", "fashion_mnist": "Fashion-MNIST"}
PUBLISHED = {
    "bernoulli": "77.3 0.3 77.1 0.4 74.1 0.8 72.7 0.9 77.0 0.5",
    "markov": "77.2 0.3 77.1 0.3 74.2 0.7 72.5 0.5 76.9 0.3",
    "cyclic": "76.6 0.4 76.3 0.7 73.3 0.8 73.8 0.8 76.1 0.5",
}
"""Test accuracy on CIFAR-10 and its standard deviation, for the learners in their order."""


def parts() -> dict[str, Part]:
    """Return the runs, by data set and process; the quick runs of CIFAR-10 also without crops and flips."""
    variants = [(data, name, ()) for data, name in SETS.items()]
    found = {}
    for block in ("full", "quick"):
        more = [("cifar10", f"{SETS['cifar10']} unaugmented", ("plain",))] if block == "quick" else []
        for data, name, blocks in [*variants, *more]:
            for process, word in PROCESSES.items():
                full = block == "full"
                part = Part(f"paper/fedau_{process}_{data}", (block, *blocks), full=full)
                found[f"{name}, {word}{'' if full else ', quick'}"] = part
    return found


def rows() -> Iterator[Row]:
    """Yield the test accuracy of every learner in every run; published values exist for CIFAR-10 only."""
    for name, part in parts().items():
        _, process, data = part.scenario.split("_", 2)
        numbers = [float(word) for word in PUBLISHED[process].split()]
        for place, learner in enumerate(LEARNERS):
            known = Published(numbers[2 * place], numbers[2 * place + 1]) if data == "cifar10" and part.full else None
            yield Row(f"{name}: {learner}", (name,), learner, "accuracy", known)


def draw(runs: Mapping[str, Run], figure: Figure) -> None:
    """Draw test accuracy over rounds: a line of panels for each data set, a panel for each process."""
    names = [name for name in parts() if name in runs]
    panels = figure.subplots(-(-len(names) // 3), 3, squeeze=False).ravel()
    for ax in panels[len(names) :]:
        ax.set_axis_off()
    for ax, name in zip(panels, names, strict=False):
        drawing.curves(ax, runs[name].metrics, "accuracy", LEARNERS).set_title(name)
    drawing.legend(figure, LEARNERS)


FULL_RUNS = (
    "The full experiments train a CNN for 250 users over ten thousand rounds, one or two processor-days each. They "
    "have not been run yet because they need a GPU. The quick form keeps users, rates, processes, local work and step "
    "sizes. It has a model of one hidden layer of 32 and fewer rounds. Therefore only orders can be compared, not "
    "accuracies."
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
    return "\n\n".join([FULL_RUNS, CODE, *([] if augmented else [PLAIN])])


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
        orders=[
            Order(f"{name}: {LEARNERS[0]} higher than {other}", (name,), "accuracy", LEARNERS[0], other)
            for name in parts()
            for other in LEARNERS[2:4]
        ],
        remarks=remarks,
        draw=draw,
        size=lambda runs: (10.0, 2.9 * -(-len(runs) // 3)),
    ),
)

if __name__ == "__main__":
    run_script(EXPERIMENTS, __doc__)
