"""Readers of file formats: IDX, CIFAR records, MATLAB arrays and GloVe vectors."""

from __future__ import annotations

import io
import math
import struct
import tarfile
import zlib
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.errors import Fault, MachineError
from netfl.learning.data._download import FileContent, read_files, unpack
from netfl.learning.data._images import Images, ImageSet
from netfl.learning.data._user_files import DataFile, raise_fault
from netfl.registry import Spec
from netfl.types import ScenarioFacts

_UNSIGNED_BYTE = 8
_CIFAR_SHAPE = (3, 32, 32)


class IdxImages(Images):
    """Grey images of 28 x 28 pixels with ten labels, in the four files of MNIST."""

    shape: ClassVar[tuple[int, ...]] = (1, 28, 28)
    source: ClassVar[str]
    """The set's name in the cache."""

    def read_images(self) -> ImageSet:
        train_x, train_y, test_x, test_y = (read_idx(file) for file in read_files(self.source))
        return ImageSet(
            train_x.reshape(-1, *self.shape),
            train_y.astype(np.int64),
            test_x.reshape(-1, *self.shape),
            test_y.astype(np.int64),
        )


def read_idx(file: FileContent) -> NDArray[np.uint8]:
    """Read the array of a gzipped IDX file of unsigned bytes.

    The format: two zero bytes, the type of the elements, the number of dimensions, each dimension as a 32-bit
    big-endian number, then the elements in row-major order.

    Raises:
        MachineError: the file is not an IDX file, or is cut.
    """
    path = file.path
    try:
        content = unpack(file.data)
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


def extract_members(archive: FileContent, names: Sequence[str]) -> list[FileContent]:
    """Extract the files of the given *names* from a gzipped tar archive, whatever folder they are in.

    Raises:
        MachineError: the archive cannot be read, or lacks one of the files.
    """
    members: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive.data), mode="r:gz") as tar:
            for member in tar:
                file = tar.extractfile(member) if Path(member.name).name in names else None
                if file is not None:
                    members[Path(member.name).name] = file.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise MachineError(f"{archive.path} cannot be read: {error}") from error
    _require_names(archive.path, names, members)
    return [FileContent(archive.path / name, members[name]) for name in names]


def read_cifar_records(
    files: Sequence[FileContent], label_bytes: int, label: int = 0
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read images and labels from CIFAR's binary records: label bytes, then 3 x 32 x 32 bytes of pixels.

    Args:
        files: files of records, which are concatenated.
        label_bytes: labels before each image.
        label: the place of the label to return among them.

    Raises:
        MachineError: a file ends within a record.
    """
    size = label_bytes + math.prod(_CIFAR_SHAPE)
    for path, data in files:
        if len(data) % size or not data:
            raise MachineError(f"{path} holds {len(data)} bytes, which are no whole records of {size}")
    rows = np.concatenate([np.frombuffer(data, np.uint8).reshape(-1, size) for _, data in files])
    return rows[:, label_bytes:].reshape(-1, *_CIFAR_SHAPE), rows[:, label].astype(np.int64)


def read_matlab(file: FileContent, names: Sequence[str]) -> list[NDArray[Any]]:
    """Read the arrays of the given *names* from a MATLAB file.

    Raises:
        MachineError: the file cannot be read, or lacks one of the arrays.
    """
    from scipy.io import loadmat

    try:
        arrays = loadmat(io.BytesIO(file.data))
    except Exception as error:  # a broken file can raise anything in loadmat
        raise MachineError(f"{file.path} cannot be read as a MATLAB file: {error}") from error
    _require_names(file.path, names, arrays)
    return [np.asarray(arrays[name]) for name in names]


def _require_names(path: Path, names: Sequence[str], available: dict[str, Any]) -> None:
    missing = [name for name in names if name not in available]
    if missing:
        raise MachineError(f"{path} does not hold {', '.join(missing)}")


class Glove(Spec):
    """Word vectors: a text becomes the mean of the vectors of its words; words without a vector are ignored.

    Pennington, Socher and Manning, "GloVe: global vectors for word representation", EMNLP 2014.  The file has a line
    for each word: the word and its numbers, separated by spaces; such as ``glove.6B.300d.txt`` of the archive
    ``glove.6B.zip`` at https://nlp.stanford.edu/projects/glove/ (Public Domain Dedication and License).
    """

    file: DataFile
    """The vectors; a relative path starts at the current directory."""
    dimensions: Annotated[int, Field(ge=1)]
    """Length of the vectors; the file must agree."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if not self.file.is_file():
            remedy = "unpack one of glove.6B.zip, from https://nlp.stanford.edu/projects/glove/"
            yield Fault("file", "there is no such file", str(self.file), remedy)

    def mean_vectors(self, texts: Sequence[Sequence[str]]) -> NDArray[np.float32]:
        """Return the mean of the vectors of each text's words, ``[texts, dimensions]``; 0 if no word has a vector."""
        vectors = dict(self._read_vectors({word for text in texts for word in text}))
        means = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in enumerate(texts):
            known = [vectors[word] for word in text if word in vectors]
            if known:
                means[row] = np.array(known).mean(axis=0)
        return means

    def _read_vectors(self, words: Set[str]) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Yield the vectors of *words*; raise a ScenarioError if the file cannot be read or has other vectors."""
        try:
            with self.file.open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, 1):
                    word, *values = line.rstrip().rsplit(" ", self.dimensions)
                    if number == 1 and (" " in word or len(values) < self.dimensions):
                        problem = f"{self.file} has vectors of {len(line.split()) - 1} numbers"
                        raise_fault("glove.dimensions", problem, self.dimensions, "say what they have")
                    if word in words:
                        yield word, self._parse_vector(values, number)
        except (OSError, UnicodeDecodeError) as error:
            raise_fault("glove.file", f"cannot be read: {error}", str(self.file))

    def _parse_vector(self, values: Sequence[str], line: int) -> NDArray[np.float32]:
        try:
            vector = np.array(values, np.float32)
        except ValueError:
            vector = np.zeros(0, np.float32)
        if len(vector) != self.dimensions or not np.isfinite(vector).all():
            problem = f"line {line} is no word and {self.dimensions} numbers"
            raise_fault("glove.file", problem, str(self.file), "get it again")
        return vector
