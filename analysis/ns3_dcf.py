"""netfl's DCF beside the analytic tables with which ns-3 tests its own: rows, plot and table of docs/validation.md.

`analysis/results/measured/ns3_bianchi.csv` holds the figures of `src/wifi/examples/reference/bianchi_11a_eifs.txt`,
`bianchi_11a_difs.txt` and those of 802.11b of ns-3 (https://gitlab.com/nsnam/ns-3-dev, revision 14064644; the scripts
that compute them are under BSD-3-Clause, University of Washington, 2020): the saturation throughput in Mb/s by
Bianchi's fixed point, if all stations wait EIFS after a collision, or DIFS.  ns-3 accepts itself within 1.5 % of the
nearer one.  802.11a and 802.11g share the tables.

    python analysis/ns3_dcf.py run --runs DIR    simulate what is missing, 100 s and 2 replicas a cell
    python analysis/ns3_dcf.py page              write the plot, and print the table
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from validation_pages import ROOT, support

import netfl

RESULTS = ROOT / "analysis/results/measured"
SOURCE, STORED = RESULTS / "ns3_bianchi.csv", RESULTS / "ns3_dcf.csv"
ACCEPTED = 0.015
"""Largest relative difference from the nearer table that ns-3 accepts of itself."""
DURATION_S = 100.0
REFERENCE_S = 400.0
_HEADER_BYTES, _PAYLOAD_BYTES, _ACK_BYTES = 36, 1500, 14


def keys_of(cell: Any) -> dict[str, Any]:
    """Return the keys of scenarios/validation/dcf.yaml for one cell, a row of the tables."""
    return {
        "users": cell.stations,
        "duration": DURATION_S,
        "replicas": 2,
        "access.mac.standard": cell.standard,
        "access.mac.rate": cell.rate_mbps * 1e6,
    }


def netfl_mbps(cell: Any, runs: Path) -> tuple[float, float]:
    """Return netfl's throughput in Mb/s with the half width of its 95 % interval; make the run if it is missing."""
    folder = runs / f"{cell.standard}-{cell.rate_mbps}-{cell.stations}"
    if not (folder / "summary.json").exists():
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was stopped
        netfl.trace(netfl.load(ROOT / "scenarios/validation/dcf.yaml", keys_of(cell)), folder)
    summary = json.loads((folder / "summary.json").read_text())
    return summary["throughput_bps"] / 1e6, summary["throughput_bps.ci95"] / 1e6


def reference_mbps(cell: Any) -> float:
    """Return the throughput in Mb/s of the slot-exact reference of the tests, which shares no code with netfl."""
    reference = support("dcf_reference")
    times = reference.SETUPS[cell.standard]
    data_us, ack_us = _airtimes_us(cell.standard, cell.rate_mbps)
    timed = replace(times, data=data_us, ack=ack_us)
    if cell.standard == "802.11b":  # bystanders wait EIFS, which has an ACK at the lowest rate
        assert timed.bystanders == timed.sifs + _airtimes_us("802.11b", 1.0)[1] + timed.difs
    found = reference.simulate(
        cell.standard, int(cell.stations), REFERENCE_S, 2026, edition=2016, setups={cell.standard: timed}
    )
    return float(found[0]) / 1e6


def _airtimes_us(standard: str, rate_mbps: float) -> tuple[int, int]:
    """Return how long a frame and its ACK last, in whole microseconds (IEEE 802.11-2020 §15, §16 and §17)."""
    bits = 8 * (_HEADER_BYTES + _PAYLOAD_BYTES)
    if standard == "802.11b":
        control = max(rate for rate in (1.0, 2.0, 5.5, 11.0) if rate <= rate_mbps)
        return 192 + ceil(bits / rate_mbps), 192 + ceil(8 * _ACK_BYTES / control)
    control = max(rate for rate in (6.0, 12.0, 24.0) if rate <= rate_mbps)
    data = 20 + 4 * ceil((22 + bits) / (4 * rate_mbps))
    return data, 20 + 4 * ceil((22 + 8 * _ACK_BYTES) / (4 * control))


def difference(row: Any) -> float:
    """Return netfl's relative difference from the nearer of both tables."""
    return min((row.netfl_mbps / bound - 1.0 for bound in (row.eifs_mbps, row.difs_mbps)), key=abs)


def run(runs: Path) -> None:
    """Simulate all cells, and those above the accepted difference with the reference, too; store the rows."""
    rows = []
    for cell in pd.read_csv(SOURCE).itertuples(index=False):
        throughput, half = netfl_mbps(cell, runs)
        row = pd.Series({**cell._asdict(), "netfl_mbps": round(throughput, 4), "ci95_mbps": round(half, 4)})
        row["reference_mbps"] = np.nan
        if abs(difference(row)) > ACCEPTED:
            row["reference_mbps"] = round(reference_mbps(cell), 4)
        rows.append(row)
    pd.DataFrame(rows).to_csv(STORED, index=False)


def compared() -> pd.DataFrame:
    """Return the stored rows with the names of their rates, and the differences from the tables and the reference."""
    rows = pd.read_csv(STORED)
    rows["name"] = [f"{standard}, {rate:g} Mb/s" for standard, rate in zip(rows.standard, rows.rate_mbps, strict=True)]
    rows["difference"] = [difference(row) for row in rows.itertuples()]
    rows["from_reference"] = rows.netfl_mbps / rows.reference_mbps - 1.0
    return rows


def table() -> list[str]:
    """Return the table of the page: for each rate its differences, and how many cells the reference had to decide."""
    lines = [
        "| standard, rate | difference from the nearer table | cells above 1.5 % | from the reference there |",
        "|---|---|---|---|",
    ]
    for name, cells in compared().groupby("name", sort=False):
        shown = f"{100 * cells.difference.min():+.1f} to {100 * cells.difference.max():+.1f} %"
        above = cells[cells.difference.abs() > ACCEPTED]
        stations = ", ".join(f"{count}" for count in above.stations)
        reference = ""
        if len(above):
            reference = f"{100 * above.from_reference.min():+.2f} to {100 * above.from_reference.max():+.2f} %"
        lines.append(f"| {name} | {shown} | {stations and f'n = {stations}'} | {reference} |")
    return lines


def page() -> None:
    """Draw docs/validation/ns3_dcf.png, and print the table."""
    rows = compared()
    names = [*dict.fromkeys(rows.name)]
    shown = 100.0 * rows["difference"].to_numpy().reshape(len(names), -1)
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    drawn = axes.imshow(shown, cmap="RdBu_r", vmin=-3, vmax=3, aspect="auto")
    axes.set_xticks(range(shown.shape[1]), rows.stations.unique())
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("saturated stations")
    for (line, column), value in np.ndenumerate(shown):
        axes.text(column, line, f"{value:+.1f}", ha="center", va="center", fontsize=7.5,
                  color="white" if abs(value) > 2 else "black")  # fmt: skip
    figure.colorbar(drawn, label="netfl against the nearer table (%)")
    figure.savefig(ROOT / "docs/validation/ns3_dcf.png", dpi=150)
    sys.stdout.write("\n".join(table()) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "page"))
    parser.add_argument("--runs", type=Path, default=Path("runs/ns3_dcf"))
    arguments = parser.parse_args()
    if arguments.action == "run":
        run(arguments.runs)
    else:
        page()
