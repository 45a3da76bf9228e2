"""Compare netfl's IEEE 802.15.4 with measurements of a testbed, in two steps, each without and with a jammer.

    python analysis/real_802154.py fit DATA.csv           # reads one half, writes real_802154_choice.json
    python analysis/real_802154.py fit_jammer DATA.csv    # adds the duration of a burst
    python analysis/real_802154.py judge DATA.csv         # reads the choice and the other half, writes real_802154.csv
    python analysis/real_802154.py judge_jammer DATA.csv  # adds the cells with a jammer

DATA.csv is ``Testing_data`` for windows of 30 s of github merimak/802_15_4MACperf_datasets @ 5807b376 (CC BY 4.0): one
sink, N senders (Density) of frames of 100 bytes with a period of IPI / 128 s, and a jammer for COR % of the time.  Rows
with broken counters are dropped and counted.

The fitting half are the numbers of senders without a jammer at the places 0, 2, 4, … of their order, and the rows with
a jammer at 10 %.  On it are chosen: acknowledgements and the number of retries, the CCA, the phases of the senders, and
the duration of a burst.  The two parameters of the rival, PRR = min(a, c / offered), are fitted to the same half.

A cell is a pair of N and IPI.  Where received + lost is less than 0.85 of N x 30 s / period, some senders do not reach
their rate, so that its PRR is not judged.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize

import netfl

RESULTS = Path(__file__).parent / "results" / "measured"
WINDOW_S = 30.0
FRAME_BYTES, HEADER_BYTES = 100, 11
BUFFER = 8  # frames of a sender, as a stack of such nodes has
COVERED, OVERLOADED_HZ = 0.85, 200.0
FIT_WINDOW_S, JUDGE_WINDOW_S, OVERLOADED_WINDOW_S = 5.0, 10.0, 4.0  # one simulated window for each cell
MACS: tuple[dict[str, Any], ...] = (
    {"acknowledge": False},
    {"max_retries": 0},
    {"max_retries": 1},
    {"max_retries": 3},
    {"max_retries": 7},
    {"acknowledge": False, "cca": "aloha"},
    {"max_retries": 3, "cca": "aloha"},
)
BURSTS_S = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0)
JAMMED_WINDOW_S = 15.0  # of another seed for each number of senders, as it holds few bursts if they are long
JAMMED_STEP = 4  # every fourth number of senders is simulated for the choice of a burst


def read_rows(path: Path) -> tuple[pd.DataFrame, int]:
    """Return the rows of sound counters, and the number of those that were dropped."""
    rows = pd.read_csv(path)
    is_broken = (rows["packetLoss"] > 20_000) | (rows["throughput"] < 0)
    return rows[~is_broken], int(is_broken.sum())


def half_of_senders(rows: pd.DataFrame, first: int) -> list[int]:
    """Return every other number of senders without a jammer, from the place *first* on."""
    senders = sorted(rows.loc[rows["COR"] == 0, "Density"].unique().tolist())
    return senders[first::2]


def cells_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one line for each number of senders and period: offered and received frames, PRR and its spread."""
    counted = rows.assign(counted=rows["NumOfReceived"] + rows["packetLoss"])
    cells = (
        counted.groupby(["Density", "IPI"])
        .agg(
            windows=("PRR", "size"),
            prr=("PRR", "mean"),
            prr_sd=("PRR", "std"),
            received_hz=("NumOfReceived", "mean"),
            counted_hz=("counted", "mean"),
        )
        .reset_index()
    )
    cells[["received_hz", "counted_hz"]] /= WINDOW_S
    cells["offered_hz"] = cells["Density"] * 128.0 / cells["IPI"]
    cells["covered"] = cells["counted_hz"] / cells["offered_hz"]
    return cells


def simulate(
    senders: int,
    period_s: float,
    mac: Mapping[str, Any],
    *,
    synchronous: bool,
    jammer: Mapping[str, Any] | None = None,
    duration_s: float = WINDOW_S,
    seed: int = 1,
) -> tuple[float, float]:
    """Return the PRR and the frames that the sink receives in a second."""
    access: dict[str, Any] = {
        "kind": "network",
        "topology": {"kind": "star", "distance": "5 m"},
        "mac": {"kind": "csma_ca", "standard": "802.15.4", "header": f"{HEADER_BYTES} B", **mac},
        "traffic": {
            "kind": "constant",
            "every": period_s,
            "synchronous": synchronous,
            "buffer": BUFFER,
            "destination": "tower",
            "size": {"distribution": "fixed", "mean": f"{FRAME_BYTES - HEADER_BYTES} B"},
        },
    }
    if jammer is not None:
        access["jammer"] = dict(jammer)
    scenario = {"name": "real_802154", "users": senders, "seed": seed, "duration": duration_s, "access": access}
    with tempfile.TemporaryDirectory() as folder:
        summary = netfl.trace(scenario, Path(folder) / "run").summary
    received_hz = summary["delivered"] / duration_s
    return received_hz * period_s / senders, received_hz


def simulate_cells(
    cells: pd.DataFrame,
    mac: Mapping[str, Any],
    *,
    synchronous: bool,
    jammer: Mapping[str, Any] | None = None,
    duration_s: float = FIT_WINDOW_S,
) -> pd.DataFrame:
    """Return the cells with the PRR and the rate of a simulated window each."""
    outcomes = []
    for senders, ipi in cells[["Density", "IPI"]].itertuples(index=False):
        options = {"synchronous": synchronous, "jammer": jammer, "duration_s": duration_s}
        seed = 1 if jammer is None else int(senders)
        outcomes.append(simulate(int(senders), ipi / 128.0, mac, seed=seed, **options))
    prr, received_hz = np.transpose(outcomes)
    return cells.assign(sim_prr=prr, sim_received_hz=received_hz)


def mean_error(cells: pd.DataFrame, column: str) -> float:
    """Return the mean absolute error of a prediction of the PRR."""
    return float((cells[column] - cells["prr"]).abs().mean())


def fit_line(cells: pd.DataFrame) -> tuple[float, float]:
    """Return a and c of the rival min(a, c / offered), which minimise the mean absolute error."""

    def error(parameters: Sequence[float]) -> float:
        return mean_error(add_line(cells, *parameters), "line")

    starts = itertools.product((0.9, 0.95, 0.99), (80.0, 97.0, 120.0))
    best = min((minimize(error, start, method="Nelder-Mead") for start in starts), key=lambda found: found.fun)
    return float(best.x[0]), float(best.x[1])


def add_line(cells: pd.DataFrame, ceiling: float, capacity_hz: float) -> pd.DataFrame:
    """Return the cells with the PRR of the rival."""
    return cells.assign(line=np.minimum(ceiling, capacity_hz / cells["offered_hz"]))


def fit(path: Path) -> None:
    """Choose the settings on the fitting half, and write them."""
    rows, dropped = read_rows(path)
    free = rows[(rows["COR"] == 0) & rows["Density"].isin(half_of_senders(rows, 0))]
    cells = cells_of(free)
    judged = cells[cells["covered"] >= COVERED]
    print(f"{dropped} broken rows dropped; fitting half: N = {half_of_senders(rows, 0)}, {len(judged)} cells of 0.85")

    tried = []
    candidates = [(mac, False) for mac in MACS] + [(mac, True) for mac in MACS[:2]]
    for mac, synchronous in candidates:
        error = mean_error(simulate_cells(judged, mac, synchronous=synchronous), "sim_prr")
        tried.append({"mac": mac, "synchronous": synchronous, "mean_absolute_error": round(error, 4)})
        print(tried[-1], flush=True)
    best = min(tried, key=lambda each: each["mean_absolute_error"])
    ceiling, capacity_hz = fit_line(judged)
    line_error = mean_error(add_line(judged, ceiling, capacity_hz), "line")

    choice = {
        "mac": best["mac"],
        "synchronous": best["synchronous"],
        "line": {"a": round(ceiling, 4), "c_hz": round(capacity_hz, 2)},
        "fitting_half": {
            "senders": half_of_senders(rows, 0),
            "cells": len(judged),
            "simulated": best["mean_absolute_error"],
            "line": round(line_error, 4),
            "spread_of_repeats": round(float(judged["prr_sd"].mean()), 4),
        },
        "dropped_rows": dropped,
        "tried": tried,
    }
    write_choice(choice)
    print(f"line: min({ceiling:.3f}, {capacity_hz:.1f} / offered), error {line_error:.4f}")


def fit_jammer(path: Path) -> None:
    """Choose the duration of a burst on the rows with a jammer at 10 %, and add it to the choice."""
    choice = read_choice()
    rows, _ = read_rows(path)
    jammed = cells_of(rows[rows["COR"] == 10])
    some = jammed.iloc[::JAMMED_STEP]
    bursts = []
    for burst_s, distribution in itertools.product(BURSTS_S, ("exponential", "fixed")):
        jammer = {"duty_cycle": 0.1, "burst": burst_s, "distribution": distribution}
        options = {"synchronous": choice["synchronous"], "jammer": jammer, "duration_s": JAMMED_WINDOW_S}
        error = mean_error(simulate_cells(some, choice["mac"], **options), "sim_prr")
        bursts.append({"burst_s": burst_s, "distribution": distribution, "mean_absolute_error": round(error, 4)})
        print(bursts[-1], flush=True)
    best = min(bursts, key=lambda each: each["mean_absolute_error"])
    choice["jammer"] = {
        "burst_s": best["burst_s"],
        "distribution": best["distribution"],
        "mean_absolute_error": best["mean_absolute_error"],
        "measured_prr_at_10": round(float(jammed["prr"].mean()), 4),
        "senders": some["Density"].tolist(),
        "tried": bursts,
    }
    write_choice(choice)


def read_choice() -> dict[str, Any]:
    """Return what was chosen on the fitting half."""
    return dict(json.loads((RESULTS / "real_802154_choice.json").read_text()))


def write_choice(choice: Mapping[str, Any]) -> None:
    """Write what was chosen on the fitting half."""
    (RESULTS / "real_802154_choice.json").write_text(json.dumps(choice, indent=1) + "\n")


def judge(path: Path) -> None:
    """Evaluate the choice on the other half, and write one line for each cell."""
    choice = read_choice()
    rows, _ = read_rows(path)
    senders = half_of_senders(rows, 1)
    assert not set(senders) & set(choice["fitting_half"]["senders"])
    options = {"synchronous": choice["synchronous"], "duration_s": JUDGE_WINDOW_S}
    cells = cells_of(rows[(rows["COR"] == 0) & rows["Density"].isin(senders)])
    cells = add_line(cells, choice["line"]["a"], choice["line"]["c_hz"])
    is_covered = cells["covered"] >= COVERED
    covered = simulate_cells(cells[is_covered], choice["mac"], **options)
    others = simulate_cells(cells[~is_covered], choice["mac"], **options | {"duration_s": OVERLOADED_WINDOW_S})
    cells = pd.concat([covered, others]).sort_values(["Density", "IPI"])

    overloaded = cells[cells["offered_hz"] > OVERLOADED_HZ]
    print("(a) frames a second at the sink where more than 200 are offered: N, offered, measured, simulated")
    for cell in overloaded.itertuples():
        print(f"  {cell.Density:3d} {cell.offered_hz:7.0f} {cell.received_hz:6.1f} {cell.sim_received_hz:6.1f}")

    judged = cells[cells["covered"] >= COVERED]
    report("(b) PRR without a jammer", judged, "sim_prr", "line")

    cells.assign(COR=0, judged=cells["covered"] >= COVERED).round(4).to_csv(RESULTS / "real_802154.csv", index=False)


def judge_jammer(path: Path) -> None:
    """Evaluate the choice on the rows with a jammer at 20 %, and add them to the lines of the cells."""
    choice = read_choice()
    rows, _ = read_rows(path)
    chosen = choice["jammer"]
    jammer = {"duty_cycle": 0.2, "burst": chosen["burst_s"], "distribution": chosen["distribution"]}
    options = {"synchronous": choice["synchronous"], "jammer": jammer, "duration_s": JAMMED_WINDOW_S}
    jammed = simulate_cells(cells_of(rows[rows["COR"] == 20]), choice["mac"], **options)
    jammed = jammed.assign(line=1.0 - 2.0 * (1.0 - chosen["measured_prr_at_10"]))  # losses in proportion to the time
    report("(c) PRR with a jammer at 20 %", jammed, "sim_prr", "line")

    free = pd.read_csv(RESULTS / "real_802154.csv")
    both = pd.concat([free[free["COR"] == 0], jammed.assign(COR=20, judged=True)])
    both.round(4).to_csv(RESULTS / "real_802154.csv", index=False)


def report(title: str, cells: pd.DataFrame, simulated: str, rival: str) -> None:
    """Print the errors of the simulation and of the rival, the spread of repeats, and the verdict.

    The simulation is not worse if its mean error is not larger than that of the rival by more than two standard errors
    of the difference, cell by cell.
    """
    sim_errors = (cells[simulated] - cells["prr"]).abs()
    line_errors = (cells[rival] - cells["prr"]).abs()
    excess = sim_errors - line_errors
    error = float(excess.std(ddof=1) / np.sqrt(len(cells)))
    verdict = "differs" if excess.mean() > 2.0 * error else "not worse than the line"
    bias = float((cells[simulated] - cells["prr"]).mean())
    errors = f"simulated {sim_errors.mean():.4f}, line {line_errors.mean():.4f}"
    print(f"{title}: {len(cells)} cells, mean absolute error {errors}")
    print(f"  spread of repeats {cells['prr_sd'].mean():.4f}, bias of the simulation {bias:+.4f}; {verdict}")


STEPS = {"fit": fit, "fit_jammer": fit_jammer, "judge": judge, "judge_jammer": judge_jammer}


def main() -> None:
    """Run one of the steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=[*STEPS])
    parser.add_argument("data", type=Path, help="the measured windows")
    options = parser.parse_args()
    started_s = time.process_time()
    STEPS[options.step](options.data)
    print(f"{time.process_time() - started_s:.0f} s of processor time")


if __name__ == "__main__":
    main()
