"""Uniform quantisation between the smallest and the largest number."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from netfl.learning.codec import NUMBER_BITS, Codec, CodecDraws, Encoded, Tensor


class Uniform(Codec):
    """Each number is rounded to the nearest of ``2^b`` levels at equal distances.

    The levels of a change v reach from its smallest to its largest number, both of which are sent:
    ``level_i = round((v_i - min v) / Δ)`` with ``Δ = (max v - min v) / (2^b - 1)``.  The receiver reads
    ``min v + Δ level_i``.  The error of a number is at most Δ/2, and it is not random.

    Size: ``b d + 64`` bits for d parameters.

    Example::

        kind: uniform
        bits_per_parameter: 8
    """

    codes_versions: ClassVar[bool] = True
    bits_per_parameter: Annotated[int, Field(ge=1, le=16)]
    """b, bits of a level."""
    error_feedback: bool = False
    """Users add the errors of their last delivered update to their next change."""

    @property
    def has_error_feedback(self) -> bool:
        return self.error_feedback

    def bits(self, parameters: int) -> float:
        return float(self.bits_per_parameter * parameters + 2 * NUMBER_BITS)

    def encode(self, change: Tensor, draws: CodecDraws) -> Encoded:
        low, high = change.aminmax(dim=-1, keepdim=True)
        step = (high - low) / (2**self.bits_per_parameter - 1)  # Δ
        values = (change - low) / step.where(step > 0, 1.0)  # a new tensor, changed in place
        values.round_()  # level_i
        values.mul_(step)
        values.add_(low)
        return Encoded(values)
