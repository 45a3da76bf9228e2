"""The floor of a spectrum, and what stands on it."""

import numpy as np
import pytest

from netfl.diagnosis import diagnose
from netfl.diagnosis.periodicity import fit_floors


@pytest.mark.parametrize(("level", "bend", "width"), [(1.0, 0.0, 50.0), (0.5, 3.0, 30.0), (0.2, 8.0, 100.0)])
def test_the_curve_is_found_under_chance_and_lines(level, bend, width):
    rng = np.random.default_rng(1)
    true = level + bend / (1 + (np.arange(2000) / width) ** 2)
    spectrum = true * rng.chisquare(40, 2000) / 40
    spectrum[::40] *= 50
    spectrum[:6] *= 10
    found = fit_floors(spectrum, 12, 40)
    assert found[0][[0, 20, 100, 1500]] == pytest.approx(true[[0, 20, 100, 1500]], rel=0.2)
    assert (found.max(axis=0) >= 0.95 * true).all()


def test_without_memory_it_is_level():
    spectrum = np.random.default_rng(2).chisquare(40, 2000) / 40
    (level,) = fit_floors(spectrum, 12, 40, bent=False)
    assert np.ptp(level) == pytest.approx(0)
    assert level[0] == pytest.approx(1, rel=0.03)


def test_a_short_spectrum_is_taken_at_its_median():
    (level,) = fit_floors(np.arange(1.0, 9.0), 2, 4)
    assert level.tolist() == [5.5] * 8


@pytest.mark.parametrize("kind", ["Markovian", "non-stationary"])
@pytest.mark.slow
def test_long_memory_behind_a_lottery_is_told_from_drift(kind):
    """One of those who are there is drawn: a hidden chain that remembers for fifty rounds, or chances that move."""
    verdicts = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        there = rng.random(8) < 0.5
        heard = np.zeros((3000, 8), bool)
        for row, at in zip(heard, np.linspace(0, 1, 3000), strict=True):
            if kind == "Markovian":
                there ^= rng.random(8) < 0.01
            else:
                there = rng.random(8) < np.linspace(0.2, 0.8, 8) * (1 - at) + np.linspace(0.8, 0.2, 8) * at
            if there.any():
                row[rng.choice(np.flatnonzero(there))] = True
        verdicts.append(diagnose(heard, seed=seed).verdict)
    assert verdicts.count(kind) >= 11
