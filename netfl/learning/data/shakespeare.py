"""What comes next in a play: Shakespeare's roles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.learning.data import Dataset
from netfl.learning.data import _download as cache
from netfl.learning.data._splits import OfUsers, choose_users, split_dataset, whole_shares
from netfl.streams import Streams
from netfl.types import Law

# From the text of a play to what each of its roles says.


LETTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""LEAF's alphabet; a letter's token is its place in it."""
_DIRECTION = re.compile(r"\[[^\]]*?(\]|\n[ \t]*\n)")
_LINE = re.compile(r"([^\t]*)\t(.*)")
_HEADING = re.compile(r"(ACT|SCENE)\b")
_FEWEST_LINES = 3


def read_roles(text: str) -> dict[str, str]:
    """What each role says, in one line, by the role's name in capitals; roles of fewer than three lines are left out.

    A line that begins with a name and a tab opens a speech, lines that begin with a tab go on with it; a heading or two
    empty lines end it.  Stage directions, in brackets, are left out, and so is all before the line that says where the
    play is set; a text without such a line has no roles.
    """
    _, setting, body = text.partition("\nSCENE\t")
    said: dict[str, list[str]] = {}
    for role, line in _lines(body.partition("\n")[2]) if setting else ():
        said.setdefault(role, []).append(line)
    return {role: _joined(lines) for role, lines in said.items() if len(lines) >= _FEWEST_LINES}


def _lines(body: str) -> Iterator[tuple[str, str]]:
    """Each spoken line with its role."""
    role, empty = "", 0
    for line in _DIRECTION.sub(_marked, body).splitlines():
        found = _LINE.fullmatch(line)
        empty = 0 if line.strip() else empty + 1
        if _HEADING.match(line) or empty > 1:
            role = ""
        elif found is not None:
            role = found[1].strip(" :").upper() or role
            if role and found[2].strip(" \0"):
                yield role, found[2]


def _marked(direction: re.Match[str]) -> str:
    """What stands in a direction's place: a mark, so that its line is not empty; one without an end ends its part."""
    return "\0" if direction[1] == "]" else "\0\n\n"


def _joined(lines: list[str]) -> str:
    """Lines as one, of known letters, with single spaces."""
    known = "".join(letter for letter in " ".join(lines) if letter in LETTERS)
    return re.sub(r" {2,}", " ", known)


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
        said = [
            text for file in cache.contents("shakespeare") for text in read_roles(file.data.decode("ascii")).values()
        ]
        sizes = np.array([max(len(text) - _LENGTH, 0) for text in said])
        taken = choose_users(sizes, self.least, self.users, Streams(self.seed).rng("shakespeare", "users"))
        x, y = (np.concatenate(parts) for parts in zip(*(examples(said[role]) for role in taken), strict=True))
        user = np.repeat(np.arange(len(taken)), sizes[taken])
        return split_dataset(x, y, user, self._rows(sizes[taken]), self.classes)

    def laws(self) -> tuple[Law, ...]:
        """Only who is chosen is drawn."""
        return (Law.none("a fixed set; a random choice without repetition of its roles"),)

    def _rows(self, sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Training, validation and test rows: one after the other in each role's text, with gaps."""
        test, validation = whole_shares(sizes, self.test_share), whole_shares(sizes, self.validation_share)
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
