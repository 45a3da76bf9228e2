"""Run lengths compared with the geometric distribution."""

import numpy as np
import pytest
from scipy import stats

from netfl.diagnosis.memory import combine_p_values, geometric_p, run_lengths


def test_run_lengths_match_hand_calculation():
    delivered = np.array([1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 0], bool)[:, None]
    result = run_lengths(delivered, np.random.default_rng(1))
    assert result.on[0] == 2.0  # 3 and 1; the first run may have started earlier
    assert result.off[0] == 2.0  # 1 and 3
    assert np.isnan(result.on_p[0])
    assert result.p is None


@pytest.mark.parametrize("number", [30, 400])
def test_p_value_of_geometric_lengths_is_calibrated(number):
    p = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        p.append(geometric_p(rng.geometric(0.15, number), rng))
    p = np.array(p)
    for bound in (0.05, 0.2, 0.5):
        assert (p <= bound).mean() == pytest.approx(bound, abs=3.5 * (bound * (1 - bound) / 300) ** 0.5 + 0.02)


@pytest.mark.parametrize("number", [60, 400])
def test_other_distributions_are_rejected(number):
    rng = np.random.default_rng(1)
    assert geometric_p(np.full(number, 10), rng) < 0.01
    assert geometric_p(np.ceil(rng.pareto(0.8, number) + 1e-9).astype(int), rng) < 0.01
    assert geometric_p(5 + rng.geometric(0.2, number), rng) < 0.01


def test_p_values_are_combined_by_cauchys_method():
    assert combine_p_values(np.array([0.3])) == pytest.approx(0.3)
    assert combine_p_values(np.array([0.01, np.nan, 0.01])) == pytest.approx(0.01)
    assert combine_p_values(np.array([np.nan])) is None
    mean = np.tan((0.5 - np.array([0.02, 0.7])) * np.pi).mean()
    assert combine_p_values(np.array([0.02, 0.7])) == pytest.approx(stats.cauchy.sf(mean))
