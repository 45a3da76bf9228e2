"""Sentiment140: positive and negative tweets."""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter
from typing import Annotated, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.errors import MachineError
from netfl.learning.data import Dataset, Examples
from netfl.learning.data._download import FileContent, read_files
from netfl.learning.data._formats import Glove
from netfl.learning.data._splits import PerUserData, choose_users, split_by_user, split_dataset
from netfl.streams import Streams
from netfl.types import Law

_FILE = "training.1600000.processed.noemoticon.csv"
_COLUMNS = ["polarity", "id", "date", "query", "user", "text"]
_VOCABULARY = 10_000
_WORD = re.compile(r"[\w']+|[.,!?;]")


class Sent140(PerUserData):
    """Sentiment140: tweets as rows of numbered words; label 1 is positive, and each account is a user.

    Go, Bhayani and Huang, "Twitter sentiment classification using distant supervision", Stanford, 2009.  The
    tokens are the words of a tweet in lower case and the marks ``. , ! ? ;``; a tweet is cut, or padded with 0, to
    ``words`` of them.  Words are numbered from 1 by their frequency in the training examples, up to ``vocabulary``; all
    others are 0.  With ``glove`` an example is instead the mean of the tweet's word vectors, from which linear models
    and MLPs can learn.
    The published archive ``trainingandtestdata.zip`` is read from ``sent140/`` in the cache (``NETFL_DATA``, or the
    user's cache folder) and checked against its SHA-256; ``netfl data fetch sent140`` downloads it.

    Example::

        kind: sent140
        users: 1101
        least: 30
    """

    classes: ClassVar[int] = 2
    users: Annotated[int, Field(ge=1)] | None = None
    """Accounts to choose at random; all by default."""
    least: Annotated[int, Field(ge=1)] = 30
    """Fewest tweets of an account; others are left out."""
    words: Annotated[int, Field(ge=1)] = 25
    """Words of a tweet that are used."""
    vocabulary: Annotated[int, Field(ge=2)] | None = None
    """The number of tokens, including 0 for unknown words; 10,000 by default.  Not with ``glove``."""
    glove: Glove | None = None
    """Word vectors, ``{file: glove.6B.300d.txt, dimensions: 300}``, instead of tokens."""
    split: Annotated[int, Field(ge=0)] = 0
    """Number of the random split into training, validation and test examples."""

    @model_validator(mode="after")
    def _check_vocabulary(self) -> Sent140:
        if self.glove is not None and self.vocabulary is not None:
            raise ValueError("vocabulary has no effect beside glove: leave it out")
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of words, or the length of a word vector."""
        return (self.words if self.glove is None else self.glove.dimensions,)

    @property
    def tokens(self) -> int | None:
        """The size of the vocabulary, 0 included; ``None`` with word vectors."""
        return None if self.glove is not None else self.vocabulary or _VOCABULARY

    def load(self, streams: Streams) -> Dataset:
        """Read the archive, choose accounts, split their tweets, and number the words."""
        (file,) = read_files("sent140")
        draws = Streams(self.seed).at("sent140")
        tweets = read_tweets(file)
        names, account = np.unique(tweets["user"].to_numpy(str), return_inverse=True)
        chosen = choose_users(np.bincount(account), self.least, self.users, draws.rng("users"))
        number = np.full(len(names), -1)
        number[chosen] = np.arange(len(chosen))
        rows = np.flatnonzero(number[account] >= 0)
        user, y = number[account[rows]], (tweets["polarity"].to_numpy()[rows] > 0).astype(np.int64)
        parts = split_by_user(user, self.validation_share, self.test_share, draws.rng("split", self.split))
        texts = [_WORD.findall(text.lower())[: self.words] for text in tweets["text"].iloc[rows]]
        x = self._tokenize(texts, parts.train) if self.glove is None else self.glove.mean_vectors(texts)
        return split_dataset(Examples(x, y, user), parts, self.classes)

    def laws(self) -> tuple[Law, ...]:
        """State that only the choice of accounts and the split are drawn."""
        return (Law.none("a fixed set; random choices without repetition choose accounts and split their tweets"),)

    def _tokenize(self, texts: list[list[str]], train: NDArray[np.int64]) -> NDArray[np.float32]:
        """Number words by their frequency in the rows *train*, then alphabetically."""
        count = Counter(word for row in train for word in texts[row])
        order = sorted(count, key=lambda word: (-count[word], word))[: (self.vocabulary or _VOCABULARY) - 1]
        number = {word: index for index, word in enumerate(order, 1)}
        x = np.zeros((len(texts), self.words), np.float32)
        for row, words in enumerate(texts):
            x[row, : len(words)] = [number.get(word, 0) for word in words]
        return x


def read_tweets(file: FileContent) -> pd.DataFrame:
    """Return the tweets of the training file in the archive.

    Raises:
        MachineError: the archive cannot be read.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(file.data)) as archive, archive.open(_FILE) as table:
            tweets = pd.read_csv(table, header=None, names=_COLUMNS, encoding="latin-1", keep_default_na=False)
    except Exception as error:  # a broken file can raise anything in the readers
        raise MachineError(f"{file.path} cannot be read as the archive of Sentiment140: {error}") from error
    if not set(tweets["polarity"]) <= {0, 4}:
        raise MachineError(f"{file.path} holds polarities other than 0 and 4 in {_FILE}")
    return tweets
