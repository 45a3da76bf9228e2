"""Search of a scenario's models for the place of a key, such as ``access.mac`` for ``mac``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from netfl.registry import FamilyMember, Spec, find_model, kind_of, list_kinds
from netfl.synonyms import meanings

_MOST_PATHS = 3
"""Number of paths that a remedy names."""


def place_remedy(key: str, root: type[Spec]) -> str:
    """Return where a scenario has the last part of the dotted *key*, or its synonym, as a remedy; empty if nowhere.

    >>> from netfl.scenario.scenario import Scenario
    >>> place_remedy("mac", Scenario), place_remedy("access.learning_rate", Scenario), place_remedy("none", Scenario)
    ('write it as access.mac', 'write it as learners.NAME.lr', '')
    >>> place_remedy("access.topology.spacing", Scenario)
    'spacing is a key of kind: grid'
    """
    section, _, name = key.rpartition(".")
    for word in meanings(name):
        found = find_paths(word, root)
        paths = [path for path in found if not path.startswith("sweep.")]  # which has keys of other sections
        for path in paths:
            if re.fullmatch(_pattern(path), f"{section}.{word}"):
                return f"{word} is a key of kind: {' or '.join(found[path])}"
        if section and paths == [name]:
            return f"{name} is a key of the scenario itself, beside {section.partition('.')[0]}"
        if len(paths) == 1 or (paths and not section):  # from inside a section, several others are no hint
            return f"write it as {' or '.join(paths[:_MOST_PATHS])}"
    return ""


def _pattern(path: str) -> str:
    """Return the regular expression of the keys for which *path* stands."""
    return re.escape(path).replace("NAME", "[^.]+").replace(r"\.0\.", r"\.[0-9]+\.")


def find_paths(key: str, root: type[Spec]) -> Mapping[str, Sequence[str]]:
    """Return the dotted paths at which a model below *root* has the field *key*, of those at the least depth.

    ``NAME`` stands for a name that the user chooses.  An entry of a list has the number 0.

    Returns:
        path → the kinds of the models that have the field there.
    """
    models: list[tuple[str, type[Spec]]] = [("", root)]
    searched: set[type[Spec]] = set()
    while models:
        kinds: dict[str, list[str]] = {}
        for path, model in models:
            if key in model.model_fields:
                kinds.setdefault(f"{path}{key}", []).append(kind_of(model))
        if kinds:
            return kinds
        searched |= {model for _, model in models}
        below = [
            (f"{path}{name}{suffix}.", part)
            for path, model in models
            for name, field in model.model_fields.items()
            for suffix, part in _models(field.annotation, field.metadata)
        ]
        models = [(path, model) for path, model in dict.fromkeys(below) if model not in searched]
    return {}


def _models(annotation: Any, metadata: Sequence[Any] = ()) -> Iterator[tuple[str, type[Spec]]]:
    """Yield the models that a field of a type may hold, each with the keys between, such as ``.NAME``."""
    if any(isinstance(mark, FamilyMember) for mark in metadata):
        yield from (("", find_model(annotation, kind)) for kind in list_kinds(annotation))
        return
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _models(parts[0], parts[1:])
    elif origin in {Union, UnionType}:
        for part in parts:
            yield from _models(part)
    elif origin is tuple:
        yield from ((f".0{suffix}", model) for suffix, model in _models(parts[0]))
    elif inspect.isclass(origin) and issubclass(origin, Mapping):
        yield from ((f".NAME{suffix}", model) for suffix, model in _models(parts[1]))
    elif inspect.isclass(annotation) and issubclass(annotation, Spec):
        yield "", annotation
