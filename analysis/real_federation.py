"""Ten real Flower clients and their network in netfl: seconds and joules of a round, one cell held out at a time.

python analysis/real_federation.py flower_grid5000.csv [results.csv]

The data are 63 runs of Flower on ten Jetson boards of Grid'5000 (github tuananhngh/FL-G5K-EnergyConsumption @
9b215dba): strategy, local epochs E, rounds and seconds.  All of them were printed before this script was written, so
they count as seen.  What is assumed stands in `ASSUMED`.  The rest is one free constant for each strategy, the time of
a round that netfl does not simulate (aggregation, Python, gRPC), fitted on its runs at E = 1 and 3.  The mean of its
runs at E = 5 is held out, with an interval from the scatter of these runs alone.  The rivals see the same or other
runs: the line through E = 1 and 3 of the strategy, and the mean of the other strategies at E = 5.

Beside the reading of `ASSUMED` there are others of the stated range of fit times, and one in which the time of an epoch
is a second free constant of each strategy, as many as the line has.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import nnls
from scipy.stats import t as student_t

import netfl

RESULTS = Path(__file__).parent / "results" / "measured" / "real_federation.csv"
CLIENTS = 10
EPOCHS = (1, 3, 5)
HELD_OUT = 5
TOLERANCE = 0.01
"""Largest error of a prediction that counts as right."""
MODEL_MB = 44.7
"""ResNet-18 of 32-bit numbers, as the source states it."""
FIRST_FIT_S = 16.4
"""Fit time of a client in round 1, one epoch."""
ENERGY_J = {1: 122.0, 3: 425.0, 5: 727.0}
"""Joules of a client and round, as the source states them: one figure for each E, without scatter."""

ASSUMED: dict[str, Any] = {
    "epoch_s": 7.3,  # the middle of the stated 7.2 to 7.4 s, for all clients
    "link": "1 Gbps",  # Ethernet of the boards and of the server, each direction
    "train_samples": 5000,  # a tenth of CIFAR-10
    "test_samples": 1000,  # a tenth of its test set, at the default cost of a forward pass
    "answer": "100 B",
}
"""What the source does not state, or states as a range."""


class Readings(NamedTuple):
    """Simulated figures of a round.

    Args:
        round_s: mean time of a round.
        computing_s: mean time for which a client trains or evaluates in a round.
    """

    round_s: float
    computing_s: float


def scenario(epochs: int, rounds: int, epoch_s: float | list[float]) -> dict[str, Any]:
    """Return the network of the federation; clients have one round trip of no length, and the air takes no time."""
    epoch_times_s = np.broadcast_to(epoch_s, CLIENTS)
    link = ASSUMED["link"]
    return {
        "name": f"flower, {epochs} local epochs",
        "users": CLIENTS,
        "rounds": rounds,
        "seed": 129,
        "access": {
            "kind": "network",
            "topology": {"kind": "star", "distance": "10 m", "rate": "1 Tbps", "delay": 0},
            "radio": {"power": "20 dBm", "bandwidth": "100 GHz", "noise_figure": "0 dB"},
            "channel": [{"kind": "constant", "gain": "0 dB"}],
            "reception": {"kind": "snr_threshold", "threshold": "60 dB", "rate": "1 Tbps"},
            "mac": "round_robin",
            "compute": {
                "speed": (ASSUMED["train_samples"] / epoch_times_s).tolist(),
                "samples": ASSUMED["train_samples"] * epochs,
                "warm_up": (FIRST_FIT_S - epoch_times_s).tolist(),
            },
            "energy": {"states": True, "idle": "1 W"},
            "update_size": f"{MODEL_MB} MB",
            "broadcast_rate": "1 Tbps",
            "server_link": {"rate": link, "user_rate": link},
            "evaluation": {"samples": ASSUMED["test_samples"], "answer": ASSUMED["answer"]},
            "round": {"kind": "available"},
        },
    }


def simulate(epochs: int, rounds: int, epoch_s: float | list[float], folder: Path) -> Readings:
    """Return the figures of a run of netfl."""
    run = netfl.trace(scenario(epochs, rounds, epoch_s), folder)
    states = run.table("energy")
    computing_s = (states["computing_state_s"] + states["evaluating_state_s"]).mean()
    return Readings(float(run.rounds["closed_s"].iloc[-1]) / rounds, float(computing_s) / rounds)


def half_width(values: pd.Series) -> float:
    """Return half of the 95 % interval of the mean of these runs."""
    return float(student_t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def predict_times(runs: pd.DataFrame, simulated: dict[int, Readings]) -> pd.DataFrame:
    """Return a line for each strategy: its mean at E = 5, and what netfl and the rivals predict for it."""
    mean_s = runs.groupby(["strategy", "local_epochs"])["seconds_per_round"].mean().unstack()
    rows = []
    for strategy, means in mean_s.iterrows():
        held_out = runs[(runs["strategy"] == strategy) & (runs["local_epochs"] == HELD_OUT)]["seconds_per_round"]
        constant_s = np.mean([means[epochs] - simulated[epochs].round_s for epochs in EPOCHS if epochs != HELD_OUT])
        fitted_s = {epochs: simulated[epochs].round_s + constant_s for epochs in EPOCHS}
        rows.append(
            {
                "quantity": "seconds of a round",
                "held_out": f"{strategy}, E = {HELD_OUT}",
                "runs": len(held_out),
                "measured": held_out.mean(),
                "half_width_95": half_width(held_out),
                "constant": constant_s,
                "misfit_at_1": fitted_s[1] - means[1],
                "misfit_at_3": fitted_s[3] - means[3],
                "netfl": fitted_s[HELD_OUT],
                "line": means[1] + (means[3] - means[1]) / 2 * (HELD_OUT - 1),
                "other_strategies": mean_s.drop(strategy)[HELD_OUT].mean(),
            }
        )
    return pd.DataFrame(rows)


def fitted_epochs_s(runs: pd.DataFrame, simulated: dict[int, Readings]) -> dict[str, float]:
    """Return the time of an epoch with which netfl has the difference of E = 1 and 3 of each strategy."""
    mean_s = runs.groupby(["strategy", "local_epochs"])["seconds_per_round"].mean().unstack()
    missing_s = (mean_s[3] - mean_s[1]) - (simulated[3].round_s - simulated[1].round_s)
    return (ASSUMED["epoch_s"] + missing_s / 2).to_dict()


def predict_energy(simulated: dict[int, Readings]) -> pd.DataFrame:
    """Return lines for the joules at E = 5, with powers of at least 0 fitted at E = 1 and 3.

    First one free constant, the power while computing; then that and a power at all times.
    """
    seen = [epochs for epochs in EPOCHS if epochs != HELD_OUT]
    times_s = np.array([[simulated[epochs].computing_s, simulated[epochs].round_s] for epochs in EPOCHS])
    joules = np.array([ENERGY_J[epochs] for epochs in EPOCHS])
    rows = []
    for name, columns in (("power while computing", [0]), ("that and a power at all times", [0, 1])):
        powers_w, _ = nnls(times_s[: len(seen)][:, columns], joules[: len(seen)])
        fitted_j = times_s[:, columns] @ powers_w
        rows.append(
            {
                "quantity": "joules of a client and round",
                "held_out": f"E = {HELD_OUT}, {name}",
                "runs": 1,
                "measured": ENERGY_J[HELD_OUT],
                "constant": powers_w[0],
                "misfit_at_1": fitted_j[0] - joules[0],
                "misfit_at_3": fitted_j[1] - joules[1],
                "netfl": fitted_j[2],
                "line": joules[0] + (joules[1] - joules[0]) / 2 * (HELD_OUT - 1),
            }
        )
    return pd.DataFrame(rows)


def add_verdicts(table: pd.DataFrame, reading: str) -> pd.DataFrame:
    """Return the table with relative errors, and whether netfl is within the tolerance."""
    table = table.copy()
    table.insert(0, "reading", reading)
    for name in ("netfl", "line", "other_strategies"):
        if name in table:
            table[f"{name}_error"] = table[name] / table["measured"] - 1.0
    table["within_1_percent"] = table["netfl_error"].abs() <= TOLERANCE
    table["as_good_as_line"] = table["netfl_error"].abs() <= table["line_error"].abs()
    return table


def main(data: Path, results: Path, folder: Path) -> pd.DataFrame:
    """Simulate, fit and predict; write and return the table of results."""
    runs = pd.read_csv(data)
    rounds = runs.groupby("local_epochs")["rounds"].first().to_dict()
    readings: dict[str, float | list[float]] = {
        "main": ASSUMED["epoch_s"],
        "all clients 7.2 s an epoch": 7.2,
        "all clients 7.4 s an epoch": 7.4,
        "clients spread over 7.2 to 7.4 s": np.linspace(7.2, 7.4, CLIENTS).tolist(),
    }
    simulated = {}
    for reading, epoch_s in readings.items():
        simulated[reading] = {
            epochs: simulate(epochs, rounds[epochs], epoch_s, folder / f"{reading}, {epochs}") for epochs in EPOCHS
        }
    tables = []
    for reading, figures in simulated.items():
        tables.append(add_verdicts(predict_times(runs, figures), reading))
        tables.append(add_verdicts(predict_energy(figures), reading))
    for strategy, epoch_s in fitted_epochs_s(runs, simulated["main"]).items():
        figures = {
            epochs: simulate(epochs, rounds[epochs], epoch_s, folder / f"{strategy}, {epochs}") for epochs in EPOCHS
        }
        lines = predict_times(runs, figures)
        lines = lines[lines["held_out"].str.startswith(f"{strategy},")]
        tables.append(add_verdicts(lines, f"time of an epoch fitted, too: {epoch_s:.3f} s"))
    table = pd.concat(tables, ignore_index=True)
    table.round(4).to_csv(results, index=False)
    return table


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as temporary:
        target = Path(sys.argv[2]) if len(sys.argv) > 2 else RESULTS
        outcome = main(Path(sys.argv[1]), target, Path(temporary))
    sys.stdout.write(outcome.to_string() + "\n")
