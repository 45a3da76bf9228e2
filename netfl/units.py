"""Quantities at the edge: strings with units become plain SI numbers, once, when a scenario is read.

A model's field says its dimension by its type (`Seconds`, `Bitrate`, `Decibels`, …).  A scenario may write a
plain number, taken as SI, or a string such as ``"5 Mbps"``; a string of another dimension is a fault.  Inside
netfl there are only SI floats, whose names end in their unit.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

if TYPE_CHECKING:
    from pint import UnitRegistry

_QUANTITY = re.compile(r"\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*([^\W\d].*?)\s*\Z")
"""One number and a unit; a decimal comma, or blanks between digits, are neither."""
_UNIT = re.compile(r"[^\d*^]{1,40}(?:(?:\*\*|\^)-?\d(?!\d))?(?:[*/ ][^\d*^]{1,40}(?:(?:\*\*|\^)-?\d(?!\d))?){0,4}")
"""Names of units and small powers of them; pint would work out any power, for as long as that takes."""
_EXAMPLES = {
    "s": "20 ms",
    "m": "2 km",
    "Hz": "868 MHz",
    "bit/s": "5 Mbps",
    "bit": "100 kB",
    "byte": "64 kB",
    "m/s": "3 km/h",
    "J": "15 Wh",
    "W": "30 mW",
    "dB": "6 dB",
    "dBm": "14 dBm",
}


@cache
def _pint() -> UnitRegistry[Any]:
    """Pint's registry, made when the first string with a unit is met."""
    import pint  # noqa: PLC0415 - a third of a second that most commands never need

    units: UnitRegistry[Any] = pint.UnitRegistry(cache_folder=None)
    for prefix, factor in (("k", 1e3), ("M", 1e6), ("G", 1e9)):  # pint alone finds two readings of "kbps"
        units.define(f"{prefix}bps = {factor:g} bit / second")
    return units


def to_si(text: str, unit: str) -> float:
    """The number that *text* stands for, in *unit*.

    >>> to_si("20 ms", "s"), to_si("5 Mbps", "bit/s"), to_si("25 mW", "dBm") > 13.9
    (0.02, 5000000.0, True)

    Raises:
        ValueError: *text* is no quantity, or one of another dimension; the message says which.
    """
    found = _QUANTITY.match(text)
    if not found:
        raise ValueError("not a number with a unit")
    number, written = float(found[1]), found[2]
    if written in {"dB", "dBm"} or unit == "dB":
        if written != unit:
            raise ValueError(f"a figure in {written} where {_dimension(unit)} is wanted")
        return number
    return _decibel_milliwatts(_linear(number, written, "mW")) if unit == "dBm" else _linear(number, written, unit)


def _decibel_milliwatts(power_mw: float) -> float:
    """A power in dBm."""
    if power_mw <= 0:
        raise ValueError("no power above zero, which decibels need")
    return 10.0 * math.log10(power_mw)


def _linear(number: float, written: str, unit: str) -> float:
    """*number* of the *written* unit in *unit*, by pint."""
    if not _UNIT.fullmatch(written):
        raise ValueError(f"a unit that is not known: {written[:60]}")
    try:
        quantity: Any = _pint().Quantity(number, written)
        given, wanted = quantity.to_root_units().units, _pint().Quantity(1.0, unit).to_root_units().units
    except Exception as error:  # pint's parser lets many kinds of exceptions out
        raise ValueError(f"a unit that is not known: {written}") from error
    if given != wanted:  # stricter than dimensions, which pint has none of for bits: to it 5 MHz would be a bit rate
        raise ValueError(f"a quantity in {given} where {_dimension(unit)} is wanted")
    return float(quantity.to(unit).magnitude)


def _dimension(unit: str) -> str:
    """What *unit* measures, in words."""
    names = {"s": "a time", "m": "a length", "Hz": "a frequency", "bit/s": "a bit rate", "bit": "an amount of data"}
    names |= {"J": "an energy", "W": "a power"}
    return (names | {"byte": names["bit"]}).get(unit, f"a figure in {unit}")


@dataclass(frozen=True, slots=True)
class Unit:
    """Marks a field's unit; strings are converted to it, plain numbers pass as they are."""

    symbol: str

    def parse(self, value: object) -> object:
        """*value* with a string converted; everything else is left to the field's own checks."""
        if isinstance(value, bool):
            raise PydanticCustomError("unit", "not a number", {"remedy": self.remedy})
        if not isinstance(value, str):
            return value
        try:
            return to_si(value, self.symbol)
        except ValueError as error:
            text = str(error).replace("{", "(").replace("}", ")")
            raise PydanticCustomError("unit", text, {"remedy": self.remedy}) from None

    @property
    def remedy(self) -> str:
        """What to write."""
        return f"write a number in {self.symbol}, or a quantity such as '{_EXAMPLES.get(self.symbol, self.symbol)}'"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Parse before the field's own checks."""
        return core_schema.no_info_before_validator_function(self.parse, handler(source))


Seconds = Annotated[float, Unit("s")]
"""A time."""
Metres = Annotated[float, Unit("m")]
"""A length."""
Speed = Annotated[float, Unit("m/s")]
"""A speed."""
Hertz = Annotated[float, Unit("Hz")]
"""A frequency."""
Bitrate = Annotated[float, Unit("bit/s")]
"""A rate in bits per second."""
Bits = Annotated[float, Unit("bit")]
"""An amount of data; a plain number is bits."""
Bytes = Annotated[float, Unit("byte")]
"""An amount of data; a plain number is bytes."""
Joules = Annotated[float, Unit("J")]
"""An energy."""
Watts = Annotated[float, Unit("W")]
"""A power."""
Decibels = Annotated[float, Unit("dB")]
"""A ratio."""
DecibelMilliwatts = Annotated[float, Unit("dBm")]
"""A power."""
Probability = Annotated[float, Field(ge=0, le=1)]
"""A probability."""
