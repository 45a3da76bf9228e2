"""Units: strings with units become SI numbers once, when a scenario is read.

The type of a model's field states its dimension (`Seconds`, `Bitrate`, `Decibels`, …).  A scenario gives a plain number
in SI units or a string such as ``"5 Mbps"``.  Each dimension has a closed list of units (`units_of`), which are written
exactly so: a string of another dimension, or with a unit that differs in case, is an error.  A level in decibels always
needs its unit: ``"14 dBm"``, ``"25 mW"``, ``"3 dB"``.  Inside netfl all quantities are floats in SI units or decibels,
and their names end in the unit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import AfterValidator, Field, GetCoreSchemaHandler, ValidationInfo
from pydantic_core import core_schema

from netfl.core.spec_errors import invalid

_QUANTITY = re.compile(r"\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*([^\W\d].*?)\s*\Z")
"""A number and a unit, without decimal commas or blanks between digits."""
WRITTEN: Mapping[str, bool] = MappingProxyType({"written": True})
"""The context in which pydantic validates a scenario file, not values from Python."""


@dataclass(frozen=True, slots=True)
class _Dimension:
    """Dimension of a quantity.

    Args:
        name: the name in messages.
        example: a quantity for remedies.
        units: the factor to the SI unit of each unit; for levels in decibels the offset to add.
    """

    name: str
    example: str
    units: Mapping[str, Fraction]


_PREFIXES = {
    "n": ("nano", Fraction(1, 10**9)),
    "u": ("micro", Fraction(1, 10**6)),
    "µ": ("micro", Fraction(1, 10**6)),  # the sign of Latin-1
    "μ": ("micro", Fraction(1, 10**6)),  # the Greek letter
    "m": ("milli", Fraction(1, 10**3)),
    "c": ("centi", Fraction(1, 10**2)),
    "k": ("kilo", Fraction(10**3)),
    "M": ("mega", Fraction(10**6)),
    "G": ("giga", Fraction(10**9)),
    "T": ("tera", Fraction(10**12)),
    "Ki": ("kibi", Fraction(2**10)),
    "Mi": ("mebi", Fraction(2**20)),
    "Gi": ("gibi", Fraction(2**30)),
    "Ti": ("tebi", Fraction(2**40)),
}
_LARGE = "k M G T"
"""Prefixes of units whose thousandths nobody means: ``mbps`` and ``mHz`` are mistakes for ``Mbps`` and ``MHz``."""


def _with_prefixes(symbols: str, words: str, prefixes: str, factor: int = 1) -> dict[str, Fraction]:
    """Return units, such as ``W watt watts``, alone and with each of *prefixes*."""
    units = dict.fromkeys([*symbols.split(), *words.split()], Fraction(factor))
    for prefix in prefixes.split():
        word, scale = _PREFIXES[prefix]
        units |= {prefix + symbol: factor * scale for symbol in symbols.split()}
        units |= {word + name: factor * scale for name in words.split()}
    return units


_SMALL_TIMES = _with_prefixes("s sec", "second seconds", "n u µ μ m")
_LONG_TIMES = {
    **dict.fromkeys(("min", "minute", "minutes"), Fraction(60)),
    **dict.fromkeys(("h", "hr", "hour", "hours"), Fraction(3600)),
    **dict.fromkeys(("d", "day", "days"), Fraction(86400)),
    **dict.fromkeys(("week", "weeks"), Fraction(7 * 86400)),
}
_LENGTHS = {
    **_with_prefixes("m", "metre metres meter meters", "m c k"),
    **dict.fromkeys(("mi", "mile", "miles"), Fraction("1609.344")),
    **dict.fromkeys(("ft", "foot", "feet"), Fraction("0.3048")),
    "nmi": Fraction(1852),
}
_SPEEDS = {
    "m/s": Fraction(1),
    "km/s": Fraction(1000),
    "km/h": Fraction(1000, 3600),
    "mph": Fraction("1609.344") / 3600,
    **dict.fromkeys(("kn", "knot", "knots"), Fraction(1852, 3600)),
}
_DATA_PREFIXES = f"{_LARGE} Ki Mi Gi Ti"
_BITS = {
    **_with_prefixes("bit bits b", "", _DATA_PREFIXES),
    **_with_prefixes("B", "byte bytes", _DATA_PREFIXES, factor=8),
}
_BIT_RATES = {
    **{f"{unit}/s": factor for unit, factor in _BITS.items()},
    **{f"{unit}ps": factor for unit, factor in _BITS.items() if unit[-1] in "bB"},
}
_POWERS = _with_prefixes("W", "watt watts", "n u µ μ m k M G")
_ENERGIES = {
    **_with_prefixes("J", "joule joules", "n u µ μ m k M G"),
    **_with_prefixes("Wh", "", "u µ μ m k M G", factor=3600),
    "Ws": Fraction(1),
}
_DIMENSIONS: Mapping[str, _Dimension] = MappingProxyType(
    {
        "s": _Dimension("a time", "20 ms", _SMALL_TIMES | _LONG_TIMES),
        "m": _Dimension("a length", "2 km", _LENGTHS),
        "Hz": _Dimension("a frequency", "868 MHz", _with_prefixes("Hz", "hertz", _LARGE)),
        "bit/s": _Dimension("a bit rate", "5 Mbps", _BIT_RATES),
        "bit": _Dimension("an amount of data", "100 kB", _BITS),
        "byte": _Dimension("an amount of data", "64 kB", {unit: factor / 8 for unit, factor in _BITS.items()}),
        "m/s": _Dimension("a speed", "3 km/h", _SPEEDS),
        "J": _Dimension("an energy", "15 Wh", _ENERGIES),
        "W": _Dimension("a power", "30 mW", _POWERS),
        "dB": _Dimension("a value in dB", "6 dB", {"dB": Fraction(0), "dBi": Fraction(0)}),
        "dBm": _Dimension("a value in dBm", "14 dBm", {"dBm": Fraction(0), "dBW": Fraction(30)}),
    }
)
_LEVELS = ("dB", "dBm")
"""Units of levels in decibels."""


@dataclass(frozen=True, slots=True)
class _Usual:
    """Values that are probably meant as they are written.

    Args:
        smallest: the smallest usual magnitude above 0, or the smallest level.
        largest: the largest.
        others: words for all other values.
        is_of_largest: whether only the largest value of a list has to be usual.
    """

    smallest: float
    largest: float
    others: str
    is_of_largest: bool = False


_USUAL: Mapping[str, _Usual] = MappingProxyType(
    {
        "s": _Usual(1e-9, 3.2e9, "not between 1 ns and 100 years"),
        "m": _Usual(0.0, 1e9, "above 1,000,000 km"),
        "Hz": _Usual(0.0, 3e11, "above 300 GHz"),
        "bit/s": _Usual(100.0, 1e13, "not between 100 bit/s and 10 Tbps"),
        "bit": _Usual(1.0, 8e15, "not between 1 bit and 1 PB"),
        "byte": _Usual(0.125, 1e15, "not between 1 bit and 1 PB"),
        "m/s": _Usual(0.0, 1e5, "above 100 km/s"),
        "J": _Usual(0.0, 1e10, "above 10 GJ"),
        "W": _Usual(0.0, 1e3, "above 1 kW"),
        "dB": _Usual(-300.0, 300.0, "not between -300 and 300 dB"),
        "dBm": _Usual(-math.inf, 60.0, "above 1 kW"),
        "a bandwidth": _Usual(1e3, 1e11, "not between 1 kHz and 100 GHz"),
        "a carrier": _Usual(3e7, 3e11, "not between 30 MHz and 300 GHz"),
        "a processor": _Usual(1e5, 1e11, "not between 100 kHz and 100 GHz"),
        "the extent of a network": _Usual(5.0, 1e9, "not between 5 m and 1,000,000 km", is_of_largest=True),
        "the delay of a link": _Usual(0.0, 2.0, "above 2 s"),
        "the power of a user": _Usual(-60.0, 60.0, "not between 1 nW and 1 kW"),
        "the power of a user's radio": _Usual(1e-9, 50.0, "not between 1 nW and 50 W"),
        "the propagation speed": _Usual(1e8, 3e8, "below 100,000 km/s, so slower than light in glass"),
        "the speed of a user": _Usual(0.0, 350.0, "above 350 m/s"),
        "the size of an update": _Usual(64.0, 8e15, "not between 8 bytes and 1 PB"),
        "the size of a packet": _Usual(8.0, 8e9, "not between 1 byte and 1 GB"),
        "a noise figure": _Usual(0.0, 30.0, "above 30 dB"),
        "an antenna": _Usual(-60.0, 80.0, "not between -60 and 80 dBi"),
    }
)
"""Usual values in each unit, and of quantities of which a forgotten prefix, or watts for dBm, shows earlier."""
_MAX_NUMBER = 1.7e308
"""Number above which an integer is none of 64 bits."""
_MAX_USER_W = 5.0
"""Largest usual power of a user that is written in watts."""
_CLOCK_STEP_S = 1e-6
"""Longest step between two times that a run distinguishes."""


class QuantityError(ValueError):
    """A text is not a quantity of the dimension that is needed.

    Args:
        problem: the problem in words.
        remedy: the unit that is probably meant; empty if unknown.
    """

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.remedy = remedy
        super().__init__(problem)


@cache
def units_of(unit: str) -> tuple[str, ...]:
    """Return all units in which a text can state a quantity in *unit*, the SI unit or ``dB`` or ``dBm``.

    >>> units_of("dBm")[:4], "Mbps" in units_of("bit/s"), "mbps" in units_of("bit/s")
    (('dBm', 'dBW', 'W', 'watt'), True, False)
    """
    units = [*_DIMENSIONS[unit].units]
    if unit == "dBm":
        units += _POWERS
    return tuple(units)


def to_si(text: str, unit: str) -> float:
    """Return the quantity *text* in *unit*; a decimal number is converted without a rounding error of its own.

    >>> to_si("20 ms", "s"), to_si("5 Mbps", "bit/s"), to_si("25 mW", "dBm") > 13.9
    (0.02, 5000000.0, True)

    Raises:
        QuantityError: *text* is not a quantity, has another dimension, or a unit that is not in `units_of`.
    """
    match = _QUANTITY.match(text)
    if not match:
        decimal = re.sub(r"(?<=[0-9]),(?=[0-9]{1,2}(?![0-9]))", ".", text)
        remedy = f"write '{decimal}'" if _QUANTITY.match(decimal) else ""
        raise QuantityError("not a number with a unit", remedy)
    digits, written = match[1], match[2]
    dimension = _DIMENSIONS[unit]
    if unit in _LEVELS and written in dimension.units:
        return float(digits) + float(dimension.units[written])
    if written not in units_of(unit):
        raise _unit_error(written, unit)
    if unit != "dBm":
        return _scaled(digits, dimension.units[written])
    power_mw = _scaled(digits, _POWERS[written] * 1000)
    if power_mw <= 0:
        raise QuantityError("not a power above zero, which decibels need")
    return 10.0 * math.log10(power_mw)


def _scaled(digits: str, factor: Fraction) -> float:
    """Return the number *digits* times *factor*, rounded once: ``9 ms`` are 0.009 s, not 0.009000000000000001 s."""
    number = float(digits)
    if number == 0.0 or not math.isfinite(number):  # also numbers whose exponent is too large to calculate with
        return number
    exact = Fraction(digits) * factor  # the digits that were written, not the binary number next to them
    try:
        return float(exact)
    except OverflowError:
        return math.copysign(math.inf, number)


@dataclass(frozen=True, slots=True)
class Quantities:
    """Values of one dimension as numbers.

    Args:
        numbers: the numbers.
        unit: their unit; empty without one.
    """

    numbers: tuple[float, ...]
    unit: str = ""


def read_quantities(values: Iterable[Any]) -> Quantities | None:
    """Return texts as numbers in one unit, that of the largest; ``None`` if they are not quantities of one dimension.

    >>> read_quantities(["2 min", "30 s"]), read_quantities(["1 min", "2 m"])
    (Quantities(numbers=(2.0, 0.5), unit='min'), None)
    >>> read_quantities(["14 dBm", "1 W"])
    Quantities(numbers=(14.0, 30.0), unit='dBm')
    """
    texts = [*values]
    found = read_si(texts)
    if found is None or found.unit in _LEVELS:
        return found
    largest = _QUANTITY.match(texts[found.numbers.index(max(found.numbers, key=abs))])
    assert largest is not None, "`read_si` has read it"
    unit = largest[2]
    size = _DIMENSIONS[found.unit].units[unit]
    return Quantities(tuple(_scaled(repr(number), 1 / size) for number in found.numbers), unit)


def read_si(values: Iterable[Any]) -> Quantities | None:
    """Return texts as numbers in SI units, levels in their own; ``None`` if they are not quantities of one dimension.

    >>> read_si(["2 min", "30 s"]), read_si(["14 dBm", "1 W"]), read_si(["tdma", "fdma"])
    (Quantities(numbers=(120.0, 30.0), unit='s'), Quantities(numbers=(14.0, 30.0), unit='dBm'), None)
    """
    texts = [*values]
    if not texts or not all(isinstance(text, str) for text in texts):
        return None
    for symbol in _DIMENSIONS:
        try:
            return Quantities(tuple(to_si(text, symbol) for text in texts), symbol)
        except QuantityError:
            continue
    return None


def _unit_error(written: str, unit: str) -> QuantityError:
    """Return the error about a unit that is not of the dimension of *unit*, with the units that may be meant."""
    is_known = any(written in dimension.units for dimension in _DIMENSIONS.values())
    problem = f"unknown unit: {written}"
    if is_known:
        problem = f"a value in {written} instead of {_DIMENSIONS[unit].name}"
    units = units_of(unit)
    meant = [known for known in units if known.casefold() == written.casefold()]
    meant.sort(key=lambda known: sum(letter != other for letter, other in zip(known, written, strict=False)))
    if not meant and not is_known:
        same_letter = [known for known in units if known[0] == written[0]]  # another prefix is another quantity
        meant = get_close_matches(written, same_letter, n=1, cutoff=0.7)
    if not meant:
        return QuantityError(problem)
    names = " or ".join(f"'{name}'" for name in meant)
    return QuantityError(problem, f"did you mean {names}?")


def readings(number: float, unit: str) -> str:
    """Return a remedy that names the quantities that a bare *number* may mean where a level in *unit* is needed.

    >>> readings(0.025, "dBm")
    "write '0.025 W' or '0.025 dBm'"
    """
    plain = f"{number:.12g}"
    if not math.isfinite(number):
        return f"write a number of {unit}, such as '6 {unit}'"
    if number <= 0:
        return f"write '{plain} {unit}'"
    if unit == "dBm":
        return f"write '{plain} W' or '{plain} dBm'"
    of_ratio = f"{10.0 * math.log10(number):.4g}"
    if of_ratio == plain:
        return f"write '{plain} dB', which is a ratio of {plain} too"
    return f"write '{plain} dB' or, for a ratio of {plain}, '{of_ratio} dB'"


@dataclass(frozen=True, slots=True)
class Unit:
    """Annotation of a field's unit: strings are converted to it, and plain numbers are in it.

    In a scenario file (`WRITTEN`), a level in decibels without a unit is an error.  A level is dumped to JSON with its
    unit.

    Args:
        symbol: the SI unit, or ``dB`` or ``dBm``.
        quantity: the quantity that the field states, if its usual values are fewer than those of the unit.
    """

    symbol: str
    quantity: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.symbol not in _DIMENSIONS:
            raise ValueError(f"no unit of netfl: {self.symbol!r}; known: {', '.join(_DIMENSIONS)}")
        if self.quantity and self.quantity not in _USUAL:
            raise ValueError(f"no quantity with usual values: {self.quantity!r}; known: {', '.join(_USUAL)}")

    @property
    def is_level(self) -> bool:
        """``True`` for levels in decibels."""
        return self.symbol in _LEVELS

    def parse(self, value: object, info: ValidationInfo) -> object:
        """Return *value* with a string converted; the field's own checks do the rest."""
        if not isinstance(value, str):
            if self.is_level and info.context is WRITTEN and isinstance(value, int | float):
                if abs(value) > _MAX_NUMBER:
                    raise invalid("not a finite number", self.remedy)
                raise invalid("has no unit", readings(float(value), self.symbol))
            return value
        try:
            return to_si(value, self.symbol)
        except QuantityError as error:
            raise invalid(str(error), error.remedy or self.remedy) from None

    @property
    def remedy(self) -> str:
        """Advice on what to write."""
        example = f"a quantity such as '{_DIMENSIONS[self.symbol].example}'"
        return f"write {example}" if self.is_level else f"write a number in {self.symbol}, or {example}"

    @property
    def doubted(self) -> str:
        """Values that are probably not intended, in words, such as ``above 1 kW``."""
        return self._usual.others

    def doubtful(self, values: Sequence[float]) -> list[float]:
        """Return those of *values* that are probably not intended."""
        usual = self._usual
        if usual.is_of_largest:
            values = sorted(values, key=abs)[-1:]
        return [value for value in values if not self._is_usual(value)]

    def meant_level(self, text: str) -> str:
        """Return the level that is probably meant by a power of a user in watts; empty if *text* is usual.

        >>> unit = Unit("dBm", "the power of a user")
        >>> unit.meant_level("14 W"), unit.meant_level("14 dBm"), unit.meant_level("0.025 W")
        ('14 dBm', '', '')
        """
        match = _QUANTITY.match(text)
        if self.quantity != "the power of a user" or match is None or match[2] not in {"W", "watt", "watts"}:
            return ""
        if float(match[1]) <= _MAX_USER_W:
            return ""
        return f"{match[1]} {self.symbol}"

    def _is_usual(self, value: float) -> bool:
        usual = self._usual
        if math.isinf(value):
            return True
        if self.is_level:
            return usual.smallest <= value <= usual.largest
        return not value or usual.smallest <= abs(value) <= usual.largest

    @property
    def _usual(self) -> _Usual:
        return _USUAL[self.quantity or self.symbol]

    def dump(self, value: float) -> str:
        """Return a level as a string that `parse` reads back exactly."""
        return f"{float(value)!r} {self.symbol}"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        written = (
            core_schema.plain_serializer_function_ser_schema(self.dump, when_used="json") if self.is_level else None
        )
        return core_schema.with_info_before_validator_function(self.parse, handler(source), serialization=written)


def find_unit(annotations: Iterable[Any]) -> Unit | None:
    """Return the unit in *annotations* of a field or, if its type is a union or a list, in those of its parts.

    >>> find_unit([tuple[Metres, ...] | None])
    Unit(symbol='m')
    """
    for annotation in annotations:
        unit = annotation if isinstance(annotation, Unit) else find_unit(get_args(annotation))
        if unit is not None:
            return unit
    return None


def clock_problem(time_s: float) -> str:
    """Return why *time_s* is too late on a clock of 64-bit floats; empty if one step is at most 1 µs (272 years).

    >>> clock_problem(3e9), clock_problem(1e10)
    ('', 'one step of the clock is 1.9 µs at 1e+10 s, more than 1 µs, so that near times would become equal')
    """
    step_s = math.ulp(time_s)
    if step_s <= _CLOCK_STEP_S:
        return ""
    return (
        f"one step of the clock is {step_s * 1e6:.2g} µs at {time_s:.6g} s, more than {_CLOCK_STEP_S * 1e6:g} µs, so "
        "that near times would become equal"
    )


def _check_carrier(frequency_hz: float) -> float:
    if not 3e3 <= frequency_hz <= 3e12:
        remedy = "write a frequency between 3 kHz and 3 THz, such as '868 MHz'"
        raise invalid("not the frequency of a radio wave in Hz", remedy)
    return frequency_hz


Seconds = Annotated[float, Unit("s")]
"""A time."""
LinkDelay = Annotated[float, Unit("s", "the delay of a link")]
"""The delay of a link."""
Metres = Annotated[float, Unit("m")]
"""A length."""
Extent = Annotated[float, Unit("m", "the extent of a network")]
"""A length that decides how far users are from their towers, such as the radius of a cell."""
Speed = Annotated[float, Unit("m/s")]
"""A speed."""
UserSpeed = Annotated[float, Unit("m/s", "the speed of a user")]
"""The speed of a user on the ground or in the air."""
PropagationSpeed = Annotated[float, Unit("m/s", "the propagation speed")]
"""Speed of signals in a cable or fibre; that of light is divided by 1.5 in glass, and by less than 3 in any cable."""
Hertz = Annotated[float, Unit("Hz")]
"""A frequency."""
Bandwidth = Annotated[float, Unit("Hz", "a bandwidth")]
"""The bandwidth of a radio."""
ClockRate = Annotated[float, Unit("Hz", "a processor")]
"""Cycles of a processor per second."""
Carrier = Annotated[
    float,
    Unit("Hz", "a carrier"),
    AfterValidator(_check_carrier),
    Field(json_schema_extra={"minimum": 3e3, "maximum": 3e12}),
]
"""The frequency of a radio wave, within the bands that the ITU Radio Regulations name (Article 2, 3 kHz to 3 THz)."""
Bitrate = Annotated[float, Unit("bit/s")]
"""A rate in bits per second."""
Bits = Annotated[float, Unit("bit")]
"""An amount of data; a plain number is bits."""
UpdateSize = Annotated[float, Unit("bit", "the size of an update")]
"""The size of an update; a plain number is bits."""
PacketSize = Annotated[float, Unit("bit", "the size of a packet")]
"""The size of a packet; a plain number is bits."""
Bytes = Annotated[float, Unit("byte")]
"""An amount of data; a plain number is bytes."""
Joules = Annotated[float, Unit("J")]
"""An energy."""
Watts = Annotated[float, Unit("W")]
"""A power."""
RadioWatts = Annotated[float, Unit("W", "the power of a user's radio")]
"""The power that the radio of a user consumes."""
Decibels = Annotated[float, Unit("dB")]
"""A ratio, such as a gain, in decibels."""
NoiseFigure = Annotated[float, Unit("dB", "a noise figure"), Field(ge=0)]
"""The noise figure of a receiver."""
AntennaGain = Annotated[float, Unit("dB", "an antenna")]
"""The gain of an antenna."""
DecibelMilliwatts = Annotated[float, Unit("dBm"), Field(le=1000)]
"""A power, in decibels above a milliwatt, small enough that its energy is a finite number."""
UserPower = Annotated[float, Unit("dBm", "the power of a user"), Field(le=1000)]
"""The transmission power of a user."""
Probability = Annotated[float, Field(ge=0, le=1)]
"""A probability."""
PositiveProbability = Annotated[float, Field(gt=0, le=1)]
"""A probability, or a share, above 0."""
Seed = Annotated[int, Field(ge=0, lt=2**128)]
"""A seed of random draws, with up to 128 bits as NumPy's own."""
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
