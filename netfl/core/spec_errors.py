"""Errors of specs: what pydantic finds wrong in a value, as problem and remedy in the words of a scenario.

A validator refuses a value by `invalid`.  `explain` adds problem and remedy to the errors that pydantic itself raises,
with the nearest name for an unknown key.  `faults_of` returns all errors of a file as `netfl.errors.Fault`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from netfl.core.descriptions import example, key_meaning
from netfl.core.kinds import FAMILIES, family_of, list_kinds
from netfl.core.synonyms import normalised
from netfl.errors import Fault, find_meant, suggest

_NOT_A_LIST = "not a list"
_WORDS = {
    "float_parsing": ("not a number", "write a number"),
    "float_type": ("not a number", "write a number"),
    "int_parsing": ("not a whole number", "write a whole number"),
    "int_type": ("not a whole number", "write a whole number"),
    "int_from_float": ("not a whole number", "write a whole number"),
    "bool_parsing": ("neither true nor false", "write true or false"),
    "bool_type": ("neither true nor false", "write true or false"),
    "finite_number": ("not a finite number", "write a finite number"),
    "model_type": ("not a mapping", "write a mapping of keys to values"),
    "dict_type": ("not a mapping", "write a mapping of keys to values"),
    "tuple_type": (_NOT_A_LIST, ""),
    "list_type": (_NOT_A_LIST, ""),
    "string_type": ("not a string", "put it in quotes"),
    "path_type": ("not a path", "write the name of a file or of a folder"),
    "string_pattern_mismatch": ("not usable as a name", "begin it with a letter, and use no '/'"),
}
"""Problem and remedy for pydantic's kinds of errors."""
_LIMIT_REMEDIES = {
    "greater_than": "write more than {limit}",
    "greater_than_equal": "write {limit} or more",
    "less_than": "write less than {limit}",
    "less_than_equal": "write {limit} or less",
    "string_too_long": "write at most {max_length} characters",
    "string_too_short": "write at least {min_length} characters",
}
"""Remedy for pydantic's kinds of errors about a limit, by pydantic's names of the limits."""
_LENGTH_ERRORS = {
    "too_short": ("few", "has too few entries", "give {min_length} or more"),
    "too_long": ("many", "has too many entries", "give {max_length} or fewer"),
}
"""Kind of the error, problem and remedy for pydantic's kinds of errors about the length of a list."""

_MAX_UNKNOWN_KEYS = 20
"""Unknown keys of a section that are reported one by one."""
_COUNT_WORDS = {"n", "num", "number", "of", "the", "count", "total", ""}
"""Words of a key that say nothing of what it is about, in the singular."""
_LETTERS = re.compile(r"\w+")

_MAX_ENTRIES = 4
"""Number of entries of a list that a remedy shows."""
_MAX_CHARACTERS = 40
"""Number of characters of an entry that a remedy shows."""


def invalid(problem: str, remedy: str, kind: str = "invalid") -> PydanticCustomError:
    """Return the error by which a validator refuses a value, with the remedy that a user reads."""
    return PydanticCustomError(cast(Any, kind), "{problem}", {"problem": problem, "remedy": remedy})


def to_line_error(fault: Fault) -> InitErrorDetails:
    """Return an error as pydantic's error details."""
    return InitErrorDetails(
        type=invalid(fault.problem, fault.remedy),
        loc=tuple(int(part) if part.isdecimal() else part for part in fault.key.split(".")),
        input=fault.value,
    )


def faults_of(
    error: ValidationError, place_remedy: Callable[[str, object], str] = lambda key, value: ""
) -> list[Fault]:
    """Return the errors that pydantic found, each with its dotted key, value and remedy.

    Args:
        error: pydantic's error.
        place_remedy: remedy for a dotted key that its section does not have, and is not close to one that it has, and
            its value.
    """
    faults = []
    for detail in error.errors(include_url=False):
        key = ".".join(str(part) for part in detail["loc"] if part != "[key]")
        value = detail["input"]
        is_in_message = detail["type"] in {"missing", "unknown_key", "misspelt_key", "kind"}  # or there is none
        if is_in_message or isinstance(value, Mapping | BaseModel):
            value = None
        remedy = str(detail.get("ctx", {}).get("remedy", ""))
        if detail["type"] == "unknown_key":
            remedy = place_remedy(key, detail["input"]) or remedy
        faults.append(Fault(key, detail["msg"].removeprefix("Value error, "), value, remedy))
    return faults


def explain(model: type[BaseModel], error: ValidationError) -> list[InitErrorDetails]:
    """Return the errors that pydantic found in a value of *model*, each with the remedy that a user reads.

    Errors that follow from another one are left out.  Further unknown keys, whose search takes long, are one error.
    """
    shown = []
    further_unknown = []
    unknown_keys = 0
    for detail in error.errors(include_url=False):
        if detail["type"] == "extra_forbidden":
            unknown_keys += 1
            if unknown_keys > _MAX_UNKNOWN_KEYS:
                further_unknown.append(detail)
                continue
        shown.append(detail)
    explained = [
        InitErrorDetails(type=_explained(model, detail), loc=detail["loc"], input=detail["input"])
        for detail in shown
        if not _follows(model, detail, shown)
    ]
    if further_unknown:
        explained.append(_more_unknown_keys(further_unknown))
    return explained


def _more_unknown_keys(details: Sequence[Any]) -> InitErrorDetails:
    """Return the error that stands for those of further unknown keys."""
    problem = f"unknown key, and {len(details) - 1:,} more"
    return InitErrorDetails(
        type=invalid(problem, "fix the unknown keys above first", "more_unknown_keys"),
        loc=details[0]["loc"],
        input=None,
    )


def _follows(model: type[BaseModel], error: Any, errors: Sequence[Any]) -> bool:
    """Return whether an error follows from another one, which tells the user enough.

    A list is too short because of wrong entries; a key is missing because another name of it is given; keys are missing
    and unknown because a word states another form of the model, such as that of a distribution.
    """
    kind = error["type"]
    loc = error["loc"]
    kinds_of_keys = {other["type"] for other in errors if len(other["loc"]) == 1}
    if kind in {"missing", "extra_forbidden"} and {"literal_error", "missing", "extra_forbidden"} <= kinds_of_keys:
        return True
    if kind == "too_short":
        return any(other["loc"][: len(loc)] == loc != other["loc"] for other in errors)
    if kind == "missing" and len(loc) == 1:
        unknown_keys = [str(other["loc"][0]) for other in errors if other["type"] == "extra_forbidden"]
        return any(_stands_for(model, key, loc[0]) for key in unknown_keys)
    return False


def _stands_for(model: type[BaseModel], unknown: str, key: str) -> bool:
    """Return whether an *unknown* key is another name of a *key* of *model*."""
    return find_meant(unknown, [*model.model_fields]) == key or keys_described_by(model, unknown) == [key]


def _explained(model: type[BaseModel], error: Any) -> PydanticCustomError:
    """Return an error that pydantic found in *model* with its problem and remedy."""
    kind = error["type"]
    loc = error["loc"]
    value = error["input"]
    context = error.get("ctx", {})
    if "remedy" in context:  # a model inside this one has explained it
        return invalid(error["msg"], context["remedy"], kind)
    if kind == "extra_forbidden":
        return _explained_unknown_key(model, str(loc[-1]), value)
    if kind == "missing":
        return invalid("missing", _missing_remedy(model, loc), kind)
    if kind == "literal_error":
        words = [word or number for word, number in re.findall(r"'(.*?)'|(-?\d+)", context["expected"])]
        return invalid("unknown value", _word_remedy(str(value), words), "word")
    if kind == "value_error":  # a validator of a model states both in one text
        problem, _, remedy = str(context["error"]).partition("; ")
        return invalid(problem, remedy, "wrong")
    return _explained_form(model, error)


def _explained_form(model: type[BaseModel], error: Any) -> PydanticCustomError:
    """Return an error about the type, the length or a limit of a value with its problem and remedy."""
    kind = error["type"]
    loc = error["loc"]
    value = error["input"]
    context = error.get("ctx", {})
    if kind in _LENGTH_ERRORS:
        kind, problem, remedy = _LENGTH_ERRORS[kind]
        return invalid(problem, remedy.format(**context), kind)
    if kind == "float_type" and isinstance(value, int):
        kind = "finite_number"  # a float cannot hold it
    if kind in _WORDS:
        problem, remedy = _WORDS[kind]
        if value is None:
            problem = "has no value"
            remedy = _empty_remedy(model, loc, remedy)
        elif problem == _NOT_A_LIST:
            remedy = _list_remedy(model, loc, value)
        return invalid(problem, remedy, kind)
    problem = re.sub("^(Input|String|Tuple|List) should", "should", error["msg"])
    remedy = ""
    if kind in _LIMIT_REMEDIES:
        limit = problem.rpartition(" ")[2]  # as pydantic writes it
        remedy = _LIMIT_REMEDIES[kind].format(limit=limit, **context)
    return invalid(problem, remedy, kind)


def _field_at(model: type[BaseModel], loc: Sequence[int | str]) -> Any:
    """Return the field of *model* at *loc*; ``None`` if *loc* is the model itself, or inside of a field."""
    if len(loc) != 1:
        return None
    return model.model_fields.get(str(loc[0]))


def _empty_remedy(model: type[BaseModel], loc: Sequence[int | str], remedy: str) -> str:
    """Return the remedy for a key without a value: the usual *remedy*, and how to do without the key."""
    field = _field_at(model, loc)
    if field is None or field.is_required():
        return remedy
    default = field.get_default(call_default_factory=True)
    if isinstance(default, Mapping) and not default:
        return f"{remedy}, or {{}} for none"
    return f"{remedy or 'write a list'}, or leave it out"


def _missing_remedy(model: type[BaseModel], loc: Sequence[int | str]) -> str:
    """Return what a missing key may be, as the remedy: one of its words, or that of the example of *model*."""
    field = _field_at(model, loc)
    if field is not None and (_is_family(field.annotation) or get_origin(field.annotation) is Literal):
        return f"give one of {', '.join(value_words(field.annotation))}"
    line = re.search(rf"^{loc[0]}: .+", example(model), re.MULTILINE)
    if line is None:
        return "give it a value"
    return f"give it a value, such as {line[0]}"


def _word_remedy(word: str, known: Sequence[str]) -> str:
    """Return the remedy for a *word* that is none of *known*: what it may mean, and all of them.

    >>> print(_word_remedy("user", ["users", "rounds"]))
    did you mean 'users'? (known: users, rounds)
    """
    remedy = suggest(word, known)
    if remedy.startswith("known: "):
        return remedy
    return f"{remedy} (known: {', '.join(known)})"


def name_remedy(name: str, known: Sequence[str]) -> str:
    """Return the remedy for a *name* that is none of *known*: the one that is meant, or a guess and all of them.

    >>> print(name_remedy("user", ["users", "rounds"]))
    did you mean 'users'?
    >>> print(name_remedy("cycle", ["cyclic", "markov"]))
    did you mean 'cyclic'? (known: cyclic, markov)
    """
    if find_meant(name, known):
        return suggest(name, known)
    return _word_remedy(name, known)


def _explained_unknown_key(model: type[BaseModel], key: str, value: object) -> PydanticCustomError:
    """Return the error of an unknown *key* of *model*; a misspelt one is searched for in no other section."""
    known = [*model.model_fields]
    kind = "unknown_key"
    if get_close_matches(key, known, cutoff=0.8) or _is_after_comma(key, value):
        kind = "misspelt_key"
    return invalid("unknown key", key_remedy(key, value, known), kind)


def key_remedy(key: str, value: object, known: Sequence[str]) -> str:
    """Return the remedy for an unknown *key* with this *value*.

    In YAML, ``{power:14 dBm}`` is a single key.
    """
    name, colon, written = key.partition(":")
    if colon and name in known:
        return f"write a space after the colon: '{name}: {written}'"
    name, space, written = key.partition(" ")
    if space and name in known:
        return f"write a colon after the key: '{name}: {written}'"
    if _is_after_comma(key, value):
        return f"write a decimal point, as in 0.{key}: a comma begins the next key"
    return name_remedy(key, known)


def _is_after_comma(key: str, value: object) -> bool:
    """Return whether an unknown *key* is the end of a number: in ``{lr: 0,1}`` there is a key 1 without a value."""
    return key.isdecimal() and value is None


def keys_described_by(model: type[BaseModel], key: str) -> list[str]:
    """Return the keys of *model* that have no default, and the words of an unknown *key* in their descriptions.

    >>> from netfl.network.motion import RandomWaypoint
    >>> keys_described_by(RandomWaypoint, "area"), keys_described_by(RandomWaypoint, "max_speed")
    (['radius', 'width'], ['speed'])
    """
    wanted = {_singular(word) for word in normalised(key).split("_")} - _COUNT_WORDS
    if not wanted:
        return []
    keys = []
    for name, field in model.model_fields.items():
        if field.is_required() or field.default is None:
            described = {_singular(word) for word in _LETTERS.findall(key_meaning(model, name))}
            if wanted <= described:
                keys.append(name)
    return keys


def _singular(word: str) -> str:
    return word.lower().removesuffix("s")


def value_words(annotation: Any) -> Sequence[str]:
    """Return the words that a field of a type takes: the kinds of a family, or those of a ``Literal``."""
    if _is_family(annotation):
        return list_kinds(annotation)
    origin = get_origin(annotation)
    parts = get_args(annotation)
    if origin is Annotated:
        return value_words(parts[0])
    if origin is Literal:
        return [part for part in parts if isinstance(part, str)]
    if origin in {Union, UnionType, tuple}:
        return [word for part in parts for word in value_words(part)]
    return []


def _is_family(annotation: Any) -> bool:
    """Return whether a type is the contract of a family: the spec that the family's package defines."""
    return inspect.isclass(annotation) and issubclass(annotation, BaseModel) and family_of(annotation) in FAMILIES


@dataclass(frozen=True, slots=True)
class PerUser:
    """Annotation of a list with one entry for each user, where a list of one would be wrong, too.

    Args:
        others: other forms of the value in words, such as ``{zipf: 1.0}``.

    Example::

        positions: Annotated[tuple[Point, ...], PerUser()]
    """

    others: str = ""

    @property
    def remedy(self) -> str:
        """The remedy for a single value in place of the list."""
        if not self.others:
            return "give a list with one entry for each user"
        return f"give a list with one entry for each user, or {self.others}"


def _list_remedy(model: type[BaseModel], loc: Sequence[int | str], value: object) -> str:
    """Return the remedy for a *value* at *loc* in *model*, where a list is expected."""
    field = _field_at(model, loc)
    if field is None:
        return _remedy_for_list(value)
    is_single = isinstance(value, int | float) or (isinstance(value, str) and "," not in value)
    for mark in field.metadata:
        if isinstance(mark, PerUser) and is_single:
            return mark.remedy
    return _remedy_for_list(value, _length_of(field.annotation))


def _length_of(annotation: Any) -> int:
    """Return the number of entries of a list of this type; 1 if it may have any number."""
    for part in (annotation, *get_args(annotation)):
        if get_origin(part) is tuple and Ellipsis not in get_args(part):
            return len(get_args(part))
    return 1


def _remedy_for_list(value: object, length: int = 1) -> str:
    """Return the list that *value* probably stands for, as the remedy; a number stands for *length* equal ones.

    >>> _remedy_for_list("0,1"), _remedy_for_list(5), _remedy_for_list({"kind": "rayleigh", "coherence": 1})
    ('write [0, 1]', 'write [5]', 'write [{kind: rayleigh, …}]')
    >>> _remedy_for_list(5, 2), _remedy_for_list("5 km/h", 2)
    ('write [5, 5]', 'write [5 km/h, 5 km/h]')
    >>> _remedy_for_list({"a": 1, "b": 2}), _remedy_for_list({"a": {"b": 2}}), _remedy_for_list(None)
    ('write [1, 2]', 'write [{b: 2}]', 'write a list, such as [1, 2]')
    """
    if isinstance(value, str):
        entries = [_shown_entry(part.strip()) for part in value.split(",")]
        if len(entries) == 1:
            entries *= length
    elif isinstance(value, int | float):
        entries = [_shown_entry(value)] * length
    elif isinstance(value, Mapping) and "kind" in value:
        entries = [_shown_entry(value)]
    elif isinstance(value, Mapping) and value:
        entries = [_shown_entry(entry) for entry in islice(value.values(), _MAX_ENTRIES)]
    else:
        return "write a list, such as [1, 2]"
    return f"write [{', '.join(entries)}]"


def _shown_entry(value: object) -> str:
    """Return an entry of a list as a remedy shows it, in YAML; the rest of a long one is left out."""
    if isinstance(value, list | tuple):
        return "[…]"
    if isinstance(value, Mapping):
        key, entry = next(iter(value.items()), ("", "…"))
        if "kind" in value:
            key, entry = "kind", value["kind"]
        more = ", …" if len(value) > 1 else ""
        return f"{{{key}: {_shown_entry(entry)}{more}}}"
    text = str(value)
    if isinstance(value, bool):
        text = text.lower()
    if len(text) > _MAX_CHARACTERS:
        text = f"{text[: _MAX_CHARACTERS - 1]}…"
    return text
