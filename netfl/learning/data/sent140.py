"""Sentiment140: positive and negative tweets."""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from typing import Annotated, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from netfl.core.spec import NotWith, Spec
from netfl.errors import Fault
from netfl.files import open_text
from netfl.learning.data import Dataset, Examples
from netfl.learning.data._download import read_files
from netfl.learning.data._splits import PerUserData, choose_users, split_by_user, split_dataset
from netfl.learning.data._user_files import DataFile, raise_fault
from netfl.streams import Streams
from netfl.types import Ints, ScenarioFacts

_FILE = "training.1600000.processed.noemoticon.csv"
_COLUMNS = ["polarity", "id", "date", "query", "user", "text"]
_VOCABULARY = 10_000
_WORD = re.compile(r"[\w']+|[.,!?;]")


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
            yield Fault("file", "the file does not exist", str(self.file), remedy)

    def mean_vectors(self, texts: Sequence[Sequence[str]]) -> NDArray[np.float32]:
        """Return the mean of the vectors of each text's words, ``[texts, dimensions]``; 0 if no word has a vector."""
        vectors = dict(self._read_vectors({word for text in texts for word in text}))
        means = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in enumerate(texts):
            of_words = [vectors[word] for word in text if word in vectors]
            if of_words:
                means[row] = np.array(of_words).mean(axis=0)
        return means

    def _read_vectors(self, words: Set[str]) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Yield the vectors of *words*; raise a ScenarioError if the file cannot be read or has other vectors."""
        try:
            with open_text(self.file, is_limited=False) as lines:
                for number, line in enumerate(lines, 1):
                    word, *values = line.rstrip().rsplit(" ", self.dimensions)
                    if len(values) < self.dimensions or (number == 1 and " " in word):  # some later words have blanks
                        problem = f"line {number} of {self.file} has {len(line.split()) - 1} numbers"
                        remedy = "set its number of dimensions, or download it again"
                        raise_fault("glove.dimensions", problem, self.dimensions, remedy)
                    if word in words:
                        yield word, np.array(values, np.float32)
        except (OSError, ValueError) as error:
            raise_fault("glove.file", f"cannot be read: {error}", str(self.file), "download it again")


class Sent140(PerUserData):
    """Sentiment140: tweets as rows of numbered words; label 1 is positive, and each account is a user.

    Go, Bhayani and Huang, "Twitter sentiment classification using distant supervision", Stanford, 2009.  The tokens are
    the words of a tweet in lower case and the marks ``. , ! ? ;``; a tweet is cut, or padded with 0, to ``max_words``
    of them.  Words are numbered from 1 by their frequency in the training examples, up to ``vocabulary``; all others
    are 0.  With ``glove`` an example is instead the mean of the tweet's word vectors, from which linear models and MLPs
    can learn.  Files: ``sent140/`` in the cache, from ``netfl data fetch sent140``.

    Example::

        kind: sent140
        users: 1101
        min_samples: 30
    """

    classes: ClassVar[int] = 2
    users: Annotated[int, Field(ge=1)] | None = None
    """Accounts to choose at random; all by default."""
    min_samples: Annotated[int, Field(ge=1)] = 30
    """Fewest tweets of an account; others are left out."""
    max_words: Annotated[int, Field(ge=1)] = 25
    """Words of a tweet that are used."""
    vocabulary: Annotated[Annotated[int, Field(ge=2)] | None, NotWith("glove")] = None
    """The number of tokens, including 0 for unknown words; 10,000 by default.  Not with ``glove``."""
    glove: Glove | None = None
    """Word vectors, ``{file: glove.6B.300d.txt, dimensions: 300}``, instead of tokens."""
    split: Annotated[int, Field(ge=0)] = 0
    """Number of the random split into training, validation and test examples."""

    @property
    def shape(self) -> tuple[int, ...]:
        if self.glove is not None:
            return (self.glove.dimensions,)
        return (self.max_words,)

    @property
    def tokens(self) -> int | None:
        """The size of the vocabulary, 0 included; ``None`` with word vectors."""
        if self.glove is not None:
            return None
        return self.vocabulary or _VOCABULARY

    def load(self, streams: Streams) -> Dataset:
        (file,) = read_files("sent140")
        draws = Streams(self.seed).at("sent140")
        with zipfile.ZipFile(io.BytesIO(file.data)) as archive, archive.open(_FILE) as table:
            tweets = pd.read_csv(table, header=None, names=_COLUMNS, encoding="latin-1", keep_default_na=False)
        # the tweets of some accounts, which become users 0, 1 and so on
        names, account = np.unique(tweets["user"].to_numpy(str), return_inverse=True)
        chosen = choose_users(np.bincount(account), self.min_samples, self.users, draws.rng("users"))
        user_of_account = np.full(len(names), -1)
        user_of_account[chosen] = np.arange(len(chosen))
        rows = np.flatnonzero(user_of_account[account] >= 0)
        user = user_of_account[account[rows]]
        y = (tweets["polarity"].to_numpy()[rows] > 0).astype(np.int64)

        rng = draws.rng("split", self.split)
        parts = split_by_user(user, self.validation_share, self.test_share, rng, self.test_rounding)
        texts = [_WORD.findall(text.lower())[: self.max_words] for text in tweets["text"].iloc[rows]]
        if self.glove is None:
            x = self._tokenize(texts, parts.train)
        else:
            x = self.glove.mean_vectors(texts)
        return split_dataset(Examples(x, y, user), parts, self.classes)

    def _tokenize(self, texts: list[list[str]], train: Ints) -> NDArray[np.float32]:
        """Number words by their frequency in the rows *train*, then alphabetically."""
        frequency = Counter(word for row in train for word in texts[row])
        ranked = sorted(frequency, key=lambda word: (-frequency[word], word))
        known_words = ranked[: (self.vocabulary or _VOCABULARY) - 1]  # 0 stands for all others
        token = {word: number for number, word in enumerate(known_words, 1)}
        x = np.zeros((len(texts), self.max_words), np.float32)
        for row, words in enumerate(texts):
            x[row, : len(words)] = [token.get(word, 0) for word in words]
        return x
