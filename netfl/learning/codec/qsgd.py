"""QSGD: stochastic quantisation without bias."""

from __future__ import annotations

from math import ceil
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netfl.learning.codec import NUMBER_BITS, Codec, CodecDraws, Encoded, Tensor
from netfl.learning.codec._law_draws import LAW_VECTOR, decoded_draws
from netfl.types import Law


class Qsgd(Codec):
    """Each number is rounded to one of the two levels next to it, at random and without bias.

    With s levels of size and a sign, ``b`` bits hold a number: ``s = 2^(b-1) - 1``.  The receiver reads
    ``‖v‖₂ sign(v_i) l_i / s``, where ``l_i`` is ``s |v_i| / ‖v‖₂`` rounded up with the probability of its fractional
    part, and down otherwise.  So the mean of what is read is v, and its variance, summed over the d numbers, is at most
    ``min(d / s², √d / s) ‖v‖₂²``.  With a ``bucket``, this holds for each bucket of so many numbers, with a norm of its
    own.  In a large model without buckets, the norm is much larger than most numbers, and the variance is large.

    Size: ``b d + 32`` bits for d parameters, or ``b d + 32 ⌈d / bucket⌉`` with buckets.

    Source: Alistarh, Grubic, Li, Tomioka and Vojnovic, "QSGD: communication-efficient SGD via gradient quantization and
    encoding", NeurIPS 2017, §3.1 and lemma 3.1, with its plain code in place of Elias's.

    Example::

        kind: qsgd
        bits_per_parameter: 4
        bucket: 512
    """

    codes_versions: ClassVar[bool] = True
    bits_per_parameter: Annotated[int, Field(ge=2, le=16)]
    """b, bits of a number: one of its sign, the others of its level."""
    bucket: Annotated[int, Field(ge=1)] | None = None
    """Numbers with a common norm; ``null`` for all."""

    @property
    def levels(self) -> int:
        """Number s of levels without 0."""
        return (1 << self.bits_per_parameter - 1) - 1

    def bits(self, parameters: int) -> float:
        norms = 1
        if self.bucket is not None:
            norms = ceil(parameters / self.bucket)
        return float(self.bits_per_parameter * parameters + NUMBER_BITS * norms)

    def encode(self, change: Tensor, draws: CodecDraws) -> Encoded:
        parameters = change.shape[-1]
        buckets = self._buckets(change)
        uniform = self._buckets(draws.uniform(parameters))
        norms = buckets.square().sum(dim=-1, keepdim=True).sqrt_()  # ‖v‖₂ of each bucket
        scale = self.levels / norms.masked_fill(norms == 0, 1.0)

        # one large tensor, changed in place: l_i = ⌊s |v_i| / ‖v‖₂ + u_i⌋, then what the receiver reads
        values = buckets.abs()
        values.mul_(scale)
        values.add_(uniform)
        values.floor_()
        values.clamp_(max=self.levels)  # a number of the size of the norm may round above s
        values.mul_(norms / self.levels)
        values.copysign_(buckets)
        return Encoded(values.flatten(-2)[..., :parameters])

    def laws(self) -> tuple[Law, ...]:
        v = LAW_VECTOR
        level = np.linalg.norm(v[: self.bucket]) / self.levels  # distance of the levels in the first bucket
        share = float(abs(v[0]) / level % 1.0)  # probability of rounding up
        return (
            Law(
                "decoded number",
                "the mean is the number itself (QSGD, lemma 3.1)",
                draw=lambda streams, size: decoded_draws(self, v, streams, size)[:, 0],
                mean=float(v[0]),
                variance=float(level**2) * share * (1.0 - share),
            ),
        )

    def _buckets(self, values: Tensor) -> Tensor:
        """Return *values*, ``[…, parameters]``, as ``[…, buckets, bucket]``, the last one filled up with zeros."""
        from torch.nn.functional import pad

        if self.bucket is None or self.bucket >= values.shape[-1]:
            return values[..., None, :]
        missing = -values.shape[-1] % self.bucket
        if missing:
            values = pad(values, (0, missing))
        return values.reshape(*values.shape[:-1], -1, self.bucket)
