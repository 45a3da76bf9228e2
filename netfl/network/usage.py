"""What a link has carried: counts that grow with time, so that two of them tell of the time between."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Usage:
    """What the port at one end of a link has done since the beginning.

    Over a time T: utilisation is ``busy_s`` / T, throughput ``bits`` / T, the mean number of waiting messages
    ``waiting_s`` / T, each of the difference of two usages.

    >>> Usage(busy_s=3.0, messages=2) - Usage(busy_s=1.0)
    Usage(busy_s=2.0, bits=0.0, messages=2, dropped=0, lost=0, superseded=0, waiting_s=0.0)

    Args:
        busy_s: time during which something was put on the link.
        bits: bits of the messages that were put on it whole.
        messages: their number.
        dropped: messages that a full or cautious queue turned away.
        lost: messages that the outage of the node or of the link took: waiting, half sent, coming to it, on the wire.
        superseded: messages that newer ones of their flow pushed out.
        waiting_s: the number of waiting messages, integrated over time.
    """

    busy_s: float = 0.0
    bits: float = 0.0
    messages: int = 0
    dropped: int = 0
    lost: int = 0
    superseded: int = 0
    waiting_s: float = 0.0

    def __sub__(self, earlier: Self) -> Usage:
        return Usage(*(now - then for now, then in zip(astuple(self), astuple(earlier), strict=True)))
