"""Questions beyond the papers: CVaR under bursty and cyclic access, rivals on one trace, α over the rarest user's rate.

python analysis/beyond.py runs/cvar_markov-001 runs/rivals-001 --out pictures
"""

from __future__ import annotations

from collections.abc import Mapping

import drawing
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from reproduction import Experiment, Order, Part, Row
from script import script

from netfl.results.run_reader import Run

ACCESS = {
    "Bernoulli": Part("beyond/cvar_bernoulli", ("full",)),
    "Markovian": Part("beyond/cvar_markov", ("full",)),
    "sticky": Part("beyond/cvar_markov", ("full", "sticky")),
    "cyclic": Part("beyond/cvar_cyclic", ("full",)),
    "emergent": Part("beyond/cvar_emergent", ("full",)),
}
PLAIN, MILD, STRONG = "α = 1, γ = 0", "α = 0.3, γ = 0.3", "α = 0.1, γ = 0.1"
RIVALS = ("FedAvg", "CVaR", "FedAU", "CVaR + FedAU", "q-FedAvg", "MIFA")
ALPHAS = ("1", "0.5", "0.3", "0.2", "0.1", "0.05")
RATES = ("0.002", "0.005", "0.01", "0.02", "0.05", "0.1")


def draw_access(runs: Mapping[str, Run], figure: Figure) -> None:
    """The rare classes' accuracy over rounds, for each RAM."""
    panels = {name: (run.metrics, "rare_accuracy") for name, run in runs.items()}
    drawing.row(figure, panels, (PLAIN, MILD, STRONG), label="accuracy of rare classes (%)")


def draw_rivals(runs: Mapping[str, Run], figure: Figure) -> None:
    """Overall accuracy, that of rare classes and of the worst users, over rounds."""
    metrics = {"overall": "accuracy", "rare classes": "rare_accuracy", "worst 10 % of users": "accuracy_users_worst10"}
    panels = {label: (runs["full"].metrics, metric) for label, metric in metrics.items()}
    drawing.row(figure, panels, RIVALS, sharey=False, label="accuracy (%)")


def draw_map(runs: Mapping[str, Run], figure: Figure) -> None:
    """A heat map of the rare class's accuracy over α and the rarest user's rate."""
    found = {
        rate: {alpha: 100 * run.summary[f"α = {alpha}.rare_accuracy.last_tenth"] for alpha in ALPHAS}
        for rate, run in runs.items()
    }
    ax = figure.subplots()
    sns.heatmap(pd.DataFrame(found), annot=True, fmt=".0f", cmap="viridis", vmin=0, vmax=100, ax=ax,
                cbar_kws={"label": "accuracy of the rare class (%)"})  # fmt: skip
    ax.set(xlabel="rate of the rarest user", ylabel="α")
    ax.tick_params(axis="y", rotation=0)


def rivals() -> tuple[Row, ...]:
    """What the rivals are compared by."""
    metrics = {
        "accuracy": ("overall", 100.0, 1),
        "rare_accuracy": ("rare classes", 100.0, 1),
        "accuracy_users_worst10": ("worst 10 % of users", 100.0, 1),
        "accuracy_users_variance": ("variance over users", 1e4, 0),
    }
    return tuple(
        Row(f"{label}, {learner}", ("full",), learner, metric, scale=scale, digits=digits)
        for metric, (label, scale, digits) in metrics.items()
        for learner in RIVALS
    )


EXPERIMENTS = (
    Experiment(
        name="cvar_access",
        title="Beyond: does CVaR help when access is bursty or cyclic?",
        source="our own question; `scenarios/beyond/cvar_*.yaml`",
        claim=(
            "Table 1's question under other RAMs, with a small model.  One user is heard in a round; how often it is, "
            "is the same under the first four, how long it is away is not: independent rounds, FedAU's Markov chains, "
            "stickier chains, FedAU's cycles.  In the last one who is heard emerges from the network of "
            "`rural_outage.yaml`.  The step size, 0.02, is one at which α = γ = 0.1 is stable; that favours small α."
        ),
        parts=ACCESS,
        rows=[
            Row(f"{part}: rare classes, {learner}", (part,), learner, "rare_accuracy")
            for part in ACCESS
            for learner in (PLAIN, MILD, STRONG)
        ],
        orders=[
            Order(
                f"{part}: rare classes higher with {learner} than with {PLAIN}",
                (part,),
                "rare_accuracy",
                learner,
                PLAIN,
            )
            for part in ACCESS
            for learner in (MILD, STRONG)
        ],
        draw=draw_access,
        size=lambda runs: (1.2 + 2.6 * len(runs), 3.2),
    ),
    Experiment(
        name="rivals",
        title="Beyond: rivals on one trace",
        source="our own question; `scenarios/beyond/rivals.yaml`",
        claim=(
            "CVaR, FedAU, both, q-FedAvg and MIFA with one step size and the same local work, on one Markovian trace: "
            "about five of thirty users are heard in a round, and those with most of classes 8 and 9 least often."
        ),
        parts={"full": Part("beyond/rivals", ("full",))},
        rows=rivals(),
        orders=[
            Order(f"rare classes higher with {learner} than with FedAvg", ("full",), "rare_accuracy", learner, "FedAvg")
            for learner in RIVALS[1:]
        ]
        + [
            Order(
                f"rare classes higher with CVaR + FedAU than with {one}",
                ("full",),
                "rare_accuracy",
                "CVaR + FedAU",
                one,
            )
            for one in ("CVaR", "FedAU")
        ],
        remarks=lambda results: (
            "MIFA, which keeps every user's last update, is first in all four figures, at the price of one model of "
            "memory for each user.  FedAU lifts the rare classes; CVaR with FedAU is no better than FedAU alone here.  "
            "One step size for all is a choice, and was not tuned for any of them."
        ),
        draw=draw_rivals,
        size=lambda runs: (10.0, 3.2),
    ),
    Experiment(
        name="alpha_rho",
        title="Beyond: how α should follow the rarest user's rate",
        source="our own question; `scenarios/beyond/alpha_rho.yaml`",
        claim=(
            "Ten users hold digits, one is heard in a round, the rarest alone holds the nines.  The map has the "
            "accuracy on the nines, mean of the last tenth of the rounds, over α and how often that user is heard."
        ),
        parts={rate: Part("beyond/alpha_rho", ("full", f"rho_{rate.replace('.', '_')}")) for rate in RATES},
        rows=[
            Row(f"rate {rate}: nines, α = {alpha}", (rate,), f"α = {alpha}", "rare_accuracy")
            for rate in RATES
            for alpha in ALPHAS
        ],
        orders=[
            Order(
                f"rate {rate}: nines higher with α = 0.1 than with α = 1", (rate,), "rare_accuracy", "α = 0.1", "α = 1"
            )
            for rate in RATES
        ],
        remarks=lambda results: (
            "The rarer the user, the more a small α gains; the smallest one tried is as good as any at every rate, in "
            "this world and at this step size.  So α need not follow the rate upwards; "
            "what falls with the rate is how much any α can save."
        ),
        draw=draw_map,
        size=lambda runs: (6.2, 3.8),
    ),
)

if __name__ == "__main__":
    script(EXPERIMENTS, __doc__)
