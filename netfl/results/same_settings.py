"""Settings of stored results, compared with those of today's scenario."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel


def is_same(stored: object, ours: object, spec: object = None) -> bool:
    """Return whether two settings are equal in all keys that both have, and new keys have their defaults.

    >>> is_same({"lr": 0.1}, {"lr": 0.1, "momentum": 0.0}), is_same({"lr": 0.1}, {"lr": 0.2})
    (True, False)

    Args:
        stored: settings of a result, which may be of an earlier version.
        ours: today's settings.
        spec: the model or mapping of which *ours* are the plain data; ``None`` if new keys do not count.
    """
    if isinstance(stored, str) and isinstance(ours, Mapping):  # a word that has become a model of a family
        stored = {"kind": stored}
    if isinstance(stored, list) and isinstance(ours, list) and isinstance(spec, list | tuple | None):
        specs = [None] * len(ours) if spec is None else spec
        return len(stored) == len(ours) == len(specs) and all(map(is_same, stored, ours, specs))
    if not (isinstance(stored, Mapping) and isinstance(ours, Mapping)):
        return stored == ours
    if spec is not None and not all(_has_default(spec, key) for key in ours if key not in stored):
        return False
    return all(is_same(stored[key], ours[key], _entry(spec, key)) for key in stored if key in ours)


def _has_default(spec: object, key: str) -> bool:
    """Return whether a field of a model has its default; entries of mappings have none."""
    if not isinstance(spec, BaseModel):
        return False
    field = type(spec).model_fields.get(key)
    return field is not None and getattr(spec, key) == field.get_default(call_default_factory=True)


def _entry(spec: object, key: str) -> object:
    """Return the value of a key in a model or a mapping."""
    return spec.get(key) if isinstance(spec, Mapping) else getattr(spec, key, None)
