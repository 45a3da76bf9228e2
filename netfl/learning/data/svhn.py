"""SVHN: house numbers."""

from __future__ import annotations

import io

import numpy as np

from netfl.learning.data._download import read_files
from netfl.learning.data._images import Images, ImageSet


class Svhn(Images):
    """SVHN: 73,257 colour images of digits in house numbers for training, 26,032 for testing, 32 x 32 pixels.

    Netzer et al., "Reading digits in natural images with unsupervised feature learning", NIPS workshop, 2011.  Labels
    are the digits 0 to 9.  Files: ``svhn/`` in the cache, downloaded by hand.

    Example::

        kind: svhn
    """

    def read_images(self) -> ImageSet:
        from scipy.io import loadmat

        parts = []
        for file in read_files("svhn"):
            arrays = loadmat(io.BytesIO(file.data))  # pixels [rows, columns, channels, images], and 10 for the digit 0
            parts.append(np.ascontiguousarray(arrays["X"].transpose(3, 2, 0, 1)))
            parts.append(arrays["y"].ravel().astype(np.int64) % 10)
        return ImageSet(*parts)
