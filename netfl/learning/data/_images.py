"""The base of image sets."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.learning.data import Data, Dataset, Labels
from netfl.learning.data._augment import Augment
from netfl.streams import Streams
from netfl.types import Floats, Ints

Scale = Literal["unit", "raw", "standard", "channels"]
"""Scaling of pixels, see `Images.train_scale`."""
_MIN_SPREAD = 1e-3
_BATCH = 4096


class ImageSet(NamedTuple):
    """A set as published: pixels 0 … 255, ``[images, channels, rows, columns]``, and labels."""

    train_x: NDArray[np.uint8]
    train_y: Ints
    test_x: NDArray[np.uint8]
    test_y: Ints


class Images(Data):
    """Images of bytes with labels; each model of the family is one published set."""

    shape: ClassVar[tuple[int, ...]] = (3, 32, 32)
    train_scale: Scale = "unit"
    """Scaling of the training pixels.  ``unit`` divides them by 255, so that they run from 0 to 1; ``raw`` leaves them;
    ``standard`` subtracts from each pixel its mean over all training images and divides by its standard deviation +
    0.001, as q-FFL does; ``channels`` does so with the mean and deviation of each colour."""
    test_scale: Scale = "unit"
    """The same for the test images, with the means and deviations of the training images."""
    keep_labels: Annotated[Labels, Field(min_length=2)] | None = None
    """Labels to keep, which are then counted from 0 in this order; all by default."""
    augment: Augment | None = None
    """Augmentation of the training images, ``{crop: 4, flip: true}`` for the usual one of CIFAR: random crops of an
    image padded by so many pixels on each side, and random reflections; none by default."""

    @property
    def labels(self) -> int:
        """The number of labels of the whole set."""
        return 10

    @abstractmethod
    def read_images(self) -> ImageSet:
        """Read the whole set."""

    @model_validator(mode="after")
    def _check_labels(self) -> Images:
        for label in self.keep_labels or ():
            if label >= self.labels:
                raise ValueError(f"there is no label {label}; use labels from 0 to {self.labels - 1}")
        return self

    @property
    def classes(self) -> int:
        return self.labels if self.keep_labels is None else len(self.keep_labels)

    def load(self, streams: Streams) -> Dataset:
        images = self.read_images()
        train, train_y = self._select(images.train_y)
        test, test_y = self._select(images.test_y)
        return Dataset(
            scale_pixels(images.train_x[train], self.train_scale, images.train_x),
            train_y,
            scale_pixels(images.test_x[test], self.test_scale, images.train_x),
            test_y,
            self.classes,
            augment=self.augment,
        )

    def _select(self, y: Ints) -> tuple[slice | Ints, Ints]:
        """Return the rows with the labels to keep, and their new labels."""
        if self.keep_labels is None:
            return slice(None), y
        new_label = np.full(self.labels, -1)
        new_label[list(self.keep_labels)] = np.arange(len(self.keep_labels))
        rows = np.flatnonzero(new_label[y] >= 0)
        return rows, new_label[y[rows]]


def scale_pixels(pixels: NDArray[np.uint8], scale: Scale, reference: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Scale *pixels*; standardisation uses the means and deviations of *reference*."""
    x = pixels.astype(np.float32)
    if scale == "unit":
        x /= 255
    elif scale != "raw":
        mean, spread = _moments(reference, each_pixel=scale == "standard")
        x -= mean.astype(np.float32)
        x /= (spread + _MIN_SPREAD).astype(np.float32)
    return x


def _moments(pixels: NDArray[np.uint8], *, each_pixel: bool) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each pixel, or of each channel, from exact sums."""
    total = np.zeros(pixels.shape[1:], np.int64)
    squares = np.zeros(pixels.shape[1:], np.int64)
    for start in range(0, len(pixels), _BATCH):
        part = pixels[start : start + _BATCH].astype(np.int32)
        total += part.sum(axis=0)
        squares += (part * part).sum(axis=0)
    count = len(pixels)
    if not each_pixel:
        count *= total[0].size
        total = total.sum(axis=(1, 2), keepdims=True)
        squares = squares.sum(axis=(1, 2), keepdims=True)
    mean = total / count
    variance = np.maximum(squares / count - mean**2, 0.0)
    return mean, np.sqrt(variance)
