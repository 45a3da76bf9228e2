"""What short runs are known to give: the same after every change that does not mean to change it."""

import json

import golden
import numpy as np
import pandas as pd
import pytest

from netfl.results import digests
from netfl.results.run_reader import open_run

KNOWN = json.loads(golden.KNOWN.read_text())


@pytest.mark.parametrize("name", golden.NAMES)
def test_runs_give_what_they_gave(name, tmp_path):
    """Where that is meant to be otherwise: ``python tests/golden.py`` renews it, and says what is new."""
    folder = golden.played(name, tmp_path)
    assert golden.digested(folder) == KNOWN[name]
    run = open_run(folder)
    told = [run.rounds.drop(columns="energy_J"), run.deliveries, run.events.drop(columns="value"), run.users, run.nodes]
    assert not any(table.isna().any(axis=None) for table in told)
    assert (
        not run.events.value[run.events.kind.isin(("broadcast", "received", "trained", "queued", "sent"))].isna().any()
    )


def test_all_that_is_known_is_tried_and_says_something():
    assert sorted(KNOWN) == sorted(golden.NAMES)
    for tables in KNOWN.values():
        assert {"rounds", "deliveries", "events", "users", "final_metrics"} <= tables.keys()
        assert tables["rounds"][0] >= 6
    assert sum(tables["deliveries"][0] == 0 for tables in KNOWN.values()) == 1  # of traffic alone
    assert len({tables["rounds"][1] for tables in KNOWN.values()}) >= len(KNOWN) - len(golden.DIRECT)


def test_a_digest_to_digits_forgives_the_last_bit_and_no_more(tmp_path):
    def named(value):
        pd.DataFrame({"value": [value, -0.0, np.nan]}).to_parquet(tmp_path / "t.parquet")
        return digests.table_digest(tmp_path / "t.parquet", digests.DIGITS), digests.table_digest(
            tmp_path / "t.parquet"
        )

    one, near, far = (named(value) for value in (np.pi, np.nextafter(np.pi, 4), np.pi * (1 + 1e-8)))
    assert one[0] == near[0] != far[0]
    assert one[1] != near[1]
