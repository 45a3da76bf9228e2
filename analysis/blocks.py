"""Users and blocks chosen together, as Chen et al. (IEEE TWC 2021): the tables and the plot of a page.

The sweeps of ``scenarios/beyond/block_assignment.yaml`` compare the joint choice with the paper's three baselines.

    netfl sweep scenarios/beyond/block_assignment.yaml --out runs/blocks/12
    netfl sweep scenarios/beyond/block_assignment.yaml --override blocks_3 redraw --out runs/blocks/3-redraw
    python analysis/blocks.py runs/blocks/*      store the results, draw the plot, print the tables
    python analysis/blocks.py                    draw the plot and print the tables from the stored results
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

import netfl
from netfl.errors import NetflError
from netfl.plots import style
from netfl.results.statistics import ConfidenceInterval, interval
from netfl.sweeps.results import Sweep

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "analysis/results/block_assignment.csv"
PLOT = ROOT / "docs/reproduction/blocks.png"

BLOCKS = (12, 9, 6, 3)
METHODS = {
    "joint": "joint choice",
    "a": "a: same users, random blocks",
    "b": "b: random users and blocks",
    "c": "c: least sum of packet errors",
}
CLAIMED = {"a": 1.4, "b": 3.5, "c": 4.1}
"""How far the joint choice is above each baseline at most, in points of accuracy, by the paper's abstract."""
FIRST_ROUND = 110
"""The accuracy is the mean of the evaluations from this round on."""
_COLUMNS = ["blocks", "method", "redraw", "replica", "digits", "accuracy", "lr"]
_METHOD_OF = {
    ("joint", "samples"): "joint",
    ("random_blocks", "samples"): "a",
    ("random", "samples"): "b",
    ("joint", "equal"): "c",
}
"""The paper's letter for the fields `method` and `weights` of the allocation."""


def extract(sweep: Sweep) -> pd.DataFrame:
    """Return a row for each point and replica of a sweep.

    ``digits`` is the share of all digits whose update arrives in a round, ``accuracy`` the mean from `FIRST_ROUND` on,
    ``lr`` the chosen step size.

    Raises:
        ValueError: the sweep is of another scenario, or it is not complete.
    """
    scenario = sweep.scenario_at(0)
    if scenario.name != "block_assignment":
        raise ValueError(f"{sweep.folder} is a sweep of {scenario.name!r}, not of 'block_assignment'")
    if sweep.status != "done":
        raise ValueError(f"{sweep.folder} is not complete; continue it with: netfl resume {sweep.folder}")
    candidates = sweep.table("candidates")
    chosen = candidates[candidates["chosen"] == 1].set_index("point")["lr"]
    rows = []
    for point in sweep.points["point"]:
        access = sweep.scenario_at(point).access
        allocation = access.allocation
        digits = share_of_digits(sweep, point)
        accuracy = final_accuracy(sweep, point)
        rows.append(
            pd.DataFrame(
                {
                    "blocks": len(access.mac.interference),
                    "method": _METHOD_OF[allocation.method, allocation.weights],
                    "redraw": allocation.redraw,
                    "replica": digits.index,
                    "digits": digits.to_numpy(),
                    "accuracy": accuracy[digits.index].to_numpy(),
                    "lr": chosen[point],
                }
            )
        )
    return pd.concat(rows)[_COLUMNS]


def share_of_digits(sweep: Sweep, point: int) -> pd.Series:
    """Return the share of all digits whose update arrives in a round, by replica.

    A delivery counts all digits of its user: Σ K_i over deliveries / (rounds · Σ K_i over users).
    """
    trace = sweep.points.set_index("point")["trace"][point]
    users = sweep.users[sweep.users["trace"] == trace]
    deliveries = sweep.deliveries[sweep.deliveries["trace"] == trace]
    arrived = deliveries.merge(users[["replica", "user", "samples"]], on=["replica", "user"])
    all_digits = users.groupby("replica")["samples"].sum()
    rounds = sweep.scenario_at(point).rounds
    return (arrived.groupby("replica")["samples"].sum() / (rounds * all_digits)).fillna(0.0)


def final_accuracy(sweep: Sweep, point: int) -> pd.Series:
    """Return the mean accuracy from `FIRST_ROUND` on, by replica."""
    metrics = sweep.metrics
    is_wanted = (
        (metrics["point"] == point)
        & (metrics["metric"] == "accuracy")
        & (metrics["group"] == "")
        & (metrics["round"] >= FIRST_ROUND)
    )
    return metrics[is_wanted].groupby("replica")["value"].mean()


def read_results() -> pd.DataFrame:
    """Return the stored rows of all sweeps."""
    if not RESULTS.exists():
        return pd.DataFrame(columns=_COLUMNS)
    return pd.read_csv(RESULTS)


def store(rows: pd.DataFrame) -> None:
    """Replace the stored rows of the same numbers of blocks and the same kind of draws."""
    place = ["blocks", "method", "redraw", "replica"]
    both = pd.concat([part for part in (read_results(), rows) if len(part)])
    kept = both.drop_duplicates(place, keep="last").sort_values(place, ascending=[False, True, True, True])
    kept.to_csv(RESULTS, index=False, float_format="%.6g")


def values(results: pd.DataFrame, metric: str, blocks: int, method: str, *, redraw: bool = False) -> pd.Series:
    """Return a metric in percent, by replica."""
    is_wanted = (results["blocks"] == blocks) & (results["method"] == method) & (results["redraw"] == redraw)
    return 100.0 * results[is_wanted].set_index("replica")[metric].sort_index()


def gain(results: pd.DataFrame, metric: str, blocks: int, baseline: str, *, redraw: bool = False) -> ConfidenceInterval:
    """Return how far the joint choice, which draws nothing, is above a baseline: points, paired by replica."""
    joint = values(results, metric, blocks, "joint")
    return interval(joint - values(results, metric, blocks, baseline, redraw=redraw))


def tables(results: pd.DataFrame) -> list[str]:
    """Return the lines of the two tables of the page."""
    lines = []
    for metric, heading in (
        ("digits", "digits that arrive in a round, joint (%)"),
        ("accuracy", "accuracy, joint"),
    ):
        lines += [f"| blocks | {heading} | minus a | minus b | minus c |", "|---|---|---|---|---|"]
        for blocks in BLOCKS:
            found = [interval(values(results, metric, blocks, "joint"))]
            found += [gain(results, metric, blocks, baseline) for baseline in CLAIMED]
            lines.append(f"| {blocks} | " + " | ".join(_cell(each) for each in found) + " |")
        lines.append("")
    return lines


def _cell(found: ConfidenceInterval) -> str:
    low = found.mean - found.half
    high = found.mean + found.half
    digits = 2 if abs(low) < 0.05 or abs(high) < 0.05 else 1  # an end near 0 shows its sign
    return f"{found.mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def draw(results: pd.DataFrame) -> style.PlotFigure:
    """Draw the digits that arrive, the accuracy, and the gain of the joint choice beside what the paper states."""
    with style.theme():
        figure = style.PlotFigure(figsize=(10.6, 3.9), layout="constrained")
        arrival, accuracy, gains = figure.subplots(1, 3)
        looks = style.line_styles(list(METHODS))
        draw_metric(arrival, results, "digits", looks)
        arrival.set(title="Digits that arrive", ylabel="share of all digits in a round (%)", ylim=(0.0, None))
        draw_metric(accuracy, results, "accuracy", looks)
        accuracy.set(title="Accuracy", ylabel="test accuracy, rounds 110 to 130 (%)")
        draw_gains(gains, results, looks)
        gains.set(title="Accuracy: joint choice minus each", ylabel="points, paired by replica")
        for ax in (arrival, accuracy, gains):
            ax.set_xlabel("blocks of the band, for 15 users")
        for ax in (arrival, accuracy):
            ax.set_xticks(range(len(BLOCKS)), [str(blocks) for blocks in reversed(BLOCKS)])
        gains.set_xticks(range(len(BLOCKS) + 1), [*(str(blocks) for blocks in reversed(BLOCKS)), "paper"])
        lines = [Line2D([], [], **looks[method], marker="o", markersize=4) for method in METHODS]
        style.add_legend(figure, lines, list(METHODS.values()), loc="outside lower center", ncol=4, handlelength=3.0)
    return figure


def draw_metric(ax: Axes, results: pd.DataFrame, metric: str, looks: dict) -> None:
    """Draw the means and 95 % intervals of a metric over the number of blocks."""
    for number, method in enumerate(METHODS):
        found = [interval(values(results, metric, blocks, method)) for blocks in reversed(BLOCKS)]
        places = np.arange(len(BLOCKS)) + 0.06 * (number - 1.5)  # side by side
        _draw_intervals(ax, places, found, looks[method])


def draw_gains(ax: Axes, results: pd.DataFrame, looks: dict) -> None:
    """Draw the differences of accuracy, and at the right those that the paper states as its greatest."""
    ax.axhline(0.0, color=style.INK, linewidth=0.8)
    ax.axvline(len(BLOCKS) - 0.5, color=style.INK, linewidth=0.8)
    for number, (baseline, claimed) in enumerate(CLAIMED.items()):
        found = [gain(results, "accuracy", blocks, baseline) for blocks in reversed(BLOCKS)]
        places = np.arange(len(BLOCKS)) + 0.08 * (number - 1.0)
        _draw_intervals(ax, places, found, looks[baseline])
        ax.plot(len(BLOCKS) + 0.25 * (number - 1.0), claimed, marker="D", markersize=6, color=looks[baseline]["color"])
    ax.set_xlim(-0.4, len(BLOCKS) + 0.5)


def _draw_intervals(ax: Axes, places: np.ndarray, found: list[ConfidenceInterval], look: dict) -> None:
    means = [each.mean for each in found]
    halves = [each.half for each in found]
    ax.errorbar(places, means, halves, marker="o", markersize=4, capsize=2.5, elinewidth=1.0, **look)


def main() -> None:
    """Store the results of sweeps, draw the plot, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweeps", nargs="*", type=Path, help="folders of finished sweeps")
    options = parser.parse_args()
    for folder in options.sweeps:
        try:
            store(extract(netfl.open_sweep(folder)))
        except (NetflError, ValueError) as error:
            sys.exit(str(error))
    results = read_results()
    draw(results).savefig(PLOT, dpi=110, metadata={"Software": None})
    print("\n".join(tables(results)))
    redrawn = results[results["redraw"]].groupby(["blocks", "method"], sort=False)
    for blocks, method in redrawn.groups:
        digits = interval(values(results, "digits", blocks, method, redraw=True))
        difference = gain(results, "accuracy", blocks, method, redraw=True)
        print(f"{blocks} blocks, {method} drawn in each round: {digits.mean:.0f} % of the digits, joint minus {method} "
              f"{_cell(difference)}")  # fmt: skip


if __name__ == "__main__":
    main()
