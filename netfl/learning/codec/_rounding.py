"""Rounding to types of 16 bits, once."""

from __future__ import annotations

from typing import Literal

from netfl.learning.codec import Tensor


def round_once(values: Tensor, form: Literal["float16", "bfloat16"]) -> Tensor:
    """Return *values* rounded to the nearest numbers of a type of 16 bits, and ties to even.

    torch rounds a number of 64 bits to 32 bits first.  If that is the middle of two numbers of 16 bits, the second
    rounding does not know on which side of it the number was.  Here the first rounding is to odd: towards zero, with
    the last bit set if anything was lost, so that the second rounding is right.

    Source: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to
    odd", IEEE Transactions on Computers 57(4), 2008, theorem 1.

    Args:
        values: numbers of 32 or 64 bits, in any shape; the result has their type.
        form: the type of 16 bits.
    """
    import torch

    dtype = torch.float16 if form == "float16" else torch.bfloat16
    if values.dtype != torch.float64:
        return values.to(dtype).to(values)
    single = values.float()
    is_larger = single.double().abs() > values.abs()
    towards_zero = torch.where(is_larger, torch.nextafter(single, torch.zeros_like(single)), single)
    is_inexact = (towards_zero.double() != values) & values.isfinite()
    bits = towards_zero.view(torch.int32)
    odd = torch.where(is_inexact, bits | 1, bits).view(torch.float32)
    return odd.to(dtype).to(values)
