"""The objective family: what a user minimises locally."""

from __future__ import annotations

from netfl.registry import Spec


class Objective(Spec):
    """The contract of an objective."""
