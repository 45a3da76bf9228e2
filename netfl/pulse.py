"""How far a round is while it goes on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pulse:
    """How far a round is that is not over.

    Args:
        round: which, from 1.
        time_s: simulated time.
        attempts: transmissions that have ended so far.
        vain: how many of them have failed in this round since anybody was heard.
    """

    round: int
    time_s: float
    attempts: int
    vain: int


def unheard(pulse: Pulse) -> None:
    """Nobody wants to know how far a round is."""
