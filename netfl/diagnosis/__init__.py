"""Classification of a selection process from its deliveries, whatever produced them.

>>> import numpy as np
>>> from netfl.diagnosis import diagnose
>>> delivered = np.random.default_rng(1).random((500, 4)) < [0.5, 0.3, 0.2, 0.1]
>>> diagnose(delivered).verdict
'stationary'
"""

from __future__ import annotations

from netfl.diagnosis.cvar_lift import CvarLift, GroupLift, cvar_lift, cvar_lifts
from netfl.diagnosis.diagnose import diagnose
from netfl.diagnosis.multiple_testing import HypothesisTest, Kind
from netfl.diagnosis.participation import Participation, from_matrix, from_table, participation_from_sequence
from netfl.diagnosis.result import Diagnosis, ExpectedProcess
from netfl.diagnosis.slow_cycle import SlowCycle

__all__ = [
    "CvarLift",
    "Diagnosis",
    "ExpectedProcess",
    "GroupLift",
    "HypothesisTest",
    "Kind",
    "Participation",
    "SlowCycle",
    "cvar_lift",
    "cvar_lifts",
    "diagnose",
    "from_matrix",
    "from_table",
    "participation_from_sequence",
]
