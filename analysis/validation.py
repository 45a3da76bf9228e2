"""Draw the pages of docs/validation.md, the model as points with 95 % intervals, theory as lines, from run directories.

Runs that are not there yet are made first, each by one `netfl trace` of a file of scenarios/validation with some keys
set, in several replicas; all of them take about half an hour.

    python analysis/validation.py                      everything
    python analysis/validation.py mm1 dcf --runs DIR   some pages, with runs elsewhere
    python analysis/validation.py dcf --table          the figures as a Markdown table
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
from validation_pages import DOWN, LAWS, PAGES, UP, Line, Panel

import netfl
from netfl.network.theory import TheoryCase
from netfl.plots import style
from netfl.simulation.setup import streams_of

ROOT = Path(__file__).parents[1]
SHADES = (style.BLUE, style.ORANGE, style.GREEN, style.PINK)


def changes_of(panel: Panel, curve: str, value: Any) -> dict[str, Any]:
    """What is set for one point."""
    if panel.over == "law":
        law = {"law": value, **LAWS[value]} if value in {"exponential", "fixed"} else dict(LAWS[value])
        return {
            UP: {**law, "mean": 3000.0},
            DOWN: {**law, "mean": 600.0},
            "duration": 2.6e5,
            "replicas": panel.replicas,
        }
    seed = {"seed": 1 + panel.values.index(value)} if panel.own_seeds and value in panel.values else {}
    return {**panel.curves[curve], panel.over: value, "replicas": panel.replicas, **seed}


def summary_of(name: str, changes: Mapping[str, Any], runs: Path) -> Mapping[str, float]:
    """The summary of the run with *changes*, which is made if it is not there."""
    keys = [key for key in changes if key != "replicas"]
    told = ",".join(f"{key.removeprefix('access.')}={changes[key]}" for key in keys)
    folder = runs / name / "".join(letter if letter.isalnum() or letter in "=.," else "_" for letter in told)
    if not (folder / "summary.json").exists():
        netfl.trace(netfl.load(ROOT / f"scenarios/validation/{name}.yaml", dict(changes)), folder)
    found: Mapping[str, float] = json.loads((folder / "summary.json").read_text())
    return found


def points(name: str, panel: Panel, curve: str, runs: Path) -> Iterator[tuple[Any, float, float, float, list[float]]]:
    """For each value: the figure, half its interval, theory, the other lines."""
    for value in panel.values:
        changes = changes_of(panel, curve, value)
        told = summary_of(name, changes, runs)

        def by(line: str | Line, told: Mapping[str, float] = told, changes: Mapping[str, Any] = changes) -> float:
            return told[line] if isinstance(line, str) else line(changes)

        half = told.get(f"{panel.figure}.ci95") or 0.0
        yield value, told[panel.figure], half, by(panel.theory), [by(line) for line in panel.others.values()]


def between(name: str, panel: Panel, curve: str) -> tuple[Any, list[Any]] | None:
    """Theory and the other lines between the values, as the scenario's theory tells them without a run, if it does."""
    lines = [line for line in (panel.theory, *panel.others.values()) if isinstance(line, str)]
    if panel.words or panel.fine is None or len(lines) <= len(panel.others):
        return None
    space = np.geomspace if "x" in panel.log else np.linspace
    dense = space(panel.values[0], panel.values[-1], 80)
    dense = np.unique(np.round(dense / panel.fine)) * panel.fine if panel.fine else dense
    told = []
    for value in dense.tolist():
        scenario = netfl.load(ROOT / f"scenarios/validation/{name}.yaml", changes_of(panel, curve, value))
        access, streams = scenario.access, streams_of(scenario, 0).at("access")
        figures = access.theory.predict(TheoryCase(access, access.topology.open(scenario.users, streams), streams))
        told.append([figures[line] for line in lines])
    return dense, [*np.array(told).T]


def draw(name: str, panel: Panel, rows: Mapping[str, list[Any]], ax: Axes) -> None:
    """One panel."""
    for (curve, found), shade in zip(rows.items(), SHADES, strict=False):
        values, figure, half, theory, others = zip(*found, strict=True)
        x = np.arange(len(values)) if panel.words else panel.scale[0] * np.array(values, float)
        wide, up = panel.scale
        dense, (line, *more) = between(name, panel, curve) or (x / wide, [np.array(theory), *np.array(others).T])
        many = len(rows) > 1
        for label, other in zip(panel.others, more, strict=True):
            told = label if curve == list(rows)[-1] else None
            ax.plot(wide * dense, up * other, color=style.GREY, lw=1.1, ls="--", label=told, zorder=1)
        ax.plot(wide * dense, up * line, color=shade if many else style.ORANGE, lw=1.3,
                label=None if many else "theory", zorder=2)  # fmt: skip
        ax.errorbar(x, up * np.array(figure), up * np.array(half), fmt="o", ms=3.5, color=shade, elinewidth=1,
                    capsize=2, label=curve or "netfl", zorder=3)  # fmt: skip
    if panel.words:
        ax.set_xticks(x, panel.values, rotation=35, ha="right")
        ax.margins(y=0.6)
    if "x" in panel.log:
        ax.set_xscale("log")
        ax.set_xticks(x, [f"{one:g}" for one in x])
        ax.minorticks_off()
    if "y" in panel.log:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if panel.log == "y" else (1.0,)))
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set(xlabel=panel.x, ylabel=panel.y)
    ax.legend()


def tell(panel: Panel, rows: Mapping[str, list[Any]]) -> None:
    """The figures of one panel as a table."""
    across, up = panel.scale
    for curve, found in rows.items():
        heads = [panel.x or "law", panel.y, "± 95 %", "theory", "apart", *panel.others]
        print(f"\n{curve}\n\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
        for value, seen, half, theory, others in found:
            apart = f"{100 * (seen / theory - 1):+.2f} %" if theory else ""
            place = value if panel.words else f"{across * value:g}"
            figures = [f"{up * seen:.4g}", f"{up * half:.2g}", f"{up * theory:.4g}"]
            cells = [place, *figures, apart, *(f"{up * other:.4g}" for other in others)]
            print(f"| {' | '.join(cells)} |")


def page(name: str, runs: Path, out: Path, *, table: bool) -> Path:
    """The picture of one scenario."""
    panels = PAGES[name]
    rows = [{curve: [*points(name, panel, curve, runs)] for curve in panel.curves} for panel in panels]

    def paint(figure: Figure) -> None:
        for panel, found, ax in zip(panels, rows, figure.subplots(1, len(panels), squeeze=False)[0], strict=True):
            draw(name, panel, found, ax)

    for panel, found in zip(panels, rows, strict=True) if table else ():
        tell(panel, found)
    return style.png(paint, out / f"{name}.png", size=(3.4 * len(panels) + 0.6, 3.1))


def main() -> None:
    """Read the command line, make what runs are missing, draw, and say where the pictures are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help=f"of {', '.join(PAGES)}; all if none is named")
    parser.add_argument("--runs", type=Path, default=Path("runs/validation"), help="where the runs are")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/validation", help="where the pictures go")
    parser.add_argument("--table", action="store_true", help="print the figures, too")
    said = parser.parse_args()
    said.out.mkdir(parents=True, exist_ok=True)
    for name in said.pages or PAGES:
        print(page(name, said.runs, said.out, table=said.table), flush=True)


if __name__ == "__main__":
    main()
