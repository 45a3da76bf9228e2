"""The published code of FedAU and netfl, version by version, with the same masks, mini-batches and initial model.

python analysis/fedau_authors.py FOLDER [results.csv]

FOLDER is a clone of github.com/IBM/fedau.  Its ``main.py`` runs unchanged, with its model, its optimizer and its
aggregation.  Its modules that draw participation and load data are replaced from outside: participation is that of a
run of netfl, the mini-batches are those of netfl, and the initial model is version 0 of netfl, which it reads as a
pretrained model.  torchvision is not needed.

All its rules are run twice: with 64-bit numbers, in which an error of a formula cannot hide behind rounding, and with
32-bit numbers, as the authors do.  The table has the largest difference of any parameter in any version.  netfl stores
versions as 32-bit numbers, and those of the published code are rounded to them.  With 32-bit numbers, sums in another
order differ in the last digit, and training enlarges such differences from version to version.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import runpy
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import netfl
from netfl.learning.cohort import Cohort
from netfl.learning.data.fashion_mnist import FashionMnist
from netfl.learning.minibatches import BatchSampler
from netfl.results.run_reader import Run
from netfl.scenario.scenario import Scenario, validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation.setup import prepare_run
from netfl.streams import Streams

RESULTS = Path(__file__).parent / "results" / "measured" / "fedau_authors.csv"
WIDTH = 8
"""Examples in a mini-batch."""
STEPS = 3
"""Mini-batches of an update."""
ROUNDS = 30
TOLERANCE = 1e-5
"""Largest difference of a parameter in versions that count as equal."""
LAYERS = ("conv.0", "conv.3", "fc1.0", "fc2")
"""Layers of the authors' model for grey images, from the input on; each has a weight and a bias."""
FREQUENT = [0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
"""Participation probabilities with which no round is empty, at the seed of the comparison."""
RARE = [0.05, 0.05, 0.05, 0.05, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]
"""Participation probabilities with which some rounds are empty."""


@dataclass(frozen=True)
class Rule:
    """An aggregation under both names.

    Args:
        aggregation: that of netfl.
        options: command line of the published code.
        lr: step size of users.
        server_lr: step size of the server.
    """

    aggregation: str | dict[str, Any]
    options: tuple[str, ...]
    lr: float = 0.1
    server_lr: float = 1.0

    @property
    def learner(self) -> dict[str, Any]:
        """The learner of a scenario."""
        aggregation = {"kind": self.aggregation} if isinstance(self.aggregation, str) else self.aggregation
        aggregation = {**aggregation, "server_lr": self.server_lr}
        return {
            "objective": "erm",
            "aggregation": aggregation,
            "lr": self.lr,
            "batch_size": WIDTH,
            "local_steps": STEPS,
        }


def _fedau(cutoff: int) -> Rule:
    options = ("-weighting", "adaptive", "-k-adaptive", str(cutoff))
    return Rule({"kind": "fedau", "cutoff": cutoff}, options)


RULES = {
    "FedAU, K = 1": _fedau(1),
    "FedAU, K = 2": _fedau(2),
    "FedAU, K = 5": _fedau(5),
    "FedAU, no cutoff": Rule("fedau", ("-weighting", "adaptive", "-k-adaptive", "100000")),
    "FedAvg over active users": Rule(
        {"kind": "average", "weights": "equal"}, ("-weighting", "average_participating"), 0.0562, 1.78
    ),
    "FedAvg over all users": Rule("average_all", ("-weighting", "average_all"), 0.1, 2.0),
    "known probabilities": Rule("known_participation", ("-weighting", "known_prob"), 0.0562),
    "FedVARP": Rule({"kind": "fedvarp", "empty_round": "keep"}, ("-weighting", "fedvarp"), 0.0562),
    "MIFA": Rule("mifa", ("-weighting", "mifa"), 0.0562),
}


@dataclass(frozen=True)
class Inputs:
    """What the published code takes from a run of netfl.

    Args:
        rates: participation probability of each user.
        masks: whether each user participates, ``[rounds, users]``.
        batches: images and labels of the mini-batches of each user, in their order.
    """

    rates: Sequence[float]
    masks: NDArray[np.bool_]
    batches: Sequence[Sequence[tuple[NDArray[Any], NDArray[np.int64]]]]


def make_scenario(
    data: Mapping[str, Any], rates: Sequence[float], rounds: int, precision: str, names: Sequence[str]
) -> Scenario:
    """Return a scenario with the authors' model for grey images, in which rules *names* learn on one trace."""
    learners = {}
    for name in names:
        learners[name] = RULES[name].learner
    document = {
        "name": "published code of FedAU",
        "seed": 3,
        "users": len(rates),
        "rounds": rounds,
        "precision": precision,
        "access": {"kind": "bernoulli", "probability": [*rates]},
        "data": dict(data),
        "partition": {"kind": "shards", "per_user": 2},
        "model": {
            "kind": "cnn",
            "channels": [32, 32],
            "kernel": 3,
            "padding": 1,
            "hidden": [128],
            "weights": "kaiming_normal",
        },
        "learners": learners,
        "evaluate": {"every": rounds},
        "record": {"versions": True},
    }
    return validate(ScenarioDocument(document, "fedau_authors"))


def read_inputs(scenario: Scenario, run: Run, rates: Sequence[float]) -> Inputs:
    """Return participation and mini-batches of a *run* of *scenario*.

    Raises:
        ValueError: a mini-batch is not full; the published code skips it.
    """
    setup = prepare_run(scenario)
    dataset = setup.dataset
    assert dataset is not None
    split = setup.splits[0]
    work = next(iter(scenario.learners.values())).local_work
    sampler = BatchSampler([scenario.streams_of(0).at("learning")])

    masks = np.zeros((len(run.rounds), scenario.users), bool)
    batches: list[list[tuple[NDArray[Any], NDArray[np.int64]]]] = [[] for _ in split]
    deliveries = run.deliveries.sort_values(["round", "user"])
    for number, user, base in deliveries[["round", "user", "base"]].to_numpy().astype(int).tolist():
        masks[number - 1, user] = True
        cohort = Cohort(np.array([0]), np.array([user]), np.array([base]), ())
        drawn = sampler.draw(cohort, np.array([len(split[user])]), work)
        if (drawn.counts != WIDTH).any():
            raise ValueError(f"user {user} has {len(split[user])} examples, which are no full mini-batches of {WIDTH}.")
        for places in np.asarray(drawn.places[0]):
            rows = split[user][places]
            batches[user].append((dataset.train_x[rows], dataset.train_y[rows]))
    return Inputs(rates, masks, batches)


def run_published(
    clone: Path, options: Sequence[str], start: Mapping[str, NDArray[Any]], inputs: Inputs, precision: str
) -> list[NDArray[Any]]:
    """Run ``main.py`` of *clone* in this process, which should have no other use; return its versions after version 0.

    Args:
        clone: the folder of the published code.
        options: of its command line: the rule and step sizes.
        start: parameters of the initial model by the names of the published model.
        inputs: participation and mini-batches.
        precision: ``float32`` or ``float64``.
    """
    import torch

    torch.set_num_threads(1)
    torch.set_default_dtype(getattr(torch, precision))
    versions: list[NDArray[Any]] = []
    for module in _replacements(inputs, versions):
        sys.modules[module.__name__] = module
    vars(torch.utils.data)["DataLoader"] = _loader(inputs)
    rounds, users = inputs.masks.shape
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        torch.save(
            {name: torch.tensor(values, dtype=torch.get_default_dtype()) for name, values in start.items()}, "start.pt"
        )
        fixed = {
            "data": "fashion",
            "pretrained-model": "start.pt",
            "minibatch": WIDTH,
            "iters-per-round": STEPS,
            "iters-per-eval": STEPS,
            "iters-total": STEPS * rounds,
            "total-workers": users,
            "gpu": 0,
            "save-checkpoint": 0,
            "save-final-model": 0,
        }
        words = [word for key, value in fixed.items() for word in (f"-{key}", str(value))]
        sys.argv = ["main.py", *words, *options]
        sys.path.insert(0, str(clone))
        with contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(str(clone / "main.py"), run_name="__main__")
    return versions


def _replacements(inputs: Inputs, versions: list[NDArray[Any]]) -> Iterator[ModuleType]:
    """Yield modules in the place of those that draw, load, and evaluate; versions are added to *versions*."""

    class Participation:
        """Participation of one user; the published code makes one for each user in their order."""

        made = 0

        def __init__(self, method: str, participation_prob: float) -> None:
            self.participation_prob = participation_prob
            self._rounds = iter(inputs.masks[:, Participation.made].tolist())
            Participation.made += 1

        def sample(self) -> bool:
            return bool(next(self._rounds))

    class Recorder:
        def __init__(self, results_eval_file_prefix: str) -> None:
            pass

        def collect_stat_eval(self, *values: Any) -> None:
            versions.append(values[-1].numpy().astype(np.float32))

    yield _module("torchvision", transforms=_module("torchvision.transforms"))
    yield _module("torchvision.transforms")
    yield _module("dataset.dataset", load_data=lambda *_: (None, None))
    yield _module("statistic.collect_stat", CollectStatistics=Recorder)
    users = range(len(inputs.rates))
    yield _module(
        "util.util",
        WorkerSampler=Participation,
        DatasetSplit=lambda data, user: user,  # the number of a user stands for its data
        data_participation_each_node=lambda *_: (users, inputs.rates),
    )


def _module(name: str, **content: Any) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(content)
    return module


def _loader(inputs: Inputs) -> type:
    """Return a class in the place of torch's ``DataLoader`` that iterates over the mini-batches of a user."""
    import torch

    class Loader:
        def __init__(self, user: int | None, **options: Any) -> None:
            self._user = user

        def __iter__(self) -> Iterator[tuple[Any, Any]]:
            assert self._user is not None, "only data of users are read"
            for x, y in inputs.batches[self._user]:
                yield torch.tensor(x, dtype=torch.get_default_dtype()), torch.tensor(y)

    return Loader


def draw_start(scenario: Scenario) -> dict[str, NDArray[Any]]:
    """Return version 0 of *scenario* by the names of the published model, which has the same order of layers."""
    assert scenario.model is not None
    architecture = scenario.model.open((1, 28, 28), 10)
    values = architecture.start(scenario.streams_of(0).at("learning").at("start"))
    names = [f"{layer}.{part}" for layer in LAYERS for part in ("weight", "bias")]
    parts = {}
    first = 0
    for name, shape in zip(names, architecture.layout.values(), strict=True):
        size = int(np.prod(shape))
        parts[name] = values[first : first + size].reshape(shape)
        first += size
    return parts


def compare(
    clone: Path, data: Mapping[str, Any], rates: Sequence[float], rounds: int, precision: str, names: Sequence[str]
) -> pd.DataFrame:
    """Return a row for each rule of *names*: the largest differences of parameters of netfl and the published code.

    Args:
        clone: the folder of the published code.
        data: data of a scenario, images of 28 x 28 with ten labels.
        rates: participation probability of each user.
        rounds: the number of rounds.
        precision: ``float32`` or ``float64``.
        names: of `RULES`.
    """
    scenario = make_scenario(data, rates, rounds, precision, names)
    context = multiprocessing.get_context("spawn")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        run = netfl.run(scenario, Path(folder) / "run", device="cpu", progress=False)
        inputs = read_inputs(scenario, run, rates)
        start = draw_start(scenario)
        for name in names:
            rule = RULES[name]
            own = [flat(run.versions(name)[number]) for number in range(rounds + 1)]
            options = (*rule.options, "-lr", str(rule.lr), "-lr-global", str(rule.server_lr))
            with ProcessPoolExecutor(1, mp_context=context) as pool:  # the published code changes global settings
                theirs = pool.submit(run_published, clone, options, start, inputs, precision).result()
            differences = np.array([np.abs(a - b).max() for a, b in zip(own[1:], theirs, strict=True)])
            rows.append(
                {
                    "rule": name,
                    "precision": precision,
                    "rounds": rounds,
                    "empty_rounds": int((~inputs.masks.any(1)).sum()),
                    "updates": int(inputs.masks.sum()),
                    "equal_versions": int(np.logical_and.accumulate(differences <= TOLERANCE).sum()),
                    "difference_in_version_1": float(differences[0]),
                    "largest_difference": float(differences.max()),
                    "largest_change": float(np.abs(own[-1] - own[0]).max()),
                }
            )
    return pd.DataFrame(rows)


def flat(version: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Return the parameters of a version as one array."""
    return np.concatenate([values.astype(float).ravel() for values in version.values()])


def store_images(x: NDArray[Any], label: NDArray[np.int64], users: int, file: Path) -> dict[str, Any]:
    """Store images in *file* so that each of *users* holds ten full mini-batches; return the data of a scenario.

    Args:
        x: images, ``[images, 1, 28, 28]``.
        label: their labels, ``[images]``.
        users: the number of users.
        file: where to store them.
    """
    train = 10 * WIDTH * users
    test = train // 9  # a tenth of all
    np.savez(file, x=x[: train + test], label=label[: train + test])
    return {"kind": "arrays", "file": str(file), "features": [1, 28, 28], "labels": 10, "test_share": 0.1}


def main(clone: Path, results: Path) -> pd.DataFrame:
    """Compare all rules on images of Fashion-MNIST; write and return the table."""
    images = FashionMnist(train_scale="channels").load(Streams(0))
    with tempfile.TemporaryDirectory() as folder:
        data = store_images(images.train_x, images.train_y, len(FREQUENT), Path(folder) / "images.npz")
        tables = [
            compare(clone, data, rates, ROUNDS, precision, [*RULES])
            for precision in ("float64", "float32")
            for rates in (FREQUENT, RARE)
        ]
    table = pd.concat(tables, ignore_index=True)
    table.to_csv(results, index=False, float_format="%.3g")
    return table


if __name__ == "__main__":
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else RESULTS
    sys.stdout.write(main(Path(sys.argv[1]).resolve(), target.resolve()).to_string() + "\n")
