"""Which vehicle passed, as 23 sensors heard it: Vehicle."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.errors import MachineError
from netfl.learning.data import Dataset
from netfl.learning.data import _download as cache
from netfl.learning.data._formats import arrays
from netfl.learning.data._splits import OfUsers, split_by_user, split_dataset
from netfl.streams import Streams
from netfl.types import Law

_FEATURES = 100


class Vehicle(OfUsers):
    """Vehicle: 43,695 recordings of 23 acoustic and seismic sensors, 100 features; label 1 is the one kind of vehicle.

    Duarte and Hu, "Vehicle classification in distributed sensor networks", J. Parallel and Distributed Computing, 2004,
    in the form of Smith et al., "Federated multi-task learning", NIPS 2017, and of q-FFL: each sensor is a user, and
    its features are standardised by its own means and deviations.  The file ``vehicle.mat`` (cells ``X`` and ``Y``,
    one for each sensor) is read from ``vehicle/`` in the cache (``NETFL_DATA``, or the user's cache folder); it is to
    be downloaded by hand and has no published sum: its form is checked.

    Example::

        kind: vehicle
    """

    split: Annotated[int, Field(ge=0)] = 0
    """Which of the random splits into training, validation and test examples."""

    @property
    def classes(self) -> int:
        """Two kinds of vehicles."""
        return 2

    @property
    def shape(self) -> tuple[int, ...]:
        """A hundred features."""
        return (_FEATURES,)

    def load(self, streams: Streams) -> Dataset:
        """Read the file and split each sensor's recordings."""
        (file,) = cache.contents("vehicle")
        x, y, user = read(file)
        rng = Streams(self.seed).rng("vehicle", "split", self.split)
        return split_dataset(x, y, user, split_by_user(user, self.validation_share, self.test_share, rng), self.classes)

    def laws(self) -> tuple[Law, ...]:
        """Only the split is drawn."""
        return (Law.none("a fixed set; a random permutation splits it"),)


def read(file: cache.FileContent) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Standardised features, labels and sensors.

    Raises:
        MachineError: the file holds something else.
    """
    cells = [column.ravel().tolist() for column in arrays(file, ("X", "Y"))]
    x, y = ([np.asarray(cell, float) for cell in column] for column in cells)
    fits = [
        one.shape == (labels.size, _FEATURES) and set(labels.ravel()) <= {-1, 1}
        for one, labels in zip(x, y, strict=False)
    ]
    if len(x) != len(y) or not x or not all(fits):
        raise MachineError(f"{file.path} does not hold {_FEATURES} features and labels -1 or 1 of each sensor")
    user = np.repeat(np.arange(len(y)), [labels.size for labels in y])
    labels = np.concatenate([one.ravel() for one in y])
    return np.concatenate([standardised(one) for one in x]), (labels > 0).astype(np.int64), user


def standardised(x: NDArray[np.float64]) -> NDArray[np.float32]:
    """Each column less its mean, over its standard deviation; 0 where it is constant."""
    spread = x.std(axis=0)
    return np.asarray((x - x.mean(axis=0)) / np.where(spread > 0, spread, 1), np.float32)
