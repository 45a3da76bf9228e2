"""No codec: numbers travel whole."""

from __future__ import annotations

from typing import ClassVar

from netfl.learning.codec import NUMBER_BITS, Codec, CodecDraws, Encoded, Tensor


class Whole(Codec):
    """Each parameter travels whole, in 32 bits, as without a codec.

    It is for sweeps: ``codec: [none, {kind: top_k, share: 0.01}]``.  Size: ``32 d`` bits for d parameters.

    Example::

        kind: none
    """

    is_whole: ClassVar[bool] = True
    codes_versions: ClassVar[bool] = True

    def bits(self, parameters: int) -> float:
        return float(NUMBER_BITS * parameters)

    def encode(self, change: Tensor, draws: CodecDraws) -> Encoded:
        return Encoded(change)
