"""MNIST: handwritten digits."""

from __future__ import annotations

import gzip
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from netfl.learning.data._download import FileContent, read_files
from netfl.learning.data._images import Images, ImageSet


class Mnist(Images):
    """MNIST: 60,000 handwritten digits for training and 10,000 for testing, 28 x 28 pixels of 256 levels of grey.

    LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document recognition", Proc. IEEE, 1998.
    Files: ``mnist/`` in the cache, from ``netfl data fetch mnist``.

    Example::

        kind: mnist
        train_scale: raw
        test_scale: unit
    """

    shape: ClassVar[tuple[int, ...]] = (1, 28, 28)
    source: ClassVar[str] = "mnist"
    """The set's name in the cache."""

    def read_images(self) -> ImageSet:
        train_x, train_y, test_x, test_y = map(read_idx, read_files(self.source))
        return ImageSet(train_x[:, None], train_y.astype(np.int64), test_x[:, None], test_y.astype(np.int64))


def read_idx(file: FileContent) -> NDArray[np.uint8]:
    """Read the array of a gzipped IDX file of unsigned bytes.

    The format: two zero bytes, the type of the elements, the number of dimensions, each dimension as a 32-bit
    big-endian number, then the elements in row-major order.
    """
    content = gzip.decompress(file.data)
    shape = np.frombuffer(content, ">u4", count=content[3], offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + shape.nbytes).reshape(shape)
