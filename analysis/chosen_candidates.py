"""Candidates that the tuning of a run has chosen, read from its table ``candidates``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

INSIDE, AT_EDGE, NONE_LEARNS = "inside", "edge", "dead"
"""States of a choice: inside the values that were tried, in their outer sixth, or none, as no candidate learns."""


@dataclass(frozen=True)
class Choice:
    """The choice of one learner in one replica.

    Args:
        values: of the chosen candidate by key; empty without one.
        criterion: on validation examples; ``None`` without a chosen candidate.
        state: ``inside``, ``edge`` or ``dead``.
    """

    values: dict[str, float]
    criterion: float | None
    state: str

    def __str__(self) -> str:
        return ", ".join(f"{key}={value:.3g}" for key, value in self.values.items())


def read_choices(candidates: pd.DataFrame, learner: str) -> dict[int, Choice]:
    """Return the choice of a learner in each replica that was tuned by itself; where all have one, that of replica 0.

    A choice is at an edge if ``lr`` or a further key lies in the outer sixth of the logarithms of the values tried.
    """
    choices = {}
    for replica, rows in candidates[candidates["learner"] == learner].groupby("replica"):
        chosen = rows[rows["chosen"] == 1]
        if chosen.empty:
            choices[int(replica)] = Choice({}, None, NONE_LEARNS)
            continue
        values = _numbers_of(chosen.iloc[0])
        tried = [_numbers_of(row) for _, row in rows.iterrows()]
        is_outer = any(_is_outer([each[key] for each in tried], value) for key, value in values.items())
        criterion = round(float(chosen["value"].iloc[0]), 5)
        choices[int(replica)] = Choice(values, criterion, AT_EDGE if is_outer else INSIDE)
    return choices


def _numbers_of(candidate: pd.Series[Any]) -> dict[str, float]:
    """Return the values of a row of candidates by key, from ``lr`` and from ``settings`` such as ``a=1, b=2``."""
    pairs = [part.split("=") for part in str(candidate["settings"] or "").split(", ") if part]
    return {"lr": float(candidate["lr"])} | {key: float(value) for key, value in pairs}


def _is_outer(tried: Sequence[float], value: float) -> bool:
    """Return whether *value* lies in an outer sixth of the range of the logarithms of the values *tried*.

    >>> [_is_outer([1, 2, 4, 8, 16, 32, 64], value) for value in (1, 2, 32, 64)]
    [True, False, False, True]
    """
    low = np.log(min(tried))
    high = np.log(max(tried))
    outer = (high - low) / 6 * (1 - 1e-9)  # the border of the sixth is inside
    return bool(np.log(value) < low + outer or np.log(value) > high - outer)
