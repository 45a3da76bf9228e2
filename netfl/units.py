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
from pydantic import Field, GetCoreSchemaHandler, ValidationInfo
from pydantic_core import PydanticCustomError, core_schema

if TYPE_CHECKING:
    from pint import UnitRegistry


_QUANTITY = re.compile(r"\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*([^\W\d].*?)\s*\Z")
"""A number and a unit, without decimal commas or blanks between digits."""
_UNIT = re.compile(r"[^\d*^]{1,40}(?:(?:\*\*|\^)-?\d(?!\d))?(?:[*/ ][^\d*^]{1,40}(?:(?:\*\*|\^)-?\d(?!\d))?){0,4}")
"""Names of units and small powers of them, since pint computes any power, for as long as it takes."""
WRITTEN: Mapping[str, bool] = MappingProxyType({"written": True})
"""The context in which pydantic validates a scenario file, not values from Python."""
_HUGE = 1e308
"""About the largest number that a float holds."""
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
_PREFIXES = {"THz": 1e12, "GHz": 1e9, "MHz": 1e6, "kHz": 1e3, "Hz": 1.0}
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
        raise ValueError(f"a figure in {written} where {_dimension(unit)} is wanted")
    return _decibel_milliwatts(_linear(number, written, "mW")) if unit == "dBm" else _linear(number, written, unit)


def _decibel_milliwatts(power_mw: float) -> float:
    if power_mw <= 0:
        raise ValueError("no power above zero, which decibels need")
    return 10.0 * math.log10(power_mw)


def _linear(number: float, written: str, unit: str) -> float:
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
    names = {"s": "a time", "m": "a length", "Hz": "a frequency", "bit/s": "a bit rate", "bit": "an amount of data"}
    names |= {"J": "an energy", "W": "a power"}
    return (names | {"byte": names["bit"]}).get(unit, f"a figure in {unit}")


def _hertz(frequency_hz: float) -> str:
    name = next((name for name, factor in _PREFIXES.items() if frequency_hz >= factor), "Hz")
    return f"{frequency_hz / _PREFIXES[name]:g} {name}"


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
        if isinstance(value, bool):
            raise PydanticCustomError("unit", "not a number", {"remedy": self.remedy})
        if not isinstance(value, str):
            strict = self.is_level and info.context is WRITTEN
            if strict and isinstance(value, int | float) and -_HUGE < value < _HUGE:
                raise PydanticCustomError("unit", "has no unit", {"remedy": readings(float(value), self.symbol)})
            return value
        try:
            return to_si(value, self.symbol)
        except ValueError as error:
            text = str(error).replace("{", "(").replace("}", ")")
            raise PydanticCustomError("unit", text, {"remedy": self.remedy}) from None

    @property
    def remedy(self) -> str:
        """Advice on what to write."""
        example = f"a quantity such as '{_EXAMPLES.get(self.symbol, self.symbol)}'"
        return f"write {example}" if self.is_level else f"write a number in {self.symbol}, or {example}"

    def outside(self, value: object, low: float, high: float) -> tuple[str, str] | None:
        """Return the problem and the remedy for a bare number of hertz outside *low* to *high*.

        A number below 30 was probably meant in GHz, any other in MHz.
        """
        if self.symbol != "Hz" or isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if not 0 < value < _HUGE:
            return None
        problem = (
            f"{value:.12g} Hz is below {_hertz(low)}" if value < low else f"{value:.3g} Hz is above {_hertz(high)}"
        )
        likely = ("GHz" if value < 30 else "MHz", "kHz")
        fitting = [prefix for prefix in likely if low <= value * _PREFIXES[prefix] <= high]
        return problem, f"did you mean '{value:.12g} {fitting[0]}'?" if fitting else self.remedy

    def dump(self, value: float) -> str:
        """Return a level as a string that `parse` reads back exactly."""
        return f"{float(value)!r} {self.symbol}"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Parse before the field's own checks."""
        written = (
            core_schema.plain_serializer_function_ser_schema(self.dump, when_used="json") if self.is_level else None
        )
        return core_schema.with_info_before_validator_function(self.parse, handler(source), serialization=written)


Seconds = Annotated[float, Unit("s")]
"""A time."""
Metres = Annotated[float, Unit("m")]
"""A length."""
Speed = Annotated[float, Unit("m/s")]
"""A speed."""
Hertz = Annotated[float, Unit("Hz")]
"""A frequency."""
Carrier = Annotated[float, Unit("Hz"), Field(ge=3e3, le=3e12)]
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
DecibelMilliwatts = Annotated[float, Unit("dBm")]
"""A power, in decibels above a milliwatt."""
Probability = Annotated[float, Field(ge=0, le=1)]
"""A probability."""


_MAX_DB = 1000.0
"""Limit of the magnitude of a level, so that squares of ratios are finite."""


def db_to_linear(level_db: ArrayLike) -> NDArray[np.float64]:
    """Return levels in decibels as ratios of powers, clipped to 1e±100.

    >>> db_to_linear([-np.inf, 0.0, 20.0, np.inf])
    array([1.e-100, 1.e+000, 1.e+002, 1.e+100])
    """
    return np.asarray(10.0 ** (np.clip(level_db, -_MAX_DB, _MAX_DB) / 10.0))
