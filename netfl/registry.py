"""Models are files: a family is a package, a model's ``kind`` is the name of its file.

`Spec` is the base of everything that a scenario can say.  `Member` marks a field that holds one model of a
family; which one is read from its ``kind``: a file of the family's package, or ``package.module:Class`` for a
model of the user's own.  Nothing is registered anywhere.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import re
import sys
import textwrap
import traceback
from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    ModelWrapValidatorHandler,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

from netfl.errors import Fault, suggest

if TYPE_CHECKING:
    from netfl.types import Law, ScenarioFacts


# Classes of the user's own, by the name ``package.module:Class``: the one way in which a scenario runs other code.
#
# Who sets the environment variable ``NETFL_NO_PLUGINS`` has every such name refused before anything is imported;
# processes and clusters that a command starts are told.


CLOSED = "NETFL_NO_PLUGINS"
"""The environment variable that, set to anything, has models of the user's own refused."""


@contextmanager
def plugins_disabled() -> Iterator[None]:
    """Refuse models of the user's own as long as this lasts, in processes that are started too.

    >>> with plugins_disabled():
    ...     import_plugin("some.package:Class")
    Traceback (most recent call last):
    netfl.registry.OutsideError: is not imported: code besides netfl's own is refused
    """
    before = os.environ.get(CLOSED)
    os.environ[CLOSED] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[CLOSED]
        else:
            os.environ[CLOSED] = before


class OutsideError(Exception):
    """Something of the user's own cannot be used.

    Args:
        problem: what is wrong with it.
        remedy: what would do.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(problem)


def import_plugin(name: str) -> Any:
    """What *name* names; its module may lie in the current folder, which is looked through last, and only from here.

    Raises:
        OutsideError: there is no such module, it cannot be imported, or holds nothing of that name; or all are refused.
    """
    package, _, called = name.partition(":")
    if os.environ.get(CLOSED):
        remedy = f"read what it does; if you trust it, leave out --no-plugins, or unset {CLOSED}"
        raise OutsideError("is not imported: code besides netfl's own is refused", remedy)
    if not (package and called):
        raise OutsideError("cannot be imported: it is no package.module:Class", "name the module and the class")
    if "" not in sys.path:
        sys.path.append("")
    try:
        module = importlib.import_module(package)
    except Exception as error:  # whatever the user's module does when it is imported
        if isinstance(error, ModuleNotFoundError) and f"{package}.".startswith(f"{error.name}."):
            remedy = "is it in this folder, or its package installed, or on PYTHONPATH?"
            raise OutsideError(f"cannot be imported: there is no module '{error.name}'", remedy) from error
        problem = f"cannot be imported: '{package}' is there, but is broken: {one_line(error)}{_place(error)}"
        raise OutsideError(problem, "mend it") from error
    if not hasattr(module, called):
        there = [one for one, found in vars(module).items() if inspect.isclass(found) and found.__module__ == package]
        problem = f"cannot be imported: '{package}' is there, but has no class '{called}'"
        raise OutsideError(problem, suggest(called, there))
    return getattr(module, called)


def one_line(error: Exception) -> str:
    """An error on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _place(error: Exception) -> str:
    """Where in the user's files it happened, if the error does not say so itself."""
    _, _, *frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith("<frozen")]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""


# Pydantic's findings in words that tell the writer of a scenario what to do.


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
class LiteralOr:
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


def validation_details(model: type[BaseModel], value: object, error: ValidationError | None) -> list[InitErrorDetails]:
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


def to_line_error(fault: Fault) -> InitErrorDetails:
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


FAMILIES = (
    "access",
    "access/selection",
    "network/topology",
    "network/placement",
    "network/motion",
    "network/channel",
    "network/reception",
    "network/mac",
    "network/queue",
    "network/routing",
    "network/outage",
    "network/traffic",
    "network/round",
    "network/theory",
    "learning/data",
    "learning/partition",
    "learning/model",
    "learning/objective",
    "learning/schedule",
    "learning/aggregation",
)
"""Every family, by the path of its package below ``netfl``."""


class Spec(BaseModel, ABC):
    """What a scenario says of one thing: frozen, every unknown key a fault, every field's docstring its reference."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """What is wrong with this model in the scenario that *facts* tells of; keys relative to this model."""
        yield from ()

    def laws(self) -> tuple[Law, ...]:
        """What this model claims of what it draws; the generic law test holds it to that."""
        return ()

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Say what would do for each fault, with the near names of unknown keys."""
        made, error = None, None
        try:
            made = handler(value)
        except ValidationError as found:
            error = found
        wrong = validation_details(cls, value, error)
        if made is None or wrong:
            raise ValidationError.from_exception_data(cls.__name__, wrong)
        return made


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """Marks a field that holds one model of the family of its type.

    >>> from netfl.registry import FamilyMember
    >>> FamilyMember()
    FamilyMember()
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Validate by the class that ``kind`` names; dump with the kind first."""

        def pick(value: object, info: ValidationInfo) -> Spec:
            if isinstance(value, Spec) and isinstance(value, source):
                return value
            kind, fields = _kind_and_fields(source, value)
            try:
                model = find_model(source, kind)
            except PydanticCustomError as error:
                if isinstance(value, str):
                    raise
                there = InitErrorDetails(type=error, loc=("kind",), input=kind)
                raise ValidationError.from_exception_data(source.__name__, [there]) from error
            return model.model_validate(fields, context=info.context)

        def dump(value: Spec) -> dict[str, Any]:
            return {"kind": kind_of(type(value)), **value.model_dump(mode="json")}

        return core_schema.with_info_plain_validator_function(
            pick,
            metadata={"family": family_of(source)},
            serialization=core_schema.plain_serializer_function_ser_schema(dump),
        )


def family_of(base: type[Spec]) -> str:
    """The family whose contract *base* is, such as ``network/channel``."""
    return base.__module__.removeprefix("netfl.").replace(".", "/")


def base_of(family: str) -> type[Spec]:
    """The contract of *family*: the one `Spec` that its package defines itself.

    >>> base_of("network/channel").__name__
    'Channel'
    """
    return _only_spec(importlib.import_module("netfl." + family.replace("/", ".")), Spec)


def kind_of(model: type[Spec]) -> str:
    """The ``kind`` that names *model* in a scenario."""
    if model.__module__.startswith("netfl."):
        return model.__module__.rpartition(".")[2]
    return f"{model.__module__}:{model.__qualname__}"


def list_kinds(base: type[Spec]) -> list[str]:
    """The kinds that netfl brings of a family, in alphabetical order."""
    return [*_files(base.__module__)]


@cache
def _files(package: str) -> tuple[str, ...]:
    """The models in a package, in alphabetical order; looked up once, as a scenario asks for each that it names."""
    found = pkgutil.iter_modules(importlib.import_module(package).__path__)
    return tuple(sorted(name for _, name, folder in found if not (folder or name.startswith("_"))))


def find_model(base: type[Spec], kind: str) -> type[Spec]:
    """The model of *base*'s family that *kind* names.

    Raises:
        PydanticCustomError: there is none; the message names the near ones.
    """
    if ":" in kind:
        return _outside(base, kind)
    known = list_kinds(base)
    if kind not in known:
        raise PydanticCustomError(
            "kind",
            "no such {family}: '{kind}'",
            {"family": family_of(base), "kind": kind, "remedy": suggest(kind, known)},
        )
    return _only_spec(importlib.import_module(f"{base.__module__}.{kind}"), base)


def example(model: type[Spec]) -> str:
    """The YAML example of a model: the indented block after ``Example::`` in its docstring."""
    text = inspect.cleandoc(model.__doc__ or "")
    _, _, after = text.partition("Example::\n")
    block = after.split("\n\nArgs:")[0]
    lines = []
    for line in block.splitlines():
        if line.strip() and not line.startswith(" "):
            break
        lines.append(line)
    return textwrap.dedent("\n".join(lines)).strip()


def _kind_and_fields(base: type[Spec], value: object) -> tuple[str, dict[str, Any]]:
    """Split what a scenario says of a family member into its kind and its fields."""
    if isinstance(value, str):
        return value, {}
    if isinstance(value, Mapping) and isinstance(value.get("kind"), str):
        return value["kind"], {key: entry for key, entry in value.items() if key != "kind"}
    raise PydanticCustomError(
        "family",
        "one {family} is wanted: its kind, or a mapping with 'kind'",
        {"family": family_of(base), "remedy": f"kinds: {', '.join(list_kinds(base))}"},
    )


def _outside(base: type[Spec], kind: str) -> type[Spec]:
    """The user's own model ``package.module:Class``."""
    try:
        found = import_plugin(kind)
    except OutsideError as error:
        raise PydanticCustomError(
            "kind", "'{kind}' {problem}", {"kind": kind, "problem": error.problem, "remedy": error.remedy}
        ) from error
    if not (inspect.isclass(found) and issubclass(found, base)) or inspect.isabstract(found):
        raise PydanticCustomError(
            "kind",
            "'{kind}' is no {base}, or not a complete one",
            {"kind": kind, "base": base.__name__, "remedy": f"derive it from {base.__module__}.{base.__name__}"},
        )
    return found


def _only_spec(module: Any, base: type[Spec]) -> type[Spec]:
    """The one public model of *base*'s family that *module* itself defines."""
    own = [
        found
        for name, found in vars(module).items()
        if inspect.isclass(found)
        and issubclass(found, base)
        and found is not base
        and found.__module__ == module.__name__
        and not name.startswith("_")
    ]
    if base is not Spec:
        own = [found for found in own if not inspect.isabstract(found)]
    if len(own) != 1:
        raise TypeError(f"{module.__name__} must define exactly one public {base.__name__}, it defines {len(own)}")
    return own[0]


def find_plugins(part: object) -> Iterator[tuple[str, Spec]]:
    """The models of the user's own at and below *part*, each with its dotted key."""
    if isinstance(part, Spec):
        if ":" in kind_of(type(part)):
            yield "", part
        for name in type(part).model_fields:
            below = find_plugins(getattr(part, name))
            yield from ((f"{name}.{key}" if key else name, own) for key, own in below)
