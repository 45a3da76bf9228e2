"""Conversion of cells, which are text or typed, to numbers, times, numbers of users and names.

Nothing is guessed: a cell that is not of the documented form is marked, and `number_fault` and the like say why.  Text
is a number only in the form ``-12.5e3``.  A user's number or name is a number only if it is a canonical integer, such
as 12, and not 012, 1.0 or 1e1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import BeforeValidator

from netfl.core.spec_errors import invalid
from netfl.errors import Fault
from netfl.types import Bools, Floats, Ints
from netfl.units import to_si

_NUMBER = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"
_INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"
"""A canonical integer that fits into 64 bits."""
_COMMA = re.compile(r"[-+]?[0-9]+,[0-9]+")
_THOUSANDS = re.compile(r"[-+]?[0-9]{1,3}([., '’\u00a0\u202f][0-9]{3})+([.,][0-9]+)?")
_EPOCH = datetime(1970, 1, 1)
_UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_COMPACT_DATE = r"^[0-9]{8}$"
"""A date without separators, which is also a number."""
_NO_VALUE = frozenset({"", "nan", "na", "n/a", "#n/a", "null", "none", "nil", "nat", "<na>", "-", "--", "?"})
"""Words of other programs for a cell without a value, in lower case."""
NUMBER_REMEDY = "write a number such as 12.5"


def as_text(cells: pa.Array) -> pa.Array:
    """Return *cells* as text without blanks around it; empty where there is no value."""
    return pc.fill_null(pc.utf8_trim_whitespace(pc.cast(cells, pa.string())), "")


def is_text(cells: pa.Array) -> bool:
    """Return whether *cells* are text."""
    return bool(pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type))


def parse_numbers(cells: pa.Array, *, takes_durations: bool = True) -> Floats:
    """Return *cells* as finite numbers, and durations in seconds if it *takes_durations*; NaN for any other cell."""
    kind = cells.type
    if is_text(cells):
        text = as_text(cells)
        text = pc.if_else(pc.match_substring_regex(text, _NUMBER), pc.utf8_ltrim(text, "+"), None)
        values = _to_numpy(pc.cast(text, pa.float64()))
    elif pa.types.is_decimal(kind):
        values = _to_numpy(pc.cast(pc.cast(cells, pa.string()), pa.float64()))  # rounded once; Arrow's own cast is not
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        values = _to_numpy(pc.cast(cells, pa.float64(), safe=False))
    elif pa.types.is_duration(kind) and takes_durations:
        values = _to_numpy(cells) / np.timedelta64(1, "s")
    else:
        values = np.full(len(cells), np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def has_no_value(cell: object) -> bool:
    """Return whether *cell*, a value of Python, is empty or what other programs write into an empty cell."""
    return cell is None or str(cell).strip().lower() in _NO_VALUE


def is_infinite(cell: object) -> bool:
    """Return whether *cell*, a value of Python, is infinite, or a word for it."""
    return str(cell).strip().lower().lstrip("+-") in {"inf", "infinity"}


def hold_any(cells: pa.Array, values: Floats, numbers: Sequence[float]) -> Bools:
    """Return which *cells*, whose *values* are given, hold one of the *numbers* as far as their type has digits."""
    listed = np.asarray(numbers, float)
    is_listed = np.isin(values, listed)
    if pa.types.is_floating(cells.type):
        with np.errstate(over="ignore"):  # a number beyond the range of the type is in no cell
            rounded = listed.astype(cells.type.to_pandas_dtype()).astype(float)
        is_listed |= np.isin(values, rounded)
    return np.asarray(is_listed)


def number_fault(cell: object) -> Fault:
    """Return the reason why *cell*, a value of Python, is no number for `parse_numbers`."""
    word = str(cell).strip().lower()
    problem = "not a number"
    remedy = NUMBER_REMEDY
    if cell is None or not word:
        problem = "an empty cell instead of a number"
        remedy = "fill it in, or remove its row"
    elif word in _NO_VALUE:
        problem = "not a number: it stands for no value"
        remedy = "fill it in, or remove its row"
    elif word in {"true", "false"}:
        problem = "a boolean instead of a number"
        remedy = "write 1 or 0"
    elif isinstance(cell, float) or word.lstrip("+-") in {"inf", "infinity"}:
        problem = "not a finite number"
    elif not isinstance(cell, str):
        problem = f"a value of type {type(cell).__name__} instead of a number"
    elif _THOUSANDS.fullmatch(word):
        problem = "not a number: it has a separator of thousands or a decimal comma"
        remedy = "write thousands without a separator and decimals with a point, such as 1234.5"
    elif word.startswith("\u2212"):
        problem = "not a number: its minus is the character U+2212"
        remedy = "write the minus of a keyboard, -"
    elif _COMMA.fullmatch(word):
        problem = "not a number: it has a decimal comma"
        remedy = "write a decimal point, such as 12.5"
    else:
        remedy = f"{NUMBER_REMEDY}, without a unit"
    return Fault("", problem, None if cell is None else str(cell), remedy)


def seconds_fault(cell: object) -> Fault:
    """Return the reason why *cell*, a value of Python, is no number of seconds for `parse_numbers`."""
    if isinstance(cell, date) or (isinstance(cell, str) and _parse_date(cell.strip()) is not None):
        remedy = "write the seconds since the time 0 of the run, such as 12.5"
        return Fault("", "a date instead of a number of seconds", str(cell), remedy)
    return number_fault(cell)


def is_number(value: object) -> bool:
    """Return whether *value* is a finite number, or text that is one."""
    if isinstance(value, str):
        return bool(np.isfinite(parse_numbers(pa.array([value]))[0]))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer of more than 308 digits
        return False


def parse_quantity(value: object, unit: str) -> float:
    """Return a finite number, or a number with a unit, in *unit*; where that is empty, *value* is a number alone.

    Raises:
        ValueError: *value* is something else.
    """
    if is_number(value):
        return float(value)  # type: ignore[arg-type]
    if not isinstance(value, str) or not unit:
        raise ValueError("not a finite number")
    number = to_si(value, unit)
    if not math.isfinite(number):
        raise ValueError("not a finite number")
    return number


def parse_users(cells: pa.Array) -> Ints:
    """Return *cells* as numbers of users; -1 for any cell that is no canonical integer from 0 on."""
    if pa.types.is_integer(cells.type):
        is_number = _to_numpy(pc.is_valid(cells))
        numbers = _to_numpy(pc.fill_null(cells, 0))
        is_number &= numbers <= np.iinfo(np.int64).max  # 64 bits without a sign hold more
        return np.where(is_number, numbers.astype(np.int64), -1)
    if not is_text(cells):
        return np.full(len(cells), -1)
    text = as_text(cells)
    text = pc.if_else(pc.match_substring_regex(text, _INTEGER), text, "-1")
    return np.asarray(np.maximum(_to_numpy(pc.cast(text, pa.int64())), -1))


def parse_identifiers(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers or names of users, ``[n]``: integers if all of *values* are canonical integers, else text.

    Raises:
        ValueError: *values* are neither integers nor text, or one of them is empty.
    """
    if values.ndim != 1:
        raise ValueError(f"users of shape {[*values.shape]} instead of one for each example")
    if values.dtype.kind in "iu":
        if values.size and max(abs(int(values.min())), abs(int(values.max()))) >= 10**18:
            return values.astype(str)  # no canonical integer, as text of so many digits
        return values.astype(np.int64)
    if values.dtype.kind not in "UO" or not all(isinstance(value, str) for value in values.flat):
        example = f", such as {values[0]}" if values.size else ""
        raise ValueError(f"users of type {_type_name(values)}{example}, instead of whole numbers or names")
    text = as_text(pa.array(values, pa.string()))
    empty = pc.index(text, "").as_py()
    if empty >= 0:
        raise ValueError(f"example {empty} (from 0) has no user")
    if _to_numpy(pc.match_substring_regex(text, _INTEGER)).all():
        return np.asarray(_to_numpy(pc.cast(text, pa.int64())))
    return _to_numpy(text).astype(str)


def _type_name(values: NDArray[Any]) -> str:
    if values.dtype.kind != "O":
        return str(values.dtype)
    return ", ".join(sorted({type(value).__name__ for value in values.flat}))


_RECENT_S = range(1 << 28, 1 << 32)
"""Seconds since 1970 that a number without a unit probably counts: 1978 to 2106."""


def parse_origin(value: object) -> object:
    """Return *value* as the date of time 0: eight digits are a date, as in files; no number is a time since 1970."""
    if not isinstance(value, int | float | str):
        return value
    moment = _parse_date(str(value).strip())
    if moment is None or isinstance(value, bool):
        remedy = "write a date such as 2024-03-30T00:00, with a time zone if needed"
        if isinstance(value, int) and value in _RECENT_S:
            meant = datetime.fromtimestamp(value, UTC).isoformat()
            remedy = f"write the date {meant}, if it counts seconds since 1970"
        raise invalid("not a date in ISO 8601", remedy)
    return moment


Origin = Annotated[datetime, BeforeValidator(parse_origin, json_schema_input_type=datetime | int)]
"""The date of time 0."""


@dataclass(frozen=True, slots=True)
class TimeScale:
    """Meaning of the times in a file.

    A time is a number of seconds (or of rounds), a quantity such as ``90 min``, a duration or, with an *origin*, a date
    in ISO 8601.  With an origin, eight digits such as 20240331 are a date.

    Args:
        origin: the date of time 0, with a time zone if the dates have one; ``None`` if the file has no dates.
        unit: unit of the numbers, ``s`` or ``rounds``.  Times in rounds are numbers.
    """

    origin: datetime | None = None
    unit: str = "s"

    def parse(self, cells: pa.Array) -> Floats:
        """Return *cells* in the unit; NaN for any cell that is no time."""
        kind = cells.type
        if pa.types.is_duration(kind) and self.unit != "s":
            return np.full(len(cells), np.nan)
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            return self._parse_dates(cells)
        if not is_text(cells) and not pa.types.is_integer(kind):
            return parse_numbers(cells)
        text = as_text(cells)
        times = parse_numbers(text)
        is_other = np.isnan(times)
        if self.origin is not None:
            is_other |= _to_numpy(pc.match_substring_regex(text, _COMPACT_DATE))
        if self.unit != "s":
            return times
        is_other &= ~is_empty(text)
        known: dict[str, float] = {}
        for row in np.flatnonzero(is_other).tolist():
            word = text[row].as_py()
            if word not in known:
                known[word] = self._time_or_nan(word)
            times[row] = known[word]
        return times

    def _time_or_nan(self, text: str) -> float:
        try:
            return self._parse_words(text)
        except ValueError:
            return math.nan

    def parse_text(self, text: str) -> float:
        """Return one time.

        Raises:
            ValueError: *text* is no time; has the problem and the remedy.
        """
        number = float(parse_numbers(pa.array([text]))[0])
        if np.isfinite(number) and (self.origin is None or not re.match(_COMPACT_DATE, text)):
            return number
        return self._parse_words(text)

    def _parse_words(self, text: str) -> float:
        """Return one time that is a date or a quantity; eight digits that are no date are a number."""
        moment = _parse_date(text)
        if moment is not None:
            return self._seconds_to(moment)
        if re.match(_COMPACT_DATE, text):
            return float(text)
        try:
            time_s = to_si(text, "s")
        except ValueError as error:
            remedy = "write seconds, a quantity such as '90 min', or a date such as 2024-03-01T08:00"
            raise ValueError(f"not a time: {error}", remedy) from None
        if not np.isfinite(time_s):
            raise ValueError("not a finite time", "write a smaller one")
        return time_s

    def fault(self, cell: object) -> Fault:
        """Return the reason why *cell*, a value of Python, is no time."""
        if not isinstance(cell, str | date) or cell == "" or self.unit != "s":
            return number_fault(cell)
        comma = number_fault(cell)
        if "comma" in comma.problem:
            return comma
        try:
            self.parse_text(str(cell).strip())
        except ValueError as error:
            problem, remedy = error.args
            return Fault("", problem, str(cell), remedy)
        return comma

    def _seconds_to(self, moment: datetime) -> float:
        if self.origin is None:
            raise ValueError("a date, but no origin is given", "give origin, the date of time 0")
        try:
            return (moment - self.origin).total_seconds()
        except TypeError:
            raise ValueError("only one of date and origin has a time zone", "give both a time zone") from None

    def _parse_dates(self, cells: pa.Array) -> Floats:
        has_zone = getattr(cells.type, "tz", None) is not None
        origin = self.origin
        if origin is None or has_zone != (origin.tzinfo is not None) or self.unit != "s":
            return np.full(len(cells), np.nan)
        if has_zone:
            origin = origin.astimezone(UTC).replace(tzinfo=None)
        whole, parts = _since_1970(cells)
        origin_us = (origin - _EPOCH) // timedelta(microseconds=1)
        origin_s, origin_part_us = divmod(origin_us, 1_000_000)
        return (whole - origin_s) + (parts - origin_part_us / 1e6)


def _since_1970(cells: pa.Array) -> tuple[Floats, Floats]:
    """Return dates and timestamps as whole seconds since 1970, and the rest of a second; NaN where there is none.

    Counts of a unit are divided before anything is converted, so that no date of any unit overflows.
    """
    kind = cells.type
    per_second = 1
    seconds = 1
    if pa.types.is_date32(kind):
        counts = pc.cast(cells, pa.int32())
        seconds = 86_400
    else:
        counts = pc.cast(cells, pa.int64())
        unit = "ms" if pa.types.is_date64(kind) else kind.unit
        per_second = _UNITS_PER_SECOND[unit]
    numbers = np.asarray(_to_numpy(pc.fill_null(counts, 0)), np.int64)
    whole, rest = np.divmod(numbers, per_second)
    is_known = _to_numpy(pc.is_valid(cells))
    return np.where(is_known, whole.astype(float) * seconds, np.nan), rest / per_second


def _parse_date(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _to_numpy(cells: pa.Array) -> NDArray[Any]:
    return np.asarray(cells.to_numpy(zero_copy_only=False))


def is_nothing(cells: pa.Array) -> Bools:
    """Return which *cells* are the numbers ``nan`` or ``-inf``."""
    if is_text(cells):
        words = pc.utf8_lower(as_text(cells))
        return np.asarray(_to_numpy(pc.is_in(words, pa.array(["nan", "-nan", "-inf", "-infinity"]))))
    if not pa.types.is_floating(cells.type):
        return np.zeros(len(cells), bool)
    values = _to_numpy(pc.cast(cells, pa.float64()))
    return np.asarray(np.isnan(values) | np.isneginf(values))


def cell_value(cells: pa.Array, row: int) -> object:
    """Return one of *cells* as a value of Python; as text where Python has no such date or duration."""
    try:
        return cells[row].as_py()
    except (OverflowError, ValueError):
        return f"{pc.cast(cells.slice(row, 1), pa.int64())[0].as_py()} {cells.type}"


def is_empty(cells: pa.Array) -> Bools:
    """Return which *cells* have no value: null, or text of blanks."""
    if is_text(cells):
        return np.asarray(_to_numpy(pc.equal(as_text(cells), "")))
    return np.asarray(_to_numpy(pc.is_null(cells)))
