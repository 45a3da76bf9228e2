"""Random scenarios, as Hypothesis draws them: tiny ones that are good, and ones with something wrong in them.

A good one begins as the tiny world of one model (`tiny`), whichever there are, and is then edited: a key anywhere in it
gets another value of its type, within its bounds, and keeps it if the scenario is good with it.  So a new model, or a
new key, is tried without being named here.
"""

import copy
import math
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from netfl.errors import ScenarioError
from netfl.learning.data._download import SOURCES
from netfl.registry import FamilyMember, Spec, family_of, find_model, list_kinds
from netfl.scenario import yaml_document as documents
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.units import Unit
from support.tiny_scenarios import MODELS, OF_FILES, said_of, world

USUAL = {
    "s": (0.01, 30.0), "m": (1.0, 1e3), "m/s": (0.5, 30.0), "Hz": (1.0, 1e6), "bit/s": (1e3, 1e7), "bit": (8.0, 1e5),
    "byte": (1.0, 1e4), "J": (0.01, 100.0), "W": (0.01, 10.0), "dB": (-30.0, 30.0), "dBm": (-20.0, 60.0),
    "": (0.01, 4.0),
}  # fmt: skip
"""What figures of each unit are drawn from, as far as a key's bounds let them."""
SMALL = {"users": 8, "rounds": 5, "replicas": 2}
"""What keeps worlds tiny."""
SHORT = {"duration": 2.0, "warmup": 1.0}
FIXED = {"name", "description", "format", "track", "sweep", "overrides"}
"""Sections that are left as they are."""
NAMES = ("server", "tower:0", "router:0", "tower:0-server", "user:0", "one", "two")
"""Texts that may name something."""
EDITS = 6
"""Edits that are tried at most."""
WILD = (0, 1e-300, 1e-12, 1e-6, 1e-3, 1, 1e3, 1e6, 1e12, 1e300, -1e3, -1e300)
"""Figures at which reckoning ends."""
MUCH = {"users", "rounds", "duration", "replicas"}
"""Values that ask for a large run; `netfl.simulation.dry_run` reports one that is too large."""
BASES = [(family, kind) for family, kind in MODELS if family != "learning/data" or kind not in SOURCES]


class UndrawnError(Exception):
    """A type that is left as it is: a file, code."""


@st.composite
def good(draw, bases=BASES, edits=EDITS, wild=False):
    """A good scenario, as plain data; a *wild* one has a figure or two that are hardly ever meant."""
    data, scenario = copy.deepcopy(base(*draw(st.sampled_from(bases))))
    for _ in range(draw(st.integers(0, edits))):
        key, field = draw(st.sampled_from(places(scenario)))
        try:
            told = value(draw, field.annotation, field.metadata, key[-1])
            if wild and isinstance(told, int | float) and not isinstance(told, bool) and key[0] not in MUCH:
                told = draw(st.sampled_from(WILD))
            changed = put(data, key, told)
            scenario = validate(ScenarioDocument(changed, "world"))
        except (ScenarioError, UndrawnError):
            continue
        data = changed
    return data


@st.composite
def spoilt(draw):
    """A scenario that may have something wrong in it, as text."""
    data = draw(good(edits=2))
    for _ in range(draw(st.integers(1, 3))):
        data = copy.deepcopy(data)  # what was drawn may be drawn again, as it was
        *above, last = draw(st.sampled_from([key for key in _keys(data, ()) if key[:1] != ("name",)] or [("name",)]))
        at = data
        for part in above:
            at = at[part]
        if last in at or isinstance(at, list):
            draw(st.sampled_from(_HARMS))(draw, at, last)
    lines = documents.dump(data).splitlines()
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(lines) - 1))
        lines[at : at + 1] = draw(st.sampled_from([[], [lines[at]] * 2, [lines[at][: len(lines[at]) // 2]]]))
    return "\n".join(lines) + "\n"


@cache
def base(family, kind):
    """The tiny world of a model, and what it is read as."""
    data = world(family, said_of(family, kind), _folder())
    return data, validate(ScenarioDocument(data, "tiny"))


@cache
def _folder():
    """Where the files lie that worlds read, as long as this process lives."""
    holder = tempfile.TemporaryDirectory(prefix="netfl-worlds-")
    _folder.holder = holder
    return Path(holder.name)


def places(scenario):
    """Every key that a scenario has or could have, with its field."""
    return [(key, field) for key, field in _below(scenario, ()) if key[0] not in FIXED]


def _below(part, key):
    """Those at and below one part of it."""
    if isinstance(part, BaseModel):
        for name, field in type(part).model_fields.items():
            yield (*key, name), field
            yield from _below(getattr(part, name), (*key, name))
    elif isinstance(part, Mapping | tuple):
        for name, entry in part.items() if isinstance(part, Mapping) else enumerate(part):
            yield from _below(entry, (*key, name))


def put(data, key, value):
    """A copy of *data* with another value at *key*."""
    document = ScenarioDocument(copy.deepcopy(data), "world")
    document.put(".".join(map(str, key)), value, "an edit")
    return document.data


def _keys(part, above):
    """Every key below one part of plain data."""
    entries = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for name, entry in entries:
        yield (*above, name)
        yield from _keys(entry, (*above, name))


def _replace(draw, at, last):
    """Something else stands there."""
    at[last] = draw(st.sampled_from(NASTY))


def _scale(draw, at, last):
    """A number far from what it was."""
    if isinstance(at[last], int | float):
        at[last] *= draw(st.sampled_from([-1, 0, 0.5, 1e-6, 1e-12, 1e-300, 7, 1e3, 1e9]))


def _lose(draw, at, last):
    """Nothing stands there."""
    del at[last]


def _misspell(draw, at, last):
    """Another key, or an entry twice."""
    if isinstance(at, dict):
        at[f"{last}s"] = at.pop(last) if draw(st.booleans()) else at[last]
    else:
        at.append(at[last])


def _wrap(draw, at, last):
    """A list in place of one thing, or one thing in place of a list."""
    at[last] = at[last][0] if isinstance(at[last], list) and at[last] else [at[last]]


_HARMS = (_replace, _replace, _scale, _scale, _lose, _misspell, _wrap)
NASTY = (
    None, True, False, "", " ", "x", "nosuch", "tower:7", "user:99", "5 kg", "-1 s", "0 m", "1e999 s", "3 dBm", "nan",
    "{remedy}", "ü\u202e", 0, -1, 1, 7, 2**31, 2**63, 10**30, -0.0, 0.5, 1e-12, 5e-324, 1e300, -1e300, math.nan,
    math.inf, -math.inf, [], {}, [[]], [0], [0, 0], [-1.0, 2.0], {"kind": "nosuch"}, {"kind": 3}, {"a": 1},
    "random_simplex", "support.plugin_data:Letters", "support.plugin_data:Nothing", "os:system", "all", "2026-01-01",
)  # fmt: skip
"""What hardly ever is right."""


def value(draw, kind, metadata=(), name=""):
    """A value of a type, as a scenario writes it."""
    metadata = [*metadata]
    while get_origin(kind) is Annotated:
        kind, *more = get_args(kind)
        for one in more:
            metadata += one.metadata if isinstance(one, FieldInfo) else [one]
    if any(isinstance(one, FamilyMember) for one in metadata):
        return member(draw, kind)
    if kind in _PLAIN:
        return _PLAIN[kind](draw, metadata, name)
    args, origin = get_args(kind), get_origin(kind)
    if origin in {Union, UnionType}:
        return value(draw, draw(st.sampled_from(args)), metadata, name)
    if origin is Literal:
        return draw(st.sampled_from(args))
    if origin is tuple and args[-1] is not Ellipsis:
        return [value(draw, one) for one in args]
    return _several(draw, kind, args, metadata)


def _several(draw, kind, args, metadata):
    """A value of an open number of others."""
    origin = get_origin(kind) or kind
    if origin is tuple:
        least = next((one.min_length for one in metadata if isinstance(one, MinLen)), 0)
        return [value(draw, args[0]) for _ in range(draw(st.integers(least, least + 3)))]
    if issubclass(origin, Mapping | dict) and args[1] is not Any:
        return {value(draw, args[0]): value(draw, args[1]) for _ in range(draw(st.integers(1, 2)))}
    if issubclass(origin, BaseModel):
        return fields(draw, kind)
    raise UndrawnError(str(kind))


def member(draw, family):
    """A model of a family: its example, with some keys said otherwise where that makes one."""
    kind = draw(st.sampled_from([kind for kind in list_kinds(family) if _drawn(family_of(family), kind)]))
    said = said_of(family_of(family), kind) | OF_FILES.get((family_of(family), kind), {})
    model = find_model(family, kind)
    changed = said | fields(draw, model, said)
    return changed if _makes(model, changed) else said


def fields(draw, model, said=None):
    """Values for the keys that *model* needs, and for some of the others."""
    told = {}
    for name, field in model.model_fields.items():
        needed = field.is_required() and name not in (said or {})
        if needed or draw(st.integers(0, 3)) == 0:
            try:
                found = value(draw, field.annotation, field.metadata, name)
            except UndrawnError:
                if needed:
                    raise
                continue
            told |= {} if found is None else {name: found}
    return told


def _makes(model: type[Spec], said):
    """Whether *said* makes a model of that kind."""
    try:
        model.model_validate({key: entry for key, entry in said.items() if key != "kind"})
    except ValueError:
        return False
    return True


@cache
def _drawn(family, kind):
    """Whether a model can stand anywhere: it reads no files, or some that are there."""
    said = said_of(family, kind) | OF_FILES.get((family, kind), {})
    named = [said[key] for key in ("file", "run") if key in said]
    return (family, kind) in BASES and all(Path(one).exists() for one in named)


def _bounds(metadata):
    """What a number must not be below, and not above."""
    low = [one.ge if isinstance(one, Ge) else one.gt for one in metadata if isinstance(one, Ge | Gt)]
    high = [one.le if isinstance(one, Le) else one.lt for one in metadata if isinstance(one, Le | Lt)]
    return max(low, default=None), min(high, default=None)


def _whole(draw, metadata, name):
    """A small whole number."""
    low, high = _bounds(metadata)
    low = 0 if low is None else int(low)
    return draw(st.integers(low, min(high or low + 6, SMALL.get(name, low + 6))))


def _figure(draw, metadata, name):
    """A usual figure, in SI or with its unit."""
    unit = next((one.symbol for one in metadata if isinstance(one, Unit)), "")
    (low, high), (least, most) = USUAL[unit], _bounds(metadata)
    high = SHORT.get(name, high if most is None else min(high, most))
    low = low if least is None else max(low, least)
    if low > high:
        low, high = least, most if most is not None else 10.0 * least
    ends = [float(end) for end in (least, most) if end is not None]
    found = draw(st.one_of(st.floats(low, high, allow_subnormal=False), *([st.sampled_from(ends)] if ends else [])))
    return f"{found!r} {unit}" if unit and draw(st.integers(0, 3)) == 0 else found


_PLAIN = {
    NoneType: lambda *_: None,
    bool: lambda draw, *_: draw(st.booleans()),
    int: _whole,
    float: _figure,
    str: lambda draw, *_: draw(st.sampled_from(NAMES)),
}
"""How values of the simple types are drawn."""


def figures():
    """Every figure that a model has: where it stands in that model's tiny world, of each class and name once."""
    seen = set()
    for family, kind in BASES:
        _, scenario = base(family, kind)
        for key, owner in _figures(scenario, ()):
            if key[0] not in FIXED | MUCH and (owner, key[-1]) not in seen:
                seen.add((owner, key[-1]))
                yield (family, kind), key


def _figures(part, key):
    """Figures at and below one part: their keys, and the classes that they stand in."""
    if isinstance(part, BaseModel):
        for name, field in type(part).model_fields.items():
            if _is_figure(field.annotation):
                yield (*key, name), type(part)
            yield from _figures(getattr(part, name), (*key, name))
    elif isinstance(part, Mapping | tuple):
        for name, below in part.items() if isinstance(part, Mapping) else enumerate(part):
            yield from _figures(below, (*key, name))


def _is_figure(annotation):
    """Whether a number may stand there."""
    if annotation in {int, float}:
        return True
    return get_origin(annotation) in {Annotated, Union, UnionType} and any(map(_is_figure, get_args(annotation)))
