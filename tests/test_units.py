"""Quantities: all units, rejected texts with their messages, and plain numbers."""

import math
from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from netfl import units
from netfl.units import WRITTEN, DecibelMilliwatts, to_si

VALID = [
    ("20 ms", "s", 0.02),
    ("20ms", "s", 0.02),
    (" 2 min ", "s", 120),
    ("1 h", "s", 3600),
    ("1 day", "s", 86400),
    ("1e-3 s", "s", 0.001),
    (".5 s", "s", 0.5),
    ("5. s", "s", 5),
    ("-1 s", "s", -1),
    ("3 µs", "s", 3e-6),
    ("2 km", "m", 2000),
    ("15 cm", "m", 0.15),
    ("868 MHz", "Hz", 868e6),
    ("2.4 GHz", "Hz", 2.4e9),
    ("5 Mbps", "bit/s", 5e6),
    ("5 Mbit/s", "bit/s", 5e6),
    ("1 MB/s", "bit/s", 8e6),
    ("250 kbps", "bit/s", 250e3),
    ("100 kB", "bit", 800e3),
    ("1 KiB", "bit", 8192),
    ("12 bytes", "bit", 96),
    ("5 kbit", "bit", 5000),
    ("36 km/h", "m/s", 10),
    ("3 m/s", "m/s", 3),
    ("6 dB", "dB", 6),
    ("-3.5dB", "dB", -3.5),
    ("14 dBm", "dBm", 14),
    ("25 mW", "dBm", 10 * math.log10(25)),
    ("1 W", "dBm", 30),
    ("0.025 W", "dBm", 10 * math.log10(25)),
    ("-3 dBW", "dBm", 27),
    ("2.15 dBi", "dB", 2.15),
    ("5 Mb/s", "bit/s", 5e6),
    ("3 MBps", "bit/s", 24e6),
    ("1 TB", "byte", 1e12),
    ("2 kilometres", "m", 2000),
    ("5 µW", "W", 5e-6),
    ("15 Wh", "J", 54_000),
    ("10 knots", "m/s", 18520 / 3600),
]


@pytest.mark.parametrize(("text", "unit", "expected"), VALID)
def test_quantities(text, unit, expected):
    assert to_si(text, unit) == pytest.approx(expected, rel=1e-12)


INVALID = [
    ("5 kg", "bit/s", "unknown unit: kg"),
    ("868 MHz", "bit/s", "a value in MHz instead of a bit rate"),
    ("5 Mbps", "Hz", "a value in Mbps instead of a frequency"),
    ("5 m", "s", "a value in m instead of a time"),
    ("5 s", "m", "a value in s instead of a length"),
    ("5 count", "bit", "unknown unit: count"),
    ("100 rpm", "Hz", "unknown unit: rpm"),
    ("5 m**2/s", "m/s", "unknown unit: m**2/s"),
    ("3 dB", "s", "a value in dB instead of a time"),
    ("14 dBm", "dB", "a value in dBm instead of a value in dB"),
    ("3 dB", "dBm", "a value in dB instead of a value in dBm"),
    ("5 m", "dB", "a value in m instead of a value in dB"),
    ("5 s", "dBm", "a value in s instead of a value in dBm"),
    ("0 mW", "dBm", "not a power above zero, which decibels need"),
    ("-1 mW", "dBm", "not a power above zero, which decibels need"),
    ("3 dBi", "dBm", "a value in dBi instead of a value in dBm"),
    ("3 dBW", "W", "a value in dBW instead of a power"),
    ("20 parsnips", "m", "unknown unit: parsnips"),
    ("0x10 s", "s", "unknown unit: x10 s"),
]


@pytest.mark.parametrize(("text", "unit", "problem"), INVALID)
def test_wrong_dimensions_are_reported(text, unit, problem):
    with pytest.raises(ValueError) as raised:
        to_si(text, unit)
    assert str(raised.value) == problem


MEANT = [
    ("11 mbps", "bit/s", "did you mean 'Mbps' or 'MBps'?"),
    ("1 mbit/s", "bit/s", "did you mean 'Mbit/s'?"),
    ("5 Kbps", "bit/s", "did you mean 'kbps' or 'kBps'?"),
    ("1 mB", "byte", "did you mean 'MB' or 'Mb'?"),
    ("8 mHz", "Hz", "did you mean 'MHz'?"),
    ("868 Mhz", "Hz", "did you mean 'MHz'?"),
    ("14 dbm", "dBm", "did you mean 'dBm'?"),
    ("25 mw", "dBm", "did you mean 'mW' or 'MW'?"),
    ("3 kmph", "m/s", "did you mean 'km/h'?"),
    ("2 secs", "s", "did you mean 'sec'?"),
    ("5 MB/sec", "bit/s", "did you mean 'MB/s'?"),
    ("20 parsnips", "m", ""),
    ("5 s", "m", ""),
]


@pytest.mark.parametrize(("text", "unit", "remedy"), MEANT)
def test_unit_that_is_probably_meant_is_named(text, unit, remedy):
    """A unit that differs in case alone is never guessed: mbps would be a thousandth of a bit per second."""
    with pytest.raises(units.QuantityError) as raised:
        to_si(text, unit)
    assert raised.value.remedy == remedy


@given(st.decimals(0, 10**6, places=6), st.sampled_from([("ms", 3), ("us", 6), ("ns", 9)]))
@settings(max_examples=100, deadline=None, derandomize=True, database=None)
def test_conversion_rounds_once(number, scale):
    unit, exponent = scale
    assert to_si(f"{number} {unit}", "s") == float(number.scaleb(-exponent))


def test_every_unit_of_a_dimension_is_accepted():
    for symbol in ("s", "m", "Hz", "bit/s", "bit", "byte", "m/s", "J", "W", "dB", "dBm"):
        for unit in units.units_of(symbol):
            assert math.isfinite(to_si(f"2 {unit}", symbol))


def test_unit_of_a_plugin_must_have_a_dimension_of_netfl():
    with pytest.raises(ValueError, match="no unit of netfl: 'kg'; known: s, m"):
        units.Unit("kg")


@pytest.mark.parametrize(
    "text",
    ["", " ", "5", "ms", "fast", "1 000 s", "1,5 s", "1,000 s", "1.2.3 s", "nan s", "inf s", "[1] s", "5 %", "5 (s",
     "5 * 3 s", "{x} s", "π s", "1/2 s", "5 s; 3", "5 s 3", "--5 s", "5e s e"],
)  # fmt: skip
def test_invalid_text_is_rejected(text):
    with pytest.raises(ValueError, match=r"not a number with a unit|unknown unit|instead of a time"):
        to_si(text, "s")


TYPES = {
    "Seconds": "20 ms",
    "Metres": "2 km",
    "Hertz": "868 MHz",
    "Bitrate": "5 Mbps",
    "Bits": "100 kB",
    "Decibels": "6 dB",
    "DecibelMilliwatts": "14 dBm",
}


@pytest.mark.parametrize("name", TYPES)
def test_remedy_of_every_unit_is_accepted(name):
    adapter = TypeAdapter(getattr(units, name))
    with pytest.raises(ValidationError) as raised:
        adapter.validate_python("5 kg")
    remedy = raised.value.errors()[0]["ctx"]["remedy"]
    assert TYPES[name] in remedy
    assert adapter.validate_python(TYPES[name]) == adapter.validate_python(remedy.split("'")[1])


@pytest.mark.parametrize("name", TYPES)
@given(number=st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**12), 10**12))
@settings(max_examples=20, deadline=None, derandomize=True, database=None)
def test_numbers_pass_unchanged(name, number):
    assume(name != "DecibelMilliwatts" or number <= 1000)
    assert TypeAdapter(getattr(units, name)).validate_python(number) == number


WITHOUT_UNIT = [
    ("DecibelMilliwatts", 0.025, "write '0.025 W' or '0.025 dBm'"),
    ("DecibelMilliwatts", 14, "write '14 W' or '14 dBm'"),
    ("DecibelMilliwatts", -3.5, "write '-3.5 dBm'"),
    ("Decibels", 0, "write '0 dB'"),
    ("Decibels", 6, "write '6 dB' or, for a ratio of 6, '7.782 dB'"),
    ("Decibels", 10, "write '10 dB', which is a ratio of 10 too"),
    ("Decibels", float("nan"), "write a number of dB, such as '6 dB'"),
]


@pytest.mark.parametrize(("name", "number", "remedy"), WITHOUT_UNIT)
def test_level_in_a_scenario_needs_a_unit(name, number, remedy):
    """The second remedy converts a ratio into decibels: 10 log10(6) = 7.782."""
    adapter = TypeAdapter(getattr(units, name))
    with pytest.raises(ValidationError) as raised:
        adapter.validate_python(number, context=units.WRITTEN)
    (error,) = raised.value.errors()
    assert (error["msg"], error["ctx"]["remedy"]) == ("has no unit", remedy)
    for text in remedy.split("'")[1::2]:
        assert isinstance(adapter.validate_python(text, context=units.WRITTEN), float)


@pytest.mark.parametrize("name", ["Decibels", "DecibelMilliwatts"])
@given(number=st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=50, deadline=None, derandomize=True, database=None)
def test_level_is_dumped_with_its_unit_and_read_back_exactly(name, number):
    assume(name != "DecibelMilliwatts" or number <= 1000)
    adapter = TypeAdapter(getattr(units, name) | None)
    written = adapter.dump_python(adapter.validate_python(number), mode="json")
    assert isinstance(written, str)
    assert adapter.validate_python(written, context=units.WRITTEN) == number
    assert adapter.dump_python(None, mode="json") is None


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("value", [None, [1], {"a": 1}])
def test_value_of_another_type_is_rejected(name, value):
    with pytest.raises(ValidationError):
        TypeAdapter(getattr(units, name)).validate_python(value)


@given(st.text(max_size=12))
@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@pytest.mark.slow
def test_any_text_gives_a_value_or_value_error(text):
    with suppress(ValueError):
        assert isinstance(to_si(text, "bit/s"), float)


@given(st.floats(1e-6, 1e6), st.sampled_from(["", "k", "M"]))
@settings(max_examples=50, deadline=None, derandomize=True, database=None)
def test_prefix_is_its_power_of_ten(number, prefix):
    factor = {"": 1, "k": 1e3, "M": 1e6}[prefix]
    assert to_si(f"{number!r} {prefix}Hz", "Hz") == pytest.approx(number * factor, rel=1e-12)


@pytest.mark.parametrize(
    "digits", ["0.10000000000000000555111512312578", "123456789.12345678901234567891", "9007199254740993.5"]
)
def test_all_digits_of_a_quantity_count(digits):
    """A number of more than 17 digits was rounded before it was multiplied, and after it."""
    assert to_si(f"{digits} ms", "s") == float(Fraction(digits) / 1000)


@pytest.mark.parametrize("text", ["0e999999999 s", "1e-999999999 s"])
def test_exponents_of_any_size_cost_nothing(text):
    assert to_si(text, "s") == 0.0


@pytest.mark.parametrize("value", [10**310, -(10**310)])
def test_an_integer_that_no_float_holds_is_refused(value):
    with pytest.raises(ValidationError, match="not a finite number"):
        TypeAdapter(DecibelMilliwatts).validate_python(value, context=WRITTEN)
