"""House numbers: SVHN."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netfl.errors import MachineError
from netfl.learning.data import _download as cache
from netfl.learning.data._formats import arrays
from netfl.learning.data._images import Images, Pictures


class Svhn(Images):
    """SVHN: 73,257 colour pictures of digits in house numbers to train on and 26,032 to test with, 32 x 32 pixels.

    Netzer et al., "Reading digits in natural images with unsupervised feature learning", NIPS workshop, 2011.  Labels
    are the digits 0 to 9.  The published files ``train_32x32.mat`` and ``test_32x32.mat`` are read from ``svhn/`` in
    the cache (``NETFL_DATA``, or the user's cache folder) and checked against their SHA-256; they
    are to be downloaded by hand.

    Example::

        kind: svhn
    """

    def pictures(self) -> Pictures:
        """Read the two files."""
        train, test = cache.contents("svhn")
        return Pictures(*read(train), *read(test))


def read(file: cache.FileContent) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The pictures and digits of one file, in which pixels are ``[rows, columns, channels, pictures]`` and 0 is a 10.

    Raises:
        MachineError: it holds something else.
    """
    x, y = arrays(file, ("X", "y"))
    if x.shape[:3] != (32, 32, 3) or x.shape[3:] != (y.size,) or x.dtype != np.uint8:
        raise MachineError(f"{file.path} holds pixels {x.dtype}{[*x.shape]} for {y.size} labels, not pictures of SVHN")
    return np.ascontiguousarray(x.transpose(3, 2, 0, 1)), y.ravel().astype(np.int64) % 10
