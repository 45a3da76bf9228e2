"""Data structures of a reproduction: experiments of papers, their runs, the published values, and our results.

An `Experiment` names its runs as parts of a scenario file, so that a run directory can be identified: its scenario must
equal that file with the same override blocks. The seed and the number of replicas may differ.
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
        scenario: the file, relative to ``scenarios/`` and without its suffix.
        blocks: the override blocks that the run applies.
        changes: further keys that the run sets, with their values.
        full: whether this is the complete experiment of the paper, not a shortened one.
        extra: computes further values of the run, by name, for the remarks.
    """

    scenario: str
    blocks: tuple[str, ...] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)
    full: bool = True
    extra: Callable[[Run], Mapping[str, float]] | None = None

    @property
    def path(self) -> Path:
        """The scenario file."""
        return ROOT / f"scenarios/{self.scenario}.yaml"

    @property
    def command(self) -> str:
        """The command that makes the run."""
        words = [f"netfl run scenarios/{self.scenario}.yaml", *(f"--override {block}" for block in self.blocks)]
        return " ".join([*words, *(f"--set {key}={value}" for key, value in self.changes.items())])

    @property
    def replicas(self) -> int:
        """Number of replicas that the command makes."""
        return netfl.load(self.path, dict(self.changes), self.blocks).replicas

    def differences(self, run: Run) -> list[str]:
        """Return the dotted keys in which the scenario of *run* differs from this part."""
        return [*_differing(_resolved(self.path, self.blocks, tuple(self.changes.items())), _comparable(run.scenario))]


@dataclass(frozen=True)
class Published:
    """A published value.

    Args:
        value: as published.
        spread: the number published after ±.
        low: if the paper gives only words such as "about 50 %" or "over 80 %": the low end of the range compared.
        high: the high end of that range.
        text: these words.
    """

    value: float = math.nan
    spread: float = 0.0
    low: float = math.nan
    high: float = math.nan
    text: str = ""

    @property
    def span(self) -> tuple[float, float]:
        """Low and high end of the published range."""
        if math.isnan(self.value):
            return self.low, self.high
        return self.value - self.spread, self.value + self.spread


@dataclass(frozen=True)
class Row:
    """One metric of an experiment: a row of its table.

    Args:
        label: the name in the table.
        parts: the parts whose replicas are pooled.
        learner: the learner of the metric.
        metric: its name, as ``accuracy`` or ``accuracy/class:9``.
        published: the published value, if there is one.
        scale: factor of the metric: 100 for percent.
        digits: decimal places.
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
    """A claim that a metric of one learner is greater than that of another on the same traces.

    Args:
        label: the claim in words.
        parts: the parts whose replicas are compared in pairs.
        metric: its name.
        above: the learner with the greater metric according to the claim.
        below: the other learner.
        against: the parts of the second learner, if these are not *parts*.
        scale: factor of the metric.
        digits: decimal places.
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
    """Stored result of one part.

    Args:
        content: the content of its file in ``analysis/results``.
    """

    content: Mapping[str, Any]

    def values(self, learner: str, metric: str, *, last: bool = False) -> list[float]:
        """Return one metric of each replica: the mean over the last rounds, or the *last* evaluation."""
        found: list[float | None] = self.content["figures"][learner][metric]["last" if last else "mean"]
        return [math.nan if value is None else value for value in found]


Draw = Callable[[Mapping[str, Run], Figure], object]


@dataclass(frozen=True)
class Experiment:
    """A figure or a table of a paper, or an experiment of our own.

    Args:
        name: begins the names of its files and plots.
        title: its heading on the page.
        source: the place in the paper, such as ``Fig. 2``; our scenarios for an experiment of our own.
        claim: the setting and the published claim in words.
        parts: its runs, by name.
        rows: its metrics.
        orders: claimed orders of learners.
        remarks: explains differences, given the results that exist.
        draw: draws the plot, given the runs that exist.
        size: width and height of a plot in inches, given its runs.
        separate_plots: whether each run has a plot of its own.
        paper: the title of the paper; empty for an experiment of our own.
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
    separate_plots: bool = False
    paper: str = ""

    @property
    def citation(self) -> str:
        """The source with the title of its paper."""
        return f'{self.source} of "{self.paper}"' if self.paper else self.source

    def find_part(self, run: Run) -> str | None:
        """Return the name of the part with the scenario of *run*, if there is one."""
        return next((name for name, part in self.parts.items() if not part.differences(run)), None)

    def stem(self, part: str) -> str:
        """Return the file name of a part without its suffix."""
        return f"{self.name}.{re.sub(r'[^a-zA-Z0-9.]+', '_', part)}"

    @property
    def plot_names(self) -> list[str]:
        """File names of its plots."""
        if self.draw is None:
            return []
        return [f"{self.stem(part)}.png" for part in self.parts] if self.separate_plots else [f"{self.name}.png"]

    def draw_plots(self, runs: Mapping[str, Run], folder: Path) -> list[Path]:
        """Draw the plots of *runs*, by the names of their parts, and return their files."""
        if (draw := self.draw) is None:
            return []
        folder.mkdir(parents=True, exist_ok=True)
        groups = (
            {self.stem(part): {part: run} for part, run in runs.items()} if self.separate_plots else {self.name: runs}
        )
        return [
            style.png(lambda figure, group=group: draw(group, figure), folder / f"{stem}.png", size=self.size(group))
            for stem, group in groups.items()
        ]


def forms(scenario: str) -> dict[str, Part]:
    """Return the full and the quick form of a scenario."""
    return {"full": Part(scenario, ("full",)), "quick": Part(scenario, ("quick",), full=False)}


@cache
def _resolved(path: Path, blocks: tuple[str, ...], changes: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Return the comparable part of a scenario, as a run directory stores it."""
    scenario = netfl.load(path, dict(changes), blocks)
    return _comparable(YAML(typ="safe", pure=True).load(scenario.to_yaml()))


def _comparable(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario without the keys that may differ between runs of one experiment."""
    return {key: scenario[key] for key in scenario if key not in {"name", "description", "seed", "replicas"}}


def _differing(ours: object, theirs: object, at: str = "") -> Iterable[str]:
    """Yield the dotted keys in which two scenarios differ."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for key in dict.fromkeys([*ours, *theirs]):
            yield from _differing(ours.get(key), theirs.get(key), f"{at}.{key}" if at else str(key))
    elif ours != theirs:
        yield at
