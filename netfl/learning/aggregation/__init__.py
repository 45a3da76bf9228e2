"""The aggregation family: how deliveries become the next version of the global model."""

from __future__ import annotations

from netfl.registry import Spec


class Aggregation(Spec):
    """The contract of an aggregation."""
