"""Detection of users that stay synchronised: those that collide, and overlap again at their next attempts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from netfl.network.radio.transmission import Transmission

_MIN_CASES = 32
"""Cases that suffice for a statement; twice as many are taken one after the other."""
_THINNING = 128
"""One collision in so many is followed once there are enough cases."""
_MANY = 256
"""Cases from which older cases count half."""
_MIN_SHARE = 0.6
"""Least share of repeats of users that stay synchronised."""
_MAX_CHANCE = 0.25
"""Largest share that chance may explain."""


class RepeatedCollisions(NamedTuple):
    """Collisions whose senders were on the air together again at their next attempts.

    Args:
        share: their share.
        chance: the share expected of users at random phases.
    """

    share: float
    chance: float


class CollisionRepeats:
    """Counts, for collisions of two users of a cell, whether their next attempts overlap in time again.

    Users at random phases overlap again with a probability of at most 2 T / g, where T is the airtime and g the time
    from one attempt to the next.  A saturated cell has a large 2 T / g, and random retries have few repeats; only
    users in lock-step have many repeats where chance gives few.  It does not matter which MAC keeps them together,
    whether they pick the same channel again, and whether the next attempts are retries.

    Attributes:
        watched: users whose next attempts are of interest.
    """

    __slots__ = ("_cases", "_collisions", "_ended_s", "_expected", "_followed", "_repeats", "watched")

    def __init__(self) -> None:
        self.watched = set[int]()
        self._followed: dict[int, tuple[int, float]] = {}  # of a user, its partner and the start of its attempt
        self._ended_s: dict[int, float] = {}  # of a partner, the end of its last attempt
        self._collisions = 0
        self._cases = 0.0
        self._repeats = 0.0
        self._expected = 0.0  # repeats by chance

    @property
    def repeated(self) -> RepeatedCollisions | None:
        """The repeats, if users stay synchronised; else ``None``."""
        if self._cases < _MIN_CASES:
            return None
        repeated = RepeatedCollisions(self._repeats / self._cases, self._expected / self._cases)
        is_synchronised = repeated.share >= _MIN_SHARE and repeated.chance <= _MAX_CHANCE
        if not is_synchronised:
            return None
        return repeated

    def note_collision(self, transmission: Transmission, place: int) -> None:
        """Take the end of a transmission in which the frame at *place* has collided."""
        self._collisions += 1
        if self._collisions % _THINNING == 0 or self._cases < 2 * _MIN_CASES:
            self._follow(transmission, place)

    def note_attempts(self, transmission: Transmission, now_s: float, is_on_air: Callable[[int], bool]) -> None:
        """Take the end of a transmission of users that are `watched`, and that still count as on the air.

        Args:
            transmission: the transmission.
            now_s: present time.
            is_on_air: ``is_on_air(id)`` returns whether a user of the cell is on the air.
        """
        for user in transmission.ids.tolist():
            followed = self._followed.pop(user, None)
            if followed is not None:
                partner, before_s = followed
                is_repeat = is_on_air(partner) or self._ended_s.get(partner, before_s) > transmission.start_s
                self._count_case(transmission, before_s, is_repeat=is_repeat)
            if user in self._ended_s:
                self._ended_s[user] = now_s
        if not self._followed:
            self._ended_s.clear()
            self.watched.clear()

    def _count_case(self, transmission: Transmission, before_s: float, *, is_repeat: bool) -> None:
        """Count the next attempt after a collision, whose attempt began at *before_s*."""
        airtime_s = transmission.end_s - transmission.start_s
        gap_s = transmission.start_s - before_s
        chance = 1.0
        if gap_s > 0.0:
            chance = min(1.0, 2.0 * airtime_s / gap_s)  # 2 T / g
        self._cases += 1.0
        self._repeats += is_repeat
        self._expected += chance
        if self._cases >= _MANY:
            self._cases /= 2.0
            self._repeats /= 2.0
            self._expected /= 2.0

    def _follow(self, transmission: Transmission, place: int) -> None:
        """Follow one user of a collision until the end of its next attempt."""
        user = int(transmission.ids[place])
        tower = transmission.tower
        others = [int(other.ids[0]) for other in transmission.interferers if other.tower == tower]
        if len(transmission.ids) > 1 and transmission.share is None:
            others.append(int(transmission.ids[place - 1]))
        if not others:  # those of other cells are not followed
            return
        partner = others[0]
        self._followed[user] = (partner, transmission.start_s)
        self._ended_s.setdefault(partner, transmission.start_s)
        self.watched.update((user, partner))
