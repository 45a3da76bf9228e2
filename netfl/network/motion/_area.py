"""Areas of the random waypoint model around the origin: a disk or a rectangle.

The stationary start of the model draws directions through a position in proportion to a bound of behind · ahead, the
distances from the position to the edge backwards and forwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from netfl.types import Bools, Floats


@dataclass(frozen=True, slots=True)
class DiskArea:
    """A disk: behind · ahead is the power of the position, R² - r², in every direction."""

    radius_m: float

    @property
    def size_m2(self) -> float:
        """Area, πR²."""
        return math.pi * self.radius_m**2

    @property
    def mean_leg_m(self) -> float:
        """Mean length of a leg, 128R / 45π."""
        return 128.0 * self.radius_m / (45.0 * math.pi)

    @property
    def mean_square_leg_m2(self) -> float:
        """Mean square length of a leg, R²: twice the mean square distance to the centre."""
        return self.radius_m**2

    @property
    def longest_m(self) -> float:
        """Longest leg, the diameter."""
        return 2.0 * self.radius_m

    def holds(self, xy_m: Floats) -> Bools:
        """Return whether each position is within R of the centre, but for rounding."""
        return np.asarray(np.hypot(*xy_m.T) <= self.radius_m * (1.0 + 1e-12))

    def inward(self, xy_m: Floats) -> Floats:
        """Move positions inside R less a billionth, so that a line through each has a length."""
        distance_m = np.maximum(np.hypot(*xy_m.T), self.radius_m * 1e-9)  # not 0, to divide by it
        shrinkage = np.minimum(1.0, self.radius_m * (1.0 - 1e-9) / distance_m)
        return np.asarray(xy_m * shrinkage[:, None])

    def place(self, first: Floats, second: Floats) -> Floats:
        """Return uniform positions from two uniform draws each: distance and direction, ``[…, 2]``."""
        distance_m = self.radius_m * np.sqrt(first)  # P(distance ≤ r) = (r/R)²
        angle = 2.0 * np.pi * second
        return np.stack([distance_m * np.cos(angle), distance_m * np.sin(angle)], axis=-1)

    def reach_m(self, xy_m: Floats, towards: Floats) -> Floats:
        """Return the distance to the edge along a unit vector: the nonnegative root of |xy + s · towards| = R.

        With along = xy · towards and power = R² - |xy|², it is s² + 2 along s - power = 0.
        """
        along = (xy_m * towards).sum(axis=-1)
        power = np.maximum(self.radius_m**2 - (xy_m**2).sum(axis=-1), 0.0)
        root = np.sqrt(along**2 + power)
        outward = power / (root + np.maximum(along, 0.0))  # root - along, without its cancellation
        return np.asarray(np.where(along > 0.0, outward, root - along))

    def heading(self, xy_m: Floats, first: Floats, second: Floats) -> tuple[Floats, Floats]:
        """Return directions in rad from two uniform draws each, and the bound, equal in all directions."""
        return 2.0 * np.pi * first, self._power(xy_m)

    def headings(self, xy_m: Floats) -> Floats:
        """Return the integral of the bound over all directions."""
        return 2.0 * np.pi * self._power(xy_m)

    def _power(self, xy_m: Floats) -> Floats:
        return np.asarray(self.radius_m**2 - (xy_m**2).sum(axis=-1))


@dataclass(frozen=True, slots=True)
class RectangleArea:
    """A rectangle: behind · ahead is at most min(A / cos²φ, B / sin²φ).

    A and B are the products of the distances to the sides east and west, and to the sides north and south.
    """

    width_m: float
    height_m: float

    @property
    def size_m2(self) -> float:
        """Area, width times height."""
        return self.width_m * self.height_m

    @property
    def mean_leg_m(self) -> float:
        """Mean leg, by B. Ghosh, "Random distances within a rectangle", Bull. Calcutta Math. Soc. 43 (1951).

        With sides a and b and diagonal d::

            E[L] = (a³/b² + b³/a² + d (3 - a²/b² - b²/a²) + 5/2 (b²/a ln((a+d)/b) + a²/b ln((b+d)/a))) / 15
        """
        a = self.width_m
        b = self.height_m
        d = self.longest_m
        logs = b**2 / a * math.log((a + d) / b) + a**2 / b * math.log((b + d) / a)
        return (a**3 / b**2 + b**3 / a**2 + d * (3.0 - a**2 / b**2 - b**2 / a**2) + 2.5 * logs) / 15.0

    @property
    def mean_square_leg_m2(self) -> float:
        """Mean square length of a leg: a sixth of the square of each side."""
        return (self.width_m**2 + self.height_m**2) / 6.0

    @property
    def longest_m(self) -> float:
        """Longest leg, the diagonal."""
        return math.hypot(self.width_m, self.height_m)

    @property
    def _half(self) -> Floats:
        return np.array([self.width_m, self.height_m]) / 2.0

    def holds(self, xy_m: Floats) -> Bools:
        """Return whether each position is inside, but for rounding."""
        return np.asarray((np.abs(xy_m) <= self._half * (1.0 + 1e-12)).all(axis=-1))

    def inward(self, xy_m: Floats) -> Floats:
        """Move positions inside half a side less a billionth, so that a line through each has a length."""
        inner = self._half * (1.0 - 1e-9)
        return np.clip(xy_m, -inner, inner)

    def place(self, first: Floats, second: Floats) -> Floats:
        """Return uniform positions from two uniform draws each: east and north, ``[…, 2]``."""
        return np.stack([self.width_m * (first - 0.5), self.height_m * (second - 0.5)], axis=-1)

    def reach_m(self, xy_m: Floats, towards: Floats) -> Floats:
        """Return the distance to the edge along a unit vector, to the nearer of the two sides ahead."""
        with np.errstate(divide="ignore", invalid="ignore"):  # a side that is parallel to the vector is never reached
            ways_m = np.where(towards == 0.0, np.inf, (self._half - np.sign(towards) * xy_m) / np.abs(towards))
        return np.asarray(np.maximum(ways_m.min(axis=-1), 0.0))

    def heading(self, xy_m: Floats, first: Floats, second: Floats) -> tuple[Floats, Floats]:
        """Return directions in rad from two uniform draws each, and the bound there.

        tan φ is U √(B/A) or √(B/A) / U, either with probability one half; the quadrant is uniform.
        """
        a, b = self._products(xy_m)
        quadrant, half_draw = np.divmod(4.0 * second, 1.0)
        # the angle within the quadrant
        steepness = np.sqrt(b / a)
        near_east = np.arctan(first * steepness)
        near_north = np.pi / 2.0 - np.arctan(first / steepness)
        angle = np.where(half_draw < 0.5, near_east, near_north)
        bound = 1.0 / np.maximum(np.cos(angle) ** 2 / a, np.sin(angle) ** 2 / b)
        # the quadrant: odd ones are west, the last two south
        mirrored = np.where(quadrant % 2 == 1, np.pi - angle, angle)
        return np.where(quadrant >= 2, -mirrored, mirrored), bound

    def headings(self, xy_m: Floats) -> Floats:
        """Return the integral of the bound over all directions: √(AB) for each half of each quadrant."""
        a, b = self._products(xy_m)
        return 8.0 * np.sqrt(a * b)

    def _products(self, xy_m: Floats) -> tuple[Floats, Floats]:
        """Return A and B of the class: (width/2)² - x² and (height/2)² - y²."""
        products = self._half**2 - xy_m**2
        return products[..., 0], products[..., 1]


Area = DiskArea | RectangleArea
