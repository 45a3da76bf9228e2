"""Image sets in the IDX format, as MNIST and its kin are published."""

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
from netfl.learning.data import _download as cache
from netfl.learning.data._download import FileContent
from netfl.learning.data._images import Images, Pictures
from netfl.learning.data._user_files import DataFile, raise_fault
from netfl.registry import Spec
from netfl.types import ScenarioFacts

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


# Pictures in the binary form of CIFAR: records of label bytes and 3 x 32 x 32 bytes of pixels.


SHAPE = (3, 32, 32)
"""Colours, rows and columns."""
_PIXELS = 3 * 32 * 32


def archive_members(archive: FileContent, names: Sequence[str]) -> list[FileContent]:
    """The files of those *names* in a gzipped tar archive, without the folder that they lie in.

    Raises:
        MachineError: it is no such archive, or lacks one of them.
    """
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive.data), mode="r:gz") as tar:
            for member in tar:
                file = tar.extractfile(member) if Path(member.name).name in names else None
                if file is not None:
                    found[Path(member.name).name] = file.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise MachineError(f"{archive.path} cannot be read: {error}") from error
    missing = [name for name in names if name not in found]
    if missing:
        raise MachineError(f"{archive.path} does not hold {', '.join(missing)}")
    return [FileContent(archive.path / name, found[name]) for name in names]


def read_records(
    files: Sequence[FileContent], heads: int, label: int = 0
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The pictures and labels in *files*, one after the other.

    Args:
        files: files of records.
        heads: how many labels stand before each picture.
        label: which of them counts.

    Raises:
        MachineError: a file ends within a record.
    """
    size = heads + _PIXELS
    for path, data in files:
        if len(data) % size or not data:
            raise MachineError(f"{path} holds {len(data)} bytes, which are no whole records of {size}")
    rows = np.concatenate([np.frombuffer(data, np.uint8).reshape(-1, size) for _, data in files])
    return rows[:, heads:].reshape(-1, *SHAPE), rows[:, label].astype(np.int64)


# Vectors of words from a file of GloVe's form.


class Glove(Spec):
    """Vectors of words, by which a text becomes the mean of the vectors of its words; words without one do not count.

    Pennington, Socher and Manning, "GloVe: global vectors for word representation", EMNLP 2014.  The file has a line
    for each word: the word and its numbers, with spaces between them; such as ``glove.6B.300d.txt`` of the archive
    ``glove.6B.zip`` at https://nlp.stanford.edu/projects/glove/ (Public Domain Dedication and License).
    """

    file: DataFile
    """The vectors; a relative path starts at the current directory."""
    dimensions: Annotated[int, Field(ge=1)]
    """How many numbers a vector has; the file is held to it."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """A file that is not there."""
        if not self.file.is_file():
            remedy = "unpack one of glove.6B.zip, from https://nlp.stanford.edu/projects/glove/"
            yield Fault("file", "there is no such file", str(self.file), remedy)

    def means(self, texts: Sequence[Sequence[str]]) -> NDArray[np.float32]:
        """The mean of the vectors of each text's words, ``[texts, dimensions]``; 0 where none has one."""
        wanted = {word for text in texts for word in text}
        number = {word: at for at, word in enumerate(sorted(wanted))}
        vectors, known = np.zeros((len(wanted), self.dimensions), np.float32), np.zeros(len(wanted), bool)
        for word, vector in self._lines(wanted):
            vectors[number[word]], known[number[word]] = vector, True
        means = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in enumerate(texts):
            found = [number[word] for word in text if known[number[word]]]
            if found:
                means[row] = vectors[found].mean(axis=0)
        return means

    def _lines(self, wanted: Set[str]) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """The vectors of the words that are *wanted*.

        Raises:
            ScenarioError: the file cannot be read, or holds other vectors.
        """
        try:
            with self.file.open(encoding="utf-8") as lines:
                for at, line in enumerate(lines, 1):
                    word, *numbers = line.rstrip().rsplit(" ", self.dimensions)
                    if at == 1 and (" " in word or len(numbers) < self.dimensions):
                        problem = f"{self.file} has vectors of {len(line.split()) - 1} numbers"
                        raise_fault("glove.dimensions", problem, self.dimensions, "say what they have")
                    if word in wanted:
                        yield word, self._vector(numbers, at)
        except (OSError, UnicodeDecodeError) as error:
            raise_fault("glove.file", f"cannot be read: {error}", str(self.file))

    def _vector(self, numbers: Sequence[str], at: int) -> NDArray[np.float32]:
        """The numbers of line *at*."""
        try:
            vector = np.array(numbers, np.float32)
        except ValueError:
            vector = np.zeros(0, np.float32)
        if len(vector) != self.dimensions or not np.isfinite(vector).all():
            raise_fault(
                "glove.file", f"line {at} is no word and {self.dimensions} numbers", str(self.file), "get it again"
            )
        return vector


# Arrays in MATLAB's files.


def arrays(file: FileContent, names: Sequence[str]) -> list[NDArray[Any]]:
    """The arrays of those *names* in a MATLAB file.

    Raises:
        MachineError: it is no such file, or lacks one of them.
    """
    from scipy.io import loadmat

    try:
        found = loadmat(io.BytesIO(file.data))
    except Exception as error:  # whatever a broken file makes of the reader
        raise MachineError(f"{file.path} cannot be read as a MATLAB file: {error}") from error
    missing = [name for name in names if name not in found]
    if missing:
        raise MachineError(f"{file.path} does not hold {', '.join(missing)}")
    return [np.asarray(found[name]) for name in names]
