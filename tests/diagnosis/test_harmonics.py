"""Harmonic regression of slow cycles."""

import numpy as np
import pytest

from netfl.diagnosis.harmonics import fit_cycles, subtract_cycle


@pytest.mark.parametrize("cycles", [2.4, 3.2, 6.4, 9.7])
@pytest.mark.parametrize("shape", ["sine", "pulse"])
def test_number_of_cycles_is_found_between_the_frequencies_of_fourier(cycles, shape):
    rng = np.random.default_rng(1)
    time = np.arange(1500) / 1500
    turns = cycles * time[:, None] + rng.random(4)
    x = np.cos(2 * np.pi * turns) if shape == "sine" else (turns % 1 < 0.3).astype(float)
    found = fit_cycles(5.0 + x + rng.normal(size=x.shape), time, 1.5, 12.0, 24.0)
    assert found == pytest.approx(cycles, rel=0.03)


def test_uneven_times_are_used():
    rng = np.random.default_rng(2)
    time = np.sort(rng.random(1500)) ** 2
    x = np.cos(2 * np.pi * 4.5 * time)[:, None] + 0.5 * rng.normal(size=(1500, 1))
    assert fit_cycles(x, time, 1.5, 12.0, 24.0) == pytest.approx(4.5, abs=0.1)


def test_cycle_outside_the_limits_is_not_found():
    time = np.arange(1000) / 1000
    assert fit_cycles(np.cos(2 * np.pi * time)[:, None], time, 1.2, 1.8, 1.8) is None


def test_cycle_is_subtracted_up_to_the_limit_of_its_harmonics():
    time = np.arange(1000) / 1000
    low, high = (np.cos(2 * np.pi * frequency * time)[:, None] for frequency in (3.3, 9.9))
    assert subtract_cycle(1.0 + low + high, time, 3.3, 24.0) == pytest.approx(np.zeros((1000, 1)), abs=1e-9)
    assert np.abs(subtract_cycle(low + high, time, 3.3, 5.0) - high).max() < 0.1
