"""Weights of flows, as a scenario says them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from netfl.errors import Fault
from netfl.types import ScenarioFacts


def _by_flow(value: Any) -> Any:
    """A list as a mapping from the flows 0, 1 and so on."""
    return dict(enumerate(value)) if isinstance(value, list | tuple) else value


_Weight = Annotated[float, Field(gt=0)]
_ByFlow = dict[Annotated[int, Field(ge=0)], _Weight]

Weights = Annotated[_ByFlow, BeforeValidator(_by_flow, json_schema_input_type=_ByFlow | tuple[_Weight, ...])]
"""A mapping from flows, such as ``{0: 3, 7: 0.5}``, or a list for the flows 0, 1, …; the others have weight 1."""


def weight_faults(weights: dict[int, float] | None, facts: ScenarioFacts) -> Iterator[Fault]:
    """Weights of users that there are not; where traffic enters at nodes, flows have their numbers, and none is odd."""
    if facts.duration_s is None:
        yield from facts.strangers("weights", weights or ())
