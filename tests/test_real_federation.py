"""The analysis of the real federation: its scenario in netfl, and its fits on made-up numbers."""

import numpy as np
import pandas as pd
import pytest
import real_federation
from real_federation import CLIENTS, FIRST_FIT_S, Readings, predict_energy, predict_times, simulate

LINK_S = CLIENTS * 44.7e6 * 8 / 1e9
EVALUATION_S = 1000 / 3 / (5000 / 7.3)


def runs(constant_s=1.0, slope_s=7.3):
    """Return two runs of each of two strategies, which differ by 0.2 s, at each E."""
    rows = [
        (strategy, epochs, constant_s + own_s + slope_s * epochs + run_s)
        for strategy, own_s in (("a", 0.0), ("b", 0.5))
        for epochs in (1, 3, 5)
        for run_s in (-0.1, 0.1)
    ]
    return pd.DataFrame(rows, columns=["strategy", "local_epochs", "seconds_per_round"])


def test_round_has_three_crossings_of_the_server_link(tmp_path):
    """Two downloads and one upload of ten models, two epochs, an evaluation, and the warm-up in round 1 of four."""
    readings = simulate(2, 4, 7.3, tmp_path / "run")
    warm_up_s = (FIRST_FIT_S - 7.3) / 4
    assert readings.round_s == pytest.approx(3 * LINK_S + 2 * 7.3 + EVALUATION_S + warm_up_s, abs=0.02)
    assert readings.computing_s == pytest.approx(2 * 7.3 + EVALUATION_S + warm_up_s)


def test_constant_is_fitted_on_the_seen_cells_only():
    simulated = {epochs: Readings(7.3 * epochs, 7.3 * epochs) for epochs in (1, 3, 5)}
    table = predict_times(runs(), simulated).set_index("held_out")
    assert table["constant"].tolist() == pytest.approx([1.0, 1.5])
    assert table["netfl"].tolist() == pytest.approx([37.5, 38.0])
    assert table["line"].tolist() == pytest.approx([37.5, 38.0])
    assert table["other_strategies"].tolist() == pytest.approx([38.0, 37.5])
    scattered = runs()
    scattered.loc[scattered["local_epochs"] == 5, "seconds_per_round"] += 10.0
    shifted = predict_times(scattered, simulated).set_index("held_out")
    assert (shifted["netfl"] == table["netfl"]).all()
    assert shifted["half_width_95"].tolist() == pytest.approx([12.706 * 0.1] * 2, rel=1e-3)


def test_joules_are_fitted_with_powers_of_at_least_zero(monkeypatch):
    simulated = {epochs: Readings(20.0 + 7.0 * epochs, 7.0 * epochs) for epochs in (1, 3, 5)}
    joules = {epochs: 2.0 * (20.0 + 7.0 * epochs) + 5.0 * 7.0 * epochs for epochs in (1, 3, 5)}
    monkeypatch.setattr(real_federation, "ENERGY_J", joules)
    table = predict_energy(simulated)
    assert table["netfl"].iloc[1] == pytest.approx(joules[5])
    assert np.abs(table[["misfit_at_1", "misfit_at_3"]].iloc[1]).max() < 1e-9
