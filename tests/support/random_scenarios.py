"""Hypothesis strategies for random scenarios: tiny valid ones, and ones with errors.

A valid scenario starts as the tiny scenario of one model (`tiny_scenarios`). Then keys anywhere in it are edited: a key
gets another value of its type, within its bounds, and keeps it if the scenario remains valid.  New models and new keys
are covered without being listed here.
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
from hypothesis import reject
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from netfl.core.family_members import FamilyMember, base_of, find_model
from netfl.core.kinds import family_of, list_kinds
from netfl.core.spec import Spec
from netfl.errors import ScenarioError
from netfl.learning.data._download import SOURCES
from netfl.scenario import yaml_document as documents
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.units import Unit
from support import compositions
from support.tiny_scenarios import MODELS, OF_FILES, example_settings, world

USUAL = {
    "s": (0.01, 30.0), "m": (1.0, 1e3), "m/s": (0.5, 30.0), "Hz": (1.0, 1e6), "bit/s": (1e3, 1e7), "bit": (8.0, 1e5),
    "byte": (1.0, 1e4), "J": (0.01, 100.0), "W": (0.01, 10.0), "dB": (-30.0, 30.0), "dBm": (-20.0, 60.0),
    "": (0.01, 4.0),
}  # fmt: skip
"""Ranges from which numbers of each unit are drawn, within the bounds of the key."""
SMALL = {"users": 8, "rounds": 5, "replicas": 2}
"""Limits that keep scenarios tiny."""
SHORT = {"duration": 2.0, "warmup": 1.0}
FIXED = {"name", "description", "format", "track", "sweep", "overrides"}
"""Sections that are not edited."""
NAMES = ("server", "tower:0", "router:0", "tower:0-server", "user:0", "one", "two")
"""Texts that may be the name of something."""
EDITS = 6
"""Largest number of edits."""
WILD = (0, 1e-300, 1e-12, 1e-6, 1e-3, 1, 1e3, 1e6, 1e12, 1e300, -1e3, -1e300)
"""Extreme numbers."""
LARGE_RUN_KEYS = {"users", "rounds", "duration", "replicas"}
"""Values that ask for a large run; `netfl.simulation.dry_run` reports one that is too large."""
BASES = [
    (family, kind)
    for family, kind in MODELS
    if family != "tracker"
    and (family != "learning/data" or kind not in SOURCES)
    and not getattr(find_model(base_of(family), kind), "packages", ())
]
"""Models whose tiny scenario runs everywhere: without files to fetch and without optional packages."""


class UndrawnError(Exception):
    """A type without a strategy, such as a file or code."""


@st.composite
def valid_scenarios(draw, bases=BASES, edits=EDITS, wild=False):
    """Draw a valid scenario, as plain data. A *wild* one has some extreme numbers."""
    data, scenario = copy.deepcopy(base(*draw(st.sampled_from(bases))))
    for _ in range(draw(st.integers(0, edits))):
        key, field = draw(st.sampled_from(places(scenario)))
        try:
            new = value(draw, field.annotation, field.metadata, key[-1])
            if wild and isinstance(new, int | float) and not isinstance(new, bool) and key[0] not in LARGE_RUN_KEYS:
                new = draw(st.sampled_from(WILD))
            changed = put(data, key, new)
            scenario = validate(ScenarioDocument(changed, "random"))
        except (ScenarioError, UndrawnError):
            continue
        data = changed
    return data


@st.composite
def broken_scenarios(draw):
    """Draw a scenario that may contain errors, as text."""
    data = draw(valid_scenarios(edits=2))
    for _ in range(draw(st.integers(1, 3))):
        data = copy.deepcopy(data)  # a drawn value may be drawn again and must not change
        *above, last = draw(st.sampled_from([key for key in _keys(data, ()) if key[:1] != ("name",)] or [("name",)]))
        at = data
        for part in above:
            at = at[part]
        if last in at or isinstance(at, list):
            draw(st.sampled_from(_DAMAGES))(draw, at, last)
    lines = documents.dump(data).splitlines()
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(lines) - 1))
        lines[at : at + 1] = draw(st.sampled_from([[], [lines[at]] * 2, [lines[at][: len(lines[at]) // 2]]]))
    return "\n".join(lines) + "\n"


@cache
def base(family, kind):
    """Return the tiny scenario of a model, as plain data and validated."""
    folder = _folder() / family / kind
    folder.mkdir(parents=True)
    data = world(family, example_settings(family, kind), folder)
    return data, validate(ScenarioDocument(data, "tiny"))


@cache
def _folder():
    """Return the folder of the files that scenarios read, which lives as long as the process."""
    holder = tempfile.TemporaryDirectory(prefix="netfl-scenarios-")
    _folder.holder = holder
    return Path(holder.name)


def places(scenario):
    """Return every key that a scenario has or could have, with its field."""
    return [(key, field) for key, field in _below(scenario, ()) if key[0] not in FIXED]


def _below(part, key):
    """Yield the keys and fields of one part."""
    if isinstance(part, BaseModel):
        for name, field in type(part).model_fields.items():
            yield (*key, name), field
            yield from _below(getattr(part, name), (*key, name))
    elif isinstance(part, Mapping | tuple):
        for name, entry in part.items() if isinstance(part, Mapping) else enumerate(part):
            yield from _below(entry, (*key, name))


def put(data, key, value):
    """Return a copy of *data* with another value at *key*."""
    document = ScenarioDocument(copy.deepcopy(data), "random")
    document.put(".".join(map(str, key)), value, "an edit")
    return document.data


def _keys(part, above):
    """Yield every key below one part of plain data."""
    entries = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for name, entry in entries:
        yield (*above, name)
        yield from _keys(entry, (*above, name))


def _replace(draw, entries, key):
    """Replace the value by a wrong one."""
    entries[key] = draw(st.sampled_from(WRONG_VALUES))


def _scale(draw, entries, key):
    """Scale a number."""
    if isinstance(entries[key], int | float):
        entries[key] *= draw(st.sampled_from([-1, 0, 0.5, 1e-6, 1e-12, 1e-300, 7, 1e3, 1e9]))


def _delete(draw, entries, key):
    """Delete the entry."""
    del entries[key]


def _misspell(draw, entries, key):
    """Misspell a key, or repeat an entry."""
    if isinstance(entries, dict):
        entries[f"{key}s"] = entries.pop(key) if draw(st.booleans()) else entries[key]
    else:
        entries.append(entries[key])


def _wrap(draw, entries, key):
    """Put a value into a list, or replace a list by its first entry."""
    entries[key] = entries[key][0] if isinstance(entries[key], list) and entries[key] else [entries[key]]


_DAMAGES = (_replace, _replace, _scale, _scale, _delete, _misspell, _wrap)
WRONG_VALUES = (
    None, True, False, "", " ", "x", "nosuch", "tower:7", "user:99", "5 kg", "-1 s", "0 m", "1e999 s", "3 dBm", "nan",
    "{remedy}", "ü\u202e", 0, -1, 1, 7, 2**31, 2**63, 10**30, -0.0, 0.5, 1e-12, 5e-324, 1e300, -1e300, math.nan,
    math.inf, -math.inf, [], {}, [[]], [0], [0, 0], [-1.0, 2.0], {"kind": "nosuch"}, {"kind": 3}, {"a": 1},
    "random_simplex", "support.plugin_data:Letters", "support.plugin_data:Nothing", "os:system", "all", "2026-01-01",
)  # fmt: skip
"""Values that are almost always wrong."""


def value(draw, kind, metadata=(), name=""):
    """Draw a value of a type, as it is written in a scenario."""
    metadata = [*metadata]
    while get_origin(kind) is Annotated:
        kind, *annotations = get_args(kind)
        for item in annotations:
            metadata += item.metadata if isinstance(item, FieldInfo) else [item]
    if any(isinstance(item, FamilyMember) for item in metadata):
        return member(draw, kind)
    if kind in _PLAIN:
        return _PLAIN[kind](draw, metadata, name)
    args, origin = get_args(kind), get_origin(kind)
    if origin in {Union, UnionType}:
        return value(draw, draw(st.sampled_from(args)), metadata, name)
    if origin is Literal:
        return draw(st.sampled_from(args))
    if origin is tuple and args[-1] is not Ellipsis:
        return [value(draw, item) for item in args]
    return _several(draw, kind, args, metadata)


def _several(draw, kind, args, metadata):
    """Draw a collection or a nested model."""
    origin = get_origin(kind) or kind
    if origin is tuple:
        min_length = next((item.min_length for item in metadata if isinstance(item, MinLen)), 0)
        return [value(draw, args[0]) for _ in range(draw(st.integers(min_length, min_length + 3)))]
    if issubclass(origin, Mapping | dict) and args[1] is not Any:
        return {value(draw, args[0]): value(draw, args[1]) for _ in range(draw(st.integers(1, 2)))}
    if issubclass(origin, BaseModel):
        return fields(draw, kind)
    raise UndrawnError(str(kind))


def member(draw, family):
    """Draw a model of a family: its example, with some keys changed if the result is valid."""
    kind = draw(st.sampled_from([kind for kind in list_kinds(family) if _can_draw(family_of(family), kind)]))
    spec = example_settings(family_of(family), kind) | OF_FILES.get((family_of(family), kind), {})
    model = find_model(family, kind)
    changed = spec | fields(draw, model, spec)
    return changed if _is_valid(model, changed) else spec


def fields(draw, model, known=None):
    """Draw values for the required keys of *model* and for some of the others."""
    values = {}
    for name, field in model.model_fields.items():
        needed = field.is_required() and name not in (known or {})
        if needed or draw(st.integers(0, 3)) == 0:
            try:
                found = value(draw, field.annotation, field.metadata, name)
            except UndrawnError:
                if needed:
                    raise
                continue
            values |= {} if found is None else {name: found}
    return values


def _is_valid(model: type[Spec], spec):
    """Return whether *spec* is a valid model."""
    try:
        model.model_validate({key: entry for key, entry in spec.items() if key != "kind"})
    except ValueError:
        return False
    return True


@cache
def _can_draw(family, kind):
    """Return whether a model can be drawn anywhere: it reads no files, or files that exist."""
    spec = example_settings(family, kind) | OF_FILES.get((family, kind), {})
    named = [spec[key] for key in ("file", "run") if key in spec]
    return (family, kind) in BASES and all(Path(path).exists() for path in named)


def _bounds(metadata):
    """Return the lower and upper bound of a number."""
    low = [bound.ge if isinstance(bound, Ge) else bound.gt for bound in metadata if isinstance(bound, Ge | Gt)]
    high = [bound.le if isinstance(bound, Le) else bound.lt for bound in metadata if isinstance(bound, Le | Lt)]
    return max(low, default=None), min(high, default=None)


def _whole(draw, metadata, name):
    """Draw a small integer."""
    low, high = _bounds(metadata)
    low = 0 if low is None else int(low)
    return draw(st.integers(low, min(high or low + 6, SMALL.get(name, low + 6))))


def _number(draw, metadata, name):
    """Draw a usual number, in SI or with its unit."""
    unit = next((item.symbol for item in metadata if isinstance(item, Unit)), "")
    (low, high), (lower, upper) = USUAL[unit], _bounds(metadata)
    high = SHORT.get(name, high if upper is None else min(high, upper))
    low = low if lower is None else max(low, lower)
    if low > high:
        low, high = lower, upper if upper is not None else 10.0 * lower
    ends = [float(end) for end in (lower, upper) if end is not None]
    found = draw(st.one_of(st.floats(low, high, allow_subnormal=False), *([st.sampled_from(ends)] if ends else [])))
    return f"{found!r} {unit}" if unit and draw(st.integers(0, 3)) == 0 else found


_PLAIN = {
    NoneType: lambda *_: None,
    bool: lambda draw, *_: draw(st.booleans()),
    int: _whole,
    float: _number,
    str: lambda draw, *_: draw(st.sampled_from(NAMES)),
}
"""Strategies of the simple types."""


def numbers():
    """Yield every number of every model as (model, key in its tiny scenario), once per class and name."""
    seen = set()
    for family, kind in BASES:
        _, scenario = base(family, kind)
        for key, owner in _numbers(scenario, ()):
            if key[0] not in FIXED | LARGE_RUN_KEYS and (owner, key[-1]) not in seen:
                seen.add((owner, key[-1]))
                yield (family, kind), key


def _numbers(part, key):
    """Yield the key and the class of each number in one part."""
    if isinstance(part, BaseModel):
        for name, field in type(part).model_fields.items():
            if _is_number(field.annotation):
                yield (*key, name), type(part)
            yield from _numbers(getattr(part, name), (*key, name))
    elif isinstance(part, Mapping | tuple):
        for name, below in part.items() if isinstance(part, Mapping) else enumerate(part):
            yield from _numbers(below, (*key, name))


def _is_number(annotation):
    """Return whether the field takes a number."""
    if annotation in {int, float}:
        return True
    return get_origin(annotation) in {Annotated, Union, UnionType} and any(map(_is_number, get_args(annotation)))


LOADS = {
    "updates": {},
    "updates and packets": {"traffic": "poisson"},
    "packets": {"round": "duration", "traffic": "poisson"},
    "saturated": {"round": "duration", "traffic": "saturated"},
}
"""Levels of `support.compositions` that give a network its load."""


_OTHER_LEVELS = 5
"""Levels that are tried beside the MAC, the sizes and the load of a random network."""


@st.composite
def networks(draw, mac, size, load, edits=3):
    """Draw a network whose base is a composition: a MAC, a distribution of sizes, a load, and a few other levels.

    A level that the others refuse is left out: where it ended the draw, almost all networks were the simplest one.
    Some numbers of the access are then edited, as in `valid_scenarios`.
    """
    known = compositions.axes()
    levels = {"mac": mac, "size": size, **LOADS[load]}
    others = known.keys() - {"mac", "size", "round", "traffic"}
    if load == "updates":
        others -= {"source", "destination"}  # of packets
    try:
        row = compositions.checked(levels)
    except compositions.RefusedError:
        reject()
    for axis in draw(st.permutations(sorted(others)))[:_OTHER_LEVELS]:
        level = {axis: draw(st.sampled_from(sorted(known[axis])))}
        try:
            row = compositions.checked(levels | level)
        except compositions.RefusedError:
            continue
        levels |= level
    data = row.data
    scenario = row.scenario
    for _ in range(draw(st.integers(0, edits))):
        numbers_of_access = [(key, field) for key, field in places(scenario) if len(key) > 1 and key[0] == "access"]
        numbers_of_access = [place for place in numbers_of_access if _is_number(place[1].annotation)]
        key, field = draw(st.sampled_from(numbers_of_access))
        try:
            changed = put(data, key, value(draw, field.annotation, field.metadata, key[-1]))
            scenario = validate(ScenarioDocument(changed, "random"))
        except (ScenarioError, UndrawnError):
            continue
        data = changed
    return data
