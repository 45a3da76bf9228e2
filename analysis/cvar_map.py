"""Map of the gain of CVaR over importance weights and memory: cells, hypotheses, verdicts, and section of the page.

The map has a cell for each share of the rare user's deliveries and each distance of the two blocks of users.  In each
cell all learners are tuned, each replica by itself.  `map_campaign` makes the runs; their rows are stored in
analysis/results/cvar_map, one file for each cell.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from reproduction import settings_of
from scipy import stats
from two_blocks import boundary, cvar_weight, equal_weight, largest_weight, optimal_accuracy
from wording import wrap_paragraph

import netfl
from netfl.plots import style
from netfl.results.same_settings import is_same
from netfl.results.statistics import ConfidenceInterval, interval
from netfl.scenario.scenario import Scenario
from netfl.types import Floats

ROOT = Path(__file__).parents[1]
SCENARIO = ROOT / "scenarios/findings/cvar_map.yaml"
RESULTS = ROOT / "analysis/results/cvar_map"

USERS = 20
ALPHAS = (0.1, 0.05, 0.02)
SHARES = tuple(round(0.05 * 18 ** (step / 5), 4) for step in range(6))
"""N ρ of the rare user: its share of the deliveries, times the number of users; from 0.05 to 0.9."""
DISTANCES = (0.5, 1.0, 1.5, 2.5, 4.0)
"""Distance of the centres of the two blocks, in standard deviations."""
RIVALS = ("FedAvg", "FedAU", "known weights", "MIFA")
OVER_MIFA, OVER_FEDAU = "CVaR 0.05 over MIFA", "CVaR 0.05 over FedAU"
MARGIN = 0.01
"""Smallest gain of accuracy that counts: a point."""
LARGE = 0.05
"""Gain that theory must predict in a cell for a hypothesis about it: five points."""
MOST_AT_EDGE = 5
"""Most replicas of ten in which a learner may be in the outer sixths of its widest range, and count as tuned.

Where the criterion is flat, the best of equal candidates is there by chance, in one of three replicas.
"""
CONSTANT = 0.5
"""Accuracy of the best constant answer: both classes have half of the examples."""
CORE_HOURS = 6.0
"""Hours of one core for the whole map, estimated from a pass of one cell."""


def cvar(alpha: float) -> str:
    """Return the name of FED-CVaR-AVG with *alpha*."""
    return f"CVaR {alpha:g}"


LEARNERS = (*RIVALS, *map(cvar, ALPHAS), OVER_MIFA, OVER_FEDAU)


@dataclass(frozen=True)
class Cell:
    """A cell of the map.

    Args:
        n_rho: N ρ of the rare user.
        distance: of the blocks, in standard deviations.
    """

    n_rho: float
    distance: float

    @property
    def name(self) -> str:
        """Name in files."""
        return f"n_rho_{self.n_rho:.4f}.distance_{self.distance:g}"

    @property
    def share(self) -> float:
        """Share ρ of the rare user's deliveries."""
        return self.n_rho / USERS

    def gain(self, alpha: float) -> float:
        """Return the accuracy at the optimum of CVaR minus the best of those of FedAvg and of importance weights."""
        weight = cvar_weight(self.share, alpha, self.distance)
        rivals = [optimal_accuracy(rival, self.distance) for rival in (self.share, 1 / USERS)]
        return optimal_accuracy(weight, self.distance) - max(rivals)

    def is_inside(self, alpha: float) -> bool:
        """Return whether CVaR can weigh the rare user above 1/N, and stops above it: the boundary of the map."""
        can_weigh = largest_weight(self.share, alpha) > 1 / USERS
        return can_weigh and equal_weight(self.distance) > 1 / USERS

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario of the runs of this cell."""
        others = [(1 - self.share) / (USERS - 1)] * (USERS - 1)
        changes = {"access.rho": [*others, self.share], "data.centers": [[0.0, 0.0], [self.distance, 0.0]]}
        return netfl.load(SCENARIO, changes)

    @property
    def rows(self) -> Rows | None:
        """The stored rows; ``None`` without any, or if they are of another scenario."""
        path = RESULTS / f"{self.name}.json"
        if not path.exists():
            return None
        content = json.loads(path.read_text(encoding="utf-8"))
        if not is_same(content["settings"], settings_of(self.scenario.plain()), self.scenario):
            return None
        return Rows(content)


@dataclass(frozen=True)
class Rows:
    """The stored rows of a cell.

    Args:
        content: of the file: ``learners`` has the values of each learner by replica.
    """

    content: Mapping[str, Any]

    def values(self, learner: str, name: str = "accuracy") -> Floats:
        """Return the values of a learner, ``[replicas]``."""
        return np.array(self.content["learners"][learner][name], float)

    @property
    def best_rival(self) -> str:
        """The rival with the best mean criterion of its chosen candidates, on validation examples."""
        return max(
            RIVALS, key=lambda rival: float(np.nan_to_num(self.values(rival, "validation"), nan=CONSTANT).mean())
        )

    def count(self, learner: str, state: str) -> int:
        """Return in how many replicas the tuning of a learner ended at an edge, or with no candidate that learns.

        Args:
            learner: the learner.
            state: ``at_edge``, or ``fails`` for no candidate that learns.
        """
        if state == "fails":
            return int((self.values(learner, "learns") == 0).sum())
        return int(self.values(learner, "at_edge").sum())

    def difference(self, learner: str, second: str | None = None) -> ConfidenceInterval:
        """Return the accuracy of a learner minus that of another, by default of the `best_rival`, paired.

        A replica in which no candidate of the other learns has the constant answer, if that is better than the run.
        """
        other = second or self.best_rival
        values = self.values(other)
        fallback = np.where(self.values(other, "learns") > 0, values, np.maximum(values, CONSTANT))
        return interval(self.values(learner) - fallback)

    @property
    def core_hours(self) -> float:
        """Hours of the run of this cell on one core."""
        return float(self.content["core_s"]) / 3600

    def verdict(self, learner: str, second: str | None = None, comparisons: int = 1) -> str:
        """Return ``gain`` if the interval of the difference lies above the margin, ``none`` if below, or ``open``.

        It is also ``open`` if the learner that loses may be better than here: it is at the edge of its widest range in
        more than `MOST_AT_EDGE` replicas.  A gain over a rival that learns at no candidate is one over the constant
        answer; a learner that learns at no candidate itself has no verdict.

        Args:
            learner: the learner.
            second: another one, by default the `best_rival`.
            comparisons: number of cells among which one is looked for: the interval has the level 1 - 0.05 of them.
        """
        other = second or self.best_rival
        difference = self.difference(learner, other)
        degrees = difference.replicas - 1
        factor = stats.t.ppf(1 - 0.025 / comparisons, degrees) / stats.t.ppf(0.975, degrees)
        half = factor * difference.half
        if difference.mean - half > MARGIN and self.count(other, "at_edge") <= MOST_AT_EDGE:
            return "gain"
        lost = self.count(learner, "at_edge") + self.count(learner, "fails")
        if difference.mean + half < MARGIN and lost <= MOST_AT_EDGE:
            return "none"
        return "open"


@dataclass(frozen=True)
class MapHypothesis:
    """A statement about a learner in some cells, which was written before the runs.

    It is confirmed if the verdict of each cell is the expected one, and refuted if that of a cell is the opposite, by
    an interval of the level 1 - 0.05 / cells: one of many cells is wrong by chance more easily than a given one.

    Args:
        text: the statement in words.
        learner: whose accuracy is compared.
        cells: the cells.
        expected: ``gain`` or ``none``.
        second: with which it is compared, by default the best rival.
    """

    text: str
    learner: str
    cells: Sequence[Cell]
    expected: str
    second: str | None = None

    def counts(self, rows: Mapping[Cell, Rows]) -> dict[str, int]:
        """Return the number of cells of each verdict, and of those that were not run."""
        found = {"gain": 0, "none": 0, "open": 0, "not run": 0}
        for cell in self.cells:
            verdict = rows[cell].verdict(self.learner, self.second) if cell in rows else "not run"
            found[verdict] += 1
        return found

    def verdict(self, rows: Mapping[Cell, Rows]) -> str:
        """Return ``yes``, ``no``, ``open`` or, if no cell was run, ``not run``."""
        counts = self.counts(rows)
        if counts["not run"] == len(self.cells):
            return "not run"
        opposite = "none" if self.expected == "gain" else "gain"
        known = [cell for cell in self.cells if cell in rows]
        if any(rows[cell].verdict(self.learner, self.second, len(self.cells)) == opposite for cell in known):
            return "no"
        return "yes" if counts[self.expected] == len(self.cells) else "open"


CELLS = tuple(Cell(n_rho, distance) for n_rho, distance in product(SHARES, DISTANCES))


@cache
def hypotheses() -> tuple[MapHypothesis, ...]:
    """Return the hypotheses; which cells they are about follows from the theory alone."""
    best = "the best rival"
    found = []
    for alpha in ALPHAS:
        inside = [cell for cell in CELLS if cell.is_inside(alpha)]
        outside = [cell for cell in CELLS if not cell.is_inside(alpha)]
        large = [cell for cell in inside if cell.gain(alpha) > LARGE]
        small = [cell for cell in inside if cell.gain(alpha) < MARGIN]
        name = cvar(alpha)
        text = f"{name} is more than a point above {best}: inside the boundary, where the optima differ by more than 5"
        found.append(MapHypothesis(text, name, large, "gain"))
        text = f"{name} is not a point above {best}: inside the boundary, where the optima differ by less than 1"
        found.append(MapHypothesis(text, name, small, "none"))
        if outside:
            text = f"{name} is not a point above {best}: outside the boundary"
            found.append(MapHypothesis(text, name, outside, "none"))
    for learner in (OVER_MIFA, OVER_FEDAU):
        rare = [
            cell
            for cell in CELLS
            if cell.n_rho < 0.1 and optimal_accuracy(0.5, cell.distance) - cvar_accuracy(cell, 0.05) > LARGE
        ]
        text = f"{learner} is more than a point above CVaR 0.05: N ρ < 0.1, where their optima differ by more than 5"
        found.append(MapHypothesis(text, learner, rare, "gain", second=cvar(0.05)))
    return tuple(found)


def cvar_accuracy(cell: Cell, alpha: float) -> float:
    """Return the mean accuracy of both classes at the optimum of CVaR."""
    return optimal_accuracy(cvar_weight(cell.share, alpha, cell.distance), cell.distance)


def run_order(cells: Sequence[Cell] = CELLS) -> list[Cell]:
    """Return the cells so that a coarse map comes first: a corner, then each time the cell farthest from all before."""
    places = {cell: (SHARES.index(cell.n_rho) / 5, DISTANCES.index(cell.distance) / 4) for cell in cells}
    order = [max(cells, key=lambda cell: places[cell])]
    while len(order) < len(cells):
        left = [cell for cell in cells if cell not in order]
        order.append(max(left, key=lambda cell: min(math.dist(places[cell], places[other]) for other in order)))
    return order


def stored_rows() -> dict[Cell, Rows]:
    """Return the rows of all cells that have some."""
    found = {cell: cell.rows for cell in CELLS}
    return {cell: rows for cell, rows in found.items() if rows is not None}


# Plot and section of the page

_REACH = 0.25
"""Difference at which the colours of the plot end."""


def draw(rows: Mapping[Cell, Rows]) -> Figure:
    """Draw a map of the differences for each α and for CVaR over MIFA and over FedAU, with the boundary of theory."""
    figure = style.PlotFigure(figsize=(8.4, 9.6), layout="constrained")
    learners = (*map(cvar, ALPHAS), OVER_MIFA, OVER_FEDAU)
    axes = style.grid_axes(figure, len(learners), 2)
    for ax, learner in zip(axes, learners, strict=True):
        values = np.full((len(DISTANCES), len(SHARES)), np.nan)
        for cell, of_cell in rows.items():
            values[DISTANCES.index(cell.distance), SHARES.index(cell.n_rho)] = of_cell.difference(learner).mean
        image = ax.imshow(values, origin="lower", aspect="auto", cmap="RdBu", vmin=-_REACH, vmax=_REACH)
        for row, column in np.ndindex(values.shape):
            cell = Cell(SHARES[column], DISTANCES[row])
            if cell not in rows:
                ax.text(column, row, "–", ha="center", va="center", color=style.GREY)
                continue
            verdict = rows[cell].verdict(learner)
            color = "white" if abs(values[row, column]) > 0.6 * _REACH else "black"
            text = f"{round(100 * values[row, column]):+d}{'?' if verdict == 'open' else ''}"
            ax.text(column, row, text, ha="center", va="center", color=color, fontsize="small")
            if verdict == "open":
                ax.add_patch(
                    Rectangle(
                        (column - 0.5, row - 0.5), 1, 1, fill=False, hatch="///", edgecolor=style.GREY, linewidth=0
                    )
                )
        if learner in map(cvar, ALPHAS):
            _draw_theory(ax, float(learner.split()[-1]))
        ax.set_title(learner, fontsize="medium")
        ax.set_xlim(-0.5, len(SHARES) - 0.5)
        ax.set_ylim(-0.5, len(DISTANCES) - 0.5)
        ax.set_xticks(range(len(SHARES)), [f"{n_rho:.2g}" for n_rho in SHARES])
        ax.set_yticks(range(len(DISTANCES)), [f"{distance:g}" for distance in DISTANCES])
        ax.grid(visible=False)
    lines = [
        Line2D([], [], color=style.INK, linewidth=2, label="largest weight = 1/N"),
        Line2D([], [], color=style.INK, linewidth=1.2, linestyle="dashed", label="optima differ by 5 points"),
        Patch(facecolor="none", edgecolor=style.GREY, hatch="///", label="open"),
    ]
    figure.legend(handles=lines, loc="outside upper center", ncol=len(lines))
    figure.colorbar(image, ax=axes, orientation="horizontal", shrink=0.6, aspect=40, format=_points_label,
                    label="accuracy minus that of the best rival (points)")  # fmt: skip
    figure.supxlabel("N ρ of the rare user", fontsize="medium")
    figure.supylabel("distance of the blocks (standard deviations)", fontsize="medium")
    return figure


def _points_label(value: float, place: int) -> str:
    return f"{100 * value:+.0f}"


def _draw_theory(ax: Axes, alpha: float) -> None:
    """Draw the boundary, and the line along which the optima of CVaR and of the best rival differ by `LARGE`."""
    place = math.log(boundary(alpha) / SHARES[0]) / math.log(SHARES[-1] / SHARES[0]) * (len(SHARES) - 1)
    if place > -0.5:
        ax.axvline(place, color=style.INK, linewidth=2)
    columns = np.linspace(-0.5, len(SHARES) - 0.5, 25)
    rows = np.linspace(-0.5, len(DISTANCES) - 0.5, 21)
    shares = SHARES[0] * (SHARES[-1] / SHARES[0]) ** (columns / (len(SHARES) - 1))
    distances = np.exp(np.interp(rows, range(len(DISTANCES)), np.log(DISTANCES)))
    gains = [[Cell(share, distance).gain(alpha) for share in shares.tolist()] for distance in distances.tolist()]
    ax.contour(columns, rows, gains, levels=[LARGE], colors=style.INK, linestyles="dashed", linewidths=1.2)


_QUESTION = (
    "Nineteen users hold one cloud of points in the plane and a rare user another, and the model is a straight line: "
    "the clouds contradict each other where they overlap. From left to right the rare user is delivered more often, "
    "from bottom to top the clouds overlap less. In each cell FedAvg, FedAU, known weights, MIFA and FED-CVaR-AVG "
    "with three values of α are tuned, each replica by itself and with as many candidates for each learner: the "
    "cutoff of FedAU and the lr_t of CVaR with the step size; γ = 0.1 and α are as given. CVaR of α = 0.05 is also "
    "run over MIFA and over FedAU, where it can weigh every user above 1/N. The criterion is the accuracy on all "
    "examples, of which both classes have half. The mean over users would be nearly a plateau, as nineteen of twenty "
    "hold one class: at a distance of 1.5 the optimum of FedAvg at N ρ = 0.4 has 95.1 % of it, and that of importance "
    "weights 95.2 %. The worst tenth of the users is the rare user and one other, and so has the mean of both classes "
    "again. The best of the four rivals of a cell is chosen by its validation accuracy, and the difference is paired "
    "by replica on the test examples. It is a gain if its 95 % interval lies above one point, no gain if below, and "
    "otherwise open. Also open is a verdict against a learner that may be better than here: "
    f"its best candidate lies in the outer sixths of its widest range in more than {MOST_AT_EDGE} replicas. A rival "
    "without a candidate that learns counts as the constant answer. A hypothesis about several cells holds if it "
    "holds in each. It is refuted by one cell in which the opposite is shown at the level of 1 - 0.05 / number of "
    "cells."
)
_BOUNDARY = (
    "The boundary was computed before the runs. The largest weight of the rare user, (1 - γ) min(1, ρ/α) + γ ρ, "
    "exceeds 1/N right of the solid line, at N ρ = {places}. The weight at which both losses are equal, beyond "
    "which CVaR does not go, is 0.5 at all distances by symmetry, and so above 1/N in the whole map. Inside the "
    "dashed line the exact optimum of CVaR is more than five points above that of importance weights and of FedAvg. "
    "Mini-batches of 16 examples, noise and the number of visits (five in 2,000 rounds at N ρ = 0.05) are "
    "not in these lines."
)
ANSWER = (
    "**The boundary of the bound holds, and that of the optima is too wide.** Left of the solid line CVaR gains in "
    "no cell, and neither does it outside the dashed one. Inside the dashed line it gains where the rare user is "
    "delivered often: α = 0.1 in 6 of 9 cells, α = 0.05 in 10 of 13, α = 0.02 in 15 of 21, by up to 19 points. The "
    "other cells inside lie, but for two, at its left edge, where the rare user is delivered 5 to 28 times in 2,000 "
    "rounds. There CVaR has up to 15 points less than MIFA, though its exact optimum is better. **Over a memory or "
    "over weights the edge moves to the left**: CVaR of α = 0.05 over MIFA gains in 18 of 30 cells and over FedAU "
    "in 22, also where the rare user has a twentieth of its share. At a distance of 4, where the clouds hardly "
    "overlap, no gain over the best rival is shown."
)
"""What the runs say, in words, written after them."""


def section(rows: Mapping[Cell, Rows]) -> list[str]:
    """Return the lines of the map with these *rows* on the page of findings."""
    places = ", ".join(f"{boundary(alpha):.3f} for α = {alpha:g}" for alpha in ALPHAS)
    lines = ["## Where does CVaR gain over importance weights and memory?", "", *wrap_paragraph(_QUESTION), ""]
    lines += [
        *wrap_paragraph(_BOUNDARY.format(places=places)),
        "",
        "```",
        "python analysis/map_campaign.py --hours 5",
        "```",
        "",
    ]
    done = sum(each.core_hours for each in rows.values())
    if len(rows) < len(CELLS):
        per_cell = done / len(rows) if rows else CORE_HOURS / len(CELLS)
        left = per_cell * (len(CELLS) - len(rows))
        lines += [f"{len(rows)} of {len(CELLS)} cells are run; the others take about {left:.1f} hours of one core.", ""]
    else:
        lines += [f"All {len(CELLS)} cells together took {done:.1f} hours of one core.", ""]
    lines += [
        "| hypothesis, written before the runs | cells: gain, no gain, open, not run | verdict |",
        "|---|---|---|",
    ]
    for hypothesis in hypotheses():
        counts = ", ".join(map(str, hypothesis.counts(rows).values()))
        lines.append(f"| {hypothesis.text} | {counts} | {hypothesis.verdict(rows)} |")
    lines.append("")
    if ANSWER:
        lines += [*wrap_paragraph(ANSWER), ""]
    lines += ["![Gain of CVaR over the best rival in each cell](findings/cvar_map.png)", ""]
    if rows:
        lines += [*_table(rows), ""]
    return lines


def _table(rows: Mapping[Cell, Rows]) -> list[str]:
    """Return the accuracy of the best rival, and the differences of the others from it, cell by cell."""
    learners = (*map(cvar, ALPHAS), OVER_MIFA, OVER_FEDAU)
    columns = ["N ρ", "distance", "best rival (%)", *learners]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for cell in CELLS:
        if cell not in rows:
            continue
        of_cell = rows[cell]
        rival = of_cell.best_rival
        cells = [f"{cell.n_rho:.2g}", f"{cell.distance:g}", f"{rival} {100 * of_cell.values(rival).mean():.1f}"]
        for learner in learners:
            found = of_cell.difference(learner)
            verdict = {"gain": "gain", "none": "no gain", "open": "open"}[of_cell.verdict(learner)]
            cells.append(f"{100 * found.mean:+.1f} ± {100 * found.half:.1f}, {verdict}")
        lines.append("| " + " | ".join(cells) + " |")
    return lines
