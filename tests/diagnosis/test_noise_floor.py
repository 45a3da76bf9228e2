"""The noise floor of a spectrum."""

import numpy as np
import pytest

from netfl.diagnosis import diagnose
from netfl.diagnosis.periodicity import fit_floors


@pytest.mark.parametrize(("level", "bend", "width"), [(1.0, 0.0, 50.0), (0.5, 3.0, 30.0), (0.2, 8.0, 100.0)])
def test_floor_is_estimated_with_noise_and_lines(level, bend, width):
    rng = np.random.default_rng(1)
    true = level + bend / (1 + (np.arange(2000) / width) ** 2)
    spectrum = true * rng.chisquare(40, 2000) / 40
    spectrum[::40] *= 50
    spectrum[:6] *= 10
    floors = fit_floors(spectrum, 12, 40)
    assert floors[0][[0, 20, 100, 1500]] == pytest.approx(true[[0, 20, 100, 1500]], rel=0.2)
    assert (floors.max(axis=0) >= 0.95 * true).all()


def test_floor_without_memory_is_constant():
    spectrum = np.random.default_rng(2).chisquare(40, 2000) / 40
    (level,) = fit_floors(spectrum, 12, 40, bent=False)
    assert np.ptp(level) == pytest.approx(0)
    assert level[0] == pytest.approx(1, rel=0.03)


def test_floor_of_a_short_spectrum_is_its_median():
    (level,) = fit_floors(np.arange(1.0, 9.0), 2, 4)
    assert level.tolist() == [5.5] * 8


@pytest.mark.parametrize("kind", ["Markovian", "non-stationary"])
@pytest.mark.slow
def test_long_memory_is_distinguished_from_drift(kind):
    """One available user is drawn per round; availability is a chain with memory of fifty rounds, or drifts."""
    verdicts = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        available = rng.random(8) < 0.5
        delivered = np.zeros((3000, 8), bool)
        for row, at in zip(delivered, np.linspace(0, 1, 3000), strict=True):
            if kind == "Markovian":
                available ^= rng.random(8) < 0.01
            else:
                available = rng.random(8) < np.linspace(0.2, 0.8, 8) * (1 - at) + np.linspace(0.8, 0.2, 8) * at
            if available.any():
                row[rng.choice(np.flatnonzero(available))] = True
        verdicts.append(diagnose(delivered, seed=seed).verdict)
    assert verdicts.count(kind) >= 11
