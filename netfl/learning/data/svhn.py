"""SVHN: house numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netfl.errors import MachineError
from netfl.learning.data._download import FileContent, read_files
from netfl.learning.data._formats import read_matlab
from netfl.learning.data._images import Images, ImageSet


class Svhn(Images):
    """SVHN: 73,257 colour images of digits in house numbers for training, 26,032 for testing, 32 x 32 pixels.

    Netzer et al., "Reading digits in natural images with unsupervised feature learning", NIPS workshop, 2011.  Labels
    are the digits 0 to 9.  The published files ``train_32x32.mat`` and ``test_32x32.mat`` are read from ``svhn/`` in
    the cache (``NETFL_DATA``, or the user's cache folder) and checked against their SHA-256; they
    must be downloaded by hand.

    Example::

        kind: svhn
    """

    def read_images(self) -> ImageSet:
        """Read the two files."""
        train, test = read_files("svhn")
        return ImageSet(*read_house_numbers(train), *read_house_numbers(test))


def read_house_numbers(file: FileContent) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return images and digits of a file with pixels ``[rows, columns, channels, images]`` and 10 for the digit 0.

    Raises:
        MachineError: the file has other content.
    """
    x, y = read_matlab(file, ("X", "y"))
    if x.shape[:3] != (32, 32, 3) or x.shape[3:] != (y.size,) or x.dtype != np.uint8:
        raise MachineError(f"{file.path} holds pixels {x.dtype}{[*x.shape]} for {y.size} labels, not pictures of SVHN")
    return np.ascontiguousarray(x.transpose(3, 2, 0, 1)), y.ravel().astype(np.int64) % 10
