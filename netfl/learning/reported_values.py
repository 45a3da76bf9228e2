"""Values that aggregations report (`Aggregation.metrics`), summed on the device until the next evaluation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from netfl.core.kinds import kind_of
from netfl.errors import ModelError
from netfl.learning.aggregation import Aggregation, State, Updates
from netfl.types import Floats, reported_problem

_REMEDY = "return a tensor with a single number, such as x.mean() or torch.linalg.vector_norm(x)"


class ReportedValues:
    """Sums of the reported values of all lanes since the last evaluation, and the means at an evaluation.

    Args:
        rules: aggregations of the lanes.
        names: learner and replica of each lane, for messages.
        device: device of the sums.
    """

    def __init__(self, rules: Sequence[Aggregation], names: Sequence[str], device: torch.device) -> None:
        self._rules = rules
        self._lane_names = names
        self.names = tuple(dict.fromkeys(metric.name for rule in rules for metric in rule.reports))
        """Names of the metrics of all lanes."""
        self._columns: list[Tensor] = []  # of the metrics of each lane, in the order of its `Aggregation.reports`
        for rule in rules:
            columns = [self.names.index(metric.name) for metric in rule.reports]
            self._columns.append(torch.tensor(columns, dtype=torch.int64, device=device))
        self._sums = torch.zeros(len(rules), len(self.names), dtype=torch.float64, device=device)
        self._counts = np.zeros(len(rules), np.int64)  # of the steps

    def add(self, lane: int, state: State, current: Tensor, updates: Updates, following: Tensor) -> None:
        """Add what the aggregation of *lane* reports of a step; the arguments are those of `Aggregation.metrics`.

        Raises:
            ModelError: the names are not those that it declares, or a value is not a tensor with a single number.
        """
        rule = self._rules[lane]
        values = rule.metrics(state, current, updates, following)
        problem = values_problem(rule, values)
        if problem is not None:
            raise self._error(lane, updates.round, *problem)
        in_order = torch.stack([values[metric.name].double() for metric in rule.reports])
        self._sums[lane].index_add_(0, self._columns[lane], in_order.to(self._sums.device))
        self._counts[lane] += 1

    def measure(self) -> Tensor:
        """Return the sums, from which `metrics` follow, ``[lanes, names]``."""
        return self._sums

    def metrics(self, sums: Floats, index: int, diverged: Collection[int]) -> Iterator[tuple[str, Floats]]:
        """Yield the mean of each metric over the steps since the last evaluation, ``[lanes]``, and start over.

        It is NaN in lanes without a step, without the metric, or whose training *diverged*.

        Args:
            sums: those of `measure`, ``[lanes, names]``.
            index: the round of the evaluation.
            diverged: lanes whose values do not count.

        Raises:
            ModelError: a value is not finite, and training has not diverged.
        """
        means = np.full(sums.shape, np.nan)
        for lane, rule in enumerate(self._rules):
            if not self._counts[lane] or lane in diverged:
                continue
            for metric in rule.reports:
                column = self.names.index(metric.name)
                total = sums[lane, column]
                if not np.isfinite(total):
                    problem = f"gives '{metric.name}', which is not finite ({total:g})"
                    raise self._error(lane, index, problem, "return a finite number in each step")
                means[lane, column] = total / self._counts[lane]
        self._sums.zero_()
        self._counts[:] = 0
        yield from zip(self.names, means.T, strict=True)

    def state(self) -> list[dict[str, Any]]:
        """Return the state for `restore`, an entry for each lane."""
        state = []
        for lane, columns in enumerate(self._columns):
            state.append({"sums": self._sums[lane, columns], "steps": int(self._counts[lane])})
        return state

    def restore(self, state: Sequence[Mapping[str, Any]]) -> None:
        """Restore a `state`."""
        for lane, saved in enumerate(state):
            self._counts[lane] = saved["steps"]
            self._sums[lane, self._columns[lane]] = saved["sums"].to(self._sums.device)

    def _error(self, lane: int, index: int, problem: str, remedy: str) -> ModelError:
        kind = kind_of(type(self._rules[lane]))
        subject = f"the method 'metrics' of {kind}"
        return ModelError(self._lane_names[lane], f"{subject} {problem}, by round {index}; {remedy}")


def values_problem(rule: Aggregation, values: object) -> tuple[str, str] | None:
    """Return the problem and the remedy of what `Aggregation.metrics` of *rule* has returned; ``None`` if it is right.

    Whether values are finite is known once they are read.
    """
    problem = reported_problem(rule.reports, values)
    if problem is not None:
        return problem
    assert isinstance(values, Mapping)
    for name, value in values.items():
        if not isinstance(value, Tensor):
            return f"gives '{name}' as a {type(value).__name__}, not a tensor", _REMEDY
        if value.ndim:
            return f"gives '{name}' as a tensor {list(value.shape)}, not a single number", _REMEDY
    return None
