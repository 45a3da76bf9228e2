"""Vehicle: recordings of 23 sensors on a road."""

from __future__ import annotations

import io
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.errors import MachineError
from netfl.learning.data import Dataset, Examples
from netfl.learning.data._download import FileContent, read_files
from netfl.learning.data._splits import PerUserData, split_dataset
from netfl.streams import Streams
from netfl.types import Floats, Ints

_FEATURES = 100
_REMEDY = "remove it and download it again"


class Vehicle(PerUserData):
    """Vehicle: 43,695 recordings of 23 acoustic and seismic sensors, 100 features; labels are two kinds of vehicle.

    Duarte and Hu, "Vehicle classification in distributed sensor networks", J. Parallel and Distributed Computing, 2004,
    in the form of Smith et al., "Federated multi-task learning", NIPS 2017, and of q-FFL: each sensor is a user, and
    its features are standardised by its own means and deviations.  Files: ``vehicle/vehicle.mat`` in the cache,
    downloaded by hand (cells ``X`` and ``Y``, one for each sensor); it has no published checksum.

    Example::

        kind: vehicle
    """

    classes: ClassVar[int] = 2
    shape: ClassVar[tuple[int, ...]] = (_FEATURES,)
    split: Annotated[int, Field(ge=0)] = 0
    """Number of the random split into training, validation and test examples."""

    def load(self, streams: Streams) -> Dataset:
        (file,) = read_files("vehicle")
        x, y, user = read_recordings(file)
        rng = Streams(self.seed).rng("vehicle", "split", self.split)
        rows = self.split_users(user, rng)
        return split_dataset(Examples(x, y, user), rows, self.classes)


def read_recordings(file: FileContent) -> tuple[NDArray[np.float32], Ints, Ints]:
    """Return standardised features, labels and sensor numbers."""
    from scipy.io import loadmat

    try:
        arrays = loadmat(io.BytesIO(file.data))
        x = [np.asarray(sensor, float) for sensor in arrays["X"].ravel().tolist()]
        y = [np.asarray(sensor, float) for sensor in arrays["Y"].ravel().tolist()]
        fits = [features.shape == (labels.size, _FEATURES) for features, labels in zip(x, y, strict=True)]
    except Exception as error:  # a broken file can raise anything in loadmat
        problem = f"cannot be read as the cells X and Y of a MATLAB file: {error}"
        raise MachineError(f"{file.path} {problem}; {_REMEDY}") from error
    if not fits or not all(fits) or not set(np.concatenate(y).ravel()) <= {-1, 1}:
        problem = f"does not hold {_FEATURES} features and labels -1 or 1 of each sensor"
        raise MachineError(f"{file.path} {problem}; {_REMEDY}")
    user = np.repeat(np.arange(len(y)), [labels.size for labels in y])
    features = np.concatenate([_standardize(sensor) for sensor in x])
    signs = np.concatenate([sensor.ravel() for sensor in y])
    return features, (signs > 0).astype(np.int64), user


def _standardize(x: Floats) -> NDArray[np.float32]:
    """Standardise each column; constant columns become 0."""
    deviation = x.std(axis=0)
    divisor = np.where(deviation > 0, deviation, 1)
    return np.asarray((x - x.mean(axis=0)) / divisor, np.float32)
