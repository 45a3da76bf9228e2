"""Search of a scenario's models for the place of a key, such as ``access.mac`` for ``mac``."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import takewhile
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from netfl.core.descriptions import key_meaning
from netfl.core.family_members import FamilyMember, find_model
from netfl.core.kinds import list_kinds
from netfl.core.spec import Spec
from netfl.core.spec_errors import keys_described_by, value_words
from netfl.core.synonyms import NOTES, meanings, normalised
from netfl.errors import find_meant

_MOST_PATHS = 3
"""Number of paths that a remedy names."""
_MOST_KINDS = 3
"""Number of kinds that a remedy names with a path; a key that more kinds have needs no kind."""
_MOST_CHARACTERS = 80
"""Length of the meaning of a key up to which a remedy gives it."""
_SYNONYM_STEPS = 1
"""Added distance of a key that has another name for the same."""
_OTHER_FORM_STEPS = 1
"""Added distance of a key that holds values of another form."""
_NEW_KIND_STEPS = 1
"""Added distance of a section that is not written, for the choice of its kind."""
_OTHER_KIND_STEPS = 2
"""Added distance of a section of another kind than the written one: as far as the section beside it."""
_VALUE_STEPS = 2
"""Added distance of a key that takes the word as its value."""
_DESCRIBED_STEPS = 2
"""Distance of a key that its section lacks, and that has another name, but the wrong one in its description."""
_MOST_KIND_STEPS = 3
"""Added distance beyond which a section is not meant."""
_SCALARS = {int: "number", float: "number", bool: "boolean"}
"""Form of the values of a type."""


def place_remedy(
    key: str, root: type[Spec], value: object = None, data: Mapping[str, Any] | None = None, below: str = ""
) -> str:
    """Return where the scenario *data* may have the last part of the dotted *key*, or its synonym, as a remedy.

    The nearest place in the tree of sections is meant, counted in steps up and down from the section of the key.  One
    step farther is each of: a synonym, a key that holds values of another form, and a section that is not written and
    needs a kind.  A section of another kind than the written one is two steps farther.  Of places at one distance, the
    likest name comes first, then a key that holds values of this form, then a section that is written.  If such a place
    has another value already, models that are not written and one step farther are meant, if they have the key.

    Args:
        key: the dotted key that its section does not have.
        root: the model of a scenario.
        value: the value of the key.
        data: the scenario as written.
        below: the rest of a dotted key of which *key* is the beginning, such as ``.probability`` for ``mac``.

    Returns:
        The remedy; empty if there is no such place.

    >>> from netfl.scenario.scenario import Scenario
    >>> network = {"access": {"kind": "network"}}
    >>> place_remedy("mac", Scenario, data=network), place_remedy("access.fast", Scenario, data=network)
    ('write it as access.mac', '')
    >>> place_remedy("access.learning_rate", Scenario, data=network)
    'write it as learners.NAME.lr'
    >>> place_remedy("access.topology.spacing", Scenario, data=network | {"access": {"topology": {"kind": "star"}}})
    'spacing is a key of kind: grid'
    """
    return KeySearch(root, data or {}).remedy(key, value, below)


class KeySearch:
    """Search for the places of several keys of one scenario; see `place_remedy`.

    Args:
        root: the model of a scenario.
        data: the scenario as written.
    """

    def __init__(self, root: type[Spec], data: Mapping[str, Any]) -> None:
        self._root = root
        self._data = data

    @cached_property
    def _all_sections(self) -> Sequence[_Section]:
        return [*_sections(_Section((), self._root, (self._data,)))]

    def remedy(self, key: str, value: object = None, below: str = "", *, changes: bool = False) -> str:
        """Return where the scenario may have the last part of the dotted *key*; empty if there is no such place.

        The arguments are those of `place_remedy`; *changes* is whether *value* replaces one that the scenario has.
        """
        *parts, name = key.split(".")
        own_path = self._path_of(parts)
        if own_path is None:
            return ""
        wrong = _WrongKey(own_path, meanings(name), value, below)
        places = [place for section in self._all_sections for place in _places(section, wrong)]
        if not places:
            return ""
        nearest = _nearest(places)
        remedy = _remedy(nearest, wrong)
        if not changes and all(place.is_taken(value) for place in nearest):
            remedy = _remedy_beside(remedy, nearest, places, wrong)
        remedy = _with_learner(remedy, self._data)
        note = NOTES.get(normalised(name), "")
        return f"{note} {remedy}".strip()

    def _path_of(self, parts: Sequence[str]) -> tuple[str, ...] | None:
        """Return the path of the section that the *parts* of a key lead to; ``None`` if there is no such section."""
        for section in self._all_sections:
            if _stands_for(section.path, parts):
                return section.path
        return None


@dataclass(frozen=True, slots=True)
class _WrongKey:
    """A key that its section does not have."""

    path: tuple[str, ...]
    """Path of its section, as in `_Section`."""
    words: Sequence[str]
    """Its name, and then the synonyms of the name."""
    value: object
    below: str
    """The rest of a dotted key."""


@dataclass(frozen=True, slots=True)
class _Section:
    """A model at a place of the scenario."""

    path: tuple[str, ...]
    """Keys of the sections from the top to this one; ``channel.0`` is an entry of a list, ``learners.NAME`` one of a
    mapping whose names the user chooses."""
    model: type[Spec]
    values: tuple[Any, ...]
    """What the scenario has at this place."""
    kind: str | None = None
    """Kind that this model has in its family, if the scenario has no model of this kind here."""
    assumed: tuple[tuple[str, str], ...] = ()
    """Dotted paths of this section and those above that the scenario has not with the kind that this place needs, each
    with this kind."""
    kind_steps: int = 0
    """Added distance for sections on the path that are written with another kind, or not at all."""

    @property
    def is_new(self) -> bool:
        """True if the scenario has nothing at this place."""
        return not self.values


@dataclass(frozen=True, slots=True)
class _Place:
    """A key that may be meant."""

    rank: tuple[int, int, bool, bool]
    """The distance, the likeness of the word (0 is the word itself), whether the key holds values of another form, and
    whether the section is not written."""
    section: _Section
    key: str
    word: str | None = None
    """The value to give to the key, if the user wrote a value as a key."""

    @property
    def is_unwritten(self) -> bool:
        """True for a key of a model that the scenario lacks, and that is not another kind of a written one."""
        return self.section.kind is not None and self.section.kind_steps == _NEW_KIND_STEPS

    def is_taken(self, value: object) -> bool:
        """Return whether the scenario has another value for this key, so that *value* means another quantity."""
        if self.word is not None or value is None or isinstance(value, Mapping):
            return False
        sections = [written for written in self.section.values if isinstance(written, Mapping)]
        values = [written[self.key] for written in sections if self.key in written]
        return bool(values) and value not in values


def _sections(section: _Section, above: frozenset[type[Spec]] = frozenset()) -> Iterator[_Section]:
    """Yield *section* and all sections below; a model inside itself is left out."""
    yield section
    above |= {section.model}
    for name, parts in _parts(section.model).items():
        if name == "sweep" and not section.path:  # it has keys of other sections
            continue
        written = [value[name] for value in section.values if isinstance(value, Mapping) and name in value]
        for suffix, model, kind in parts:
            if model in above:
                continue
            values = tuple(_entries(written, suffix))
            part = _section_below(section, f"{name}{suffix}", model, values, kind)
            if part is not None:
                yield from _sections(part, above)


def _section_below(
    section: _Section, key: str, model: type[Spec], values: tuple[Any, ...], kind: str | None
) -> _Section | None:
    """Return a *model* at a *key* of *section*, where the scenario has *values*; ``None`` if it is too far."""
    path = (*section.path, key)
    if kind is not None:
        of_kind = tuple(value for value in values if _kind_written(value) == kind)
        if not of_kind:
            return _section_of_kind(section, path, model, values, kind)
        values = of_kind
    return _Section(path, model, values, None, section.assumed, section.kind_steps)


def _section_of_kind(
    section: _Section, path: tuple[str, ...], model: type[Spec], values: tuple[Any, ...], kind: str
) -> _Section | None:
    """Return a model of a *kind* that none of the *values* of the scenario has; ``None`` if it is too far."""
    kind_steps = section.kind_steps
    if any(_kind_written(value) for value in values):
        kind_steps += _OTHER_KIND_STEPS
    else:
        kind_steps += _NEW_KIND_STEPS
    if kind_steps > _MOST_KIND_STEPS:
        return None
    assumed = (*section.assumed, (".".join(path), kind))
    return _Section(path, model, (), kind, assumed, kind_steps)


@cache
def _parts(model: type[Spec]) -> Mapping[str, Sequence[tuple[str, type[Spec], str | None]]]:
    """Return the models that each field of *model* may hold; see `_models`."""
    return {name: [*_models(field.annotation, field.metadata)] for name, field in model.model_fields.items()}


def _entries(values: Iterable[Any], suffix: str) -> Iterator[Any]:
    """Yield the models that *values* of a field have where its *suffix* leads, such as the entries of lists."""
    for value in values:
        if suffix == "":
            yield value
        elif isinstance(value, Mapping) and suffix.startswith(".NAME"):
            yield from value.values()
        elif isinstance(value, list | tuple):
            yield from value
        else:
            yield value


def _kind_written(value: Any) -> str | None:
    """Return the kind of a written model, if any."""
    kind = value.get("kind") if isinstance(value, Mapping) else value
    return kind if isinstance(kind, str) else None


def _stands_for(path: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether the *parts* of a key are those of *path*, with the user's names and numbers in their places."""
    keys = ".".join(path).split(".") if path else []
    if len(keys) != len(parts):
        return False
    return all(
        key in {part, "NAME"} or (key == "0" and part.isdecimal()) for key, part in zip(keys, parts, strict=True)
    )


def _distance(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of steps between two sections, up to the one that holds both and down again."""
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return len(one) + len(other) - 2 * shared


def _places(section: _Section, wrong: _WrongKey) -> Iterator[_Place]:
    """Yield the keys of *section* that may be meant."""
    for likeness, word in enumerate(wrong.words):
        yield from _keys_of_name(section, wrong, word, likeness)
        yield from _keys_with_value(section, wrong, word, likeness)
    yield from _described_keys(section, wrong)


def _steps(section: _Section, wrong: _WrongKey, likeness: int) -> int:
    """Return the distance of *section* from a wrong key, whose word is a synonym unless its *likeness* is 0."""
    steps = _distance(wrong.path, section.path) + section.kind_steps
    if likeness > 0:
        steps += _SYNONYM_STEPS
    return steps


def _keys_of_name(section: _Section, wrong: _WrongKey, word: str, likeness: int) -> Iterator[_Place]:
    """Yield the key of *section* that is *word*, unless it takes other words than the value."""
    field = section.model.model_fields.get(word)
    if field is None or _refuses(field, wrong.value):
        return
    steps = _steps(section, wrong, likeness)
    is_misfit = not _can_hold(field, wrong.value)
    if is_misfit:
        steps += _OTHER_FORM_STEPS
    yield _Place((steps, likeness, is_misfit, section.is_new), section, word)


def _keys_with_value(section: _Section, wrong: _WrongKey, word: str, likeness: int) -> Iterator[_Place]:
    """Yield the keys of *section* that take *word*, a kind or another one, as their value.

    They are meant only in the section of the mistake or in the one above it, as in ``mac: {fdma: {}}``, and only if the
    key has no number or text of its own.
    """
    if section.path not in {wrong.path, wrong.path[:-1]}:
        return
    if not (wrong.value is None or isinstance(wrong.value, bool | Mapping)):
        return
    steps = _steps(section, wrong, likeness) + _VALUE_STEPS
    for name, field in section.model.model_fields.items():
        if word in value_words(field.annotation):
            yield _Place((steps, likeness, False, section.is_new), section, name, word)


def _described_keys(section: _Section, wrong: _WrongKey) -> Iterator[_Place]:
    """Yield the keys that the section of the mistake lacks, and whose description has the wrong name."""
    if section.path != wrong.path or not any(_lacks_a_key(section.model, written) for written in section.values):
        return
    steps = section.kind_steps + _DESCRIBED_STEPS
    likeness = len(wrong.words)  # after all synonyms
    for name in keys_described_by(section.model, wrong.words[0]):
        if _can_hold(section.model.model_fields[name], wrong.value):
            yield _Place((steps, likeness, False, section.is_new), section, name)


def _lacks_a_key(model: type[Spec], written: Any) -> bool:
    """Return whether a section as written may lack a key: it is no model, even without the keys that do not exist."""
    if not isinstance(written, Mapping):
        return False
    try:
        model.model_validate({key: value for key, value in written.items() if key in model.model_fields})
    except ValidationError:
        return True
    return False


def _nearest(places: Sequence[_Place]) -> list[_Place]:
    """Return the *places* of the lowest rank."""
    lowest = min(place.rank for place in places)
    return [place for place in places if place.rank == lowest]


def _remedy_beside(taken: str, nearest: Sequence[_Place], places: Sequence[_Place], wrong: _WrongKey) -> str:
    """Return the remedy where the *nearest* of *places*, which the remedy *taken* names, have another value."""
    others = [place for place in places if place.is_unwritten and place.rank[0] <= nearest[0].rank[0] + 1]
    if not others:
        return f"{taken}, which has another value"
    return f"{_remedy(others, wrong)}; {taken.removeprefix('write it as ')} has another value already"


def _with_learner(remedy: str, data: Mapping[str, Any]) -> str:
    """Return a remedy with the name of the only learner of the scenario, if there is one, in place of ``NAME``."""
    learners = data.get("learners")
    if isinstance(learners, Mapping) and len(learners) == 1:
        return remedy.replace("learners.NAME", f"learners.{next(iter(learners))}")
    return remedy


def _remedy(places: Sequence[_Place], wrong: _WrongKey) -> str:
    """Return the remedy that names *places*, all at one distance."""
    hints: dict[str, None] = {}  # in the order of the scenario, each once
    kinds_by_own_key: dict[str, list[str]] = {}
    assumed_by_path: dict[str, list[tuple[tuple[str, str], ...]]] = {}
    for place in places:
        section = place.section
        key = place.key
        field = section.model.model_fields[key]
        is_own = section.path == wrong.path
        if place.word is not None:
            path = ".".join((*section.path, key))
            hints[f"{place.word} is a value of {path}"] = None
        elif is_own and section.kind is not None:
            kinds_by_own_key.setdefault(key, []).append(section.kind)
        elif is_own:
            hints[_own_key(key + _kind_meant(field, wrong.value), key_meaning(section.model, key))] = None
        elif not section.path:
            top = wrong.path[0].partition(".")[0]
            hints[f"{key} is a key of the scenario itself, beside {top}"] = None
        else:
            path = ".".join((*section.path, key)) + wrong.below + _kind_meant(field, wrong.value)
            assumed_by_path.setdefault(path, []).append(section.assumed)
    if assumed_by_path:
        is_other = all(place.section.kind_steps == _OTHER_KIND_STEPS for place in places)
        paths = [_with_kinds(path, assumed, is_other=is_other) for path, assumed in assumed_by_path.items()]
        hints[f"write it as {' or '.join(paths[:_MOST_PATHS])}"] = None
    for key, kinds in kinds_by_own_key.items():
        hints[f"{key} is a key of kind: {' or '.join(kinds)}"] = None
    return ", or ".join(hints)


def _kind_meant(field: FieldInfo, value: object) -> str:
    """Return the kind of a family that *value* means, as ``: kind``, if the field takes a kind and *value* is none."""
    if not isinstance(value, str) or not any(isinstance(mark, FamilyMember) for mark in field.metadata):
        return ""
    kinds = value_words(field.annotation)
    if value in kinds:
        return ""
    kind = find_meant(value, kinds)
    return f": {kind}" if kind else ""


def _own_key(key: str, meaning: str) -> str:
    """Return the hint to a key of the same section under another name, with what it means."""
    hint = f"did you mean '{key}'?"
    if 0 < len(meaning) <= _MOST_CHARACTERS:
        hint += f" ({meaning})"
    return hint


def _with_kinds(path: str, assumed: Sequence[Sequence[tuple[str, str]]], *, is_other: bool) -> str:
    """Return a path with the kinds that the sections on it need, if only a few have the key or another is written.

    *assumed* has the sections and their kinds for each model that has the key; none where the scenario has such a
    model.  *is_other* is whether the scenario has a model of another kind there, which lacks the key.
    """
    if () in assumed:
        return path
    kinds: dict[str, dict[str, None]] = {}  # by section, each kind once
    for sections in assumed:
        for section, kind in sections:
            kinds.setdefault(section, {})[kind] = None
    needs = []
    for section, names in kinds.items():
        if len(names) > _MOST_KINDS and not is_other:
            continue
        need = f"{section}.kind: {' or '.join([*names][:_MOST_KINDS])}"
        if len(names) > _MOST_KINDS:
            need += " …"
        needs.append(need)
    if not needs:
        return path
    return f"{path} ({', '.join(needs)})"


def _refuses(field: FieldInfo, value: object) -> bool:
    """Return whether a field takes certain words alone, and *value* is another text."""
    if get_origin(field.annotation) is not Literal or not isinstance(value, str):
        return False
    return find_meant(value, value_words(field.annotation)) == ""


def _can_hold(field: FieldInfo, value: object) -> bool:
    """Return whether a field may hold a value of this form."""
    if value is None:
        return True
    fitting = {"number", "other"}
    if isinstance(value, Mapping):
        fitting = {"mapping"}
    elif isinstance(value, str):  # such as a kind, or 14 dBm for a number
        fitting = {"kind", "number", "other"}
    elif isinstance(value, bool):
        fitting = {"boolean", "other"}
    elif isinstance(value, list | tuple):
        fitting = {"list", "other"}
    return not fitting.isdisjoint(_forms(field.annotation, field.metadata))


def _forms(annotation: Any, metadata: Sequence[Any] = ()) -> set[str]:
    """Return the forms of the values of a type, and for a list those of its entries, too: one may stand for the list.

    They are ``mapping``, ``list``, ``number``, ``boolean``, ``kind`` for a member of a family, and ``other``.
    """
    if any(isinstance(mark, FamilyMember) for mark in metadata):
        return {"mapping", "kind"}
    origin = get_origin(annotation)
    parts = get_args(annotation)
    if origin is Annotated:
        return _forms(parts[0], parts[1:])
    if origin in {Union, UnionType}:
        return {form for part in parts if part is not type(None) for form in _forms(part)}
    if origin is tuple:
        return {"list", *_forms(parts[0])}
    bare = origin or annotation
    if inspect.isclass(bare) and issubclass(bare, Mapping | Spec):
        return {"mapping"}
    return {_SCALARS.get(bare, "other")}


def _models(annotation: Any, metadata: Sequence[Any] = ()) -> Iterator[tuple[str, type[Spec], str | None]]:
    """Yield the models that a field of a type may hold, each with the keys between, such as ``.NAME``, and its kind.

    Models that are no members of a family have no kind.
    """
    if any(isinstance(mark, FamilyMember) for mark in metadata):
        yield from (("", find_model(annotation, kind), kind) for kind in list_kinds(annotation))
        return
    origin = get_origin(annotation)
    parts = get_args(annotation)
    if origin is Annotated:
        yield from _models(parts[0], parts[1:])
    elif origin in {Union, UnionType}:
        for part in parts:
            yield from _models(part)
    elif origin is tuple:
        yield from ((f".0{suffix}", model, kind) for suffix, model, kind in _models(parts[0]))
    elif inspect.isclass(origin) and issubclass(origin, Mapping):
        yield from ((f".NAME{suffix}", model, kind) for suffix, model, kind in _models(parts[1]))
    elif inspect.isclass(annotation) and issubclass(annotation, Spec):
        yield "", annotation, None
