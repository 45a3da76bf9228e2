"""Users at the positions in a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import AfterValidator

from netfl.errors import Fault, ScenarioError, prefix_faults
from netfl.files.schema import POSITION, TIME, USER, FileColumn, FileSchema
from netfl.files.tables import read_table
from netfl.network.placement import Placement
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law, ScenarioFacts

SCHEMA = FileSchema(
    "placement `table`",
    FileColumn("user", USER),
    FileColumn("x_m", POSITION, fix_empty="fill it in"),
    FileColumn("y_m", POSITION, fix_empty="fill it in"),
    FileColumn("time_s", TIME, is_needed=False),
)


class Table(Placement):
    """Positions from a CSV or Parquet file with the columns ``user``, ``x_m`` and ``y_m``; other columns are ignored.

    Users are numbered from 0, in any order.  In a file with a column ``time_s`` as well, such as one that
    ``motion: trajectory`` reads, a user may have several lines, and the earliest counts.

    Example::

        kind: table
        file: places.csv
    """

    file: Annotated[Path, AfterValidator(Path.absolute)]
    """The CSV or Parquet file; a relative path starts at the current directory."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        try:
            listed, _, _ = self._read(facts.users)
        except ScenarioError as error:
            yield from error.faults
            return
        missing = np.setdiff1d(np.arange(facts.users), listed)
        if missing.size:
            names = ", ".join(map(str, missing[:8]))
            if missing.size > 8:
                names += " …"
            yield Fault("file", f"no line for user {names}", str(self.file), f"place each of the {facts.users} users")

    def open(self, users: int, towers_xy_m: Floats, streams: Streams) -> Floats:
        listed, times_s, points_m = self._read(users)
        latest_first = np.argsort(-times_s, kind="stable")
        positions_m = np.empty((users, 2))
        positions_m[listed[latest_first]] = points_m[latest_first]  # of one user, the last one stays
        return positions_m

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the file gives the positions"),)

    def _read(self, users: int) -> tuple[Ints, Floats, Floats]:
        """Return user, time and position of each row; the times of a file without times are 0."""
        with prefix_faults("file"):
            table = read_table(self.file)
            table.check_headings(SCHEMA)
            listed = table.users(SCHEMA["user"], users)
            points_m = np.column_stack([table.numbers(SCHEMA["x_m"]), table.numbers(SCHEMA["y_m"])])
            if table.has(SCHEMA["time_s"]):
                times_s = table.numbers(SCHEMA["time_s"])
                table.refuse_repeated(("user", "time_s"), (listed, times_s))
            else:
                times_s = np.zeros(len(table))
                table.refuse_repeated(("user",), (listed,))
            table.check()
        return listed, times_s, points_m
