"""Numbers of 16 bits with the range of 32 bits."""

from __future__ import annotations

from typing import ClassVar

from netfl.learning.codec import Codec, CodecDraws, Encoded, Tensor
from netfl.learning.codec._rounding import round_once


class Bfloat16(Codec):
    """Each number is rounded to the nearest of bfloat16: the range of single precision, with 7 bits of mantissa.

    Size: ``16 d`` bits for d parameters.  The relative error of a number is at most 2⁻⁸.

    Example::

        kind: bfloat16
    """

    codes_versions: ClassVar[bool] = True

    def bits(self, parameters: int) -> float:
        return 16.0 * parameters

    def encode(self, change: Tensor, draws: CodecDraws) -> Encoded:
        return Encoded(round_once(change, "bfloat16"))
