"""Means of the metrics that the selection and the allocation of an access report with their decisions."""

from __future__ import annotations

from collections.abc import Mapping


class ReportedMeans:
    """Sums of reported values in one replica: since the last evaluation, and of all decisions."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[float, int]] = {}  # sum and number of values
        self._all: dict[str, tuple[float, int]] = {}

    def add(self, values: Mapping[str, float]) -> None:
        """Add the values of one decision."""
        for sums in (self._newest, self._all):
            for name, value in values.items():
                total, count = sums.get(name, (0.0, 0))
                sums[name] = (total + float(value), count + 1)

    def take(self) -> dict[str, float]:
        """Return the mean of each metric over the decisions since the last call; none without a decision."""
        means = _means(self._newest)
        self._newest = {}
        return means

    def all_means(self) -> dict[str, float]:
        """Return the mean of each metric over all decisions."""
        return _means(self._all)


def _means(sums: Mapping[str, tuple[float, int]]) -> dict[str, float]:
    return {name: total / count for name, (total, count) in sums.items()}
