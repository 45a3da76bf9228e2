"""Codecs of 16 bits round each number once, to the nearest, in single and in double precision."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from netfl.learning.codec.bfloat16 import Bfloat16
from netfl.learning.codec.float16 import Float16

CODECS = {"float16": (Float16(), 10, -14, 15), "bfloat16": (Bfloat16(), 7, -126, 127)}
"""Bits of the mantissa, smallest exponent of a normal number, and largest exponent (IEEE 754, table 3.5)."""


def nearest(value, mantissa, lowest, highest):
    """Return the nearest number of a format, ties to even, by exact fractions."""
    if not np.isfinite(value) or value == 0:
        return value
    exact = abs(Fraction(value))
    exponent = max(int(np.frexp(abs(value))[1]) - 1, lowest)
    unit = Fraction(2) ** (exponent - mantissa)
    rounded = round(exact / unit) * unit  # Python rounds ties to even
    largest = (Fraction(2) - Fraction(2) ** -mantissa) * Fraction(2) ** highest
    return np.copysign(np.inf if rounded > largest else float(rounded), value)


def hard_numbers(mantissa, lowest, highest):
    """Return numbers at, below and above the middles of neighbours, of all sizes and beyond them."""
    sizes = [*range(lowest - mantissa - 2, lowest + 4), -1, 0, 1, highest - 1, highest, highest + 1]
    steps = np.random.default_rng(1).integers(1 << mantissa, 2 << mantissa, 40)
    middles = np.array(
        [np.ldexp(step + half, size - mantissa) for size in sizes for step in steps for half in (0, 0.5)]
    )
    tiny = [0.0, 2.0**-52, -(2.0**-52), 2.0**-30, -(2.0**-30), 2.0**-24]
    numbers = np.concatenate([middles * (1 + each) for each in tiny])
    special = [0.0, -0.0, np.inf, -np.inf, 1e300, 5e-324, 3.4e38, 65520.0, np.nextafter(65520.0, 0)]
    return np.concatenate([numbers, -numbers, special])


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_number_is_rounded_to_the_nearest(name, dtype):
    codec, *form = CODECS[name]
    with np.errstate(over="ignore"):
        values = torch.from_numpy(hard_numbers(*form)).to(dtype)
    read = codec.encode(values, None).values
    assert read.dtype == dtype
    expected = [nearest(value, *form) for value in values.tolist()]
    np.testing.assert_array_equal(read.numpy(), np.array(expected, read.numpy().dtype))
    assert (np.signbit(read.numpy()) == np.signbit(expected)).all()


def test_half_precision_is_that_of_numpy():
    values = hard_numbers(10, -14, 15)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16).astype(np.float64)
    np.testing.assert_array_equal(Float16().encode(torch.from_numpy(values), None).values.numpy(), expected)


def test_number_above_the_middle_is_rounded_up():
    """The case of both roundings: 1 + 2⁻¹¹ + 2⁻⁴⁰ is 1 + 2⁻¹¹ in single precision, the middle of 1 and 1 + 2⁻¹⁰."""
    value = torch.tensor([1 + 2**-11 + 2**-40, -(1 + 2**-11 + 2**-40), 1 + 2**-11], dtype=torch.float64)
    assert Float16().encode(value, None).values.tolist() == [1 + 2**-10, -(1 + 2**-10), 1.0]
    value = torch.tensor([1 + 2**-8 + 2**-40, 1 + 2**-8], dtype=torch.float64)
    assert Bfloat16().encode(value, None).values.tolist() == [1 + 2**-7, 1.0]


@pytest.mark.parametrize("name", CODECS)
def test_nan_stays_nan(name):
    values = torch.tensor([float("nan"), 1.0], dtype=torch.float64)
    assert CODECS[name][0].encode(values, None).values.isnan().tolist() == [True, False]
