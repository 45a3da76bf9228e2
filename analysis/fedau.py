"""Table 1 of "A Lightweight Method for Tackling Unknown Participation Statistics in Federated Averaging".

python analysis/fedau.py runs/fedau_markov_cifar10-001 --out pictures
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import drawing
from matplotlib.figure import Figure
from reproduction import Experiment, Order, Part, Published, Result, Row
from script import script

from netfl.results.run_reader import Run

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
    """The runs, by set and process; the quick ones of CIFAR-10 also without crops and flips."""
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


WHOLE = (
    "The whole experiments are ten thousand rounds of a CNN for 250 users, one or two processor-days each; they wait "
    "for a GPU.  The quick ones keep users, rates, processes, local work and step sizes, and have a model of one "
    "hidden layer of 32 and fewer rounds, so that only orders can be compared, not accuracies."
)
CODE = """\
CIFAR-10 is trained with random crops and flips, as in the published code; Fashion-MNIST without, also as there.  The
published code differs in four points:

- It crops and flips all pictures of a mini-batch alike.  Here each picture has its own draw.
- It divides pixels by 0.2023, 0.1994 and 0.2010.  Here they are divided by the deviations of the data, 0.247, 0.243 and
  0.262.
- Each user continues through its shuffled data from round to round and skips mini-batches of fewer than 16 examples.
  Here each round shuffles the data again, and the last mini-batch of a pass may be smaller.
- Cyclic users all start switched off, at a random place of the part of their cycle that is off.  Here they start at a
  random place of the whole cycle."""
PLAIN = (
    "The results on CIFAR-10 are of runs without crops and flips, `--override plain`; those with them are not run yet."
)


def remarks(results: Mapping[str, Result]) -> str:
    """Return what was run, and what differs from the published code."""
    augmented = any(name.startswith(f"{SETS['cifar10']},") for name in results)
    return "\n\n".join([WHOLE, CODE, *([] if augmented else [PLAIN])])


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
        remarks=remarks,
        draw=draw,
        size=lambda runs: (10.0, 2.9 * -(-len(runs) // 3)),
    ),
)

if __name__ == "__main__":
    script(EXPERIMENTS, __doc__)
