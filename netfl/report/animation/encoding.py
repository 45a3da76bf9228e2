"""Data in a page: a JSON header with all arrays as one compressed block of bytes."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

TICKS = 2**31 - 1
"""Length of a replay in ticks; all times are whole numbers of ticks, and their differences fit 32 bits."""


def pack_data(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return *header* and *arrays* as JSON that is safe inside a ``<script>`` element.

    ``arrays`` in the JSON lists name, type (``u1``, ``u2``, ``u4``, ``i4``, ``f4``) and length of each array in the
    order of ``block``: their bytes, little-endian, compressed by zlib, in base64.  The widest type comes first, so that
    each array begins at a multiple of its width.
    """
    ordered = sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize)
    table = [[name, f"{array.dtype.kind}{array.dtype.itemsize}", array.size] for name, array in ordered]
    raw = b"".join(array.astype(array.dtype.newbyteorder("<")).tobytes() for _, array in ordered)
    whole = {**header, "arrays": table, "block": base64.b64encode(zlib.compress(raw, 9)).decode("ascii")}
    text = json.dumps(whole, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


def to_ticks(times_s: ArrayLike, end_s: float) -> NDArray[np.int64]:
    """Return times as ticks of a replay that ends at *end_s*; times outside are moved to its edge."""
    share = np.asarray(times_s, float) / max(end_s, 1e-300)
    return np.rint(np.clip(np.nan_to_num(share), 0.0, 1.0) * TICKS).astype(np.int64)


def tick_differences(times_s: ArrayLike, end_s: float) -> NDArray[np.int32]:
    """Return the differences between the ticks of times, the first from 0: small numbers, which compress well."""
    return np.diff(to_ticks(times_s, end_s), prepend=0).astype(np.int32)


def narrow_integers(values: ArrayLike) -> NDArray[Any]:
    """Return non-negative integers in the narrowest type that holds them."""
    array = np.asarray(values, np.int64)
    top = int(array.max(initial=0))
    return array.astype(np.uint8 if top < 2**8 else np.uint16 if top < 2**16 else np.uint32)
