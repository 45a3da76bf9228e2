"""Digests of the rounds of a run so far, by which a resumed run finds out whether it has the same rounds again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netfl.core.columns import columns_of, to_arrays
from netfl.types import Delivery, Merge, MergedModel, Round

_BYTES = 16
_WITH_ROWS = {"deliveries", "merges", "models"}
"""Fields whose values are added as rows of their own."""
_TEXT_FIELDS: dict[type, tuple[str, ...]] = {
    Round: (
        "index",
        "opened_s",
        "closed_s",
        "deliveries",
        "oldest",
        "uplink_bits",
        "downlink_bits",
        "queries",
        "needed",
        "energy_j",
    ),
    Delivery: ("user", "base", "sent_s", "arrived_s", "attempts", "received"),
}
"""Fields in the texts of `TextDigest`, which get no more of them."""


class RoundDigest:
    """Digest of the columns of rounds, deliveries, merges and links, and of the fields that no column holds.

    Where all rows of a round have the default of a field, it is left out.  A field that is added thus changes no digest
    of a run that does not use it, and its checkpoints fit.
    """

    form = "columns"

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=_BYTES)

    def update(self, rounds: Sequence[Round | None]) -> None:
        """Add *rounds*, one of each replica; ``None`` is a replica that has ended."""
        open_rounds = [each for each in rounds if each is not None]
        self._add_text(f"replicas {[replica for replica, each in enumerate(rounds) if each is not None]}")
        self._add_rows(Round, open_rounds)
        self._add_rows(Delivery, [delivery for each in open_rounds for delivery in each.all_deliveries()])
        merges = [merge for each in open_rounds for merge in each.merges]
        if merges:
            self._add_text(f"merges {[len(each.merges) for each in open_rounds]}")
            self._add_rows(Merge, merges)
            self._add_rows(MergedModel, [model for merge in merges for model in merge.merged_models()])

    def hexdigest(self) -> str:
        """Return the digest of all rounds so far."""
        return self._hash.hexdigest()

    def _add_rows(self, declared: type, rows: Sequence[Any]) -> None:
        """Add *rows*, objects of the dataclass *declared*: their columns, then the fields that no column holds."""
        if not rows:
            return
        self._add_text(f"{declared.__name__} {len(rows)}")
        defaults = _defaults(declared)
        for name, values in to_arrays(declared, rows).items():
            default = defaults[name]
            if default is None or not _are_equal(values, default):
                self._add_text(name)
                self._hash.update(values.tobytes())
        for name, default in _fields_without_columns(declared).items():
            self._add_field(name, default, [getattr(row, name) for row in rows])

    def _add_field(self, name: str, default: Any, values: Sequence[Any]) -> None:
        """Add the values of a field that is no column, with their places, where they are not its default."""
        present = {place: value for place, value in enumerate(values) if value != default}
        if not present:
            return
        first = next(iter(present.values()))
        if is_dataclass(first):  # rows with columns of their own, such as links
            self._add_text(f"{name} {[*present]}")
            self._add_rows(type(first), [*present.values()])
        else:
            self._add_text(f"{name} {present}")

    def _add_text(self, text: str) -> None:
        content = text.encode()
        self._hash.update(len(content).to_bytes(8, "big") + content)


class TextDigest:
    """Digest of the texts of rounds, as checkpoints had it that do not state the form of theirs.

    It does not cover `Delivery.link`, nor fields that were added later.
    """

    form = "text"

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=_BYTES)

    def update(self, rounds: Sequence[Round | None]) -> None:
        """Add *rounds*, one of each replica; ``None`` is a replica that has ended."""
        self._hash.update(f"[{', '.join(map(_text_of, rounds))}]".encode())

    def hexdigest(self) -> str:
        """Return the digest of all rounds so far."""
        return self._hash.hexdigest()


@cache
def _defaults(declared: type) -> Mapping[str, float | str | None]:
    """Return the default of each column of the dataclass *declared*; ``None`` without one."""
    return {column.name: column.default for column in columns_of(declared)}


@cache
def _fields_without_columns(declared: type) -> Mapping[str, Any]:
    """Return the fields of the dataclass *declared* that no column holds, with their defaults."""
    in_columns = {column.field for column in columns_of(declared)}
    defaults: dict[str, Any] = {}
    for field in fields(declared):
        if field.name in in_columns or field.name in _WITH_ROWS:
            continue
        default = field.default  # MISSING, which equals no value, without one
        if field.default_factory is not MISSING:
            default = field.default_factory()
        defaults[field.name] = default
    return defaults


def _are_equal(values: NDArray[Any], default: float | str) -> bool:
    """Return whether all *values* are the *default*, which may be NaN."""
    if isinstance(default, float) and math.isnan(default):
        return bool(np.isnan(values).all())
    return bool((values == default).all())


def _text_of(value: Any) -> str:
    """Return the text of a round, a delivery or a value in one."""
    names = _TEXT_FIELDS.get(type(value))
    if names is not None:
        texts = [f"{name}={_text_of(getattr(value, name))}" for name in names]
        return f"{type(value).__name__}({', '.join(texts)})"
    if isinstance(value, tuple):
        comma = "," if len(value) == 1 else ""
        return f"({', '.join(map(_text_of, value))}{comma})"
    return repr(value)


FORMS: Mapping[str, type[RoundDigest] | type[TextDigest]] = {each.form: each for each in (RoundDigest, TextDigest)}
"""Digests by the form that a checkpoint states."""
