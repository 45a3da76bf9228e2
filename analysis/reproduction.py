"""Data structures of a reproduction: experiments of papers, their runs, the published values, and our results.

An `Experiment` names its runs as parts of a scenario file, so that a run directory can be identified: its scenario must
equal that file with the same override blocks. The seed and the number of replicas may differ.

The parts are also the list of `analysis/campaign.py`: each has a turn and a cost, which decide the order of the runs.

A claim is tested at the settings of its authors. A row or an order is a claim if it is one in the paper, and if all its
parts are complete and have these settings. All others show how much the settings matter.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

import netfl
from netfl.errors import ScenarioError
from netfl.plots import style
from netfl.results.run_reader import Run
from netfl.results.same_settings import is_same
from netfl.scenario.scenario import Scenario

ROOT = Path(__file__).parents[1]

TURNS = {
    0: "not run by the campaign: a shortened form, or a setting that has been run",
    1: "claims that take minutes",
    2: "redraws of Fig. 3, and Fig. 3 and 4 on raw pixels",
    3: "FedAU on CIFAR-10 in the quick form",
    4: "AFL and q-FFL on Fashion-MNIST",
    5: "weight divergence",
    6: "controls of the step size",
    7: "further settings, and experiments of our own",
    8: "what needs days, or a GPU",
}
"""The meaning of `Part.turn`.  Runs of a lower turn come first, and within a turn the cheaper ones."""
ASSUMED = "5 runs, SD (assumed)"
"""`Published.basis` of a table that has ± and names neither the number of runs nor the meaning of the sign."""
_SETTINGS = ("seed", "users", "rounds", "access", "data", "partition", "model", "learners", "precision")


@dataclass(frozen=True)
class Part:
    """One run of an experiment.

    Args:
        scenario: the file, relative to ``scenarios/`` and without its suffix.
        blocks: the override blocks that the run applies.
        changes: further keys that the run sets, with their values.
        full: whether this is the complete experiment of the paper, not a shortened one.
        extra: computes further values of one replica of the run, by name, for the remarks.
        turn: its place in the campaign, see `TURNS`; with 0 the campaign does not run it.
        core_hours: the hours of one thread that a replica takes, measured in a run of a few rounds.
        needs: what else a run needs, beside time: a data set that is not free, or a GPU.
        published: whether its settings are those of the paper, and not a test of an explanation.
        after_results: whether its settings were chosen after results with other settings had been seen.
    """

    scenario: str
    blocks: tuple[str, ...] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)
    full: bool = True
    extra: Callable[[Run, int], Mapping[str, float]] | None = None
    turn: int = 7
    core_hours: float = math.nan
    needs: str = ""
    published: bool = True
    after_results: bool = False

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
        return int(self._plain["replicas"])

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return int(self._plain["rounds"])

    @property
    def settings(self) -> dict[str, Any]:
        """The settings on which the results of a replica depend, as a result file stores them."""
        return settings_of(self._plain)

    @property
    def is_authors(self) -> bool:
        """True for the complete experiment at its authors' settings, whose results test claims."""
        return self.full and self.published

    def has_settings(self, stored: Mapping[str, Any]) -> bool:
        """Return whether results with the *stored* settings are those of this part.

        A key that the stored settings do not have is newer than they are. It must have its default here.
        """
        return is_same(stored, self.settings, _loaded(self.path, self.blocks, _frozen(self.changes)))

    @property
    def data_kind(self) -> str:
        """The kind of the data."""
        data = self.settings["data"]
        return str(data if isinstance(data, str) else data["kind"])

    def load(self, **changes: Any) -> Scenario:
        """Return the scenario of the run, with further *changes*."""
        return netfl.load(self.path, {**self.changes, **changes}, self.blocks)

    def differences(self, run: Run) -> list[str]:
        """Return the dotted keys in which the scenario of *run* differs from this part."""
        return [*_differing(_comparable(self._plain), _comparable(_scenario_of(run)))]

    @property
    def _plain(self) -> dict[str, Any]:
        return _resolved(self.path, self.blocks, _frozen(self.changes))


@dataclass(frozen=True)
class Published:
    """A published value.

    Args:
        value: as published.
        spread: the number published after ±, in most papers the standard deviation of a few runs.
        low: if the paper gives only words such as "about 50 %" or "over 80 %": the low end of the range compared.
        high: the high end of that range.
        text: these words, or those of a value such as "never".
        digits: decimal places of the value as published; it is known to half a unit of the last one.
        mean_of: number of independent runs of which the value is the mean and `spread` the standard deviation. Splits
            of one draw of the data are one run if our replicas are draws.
        basis: these runs in words, with what is assumed because the paper does not say it.
    """

    value: float = math.nan
    spread: float = 0.0
    low: float = math.nan
    high: float = math.nan
    text: str = ""
    digits: int = 1
    mean_of: int = 1
    basis: str = "1 run (assumed)"

    @property
    def rounding(self) -> float:
        """Half a unit of the last digit as published; words have none."""
        return 0.0 if math.isnan(self.value) else 0.5 * 10.0**-self.digits

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the range of words, or the value twice."""
        return (self.low, self.high) if math.isnan(self.value) else (self.value, self.value)

    def distance(self, other: Published) -> float:
        """Return the smallest difference between two published values that their words allow; 0 if ranges overlap."""
        (low, high), (other_low, other_high) = self.ends, other.ends
        return max(low - other_high, other_low - high, 0.0)


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
        claimed: whether the published value was measured as in this row, if its parts are those of the authors.
        effect: the effect that the paper claims on this metric, if no order has the same metric.
    """

    label: str
    parts: tuple[str, ...]
    learner: str
    metric: str
    published: Published | None = None
    scale: float = 100.0
    digits: int = 1
    claimed: bool = True
    effect: float = math.nan

    @property
    def is_extreme(self) -> bool:
        """True if 0 or 100 % is published, which runs match under any rule if their accuracy has no room either."""
        return self.published is not None and self.scale == 100.0 and self.published.value in (0.0, 100.0)


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
        claimed: whether the paper claims it, if its parts are those of the authors.
        after_results: whether it became a claim of the page after its results had been seen.
        came_first: whether it is a claim at a setting that was replaced after results had been seen. It is no claim any
            more, and stands beside those that replaced it.
    """

    label: str
    parts: tuple[str, ...]
    metric: str
    above: str
    below: str
    against: tuple[str, ...] = ()
    scale: float = 100.0
    digits: int = 1
    claimed: bool = True
    after_results: bool = False
    came_first: bool = False


@dataclass(frozen=True)
class Result:
    """Stored result of one part: the results of its replicas, which runs of any number of replicas add to.

    Args:
        content: the content of its file in ``analysis/results``; see `run_results.extract_result`.
    """

    content: Mapping[str, Any]

    @property
    def replicas(self) -> list[int]:
        """The numbers of the replicas, in order."""
        return sorted(map(int, self.content["replicas"]))

    @property
    def diverged(self) -> dict[str, int]:
        """The number of replicas in which a learner diverged, by the learner."""
        lines = [line for number in self.replicas for line in self._replica(number)["diverged"]]
        return dict(Counter(str(line).partition(", replica ")[0] for line in lines))

    @property
    def core_s(self) -> float:
        """Wall time in seconds of the replicas that ran on a CPU, of one thread each."""
        return float(sum(self._replica(number)["wall_s"] for number in self.replicas if not self.gpu(number)))

    @property
    def gpu_s(self) -> float:
        """Wall time in seconds of the replicas that ran on a GPU; replicas of one run share its time."""
        return float(sum(self._replica(number)["wall_s"] for number in self.replicas if self.gpu(number)))

    def gpu(self, replica: int) -> str:
        """Return the name of the GPU on which a replica ran; empty for a CPU."""
        return str(self._replica(replica).get("gpu", ""))

    def by_replica(self, learner: str, metric: str, *, last: bool = False) -> dict[int, float]:
        """Return a metric of the replicas that have it: the mean over the last rounds, or the *last* evaluation."""
        found = {}
        for number in self.replicas:
            value = self._replica(number)["metrics"].get(learner, {}).get(metric)
            if value is not None:
                found[number] = math.nan if value[last] is None else float(value[last])
        return found

    def values(self, learner: str, metric: str, *, last: bool = False) -> list[float]:
        """Return the values of `by_replica`, in order of the replicas."""
        return [*self.by_replica(learner, metric, last=last).values()]

    @property
    def extras(self) -> dict[str, dict[int, float]]:
        """The values of `Part.extra` by name, and of each by the number of the replica."""
        found: dict[str, dict[int, float]] = {}
        for number in self.replicas:
            for name, value in self._replica(number)["more"].items():
                found.setdefault(name, {})[number] = value
        return found

    def extra(self, name: str) -> dict[int, float]:
        """Return a value of `Part.extra` for each replica that has it."""
        return self.extras.get(name, {})

    def has(self, replica: int, metrics: Iterable[tuple[str, str]]) -> bool:
        """Return whether *replica* has these metrics of these learners."""
        if replica not in self.replicas:
            return False
        known = self._replica(replica)["metrics"]
        return all(metric in known.get(learner, {}) for learner, metric in metrics)

    def without(self, numbers: Container[int]) -> Result:
        """Return the result without some replicas."""
        replicas = self.content["replicas"]
        kept = {number: replicas[number] for number in replicas if int(number) not in numbers}
        return Result({**self.content, "replicas": kept})

    def _replica(self, number: int) -> Mapping[str, Any]:
        content: Mapping[str, Any] = self.content["replicas"][str(number)]
        return content


@dataclass(frozen=True)
class StoredRun:
    """Values that plots need of a run, from its stored result.

    Args:
        result: the result.
    """

    result: Result

    @property
    def is_complete(self) -> bool:
        """Return whether at least half of the replicas have curves; results of older versions have none."""
        return 2 * len(self._curves) >= len(self.result.replicas) > 0

    @property
    def learners(self) -> tuple[str, ...]:
        """Names of the learners."""
        return (*next(iter(self._curves.values()))["values"],)

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """The thinned curves, as a metrics table."""
        frames = []
        for number, curves in self._curves.items():
            for learner, metrics in curves["values"].items():
                for metric, values in metrics.items():
                    name, _, group = metric.partition("/")
                    columns = {"replica": number, "round": curves["round"], "learner": learner}
                    frames.append(pd.DataFrame({**columns, "metric": name, "group": group, "value": values}))
        return pd.concat(frames, ignore_index=True).astype({"value": float})

    @property
    def _curves(self) -> dict[int, Mapping[str, Any]]:
        replicas = self.result.content["replicas"]
        return {number: replicas[str(number)]["curves"] for number in self.result.replicas
                if "curves" in replicas[str(number)]}  # fmt: skip


PlottedRun = Run | StoredRun
Draw = Callable[[Mapping[str, Any], Figure], object]


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
        separate_plots: the parts that have a plot of their own; by default all have one together.
        shown: the parts of the common plot; by default all.
        draws_tables: whether *draw* needs tables of a run directory that are not stored.
        paper: the title of the paper; empty for an experiment of our own.
        chosen: settings that the paper leaves open and we have chosen, in words; empty if all are its authors'.
        history: the order of events, if a setting or a claim was chosen after results had been seen.
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
    size: Callable[[Mapping[str, Any]], tuple[float, float]] = lambda runs: (9.0, 3.4)
    separate_plots: Sequence[str] = ()
    shown: Sequence[str] = ()
    draws_tables: bool = False
    paper: str = ""
    chosen: str = ""
    history: str = ""

    @property
    def settings(self) -> str:
        """Who chose the settings at which the claims are tested: "authors", or "ours" if we had to choose some."""
        return "ours" if self.chosen else "authors"

    def is_claim(self, item: Row | Order) -> bool:
        """Return whether a row or an order is a claim of the paper, tested at the settings of its authors."""
        is_published = isinstance(item, Order) or item.published is not None
        return bool(self.paper) and is_published and self.is_authors(item)

    def is_authors(self, item: Row | Order) -> bool:
        """Return whether a row or an order is at the settings of the authors."""
        return item.claimed and all(self.parts[name].is_authors for name in self.parts_of(item))

    def is_after_results(self, item: Row | Order) -> bool:
        """Return whether a claim, or a setting at which it is tested, was chosen after results had been seen."""
        if isinstance(item, Order) and item.after_results:
            return True
        return any(self.parts[name].after_results for name in self.parts_of(item))

    def parts_of(self, item: Row | Order) -> tuple[str, ...]:
        """Return the names of the parts that a row or an order needs."""
        return (*item.parts, *item.against) if isinstance(item, Order) else item.parts

    def effect(self, row: Row) -> float:
        """Return the largest effect on the metric of a row that a claimed order states; `Row.effect` if none does.

        The effect of an order is the difference of the two published values.
        """
        found = []
        for order in self.orders:
            pair = (self._published(order.above, order.parts, order.metric),
                    self._published(order.below, order.against or order.parts, order.metric))  # fmt: skip
            has_row = self._compares(order, row)
            if has_row and self.is_claim(order) and pair[0] is not None and pair[1] is not None:
                found.append(pair[0].distance(pair[1]))
        return max(found, default=row.effect)

    def _compares(self, order: Order, row: Row) -> bool:
        sides = ((order.above, order.parts), (order.below, order.against or order.parts))
        return row.metric == order.metric and (row.learner, row.parts) in sides

    def _published(self, learner: str, parts: tuple[str, ...], metric: str) -> Published | None:
        """Return the published value of a learner in some parts, if there is one."""
        key = (learner, parts, metric)
        return next((row.published for row in self.rows if (row.learner, row.parts, row.metric) == key), None)

    @property
    def citation(self) -> str:
        """The source with the title of its paper."""
        return f'{self.source} of "{self.paper}"' if self.paper else self.source

    def find_part(self, run: Run) -> str | None:
        """Return the name of the part with the scenario of *run*, if there is one."""
        return next((name for name, part in self.parts.items() if not part.differences(run)), None)

    def needed_metrics(self, part: str) -> set[tuple[str, str]]:
        """Return the learners and metrics that rows and orders of a part need."""
        needed = {(row.learner, row.metric) for row in self.rows if part in row.parts}
        for order in self.orders:
            needed |= {(order.above, order.metric)} if part in order.parts else set()
            needed |= {(order.below, order.metric)} if part in (order.against or order.parts) else set()
        return needed

    def is_done(self, part: str, replica: int, result: Result | None) -> bool:
        """Return whether *result* has all that the page needs of a replica, from a run with today's settings."""
        if result is None or not self.parts[part].has_settings(result.content["settings"]):
            return False
        return result.has(replica, self.needed_metrics(part))

    def count_done(self, part: str, result: Result | None) -> int:
        """Return how many of the replicas that the part wants are done."""
        return sum(self.is_done(part, number, result) for number in range(self.parts[part].replicas))

    def hours_missing(self, part: str, result: Result | None) -> float:
        """Return the core-hours of the replicas that are not done."""
        missing = self.parts[part].replicas - self.count_done(part, result)
        return missing * self.hours(part, result) if missing else 0.0

    def hours(self, part: str, result: Result | None) -> float:
        """Return the core-hours of a replica: those of the stored ones in the mean, or the estimate of the part."""
        on_cpu = [number for number in result.replicas if not result.gpu(number)] if result else []
        if result is None or not on_cpu:
            return self.parts[part].core_hours
        return result.core_s / len(on_cpu) / 3600

    def stem(self, part: str) -> str:
        """Return the file name of a part without its suffix."""
        return f"{self.name}.{re.sub(r'[^a-zA-Z0-9.]+', '_', part)}"

    @property
    def plot_names(self) -> list[str]:
        """File names of its plots."""
        if self.draw is None:
            return []
        return [f"{self.stem(part)}.png" for part in self.separate_plots] or [f"{self.name}.png"]

    def draw_plots(self, runs: Mapping[str, PlottedRun], folder: Path) -> list[Path]:
        """Draw the plots of *runs*, by the names of their parts, and return their files."""
        if (draw := self.draw) is None:
            return []
        folder.mkdir(parents=True, exist_ok=True)
        groups = {self.stem(part): {part: run} for part, run in runs.items() if part in self.separate_plots}
        if not self.separate_plots:
            groups = {self.name: {name: run for name, run in runs.items() if not self.shown or name in self.shown}}
        return [
            style.png(lambda figure, group=group: draw(group, figure), folder / f"{stem}.png", size=self.size(group))
            for stem, group in groups.items()
            if group
        ]


def forms(scenario: str, **options: Any) -> dict[str, Part]:
    """Return the full form of a scenario, with further *options* of the part, and the quick form."""
    return {"full": Part(scenario, ("full",), **options), "quick": Part(scenario, ("quick",), full=False, turn=0)}


def settings_of(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections of a resolved scenario on which the results of a replica depend."""
    return {key: scenario[key] for key in _SETTINGS if key in scenario}


_Changes = tuple[tuple[str, Any], ...]


def _frozen(changes: Mapping[str, Any]) -> _Changes:
    """Return changes as a key of a cache."""
    return tuple(changes.items())


@cache
def _base(path: Path) -> Scenario:
    """Return the scenario of a file, which many parts share, so that its YAML is read once."""
    return netfl.load(path)


@cache
def _loaded(path: Path, blocks: tuple[str, ...], changes: _Changes) -> Scenario:
    return netfl.load(_base(path), dict(changes), blocks)


@cache
def _resolved(path: Path, blocks: tuple[str, ...], changes: _Changes) -> dict[str, Any]:
    """Return a scenario with all its keys, as plain data."""
    return _loaded(path, blocks, changes).plain()


def _scenario_of(run: Run) -> Mapping[str, Any]:
    """Return the scenario of *run*, with today's defaults for keys that it does not have."""
    path = run.folder / "scenario.yaml"
    try:
        return _resolved_again(path, path.stat().st_mtime)
    except (ScenarioError, OSError):  # its keys are no longer known, or it has no file
        return run.scenario


@cache
def _resolved_again(path: Path, modified: float) -> dict[str, Any]:
    """Return the scenario in a run directory, which was last modified at a time, as plain data."""
    return netfl.load(path).plain()


def _comparable(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario without the keys that may differ between runs of one experiment."""
    others = {"format", "name", "description", "seed", "replicas"}
    return {key: scenario[key] for key in scenario if key not in others}


def _differing(ours: object, theirs: object, at: str = "") -> Iterable[str]:
    """Yield the dotted keys in which two scenarios differ."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for key in dict.fromkeys([*ours, *theirs]):
            yield from _differing(ours.get(key), theirs.get(key), f"{at}.{key}" if at else str(key))
    elif ours != theirs:
        yield at
