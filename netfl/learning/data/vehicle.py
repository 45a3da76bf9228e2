"""Vehicle: recordings of 23 sensors on a road."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.errors import MachineError
from netfl.learning.data import Dataset, Examples
from netfl.learning.data._download import FileContent, read_files
from netfl.learning.data._formats import read_matlab
from netfl.learning.data._splits import PerUserData, split_by_user, split_dataset
from netfl.streams import Streams
from netfl.types import Law

_FEATURES = 100


class Vehicle(PerUserData):
    """Vehicle: 43,695 recordings of 23 acoustic and seismic sensors, 100 features; labels are two kinds of vehicle.

    Duarte and Hu, "Vehicle classification in distributed sensor networks", J. Parallel and Distributed Computing, 2004,
    in the form of Smith et al., "Federated multi-task learning", NIPS 2017, and of q-FFL: each sensor is a user, and
    its features are standardised by its own means and deviations.  The file ``vehicle.mat`` (cells ``X`` and ``Y``,
    one for each sensor) is read from ``vehicle/`` in the cache (``NETFL_DATA``, or the user's cache folder); it must
    be downloaded by hand and has no published checksum; its form is checked.

    Example::

        kind: vehicle
    """

    classes: ClassVar[int] = 2
    shape: ClassVar[tuple[int, ...]] = (_FEATURES,)
    split: Annotated[int, Field(ge=0)] = 0
    """Number of the random split into training, validation and test examples."""

    def load(self, streams: Streams) -> Dataset:
        """Read the file and split each sensor's recordings."""
        (file,) = read_files("vehicle")
        x, y, user = read_recordings(file)
        rng = Streams(self.seed).rng("vehicle", "split", self.split)
        rows = split_by_user(user, self.validation_share, self.test_share, rng)
        return split_dataset(Examples(x, y, user), rows, self.classes)

    def laws(self) -> tuple[Law, ...]:
        """State that only the split is drawn."""
        return (Law.none("a fixed set; a random permutation splits it"),)


def read_recordings(file: FileContent) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Return standardised features, labels and sensor numbers.

    Raises:
        MachineError: the file has other content.
    """
    cells = [column.ravel().tolist() for column in read_matlab(file, ("X", "Y"))]
    x, y = ([np.asarray(cell, float) for cell in column] for column in cells)
    fits = [
        features.shape == (labels.size, _FEATURES) and set(labels.ravel()) <= {-1, 1}
        for features, labels in zip(x, y, strict=False)
    ]
    if len(x) != len(y) or not x or not all(fits):
        raise MachineError(f"{file.path} does not hold {_FEATURES} features and labels -1 or 1 of each sensor")
    user = np.repeat(np.arange(len(y)), [labels.size for labels in y])
    labels = np.concatenate([sensor.ravel() for sensor in y])
    return np.concatenate([_standardize(sensor) for sensor in x]), (labels > 0).astype(np.int64), user


def _standardize(x: NDArray[np.float64]) -> NDArray[np.float32]:
    """Standardise each column; constant columns become 0."""
    spread = x.std(axis=0)
    return np.asarray((x - x.mean(axis=0)) / np.where(spread > 0, spread, 1), np.float32)
