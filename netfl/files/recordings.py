"""Recordings of deliveries that netfl has not simulated, in the tables that the access ``replay`` reads."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from netfl.core.columns import complete_columns
from netfl.core.remedies import argument
from netfl.errors import Fault, MachineError, ScenarioError, cannot_write
from netfl.files import absolute_path
from netfl.types import Delivery, Floats, Ints, LinkReport, Round

NAMES = "names.csv"
"""File of a recording with the names of its users."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Rounds, and the users that delivered in each.

    An update of round r starts from version r - 1, as nothing tells that a user lacked it.  It is sent when it arrives,
    as logs have one time for a frame.

    Args:
        opened_s: start of each round in seconds, ``[rounds]``, ascending.
        closed_s: end of each round, ``[rounds]``, not after the next start.
        round: number of the round of each delivery, from 1, ``[deliveries]``, ascending.
        user: its user, ``[deliveries]``.
        arrived_s: its arrival, ``[deliveries]``, ascending within a round.
        names: names of the users, in the order of their numbers.
        snr_db: its SNR, ``[deliveries]``, NaN where it is not known; ``None`` without SNRs.
        mode: number of its mode or data rate, ``[deliveries]``; by default 0.
    """

    opened_s: Floats
    closed_s: Floats
    round: Ints
    user: Ints
    arrived_s: Floats
    names: Sequence[str]
    snr_db: Floats | None = None
    mode: Ints | None = None

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.opened_s)

    @property
    def rates(self) -> Floats:
        """Share of rounds in which each user delivers, ``[users]``."""
        return np.bincount(self.user, minlength=len(self.names)) / max(self.rounds, 1)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables by name: ``rounds``, ``deliveries`` and, with SNRs, ``links``."""
        number = np.arange(1, self.rounds + 1)
        delivered = np.bincount(self.round, minlength=self.rounds + 1)[1:]
        rounds = {
            "round": number,
            "opened_s": self.opened_s,
            "closed_s": self.closed_s,
            "delivered": delivered,
            "oldest": number,
        }
        base = self.round - 1
        deliveries = {"user": self.user, "base": base, "sent_s": self.arrived_s, "arrived_s": self.arrived_s}
        tables = {
            "rounds": _table({}, complete_columns(Round, self.rounds, rounds)),
            "deliveries": _table({"round": self.round}, complete_columns(Delivery, len(base), deliveries)),
        }
        if self.snr_db is not None:
            unknown = {"gain_db": math.nan, "airtime_s": math.nan, "energy_J": math.nan}
            mode = 0 if self.mode is None else self.mode
            link = {"snr_db": self.snr_db, "mode": mode, **unknown}
            key: dict[str, NDArray[Any]] = {
                "round": self.round,
                "user": self.user,
                "base": base,
                "arrived_s": self.arrived_s,
            }
            tables["links"] = _table(key, complete_columns(LinkReport, len(base), link))
        return tables

    def write(self, folder: Path) -> None:
        """Write the tables and the names of users (``names.csv``) into *folder*, which is made.

        Raises:
            ScenarioError: the folder is not empty.
            MachineError: a file cannot be written.
        """
        make_folder(folder)
        try:
            for name, table in self.tables().items():
                _write(folder / f"{name}.parquet", table)
            names = pd.DataFrame({"user": range(len(self.names)), "name": [*self.names]})
            names.to_csv(folder / NAMES, index=False, lineterminator="\n")
            # without delay_mean_s, a replay reports no delays: nothing tells when a version reached a user
            (folder / "summary.json").write_text(json.dumps({"rounds": self.rounds}) + "\n", encoding="utf-8")
        except OSError as error:
            raise cannot_write(error, folder) from error


def make_folder(folder: Path) -> None:
    """Make a folder for what is read from a log.

    Raises:
        ScenarioError: it is there and not empty, or is a file.
        MachineError: it cannot be made.
    """
    key = argument("folder", "--out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            remedy = "name another folder, or empty this one"
            raise ScenarioError([Fault(key, "the folder is not empty", str(folder), remedy)])
    except FileExistsError as error:
        raise ScenarioError([Fault(key, "not a folder", str(folder), "name another one")]) from error
    except OSError as error:
        raise cannot_write(error, folder) from error


def fill_times(logged_s: Floats) -> tuple[Floats, Floats]:
    """Return the start and the end of each round, ``[rounds]``, of which some have a time in a log.

    A round lasts to the next one.  Rounds without a time are evenly spaced between their neighbours, and the last round
    is as long as the median.

    Args:
        logged_s: times in seconds, ``[rounds]``, ascending; NaN where the log has none.  The first and the last round
            have one.

    >>> fill_times(np.array([0.0, np.nan, 20.0, 31.0]))
    (array([ 0., 10., 20., 31.]), array([10., 20., 31., 41.]))
    """
    number = np.arange(len(logged_s))
    is_logged = ~np.isnan(logged_s)
    opened_s = np.interp(number, number[is_logged], logged_s[is_logged])
    last_s = float(np.median(np.diff(opened_s))) if len(opened_s) > 1 else 0.0
    return opened_s, np.append(opened_s[1:], opened_s[-1] + last_s)


def recorded_names(folder: Path) -> list[str]:
    """Return the names of the users of a recording by their numbers, as `Recording.write` has written them.

    The list is empty without the file, as for the runs of netfl, or if it cannot be read.
    """
    try:
        lines = (folder / NAMES).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return [line.partition(",")[2] for line in lines[1:]]


def _table(key: Mapping[str, NDArray[Any]], columns: Mapping[str, NDArray[Any]]) -> pd.DataFrame:
    """Return columns of numbers as a table of replica 0."""
    values = {**key, **columns}
    size = len(next(iter(values.values())))
    return pd.DataFrame({"replica": np.zeros(size, np.int32), **values})


def _write(path: Path, table: pd.DataFrame) -> None:
    """Write a table to Parquet, small: numbers that ascend as differences, and times byte by byte."""
    content = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None)
    encodings = {}
    for field in content.schema:
        if pa.types.is_integer(field.type):
            encodings[field.name] = "DELTA_BINARY_PACKED"
        elif field.name.endswith("_s"):
            encodings[field.name] = "BYTE_STREAM_SPLIT"
    levels = [name for name in content.column_names if name not in encodings]  # of which there are few different ones
    try:
        pq.write_table(
            content,
            absolute_path(path),
            compression="zstd",
            compression_level=19,
            use_dictionary=levels,
            column_encoding=encodings,
        )
    except pa.ArrowException as error:
        raise MachineError(f"cannot write {path}: {error}") from error
