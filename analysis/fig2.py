"""Draw Fig. 2 of "Federated Learning Under Restricted User Availability" from run directories.

One line per run: the decision regions of the first learner, how often each user was heard, the decision regions of the
last learner; test points of rare classes are crosses.

    python analysis/fig2.py runs/fig2a-001 runs/fig2b-001 runs/fig2c-001 --out fig2.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

from matplotlib.figure import Figure

import netfl
from netfl.report import plots_access, plots_learning
from netfl.report.view import View


def draw(views: list[View]) -> Figure:
    """The figure: one line per run."""
    figure = Figure(figsize=(10.5, 3.2 * len(views)), layout="constrained")
    for line, view in zip(figure.subplots(len(views), 3, squeeze=False), views, strict=True):
        first, last = view.learners[0], view.learners[-1]
        for ax, learner in ((line[0], first), (line[2], last)):
            regions = view.run.regions
            plots_learning.regions(
                regions[regions["learner"] == learner], view.run.points, rare=view.rare_classes, ax=ax
            )
            ax.set_title(f"{view.name}: {learner}")
        plots_access.heard(view.one, ax=line[1]).set_title("who was heard")
    return figure


def main() -> None:
    """Read the command line, draw, and say where the picture is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="run directories of scenarios with data in the plane")
    parser.add_argument("--out", type=Path, default=Path("fig2.png"), help="the picture")
    said = parser.parse_args()
    views = [View(netfl.open_run(folder)) for folder in said.runs]
    for view in views:
        if view.run.regions.empty:
            parser.error(
                f"{view.run.folder} holds no decision regions: its data are not in the plane, or it is not done"
            )
    draw(views).savefig(said.out, dpi=130)
    print(said.out)


if __name__ == "__main__":
    main()
