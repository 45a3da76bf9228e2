"""The user's own arrays, in a file of NumPy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from netfl.learning.data import Dataset
from netfl.learning.data._augmentation import Augment
from netfl.learning.data._user_files import ColumnSpec, UserFileData, raise_fault
from netfl.streams import Streams

_MOST_BYTES = 16_000_000_000
"""The most that a packed file may come to; zeros pack a thousandfold."""


class Arrays(UserFileData):
    """Examples in a NumPy file ``.npz`` with the arrays ``x``, ``label`` and, for ``partition: natural``, ``user``.

    ``x`` is ``[examples, *features]``; ``label`` and ``user`` are ``[examples]``.  Users may be numbers or names; in
    rising order they become users 0, 1 and so on.  ``numpy.savez("mine.npz", x=x, label=y, user=u)`` writes such a
    file.

    Example::

        kind: arrays
        file: mine.npz
        features: [1, 8, 8]
        labels: 10
    """

    features: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    """The shape of one example: ``[columns]``, or ``[channels, rows, columns]`` of a picture."""
    augment: Augment | None = None
    """How pictures are moved while they are trained on, ``{crop: 4, flip: true}``: cut out at a random place of a frame
    that is so many pixels larger on each side, and mirrored at random; not by default."""

    @model_validator(mode="after")
    def _pictures(self) -> Arrays:
        """Refuse to move what is no picture."""
        if self.augment is not None and len(self.features) != len(("channels", "rows", "columns")):
            raise ValueError(f"augment is for pictures, [channels, rows, columns], not for {[*self.features]}")
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """As the scenario says; the file is held to it."""
        return self.features

    def load(self, streams: Streams) -> Dataset:
        """Read the file or the two, and split what comes whole."""
        return replace(UserFileData.load(self, streams), augment=self.augment)

    def read(self, path: Path) -> ColumnSpec:
        """The arrays of a file."""
        with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
            size = sum(part.file_size for part in found.zip.infolist())
            if size > _MOST_BYTES:
                raise_fault(
                    "", f"holds {size / 1e9:.3g} GB unpacked", str(path), f"{_MOST_BYTES / 1e9:g} GB are possible"
                )
            missing = [name for name in ("x", "label") if name not in found]
            if missing:
                raise_fault("", f"has no array {' and '.join(missing)}", str(path), f"it has {', '.join(found)}")
            return ColumnSpec(found["x"], found["label"], found.get("user"))
