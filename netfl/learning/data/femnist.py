"""FEMNIST: handwritten characters by writer."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from netfl.learning.data._download import cache_folder
from netfl.learning.data._leaf import LeafData
from netfl.learning.data._user_files import DataFile

_LABELS = 62


class Femnist(LeafData):
    """FEMNIST in LEAF's JSON form: digits and letters of 28 x 28 pixels; each writer is a user.

    Caldas et al., "LEAF: a benchmark for federated settings", arXiv:1812.01097.  Labels 0 to 9 are digits, 10 to 35
    capital and 36 to 61 small letters.  Pixels are 0 (ink) to 1 (paper), as LEAF writes them.  The folder is that in
    which LEAF's ``preprocess.sh`` writes ``train`` and ``test``; without ``test``, a share of each writer's examples is
    for testing.

    Example::

        kind: femnist
        folder: leaf/data/femnist/data
        users: 100
        min_samples: 50
    """

    shape: ClassVar[tuple[int, ...]] = (1, 28, 28)
    folder: DataFile | None = None
    """The folder; a relative path starts at the current directory.  By default ``femnist/`` in the cache."""
    labels: int = _LABELS
    """The number of labels: 62, or fewer if the files hold only the first of them, such as 10 for digits."""

    @property
    def source(self) -> Path:
        return cache_folder() / "femnist" if self.folder is None else self.folder
