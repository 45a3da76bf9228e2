"""What a reproduction is: an experiment of a paper, its runs, what was published, and what the runs gave.

An `Experiment` names its runs as parts of a scenario file, so that a run directory can be told for what it is: its
scenario must be that file's, with those blocks of overrides, but for the seed and more replicas.  What a run gave is
kept as a small JSON file, from which the page is written; see `paper.py`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from ruamel.yaml import YAML

import netfl
from netfl.reading import Run
from netfl.report import canvas, plots_learning
from netfl.statistics import Interval, interval

ROOT = Path(__file__).parents[1]
WINDOW = 250
"""Figures of learning swing with the user heard last: they are means over the evaluations of so many last rounds.

Of runs shorter than four times that it is their last quarter.
"""


@dataclass(frozen=True)
class Part:
    """One run of an experiment.

    Args:
        scenario: the file, below ``scenarios/`` and without its ending.
        blocks: the blocks of overrides that are applied.
        changes: what else is set.
        full: whether it is the paper's whole experiment; else it is a shorter one.
        more: further figures of its run, by name, that remarks are written from.
    """

    scenario: str
    blocks: tuple[str, ...] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)
    full: bool = True
    more: Callable[[Run], Mapping[str, float]] | None = None

    @property
    def path(self) -> Path:
        """The scenario file."""
        return ROOT / f"scenarios/{self.scenario}.yaml"

    @property
    def command(self) -> str:
        """What makes the run."""
        words = [f"netfl run scenarios/{self.scenario}.yaml", *(f"--override {block}" for block in self.blocks)]
        return " ".join([*words, *(f"--set {key}={value}" for key, value in self.changes.items())])

    def differences(self, run: Run) -> list[str]:
        """The dotted keys in which *run* is not this part."""
        return [*_differing(_resolved(self.path, self.blocks, tuple(self.changes.items())), _comparable(run.scenario))]


@dataclass(frozen=True)
class Published:
    """A published figure.

    Args:
        value: as published.
        spread: what was published behind ±.
        low: for words such as "about 50 %" and "over 80 %": what they are taken to span.
        high: the same.
        text: these words.
    """

    value: float = math.nan
    spread: float = 0.0
    low: float = math.nan
    high: float = math.nan
    text: str = ""

    @property
    def span(self) -> tuple[float, float]:
        """From where to where it goes."""
        if math.isnan(self.value):
            return self.low, self.high
        return self.value - self.spread, self.value + self.spread


@dataclass(frozen=True)
class Row:
    """One figure of an experiment.

    Args:
        label: what it is.
        parts: the parts whose replicas are put together.
        learner: whose figure.
        metric: which, as ``accuracy`` or ``accuracy/class:9``.
        published: the published figure, if there is one.
        scale: what the metric is multiplied with: 100 for percent.
        digits: behind the point.
    """

    label: str
    parts: tuple[str, ...]
    learner: str
    metric: str
    published: Published | None = None
    scale: float = 100.0
    digits: int = 1


@dataclass(frozen=True)
class Order:
    """A claim that can be decided: one learner's figure lies above another's, on the same traces.

    Args:
        label: the claim.
        parts: the parts whose replicas are compared in pairs.
        metric: the figure.
        above: the learner that is claimed to have more of it.
        below: the other one.
        against: where the two are learners of two parts: the parts of the second.
        scale: what the metric is multiplied with.
    """

    label: str
    parts: tuple[str, ...]
    metric: str
    above: str
    below: str
    against: tuple[str, ...] = ()
    scale: float = 100.0
    digits: int = 1


@dataclass(frozen=True)
class Result:
    """What one part gave, as it is kept.

    Args:
        told: the content of its file.
    """

    told: Mapping[str, Any]

    def values(self, learner: str, metric: str, *, last: bool = False) -> list[float]:
        """One figure, for each replica."""
        found: list[float | None] = self.told["figures"][learner][metric]["last" if last else "mean"]
        return [math.nan if value is None else value for value in found]


Draw = Callable[[Mapping[str, Run], Figure], object]


@dataclass(frozen=True)
class Experiment:
    """A figure or a table of a paper.

    Args:
        name: what its picture and its files are called.
        title: its heading.
        source: where it is published.
        claim: what was published, in words.
        parts: its runs, by name.
        rows: its figures.
        orders: what is claimed of learners beside each other.
        remarks: where ours differ and why, from the results that are there.
        draw: draws the picture from those of the runs that are there.
        size: width and height of the picture in inches, for the runs in it.
    """

    name: str
    title: str
    source: str
    claim: str
    parts: Mapping[str, Part]
    rows: Sequence[Row]
    orders: Sequence[Order] = ()
    remarks: Callable[[Mapping[str, Result]], str] = lambda results: ""
    draw: Draw | None = None
    size: Callable[[Mapping[str, Run]], tuple[float, float]] = lambda runs: (9.0, 3.4)

    def part_of(self, run: Run) -> str | None:
        """The name of the part that *run* is."""
        return next((name for name, part in self.parts.items() if not part.differences(run)), None)

    def picture(self, runs: Mapping[str, Run], folder: Path) -> Path | None:
        """The picture of *runs*, by the names of their parts; none where the experiment has none."""
        paint = self.draw
        if paint is None:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        return canvas.png(lambda figure: paint(runs, figure), folder / f"{self.name}.png", size=self.size(runs))

    def told(self, part: str, run: Run) -> dict[str, Any]:
        """What is kept of *run*: each figure that a row or a claim asks for of this part, its versions, its time.

        Raises:
            KeyError: the run has no such figure.
        """
        asked = {(row.learner, row.metric) for row in self.rows if part in row.parts}
        for order in self.orders:
            asked |= {(order.above, order.metric)} if part in order.parts else set()
            asked |= {(order.below, order.metric)} if part in (order.against or order.parts) else set()
        figures: dict[str, dict[str, Any]] = {}
        for learner, metric in sorted(asked):
            figures.setdefault(learner, {})[metric] = _figure(run, learner, metric)
        manifest = run.manifest
        return {
            "seed": manifest["seed"],
            "replicas": manifest["replicas"],
            "rounds": manifest["rounds"],
            "wall_s": round(manifest["rounds_done"] / manifest["timings"]["rounds_per_s"]),
            "cores": manifest["machine"]["cores"],
            "versions": {name: manifest["versions"][name] for name in ("netfl", "torch")},
            "diverged": run.diverged,
            "figures": figures,
            "more": {} if (more := self.parts[part].more) is None else dict(more(run)),
        }


def spread(results: Mapping[str, Result], row: Row, *, last: bool = False) -> Interval:
    """The figure of a row over the replicas of all its parts, with its interval."""
    found = [value for part in row.parts for value in results[part].values(row.learner, row.metric, last=last)]
    return interval([row.scale * value for value in found])


def difference(results: Mapping[str, Result], order: Order) -> Interval:
    """How far one learner lies above another, replica by replica."""
    pairs = zip(order.parts, order.against or order.parts, strict=True)
    found = []
    for part, other in pairs:
        above, below = results[part].values(order.above, order.metric), results[other].values(order.below, order.metric)
        found += [order.scale * (a - b) for a, b in zip(above, below, strict=False)]
    return interval(found)


def legend(figure: Figure, learners: Sequence[str]) -> None:
    """The learners' lines, below all panels."""
    plots_learning.learner_legend(figure, learners, loc="outside lower center", ncol=min(len(learners), 6))


def kept(experiment: Experiment, part: str, folder: Path) -> Path:
    """The file of what is kept of a part."""
    return folder / f"{experiment.name}.{re.sub(r'[^a-zA-Z0-9.]+', '_', part)}.json"


def read(experiment: Experiment, folder: Path) -> dict[str, Result]:
    """What is kept of an experiment's parts, by name; only of those that were run."""
    found = {}
    for name in experiment.parts:
        path = kept(experiment, name, folder)
        if path.exists():
            found[name] = Result(json.loads(path.read_text(encoding="utf-8")))
    return found


def keep(experiment: Experiment, runs: Mapping[str, Run], folder: Path) -> None:
    """Keep what *runs*, by the names of their parts, gave."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, run in runs.items():
        text = json.dumps(experiment.told(name, run), indent=1, ensure_ascii=False)
        path = kept(experiment, name, folder)
        path.write_text(text + "\n", encoding="utf-8")


def _figure(run: Run, learner: str, metric: str) -> dict[str, list[float | None]]:
    """A metric of a learner in each replica: after the last round, and as a mean over the last rounds."""
    name, _, group = metric.partition("/")
    table = run.metrics
    rows = table[(table["learner"] == learner) & (table["metric"] == name) & (table["group"] == group)]
    if rows.empty:
        raise KeyError(f"{run.folder} has no {metric} of {learner}")
    found: dict[str, list[float | None]] = {"mean": [], "last": []}
    rounds = run.manifest["rounds"]
    for replica in range(run.manifest["replicas"]):
        own = rows[rows["replica"] == replica].sort_values("round")
        late = own[own["round"] > rounds - min(WINDOW, rounds / 4)]["value"]
        whole = len(own) and own["round"].iloc[-1] == rounds
        found["mean"].append(round(float(late.mean()), 8) if whole else None)
        found["last"].append(round(float(own["value"].iloc[-1]), 8) if whole else None)
    return found


@cache
def _resolved(path: Path, blocks: tuple[str, ...], changes: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """A scenario as a run of it would keep it, less what may differ."""
    scenario = netfl.load(path, dict(changes), blocks)
    return _comparable(YAML(typ="safe", pure=True).load(scenario.to_yaml()))


def _comparable(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """A scenario less what does not make it another experiment."""
    return {key: scenario[key] for key in scenario if key not in {"name", "description", "seed", "replicas"}}


def _differing(ours: object, theirs: object, at: str = "") -> Iterable[str]:
    """The dotted keys in which two scenarios differ."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for key in dict.fromkeys([*ours, *theirs]):
            yield from _differing(ours.get(key), theirs.get(key), f"{at}.{key}" if at else str(key))
    elif ours != theirs:
        yield at
