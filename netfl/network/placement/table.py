"""Users at the positions in a CSV file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator

from netfl.errors import Fault, ScenarioError
from netfl.network.files import CsvRows, read_csv, user_faults
from netfl.network.placement import Placement
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts


class Table(Placement):
    """Positions from a CSV file with the columns ``user``, ``x_m`` and ``y_m``; other columns are ignored.

    Users are numbered from 0, in any order.  In a file with a column ``time_s`` as well, such as one that
    ``motion: trajectory`` reads, a user may have several lines, and the earliest counts.

    Example::

        kind: table
        file: places.csv
    """

    file: Annotated[Path, AfterValidator(Path.absolute)]
    """The CSV file; a relative path starts at the current directory."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield errors of the file."""
        try:
            yield from self._row_faults(self._rows(), facts.users)
        except ScenarioError as error:
            yield from error.faults

    def open(self, users: int, towers_xy_m: NDArray[np.float64], streams: Streams) -> NDArray[np.float64]:
        """Return a position for each user.

        Raises:
            ScenarioError: the file cannot be read, or does not give each user one position.
        """
        rows = self._rows()
        faults = [*self._row_faults(rows, users)]
        if faults:
            raise ScenarioError(faults)
        latest_first = np.argsort(-rows.columns.get("time_s", np.zeros(len(rows.lines))), kind="stable")
        places = np.empty((users, 2))
        places[rows.users[latest_first]] = np.column_stack([rows.columns["x_m"], rows.columns["y_m"]])[latest_first]
        return places

    def laws(self) -> tuple[Law, ...]:
        """Return the laws that a test checks."""
        return (Law.none("users stand where the file says"),)

    def _rows(self) -> CsvRows:
        return read_csv(self.file, ("user", "x_m", "y_m"), optional=("time_s",))

    def _row_faults(self, rows: CsvRows, users: int) -> Iterator[Fault]:
        yield from user_faults(rows, users)
        if "time_s" not in rows.columns:
            yield from rows.duplicate_faults(("user",))
        missing = np.setdiff1d(np.arange(users), rows.columns["user"])
        if missing.size:
            names = ", ".join(map(str, missing[:8])) + (" …" if missing.size > 8 else "")
            yield Fault("file", f"no line for user {names}", str(self.file), f"place each of the {users} users")
