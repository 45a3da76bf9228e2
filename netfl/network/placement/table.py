"""Users at places that a CSV file tells."""

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
    """At the positions of a CSV file with the columns ``user``, ``x_m`` and ``y_m``; other columns are passed over.

    Users are numbered from 0, in any order.  In a file with a column ``time_s`` as well, such as one that
    ``motion: trajectory`` reads, a user may have several lines, and the earliest counts.

    Example::

        kind: table
        file: places.csv
    """

    file: Annotated[Path, AfterValidator(Path.absolute)]
    """The CSV file; a relative path starts at the current directory."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """A file that cannot be read, or does not place each user once."""
        try:
            yield from self._misfits(self._rows(), facts.users)
        except ScenarioError as error:
            yield from error.faults

    def open(self, users: int, towers_xy_m: NDArray[np.float64], streams: Streams) -> NDArray[np.float64]:
        """A place for each user.

        Raises:
            ScenarioError: the file cannot be read, or does not place each user once.
        """
        rows = self._rows()
        found = [*self._misfits(rows, users)]
        if found:
            raise ScenarioError(found)
        last_wins = np.argsort(-rows.columns.get("time_s", np.zeros(len(rows.lines))), kind="stable")
        places = np.empty((users, 2))
        places[rows.users[last_wins]] = np.column_stack([rows.columns["x_m"], rows.columns["y_m"]])[last_wins]
        return places

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("users stand where the file says"),)

    def _rows(self) -> CsvRows:
        """The file."""
        return read_csv(self.file, ("user", "x_m", "y_m"), optional=("time_s",))

    def _misfits(self, rows: CsvRows, users: int) -> Iterator[Fault]:
        """Users that there are not, twice, or missing."""
        yield from user_faults(rows, users)
        if "time_s" not in rows.columns:
            yield from rows.duplicate_faults(("user",))
        missing = np.setdiff1d(np.arange(users), rows.columns["user"])
        if missing.size:
            who = ", ".join(map(str, missing[:8])) + (" …" if missing.size > 8 else "")
            yield Fault("file", f"no line for user {who}", str(self.file), f"place each of the {users} users")
