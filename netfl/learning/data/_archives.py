"""Readers of archives and file formats in which sets are published; the files have been checked by their checksum."""

from __future__ import annotations

import io
import math
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from netfl.learning.data._download import FileContent
from netfl.types import Ints

_CIFAR_SHAPE = (3, 32, 32)


def read_archive(archive: FileContent, is_wanted: Callable[[PurePosixPath], bool]) -> Iterator[FileContent]:
    """Yield the wanted files of a gzipped tar archive; their paths are those in the archive."""
    with tarfile.open(fileobj=io.BytesIO(archive.data), mode="r:gz") as tar:
        for member in tar:
            if not is_wanted(PurePosixPath(member.name)):
                continue
            file = tar.extractfile(member)
            if file is not None:  # not a folder
                yield FileContent(Path(member.name), file.read())


def extract_members(archive: FileContent, names: Sequence[str]) -> list[FileContent]:
    """Extract the files of the given *names* from a gzipped tar archive, whatever folder they are in."""
    members = {file.path.name: file for file in read_archive(archive, lambda path: path.name in names)}
    return [members[name] for name in names]


def read_cifar_records(
    files: Sequence[FileContent], label_bytes: int, label: int = 0
) -> tuple[NDArray[np.uint8], Ints]:
    """Read images and labels from CIFAR's binary records: label bytes, then 3 x 32 x 32 bytes of pixels.

    Args:
        files: files of records, which are concatenated.
        label_bytes: labels before each image.
        label: the place of the label to return among them.
    """
    rows = np.concatenate([np.frombuffer(file.data, np.uint8) for file in files])
    rows = rows.reshape(-1, label_bytes + math.prod(_CIFAR_SHAPE))
    images = rows[:, label_bytes:].reshape(-1, *_CIFAR_SHAPE)
    return images, rows[:, label].astype(np.int64)
