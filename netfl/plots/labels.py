"""Places of texts on maps: beside their points, where they overlap nothing."""

from __future__ import annotations

import math

import numpy as np

from netfl.types import Floats

_DIRECTIONS = np.array([(1, 1), (1, -1), (-1, 1), (-1, -1), (1, 0), (-1, 0), (0, 1), (0, -1)])
"""Sides of a point on which a text may stand, in the order in which they are tried."""


def place_labels(points: Floats, sizes: Floats, radii: Floats) -> Floats:
    """Return the centres of texts beside points, NaN for those without room, ``[texts, 2]``.

    Each text stands on the first side of its point on which it overlaps neither a text before it nor a disk.

    Args:
        points: positions of all disks, first those with a text, ``[disks, 2]``.
        sizes: width and height of the texts, ``[texts, 2]``.
        radii: radii of the disks, ``[disks]``, in the unit of *points* and *sizes*.

    >>> place_labels(np.array([[0.0, 0.0], [9.0, 5.0]]), np.array([[6.0, 4.0]]), np.array([2.0, 2.0])).tolist()
    [[5.0, -4.0]]
    """
    centres = np.full(sizes.shape, math.nan)
    for text, size in enumerate(sizes):
        for direction in _DIRECTIONS:
            centre = points[text] + direction * (radii[text] + size / 2)
            from_disks = np.abs(points - centre) - size / 2  # by axis, to the edge of the text
            on_disk = np.hypot(*from_disks.clip(0.0).T) < radii * (1 - 1e-9)
            on_disk[text] = False
            on_text = (np.abs(centres[:text] - centre) < (sizes[:text] + size) / 2).all(axis=1)
            if not on_disk.any() and not on_text.any():
                centres[text] = centre
                break
    return centres


def scale_length(extent: float) -> float:
    """Return the length of a scale bar: the largest of 1, 2 and 5 times a power of ten up to a quarter of *extent*.

    >>> scale_length(30.0), scale_length(1.0)
    (5.0, 0.2)
    """
    decade = 10.0 ** math.floor(math.log10(extent / 4))
    return max(factor * decade for factor in (1.0, 2.0, 5.0) if factor * decade <= extent / 4)
