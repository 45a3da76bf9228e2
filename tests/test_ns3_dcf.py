"""The DCF beside the tables of ns-3: docs/validation.md states the stored rows, and a row can be made again."""

from pathlib import Path

import ns3_dcf
import pandas as pd
import pytest

import netfl

ROOT = Path(__file__).parents[1]


def test_page_states_the_stored_rows():
    page = (ROOT / "docs/validation.md").read_text("utf-8")
    rows = ns3_dcf.compared()
    is_above = rows.difference.abs() > ns3_dcf.ACCEPTED
    assert "\n".join(ns3_dcf.table()) in page
    assert f"Of {len(rows)} cells, {(~is_above).sum()} are within 1.5 %" in page
    assert len(rows) == len(pd.read_csv(ns3_dcf.SOURCE))


def test_cells_that_differ_lie_between_both_tables_and_agree_with_the_reference():
    rows = ns3_dcf.compared()
    above = rows[rows.difference.abs() > ns3_dcf.ACCEPTED]
    assert (above.standard == "802.11b").all()
    assert above.netfl_mbps.between(above.eifs_mbps, above.difs_mbps).all()
    assert (above.from_reference.abs() < 0.003).all()


@pytest.mark.slow
@pytest.mark.parametrize(("standard", "rate_mbps", "stations"), [("802.11a", 6.0, 5), ("802.11b", 2.0, 20)])
def test_row_is_made_again(standard, rate_mbps, stations):
    """Over 10 s, the standard deviation of the throughput is about 0.5 %."""
    rows = ns3_dcf.compared().set_index(["standard", "rate_mbps", "stations"], drop=False)
    row = rows.loc[standard, rate_mbps, stations]
    keys = ns3_dcf.keys_of(row) | {"duration": 10.0, "replicas": 4}
    run = netfl.trace(netfl.load(ROOT / "scenarios/validation/dcf.yaml", keys), progress=False)
    assert run.summary["throughput_bps"] / 1e6 == pytest.approx(row.netfl_mbps, rel=0.01)
