"""The pre-registered analysis of the table of rules: orders of two rules that the access reverses.

Written before any row was stored.

**Reversals.** Of two rules a and b and two cells, the order is reversed if a is better in the first cell and b in the
second.  The replicas are halved: those with even numbers find, those with odd numbers test.

1. On the finding half, each pair of rules proposes at most one pair of cells: the cell in which a is ahead by the
   largest t, and the cell in which b is.  It is proposed if both differences exceed the one-sided 5 % point of t.
2. On the testing half, a proposed reversal has the p-value of the weaker of its two orders, by one-sided paired t
   tests: both must hold (intersection-union test).
3. Holm's method over all proposed pairs keeps the probability of any false reversal below 5 %.

The halves are independent, as replicas have data, deliveries and tuning of their own.  Costs are not tested.

**Hypotheses**, for the accuracy of the rare classes, each by a paired 95 % interval over all ten replicas:

1. Under independent rounds (``digits.bernoulli``) FedAU is more than a point above MIFA.  Both weigh all users alike in
   the mean; MIFA adds the noise of old gradients, and pays for it without a memory to gain.
2. Under long absences (``digits.markov_sticky``) MIFA is more than a point above FedAU: between two visits only a
   memory keeps the rare classes.
3. Under a cycle (``digits.cyclic``) MIFA is more than a point above FedAU, for the same reason.
4. So the access reverses the order of FedAU and MIFA: it is among the reversals that the analysis confirms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats

from netfl.results.statistics import interval
from netfl.types import Floats

LEVEL = 0.05
"""Probability of any false reversal; also that of each order on the finding half."""
MARGIN = 0.01
"""Smallest difference of accuracy that counts in a hypothesis: a point."""
Values = Mapping[str, Mapping[str, Floats]]
"""Values by cell and rule, ``[replicas]`` each; the replicas of a cell are paired."""


@dataclass(frozen=True)
class Reversal:
    """An order of two rules that is another one in another cell.

    Args:
        better: the rule that is ahead in the first cell.
        other: the rule that is ahead in the second.
        first: the first cell.
        second: the second cell.
        differences: *better* minus *other* on the testing half, in the first and in the second cell.
        p: p-value of the testing half.
        is_confirmed: whether Holm's method rejects at `LEVEL` over all proposed pairs.
    """

    better: str
    other: str
    first: str
    second: str
    differences: tuple[float, float]
    p: float
    is_confirmed: bool = False


@dataclass(frozen=True)
class TableHypothesis:
    """An order of two rules in a cell, which was written before the runs.

    Args:
        text: the statement in words.
        cell: the cell.
        better: the rule that is expected to be ahead.
        other: the other rule.
    """

    text: str
    cell: str
    better: str
    other: str

    def verdict(self, values: Values) -> str:
        """Return ``yes``, ``no`` if the difference is below the margin, ``open``, or ``not run``."""
        rules = values.get(self.cell, {})
        if self.better not in rules or self.other not in rules:
            return "not run"
        found = interval(rules[self.better] - rules[self.other])
        if found.mean - found.half > MARGIN:
            return "yes"
        return "no" if found.mean + found.half < MARGIN else "open"


HYPOTHESES = (
    TableHypothesis("FedAU is more than a point above MIFA: independent rounds", "digits.bernoulli", "FedAU", "MIFA"),
    TableHypothesis("MIFA is more than a point above FedAU: long absences", "digits.markov_sticky", "MIFA", "FedAU"),
    TableHypothesis("MIFA is more than a point above FedAU: a cycle", "digits.cyclic", "MIFA", "FedAU"),
)
METRIC = "rare_accuracy"
"""The metric of the hypotheses."""


def find_reversals(values: Values) -> list[Reversal]:
    """Return the proposed reversals with their tests, those with the smallest p-values first."""
    proposed = [_test(values, *each) for each in _propose(values)]
    proposed.sort(key=lambda each: each.p)
    confirmed = holm([each.p for each in proposed])
    return [
        Reversal(each.better, each.other, each.first, each.second, each.differences, each.p, is_confirmed)
        for each, is_confirmed in zip(proposed, confirmed, strict=True)
    ]


def _propose(values: Values) -> Iterator[tuple[str, str, str, str]]:
    """Yield two rules and two cells in which the finding half has opposite orders of them."""
    rules = list(dict.fromkeys(rule for of_cell in values.values() for rule in of_cell))
    for a, b in combinations(rules, 2):
        t = {
            cell: t_statistic((of_cell[a] - of_cell[b])[::2])
            for cell, of_cell in values.items()
            if a in of_cell and b in of_cell
        }
        if len(t) < 2:
            continue
        first = max(t, key=lambda cell: t[cell])
        second = min(t, key=lambda cell: t[cell])
        replicas = min(len(values[cell][a][::2]) for cell in (first, second))
        limit = stats.t.ppf(1 - LEVEL, replicas - 1)
        if t[first] > limit and t[second] < -limit:
            yield a, b, first, second


def _test(values: Values, better: str, other: str, first: str, second: str) -> Reversal:
    """Test a proposed reversal on the other half of the replicas."""
    ahead = (values[first][better] - values[first][other])[1::2]
    behind = (values[second][better] - values[second][other])[1::2]
    p = max(
        float(stats.t.sf(t_statistic(ahead), len(ahead) - 1)),
        float(stats.t.sf(-t_statistic(behind), len(behind) - 1)),
    )
    return Reversal(better, other, first, second, (float(ahead.mean()), float(behind.mean())), p)


def t_statistic(differences: Floats) -> float:
    """Return the mean by its standard error; 0 for differences that are all 0, infinite for others that are equal."""
    mean = float(differences.mean())
    error = float(differences.std(ddof=1)) / np.sqrt(len(differences))
    if error == 0:
        return float(np.sign(mean)) * np.inf if mean else 0.0
    return mean / float(error)


def holm(p_values: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Return which of ascending p-values Holm's method rejects: each until the first above ``level / (n - place)``."""
    rejected = []
    is_rejecting = True
    for place, p in enumerate(p_values):
        is_rejecting = is_rejecting and p <= level / (len(p_values) - place)
        rejected.append(is_rejecting)
    return rejected
