"""Whether the orders of rules on one data set hold on another, under the same accesses.

Written before any row of Fashion-MNIST was looked at.  In an access that both suites have, an order of two rules is
*clear* if the paired 95 % interval of their difference in the accuracy of the rare classes excludes 0.  Of the orders
that are clear on the first data set those are counted that are clear on the second, too, that are clear and reversed
there, and that are open.  Spearman's correlation of the mean accuracies is given beside.  Both describe; nothing is
tested over all pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats

from netfl.results.statistics import interval
from netfl.types import Floats


@dataclass(frozen=True)
class Transfer:
    """Orders of the rules of one access on two data sets.

    Args:
        clear: number of orders that are clear on the first data set.
        same: number of these that are clear and the same on the second.
        reversed: number of these that are clear and opposite there.
        correlation: Spearman's correlation of the means.
    """

    clear: int
    same: int
    reversed: int
    correlation: float

    @property
    def open(self) -> int:
        """Number of the clear orders that are not clear on the second data set."""
        return self.clear - self.same - self.reversed


def transfer(first: Mapping[str, Floats], second: Mapping[str, Floats]) -> Transfer:
    """Compare the orders of the rules of an access on two data sets.

    Args:
        first: values by rule on the first data set, ``[replicas]`` each.
        second: values on the second.
    """
    rules = [rule for rule in first if rule in second]
    signs = [(clear_sign(first[a] - first[b]), clear_sign(second[a] - second[b])) for a, b in combinations(rules, 2)]
    clear = [(on_first, on_second) for on_first, on_second in signs if on_first]
    means = [[float(values[rule].mean()) for rule in rules] for values in (first, second)]
    return Transfer(
        clear=len(clear),
        same=sum(on_first == on_second for on_first, on_second in clear),
        reversed=sum(on_first == -on_second for on_first, on_second in clear),
        correlation=float(stats.spearmanr(*means).statistic),
    )


def clear_sign(differences: Floats) -> int:
    """Return the sign of the mean of paired differences, 0 if its 95 % interval has 0."""
    difference = interval(differences)
    if abs(difference.mean) <= difference.half:
        return 0
    return int(np.sign(difference.mean))
