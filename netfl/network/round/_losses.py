"""Knowledge of losses: whether the server learns that an update will not come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from netfl.errors import Fault

Losses = Literal["known", "unknown"]
"""Knowledge of the server that an update was lost: at once, or never."""


def endless_wait(losses: Losses, deadline: float | None) -> Iterator[Fault]:
    """Yield the error of a round that would wait for ever for an update that was lost."""
    if losses == "unknown" and deadline is None:
        problem = "a round without a deadline would wait for ever for an update that was lost"
        yield Fault("losses", problem, losses, "give the round a deadline, or set losses: known")
