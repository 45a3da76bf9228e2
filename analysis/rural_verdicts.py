"""Store the final accuracies of the flagship's replicas, and print what they say of its hypotheses.

    netfl run rural_outage --set replicas=10 --out runs/rural10
    python analysis/rural_verdicts.py --store runs/rural10     # keep the final accuracy of each block
    python analysis/rural_verdicts.py                          # accuracies, differences and verdicts of the stored rows

Hypotheses and the rule of a verdict are those of decision 114 (docs/decisions/papers-and-theories.md), which was
committed before a learner ran on this scenario: a part is shown if the 95 % interval of the paired difference is above
zero, refuted if below, and else open.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pandas as pd

import netfl
from netfl.results import aggregates
from netfl.results.atomic_write import atomic_write
from netfl.results.run_reader import Run
from netfl.results.statistics import ConfidenceInterval, interval

ROWS = Path(__file__).parent / "results" / "rural_outage.csv"
LEARNERS = ("FedAvg", "FED-CVaR-AVG", "FedAU", "MIFA")
BLOCKS = ("conflict", "absence", "others")
BEST_ON = {"conflict": "FED-CVaR-AVG", "absence": "MIFA", "others": "FedAvg"}
"""The learner that is best on each block, by hypothesis."""


class Part(NamedTuple):
    """A part of a hypothesis: *best* is above *rival* on *block*."""

    block: str
    best: str
    rival: str

    def difference(self, rows: pd.DataFrame) -> ConfidenceInterval:
        """Return the mean difference over replicas, in percentage points, with its 95 % interval."""
        values = accuracies(rows, self.block)
        return interval(values[self.best] - values[self.rival])

    def verdict(self, rows: pd.DataFrame) -> str:
        """Return ``shown``, ``refuted`` or ``open``."""
        found = self.difference(rows)
        if found.mean - found.half > 0.0:
            return "shown"
        if found.mean + found.half < 0.0:
            return "refuted"
        return "open"


PARTS = [Part(block, best, rival) for block, best in BEST_ON.items() for rival in LEARNERS if rival != best]


def accuracies(rows: pd.DataFrame, block: str) -> pd.DataFrame:
    """Return the final accuracies on a block, in %, with a row for each replica and a column for each learner."""
    return rows[rows["block"] == block].pivot(index="replica", columns="learner", values="accuracy")


def final_rows(run: Run) -> pd.DataFrame:
    """Return the rows of a run: learner, replica, block and final accuracy in %."""
    parts = []
    for block in BLOCKS:
        values = aggregates.final(run.metrics, "accuracy", f"block:{block}", rounds=run.rounds)
        parts.append(values.rename("accuracy").reset_index().assign(block=block))
    rows = pd.concat(parts)[["block", "learner", "replica", "accuracy"]]
    rows["accuracy"] = (100.0 * rows["accuracy"]).round(3)
    return rows


def table_lines(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the mean accuracy of each learner on each block with its interval, as a table of Markdown."""
    yield f"| accuracy in % | {' | '.join(BLOCKS)} |"
    yield "|---" * (len(BLOCKS) + 1) + "|"
    for learner in LEARNERS:
        yield f"| {learner} | {' | '.join(_text(interval(accuracies(rows, block)[learner])) for block in BLOCKS)} |"


def verdict_lines(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the difference and the verdict of each part, as a table of Markdown."""
    yield "| block | hypothesis | difference in points | verdict |"
    yield "|---|---|---|---|"
    for part in PARTS:
        found = part.difference(rows)
        claim = f"{part.best} above {part.rival}"
        yield f"| {part.block} | {claim} | {found.mean:+.1f} ± {found.half:.1f} | {part.verdict(rows)} |"


def _text(found: ConfidenceInterval) -> str:
    return f"{found.mean:.1f} ± {found.half:.1f}"


def main() -> None:
    """Store the rows of a run, or print what the stored rows say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, metavar="RUN", help="the run directory whose rows are kept")
    options = parser.parse_args()
    if options.store is not None:
        run = netfl.open_run(options.store)
        with atomic_write(ROWS) as part:
            final_rows(run).to_csv(part, index=False)
        print(run.comparison)
    rows = pd.read_csv(ROWS)
    print(f"{rows['replica'].nunique()} replicas")
    print("\n".join(chain(table_lines(rows), [""], verdict_lines(rows))))


if __name__ == "__main__":
    main()
