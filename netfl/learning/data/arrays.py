"""User-provided arrays in a NumPy file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from netfl.files.arrays import read_arrays
from netfl.learning.data import Dataset
from netfl.learning.data._augment import Augment
from netfl.learning.data._user_files import FileColumns, UserFileData, check_token_rows
from netfl.streams import Streams


class Arrays(UserFileData):
    """Examples in a NumPy file ``.npz`` with the arrays ``x``, ``label`` and, for ``partition: natural``, ``user``.

    ``x`` is ``[examples, *features]``; ``label`` and ``user`` are ``[examples]``.  With ``targets`` in place of
    ``labels``, ``label`` has the targets of a regression, ``[examples]`` or ``[examples, targets]``.  Users may be
    whole numbers or names; in ascending order they become users 0, 1 and so on.  ``numpy.savez("mine.npz", x=x,
    label=y, user=u)`` writes such a file.

    Example::

        kind: arrays
        file: mine.npz
        features: [1, 8, 8]
        labels: 10
    """

    features: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    """The shape of one example: ``[columns]``, or ``[channels, rows, columns]`` of an image."""
    tokens: Annotated[int, Field(ge=2, le=2**24)] | None = None
    """The number of different tokens, if an example is a row of tokens such as words; ``features`` is then
    ``[length]``, and ``x`` has whole numbers from 0 to tokens-1.  Without it ``x`` has measurements."""
    augment: Augment | None = None
    """Augmentation of training images, ``{crop: 4, flip: true}``: random crops of an image padded by so many pixels on
    each side, and random reflections; none by default."""

    @model_validator(mode="after")
    def _check_augment(self) -> Arrays:
        if self.augment is not None and len(self.features) != 3:
            raise ValueError(
                f"augment needs images, not features of {[*self.features]}; give [channels, rows, columns]"
            )
        return self

    @model_validator(mode="after")
    def _check_tokens(self) -> Arrays:
        check_token_rows(self.tokens, self.features)
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return self.features

    def load(self, streams: Streams) -> Dataset:
        return replace(UserFileData.load(self, streams), augment=self.augment)

    def read(self, path: Path) -> FileColumns:
        arrays = read_arrays(path, ("x", "label"), optional=("user",))
        return FileColumns(arrays["x"], arrays["label"], arrays.get("user"))
