"""Users at the positions in a CSV file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import AfterValidator

from netfl.errors import Fault, ScenarioError
from netfl.files import CsvRows, read_csv, user_faults
from netfl.network.placement import Placement
from netfl.streams import Streams
from netfl.types import Floats, Law, ScenarioFacts


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
        try:
            rows = self._rows()
        except ScenarioError as error:
            yield from error.faults
            return
        yield from user_faults(rows, facts.users)
        if "time_s" not in rows.columns:
            yield from rows.duplicate_faults(("user",))
        missing = np.setdiff1d(np.arange(facts.users), rows.columns["user"])
        if missing.size:
            names = ", ".join(map(str, missing[:8]))
            if missing.size > 8:
                names += " …"
            yield Fault("file", f"no line for user {names}", str(self.file), f"place each of the {facts.users} users")

    def open(self, users: int, towers_xy_m: Floats, streams: Streams) -> Floats:
        rows = self._rows()
        points_m = np.column_stack([rows.columns["x_m"], rows.columns["y_m"]])
        times_s = rows.columns.get("time_s", np.zeros(len(rows.lines)))
        latest_first = np.argsort(-times_s, kind="stable")
        positions_m = np.empty((users, 2))
        positions_m[rows.users[latest_first]] = points_m[latest_first]  # of one user, the last one stays
        return positions_m

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the file gives the positions"),)

    def _rows(self) -> CsvRows:
        return read_csv(self.file, ("user", "x_m", "y_m"), optional=("time_s",))
