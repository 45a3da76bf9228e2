"""Failures with a daily rhythm: settings that are refused."""

import pytest

from netfl.errors import ScenarioError
from netfl.network.outage.diurnal_rate import DiurnalRate


def test_weights_that_are_all_zero_are_refused():
    with pytest.raises(ScenarioError, match="all weights are 0"):
        DiurnalRate(mean_time_to_failure=1.0, weights=[0.0, 0.0], repair={"distribution": "exponential", "mean": 1.0})
