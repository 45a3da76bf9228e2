"""The script that compares measurements of IEEE 802.15.4 reads them as it says."""

import numpy as np
import pandas as pd
import pytest
import real_802154


@pytest.fixture
def measured(tmp_path):
    """Return a file of two windows for each of four numbers of senders, and a broken row."""
    rows = [
        {"NumOfReceived": received, "PRR": received / 240, "packetLoss": 240 - received, "throughput": 1.0, "IPI": 64,
         "Density": senders, "COR": 0}
        for senders in (4, 2, 8, 6) for received in (200, 220)
    ]  # fmt: skip
    rows += [rows[0] | {"packetLoss": 30_000}, rows[0] | {"throughput": -1.0}, rows[0] | {"COR": 10}]
    path = tmp_path / "measured.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def test_rows_of_broken_counters_are_dropped(measured):
    rows, dropped = real_802154.read_rows(measured)
    assert (len(rows), dropped) == (9, 2)


def test_halves_have_every_other_number_of_senders(measured):
    rows, _ = real_802154.read_rows(measured)
    assert real_802154.half_of_senders(rows, 0) == [2, 6]
    assert real_802154.half_of_senders(rows, 1) == [4, 8]


def test_cells_have_means_and_their_cover(measured):
    rows, _ = real_802154.read_rows(measured)
    cells = real_802154.cells_of(rows[rows["COR"] == 0]).set_index("Density")
    assert cells.loc[4, "offered_hz"] == 8.0
    assert cells.loc[4, "covered"] == 1.0
    assert cells["received_hz"].tolist() == [7.0] * 4
    assert cells.loc[8, "covered"] == 0.5


def test_line_is_fitted():
    offered_hz = np.array([10.0, 50.0, 150.0, 300.0, 600.0])
    cells = pd.DataFrame({"offered_hz": offered_hz, "prr": np.minimum(0.9, 90.0 / offered_hz)})
    ceiling, capacity_hz = real_802154.fit_line(cells)
    assert ceiling == pytest.approx(0.9, abs=1e-3)
    assert capacity_hz == pytest.approx(90.0, rel=1e-2)


def test_lone_sender_delivers_all():
    prr, received_hz = real_802154.simulate(1, 0.25, {}, synchronous=False, duration_s=4.0)
    assert prr == 1.0
    assert received_hz == 4.0
