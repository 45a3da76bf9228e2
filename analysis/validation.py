"""Draw the plots of docs/validation.md from run directories: netfl as points with 95 % intervals, theory as lines.

The script first makes missing runs. Each is one `netfl trace` of a file of scenarios/validation, with some keys set and
in several replicas. All runs take more than half an hour, mm1 and md1 the longest.

    python analysis/validation.py                      all plots
    python analysis/validation.py mm1 dcf --runs DIR   some plots, with runs in another folder
    python analysis/validation.py dcf --table          also the values as a Markdown table
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from validation_pages import PAGES, Line, Panel

import netfl
from netfl.network.theory import TheoryCase
from netfl.plots import style

ROOT = Path(__file__).parents[1]
SHADES = (style.BLUE, style.ORANGE, style.GREEN, style.PINK)


def changes_of(panel: Panel, curve: str, value: Any) -> dict[str, Any]:
    """Return the keys that are set for one point, with their values."""
    if isinstance(panel.over, str):
        keys: Mapping[str, Any] = {panel.over: value}
    else:
        keys = panel.over(value)
    seed = {"seed": 1 + panel.values.index(value)} if panel.own_seeds and value in panel.values else {}
    return {**panel.curves[curve], **keys, "replicas": panel.replicas, **seed}


def summary_of(name: str, changes: Mapping[str, Any], runs: Path) -> Mapping[str, float]:
    """Return the summary of the run with *changes*, and make the run if it is missing."""
    keys = [key for key in changes if key != "replicas"]
    words = ",".join(f"{key.removeprefix('access.')}={changes[key]}" for key in keys)
    folder = runs / name / "".join(letter if letter.isalnum() or letter in "=.," else "_" for letter in words)
    if not (folder / "summary.json").exists():
        netfl.trace(netfl.load(ROOT / f"scenarios/validation/{name}.yaml", dict(changes)), folder)
    found: Mapping[str, float] = json.loads((folder / "summary.json").read_text())
    return found


def points(name: str, panel: Panel, curve: str, runs: Path) -> Iterator[tuple[Any, float, float, float, list[float]]]:
    """Yield each value with its metric, the half width of the interval, theory, and the other lines."""
    for value in panel.values:
        changes = changes_of(panel, curve, value)
        summary = summary_of(name, changes, runs)

        def at(line: str | Line, summary: Mapping[str, float] = summary, changes: Mapping[str, Any] = changes) -> float:
            return summary[line] if isinstance(line, str) else line(changes)

        half = summary.get(f"{panel.metric}.ci95") or 0.0
        yield value, summary[panel.metric], half, at(panel.theory), [at(line) for line in panel.others.values()]


def between(name: str, panel: Panel, curve: str) -> tuple[Any, list[Any]] | None:
    """Return theory and the other lines between the values, which need no run; ``None`` if the panel has none."""
    if panel.categorical or panel.fine is None:
        return None
    space = np.geomspace if "x" in panel.log else np.linspace
    dense = space(panel.values[0], panel.values[-1], 80)
    dense = np.unique(np.round(dense / panel.fine)) * panel.fine if panel.fine else dense
    lines = (panel.theory, *panel.others.values())
    lines_at = []
    for value in dense.tolist():
        changes = changes_of(panel, curve, value)
        predicted: Mapping[str, float] = {}
        if any(isinstance(line, str) for line in lines):
            predicted = predict(name, changes)
        lines_at.append([predicted[line] if isinstance(line, str) else line(changes) for line in lines])
    return dense, [*np.array(lines_at).T]


def predict(name: str, changes: Mapping[str, Any]) -> Mapping[str, float]:
    """Return the predictions of the theory of a scenario, without a run."""
    scenario = netfl.load(ROOT / f"scenarios/validation/{name}.yaml", dict(changes))
    access = scenario.access
    streams = scenario.streams_of(0).at("access")
    case = TheoryCase(access, access.topology.open(scenario.users, streams), streams)
    found: Mapping[str, float] = access.theory.predict(case)
    return found


def draw(name: str, panel: Panel, rows: Mapping[str, list[Any]], ax: Axes) -> None:
    """Draw one panel."""
    for (curve, found), shade in zip(rows.items(), SHADES, strict=False):
        values, metric, half, theory, others = zip(*found, strict=True)
        x = np.arange(len(values)) if panel.categorical else panel.scale[0] * np.array(values, float)
        wide, up = panel.scale
        dense, (line, *more) = between(name, panel, curve) or (x / wide, [np.array(theory), *np.array(others).T])
        many = len(rows) > 1
        for label, other in zip(panel.others, more, strict=True):
            shown = label if curve == list(rows)[-1] else None
            ax.plot(wide * dense, up * other, color=style.GREY, lw=1.1, ls="--", label=shown, zorder=1)
        marks: dict[str, Any] = {"lw": 1.3}
        if panel.categorical:  # nothing lies between names
            marks = {"ls": "none", "marker": "_", "ms": 16, "mew": 1.6}
        ax.plot(wide * dense, up * line, color=shade if many else style.ORANGE,
                label=None if many else "theory", zorder=2, **marks)  # fmt: skip
        ax.errorbar(x, up * np.array(metric), up * np.array(half), fmt="o", ms=3.5, color=shade, elinewidth=1,
                    capsize=2, label=curve or "netfl", zorder=3)  # fmt: skip
    if panel.categorical:
        ax.set_xticks(x, panel.values, rotation=35, ha="right")
        ax.margins(y=0.6)
    if "x" in panel.log:
        ax.set_xscale("log")
        ax.set_xticks(x, [f"{value:g}" for value in x])
        ax.minorticks_off()
    if "y" in panel.log:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if panel.log == "y" else (1.0,)))
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set(xlabel=panel.x, ylabel=panel.y)
    ax.legend()


def print_table(panel: Panel, rows: Mapping[str, list[Any]]) -> None:
    """Print the values of one panel as a table."""
    across, up = panel.scale
    for curve, found in rows.items():
        heads = [panel.x or "distribution", panel.y, "± 95 %", "theory", "difference", *panel.others]
        print(f"\n{curve}\n\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
        for value, metric, half, theory, others in found:
            relative = f"{100 * (metric / theory - 1):+.2f} %" if theory else ""
            first = value if panel.categorical else f"{across * value:g}"
            compared = [f"{up * metric:.4g}", f"{up * half:.2g}", f"{up * theory:.4g}"]
            cells = [first, *compared, relative, *(f"{up * other:.4g}" for other in others)]
            print(f"| {' | '.join(cells)} |")


def write_plot(name: str, runs: Path, out: Path, *, table: bool) -> Path:
    """Draw the plot of one scenario, print its values if *table* is set, and return the file of the plot."""
    panels = PAGES[name]
    rows = [{curve: [*points(name, panel, curve, runs)] for curve in panel.curves} for panel in panels]

    def draw_panels(figure: Figure) -> None:
        for panel, found, ax in zip(panels, rows, figure.subplots(1, len(panels), squeeze=False)[0], strict=True):
            draw(name, panel, found, ax)

    for panel, found in zip(panels, rows, strict=True) if table else ():
        print_table(panel, found)
    return style.png(draw_panels, out / f"{name}.png", size=(3.4 * len(panels) + 0.6, 3.1))


def main() -> None:
    """Read the command line, make missing runs, draw the plots, and print their files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help=f"of {', '.join(PAGES)}; by default all")
    parser.add_argument("--runs", type=Path, default=Path("runs/validation"), help="the folder of the runs")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/validation", help="the folder of the plots")
    parser.add_argument("--table", action="store_true", help="also print the values")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.pages or PAGES:
        print(write_plot(name, options.runs, options.out, table=options.table), flush=True)


if __name__ == "__main__":
    main()
