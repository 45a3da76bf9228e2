"""CINIC-10: more images with the labels of CIFAR-10."""

from __future__ import annotations

import io
from pathlib import PurePosixPath

import numpy as np

from netfl.learning.data._archives import read_archive
from netfl.learning.data._download import FileContent, read_files
from netfl.learning.data._images import Images, ImageSet

_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


class Cinic10(Images):
    """CINIC-10: 90,000 colour images of 32 x 32 pixels for training, and as many for validation and testing.

    Darlow, Crowley, Antoniou and Storkey, "CINIC-10 is not ImageNet or CIFAR-10", arXiv:1810.03505.  The labels are
    those of CIFAR-10.  Files: ``cinic-10/`` in the cache, downloaded by hand.  Images are ordered by label and then by
    name.

    Example::

        kind: cinic10
    """

    include_validation: bool = False
    """Add the validation images to the training images; they are left out by default."""

    def read_images(self) -> ImageSet:
        (archive,) = read_files("cinic10")
        train = ("train", "valid") if self.include_validation else ("train",)
        images = _decode_images(archive, (*train, "test"))
        parts = []
        for folders in (train, ("test",)):
            keys = sorted(key for key in images if key[0] in folders)
            parts.append(np.stack([images[key] for key in keys]))
            parts.append(np.array([label for _, label, _ in keys]))
        return ImageSet(*parts)


def _decode_images(archive: FileContent, folders: tuple[str, ...]) -> dict[tuple[str, int, str], np.ndarray]:
    """Return the images ``[channels, rows, columns]`` of the given *folders* by folder, label and name."""
    from PIL import Image

    def is_wanted(path: PurePosixPath) -> bool:
        folder, label, _ = ("", "", "", *path.parts)[-3:]
        return folder in folders and label in _CLASSES

    images = {}
    for path, data in read_archive(archive, is_wanted):
        pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        folder, label, name = path.parts[-3:]
        images[folder, _CLASSES.index(label), name] = np.ascontiguousarray(pixels.transpose(2, 0, 1))
    return images
