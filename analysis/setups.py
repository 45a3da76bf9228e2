"""Draw the plots of docs/setups.md: what the papers of each set-up plot, from runs of scenarios/setups.

    python analysis/setups.py            # all; finished runs are drawn again without a new run
    python analysis/setups.py lpwan      # some

Runs are in runs/setups.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import netfl
from netfl.plots import learning, runs, style
from netfl.results import aggregates
from netfl.results.run_reader import Run

ROOT = Path(__file__).parents[1]
PLUG_INS = ROOT / "examples" / "selection"


@dataclass(frozen=True)
class Variant:
    """One run of a scenario: its blocks of overrides, and keys that are set."""

    blocks: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plot:
    """The plot of a set-up: its runs by the label of each, and the function that draws them."""

    variants: Mapping[str, Variant]
    draw: Callable[[Mapping[str, Run], Figure], object]
    size: tuple[float, float] = (9.0, 3.4)


def accuracy(ax: Axes, shown: Mapping[str, Run], over: aggregates.Over, *, logarithmic: bool = False) -> None:
    """Draw the accuracy of FedAvg in each run; a logarithmic axis begins with the first round."""
    tables = {label: aggregates.with_cost(run.metrics, run.rounds) for label, run in shown.items()}
    if logarithmic:
        tables = {label: table[table["round"] > 0] for label, table in tables.items()}
    courses = runs.run_courses(tables, "accuracy", over)
    runs.run_curves(courses, "accuracy", runs.run_styles([*shown], ["FedAvg"]), over=over, ax=ax)
    if logarithmic:
        style.set_logarithmic(ax, "x")
        ax.set_xlim(courses["at"].min(), courses["at"].max())
    ax.set_ylabel("accuracy (%)")


def ranks(ax: Axes, shown: Mapping[str, Run]) -> None:
    """Draw the deliveries of each user, from the most to the fewest."""
    for label, line in style.line_styles([*shown]).items():
        falling = np.sort(deliveries_of_users(shown[label]))[::-1]
        ax.step(np.arange(1, len(falling) + 1), falling, where="mid", **line)
        ax.lines[-1].set_label(label)
    ax.set(xlabel="user, the most often delivered first", ylabel="deliveries", ylim=0)


def deliveries_of_users(run: Run) -> np.ndarray:
    """Return the number of deliveries of each user."""
    return np.bincount(run.deliveries["user"], minlength=len(run.users))


def distribution(ax: Axes, values: Mapping[str, np.ndarray]) -> None:
    """Draw the share of values below each value."""
    for label, line in style.line_styles([*values]).items():
        sizes = np.sort(values[label])
        ax.step(sizes, 100 * np.arange(1, len(sizes) + 1) / len(sizes), where="post", **line)
    ax.set(ylim=(0, 101))


def legend(figure: Figure, labels: Mapping[str, object]) -> None:
    """Draw the legend of all panels below them."""
    style.line_legend(figure, style.line_styles([*labels]), loc="outside lower center", ncols=min(len(labels), 5))


def draw_unavailability(shown: Mapping[str, Run], figure: Figure) -> None:
    """Draw the deliveries of each round with their expectation, and the accuracy of all learners."""
    left, right = figure.subplots(1, 2)
    run = shown["unavailability"]
    rounds = run.rounds["round"].to_numpy()
    peaks = (1 / np.sqrt(np.arange(1, 101))).sum()
    left.plot(rounds, run.rounds["delivered"], ".", color=style.GREY, markersize=3, label="run")
    left.plot(rounds, peaks * (0.6 + 0.4 * np.sin(2 * np.pi * rounds / 40)), color=style.BLUE, label="by hand")
    left.set(xlabel="round", ylabel="deliveries", ylim=0)
    left.legend(loc="upper right", ncols=2)
    learning.curves(run.metrics, "accuracy", rounds=run.rounds, ax=right)
    right.set(ylabel="accuracy (%)", ylim=(60, 100))


def draw_availability_sampling(shown: Mapping[str, Run], figure: Figure) -> None:
    """Draw how often each user is delivered, and the share of users that have been delivered so far."""
    left, right = figure.subplots(1, 2)
    ranks(left, shown)
    for label, line in style.line_styles([*shown]).items():
        run = shown[label]
        first_rounds = np.sort(run.deliveries.groupby("user")["round"].min())
        delivered = np.arange(1, len(first_rounds) + 1)
        rounds = np.append(first_rounds, len(run.rounds))
        share = 100 * np.append(delivered, len(first_rounds)) / len(run.users)
        right.step(rounds, share, where="post", **line)
    right.set(xlabel="round", ylabel="users delivered so far (%)", ylim=(0, 101), xlim=(0, 120))
    legend(figure, shown)


def draw_joint_allocation(shown: Mapping[str, Run], figure: Figure) -> None:
    """Draw the accuracy over joules and over seconds."""
    left, right = figure.subplots(1, 2, sharey=True)
    accuracy(left, shown, "energy", logarithmic=True)
    accuracy(right, shown, "time", logarithmic=True)
    right.set_ylabel("")
    legend(figure, shown)


def draw_channel_age_loss(shown: Mapping[str, Run], figure: Figure) -> None:
    """Draw the accuracy over time, and how often each user is delivered."""
    left, right = figure.subplots(1, 2)
    accuracy(left, shown, "time")
    ranks(right, shown)
    legend(figure, shown)


def draw_lpwan(shown: Mapping[str, Run], figure: Figure) -> None:
    """Draw the distribution of the time and the airtime of an update, and the frames that each user loses."""
    times, airtimes, lost = figure.subplots(1, 3)
    run = next(iter(shown.values()))
    links, delivered = run.table("links"), run.deliveries
    distribution(times, {"all": ((delivered["arrived_s"] - delivered["sent_s"]) / 60).to_numpy()})
    times.set(xlabel="time of an update (min)", ylabel="updates (%)", xlim=(0, None))
    distribution(airtimes, {"all": links["airtime_s"].to_numpy()})
    airtimes.set(xlabel="airtime of an update (s)", xlim=(0, None))
    for label, line in style.line_styles([*shown]).items():
        users = shown[label].users
        share = np.sort(100 * (1 - users["attempts_received"] / users["attempts"]))[::-1]
        lost.step(np.arange(1, len(share) + 1), share, where="mid", label=label, **line)
    lost.set(xlabel="user, from the worst", ylabel="frames lost (%)", ylim=(0, None))
    lost.legend()


def draw_asynchronous(shown: Mapping[str, Run], figure: Figure) -> None:
    """Draw the accuracy over time, and the deliveries of fast and slow users."""
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
    tables = {label: aggregates.with_cost(run.metrics, run.rounds) for label, run in shown.items()}
    courses = runs.run_courses(tables, "accuracy", "time")
    names = list(courses["learner"].unique())
    lines = style.line_styles(names)
    styles = {(run, learner): lines[learner] for run, learner in courses.groupby(["run", "learner"]).groups}
    runs.run_curves(courses, "accuracy", styles, over="time", ax=left)
    style.set_logarithmic(left, "x")
    left.set(ylabel="accuracy (%)", xlim=(0.05, 30))
    style.line_legend(left, lines, loc="lower right")
    run = next(iter(shown.values()))
    deliveries = deliveries_of_users(run)
    for device, colour in (("fast", style.BLUE), ("slow", style.ORANGE)):
        users = run.users["device"].to_numpy() == device
        right.plot(run.users["speed"][users], deliveries[users], ".", color=colour, label=device)
    style.set_logarithmic(right, "x")
    right.set(xlabel="examples a second", ylabel="deliveries", ylim=0)
    right.legend()


def draw_harvesting_users(shown: Mapping[str, Run], figure: Figure) -> None:
    """Draw the accuracy over time, and the deliveries so far beside the number for which energy has arrived."""
    left, right = figure.subplots(1, 2)
    accuracy(left, shown, "time")
    for label, line in style.line_styles([*shown]).items():
        rounds = shown[label].rounds
        right.plot(rounds["closed_s"] / 60, rounds["delivered"].cumsum(), **line)
    minutes = np.array([0, 100])
    right.plot(minutes, 40 * (5 + 0.025 * 60 * minutes) / 4, color=style.GREY, linewidth=0.9)
    right.text(56, 1000, "energy that has arrived / 4 J", ha="right", color=style.GREY)
    right.set(xlabel="simulated time (min)", ylabel="updates so far", xlim=(0, 100), ylim=0)
    legend(figure, shown)


def draw_vehicles(shown: Mapping[str, Run], figure: Figure) -> None:
    """Draw the mast of each delivery over time, and how often each car is delivered."""
    left, right = figure.subplots(1, 2, width_ratios=(1.4, 1))
    run = shown["strongest"]
    for tower, colour in (("tower:0", style.GREEN), ("tower:1", style.PINK)):
        rows = run.deliveries[run.deliveries["tower"] == tower]
        name = f"west mast ({len(rows)})" if tower == "tower:0" else f"east mast ({len(rows)})"
        left.plot(rows["arrived_s"], rows["user"], "|", color=colour, markersize=9, markeredgewidth=1.6, label=name)
    left.set(xlabel="time (s)", ylabel="car", yticks=range(12))
    left.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    ranks(right, shown)
    right.legend()


def draw_satellites(shown: Mapping[str, Run], figure: Figure) -> None:
    """Draw the passes and the deliveries of the first four hours, and the accuracy over the day."""
    left, right = figure.subplots(1, 2, width_ratios=(1.4, 1))
    run = shown["satellites"]
    passes = pd.read_csv(ROOT / "scenarios/files/satellite_passes.csv")
    for user in range(40):
        own = passes[passes["user"] == user]
        spans_h = np.transpose([own["start"], own["end"] - own["start"]]) / 3600
        left.broken_barh(spans_h, (user - 0.4, 0.8), color=style.SKY)
        arrived_h = run.deliveries.loc[run.deliveries["user"] == user, "arrived_s"] / 3600
        left.plot(arrived_h, np.full(len(arrived_h), user), "|", color=style.INK, markersize=4, markeredgewidth=0.7)
    left.set(xlabel="time (h)", ylabel="satellite", yticks=range(0, 40, 8), xlim=(0, 4), xticks=range(5))
    metrics = run.metrics.query("metric == 'accuracy' and group == ''")
    styles = style.line_styles(list(metrics["learner"].unique()))
    for learner, line in styles.items():
        rows = metrics[metrics["learner"] == learner]
        right.plot(rows["time_s"] / 3600, 100 * rows["value"], **line)
    right.set(xlabel="time (h)", ylabel="accuracy (%)", xlim=(0, 24), xticks=range(0, 25, 4))
    style.line_legend(right, styles, loc="lower right")


def draw_over_the_air(shown: Mapping[str, Run], figure: Figure) -> None:
    """Draw the error of the sum beside its formula, and the accuracy of both learners."""
    left, right = figure.subplots(1, 2)
    for label, line in style.line_styles([*shown]).items():
        metrics = shown[label].metrics
        for name, form in (("scheduled_error", {}), ("scheduled_error_formula", {"linestyle": "none", "marker": "."})):
            means = metrics[metrics["metric"] == name].groupby("round")["value"].mean()
            left.plot(means.index, means, **(line | form))
        rows = metrics.query("learner == 'in the air' and metric == 'accuracy' and group == ''")
        means = rows.groupby("round")["value"].mean()
        right.plot(means.index, 100 * means, **line)
    style.set_logarithmic(left, "y")
    left.set(xlabel="round", ylabel="square error, to all scheduled")
    left.text(0.98, 0.96, "points: formula", transform=left.transAxes, ha="right", va="top", color=style.GREY)
    right.set(xlabel="round", ylabel="accuracy (%)")
    legend(figure, shown)


def draw_noma(shown: Mapping[str, Run], figure: Figure) -> None:
    """Draw the rates of pairs beside the capacity of the band, and the attempts of an update."""
    left, right = figure.subplots(1, 2)
    pairs = paired_rates(shown["pairs"])
    capacity = np.linspace(0, 18, 2)
    left.plot(pairs["capacity"], pairs["sum"], ".", color=style.BLUE, markersize=4, label="both rates")
    left.plot(pairs["capacity"], pairs["first"], ".", color=style.ORANGE, markersize=4, label="decoded first")
    left.plot(capacity, capacity, color=style.GREY, linewidth=0.9)
    left.set(xlabel="log₂(1 + SNR 1 + SNR 2)", ylabel="bit/s in a hertz", xlim=(0, 18), ylim=0)
    left.legend(loc="upper left")
    senders = {label: run for label, run in shown.items() if label != "pairs"}
    for label, line in style.line_styles([*senders]).items():
        attempts = np.sort(senders[label].deliveries["attempts"])
        share = 100 * np.arange(1, len(attempts) + 1) / len(attempts)
        right.step(attempts, share, where="post", label=label, **line)
    style.set_logarithmic(right, "x")
    right.set(xlabel="attempts of an update, without grant", ylabel="updates (%)", ylim=(0, 101))
    right.legend(loc="lower right")


def paired_rates(run: Run) -> pd.DataFrame:
    """Return the rates of users that send at once, in bit/s in a hertz of 1 MHz, a row for each pair.

    The columns: that of the user that is decoded first, the sum of both, and log2(1 + SNR 1 + SNR 2).
    """
    attempts = run.attempts.assign(
        rate=run.attempts["bits"] / run.attempts["airtime_s"] / 1e6, snr=10 ** (run.attempts["snr_db"] / 10)
    )
    pairs = attempts.sort_values("snr", ascending=False).groupby(["replica", "start_s"])
    table = pd.DataFrame({
        "users": pairs.size(),
        "first": pairs["rate"].first(),
        "sum": pairs["rate"].sum(),
        "capacity": np.log2(1 + pairs["snr"].sum()),
    })  # fmt: skip
    return table[table["users"] == 2]


def weighted() -> Variant:
    """Return the run with the selection of the example."""
    observe = {"check_in": {"airtime": "5 ms"}, "snr_db": "check_in", "loss": "last_delivery"}
    selection = {"kind": "weighted_score:WeightedScore", "m": 8, "age": 0.5, "loss": 1.0, "observe": observe}
    return Variant(settings={"access.selection": selection})


PLOTS = {
    "unavailability": Plot({"unavailability": Variant()}, draw_unavailability),
    "availability_sampling": Plot(
        {"f3ast": Variant()} | {name: Variant((name,)) for name in ("oldest", "uniform", "oort", "blind")},
        draw_availability_sampling,
    ),
    "joint_allocation": Plot(
        {
            "least energy in 1 s": Variant(),
            "least time for 5 mJ": Variant(("least_time",)),
            "equal shares": Variant(("equal",)),
        },
        draw_joint_allocation,
    ),
    "channel_age_loss": Plot(
        {"channel": Variant(), "age": Variant(("oldest",)), "loss": Variant(("loss",)), "all three": weighted()},
        draw_channel_age_loss,
    ),
    "lpwan": Plot({"three gateways": Variant(), "own gateway": Variant(("own_gateway",))}, draw_lpwan, size=(9.5, 3.0)),
    "asynchronous": Plot({"buffered": Variant(), "synchronous": Variant(("synchronous",))}, draw_asynchronous),
    "harvesting_users": Plot(
        {"in turns, with 5 J": Variant(), "with 5 J": Variant(("charged",)), "always": Variant(("eager",))},
        draw_harvesting_users,
    ),
    "over_the_air": Plot(
        {
            "10 dB": Variant(),
            "10 dB, good channels only": Variant(("strict",)),
            "-35 dB": Variant(("noisy",)),
        },
        draw_over_the_air,
    ),
    "noma": Plot(
        {
            "pairs": Variant(),
            "cancellation": Variant(("grant_free",)),
            "SINR": Variant(("grant_free_sinr",)),
            "collisions": Variant(("grant_free_collide",)),
        },
        draw_noma,
    ),
    "satellites": Plot({"satellites": Variant()}, draw_satellites, size=(9.5, 3.6)),
    "vehicles": Plot(
        {"strongest": Variant(), "nearest at start": Variant(("nearest_at_start",))}, draw_vehicles, size=(9.5, 3.6)
    ),
}
"""The plot of each scenario in scenarios/setups."""


def run_variant(name: str, variant: Variant, folder: Path) -> Run:
    """Return the finished run of a scenario in *folder*, or run it."""
    if not (folder / "summary.json").exists():
        if str(PLUG_INS) not in sys.path:
            sys.path.append(str(PLUG_INS))
        scenario = netfl.load(ROOT / f"scenarios/setups/{name}.yaml", dict(variant.settings), variant.blocks)
        netfl.run(scenario, folder, device="cpu", progress=False)
    return netfl.open_run(folder)


def folder_name(label: str) -> str:
    """Return the name of the folder of the run with a *label*."""
    return re.sub(r"\W+", "-", label)


def draw(name: str, folder: Path, out: Path) -> Path:
    """Run the scenario, unless its runs are finished, and write the plot."""
    plot = PLOTS[name]
    shown = {
        label: run_variant(name, variant, folder / name / folder_name(label))
        for label, variant in plot.variants.items()
    }
    return style.png(lambda figure: plot.draw(shown, figure), out / f"{name}.png", size=plot.size)


def main() -> None:
    """Parse the arguments and draw the plots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PLOTS)}; all by default")
    parser.add_argument("--runs", type=Path, default=Path("runs/setups"), help="folder of the runs")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/setups", help="folder of the plots")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names or PLOTS:
        path = draw(name, options.runs, options.out)
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
