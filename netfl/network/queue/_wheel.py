"""A wheel of fortune: draws names with chances in proportion to their weights, which may change at any time."""

from __future__ import annotations


class Wheel:
    """Weights at the leaves of a binary tree of sums, so that a change or a draw costs the tree's depth.

    Sums are made anew from the weights below them, so that no rounding is ever left over.
    """

    def __init__(self) -> None:
        self._place: dict[int, int] = {}
        self._names: list[int] = []
        self._sums = [0.0, 0.0]

    def weigh(self, name: int, weight: float) -> None:
        """Give *name* a weight; 0 takes it off the wheel."""
        place = self._place.get(name)
        if place is None:
            place = self._place[name] = len(self._names)
            self._names.append(name)
            if place == len(self._sums) // 2:
                self._grow()
        at = place + len(self._sums) // 2
        self._sums[at] = weight
        while at > 1:
            at //= 2
            self._sums[at] = self._sums[2 * at] + self._sums[2 * at + 1]

    def spin(self, chance: float) -> int:
        """The name on which *chance*, a number in [0, 1), falls; some weight must be above 0."""
        sums, at = self._sums, 1
        left = chance * sums[1]
        while at < len(sums) // 2:
            at *= 2
            if left >= sums[at] and sums[at + 1] > 0.0:
                left -= sums[at]
                at += 1
        return self._names[at - len(sums) // 2]

    def _grow(self) -> None:
        """Twice as many leaves."""
        leaves = self._sums[len(self._sums) // 2 :]
        self._sums = [0.0] * (2 * len(leaves)) + leaves + [0.0] * len(leaves)
        for at in range(2 * len(leaves) - 1, 0, -1):
            self._sums[at] = self._sums[2 * at] + self._sums[2 * at + 1]
