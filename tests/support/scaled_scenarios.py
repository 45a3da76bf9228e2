"""Scenarios in other units of time: durations, rates and powers scaled together.

The unit of each key is read from its type (`netfl.units.Unit`), or from its docstring where it counts events "per
second".
"""

from collections.abc import Mapping
from copy import copy
from math import log10
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from netfl.core.descriptions import key_descriptions
from netfl.core.family_members import find_model
from netfl.units import Unit

EXPONENTS = {"s": 1, "Hz": -1, "bit/s": -1, "m/s": -1, "W": -1}
"""Exponent of the factor of time in each unit."""
CARRIER_HZ = 1e8
"""Least frequency of a carrier, which determines a path loss and no time; bandwidths here are lower."""


def scaled(
    part: Any, factor: float, annotation: Any = None, field: FieldInfo | None = None, *, with_defaults: bool = True
) -> Any:
    """Return validated settings as plain data, with all times multiplied by *factor*.

    With *with_defaults* the defaults of keys that are not set are multiplied, too.

    Lengths remain, as do carrier frequencies.  The power of a radio falls with its noise.
    """
    if isinstance(part, BaseModel):
        kind = {"kind": _kind(part)} if _kind(part) else {}
        fields = _described_fields(type(part))
        return kind | {
            name: scaled(getattr(part, name), factor, info.annotation, info, with_defaults=with_defaults)
            for name, info in fields.items()
            if name in part.model_fields_set or (with_defaults and _unit(info.annotation, info) in EXPONENTS)
        }
    unit = _unit(annotation, field)
    if isinstance(part, bool) or not isinstance(part, int | float):
        return _collection(part, factor, annotation, field, with_defaults)
    if unit == "dBm":
        return f"{part - 10.0 * log10(factor)!r} dBm"
    if unit == "dB":
        return f"{float(part)!r} dB"
    if unit == "Hz" and part >= CARRIER_HZ:
        return part
    return part * factor ** EXPONENTS.get(unit, 0)


def shrink(base: type, spec: dict[str, Any], longest_s: float) -> dict[str, Any]:
    """Return the settings of a model of *base*'s family with its times shortened until the longest is *longest_s*.

    Models that do not allow it, as they count hours of the day, remain as they are.
    """
    try:
        model = find_model(base, spec["kind"]).model_validate({k: v for k, v in spec.items() if k != "kind"})
        times_s = [time_s for time_s in _times_s(model) if time_s > 0]
        if not times_s or max(times_s) <= longest_s:
            return spec
        short = scaled(model, longest_s / max(times_s), with_defaults=False)
        type(model).model_validate({key: value for key, value in short.items() if key != "kind"})
    except ValueError:
        return spec
    return short | {"kind": spec["kind"]}


def _times_s(part, annotation=None, field=None):
    """Yield the times that settings state; defaults, such as the length of a day, remain as they are."""
    if isinstance(part, BaseModel):
        for name, info in _described_fields(type(part)).items():
            if name in part.model_fields_set:
                yield from _times_s(getattr(part, name), info.annotation, info)
    elif isinstance(part, tuple):
        for entry in part:
            yield from _times_s(entry, annotation, field)
    elif isinstance(part, float) and _unit(annotation, field) == "s":
        yield part


def _described_fields(model):
    """Return the fields of a model with their descriptions."""
    fields = {}
    for name, info in model.model_fields.items():
        fields[name] = copy(info)
        fields[name].description = key_descriptions(model).get(name)
    return fields


def _kind(part):
    """Return the kind of a member of a family; an empty text for other sections."""
    from netfl.core.family_members import base_of
    from netfl.core.kinds import FAMILIES, kind_of

    return kind_of(type(part)) if any(isinstance(part, base_of(family)) for family in FAMILIES) else ""


def _collection(part, factor, annotation, field, with_defaults):
    if isinstance(part, Mapping):
        return {
            key: scaled(value, factor, annotation, field, with_defaults=with_defaults) for key, value in part.items()
        }
    if isinstance(part, tuple | list):
        return [scaled(value, factor, annotation, field, with_defaults=with_defaults) for value in part]
    return part


def _unit(annotation, field):
    """Return the unit of a field; an empty text without one."""
    metadata = [] if field is None else [*field.metadata]
    todo = [annotation]
    while todo:
        kind = todo.pop()
        if get_origin(kind) is Annotated:
            kind, *more = get_args(kind)
            for item in more:
                metadata += item.metadata if isinstance(item, FieldInfo) else [item]
            todo.append(kind)
        elif get_origin(kind) is not None:
            todo += [part for part in get_args(kind) if part is not Ellipsis]
    units = [item.symbol for item in metadata if isinstance(item, Unit)]
    text = "" if field is None else field.description or ""
    if not units and "per second" in text:
        units = ["Hz"]
    return (units or [""])[0]
