"""Metrics that plug-ins report: their declaration, and the check of the values against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from numbers import Real
from typing import NamedTuple


class Reported(NamedTuple):
    """Declaration of a metric that an aggregation, a selection or an allocation reports.

    Args:
        name: its name in the tables of a run: letters, digits and underscores, such as ``sum_mse``.  No metric of
            `docs/metrics.md` may have it.
        label: its name in sentences and at axes, such as ``error of the sum``.
        unit: unit of its values, one of `netfl.results.metrics.UNITS`, such as ``s`` or ``J``; ``%`` for a share of
            one; empty for a number.
        low_is_good: whether the lowest value is the best; ``None`` if values of learners are not comparable.
    """

    name: str
    label: str
    unit: str = ""
    low_is_good: bool | None = None


UNDECLARED = "has a method 'metrics', which has no effect, because its 'reports' is empty"
"""Problem of a model that returns metrics and declares none."""
DECLARE = "declare each metric: reports: ClassVar = (Reported(name, label),)"
"""Its remedy."""


def reported_problem(reports: Sequence[Reported], values: object, *, numbers: bool = False) -> tuple[str, str] | None:
    """Return the problem and the remedy of reported *values* that are not those declared in *reports*.

    Args:
        reports: the declarations.
        values: what a model has returned.
        numbers: whether values must be finite numbers.

    Returns:
        ``None`` if all declared names are there, and no other.
    """
    names = [metric.name for metric in reports]
    if not isinstance(values, Mapping):
        return f"gives a {type(values).__name__}, not values by name", f"return a mapping with {', '.join(names)}"
    for name in values:
        if name not in names:
            return f"gives '{name}', which 'reports' does not declare", f"add Reported({name!r}, label) to 'reports'"
    for name in names:
        if name not in values:
            return (
                f"does not give '{name}', which 'reports' declares",
                "return it each time, or remove it from 'reports'",
            )
    for name, value in values.items() if numbers else ():
        if not isinstance(value, Real) or not isfinite(value):
            return f"gives '{name}' = {value!r}, not a finite number", "return a finite number each time"
    return None
