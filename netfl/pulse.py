"""How far a round is while it goes on."""

from __future__ import annotations

from dataclasses import dataclass

from netfl.figures import clock

_VAIN = 100
"""Fewer attempts in vain than this are not worth a word."""


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


def so_far(pulse: Pulse) -> str:
    """How far a round is, in words.

    >>> so_far(Pulse(3, 7260.0, 1234, 1200))
    '2 h 01 min simulated · 1,234 attempts, the last 1,200 of them in vain'
    """
    vain = f", the last {pulse.vain:,} of them in vain" if pulse.vain >= _VAIN else ""
    return f"{clock(pulse.time_s)} simulated · {pulse.attempts:,} attempts{vain}"
