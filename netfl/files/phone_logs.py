"""Logs of phones and modems: tables of RSRP, SNR or bit rates over time, as traces for the channel ``trace``.

A column is found by its heading, which may have its unit: ``RSRP`` and ``DL_bitrate`` of G-NetTrack Pro, ``rsrp(dBm)``
and ``RATE(MBit/s)`` of modems, ``rsrp_dbm``, ``sinr_db`` and ``dl_mbps`` of many apps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netfl.core.remedies import argument
from netfl.errors import Fault, ScenarioError, cannot_write, suggest
from netfl.files import cells as parsing
from netfl.files.schema import NAME, RATE, SNR, FileColumn, Quantity
from netfl.files.tables import UserTable, read_csv
from netfl.types import Bools, Floats

PhoneQuantity = Literal["rsrp", "snr", "rate"]
Direction = Literal["down", "up"]
TimeUnit = Literal["s", "ms"]
COLUMNS: dict[str, str] = {"rsrp": "rsrp_dbm", "snr": "snr_db", "rate": "rate_bps"}
"""Columns of the trace, by quantity."""
RSRP = Quantity(
    "an RSRP", "dBm", -160.0, -20.0, remedy="check that it is in dBm: an index of Android (ASU) is dBm + 140"
)
"""Phones report -140 to -44 dBm (LTE, 3GPP TS 36.133, 9.1.4) and -156 to -31 dBm (NR, TS 38.133, 10.1.6)."""
UNAVAILABLE = 2147483647.0
"""Number that Android writes for a value that it does not have (``CellInfo.UNAVAILABLE``)."""
_QUANTITIES = {"rsrp": RSRP, "snr": SNR, "rate": RATE}
_MISSING = {"rsrp": (0.0, UNAVAILABLE), "snr": (UNAVAILABLE,), "rate": (UNAVAILABLE,)}
"""Numbers that stand for no measurement: no phone receives 0 dBm."""
_NAMES: dict[tuple[str, str], tuple[str, ...]] = {
    ("rsrp", "down"): ("rsrp", "lte_rsrp", "nr_rsrp", "ss_rsrp", "z5g_rsrp"),
    ("snr", "down"): ("snr", "sinr", "lte_snr", "lte_sinr", "nr_snr", "nr_sinr", "ss_sinr", "z5g_sinr"),
    ("rate", "down"): (
        *("dl_bitrate", "dl", "download", "downlink", "dl_throughput", "dl_thpt", "dl_rate", "rx"),
        *("download_speed", "download_rate", "bitrate_dl"),
    ),
    ("rate", "up"): (
        *("ul_bitrate", "ul", "upload", "uplink", "ul_throughput", "ul_thpt", "ul_rate", "tx"),
        *("upload_speed", "upload_rate", "bitrate_ul"),
    ),
}
"""Headings in small letters, without their unit."""
_EITHER = ("rate", "bitrate", "throughput", "data_rate", "datarate")
"""Headings of a rate that state no direction."""
_TIMES = ("timestamp", "time", "datetime", "date_time", "ts", "t", "epoch", "utc_time", "gps_time", "time_stamp")
_DEVICES = (
    "device",
    "device_id",
    "imei",
    "imsi",
    "iccid",
    "phone",
    "phone_id",
    "serial",
    "rnti",
    "ue",
    "ue_id",
    "user",
)
_UNITS = {
    "dbm": 1.0,
    "db": 1.0,
    "bps": 1.0,
    "bit/s": 1.0,
    "kbps": 1e3,
    "kbit/s": 1e3,
    "mbps": 1e6,
    "mbit/s": 1e6,
    "gbps": 1e9,
    "gbit/s": 1e9,
    "s": 1.0,
    "ms": 1e-3,
}
"""Factor of each unit; those of headings and of options, in small letters."""
_OF_QUANTITY = {
    "rsrp": ("dbm",),
    "snr": ("db",),
    "rate": ("bps", "bit/s", "kbps", "kbit/s", "mbps", "mbit/s", "gbps", "gbit/s"),
}
_GNETTRACK_UNITS = {"dl_bitrate": "kbps", "ul_bitrate": "kbps"}
"""Unit of headings of G-NetTrack Pro that have none."""
_TIME_OF_GNETTRACK = re.compile(r"(\d{4})\.(\d\d)\.(\d\d)_(\d\d)\.(\d\d)\.(\d\d)")
_TIME_OF_DATE = re.compile(r"\w{3} (\w{3}) +(\d{1,2}) (\d\d:\d\d:\d\d) (?:UTC|GMT) (\d{4})")
"""Time as the command ``date`` prints it."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SECONDS = (float(1 << 28), float(1 << 32))
_MILLISECONDS = (1e3 * _SECONDS[0], 1e3 * _SECONDS[1])
"""Numbers that count seconds or milliseconds since 1970: 1978 to 2106."""
_REMEDY_OF_TIME = "write seconds, milliseconds, or a time such as 2024-03-30T08:00:00Z"


@dataclass(frozen=True, slots=True)
class PhoneLog:
    """Values of one or several phones over time.

    Args:
        values: a row for each value, phone by phone: ``name`` of the phone, ``time_s`` since 1970 or since any other
            instant, and ``value`` in dBm, dB or bit/s.
        column: column of the trace: ``rsrp_dbm``, ``snr_db`` or ``rate_bps``.
        heading: heading in the log from which the values are.
        is_absolute: whether times are since 1970.
        missing: number of rows without a value.
        repeated: number of rows that another row of the same time replaces.
    """

    values: pd.DataFrame
    column: str
    heading: str
    is_absolute: bool
    missing: int
    repeated: int

    @property
    def longest_gap_s(self) -> float:
        """Longest time between two values of a phone; 0 if each has one."""
        gaps_s = self.values.groupby("name", sort=False)["time_s"].diff()
        return float(gaps_s.max()) if gaps_s.notna().any() else 0.0


def read_phone_log(
    path: Path,
    quantity: PhoneQuantity,
    *,
    direction: Direction = "down",
    column: str | None = None,
    unit: str | None = None,
    time_column: str | None = None,
    time_unit: TimeUnit | None = None,
    user_column: str | None = None,
) -> PhoneLog:
    """Read one quantity of a log.

    Rows without a value (empty, ``-`` or another word for none, 0 dBm, 2147483647 of Android) are left out.  Of rows
    with the same time of a phone the last counts, as logs with whole seconds often have two.

    Args:
        path: a text file with a heading, of any size; cells are separated by commas, semicolons or tabs.
        quantity: ``rsrp``, ``snr`` or ``rate``.
        direction: of a rate.
        column: heading of the values, to the letter; by default that of the quantity, if the log has one of them.
        unit: unit of the values; by default that in the heading; kbit/s for ``DL_bitrate`` and ``UL_bitrate``.
        time_column: heading of the times; by default the one that the log has.
        time_unit: unit of times that are numbers; by default that in the heading, or that of numbers since 1970.
        user_column: heading of the names of phones, in a log of several.

    Raises:
        ScenarioError: with all rows that are wrong, or what the heading lacks; keys name an argument or are empty.
    """
    table = read_csv(path, separators=",;\t", is_limited=False)
    heading = _find_heading(table, quantity, direction, column)
    factor = _factor(table, quantity, heading, unit)
    time_heading = _find_time(table, time_column)
    table.check()  # rows that are cut, once it is a log at all
    names = _names_of_phones(table, user_column)
    is_kept = ~_is_missing(table, heading, quantity)
    missing = int((~is_kept).sum())
    names = names[is_kept]
    table = table.take(is_kept)
    if not len(table):
        problem = f"{path.name} has no value of {heading} in {missing} rows"
        raise ScenarioError([Fault("", problem, None, "give a log with measured values")])
    # numbers are checked in the unit of the trace
    values = _numbers(table, heading, _QUANTITIES[quantity], factor)
    times_s, is_absolute = _times(table, time_heading, time_unit)
    table.check()
    _refuse_descending(table, names, times_s)
    table.check()
    frame = pd.DataFrame({"name": names, "time_s": times_s, "value": values})
    frame = frame.sort_values("name", kind="stable")  # phone by phone, in the order of the file
    distinct = frame.drop_duplicates(["name", "time_s"], keep="last").reset_index(drop=True)
    return PhoneLog(distinct, COLUMNS[quantity], heading, is_absolute, missing, len(frame) - len(distinct))


def to_trace(logs: Sequence[PhoneLog], *, align: Literal["start", "clock"] = "start") -> pd.DataFrame:
    """Return the file of the channel ``trace``: columns ``user``, ``time_s`` and that of the quantity.

    The phones are users in the order of the logs, and within a log in that of their names.

    Args:
        logs: logs of the same quantity.
        align: ``start``: the first value of each user is at time 0.  ``clock``: users keep their times to one another,
            and time 0 is the latest of their first values, so that each user has one before.

    Raises:
        ScenarioError: the logs have different quantities, or, for ``clock``, times that are not since 1970, or a log
            that ends before another begins.
    """
    columns = {log.column for log in logs}
    if len(columns) > 1:
        problem = f"the logs have different quantities: {', '.join(sorted(columns))}"
        raise ScenarioError([Fault("", problem, None, "read the same one of each")])
    users = []
    for log in logs:
        users += [values for _, values in log.values.groupby("name", sort=False)]
    origins_s = [float(values["time_s"].iloc[0]) for values in users]
    if align == "clock":
        if not all(log.is_absolute for log in logs):
            problem = "times are not since 1970, so that logs have no common clock"
            raise ScenarioError([Fault(argument("align"), problem, align, "align them by their start")])
        latest_s = max(origins_s)
        ends_s = min(float(values["time_s"].iloc[-1]) for values in users)
        if ends_s < latest_s:
            problem = f"a log ends {latest_s - ends_s:g} s before another begins"
            raise ScenarioError([Fault(argument("align"), problem, align, "align them by their start")])
        origins_s = [latest_s] * len(users)
    (column,) = columns
    parts = []
    for user, (values, origin_s) in enumerate(zip(users, origins_s, strict=True)):
        times_s = np.round(values["time_s"].to_numpy() - origin_s, 6)  # microseconds, as numbers since 1970 have
        parts.append(pd.DataFrame({"user": user, "time_s": times_s, column: values["value"].to_numpy()}))
    return pd.concat(parts, ignore_index=True)


def write_trace(trace: pd.DataFrame, path: Path) -> None:
    """Write a trace of `to_trace` as CSV, or as Parquet by the suffix of *path*.

    Raises:
        ScenarioError: there is a file at *path* already.
        MachineError: it cannot be written.
    """
    if path.exists():
        problem = "there is a file or folder of this name"
        raise ScenarioError([Fault(argument("path", "--out"), problem, str(path), "name another one, or remove it")])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() in {".parquet", ".pq"}:
            trace.to_parquet(path, index=False)
        else:
            trace.to_csv(path, index=False, lineterminator="\n")
    except OSError as error:
        raise cannot_write(error, path) from error


def _split_heading(heading: str) -> tuple[str, str]:
    """Return the name in a heading in small letters, and its unit; empty without one.

    >>> _split_heading("RATE(MBit/s)"), _split_heading("rsrp_dbm"), _split_heading("DL_bitrate")
    (('rate', 'mbit/s'), ('rsrp', 'dbm'), ('dl_bitrate', ''))
    """
    word = heading.strip().lower()
    in_brackets = re.fullmatch(r"(.*?)[ _]*[(\[](.*?)[)\]]", word)
    if in_brackets is not None:
        name = in_brackets[1]
        unit = in_brackets[2].strip()
    else:
        name, _, unit = word.replace(" ", "_").rpartition("_")
        if unit not in _UNITS or not name:  # a heading without a unit
            name = word
            unit = ""
    return re.sub(r"[\s.-]+", "_", name.strip()), unit


def _find_heading(table: UserTable, quantity: PhoneQuantity, direction: Direction, column: str | None) -> str:
    """Return the heading of the values."""
    if column is not None:
        return _given(table, column, "column")
    known = _NAMES.get((quantity, direction), _NAMES[quantity, "down"])
    found = [heading for heading in table.columns if _split_heading(heading)[0] in known]
    if not found and quantity == "rate":
        found = [heading for heading in table.columns if _split_heading(heading)[0] in _EITHER]
    if len(found) == 1:
        return found[0]
    problem = f"{table.path.name} has no heading of {quantity}"
    if quantity == "rate":
        problem += f" {direction}"
    remedy = f"name one as {argument('column')}; there are: {_listed(table)}"
    if found:
        problem = f"{table.path.name} has several headings of {quantity}: {', '.join(found)}"
        remedy = f"name one of them as {argument('column')}"
    raise ScenarioError([Fault("", problem, None, remedy)])


def _listed(table: UserTable) -> str:
    headings = [heading for heading in table.columns if heading]
    more = f" and {len(headings) - 20} more" if len(headings) > 20 else ""
    return ", ".join(headings[:20]) + more


def _given(table: UserTable, heading: str, name: str) -> str:
    if heading not in table:
        remedy = suggest(heading, [*table.columns])
        raise ScenarioError([Fault(argument(name), f"{table.path.name} has no such heading", heading, remedy)])
    return heading


def _factor(table: UserTable, quantity: PhoneQuantity, heading: str, unit: str | None) -> float:
    """Return the factor from the values of a column to dBm, dB or bit/s."""
    known = _OF_QUANTITY[quantity]
    name, written = _split_heading(heading)
    if unit is not None:
        if unit.lower() not in known:
            raise ScenarioError([Fault(argument("unit"), f"not a unit of {quantity}", unit, f"write {_or(known)}")])
        if written in _UNITS and _UNITS[written] != _UNITS[unit.lower()]:
            problem = f"the heading {heading} states another unit"
            raise ScenarioError([Fault(argument("unit"), problem, unit, "leave it out, or correct the heading")])
        return _UNITS[unit.lower()]
    written = written or _GNETTRACK_UNITS.get(name, "")
    if not written and quantity != "rate":
        written = known[0]  # levels have one unit
    if written in known:
        return _UNITS[written]
    problem = f"{table.path.name}: the heading {heading} has no unit"
    if written:
        problem = f"{table.path.name}: the unit of {heading} is not known"
    raise ScenarioError([Fault("", problem, written or None, f"give one as {argument('unit')}: {_or(known)}")])


def _or(words: Sequence[str]) -> str:
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _find_time(table: UserTable, time_column: str | None) -> str:
    if time_column is not None:
        return _given(table, time_column, "time_column")
    found = [heading for heading in table.columns if _split_heading(heading)[0] in _TIMES]
    if len(found) == 1:
        return found[0]
    problem = f"{table.path.name} has no heading of the time"
    if found:
        problem = f"{table.path.name} has several headings of the time: {', '.join(found)}"
    remedy = f"name one as {argument('time_column')}; there are: {_listed(table)}"
    raise ScenarioError([Fault("", problem, None, remedy)])


def _names_of_phones(table: UserTable, user_column: str | None) -> NDArray[Any]:
    """Return the name of the phone of each row, ``[rows]``.

    Raises:
        ScenarioError: a column names several phones, and *user_column* does not.
    """
    if user_column is not None:
        names = table.names(FileColumn(_given(table, user_column, "user_column"), NAME))
        table.check()
        return names.astype(str).astype(object)
    for heading in table.columns:
        if _split_heading(heading)[0] not in _DEVICES:
            continue
        words = parsing.as_text(table.columns[heading]).to_pylist()
        row = next((row for row, word in enumerate(words) if word and word != words[0]), None)
        if row is not None:
            problem = f"{table.place(row)}: column {heading}: another phone than {words[0]}"
            remedy = f"split the file, or give {argument('user_column')} {heading} to take each for a user"
            raise ScenarioError([Fault("", problem, words[row], remedy)])
    return np.full(len(table), table.path.name, object)


def _is_missing(table: UserTable, heading: str, quantity: PhoneQuantity) -> Bools:
    """Return which rows have no value, ``[rows]``."""
    cells = table.columns[heading]
    if not len(cells):
        return np.zeros(0, bool)
    is_word = np.array([parsing.has_no_value(cell) for cell in cells.to_pylist()])
    numbers = parsing.parse_numbers(cells, takes_durations=False)
    return np.asarray(is_word | np.isin(numbers, _MISSING[quantity]))


def _numbers(table: UserTable, heading: str, quantity: Quantity, factor: float) -> Floats:
    """Return a column of numbers in the unit of *quantity*, ``[rows]``, with the errors of its rows marked."""
    in_file = replace(quantity, lowest=quantity.lowest / factor, highest=quantity.highest / factor)
    if factor != 1.0:
        in_file = replace(in_file, unit="in its unit")
    return table.numbers(FileColumn(heading, in_file)) * factor


def _times(table: UserTable, heading: str, time_unit: TimeUnit | None) -> tuple[Floats, bool]:
    """Return times in seconds, ``[rows]``, with the errors of the rows marked, and whether they are since 1970."""
    cells = table.columns[heading]
    numbers = parsing.parse_numbers(cells, takes_durations=False)
    if not np.isnan(numbers[0]):
        table.refuse_cells(heading, np.isnan(numbers), _no_number)
        table.check()
        return _counted(table, heading, numbers, time_unit)
    if time_unit is not None:
        problem = f"has no effect: the times of {table.path.name} are no numbers"
        raise ScenarioError([Fault(argument("time_unit"), problem, time_unit, "leave it out")])
    words = parsing.as_text(cells).to_pylist()
    moments = [_moment(word) for word in words]
    is_wrong = np.array([moment is None for moment in moments])
    table.refuse_cells(heading, is_wrong, lambda cell: Fault("", "not a time", cell, _REMEDY_OF_TIME))
    zones = np.array([moment is not None and moment.tzinfo is not None for moment in moments])
    if not is_wrong.any():
        problem = "only one of this time and the first has a time zone"
        table.refuse_cells(heading, zones != zones[0], lambda cell: Fault("", problem, cell, "give all times one"))
    seconds = []
    for moment in moments:
        if moment is None:  # its row is refused
            seconds.append(0.0)
            continue
        time = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        seconds.append(time.timestamp())
    return np.array(seconds), True


def _no_number(cell: object) -> Fault:
    return Fault("", "not a number as the time of the first row", cell, "write all times in one form")


def _counted(table: UserTable, heading: str, numbers: Floats, time_unit: TimeUnit | None) -> tuple[Floats, bool]:
    """Return times that are numbers, in seconds, and whether they are since 1970."""
    is_seconds = (numbers >= _SECONDS[0]) & (numbers < _SECONDS[1])
    is_milliseconds = (numbers >= _MILLISECONDS[0]) & (numbers < _MILLISECONDS[1])
    if (is_seconds.any() and is_milliseconds.any()) or (is_milliseconds.any() and not is_milliseconds.all()):
        word = "milliseconds" if is_milliseconds[0] else "seconds"
        is_other = is_milliseconds != is_milliseconds[0]
        problem = f"seconds and milliseconds are mixed: the first row is in {word}"
        table.refuse_cells(heading, is_other, lambda cell: Fault("", problem, cell, "write all times in one unit"))
        return numbers, True
    unit = time_unit or _split_heading(heading)[1]
    if unit not in {"s", "ms"}:
        if is_milliseconds.all():
            unit = "ms"
        elif is_seconds.all():
            unit = "s"
        else:
            problem = f"{table.path.name}: the heading {heading} has no unit"
            remedy = f"give one as {argument('time_unit')}: s or ms"
            raise ScenarioError([Fault("", problem, float(numbers[0]), remedy)])
    if unit == "s" and is_milliseconds.all():
        key = argument("time_unit") if time_unit else ""
        problem = f"{table.path.name}: times in s would be after the year 40000"
        raise ScenarioError([Fault(key, problem, float(numbers[0]), "they are milliseconds: write ms")])
    is_recent = is_milliseconds if unit == "ms" else is_seconds
    return numbers * _UNITS[unit], bool(is_recent.all())


def _moment(word: str) -> datetime | None:
    """Return a time in ISO 8601, of G-NetTrack, or of the command ``date`` in UTC; ``None`` for anything else."""
    of_app = _TIME_OF_GNETTRACK.fullmatch(word)
    if of_app is not None:
        word = f"{of_app[1]}-{of_app[2]}-{of_app[3]}T{of_app[4]}:{of_app[5]}:{of_app[6]}"
    of_date = _TIME_OF_DATE.fullmatch(word)
    if of_date is not None and of_date[1] in _MONTHS:  # by hand, as strptime reads months in the language of the user
        month = _MONTHS.index(of_date[1]) + 1
        word = f"{of_date[4]}-{month:02d}-{int(of_date[2]):02d}T{of_date[3]}Z"
    try:
        return datetime.fromisoformat(word)
    except ValueError:
        return None


def _refuse_descending(table: UserTable, names: NDArray[Any], times_s: Floats) -> None:
    """Refuse rows whose time is before that of the row above of the same phone."""
    order = np.argsort(names.astype(str), kind="stable")
    is_same = names[order][1:] == names[order][:-1]
    is_wrong = np.zeros(len(times_s), bool)
    is_wrong[order[1:]] = is_same & (np.diff(times_s[order]) < 0.0)
    before = np.zeros(len(times_s), np.int64)
    before[order[1:]] = order[:-1]

    def describe(row: int) -> Fault:
        problem = (
            f"the time is {times_s[before[row]] - times_s[row]:g} s before that of {table.place(int(before[row]))}"
        )
        remedy = "split the file where a log or another phone begins, or sort it; a local clock may have been put back"
        return Fault("", problem, None, remedy)

    table.refuse(is_wrong, describe)
