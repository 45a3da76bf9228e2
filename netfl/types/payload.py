"""Size of an update and of a broadcast."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Payload:
    """Sizes of one update and of one broadcast of a learner.

    Args:
        uplink_bits: size of an update.
        downlink_bits: size of a broadcast.
    """

    uplink_bits: float
    downlink_bits: float

    def __str__(self) -> str:
        """Return the sizes in words.

        >>> print(Payload(64000.0, 32000.0))
        64,000 bits up and 32,000 bits down
        """
        return f"{self.uplink_bits:,.0f} bits up and {self.downlink_bits:,.0f} bits down"
