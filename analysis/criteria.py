"""Which rule a criterion favours: one run of a conflict between a rare user and all others, read by five criteria.

python analysis/criteria.py runs/criteria

The run has each rule with seven step sizes.  For each criterion, six replicas choose the step size of each rule.  The
other eight give the differences of the rules, with 95 % intervals of Student's t over pairs.  A star marks a step size
at an end of its list.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import netfl
from netfl.results.statistics import interval, is_final

RULES: dict[str, tuple[dict[str, Any], tuple[float, ...]]] = {
    "FedAvg": ({"objective": "erm", "aggregation": "relay"}, (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.9)),
    "FedAU": ({"objective": "erm", "aggregation": "fedau"}, (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.9)),
    "CVaR": (
        {"objective": {"kind": "cvar", "alpha": 0.05, "gamma": 0.1, "lr_t": 0.001}, "aggregation": "relay"},
        (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1),
    ),
}
"""Settings and step sizes of the rules."""

RARE_SHARE = 0.02
"""Share of the rare user in the deliveries."""

USERS, ROUNDS, TUNING_REPLICAS, TEST_REPLICAS = 20, 800, 6, 8


def scenario() -> dict[str, Any]:
    """Return one-dimensional logistic regression of two blobs, of which the rarest user alone holds the second."""
    work = {"batch_size": 16, "local_steps": 5}
    learners = {f"{name}, {lr}": {**rule, "lr": lr, **work} for name, (rule, steps) in RULES.items() for lr in steps}
    return {
        "name": "criteria",
        "users": USERS,
        "rounds": ROUNDS,
        "replicas": TUNING_REPLICAS + TEST_REPLICAS,
        "seed": 49,
        "access": {"kind": "stationary", "rho": [(1 - RARE_SHARE) / (USERS - 1)] * (USERS - 1) + [RARE_SHARE]},
        "data": {"kind": "blobs", "centers": [[0, 0], [1.5, 0]], "std": 1, "samples": 6000},
        "partition": {"kind": "rare_classes", "classes": [1], "users": 1, "by": "rho"},
        "model": "logistic",
        "learners": learners,
        "evaluate": {"every": 20},
    }


def final_accuracies(run: netfl.Run) -> pd.DataFrame:
    """Return the criteria of each learner and replica: means over the last tenth of the rounds, in percent."""
    metrics = run.metrics.astype({"metric": str, "group": str, "learner": str})
    final = metrics[is_final(metrics["round"])]
    means = final.groupby(["metric", "group", "learner", "replica"])["value"].mean() * 100
    majority = means["accuracy", "class:0"]
    rare = means["accuracy", "class:1"]
    return pd.DataFrame(
        {
            "all deliveries": (1 - RARE_SHARE) * majority + RARE_SHARE * rare,
            "`mean_over_users`": means["accuracy_users_mean", ""],
            "`accuracy` (both classes alike)": means["accuracy", ""],
            "`worst`": means["accuracy_users_worst10", ""],
            "`rare_accuracy`": means["rare_accuracy", ""],
        }
    )


def table(accuracies: pd.DataFrame) -> str:
    """Return one line of Markdown for each criterion."""
    lines = [
        "| criterion, in % | FedAvg | FedAU | CVaR | FedAU - FedAvg | CVaR - FedAvg | CVaR - FedAU |",
        "|---|---|---|---|---|---|---|",
    ]
    for criterion in accuracies:
        values = accuracies[criterion].unstack("replica")
        chosen = {}
        for name, (_, steps) in RULES.items():
            of_rule = values.loc[[f"{name}, {lr}" for lr in steps]]
            best = of_rule.iloc[:, :TUNING_REPLICAS].mean(axis=1).to_numpy().argmax()
            mark = "*" if best in (0, len(steps) - 1) else ""
            chosen[name] = (of_rule.iloc[best, TUNING_REPLICAS:].to_numpy(), mark)
        cells = [f"{np.mean(final):.1f}{mark}" for final, mark in chosen.values()]
        for first, second in (("FedAU", "FedAvg"), ("CVaR", "FedAvg"), ("CVaR", "FedAU")):
            pairs = chosen[first][0] - chosen[second][0]
            estimate = interval(pairs)
            cells.append(f"{estimate.mean:+.1f} ± {estimate.half:.1f}")
        lines.append(f"| {criterion} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(folder: Path) -> None:
    """Run the scenario in *folder*, unless it is there, and print the table."""
    run = netfl.open_run(folder) if folder.exists() else netfl.run(scenario(), folder, device="cpu")
    print(table(final_accuracies(run)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
