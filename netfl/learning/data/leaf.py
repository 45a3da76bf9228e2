"""A folder in the JSON form of LEAF."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from netfl.learning.data._leaf import LeafData
from netfl.learning.data._user_files import DataFile


class Leaf(LeafData):
    """Examples with numeric features in the JSON files of LEAF, for ``partition: natural``.

    Caldas et al., "LEAF: a benchmark for federated settings", arXiv:1812.01097.  A folder has files with the content
    ``{"users": [name, …], "num_samples": [n, …], "user_data": {name: {"x": [[…], …], "y": [label, …]}}}``, or two
    folders of such files, ``train`` and ``test``.  Without ``test``, a share of each user's examples is for testing.
    Users in ascending order of their names become users 0, 1 and so on.

    Example::

        kind: leaf
        folder: leaf/data/synthetic/data
        features: [60]
        labels: 5
    """

    folder: DataFile
    """The folder; a relative path starts at the current directory."""
    features: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    """The shape of one example; the numbers of ``x`` are arranged to it."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.features

    @property
    def source(self) -> Path:
        return self.folder
