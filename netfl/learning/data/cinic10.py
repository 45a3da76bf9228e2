"""More pictures with the labels of CIFAR-10: CINIC-10."""

from __future__ import annotations

import io
import tarfile
import zlib
from pathlib import PurePosixPath

import numpy as np

from netfl.errors import MachineError
from netfl.learning.data import _download as cache
from netfl.learning.data._images import Images, Pictures

_KINDS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_PARTS = ("train", "valid", "test")


class Cinic10(Images):
    """CINIC-10: 90,000 colour pictures of 32 x 32 pixels to train on, as many to validate and to test with.

    Darlow, Crowley, Antoniou and Storkey, "CINIC-10 is not ImageNet or CIFAR-10", arXiv:1810.03505.  The labels are
    those of CIFAR-10.  The published archive ``CINIC-10.tar.gz`` (https://doi.org/10.7488/ds/2448) is read from
    ``cinic-10/`` in the cache (``NETFL_DATA``, or the user's cache folder) and checked against its MD5; it is to be
    downloaded by hand.  The order of the pictures is that of their labels and then of their names.

    Example::

        kind: cinic10
    """

    with_validation: bool = False
    """Whether the pictures for validation are trained on, too; they are left out by default."""

    def pictures(self) -> Pictures:
        """Read the archive."""
        (archive,) = cache.contents("cinic10")
        train = ("train", "valid") if self.with_validation else ("train",)
        found = _decoded(archive, (*train, "test"))
        parts = []
        for wanted in (train, ("test",)):
            keys = sorted(key for key in found if key[0] in wanted)
            if not keys:
                raise MachineError(f"{archive.path} holds no pictures for {wanted[0]}")
            parts += [np.stack([found[key] for key in keys]), np.array([key[1] for key in keys])]
        return Pictures(*parts)


def _decoded(archive: cache.FileContent, parts: tuple[str, ...]) -> dict[tuple[str, int, str], np.ndarray]:
    """The pictures of those *parts* in the archive, by part, label and name."""
    from PIL import Image

    found = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive.data), mode="r:gz") as tar:
            for member in tar:
                part, kind, name = ("", "", "", *PurePosixPath(member.name).parts)[-3:]
                file = tar.extractfile(member) if part in parts and kind in _KINDS else None
                if file is not None:
                    pixels = np.asarray(Image.open(file).convert("RGB"))
                    found[part, _KINDS.index(kind), name] = _checked(pixels, member.name, archive)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise MachineError(f"{archive.path} cannot be read: {error}") from error
    return found


def _checked(pixels: np.ndarray, name: str, archive: cache.FileContent) -> np.ndarray:
    """The pixels of one picture, ``[channels, rows, columns]``."""
    if pixels.shape != (32, 32, 3):
        raise MachineError(f"{archive.path / name} has {pixels.shape[0]} x {pixels.shape[1]} pixels, not 32 x 32")
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))
