"""Numbers that other tools publish for their own algorithms, beside runs of netfl at the same settings.

    python analysis/others.py --list                    the cells, with what is stored and the hours of a run
    python analysis/others.py --run fedml_sigmoid       make the runs of cells that have no stored rows
    python analysis/others.py --run flgo_scaffold --flgo FLGO_BENCH    with a clone of github.com/WwZzz/FLGo-Bench
    python analysis/others.py                           write the table of docs/others.md from the stored rows

A cell is a published number.  Its runs are stored in analysis/results/others, one by one.  Published values, settings,
the number of runs and the rule of the verdict (`agreement`) stand here, and were committed before the first result.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fedau_authors
import numpy as np
import pandas as pd
import torch
from agreement import Comparison
from numpy.typing import NDArray
from reproduction import ROOT, Published

import netfl
from netfl.learning.data.mnist import Mnist
from netfl.results.atomic_write import atomic_write
from netfl.results.run_reader import Run
from netfl.streams import Streams

RESULTS = Path(__file__).parent / "results" / "others"
PAGE = ROOT / "docs" / "others.md"
RUNS = 5
"""Runs of a cell; each draws all that the published settings leave open."""
THEIRS, OURS = "theirs", "some chosen by us"
"""Who chose the settings of a cell."""


class SigmoidLogistic(torch.nn.Module):
    """Logistic regression with a sigmoid before the cross-entropy, as in the code of FedML."""

    def __init__(self, inputs: int = 784, classes: int = 10) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores between 0 and 1."""
        return torch.sigmoid(self.linear(x))


@dataclass(frozen=True)
class Cell:
    """One published number.

    Args:
        tool: the tool that publishes it.
        setting: data, model and algorithm in words.
        published: the value in percent.
        basis: who chose the settings.
        make: returns the scenario of a run, from its number, a folder for data, and the clone of FLGo-Bench.
        read: returns the accuracy that is compared, from the finished run.
        hours: core-hours of a run, from the time of a few rounds or updates.
    """

    tool: str
    setting: str
    published: Published
    basis: str
    make: Callable[[int, Path, Path | None], dict[str, Any]]
    read: Callable[[Run], float]
    hours: float


@dataclass(frozen=True)
class Untested:
    """Published numbers without a run.

    Args:
        tool: the tool that publishes them.
        setting: data, model and algorithms in words.
        cells: how many they are.
        hours: estimated core-hours of one run.
        missing: what is missing in netfl for them, or to choose.
    """

    tool: str
    setting: str
    cells: int
    hours: float
    missing: str


# FedML


def power_law_users(labels: NDArray[np.int64], rng: np.random.Generator, users: int = 1000) -> list[NDArray[np.int64]]:
    """Return the rows of each user, with two labels each and sizes by a power law.

    The recipe of Li et al., "Federated optimization in heterogeneous networks", MLSys 2020, which FedML's data follow:
    user u holds five examples each of the labels u mod 10 and (u + 1) mod 10.  What is left of a label is divided in
    proportion to draws of exp(N(0, 2²)).  A share beyond the end of a label is dropped.
    """
    classes = 10
    left = [rng.permutation(np.flatnonzero(labels == label)) for label in range(classes)]
    shares = rng.lognormal(0.0, 2.0, (classes, users // classes, 2))
    shares /= shares.sum(axis=(1, 2), keepdims=True)
    rows: list[list[NDArray[np.int64]]] = [[] for _ in range(users)]

    def give(user: int, label: int, count: int) -> None:
        rows[user].append(left[label][:count])
        left[label] = left[label][count:]

    held = 5 * 2 * users // classes  # of each label, after the first examples
    totals = [len(examples) - held for examples in left]
    for user in range(users):
        for turn in range(2):
            give(user, (user + turn) % classes, 5)
    for user in range(users):
        for turn in range(2):
            label = (user + turn) % classes
            count = int(totals[label] * shares[label, user // classes, turn])
            if count < len(left[label]):
                give(user, label, count)
    return [np.concatenate(parts) for parts in rows]


def store_fedml_data(number: int, folder: Path) -> dict[str, Any]:
    """Store MNIST by `power_law_users`, a tenth of each user for testing; return the data of a scenario."""
    images = Mnist().read_images()
    x = np.concatenate([images.train_x, images.test_x]).reshape(-1, 784).astype(np.float32)
    y = np.concatenate([images.train_y, images.test_y])
    x = (x - x.mean(0)) / (x.std(0) + np.float32(0.001))  # each pixel by itself, over all 70,000 images
    rng = Streams(number).rng("fedml")
    parts: dict[str, list[tuple[NDArray[np.int64], int]]] = {"train": [], "test": []}
    for user, rows in enumerate(power_law_users(y, rng)):
        shuffled = rng.permutation(rows)
        count = int(0.9 * len(rows))
        parts["train"].append((shuffled[:count], user))
        parts["test"].append((shuffled[count:], user))
    files = {}
    for part, of_users in parts.items():
        rows = np.concatenate([rows for rows, _ in of_users])
        users = np.concatenate([np.full(len(rows), user) for rows, user in of_users])
        files[part] = folder / f"fedml-{number}-{part}.npz"
        np.savez(files[part], x=x[rows], label=y[rows], user=users)
    return {
        "kind": "arrays",
        "file": str(files["train"]),
        "test": str(files["test"]),
        "features": [784],
        "labels": 10,
    }


def make_fedml(model: str | dict[str, Any]) -> Callable[[int, Path, Path | None], dict[str, Any]]:
    """Return a function that makes the scenario of FedML's logistic regression with *model*."""

    def make(number: int, folder: Path, flgo: Path | None) -> dict[str, Any]:
        return {
            "name": "FedML, MNIST, logistic regression",
            "seed": number,
            "users": 1000,
            "rounds": 200,
            "access": {"kind": "stationary", "rho": {"zipf": 0.0}, "deliveries": 10},
            "data": store_fedml_data(number, folder),
            "partition": "natural",
            "model": model,
            "learners": {
                "FedAvg": {
                    "objective": "erm",
                    "aggregation": "average",
                    "lr": 0.03,
                    "batch_size": 10,
                    "local_epochs": 1,
                }
            },
            "evaluate": {"every": 10},
            "record": "none",
        }

    return make


def last_accuracy(run: Run) -> float:
    """Return the test accuracy after the last round."""
    return float(curve(run, "accuracy")[-1])


# FLGo


def store_flgo_data(clone: Path, folder: Path, number: int) -> dict[str, Any]:
    """Store MNIST by the partition of FLGo-Bench, without the tenth that it keeps for tests at the users.

    Of a client with n examples, ⌊n/5⌋ are held out at random; half of them, ⌊n/10⌋, are its test examples.
    """
    partition = json.loads((clone / "task" / "mnist_dir0.1_c100" / "data.json").read_text(encoding="utf-8"))
    images = Mnist(train_scale="channels", test_scale="channels").load(Streams(0))
    rng = Streams(number).rng("flgo")
    kept = []
    users = []
    for user, name in enumerate(partition["client_names"]):
        rows = rng.permutation(np.array(partition[name]["data"]))
        rows = rows[len(rows) // 5 // 2 :]
        kept.append(rows)
        users.append(np.full(len(rows), user))
    rows = np.concatenate(kept)
    files = {part: folder / f"flgo-{number}-{part}.npz" for part in ("train", "test")}
    np.savez(files["train"], x=images.train_x[rows], label=images.train_y[rows], user=np.concatenate(users))
    np.savez(files["test"], x=images.test_x, label=images.test_y)
    return {
        "kind": "arrays",
        "file": str(files["train"]),
        "test": str(files["test"]),
        "features": [1, 28, 28],
        "labels": 10,
    }


def make_flgo(aggregation: str | dict[str, Any], lr: float) -> Callable[[int, Path, Path | None], dict[str, Any]]:
    """Return a function that makes the scenario of FLGo-Bench's MNIST with Dirichlet 0.1."""

    def make(number: int, folder: Path, flgo: Path | None) -> dict[str, Any]:
        if flgo is None:
            raise ValueError("the partition of FLGo-Bench is missing. Give a clone of it with --flgo.")
        return {
            "name": "FLGo-Bench, MNIST, Dirichlet 0.1",
            "seed": number,
            "users": 100,
            "rounds": 1000,
            "access": {"kind": "stationary", "rho": {"zipf": 0.0}, "deliveries": 20},
            "data": store_flgo_data(flgo, folder, number),
            "partition": "natural",
            "model": {"kind": "cnn", "channels": [32, 64], "kernel": 5, "padding": 2, "hidden": [512]},
            "learners": {
                "learner": {
                    "objective": "erm",
                    "aggregation": aggregation,
                    "lr": lr,
                    "schedule": {"kind": "exponential", "factor": 0.9998},
                    "weight_decay": 0.001,
                    "batch_size": 50,
                    "local_epochs": 5,
                }
            },
            "evaluate": {"every": 1, "validation": 0.112, "metrics": ["validation"]},
            "record": "none",
        }

    return make


def accuracy_of_best_validation(run: Run) -> float:
    """Return the test accuracy at the first evaluation with the highest validation accuracy."""
    return float(curve(run, "accuracy")[int(np.argmax(curve(run, "validation_accuracy")))])


def curve(run: Run, metric: str) -> NDArray[np.float64]:
    """Return a metric of the only learner over the evaluations."""
    table = run.metrics
    return table[(table["metric"] == metric) & (table["group"] == "")].sort_values("round")["value"].to_numpy(float)


FEDML = "FedML"
FLGO = "FLGo-Bench"
_FEDML_SOURCE = Published(81.9, digits=1, mean_of=1, basis="1 run (assumed)")
_SIGMOID = {"kind": "module", "module": "others:SigmoidLogistic"}
CELLS = {
    "fedml_sigmoid": Cell(
        FEDML,
        "MNIST, logistic regression with a sigmoid before the cross-entropy, as in its code; FedAvg, 200 rounds",
        _FEDML_SOURCE, OURS, make_fedml(_SIGMOID), last_accuracy, 0.0015,
    ),
    "fedml_linear": Cell(
        FEDML,
        "the same without the sigmoid",
        _FEDML_SOURCE, OURS, make_fedml("logistic"), last_accuracy, 0.0015,
    ),
    "flgo_fedavg": Cell(
        FLGO,
        "MNIST, Dirichlet 0.1, CNN; FedAvg, 1,000 rounds",
        Published(98.31, 0.06, digits=2, mean_of=5, basis="5 runs, SD"), OURS,
        make_flgo({"kind": "average", "weights": "equal"}, 0.05), accuracy_of_best_validation, 14.0,
    ),
    "flgo_scaffold": Cell(
        FLGO,
        "MNIST, Dirichlet 0.1, CNN; SCAFFOLD, 1,000 rounds",
        Published(99.11, 0.02, digits=2, mean_of=5, basis="5 runs, SD"), THEIRS,
        make_flgo("scaffold", 0.01), accuracy_of_best_validation, 14.0,
    ),
}  # fmt: skip
"""The cells by name, in the order of the page."""


def stored_runs(name: str) -> dict[int, dict[str, Any]]:
    """Return the stored runs of a cell, by number."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    return {int(number): run for number, run in content["runs"].items()}


def store_run(name: str, number: int, row: Mapping[str, Any]) -> None:
    """Add a run to the stored ones of a cell, a line for each."""
    runs = {**stored_runs(name), number: row}
    lines = ",\n".join(f'  "{key}": {json.dumps(runs[key])}' for key in sorted(runs))
    RESULTS.mkdir(parents=True, exist_ok=True)
    with atomic_write(RESULTS / f"{name}.json") as part:
        part.write_text(f'{{\n "runs": {{\n{lines}\n }}\n}}\n', encoding="utf-8")


def run_cell(name: str, folder: Path, flgo: Path | None, report: Callable[[str], None]) -> None:
    """Make the runs of a cell that are not stored, below *folder*."""
    cell = CELLS[name]
    for number in range(1, RUNS + 1):
        if number in stored_runs(name):
            continue
        place = folder / f"{name}-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        begin_s = time.process_time()
        if not place.exists():
            run = netfl.run(cell.make(number, folder.resolve(), flgo), place, device="cpu", progress=False)
        else:
            run = netfl.open_run(place)
            if run.status != "done":
                run = netfl.resume(place, progress=False)
        row = {
            "accuracy": round(cell.read(run), 5),
            "core_s": round(time.process_time() - begin_s, 1),
            "netfl": run.manifest["versions"]["netfl"],
            "curve": curve(run, "accuracy").round(4).tolist(),
        }
        store_run(name, number, row)
        report(f"{name}, run {number}: {100 * row['accuracy']:.2f} %, {row['core_s'] / 60:.1f} min of one core")


UNTESTED = (
    Untested(FLGO, "MNIST, CNN: all other numbers of its table of five partitions and five algorithms", 23, 14.0,
             "FedDyn and MOON"),
    Untested(FLGO, "CIFAR-10, CNN: five partitions, five algorithms, 2,000 rounds", 25, 28.0, "FedDyn and MOON"),
    Untested("NVFlare", "CIFAR-10, CNN: FedAvg at four Dirichlet splits; FedProx, FedOpt and SCAFFOLD at 0.1", 7, 30.0,
             "a cosine schedule; its model, as a `module`"),
)  # fmt: skip
"""Published numbers without a run, in the order of the page."""


def cell_lines() -> Iterator[str]:
    """Yield the table of the cells."""
    yield "| tool | setting | settings | published (%) | ours (%) | difference | margin | agrees |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, cell in CELLS.items():
        values = [100 * run["accuracy"] for run in stored_runs(name).values()]
        yield "| " + " | ".join([cell.tool, cell.setting, cell.basis, *_result_words(cell, values)]) + " |"


def untested_lines() -> Iterator[str]:
    """Yield the table of the numbers without a run."""
    yield "| tool | untested numbers | how many | core-hours of a run | missing |"
    yield "|---|---|---|---|---|"
    for other in UNTESTED:
        yield f"| {other.tool} | {other.setting} | {other.cells} | about {other.hours:.0f} | {other.missing} |"


def _result_words(cell: Cell, values: Sequence[float]) -> Iterator[str]:
    """Yield the last entries of the row of a cell."""
    published = cell.published
    spread = f" ± {published.spread:g}" if published.spread else ""
    yield f"{published.value:.{published.digits}f}{spread}"
    comparison = Comparison(values, published)
    if not values:
        yield from (f"untested, about {cell.hours:.0f} core-hours a run", "", f"{comparison.margin:.3g}", "")
        return
    digits = published.digits
    yield f"{np.mean(values):.{digits}f}, {len(values)} runs"
    half = "" if np.isnan(comparison.half) else f" ± {comparison.half:.{digits}f}"
    yield f"{comparison.difference:+.{digits}f}{half}"
    yield f"{comparison.margin:.3g}"
    yield comparison.answer


def fedau_lines() -> Iterator[str]:
    """Yield the table of the published code of FedAU, a row for each rule and each of its two traces."""
    table = pd.read_csv(fedau_authors.RESULTS).set_index(["precision", "rule", "empty_rounds"])
    yield "| rule | rounds, of them empty | updates | 64 bits: largest difference | 32 bits: equal versions |"
    yield "|---|---|---|---|---|"
    for (rule, empty), exact in table.loc["float64"].iterrows():
        rounded = table.loc["float32", rule, empty]
        rounds = f"{exact['rounds']:.0f}, {empty}"
        equal = f"{rounded['equal_versions']:.0f} of {rounded['rounds']:.0f}"
        yield f"| {rule} | {rounds} | {exact['updates']:.0f} | {exact['largest_difference']:.0e} | {equal} |"


TABLES = {"cells": cell_lines, "untested numbers": untested_lines, "published code of FedAU": fedau_lines}
"""The generated parts of the page, by the names of their marks."""


def page_text(text: str) -> str:
    """Return the *text* of the page with the tables of today between their marks."""
    for name, lines in TABLES.items():
        begin = f"<!-- {name}: generated by analysis/others.py -->"
        end = f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        after = rest.partition(end)[2]
        text = f"{before}{begin}\n" + "\n".join(lines()) + f"\n{end}{after}"
    return text


def write_page() -> None:
    """Write the tables into the page."""
    PAGE.write_text(page_text(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """List, run, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the cells")
    parser.add_argument("--run", nargs="+", choices=[*CELLS], metavar="CELL", default=[], help=f"of {', '.join(CELLS)}")
    parser.add_argument("--flgo", type=Path, help="a clone of github.com/WwZzz/FLGo-Bench")
    parser.add_argument("--runs", type=Path, default=Path("runs/others"), help="the folder of the run directories")
    options = parser.parse_args(arguments)
    if options.list:
        for name, cell in CELLS.items():
            print(
                f"{name:15} {len(stored_runs(name))} of {RUNS} runs, {cell.hours:.2f} core-hours each: {cell.setting}"
            )
        return
    try:
        for name in options.run:
            run_cell(name, options.runs, options.flgo, lambda line: print(time.strftime("%H:%M:%S"), line, flush=True))
    except ValueError as error:
        parser.error(str(error))
    write_page()


if __name__ == "__main__":
    sys.exit(main())
