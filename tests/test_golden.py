"""Tables of short runs have columns of known digests."""

import json

import golden
import numpy as np
import pandas as pd
import pytest

from netfl.results import digests
from netfl.results.run_reader import open_run

KNOWN = json.loads(golden.KNOWN.read_text())


@pytest.mark.parametrize("name", golden.NAMES)
def test_tables_have_known_digests(name, tmp_path):
    """After an intended change, update the digests with ``python tests/golden.py``."""
    folder = golden.run_named(name, tmp_path)
    assert not [*golden.changes({name: KNOWN[name]}, {name: golden.table_digests(folder)})]
    run = open_run(folder)
    tables_ = [
        run.rounds.drop(columns="energy_J"),
        run.deliveries,
        run.events.drop(columns="value"),
        run.users,
        run.nodes,
    ]
    assert not any(table.isna().any(axis=None) for table in tables_)
    assert (
        not run.events.value[run.events.kind.isin(("broadcast", "received", "trained", "queued", "sent"))].isna().any()
    )


def test_every_known_run_is_tested_and_has_tables():
    assert sorted(KNOWN) == sorted(golden.NAMES)
    for tables in KNOWN.values():
        assert {"rounds", "deliveries", "events", "users", "final_metrics"} <= tables.keys()
        assert tables["rounds"]["rows"] >= 6
    assert sum(tables["deliveries"]["rows"] == 0 for tables in KNOWN.values()) == 1  # the run with traffic only
    assert len({tables["rounds"]["closed_s"] for tables in KNOWN.values()}) >= len(KNOWN) - len(golden.DIRECT)


def test_a_new_column_is_one_change():
    before = {"x": {"rounds": {"rows": 6, "round": "a", "closed_s": "b"}}}
    now = {"x": {"rounds": {"rows": 6, "round": "a", "lane": "c", "closed_s": "b"}}}
    assert [*golden.changes(before, now)] == [("x: rounds: lane", "none", "c")]


def test_rounded_digest_ignores_only_last_bits(tmp_path):
    def digests_of(value):
        pd.DataFrame({"value": [value, -0.0, np.nan]}).to_parquet(tmp_path / "t.parquet")
        return digests.table_digest(tmp_path / "t.parquet", digests.DIGITS), digests.table_digest(
            tmp_path / "t.parquet"
        )

    exact, near, far = (digests_of(value) for value in (np.pi, np.nextafter(np.pi, 4), np.pi * (1 + 1e-8)))
    assert exact[0] == near[0] != far[0]
    assert exact[1] != near[1]
