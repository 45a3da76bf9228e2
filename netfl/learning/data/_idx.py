"""Image sets in the IDX format, as MNIST and its kin are published."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from netfl.errors import MachineError
from netfl.learning.data import Data, Dataset
from netfl.learning.data import _cache as cache
from netfl.streams import Streams
from netfl.types import Law

_UNSIGNED_BYTE = 8


class IdxImages(Data):
    """Grey images of 28 x 28 pixels with ten labels, in the four files of a published set."""

    source: ClassVar[str]
    """The set's name in the cache."""

    train_scale: Literal["unit", "raw"] = "unit"
    """``unit`` divides the pixels of the training images by 255, so that they run from 0 to 1; ``raw`` leaves them."""
    test_scale: Literal["unit", "raw"] = "unit"
    """The same for the test images."""

    @property
    def classes(self) -> int:
        """Ten labels."""
        return 10

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, rows and columns."""
        return (1, 28, 28)

    def load(self, streams: Streams) -> Dataset:
        """Read the four files from the cache; nothing is drawn."""
        paths = cache.paths(self.source)
        train_x, train_y, test_x, test_y = (read(path) for path in paths)
        return Dataset(
            _scaled(train_x, self.train_scale).reshape(-1, *self.shape),
            train_y.astype(np.int64),
            _scaled(test_x, self.test_scale).reshape(-1, *self.shape),
            test_y.astype(np.int64),
            self.classes,
        )

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("a fixed set: nothing is drawn"),)


def read(path: Path) -> NDArray[np.uint8]:
    """The array in a gzipped IDX file of unsigned bytes.

    The format: two zero bytes, the type of the elements, the number of dimensions, each dimension as a 32-bit
    big-endian number, then the elements in row-major order.

    Raises:
        MachineError: the file cannot be read, or is no such file, or is cut.
    """
    try:
        with gzip.open(path) as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise MachineError(f"{path} cannot be read: {error}") from error
    if len(content) < 4 or content[:3] != bytes([0, 0, _UNSIGNED_BYTE]):
        raise MachineError(
            f"{path} is no IDX file of unsigned bytes: it starts with {content[:4].hex(' ') or 'nothing'}"
        )
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise MachineError(f"{path} is cut: it ends within its head")
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    if len(content) - start != math.prod(shape):
        raise MachineError(f"{path} holds {len(content) - start} elements where its head says {math.prod(shape)}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _scaled(pixels: NDArray[np.uint8], scale: str) -> NDArray[np.float32]:
    """The pixels as numbers."""
    x = pixels.astype(np.float32)
    if scale == "unit":
        x /= 255
    return x
