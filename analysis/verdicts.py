"""The margins of all published values, by the rule of `agreement`.

    python analysis/verdicts.py --margins   write the margin of every published value, tested or not

A margin depends on published values only, so that the file of margins can be written before any run.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path

import paper
from agreement import margin
from reproduction import ROOT, Experiment, Row

MARGINS = ROOT / "docs/reproduction/margins.csv"
"""The margin of every published value."""
FORMER = ROOT / "analysis/results/former_verdicts.csv"
"""The verdict of the former rule on every claim that was tested when the rule was changed.

The former rule called a value "yes" if it lay in the prediction interval of our replicas, to which it added the
published spread and half a unit of the last digit, and "open" if the prediction interval was wider than the effect.
"""
_HEAD = ("experiment", "value", "published", "spread", "runs", "basis", "effect", "margin")


def margins() -> str:
    """Return the margin of every published value that is a claim, as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_HEAD)
    for experiment, row in _published_rows():
        published = row.published
        if published is None:
            continue
        effect = experiment.effect(row)
        value = published.text or f"{published.value:.{row.digits}f}"
        shown = "" if math.isnan(effect) else f"{effect:.{row.digits}f}"
        limit = f"{margin(published, effect):.{row.digits + 2}f}"
        spread = f"{published.spread:.{row.digits}f}"
        writer.writerow((experiment.name, row.label, value, spread, published.mean_of, published.basis, shown, limit))
    return text.getvalue()


def write_margins(path: Path = MARGINS) -> None:
    """Write the margins to a file."""
    path.write_text(margins(), encoding="utf-8")


def _published_rows() -> Iterator[tuple[Experiment, Row]]:
    """Yield the rows with a published value that is a claim, with their experiments."""
    for experiment in paper.EXPERIMENTS.values():
        for row in experiment.rows:
            if experiment.is_claim(row):
                yield experiment, row


def main() -> None:
    """Write the margins."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--margins", action="store_true", help="write the margins of all published values")
    options = parser.parse_args()
    if options.margins:
        write_margins()
        print(MARGINS)


if __name__ == "__main__":
    main()
