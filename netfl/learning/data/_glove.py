"""Vectors of words from a file of GloVe's form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.errors import Fault
from netfl.learning.data._own import DataFile, refuse
from netfl.registry import Spec
from netfl.types import Facts


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

    def faults(self, facts: Facts) -> Iterator[Fault]:
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
                        refuse("glove.dimensions", problem, self.dimensions, "say what they have")
                    if word in wanted:
                        yield word, self._vector(numbers, at)
        except (OSError, UnicodeDecodeError) as error:
            refuse("glove.file", f"cannot be read: {error}", str(self.file))

    def _vector(self, numbers: Sequence[str], at: int) -> NDArray[np.float32]:
        """The numbers of line *at*."""
        try:
            vector = np.array(numbers, np.float32)
        except ValueError:
            vector = np.zeros(0, np.float32)
        if len(vector) != self.dimensions or not np.isfinite(vector).all():
            refuse("glove.file", f"line {at} is no word and {self.dimensions} numbers", str(self.file), "get it again")
        return vector
