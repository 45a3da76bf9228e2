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

_DECIBELS = re.compile(r"\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(dBm|dB)\s*\Z")
_EXAMPLES = {
    "s": "20 ms",
    "m": "2 km",
    "Hz": "868 MHz",
    "bit/s": "5 Mbps",
    "bit": "100 kB",
    "m/s": "3 km/h",
    "dB": "6 dB",
    "dBm": "14 dBm",
}


@cache
def _pint() -> UnitRegistry[Any]:
    """Pint's registry, made when the first string with a unit is met."""
    import pint  # noqa: PLC0415 - a third of a second that most commands never need

    return pint.UnitRegistry(cache_folder=None)


def to_si(text: str, unit: str) -> float:
    """The number that *text* stands for, in *unit*.

    >>> to_si("20 ms", "s"), to_si("5 Mbps", "bit/s"), to_si("25 mW", "dBm") > 13.9
    (0.02, 5000000.0, True)

    Raises:
        ValueError: *text* is no quantity, or one of another dimension; the message says which.
    """
    decibels = _DECIBELS.match(text)
    if decibels:
        if decibels[2] != unit:
            raise ValueError(f"a figure in {decibels[2]} where {_dimension(unit)} is wanted")
        return float(decibels[1])
    if unit == "dB":
        raise ValueError("not a figure in decibels")
    return 10.0 * math.log10(_linear(text, "mW")) if unit == "dBm" else _linear(text, unit)


def _linear(text: str, unit: str) -> float:
    """*text* in *unit*, by pint."""
    import pint  # noqa: PLC0415

    try:
        quantity: Any = _pint().Quantity(text)
        return float(quantity.to(unit).magnitude)
    except pint.DimensionalityError:
        raise ValueError(f"a quantity of {quantity.dimensionality} where {_dimension(unit)} is wanted") from None
    except Exception as error:  # pint's parser lets many kinds of exceptions out
        raise ValueError(f"not a quantity: {error}") from error


def _dimension(unit: str) -> str:
    """What *unit* measures, in words."""
    names = {"s": "a time", "m": "a length", "Hz": "a frequency", "bit/s": "a bit rate", "bit": "an amount of data"}
    return names.get(unit, f"a figure in {unit}")


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
Hertz = Annotated[float, Unit("Hz")]
"""A frequency."""
Bitrate = Annotated[float, Unit("bit/s")]
"""A rate in bits per second."""
Bits = Annotated[float, Unit("bit")]
"""An amount of data."""
Decibels = Annotated[float, Unit("dB")]
"""A ratio."""
DecibelMilliwatts = Annotated[float, Unit("dBm")]
"""A power."""
Probability = Annotated[float, Field(ge=0, le=1)]
"""A probability."""
