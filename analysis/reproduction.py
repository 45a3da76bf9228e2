"""What a reproduction is: an experiment of a paper, its runs, what was published, and what the runs gave.

An `Experiment` names its runs as parts of a scenario file, so that a run directory can be told for what it is: its
scenario must be that file's, with those blocks of overrides, but for the seed and more replicas.
"""

from __future__ import annotations

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
from netfl.plots import style
from netfl.results.run_reader import Run

ROOT = Path(__file__).parents[1]


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

    @property
    def replicas(self) -> int:
        """How many replicas its command makes."""
        return netfl.load(self.path, dict(self.changes), self.blocks).replicas

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
        apart: whether each run has a picture of its own.
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
    apart: bool = False

    def part_of(self, run: Run) -> str | None:
        """The name of the part that *run* is."""
        return next((name for name, part in self.parts.items() if not part.differences(run)), None)

    def stem(self, part: str) -> str:
        """What the files of a part are called, less their ending."""
        return f"{self.name}.{re.sub(r'[^a-zA-Z0-9.]+', '_', part)}"

    @property
    def pictures(self) -> list[str]:
        """What its pictures are called."""
        if self.draw is None:
            return []
        return [f"{self.stem(part)}.png" for part in self.parts] if self.apart else [f"{self.name}.png"]

    def drawn(self, runs: Mapping[str, Run], folder: Path) -> list[Path]:
        """The pictures of *runs*, by the names of their parts."""
        if (paint := self.draw) is None:
            return []
        folder.mkdir(parents=True, exist_ok=True)
        groups = {self.stem(part): {part: run} for part, run in runs.items()} if self.apart else {self.name: runs}
        return [
            style.png(lambda figure, own=own: paint(own, figure), folder / f"{stem}.png", size=self.size(own))
            for stem, own in groups.items()
        ]


def forms(scenario: str) -> dict[str, Part]:
    """The whole form of a scenario and its quick one."""
    return {"full": Part(scenario, ("full",)), "quick": Part(scenario, ("quick",), full=False)}


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
