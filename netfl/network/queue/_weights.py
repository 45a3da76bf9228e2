"""Weights of flows in a scenario."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from netfl.errors import Fault
from netfl.types import ScenarioFacts


def _by_flow(value: Any) -> Any:
    """Return a list as a mapping from the flows 0, 1, 2 and so on."""
    return dict(enumerate(value)) if isinstance(value, list | tuple) else value


_Weight = Annotated[float, Field(gt=0)]
_ByFlow = dict[Annotated[int, Field(ge=0)], _Weight]

Weights = Annotated[_ByFlow, BeforeValidator(_by_flow, json_schema_input_type=_ByFlow | tuple[_Weight, ...])]
"""A mapping from flows, such as ``{0: 3, 7: 0.5}``, or a list for the flows 0, 1, …; other flows have the weight 1."""


def weight_faults(weights: dict[int, float] | None, facts: ScenarioFacts) -> Iterator[Fault]:
    """Yield the errors of weights of unknown users.  With a duration, flows are numbered and any number is valid."""
    if facts.duration_s is None:
        yield from facts.strangers("weights", weights or ())
