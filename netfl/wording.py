"""Pydantic's findings in words that tell the writer of a scenario what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from types import NoneType
from typing import Annotated, Any, Literal, cast, get_args, get_origin

from pydantic import BaseModel, GetCoreSchemaHandler, TypeAdapter, ValidationError, ValidationInfo
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

from netfl.errors import Fault, suggest

_BOUNDED = frozenset({"greater_than", "greater_than_equal", "less_than", "less_than_equal"})
_WORDS = {
    "missing": ("missing", "give it a value"),
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
    "tuple_type": ("not a list", "write a list"),
    "list_type": ("not a list", "write a list"),
    "string_type": ("not a text", "put it in quotes"),
    "string_pattern_mismatch": ("not usable as a name", "it begins with a letter, say, and holds no '/'"),
}
"""For pydantic's kinds of errors: the problem, and what would do."""


@dataclass(frozen=True, slots=True)
class WordOr:
    """Marks a field that holds one of the words of its type or, if no word is written, a value of type *value*.

    Where there is a type *fields*, a mapping is one of that.
    """

    value: Any
    fields: Any = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Choose by what is written, so that one mistake is one fault."""
        words = [word for part in get_args(source) if get_origin(part) is Literal for word in get_args(part)]
        values: TypeAdapter[Any] = TypeAdapter(self.value)
        fields: TypeAdapter[Any] = values if self.fields is None else TypeAdapter(self.fields)

        def choose(value: object, info: ValidationInfo) -> object:
            if not isinstance(value, str):
                mapped = isinstance(value, Mapping | BaseModel)
                return (fields if mapped else values).validate_python(value, context=info.context)
            if value not in words:
                raise PydanticCustomError("word", "no such word", {"remedy": suggest(value, words)})
            return value

        return core_schema.with_info_before_validator_function(choose, handler(source))


def details(model: type[BaseModel], value: object, error: ValidationError | None) -> list[InitErrorDetails]:
    """All that is wrong with *value* as a *model*: pydantic's *error*, and what it would let pass."""
    wrong = [] if error is None else error.errors(include_url=False)
    found = [_detail(model, one) for one in wrong if not _follows(one, wrong)]
    told = {one["loc"][0] for one in found if one["loc"]}
    return found + [one for one in _booleans(model, value) if one["loc"][0] not in told]


def faults_of(error: ValidationError) -> list[Fault]:
    """The faults that pydantic found, each with its dotted key, value and remedy."""
    return [
        Fault(
            key=".".join(str(part) for part in one["loc"] if part != "[key]"),
            problem=one["msg"],
            value=None if _speaks_for_itself(one) else one["input"],
            remedy=str(one.get("ctx", {}).get("remedy", "")),
        )
        for one in error.errors(include_url=False)
    ]


def line_error(fault: Fault) -> InitErrorDetails:
    """A fault as pydantic carries it."""
    problem = fault.problem.replace("{remedy}", "")
    return InitErrorDetails(
        type=PydanticCustomError("inconsistent", cast(Any, problem), {"remedy": fault.remedy}),
        loc=tuple(int(part) if part.isdecimal() else part for part in fault.key.split(".")),
        input=fault.value,
    )


def _speaks_for_itself(error: Any) -> bool:
    """Whether showing the value would add nothing: a missing one, one in the message, a whole mapping."""
    return error["type"] in {"missing", "unknown_key", "kind"} or isinstance(error["input"], Mapping | BaseModel)


def _detail(model: type[BaseModel], error: Any) -> InitErrorDetails:
    """Pydantic's error in our words, rebuilt with a remedy."""
    kind, loc, ctx = error["type"], error["loc"], error.get("ctx", {})
    message, remedy = _WORDS.get(
        kind, (re.sub("^(Input|String|Tuple|List) should", "should", error["msg"]), str(ctx.get("remedy", "")))
    )
    if kind == "extra_forbidden":
        kind, message, remedy = "unknown_key", "unknown key", _for_key(str(loc[-1]), [*model.model_fields])
    elif kind == "literal_error":
        known = re.findall("'(.*?)'", ctx["expected"])
        kind, message, remedy = "word", "no such word", suggest(str(error["input"]), known)
    elif kind == "too_short":
        kind, message, remedy = "few", "has too few entries", f"give {ctx['min_length']} or more"
    elif kind == "too_long":
        kind, message, remedy = "many", "has too many entries", f"give {ctx['max_length']} or fewer"
    elif kind in _BOUNDED and (said := _out_of_bounds(model, error)):
        kind, (message, remedy) = "bounds", said
    elif kind == "value_error":
        kind, message = "wrong", str(ctx["error"])
    custom = PydanticCustomError(kind, message.replace("{remedy}", ""), {"remedy": remedy})
    return InitErrorDetails(type=custom, loc=loc, input=error["input"])


def _out_of_bounds(model: type[BaseModel], error: Any) -> tuple[str, str] | None:
    """The problem and the remedy for a quantity out of its bounds, where its unit knows more than the bounds."""
    if len(error["loc"]) != 1 or error["loc"][0] not in model.model_fields:
        return None
    field = model.model_fields[error["loc"][0]]
    marks = [*_marks(field.annotation), *field.metadata]
    low = max((getattr(mark, sign) for mark in marks for sign in ("ge", "gt") if hasattr(mark, sign)), default=-inf)
    high = min((getattr(mark, sign) for mark in marks for sign in ("le", "lt") if hasattr(mark, sign)), default=inf)
    told = (mark.outside(error["input"], low, high) for mark in marks if hasattr(mark, "outside"))
    return next(told, None)


def _marks(annotation: Any) -> Iterator[Any]:
    """Whatever marks a type, or a part of it: units and bounds."""
    args = get_args(annotation)
    if get_origin(annotation) is Annotated:
        for mark in args[1:]:
            yield from mark.metadata if isinstance(mark, FieldInfo) else (mark,)
    for part in args[:1] if get_origin(annotation) is Annotated else args:
        yield from _marks(part)


def _for_key(key: str, known: Sequence[str]) -> str:
    """What to write in place of an unknown *key*; ``{power:14 dBm}`` is one key to YAML."""
    name, colon, value = key.partition(":")
    return f"write a space after the colon: '{name}: {value}'" if colon and name in known else suggest(key, known)


def _follows(error: Any, wrong: Sequence[Any]) -> bool:
    """Whether a list is only found too short because some of its entries are wrong, which others of *wrong* say."""
    loc = error["loc"]
    return error["type"] == "too_short" and any(one["loc"][: len(loc)] == loc != one["loc"] for one in wrong)


def _booleans(model: type[BaseModel], value: object) -> list[InitErrorDetails]:
    """Fields where true or false stands for a number: Python would take it for 1 or 0."""
    if not isinstance(value, Mapping):
        return []
    custom = PydanticCustomError("boolean", "not a number", {"remedy": "write a number"})
    return [
        InitErrorDetails(type=custom, loc=(name,), input=value[name])
        for name, field in model.model_fields.items()
        if isinstance(value.get(name), bool) and _numeric(field.annotation)
    ]


def _numeric(annotation: Any) -> bool:
    """Whether a field of type *annotation* holds a number, or nothing."""
    parts = get_args(annotation) or (annotation,)
    return {getattr(part, "__origin__", part) for part in parts} <= {int, float, NoneType}
