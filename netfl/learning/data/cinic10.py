"""CINIC-10: more images with the labels of CIFAR-10."""

from __future__ import annotations

import io
import tarfile
import zlib
from pathlib import Path, PurePosixPath

import numpy as np

from netfl.errors import MachineError
from netfl.learning.data._download import FileContent, read_files
from netfl.learning.data._images import Images, ImageSet

_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


class Cinic10(Images):
    """CINIC-10: 90,000 colour images of 32 x 32 pixels for training, and as many for validation and testing.

    Darlow, Crowley, Antoniou and Storkey, "CINIC-10 is not ImageNet or CIFAR-10", arXiv:1810.03505.  The labels are
    those of CIFAR-10.  The published archive ``CINIC-10.tar.gz`` (https://doi.org/10.7488/ds/2448) is read from
    ``cinic-10/`` in the cache (``NETFL_DATA``, or the user's cache folder) and checked against its MD5; it must
    be downloaded by hand.  Images are ordered by label and then by name.

    Example::

        kind: cinic10
    """

    with_validation: bool = False
    """Add the validation images to the training images; they are left out by default."""

    def read_images(self) -> ImageSet:
        """Read the archive."""
        (archive,) = read_files("cinic10")
        train = ("train", "valid") if self.with_validation else ("train",)
        images = _decode_images(archive, (*train, "test"))
        parts = []
        for folders in (train, ("test",)):
            keys = sorted(key for key in images if key[0] in folders)
            if not keys:
                raise MachineError(f"{archive.path} holds no pictures for {folders[0]}")
            parts += [np.stack([images[key] for key in keys]), np.array([key[1] for key in keys])]
        return ImageSet(*parts)


def _decode_images(archive: FileContent, folders: tuple[str, ...]) -> dict[tuple[str, int, str], np.ndarray]:
    """Return the images ``[channels, rows, columns]`` of the given *folders* by folder, label and name."""
    from PIL import Image

    images = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive.data), mode="r:gz") as tar:
            for member in tar:
                folder, label, name = ("", "", "", *PurePosixPath(member.name).parts)[-3:]
                file = tar.extractfile(member) if folder in folders and label in _CLASSES else None
                if file is not None:
                    pixels = np.asarray(Image.open(file).convert("RGB"))
                    images[folder, _CLASSES.index(label), name] = _check_size(pixels, archive.path / member.name)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise MachineError(f"{archive.path} cannot be read: {error}") from error
    return images


def _check_size(pixels: np.ndarray, path: Path) -> np.ndarray:
    if pixels.shape != (32, 32, 3):
        raise MachineError(f"{path} has {pixels.shape[0]} x {pixels.shape[1]} pixels, not 32 x 32")
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))
