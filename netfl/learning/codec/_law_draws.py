"""Repeated encodings of one vector, by which random codecs state their distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netfl.types import Floats

if TYPE_CHECKING:
    from netfl.learning.codec import Codec
    from netfl.streams import Streams

LAW_VECTOR: Floats = np.array([0.3, -1.1, 0.45, 2.0, -0.2, 0.0, 0.7, -0.05, 1.3, -0.6])
"""A change of ten numbers."""


def decoded_draws(codec: Codec, vector: Floats, streams: Streams, size: int) -> Floats:
    """Return *size* independent decodings of *vector*, ``[size, parameters]``, as of so many users."""
    import torch

    from netfl.learning.codec_draws import CodecDraws

    zeros = np.zeros(size, np.int64)
    keys = np.broadcast_to(np.array(streams.field("codec").key, np.int64), (size, 2))
    change = torch.from_numpy(vector).expand(size, 1, -1)
    draws = CodecDraws(keys, np.arange(size), zeros, zeros, change)
    decoded = codec.decode(codec.encode(change, draws))
    return np.asarray(decoded[:, 0].numpy())
