"""Table 1 of "A Lightweight Method for Tackling Unknown Participation Statistics in Federated Averaging".

python analysis/fedau.py runs/fedau_markov_cifar10-001 --out pictures
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import drawing
from matplotlib.figure import Figure
from reproduction import Experiment, Order, Part, Published, Row
from script import script

from netfl.reading import Run

LEARNERS = ("FedAU K=50", "FedAU K=∞", "average participating", "average all", "known participation")
PROCESSES = {"bernoulli": "Bernoulli", "markov": "Markovian", "cyclic": "cyclic"}
SETS = {"cifar10": "CIFAR-10", "fashion_mnist": "Fashion-MNIST"}
PUBLISHED = {
    "bernoulli": "77.3 0.3 77.1 0.4 74.1 0.8 72.7 0.9 77.0 0.5",
    "markov": "77.2 0.3 77.1 0.3 74.2 0.7 72.5 0.5 76.9 0.3",
    "cyclic": "76.6 0.4 76.3 0.7 73.3 0.8 73.8 0.8 76.1 0.5",
}
"""Test accuracy on CIFAR-10 and its deviation, for the learners in their order."""


def parts() -> dict[str, Part]:
    """The runs, by set and process."""
    found = {}
    for quick in (False, True):
        for data, told in SETS.items():
            for process, word in PROCESSES.items():
                block = "quick" if quick else "full"
                name = f"{told}, {word}{', quick' if quick else ''}"
                found[name] = Part(f"paper/fedau_{process}_{data}", (block,), full=not quick)
    return found


def rows() -> Iterator[Row]:
    """Test accuracy of every learner in every run; published are those of CIFAR-10 alone."""
    for name, part in parts().items():
        _, process, data = part.scenario.split("_", 2)
        numbers = [float(word) for word in PUBLISHED[process].split()]
        for place, learner in enumerate(LEARNERS):
            known = Published(numbers[2 * place], numbers[2 * place + 1]) if data == "cifar10" and part.full else None
            yield Row(f"{name}: {learner}", (name,), learner, "accuracy", known)


def draw(runs: Mapping[str, Run], figure: Figure) -> None:
    """Test accuracy over rounds: a line of panels for each set, a panel for each process."""
    names = [name for name in parts() if name in runs]
    panels = figure.subplots(-(-len(names) // 3), 3, squeeze=False).ravel()
    for ax in panels[len(names) :]:
        ax.set_axis_off()
    for ax, name in zip(panels, names, strict=False):
        drawing.curves(ax, runs[name].metrics, "accuracy", LEARNERS).set_title(name)
    drawing.legend(figure, LEARNERS)


EXPERIMENTS = (
    Experiment(
        name="fedau",
        title="FedAU under Bernoulli, Markovian and cyclic participation",
        source='Table 1 of "A Lightweight Method for Tackling Unknown Participation Statistics in Federated Averaging"',
        claim=(
            "250 users take part the more often the more they hold of some labels.  FedAU, which learns from the "
            "intervals between their turns how to weigh them, has a higher test accuracy than averages over those who "
            "take part and over all, and is about as good as with known rates.  Fashion-MNIST is ours, with the grey "
            "model."
        ),
        parts=parts(),
        rows=[*rows()],
        orders=[
            Order(f"{name}: {LEARNERS[0]} higher than {other}", (name,), "accuracy", LEARNERS[0], other)
            for name in parts()
            for other in LEARNERS[2:4]
        ],
        remarks=lambda results: (
            "The whole experiments are ten thousand rounds of a CNN for 250 users, one or two processor-days each; "
            "they wait for a GPU.  The quick ones keep users, rates, processes, local work and step sizes, and have a "
            "model of one hidden layer of 32 and fewer rounds, so that only orders can be compared, not accuracies."
        ),
        draw=draw,
        size=lambda runs: (10.0, 2.9 * -(-len(runs) // 3)),
    ),
)

if __name__ == "__main__":
    script(EXPERIMENTS, __doc__)
