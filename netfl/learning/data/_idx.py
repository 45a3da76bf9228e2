"""Image sets in the IDX format, as MNIST and its kin are published."""

from __future__ import annotations

import math
import struct
import zlib
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from netfl.errors import MachineError
from netfl.learning.data import _cache as cache
from netfl.learning.data._images import Images, Pictures

_UNSIGNED_BYTE = 8


class IdxImages(Images):
    """Grey images of 28 x 28 pixels with ten labels, in the four files of a published set."""

    source: ClassVar[str]
    """The set's name in the cache."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, rows and columns."""
        return (1, 28, 28)

    def pictures(self) -> Pictures:
        """Read the four files."""
        train_x, train_y, test_x, test_y = (read(*content) for content in cache.contents(self.source))
        return Pictures(
            train_x.reshape(-1, *self.shape),
            train_y.astype(np.int64),
            test_x.reshape(-1, *self.shape),
            test_y.astype(np.int64),
        )


def read(path: Path, packed: bytes) -> NDArray[np.uint8]:
    """The array in a gzipped IDX file of unsigned bytes.

    The format: two zero bytes, the type of the elements, the number of dimensions, each dimension as a 32-bit
    big-endian number, then the elements in row-major order.

    Args:
        path: the file, for messages.
        packed: what it holds.

    Raises:
        MachineError: it is no such file, or is cut.
    """
    try:
        content = cache.unpacked(packed)
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
    try:
        return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
    except ValueError as error:
        raise MachineError(f"{path} has a head that no array can have: {error}") from None
