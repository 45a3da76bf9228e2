"""Random numbers of a change."""

from __future__ import annotations

from typing import ClassVar

from netfl.learning.codec import NUMBER_BITS, CodecDraws, Encoded, Tensor
from netfl.learning.codec._law_draws import LAW_VECTOR, decoded_draws
from netfl.learning.codec._sparse_codec import SparseCodec
from netfl.types import Law


class RandK(SparseCodec):
    """k numbers of a change are sent whole, from places that are drawn for each update, all equally likely.

    ``k = max(1, round(share d))`` of d parameters.  User and server draw the places from the same seed, so that no
    places are sent.  The receiver reads ``v_i d / k`` in these places and 0 in all others: the mean is v, and the
    variance, summed over all numbers, is ``(d / k - 1) ‖v‖₂²``.  With ``error_feedback`` the numbers are not scaled,
    which the memory needs: a user sends ``C(e + v)`` and keeps ``e + v - C(e + v)`` as e for its next update.

    Size: ``32 k`` bits for d parameters.

    Source: Konečný, McMahan, Yu, Richtárik, Suresh and Bacon, "Federated learning: strategies for improving
    communication efficiency", 2016 (random mask); with memory: Stich, Cordonnier and Jaggi, NeurIPS 2018.

    Example::

        kind: rand_k
        share: 0.05
    """

    knows_positions: ClassVar[bool] = True
    error_feedback: bool = False
    """Users add the errors of their last delivered update to their next change."""

    def bits(self, parameters: int) -> float:
        return float(NUMBER_BITS * self.count(parameters))

    def encode(self, change: Tensor, draws: CodecDraws) -> Encoded:
        parameters = change.shape[-1]
        count = self.count(parameters)
        positions = draws.choose(parameters, count)  # the same in all lanes
        values = change.gather(-1, positions.expand(*change.shape[:-1], count))
        if not self.error_feedback:
            values.mul_(parameters / count)
        return Encoded(values, positions, parameters)

    def laws(self) -> tuple[Law, ...]:
        parameters = len(LAW_VECTOR)
        share = self.count(parameters) / parameters
        scale = 1.0 if self.error_feedback else 1.0 / share
        first = float(LAW_VECTOR[0]) * scale
        return (
            Law(
                "decoded number",
                "a number is sent with probability k/d, and scaled by d/k without error feedback",
                draw=lambda streams, size: decoded_draws(self, LAW_VECTOR, streams, size)[:, 0],
                mean=first * share,
                variance=first**2 * share * (1.0 - share),
            ),
        )
