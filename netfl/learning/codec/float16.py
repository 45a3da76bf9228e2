"""Numbers of 16 bits with a mantissa of 10 bits."""

from __future__ import annotations

from typing import ClassVar

from netfl.learning.codec import Codec, CodecDraws, Encoded, Tensor
from netfl.learning.codec._rounding import round_once


class Float16(Codec):
    """Each number is rounded to the nearest of half precision (IEEE 754 binary16): 10 bits of mantissa.

    Size: ``16 d`` bits for d parameters.  The relative error of a number is at most 2⁻¹¹ between 6.1e-5 and 65504;
    smaller numbers have an absolute error of at most 2⁻²⁵, and larger ones become infinite, so that training diverges.

    Example::

        kind: float16
    """

    codes_versions: ClassVar[bool] = True

    def bits(self, parameters: int) -> float:
        return 16.0 * parameters

    def encode(self, change: Tensor, draws: CodecDraws) -> Encoded:
        return Encoded(round_once(change, "float16"))
