"""Pictures: what all sets of them have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.learning.data import Data, Dataset
from netfl.learning.data._augmentation import Augment
from netfl.streams import Streams
from netfl.types import Law

Scale = Literal["unit", "raw", "standard", "channels"]
"""What becomes of pixels."""
_LEAST_SPREAD = 1e-3
_AT_ONCE = 4096


class Pictures(NamedTuple):
    """A set as it is published: pixels 0 … 255, ``[pictures, channels, rows, columns]``, and labels."""

    train_x: NDArray[np.uint8]
    train_y: NDArray[np.int64]
    test_x: NDArray[np.uint8]
    test_y: NDArray[np.int64]


class Images(Data):
    """Pictures of bytes with labels; a model of the family is one published set."""

    train_scale: Scale = "unit"
    """What becomes of the pixels of the training pictures.  ``unit`` divides them by 255, so that they run from 0 to 1;
    ``raw`` leaves them; ``standard`` takes from each pixel its mean over all training pictures and divides by its
    standard deviation + 0.001, as q-FFL does; ``channels`` does so with the mean and deviation of each colour."""
    test_scale: Scale = "unit"
    """The same for the test pictures, by the means and deviations of the training pictures."""
    only: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=2)] | None = None
    """Only the pictures with these labels, which are then counted from 0 in this order; all by default."""
    augment: Augment | None = None
    """How pictures are moved while they are trained on, ``{crop: 4, flip: true}`` for the usual way with CIFAR: cut out
    at a random place of a frame that is so many pixels larger on each side, and mirrored at random; not by default."""

    @property
    def labels(self) -> int:
        """The number of labels of the whole set: ten, of most."""
        return 10

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, rows and columns: of most sets 32 x 32 pixels in colour."""
        return (3, 32, 32)

    @abstractmethod
    def pictures(self) -> Pictures:
        """Read the whole set."""

    @model_validator(mode="after")
    def _known(self) -> Images:
        """Refuse labels that there are not, or that are named twice."""
        for label in self.only or ():
            if label >= self.labels:
                raise ValueError(f"there is no label {label}: labels are 0 to {self.labels - 1}")
        if self.only is not None and len(set(self.only)) < len(self.only):
            raise ValueError("a label is named twice in 'only'")
        return self

    @property
    def classes(self) -> int:
        """The labels that are kept."""
        return self.labels if self.only is None else len(self.only)

    def load(self, streams: Streams) -> Dataset:
        """Read the pictures from the cache; nothing is drawn."""
        found = self.pictures()
        (train, train_y), (test, test_y) = (self._kept(y) for y in (found.train_y, found.test_y))
        return Dataset(
            scale_pixels(found.train_x[train], self.train_scale, found.train_x),
            train_y,
            scale_pixels(found.test_x[test], self.test_scale, found.train_x),
            test_y,
            self.classes,
            augment=self.augment,
        )

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("a fixed set: nothing is drawn"),)

    def _kept(self, y: NDArray[np.int64]) -> tuple[slice | NDArray[np.int64], NDArray[np.int64]]:
        """Which pictures are kept, and their new labels."""
        if self.only is None:
            return slice(None), y
        new = np.full(self.labels, -1)
        new[list(self.only)] = np.arange(len(self.only))
        rows = np.flatnonzero(new[y] >= 0)
        return rows, new[y[rows]]


def scale_pixels(pixels: NDArray[np.uint8], scale: Scale, by: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The pixels as numbers, standardised, where that is asked for, by the means and deviations of those of *by*."""
    x = pixels.astype(np.float32)
    if scale == "unit":
        x /= 255
    elif scale != "raw":
        mean, spread = _moments(by, each_pixel=scale == "standard")
        x -= mean.astype(np.float32)
        x /= (spread + _LEAST_SPREAD).astype(np.float32)
    return x


def _moments(pixels: NDArray[np.uint8], *, each_pixel: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each pixel, or of each channel, from exact sums."""
    total, squares = np.zeros((2, *pixels.shape[1:]), np.int64)
    for start in range(0, len(pixels), _AT_ONCE):
        part = pixels[start : start + _AT_ONCE].astype(np.int32)
        total += part.sum(axis=0)
        squares += (part * part).sum(axis=0)
    count = len(pixels)
    if not each_pixel:
        count *= total[0].size
        total, squares = (one.sum(axis=(1, 2), keepdims=True) for one in (total, squares))
    mean = total / count
    return mean, np.sqrt(np.maximum(squares / count - mean**2, 0.0))
