"""Choices of step sizes that a former rule of tuning made, judged by the present one from stored rows alone.

The former rule took the best of a grid, and widened the grid while a learner had its best at an end.  The present one
asks in addition that a candidate is alive, that is better on all classes than the best constant answer, and that it
lies outside of the outer sixths of the range.  Candidates that were not chosen were not stored.  A choice stands if it
is alive and inside: the best of all candidates is then the best of those that are alive.  Ties cannot be judged.

`findings.py --judge` prints the choices that do not stand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from netfl.core.kinds import kind_of
from netfl.learning.tuning import grid_centres
from netfl.results.statistics import interval
from netfl.scenario.scenario import Scenario
from netfl.types import Floats

STANDS, EDGE, DEAD = "stands", "edge", "dead"
"""States of a choice: it stands, is in the outer sixth of its range, or is not shown to beat a constant answer."""
TEST_SETS: Mapping[str, tuple[int, float]] = {
    "digits": (360, 44 / 360),
    "fashion_mnist": (10_000, 0.1),
    "cifar10": (10_000, 0.1),
}
"""Test examples of each data set, and the share of the largest class: the accuracy of the best constant answer."""
_HALF = 3
"""Values of the first grid on each side of its centre, and those that a widening added there: half of seven."""
_WIDENINGS = 2
_OUTER = 1 / 6
"""Share of a range, at each of its ends, in which the best candidate makes the present rule widen it."""


def judge_choices(scenario: Scenario, rows: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Return the state of the choice of each point and learner of a sweep.

    Args:
        scenario: of the sweep.
        rows: the stored rows of the sweep, with columns point, learner, lr, metric and value.
    """
    tuning = scenario.tuning
    assert tuning is not None
    centres = grid_centres(scenario.learners, scenario.step_rule)
    rows = rows[rows["learner"].isin([*centres]) & (rows["metric"] == "accuracy")]
    states = {}
    for point, of_point in rows.groupby("point", sort=False):
        by_learner = dict(iter(of_point.groupby("learner", sort=False)))
        places = {
            learner: round(math.log(of_learner["lr"].iloc[0] / centres[learner], tuning.factor))
            for learner, of_learner in by_learner.items()
        }
        low, high = smallest_range(list(places.values()))
        for learner, of_learner in by_learner.items():
            state = STANDS
            if not is_alive(of_learner["value"].to_numpy(float), kind_of(type(scenario.data))):
                state = DEAD
            elif min(places[learner] - low, high - places[learner]) < _OUTER * (high - low):
                state = EDGE
            states[str(point), str(learner)] = state
    return states


def is_alive(accuracies: Floats, data: str) -> bool:
    """Return whether the interval of *accuracies* lies two standard errors above the best constant answer.

    Args:
        accuracies: on all classes, ``[replicas]``.
        data: kind of the data.
    """
    examples, share = TEST_SETS[data]
    found = interval(accuracies)
    return found.mean - found.half > share + 2 * math.sqrt(share * (1 - share) / examples)


def smallest_range(places: Sequence[int]) -> tuple[int, int]:
    """Return the ends of the smallest grid in which *places* can be the best of all learners.

    Each widening added three values at an end at which a learner had its best, and there were two at most.

    >>> smallest_range([-1, 2]), smallest_range([-1, 3]), smallest_range([-7, 0])
    ((-3, 3), (-3, 6), (-9, 3))
    """
    reaches = []
    for farthest in (-min(places), max(places)):
        widenings = min(_WIDENINGS, max(0, farthest // _HALF))
        reaches.append(_HALF * (1 + widenings))
    return -reaches[0], reaches[1]
