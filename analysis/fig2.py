"""Fig. 2 of "Federated Learning Under Restricted User Availability": patterns that are rarely heard, in the plane.

One line per run: the decision regions of FedAvg, how often each user was heard, the decision regions of FED-CVaR-AVG;
test points of rare classes are crosses.

    python analysis/fig2.py runs/fig2a-001 runs/fig2b-001 runs/fig2c-001 --out pictures
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from matplotlib.figure import Figure
from reproduction import Experiment, Order, Part, Published, Row
from script import script

from netfl.plots import deliveries, learning
from netfl.report.run_data import RunData
from netfl.results.run_reader import Run

FEDAVG, CVAR = "FedAvg", "FED-CVaR-AVG"
RARE = {"2a": (2,), "2b": (2, 3), "2c": (2,)}
NEVER, ALWAYS = Published(0.0, text=""), Published(low=95, high=100, text="all")


def rows() -> Iterator[Row]:
    """The accuracy on each rare class."""
    for panel, classes in RARE.items():
        for part, told in ((panel, panel), (f"{panel} quick", f"{panel}, quick")):
            for one in classes:
                for learner, published in ((FEDAVG, NEVER), (CVAR, ALWAYS)):
                    yield Row(f"{told}: class {one}, {learner}", (part,), learner, f"accuracy/class:{one}", published)


def panels(runs: Mapping[str, Run]) -> dict[str, RunData]:
    """The run of each panel: the whole one, where that is there."""
    found = {panel: runs.get(panel) or runs.get(f"{panel} quick") for panel in RARE}
    return {panel: RunData(run) for panel, run in found.items() if run is not None}


def draw(runs: Mapping[str, Run], figure: Figure) -> None:
    """The figure: one line for each panel."""
    views = panels(runs)
    for line, (panel, view) in zip(figure.subplots(len(views), 3, squeeze=False), views.items(), strict=True):
        for ax, learner in ((line[0], FEDAVG), (line[2], CVAR)):
            grid, points = (table[table["replica"] == 0] if "replica" in table else table
                            for table in (view.run.regions, view.run.points))  # fmt: skip
            learning.regions(grid[grid["learner"] == learner], points, rare=view.rare_classes, ax=ax)
            ax.set_title(f"{panel}: {learner}")
        deliveries.participation_bars(view.first_users, ax=line[1]).set_title("who was heard")


EXPERIMENTS = (
    Experiment(
        name="fig2",
        title="Fig. 2: patterns that are rarely heard",
        source='Fig. 2 of "Federated Learning Under Restricted User Availability"',
        claim=(
            "Clouds of points in the plane.  The pattern, or in (b) the patterns, of a user who is heard in one round "
            "of ten, in (c) of the six of thirty users who are heard least often, are never learned by FedAvg; "
            "FED-CVaR-AVG (α = γ = 0.1) learns all."
        ),
        parts={
            **{panel: Part(f"paper/fig{panel}", ("full",)) for panel in RARE},
            **{f"{panel} quick": Part(f"paper/fig{panel}", ("quick",), full=False) for panel in RARE},
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
            "The three panels share one network, 2-64-3 or 2-64-4, with both weight matrices at zero.  The notebooks "
            "published with the paper also hand t from user to user within a round; here, as in Algorithm 1, each "
            "round starts from the server's t."
        ),
        draw=draw,
        size=lambda runs: (10.5, 3.2 * len(panels(runs))),
    ),
)

if __name__ == "__main__":
    script(EXPERIMENTS, __doc__)
