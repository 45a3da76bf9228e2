"""Ranks of rules, with the uncertainty that their replicas leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from netfl.streams import Streams
from netfl.types import Floats

DRAWS = 2000
"""Bootstrap samples of the replicas."""


@dataclass(frozen=True, slots=True)
class Rank:
    """The rank of a rule in a cell.

    Args:
        value: mean over the replicas; of a cost the median, infinite if the target is not reached.
        low: lower end of the 95 % interval of the value.
        high: upper end.
        rank: 1 for the best.
        first: best rank of the 95 % interval.
        last: worst rank of it.
        replicas: number of replicas.
    """

    value: float
    low: float
    high: float
    rank: int
    first: int
    last: int
    replicas: int


def rank_rules(values: Mapping[str, Floats], *, is_cost: bool = False) -> dict[str, Rank]:
    """Rank rules by their values in the same replicas.

    The intervals are percentiles of `DRAWS` bootstrap samples of the replicas.  A sample has the same replicas of all
    rules, so that what all rules share, such as an easy partition, does not blur the ranks.  Equal rules share the best
    rank.  Accuracies are compared by means.  Costs are compared by medians, as some may be infinite.

    Args:
        values: by rule, ``[replicas]`` each, in the same order of replicas.
        is_cost: whether the smallest value is the best.
    """
    if not values:
        return {}
    table = np.stack([*values.values()])  # [rules, replicas]
    replicas = table.shape[1]
    sample = Streams(0).at("rank_rules").rng("replicas").integers(replicas, size=(DRAWS, replicas))
    sampled = table[:, sample]  # [rules, draws, replicas]
    drawn = np.median(sampled, axis=2) if is_cost else sampled.mean(axis=2)
    centres = np.median(table, axis=1) if is_cost else table.mean(axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975), axis=1, method="nearest")
    first, last = np.quantile(_ranks(drawn, is_cost), (0.025, 0.975), axis=1, method="nearest")
    ranks = _ranks(centres[:, None], is_cost)[:, 0]
    return {
        name: Rank(
            value=float(centres[place]),
            low=float(low[place]),
            high=float(high[place]),
            rank=int(ranks[place]),
            first=int(first[place]),
            last=int(last[place]),
            replicas=replicas,
        )
        for place, name in enumerate(values)
    }


def _ranks(values: Floats, is_cost: bool) -> Floats:
    """Return the ranks of rules in each column, ``[rules, columns]``: 1 and the number of better rules."""
    scores = -values if is_cost else values
    better = scores[None, :, :] > scores[:, None, :]  # [rule, other rule, column]
    return np.asarray(1.0 + better.sum(axis=1))
