"""Normal clouds of points in the plane."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netfl.learning.data import Data, Dataset
from netfl.learning.data._splits import legacy_generator, split_like_sklearn
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law

_BYTES_PER_POINT = 66
_LARGEST = 1e30
"""Largest coordinate; points have 32 bits, which end at 3.4e38."""
_Coordinate = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST)]


class Blobs(Data):
    """Points in the plane, normally distributed around centres; a point's label is the number of its centre.

    Points and split equal those of scikit-learn's `make_blobs` and `train_test_split` with ``seed`` as their random
    state, whatever the seed of the run: the sets of the FED-CVaR-AVG papers' small experiments.
    Each coordinate of label c is normal with the centre's as its mean and ``std`` as its standard deviation.

    Example::

        kind: blobs
        centers: [[1, 1], [2, 3], [2.3, 1.5]]
        std: 0.1
        samples: 1000
        seed: 11
        test_share: 0.2
    """

    shape: ClassVar[tuple[int, ...]] = (2,)
    centers: Annotated[tuple[tuple[_Coordinate, _Coordinate], ...], Field(min_length=2)]
    """The centres, ``[x, y]`` each, one for each label."""
    std: Annotated[float, Field(gt=0, le=_LARGEST)] = 0.1
    """Standard deviation of each coordinate around its centre."""
    samples: Annotated[int, Field(ge=2)] = 1000
    """Points per centre, training and test together."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 11
    """Seed of the points and the split."""
    test_share: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """The share of all points that is kept for testing."""

    @property
    def classes(self) -> int:
        return len(self.centers)

    @property
    def memory(self) -> float:
        return float(_BYTES_PER_POINT * self.samples * len(self.centers))

    def load(self, streams: Streams) -> Dataset:
        return split_like_sklearn(*self._draw_points(), self.test_share, self.seed)

    def laws(self) -> tuple[Law, ...]:
        from scipy.special import ndtr

        middle = self.centers[-1][0]

        def draw(streams: Streams, size: int) -> Floats:
            seed = int(streams.rng("blobs").integers(2**32))
            x, y = self.model_copy(update={"samples": size, "seed": seed})._draw_points()
            return np.asarray(x[y == self.classes - 1, 0])

        def cdf(x: Floats) -> Floats:
            return np.asarray(ndtr((x - middle) / self.std))

        return (Law("x of the last label", "normal around the centre", draw, middle, self.std**2, cdf),)

    def _draw_points(self) -> tuple[Floats, Ints]:
        """Draw points and labels centre by centre, and shuffle them with the same generator."""
        generator = legacy_generator(self.seed)
        x = np.concatenate([generator.normal(centre, self.std, (self.samples, 2)) for centre in self.centers])
        y = np.repeat(np.arange(self.classes), self.samples)
        order = np.arange(len(x))
        generator.shuffle(order)
        return x[order], y[order]
