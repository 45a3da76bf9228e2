"""What comes next in a play: Shakespeare's roles."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.learning.data import Dataset
from netfl.learning.data import _cache as cache
from netfl.learning.data._plays_text import LETTERS, roles
from netfl.learning.data._split import divided, wholes
from netfl.learning.data._users import OfUsers, chosen
from netfl.streams import Streams
from netfl.types import Law

_LENGTH = 80
_TOKEN = np.array([LETTERS.find(chr(code)) for code in range(128)])


class Shakespeare(OfUsers):
    """The plays of Shakespeare: 80 letters that a role says, as tokens, and the letter that follows as the label.

    LEAF's task (Caldas et al., "LEAF: a benchmark for federated settings", arXiv:1812.01097) and its alphabet of 80
    letters; each role of each play is a user, for ``partition: natural``.  A role's lines of at least three are joined
    into one text, and every place in it from the 81st letter on gives an example.  The first of a role's examples are
    for training, then come those for validation and for testing; as in LEAF the 79 examples after each cut are left
    out, so that no letter that is asked for has been seen as context.  It is not LEAF's text but another edition: the
    files ``plays/*.txt`` are read from ``shakespeare/`` in the cache (``NETFL_DATA``, or the user's cache folder),
    perhaps packed (``.gz``), and checked against their SHA-256; they are to be downloaded by hand.

    Example::

        kind: shakespeare
        users: 31
        least: 64
    """

    users: Annotated[int, Field(ge=1)] | None = None
    """How many roles to choose at random; all by default."""
    least: Annotated[int, Field(ge=1)] = 64
    """Roles that give fewer examples are left out."""

    @property
    def classes(self) -> int:
        """The letters."""
        return len(LETTERS)

    @property
    def shape(self) -> tuple[int, ...]:
        """The letters before."""
        return (_LENGTH,)

    @property
    def tokens(self) -> int:
        """The letters."""
        return len(LETTERS)

    def load(self, streams: Streams) -> Dataset:
        """Read the plays and cut each role's text."""
        said = [text for file in cache.contents("shakespeare") for text in roles(file.data.decode("ascii")).values()]
        sizes = np.array([max(len(text) - _LENGTH, 0) for text in said])
        taken = chosen(sizes, self.least, self.users, Streams(self.seed).rng("shakespeare", "users"))
        x, y = (np.concatenate(parts) for parts in zip(*(examples(said[role]) for role in taken), strict=True))
        user = np.repeat(np.arange(len(taken)), sizes[taken])
        return divided(x, y, user, self._rows(sizes[taken]), self.classes)

    def laws(self) -> tuple[Law, ...]:
        """Only who is chosen is drawn."""
        return (Law.none("a fixed set; a random choice without repetition of its roles"),)

    def _rows(self, sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Training, validation and test rows: one after the other in each role's text, with gaps."""
        test, validation = wholes(sizes, self.test_share), wholes(sizes, self.validation_share)
        place = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        first, second = (np.repeat(cut, sizes) for cut in (sizes - test - validation, sizes - test))
        gap = np.where(first < second, _LENGTH - 1, 0)
        train, between = place < first, (place >= first + gap) & (place < second)
        later = place >= second + _LENGTH - 1
        return np.flatnonzero(train), np.flatnonzero(between), np.flatnonzero(later)


def examples(text: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The 80 letters before each place of *text*, and the letter there."""
    letters = _TOKEN[np.frombuffer(text.encode("ascii"), np.uint8)]
    windows = np.lib.stride_tricks.sliding_window_view(letters[:-1], _LENGTH)
    return windows.astype(np.float32), letters[_LENGTH:]
