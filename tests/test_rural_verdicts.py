"""Verdicts on the flagship's hypotheses: by the paired interval of the replicas, as the gallery states them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import rural_verdicts
from rural_verdicts import BLOCKS, LEARNERS, PARTS, Part
from scipy import stats

GALLERY = Path(__file__).parents[1] / "docs" / "gallery.md"


def make_rows(differences, block="conflict"):
    """Return rows where MIFA is *differences* above FedAvg, by replica, while both swing by far more."""
    swing = 30.0 * np.sin(np.arange(len(differences)))
    values = {"FedAvg": 50.0 + swing, "MIFA": 50.0 + swing + differences}
    return pd.DataFrame(
        [
            (block, learner, replica, value)
            for learner, column in values.items()
            for replica, value in enumerate(column)
        ],
        columns=["block", "learner", "replica", "accuracy"],
    )


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([1.0, 2.0, 3.0], "open"),
        ([1.0, 1.2, 1.1], "shown"),
        ([-1.0, -1.2, -1.1], "refuted"),
        ([-2.0, 0.0, 2.0], "open"),
    ],
)
def test_a_verdict_follows_the_paired_interval(differences, verdict):
    rows = make_rows(np.array(differences))
    part = Part("conflict", "MIFA", "FedAvg")
    found = part.difference(rows)
    assert found.mean == pytest.approx(np.mean(differences))
    assert found.half == pytest.approx(stats.t.ppf(0.975, 2) * np.std(differences, ddof=1) / 3**0.5)
    assert part.verdict(rows) == verdict


def test_each_hypothesis_names_all_rivals():
    assert len(PARTS) == len(BLOCKS) * (len(LEARNERS) - 1)
    assert {(part.block, part.best) for part in PARTS} == set(rural_verdicts.BEST_ON.items())


def test_the_gallery_states_the_stored_rows():
    rows = pd.read_csv(rural_verdicts.ROWS)
    text = GALLERY.read_text("utf-8")
    for line in (*rural_verdicts.table_lines(rows), *rural_verdicts.verdict_lines(rows)):
        assert line in text
    assert rows.groupby(["block", "learner"])["replica"].nunique().eq(rows["replica"].nunique()).all()
