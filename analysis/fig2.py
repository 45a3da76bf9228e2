"""Fig. 2 of "Federated Learning Under Restricted User Availability": rare patterns in the plane.

The plot has one line for each run: the decision regions of FedAvg, the participation of each user, and the decision
regions of FED-CVaR-AVG. Test points of rare classes are crosses.

    python analysis/fig2.py runs/fig2a-001 runs/fig2b-001 runs/fig2c-001 --out plots
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from matplotlib.figure import Figure
from reproduction import Experiment, Order, Part, Published, Row
from script import run_script

from netfl.plots import deliveries, learning
from netfl.report.run_data import RunData
from netfl.results.run_reader import Run

PAPER = "Federated Learning Under Restricted User Availability"
FEDAVG, CVAR = "FedAvg", "FED-CVaR-AVG"
RARE = {"2a": (2,), "2b": (2, 3), "2c": (2,)}
NEVER, ALWAYS = Published(0.0, digits=0, text="never"), Published(100.0, digits=0, text="all")
"""The words of the paper as accuracies: FedAvg learns a pattern never, and FED-CVaR-AVG learns all."""


def rows() -> Iterator[Row]:
    """Yield the accuracy on each rare class."""
    for panel, classes in RARE.items():
        for part, label in ((panel, panel), (f"{panel} quick", f"{panel}, quick")):
            for rare in classes:
                for learner, published in ((FEDAVG, NEVER), (CVAR, ALWAYS)):
                    yield Row(
                        f"{label}: class {rare}, {learner}",
                        (part,),
                        learner,
                        f"accuracy/class:{rare}",
                        published,
                        effect=ALWAYS.distance(NEVER),
                    )


def panels(runs: Mapping[str, Run]) -> dict[str, RunData]:
    """Return the run of each panel: the full one if it exists, otherwise the quick one."""
    found = {panel: runs.get(panel) or runs.get(f"{panel} quick") for panel in RARE}
    return {panel: RunData(run) for panel, run in found.items() if run is not None}


def draw(runs: Mapping[str, Run], figure: Figure) -> None:
    """Draw one line for each panel."""
    views = panels(runs)
    for line, (panel, view) in zip(figure.subplots(len(views), 3, squeeze=False), views.items(), strict=True):
        for ax, learner in ((line[0], FEDAVG), (line[2], CVAR)):
            grid, points = (table[table["replica"] == 0] if "replica" in table else table
                            for table in (view.run.regions, view.run.points))  # fmt: skip
            learning.regions(grid[grid["learner"] == learner], points, rare=view.rare_classes, ax=ax)
            ax.set_title(f"{panel}: {learner}")
        deliveries.participation_bars(view.first_users, ax=line[1]).set_title("participation")


EXPERIMENTS = (
    Experiment(
        name="fig2",
        title="Fig. 2: rare patterns in the plane",
        paper=PAPER,
        source="Fig. 2",
        claim=(
            "Users hold clouds of points in the plane. In (a) and (b) one user participates in one round of ten, and "
            "alone holds one pattern or two. In (c) the six of thirty users with the lowest participation hold the "
            "rare pattern. FedAvg never learns these patterns. FED-CVaR-AVG (α = γ = 0.1) learns all patterns."
        ),
        parts={
            **{panel: Part(f"paper/fig{panel}", ("full",), turn=1) for panel in RARE},
            **{f"{panel} quick": Part(f"paper/fig{panel}", ("quick",), full=False, turn=0) for panel in RARE},
        },
        rows=[*rows()],
        orders=[
            Order(
                f"{panel}: accuracy of the rare classes higher with FED-CVaR-AVG",
                (panel,),
                "rare_accuracy",
                CVAR,
                FEDAVG,
            )
            for panel in RARE
        ],
        remarks=lambda results: (
            "The three panels use the same network, 2-64-3 (2-64-4 in (b)). Both of its weight matrices start at "
            "zero. In the notebooks published with the paper, t also passes from user to user within a round. Here "
            "each user starts from the server's t, as in Algorithm 1."
        ),
        draw=draw,
        size=lambda runs: (10.5, 3.2 * len(panels(runs))),
        draws_tables=True,
    ),
)

if __name__ == "__main__":
    run_script(EXPERIMENTS, __doc__)
