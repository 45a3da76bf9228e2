"""Why users starve: the causes of missing deliveries in a network.

`explain` takes a run; `netfl.diagnosis.explanation.explain` says how it works.
"""

from __future__ import annotations

from netfl.diagnosis.explanation.explain import explain
from netfl.diagnosis.explanation.gains import Gain
from netfl.diagnosis.explanation.rarity import Rarity, Standing
from netfl.diagnosis.explanation.result import Explanation
from netfl.diagnosis.explanation.user import LeastTime, UserExplanation

__all__ = ["Explanation", "Gain", "LeastTime", "Rarity", "Standing", "UserExplanation", "explain"]
