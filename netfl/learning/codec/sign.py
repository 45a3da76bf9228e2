"""Signs of a change, with its mean size."""

from __future__ import annotations

from netfl.learning.codec import NUMBER_BITS, Codec, CodecDraws, Encoded, Tensor


class Sign(Codec):
    """Each number is sent as its sign, with one size for all: ``sign(v_i) ‖v‖₁ / d``; the sign of 0 is positive.

    With ``error_feedback``, a user sends ``C(e + v)`` and keeps ``e + v - C(e + v)`` as e for its next update; e starts
    at 0.  Signs alone are biased, and SGD on them need not converge.  The authors' code takes one size for each layer;
    here there is one for the whole change.

    Size: ``d + 32`` bits for d parameters.

    Source: Karimireddy, Rebjock, Stich and Jaggi, "Error feedback fixes SignSGD and other gradient compression
    schemes", ICML 2019, algorithm 1.

    Example::

        kind: sign
    """

    error_feedback: bool = True
    """Users add the errors of their last delivered update to their next change."""

    @property
    def has_error_feedback(self) -> bool:
        return self.error_feedback

    def bits(self, parameters: int) -> float:
        return float(parameters + NUMBER_BITS)

    def encode(self, change: Tensor, draws: CodecDraws) -> Encoded:
        size = change.abs().mean(dim=-1, keepdim=True)
        return Encoded(size.expand_as(change).copysign(change))
