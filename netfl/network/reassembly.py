"""Packets put in order again at the end of their way."""

from __future__ import annotations


class Reassembly:
    """Which packets of one update are there.

    >>> server = Reassembly(3)
    >>> [server.take(part) for part in (2, 0, 2)], server.passed
    ([True, True, False], 1)
    >>> server.take(1), server.passed, server.complete
    (True, 3, True)

    Args:
        count: how many packets there are.

    Attributes:
        passed: packets that are there and all before them, too: those that can be handed on in order.
    """

    __slots__ = ("_there", "passed")

    def __init__(self, count: int) -> None:
        self._there, self.passed = bytearray(count), 0

    def take(self, part: int) -> bool:
        """Packet *part*, counted from 0, has come: whether it is no duplicate."""
        if self._there[part]:
            return False
        self._there[part] = 1
        if part == self.passed:
            gap = self._there.find(0, part)
            self.passed = len(self._there) if gap < 0 else gap
        return True

    def has(self, part: int) -> bool:
        """Whether *part* has come."""
        return bool(self._there[part])

    @property
    def complete(self) -> bool:
        """Whether all have."""
        return self.passed == len(self._there)
