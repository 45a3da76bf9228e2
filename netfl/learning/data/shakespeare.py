"""Shakespeare: the next letter of a role's text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.learning.data import Dataset, Examples
from netfl.learning.data._download import read_files
from netfl.learning.data._splits import PerUserData, SplitRows, choose_users, held_out_sizes, split_dataset
from netfl.streams import Streams
from netfl.types import Ints

LETTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""LEAF's alphabet; a letter's token is its place in it."""
_TOKEN = np.array([LETTERS.find(chr(code)) for code in range(128)])
_LENGTH = 80
_MIN_LINES = 3
_DIRECTION = re.compile(r"\[[^\]]*?(\]|\n[ \t]*\n)")
_LINE = re.compile(r"([^\t]*)\t(.*)")
_HEADING = re.compile(r"(ACT|SCENE)\b")


class Shakespeare(PerUserData):
    """The plays of Shakespeare: 80 letters of a role's text as tokens, and the next letter as the label.

    LEAF's task (Caldas et al., "LEAF: a benchmark for federated settings", arXiv:1812.01097) and its alphabet of 80
    letters; each role of each play is a user, for ``partition: natural``.  The lines of a role with at least three are
    joined into one text, and every place in it from the 81st letter on gives an example.  The first of a role's
    examples are for training, then come those for validation and for testing.  As in LEAF the 79 examples after each
    cut are left out, so that no label has been seen as context.  The text is not LEAF's but another edition.  Files:
    ``shakespeare/`` in the cache, downloaded by hand.

    Example::

        kind: shakespeare
        users: 31
        min_samples: 64
    """

    classes: ClassVar[int] = len(LETTERS)
    shape: ClassVar[tuple[int, ...]] = (_LENGTH,)
    tokens: ClassVar[int] = len(LETTERS)
    users: Annotated[int, Field(ge=1)] | None = None
    """Roles to choose at random; all by default."""
    min_samples: Annotated[int, Field(ge=1)] = 64
    """Fewest examples of a role; others are left out."""

    def load(self, streams: Streams) -> Dataset:
        texts: list[str] = []
        for file in read_files("shakespeare"):
            texts += read_roles(file.data.decode("ascii")).values()
        sizes = np.array([max(len(text) - _LENGTH, 0) for text in texts])
        roles = choose_users(sizes, self.min_samples, self.users, Streams(self.seed).rng("shakespeare", "users"))
        windows, next_letters = zip(*(cut_examples(texts[role]) for role in roles), strict=True)
        x = np.concatenate(windows)
        y = np.concatenate(next_letters)
        user = np.repeat(np.arange(len(roles)), sizes[roles])
        return split_dataset(Examples(x, y, user), self._split(sizes[roles]), self.classes)

    def _split(self, sizes: Ints) -> SplitRows:
        """Cut each role's text into training, validation and test rows, in this order and with gaps."""
        test, validation = held_out_sizes(sizes, self.validation_share, self.test_share, self.test_rounding)
        first_examples = np.cumsum(sizes) - sizes
        position = np.arange(sizes.sum()) - np.repeat(first_examples, sizes)  # of an example in the text of its role
        end_of_training = np.repeat(sizes - test - validation, sizes)
        begin_of_test = np.repeat(sizes - test, sizes)
        gap = np.where(end_of_training < begin_of_test, _LENGTH - 1, 0)  # none without validation examples
        is_train = position < end_of_training
        is_validation = (position >= end_of_training + gap) & (position < begin_of_test)
        is_test = position >= begin_of_test + _LENGTH - 1
        return SplitRows(np.flatnonzero(is_train), np.flatnonzero(is_validation), np.flatnonzero(is_test))


def read_roles(text: str) -> dict[str, str]:
    """Return the text of each role with three or more lines, by the role's name in capitals.

    A line that begins with a name and a tab opens a speech, and lines that begin with a tab continue it; a heading or
    two empty lines end it.  Stage directions, in brackets, are left out, and so is all text before the line that names
    the setting of the play; a text without such a line has no roles.
    """
    _, setting, body = text.partition("\nSCENE\t")
    if not setting:
        return {}
    _, _, play = body.partition("\n")
    lines: dict[str, list[str]] = {}
    for role, line in _spoken_lines(play):
        lines.setdefault(role, []).append(line)
    return {role: _join(spoken) for role, spoken in lines.items() if len(spoken) >= _MIN_LINES}


def cut_examples(text: str) -> tuple[NDArray[np.float32], Ints]:
    """Return the 80 letters before each place of *text*, and the letter there."""
    letters = _TOKEN[np.frombuffer(text.encode("ascii"), np.uint8)]
    windows = np.lib.stride_tricks.sliding_window_view(letters[:-1], _LENGTH)
    return windows.astype(np.float32), letters[_LENGTH:]


def _spoken_lines(body: str) -> Iterator[tuple[str, str]]:
    """Yield each spoken line with its role."""
    role = ""  # empty between speeches
    empty_lines = 0
    for line in _DIRECTION.sub(_mark_direction, body).splitlines():
        match = _LINE.fullmatch(line)
        empty_lines = 0 if line.strip() else empty_lines + 1
        if _HEADING.match(line) or empty_lines > 1:
            role = ""
        elif match is not None:
            role = match[1].strip(" :").upper() or role
            if role and match[2].strip(" \0"):
                yield role, match[2]


def _mark_direction(direction: re.Match[str]) -> str:
    """Replace a direction by a mark, so that its line is not empty; one that is not closed ends its paragraph."""
    return "\0" if direction[1] == "]" else "\0\n\n"


def _join(lines: list[str]) -> str:
    """Join lines into one, of letters of the alphabet, with single spaces."""
    letters = [letter for letter in " ".join(lines) if letter in LETTERS]
    return re.sub(r" {2,}", " ", "".join(letters))
