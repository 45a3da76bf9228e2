"""Deadline and quorum of rounds that minimise the time to a target, from logged or simulated times of updates.

>>> import numpy as np
>>> from netfl.diagnosis.timeout import Arrivals, advise
>>> times_s = 5.0 + np.random.default_rng(1).exponential(10.0, (200, 20))  # 200 rounds of 20 users
>>> advise(Arrivals.of_table(times_s)).best.rule
TimeoutRule(deadline_s=11.5, quorum=0.4)
"""

from __future__ import annotations

from netfl.diagnosis.timeout.advice import Advice, Expectation, TimeoutOptions, TimeoutRule, advise, progress
from netfl.diagnosis.timeout.arrivals import Arrivals
from netfl.diagnosis.timeout.logs import read_log, read_run
from netfl.diagnosis.timeout.trials import ScenarioAdvice, Trial, advise_scenario

__all__ = [
    "Advice",
    "Arrivals",
    "Expectation",
    "ScenarioAdvice",
    "TimeoutOptions",
    "TimeoutRule",
    "Trial",
    "advise",
    "advise_scenario",
    "progress",
    "read_log",
    "read_run",
]
