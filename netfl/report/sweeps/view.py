"""A sweep as its page sees it: what it varies, who learns, and what each learner came to."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import pyarrow.dataset as ds

from netfl.errors import NetflError
from netfl.report import phrases
from netfl.results import formatting
from netfl.results.run_reader import Run
from netfl.results.statistics import ConfidenceInterval, metric_of
from netfl.scenario.sweep_axes import short_names
from netfl.scenario.yaml_document import parse, plain_value

METRICS = {
    "accuracy": "accuracy",
    "rare_accuracy": "accuracy on the rare classes",
    "accuracy_users_worst10": "accuracy of the worst 10 % of users",
}
"""The figures of learning that the page shows, where they are there, and what they are called in a sentence."""
NETWORK = (
    "rounds_per_hour", "delivered_per_round", "throughput_bps", "delay_mean_s", "loss_ratio", "jain",
)  # fmt: skip
"""The figures of the network that the page shows where nobody learns."""


class AxisValues(Protocol):
    """What the page needs of a sweep: `netfl.Sweep` has it all."""

    folder: Path

    @property
    def status(self) -> str:
        """``done`` or ``partial``."""

    @property
    def axes(self) -> list[str]:
        """The names of the axes."""

    @property
    def points(self) -> pd.DataFrame:
        """One row for each point."""

    @property
    def lanes(self) -> pd.DataFrame:
        """One row for each point, learner and replica that is done."""

    @property
    def tasks(self) -> pd.DataFrame:
        """One row for each task."""

    @property
    def figures(self) -> pd.DataFrame:
        """One row for each point, replica and figure."""

    @property
    def summary(self) -> pd.DataFrame:
        """One row for each point, learner and figure."""

    def table(
        self, name: str, columns: Sequence[str] | None = None, where: ds.Expression | None = None
    ) -> pd.DataFrame:
        """A table of all points, or a part of it."""

    def run(self, task: str) -> Run:
        """The run of a task."""


class SweepData:
    """What the page asks of a sweep, worked out once.

    Args:
        sweep: done or not.
    """

    def __init__(self, sweep: AxisValues) -> None:
        self.sweep = sweep

    @cached_property
    def text(self) -> str:
        """The scenario with its sweep, as its file says it; empty where there is none."""
        path = self.sweep.folder / "scenario.yaml"
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    @cached_property
    def said(self) -> dict[str, Any]:
        """The same as plain data; empty where it cannot be read."""
        try:
            found = plain_value(parse(self.text, "scenario.yaml"))
        except NetflError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def name(self) -> str:
        """What the sweep is called."""
        return str(self.said.get("name") or self.sweep.folder.name)

    @cached_property
    def replicas(self) -> int:
        """How many replicas a point has, if it has all."""
        return max(int(self.sweep.lanes["replica"].nunique()), int(self.said.get("replicas") or 1))

    @cached_property
    def varied(self) -> list[str]:
        """The axes that take more than one value."""
        return [axis for axis in self.sweep.axes if self.sweep.points[axis].nunique() > 1]

    @property
    def drawn(self) -> list[str]:
        """Of these, those whose values are drawn at random."""
        return self._sections["random"]

    @property
    def bound(self) -> dict[str, list[str]]:
        """The axes that vary with another, of lists that are zipped, by the name of the first."""
        zipped = self._sections["zip"]
        return {zipped[0]: zipped[1:]} if len(zipped) > 1 else {}

    @property
    def free(self) -> list[str]:
        """The axes that vary by themselves."""
        return [axis for axis in self.varied if axis not in {*self._sections["zip"][1:], *self.drawn}]

    @cached_property
    def _sections(self) -> dict[str, list[str]]:
        """The axes that vary of the sweep's ``grid``, ``zip`` and ``random``."""
        said = self.said.get("sweep")
        said = said if isinstance(said, dict) else {}
        parts = {"grid": said.get("grid"), "zip": said.get("zip"), "random": (said.get("random") or {}).get("of")}
        names = short_names([path for part in parts.values() for path in part or ()])
        return {part: [names[path] for path in own or () if names[path] in self.varied] for part, own in parts.items()}

    @cached_property
    def metrics(self) -> list[str]:
        """The figures of learning that are there."""
        there = {*self.sweep.summary["figure"].map(metric_of)}
        return [metric for metric in METRICS if metric in there]

    @cached_property
    def network(self) -> list[str]:
        """The figures of the network that are there."""
        found = self.sweep.summary[self.sweep.summary["mean"].notna()]
        there = {*found.loc[found["learner"] == "", "figure"]}
        return [figure for figure in NETWORK if figure in there]

    @cached_property
    def learners(self) -> list[str]:
        """Who learns, as the scenario has them."""
        return [name for name in self.sweep.summary["learner"].unique().tolist() if name]

    @property
    def choices(self) -> set[str]:
        """The names of choices among learners: they are of these, and are not ranked beside them."""
        evaluate = self.said.get("evaluate")
        return {*((evaluate.get("choose") if isinstance(evaluate, dict) else None) or ())}

    def settled(self, figure: str) -> pd.DataFrame:
        """The rows of the summary on *figure*, a figure of the network or a metric of learners."""
        rows = self.sweep.summary
        return rows[(rows["figure"].map(metric_of) == figure) & rows["mean"].notna()].assign(figure=figure)

    def ends(self, figure: str) -> dict[tuple[int, str], ConfidenceInterval]:
        """The same by point and learner."""
        rows = self.settled(figure)
        found = map(ConfidenceInterval, rows["mean"].tolist(), rows["half"].tolist(), rows["replicas"].tolist())
        return dict(zip(zip(rows["point"].tolist(), rows["learner"].tolist(), strict=True), found, strict=True))

    def values(self, figure: str) -> pd.DataFrame:
        """What `settled` takes the means of, for each replica; NaN where training diverged."""
        rows = self.sweep.figures
        return rows[rows["figure"].map(metric_of) == figure]

    def place(self, axes: Sequence[str], point: int) -> str:
        """The values of some *axes* at a point, in words."""
        row = self.sweep.points.loc[point]
        return phrases.join_words([f"{axis} = {formatting.format_setting(row[axis])}" for axis in axes]) if axes else ""
