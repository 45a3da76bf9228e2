"""Slots of a schedule that one sender has to itself."""

from __future__ import annotations

from dataclasses import dataclass

from netfl.network.periods import period_from


@dataclass(frozen=True, slots=True)
class ReservedSlot:
    """A slot in which a frame begins, and which its sender has again in each period of a schedule.

    A frame that is longer than the slot continues in the sender's next slots, without overhead.

    Args:
        start_s: start of the slot, at which the frame begins to arrive at the tower.
        length_s: length of the slot.
        period_s: time from one slot of the sender to its next; all slots are its own if it is *length_s*.
    """

    start_s: float
    length_s: float
    period_s: float

    def parts_s(self, airtime_s: float) -> list[tuple[float, float]]:
        """Return the start and the end of each part of a frame at the tower.

        >>> ReservedSlot(4.0, 1.0, 3.0).parts_s(2.5)
        [(4.0, 5.0), (7.0, 8.0), (10.0, 10.5)]
        >>> ReservedSlot(4.0, 1.0, 1.0).parts_s(2.5), ReservedSlot(4.0, 0.1, 1.0).parts_s(0.1)
        ([(4.0, 6.5)], [(4.0, 4.1)])
        """
        slots = max(period_from(airtime_s, self.length_s), 1)
        if slots == 1 or self.period_s <= self.length_s:
            return [(self.start_s, self.start_s + airtime_s)]
        starts_s = [self.start_s + slot * self.period_s for slot in range(slots)]
        last_s = airtime_s - (slots - 1) * self.length_s
        ends_s = [start_s + self.length_s for start_s in starts_s[:-1]] + [starts_s[-1] + last_s]
        return list(zip(starts_s, ends_s, strict=True))
