"""Glad or sad, by the words of a tweet: Sentiment140."""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter
from typing import Annotated

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.errors import MachineError
from netfl.learning.data import Dataset
from netfl.learning.data import _download as cache
from netfl.learning.data._formats import Glove
from netfl.learning.data._splits import OfUsers, choose_users, split_by_user, split_dataset
from netfl.streams import Streams
from netfl.types import Law

_FILE = "training.1600000.processed.noemoticon.csv"
_COLUMNS = ["polarity", "id", "date", "query", "user", "text"]
_VOCABULARY = 10_000
_WORD = re.compile(r"[\w']+|[.,!?;]")


class Sent140(OfUsers):
    """Sentiment140: tweets as rows of words, by number; label 1 is a glad one, and each account is a user.

    Go, Bhayani and Huang, "Twitter sentiment classification using distant supervision", Stanford, 2009.  The words of
    a tweet, in small letters, and its marks ``. , ! ? ;`` are tokens; a tweet is cut, or filled with 0, to ``words``
    of them.  Words are numbered from 1 by how often the training examples have them, as far as ``vocabulary`` goes; all
    others are 0.  With ``glove`` a tweet is the mean of the vectors of its words in its place, which linear models and
    MLPs can learn from.
    The published archive ``trainingandtestdata.zip`` is read from ``sent140/`` in the cache (``NETFL_DATA``, or the
    user's cache folder) and checked against its SHA-256; ``netfl data fetch sent140`` gets it.

    Example::

        kind: sent140
        users: 1101
        least: 30
    """

    users: Annotated[int, Field(ge=1)] | None = None
    """How many accounts to choose at random; all by default."""
    least: Annotated[int, Field(ge=1)] = 30
    """Accounts with fewer tweets are left out."""
    words: Annotated[int, Field(ge=1)] = 25
    """How many words of a tweet count."""
    vocabulary: Annotated[int, Field(ge=2)] | None = None
    """How many tokens there are, 0 for unknown words included; 10,000 by default.  Not beside ``glove``."""
    glove: Glove | None = None
    """Vectors of words, ``{file: glove.6B.300d.txt, dimensions: 300}``, in place of tokens."""
    split: Annotated[int, Field(ge=0)] = 0
    """Which of the random splits into training, validation and test examples."""

    @model_validator(mode="after")
    def _one_form(self) -> Sent140:
        """Refuse a number of tokens where there are none."""
        if self.glove is not None and self.vocabulary is not None:
            raise ValueError("vocabulary has no effect beside glove: leave it out")
        return self

    @property
    def classes(self) -> int:
        """Sad and glad."""
        return 2

    @property
    def shape(self) -> tuple[int, ...]:
        """The words of a tweet, or the numbers of a vector."""
        return (self.words if self.glove is None else self.glove.dimensions,)

    @property
    def tokens(self) -> int | None:
        """The words that are told apart, and 0."""
        return None if self.glove is not None else self.vocabulary or _VOCABULARY

    def load(self, streams: Streams) -> Dataset:
        """Read the archive, choose accounts, split their tweets, and number the words."""
        (file,) = cache.contents("sent140")
        own = Streams(self.seed).at("sent140")
        tweets = read(file)
        names, account = np.unique(tweets["user"].to_numpy(str), return_inverse=True)
        taken = choose_users(np.bincount(account), self.least, self.users, own.rng("users"))
        number = np.full(len(names), -1)
        number[taken] = np.arange(len(taken))
        rows = np.flatnonzero(number[account] >= 0)
        user, y = number[account[rows]], (tweets["polarity"].to_numpy()[rows] > 0).astype(np.int64)
        parts = split_by_user(user, self.validation_share, self.test_share, own.rng("split", self.split))
        texts = [_WORD.findall(text.lower())[: self.words] for text in tweets["text"].iloc[rows]]
        x = self._numbered(texts, parts[0]) if self.glove is None else self.glove.means(texts)
        return split_dataset(x, y, user, parts, self.classes)

    def laws(self) -> tuple[Law, ...]:
        """Only who is chosen, and the split, are drawn."""
        return (Law.none("a fixed set; random choices without repetition choose accounts and split their tweets"),)

    def _numbered(self, texts: list[list[str]], train: NDArray[np.int64]) -> NDArray[np.float32]:
        """Tweets as tokens; words are numbered by how often *train* have them, then by the alphabet."""
        count = Counter(word for row in train for word in texts[row])
        order = sorted(count, key=lambda word: (-count[word], word))[: (self.vocabulary or _VOCABULARY) - 1]
        number = {word: at for at, word in enumerate(order, 1)}
        x = np.zeros((len(texts), self.words), np.float32)
        for row, words in enumerate(texts):
            x[row, : len(words)] = [number.get(word, 0) for word in words]
        return x


def read(file: cache.FileContent) -> pd.DataFrame:
    """The tweets of the training file in the archive.

    Raises:
        MachineError: it is no such archive.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(file.data)) as archive, archive.open(_FILE) as table:
            tweets = pd.read_csv(table, header=None, names=_COLUMNS, encoding="latin-1", keep_default_na=False)
    except Exception as error:  # whatever a broken file makes of the readers
        raise MachineError(f"{file.path} cannot be read as the archive of Sentiment140: {error}") from error
    if not set(tweets["polarity"]) <= {0, 4}:
        raise MachineError(f"{file.path} holds polarities other than 0 and 4 in {_FILE}")
    return tweets
