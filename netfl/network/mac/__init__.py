"""The MAC family: how the users of one cell share its medium.

A MAC is one SimPy process per cell, written as a generator over a `Cell`: wait until somebody has something to send,
decide who sends and when, tell the cell.  It holds its state in local variables, as arrays over the cell's users.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import simpy

from netfl.registry import Spec

if TYPE_CHECKING:
    from netfl.network.cell import Cell


class Mac(Spec):
    """The contract of a MAC."""

    @abstractmethod
    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """Own the medium of *cell* for the whole run."""
