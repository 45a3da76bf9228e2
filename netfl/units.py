"""Units: strings with units become SI numbers once, when a scenario is read.

The type of a model's field states its dimension (`Seconds`, `Bitrate`, `Decibels`, …).  A scenario gives a plain number
in SI units or a string such as ``"5 Mbps"``; a string of another dimension is an error.  A level in decibels always
needs its unit: ``"14 dBm"``, ``"25 mW"``, ``"3 dB"``.  Inside netfl all quantities are floats in SI units or decibels,
and their names end in the unit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import AfterValidator, Field, GetCoreSchemaHandler, ValidationInfo
from pydantic_core import core_schema

from netfl.registry import invalid

if TYPE_CHECKING:
    from pint import UnitRegistry


_QUANTITY = re.compile(r"\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*([^\W\d].*?)\s*\Z")
"""A number and a unit, without decimal commas or blanks between digits."""
WRITTEN: Mapping[str, bool] = MappingProxyType({"written": True})
"""The context in which pydantic validates a scenario file, not values from Python."""
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
_LEVELS = {"dB": {"dB": 0.0, "dBi": 0.0}, "dBm": {"dBm": 0.0, "dBW": 30.0}}
"""Units of levels in decibels, with the offset to add."""


@cache
def _pint() -> UnitRegistry[Any]:
    """Return pint's registry, created for the first string with a unit."""
    import pint

    units: UnitRegistry[Any] = pint.UnitRegistry(cache_folder=None)
    for prefix, factor in (("k", 1e3), ("M", 1e6), ("G", 1e9)):  # pint alone finds two readings of "kbps"
        units.define(f"{prefix}bps = {factor:g} bit / second")
    return units


def to_si(text: str, unit: str) -> float:
    """Return the quantity *text* in *unit*.

    >>> to_si("20 ms", "s"), to_si("5 Mbps", "bit/s"), to_si("25 mW", "dBm") > 13.9
    (0.02, 5000000.0, True)

    Raises:
        ValueError: *text* is not a quantity, or has another dimension.
    """
    match = _QUANTITY.match(text)
    if not match:
        raise ValueError("not a number with a unit")
    number, written = float(match[1]), match[2]
    if written in (offsets := _LEVELS.get(unit, {})):
        return number + offsets[written]
    if unit == "dB" or any(written in known for known in _LEVELS.values()):
        raise ValueError(f"a value in {written} instead of {_dimension(unit)}")
    if unit != "dBm":
        return _linear(number, written, unit)
    power_mw = _linear(number, written, "mW")
    if power_mw <= 0:
        raise ValueError("not a power above zero, which decibels need")
    return 10.0 * math.log10(power_mw)


def _linear(number: float, written: str, unit: str) -> float:
    try:
        quantity: Any = _pint().Quantity(number, written)
        given, wanted = quantity.to_root_units().units, _pint().Quantity(1.0, unit).to_root_units().units
    except Exception as error:  # pint's parser lets many kinds of exceptions out
        raise ValueError(f"unknown unit: {written}") from error
    if given != wanted:  # stricter than dimensions, which pint has none of for bits: to it 5 MHz would be a bit rate
        raise ValueError(f"a value in {given} instead of {_dimension(unit)}")
    return float(quantity.to(unit).magnitude)


def _dimension(unit: str) -> str:
    names = {"s": "a time", "m": "a length", "Hz": "a frequency", "bit/s": "a bit rate", "bit": "an amount of data"}
    names |= {"J": "an energy", "W": "a power"}
    return (names | {"byte": names["bit"]}).get(unit, f"a value in {unit}")


def readings(number: float, unit: str) -> str:
    """Return a remedy that names the quantities that a bare *number* may mean where a level in *unit* is needed.

    >>> readings(0.025, "dBm")
    "write '0.025 W' or '0.025 dBm'"
    """
    plain = f"{number:.12g}"
    if number <= 0:
        return f"write '{plain} {unit}'"
    if unit == "dBm":
        return f"write '{plain} W' or '{plain} dBm'"
    return f"write '{plain} dB' or, for a ratio of {plain}, '{10.0 * math.log10(number):.4g} dB'"


@dataclass(frozen=True, slots=True)
class Unit:
    """Annotation of a field's unit: strings are converted to it, and plain numbers are in it.

    In a scenario file (`WRITTEN`), a level in decibels without a unit is an error.  A level is dumped to JSON with its
    unit.
    """

    symbol: str

    @property
    def is_level(self) -> bool:
        """``True`` for levels in decibels."""
        return self.symbol in _LEVELS

    def parse(self, value: object, info: ValidationInfo) -> object:
        """Return *value* with a string converted; the field's own checks do the rest."""
        if not isinstance(value, str):
            if self.is_level and info.context is WRITTEN and isinstance(value, int | float):
                raise invalid("has no unit", readings(float(value), self.symbol))
            return value
        try:
            return to_si(value, self.symbol)
        except ValueError as error:
            raise invalid(str(error), self.remedy) from None

    @property
    def remedy(self) -> str:
        """Advice on what to write."""
        example = f"a quantity such as '{_EXAMPLES.get(self.symbol, self.symbol)}'"
        return f"write {example}" if self.is_level else f"write a number in {self.symbol}, or {example}"

    def dump(self, value: float) -> str:
        """Return a level as a string that `parse` reads back exactly."""
        return f"{float(value)!r} {self.symbol}"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        written = (
            core_schema.plain_serializer_function_ser_schema(self.dump, when_used="json") if self.is_level else None
        )
        return core_schema.with_info_before_validator_function(self.parse, handler(source), serialization=written)


def _check_carrier(frequency_hz: float) -> float:
    if not 3e3 <= frequency_hz <= 3e12:
        remedy = "write a frequency between 3 kHz and 3 THz, such as '868 MHz'"
        raise invalid("not the frequency of a radio wave in Hz", remedy)
    return frequency_hz


Seconds = Annotated[float, Unit("s")]
"""A time."""
Metres = Annotated[float, Unit("m")]
"""A length."""
Speed = Annotated[float, Unit("m/s")]
"""A speed."""
Hertz = Annotated[float, Unit("Hz")]
"""A frequency."""
Carrier = Annotated[Hertz, AfterValidator(_check_carrier), Field(json_schema_extra={"minimum": 3e3, "maximum": 3e12})]
"""The frequency of a radio wave, within the bands that the ITU Radio Regulations name (Article 2, 3 kHz to 3 THz)."""
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
"""A ratio, such as a gain, in decibels."""
DecibelMilliwatts = Annotated[float, Unit("dBm"), Field(le=1000)]
"""A power, in decibels above a milliwatt, small enough that its energy is a finite number."""
Probability = Annotated[float, Field(ge=0, le=1)]
"""A probability."""
PositiveProbability = Annotated[float, Field(gt=0, le=1)]
"""A probability, or a share, above 0."""
UserNumbers = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
"""A list of users."""


_MAX_DB = 1000.0
"""Limit of the magnitude of a level, so that squares of ratios are finite."""


def db_to_linear(level_db: ArrayLike) -> NDArray[np.float64]:
    """Return levels in decibels as ratios of powers, clipped to 1e±100.

    >>> db_to_linear([-np.inf, 0.0, 20.0, np.inf])
    array([1.e-100, 1.e+000, 1.e+002, 1.e+100])
    """
    return np.asarray(10.0 ** (np.clip(level_db, -_MAX_DB, _MAX_DB) / 10.0))
