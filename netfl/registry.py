"""Model families: a family is a package, and the name of a model's file is its ``kind``.

`Spec` is the base of every section and model of a scenario.  `FamilyMember` annotates a field that holds one model of a
family.  Its ``kind`` is a file of the family's package, or ``package.module:Class`` for a model from outside netfl
(`import_plugin`).  Nothing is registered.  The last part turns pydantic's errors into faults with remedies.
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
"""All families, as paths of their packages below ``netfl``."""


class Spec(BaseModel, ABC):
    """Base of the sections and models of a scenario: frozen, without unknown keys, with documented fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield the errors of this model in the scenario that *facts* describes; keys are relative to this model."""
        yield from ()

    def laws(self) -> tuple[Law, ...]:
        """Return the distributions and properties that this model claims; a generic test verifies them."""
        return ()

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Add a remedy to each error, with the nearest name for an unknown key."""
        spec, error = None, None
        try:
            spec = handler(value)
        except ValidationError as raised:
            error = raised
        details = validation_details(cls, value, error)
        if spec is None or details:
            raise ValidationError.from_exception_data(cls.__name__, details)
        return spec


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """Annotation of a field that holds one model of the family of its type.

    >>> from netfl.registry import FamilyMember
    >>> FamilyMember()
    FamilyMember()
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Validate with the class that ``kind`` names; dump the kind first."""

        def pick(value: object, info: ValidationInfo) -> Spec:
            if isinstance(value, Spec) and isinstance(value, source):
                return value
            kind, fields = _kind_and_fields(source, value)
            try:
                model = find_model(source, kind)
            except PydanticCustomError as error:
                if isinstance(value, str):
                    raise
                detail = InitErrorDetails(type=error, loc=("kind",), input=kind)
                raise ValidationError.from_exception_data(source.__name__, [detail]) from error
            return model.model_validate(fields, context=info.context)

        def dump(value: Spec) -> dict[str, Any]:
            return {"kind": kind_of(type(value)), **value.model_dump(mode="json")}

        return core_schema.with_info_plain_validator_function(
            pick,
            metadata={"family": family_of(source)},
            serialization=core_schema.plain_serializer_function_ser_schema(dump),
        )


def family_of(base: type[Spec]) -> str:
    """Return the family whose contract is *base*, such as ``network/channel``."""
    return base.__module__.removeprefix("netfl.").replace(".", "/")


def base_of(family: str) -> type[Spec]:
    """Return the contract of *family*: the one `Spec` that its package defines.

    >>> base_of("network/channel").__name__
    'Channel'
    """
    return _only_spec(importlib.import_module("netfl." + family.replace("/", ".")), Spec)


def kind_of(model: type[Spec]) -> str:
    """Return the ``kind`` of *model* in a scenario."""
    if model.__module__.startswith("netfl."):
        return model.__module__.rpartition(".")[2]
    return f"{model.__module__}:{model.__qualname__}"


def list_kinds(base: type[Spec]) -> list[str]:
    """Return the kinds of a family that netfl has, in alphabetical order."""
    return [*_files(base.__module__)]


@cache
def _files(package: str) -> tuple[str, ...]:
    modules = pkgutil.iter_modules(importlib.import_module(package).__path__)
    return tuple(sorted(name for _, name, is_package in modules if not (is_package or name.startswith("_"))))


def find_model(base: type[Spec], kind: str) -> type[Spec]:
    """Return the model of *base*'s family that *kind* names.

    Raises:
        PydanticCustomError: there is none; the remedy names the nearest kind.
    """
    if ":" in kind:
        return _find_plugin(base, kind)
    known = list_kinds(base)
    if kind not in known:
        raise PydanticCustomError(
            "kind",
            "no such {family}: '{kind}'",
            {"family": family_of(base), "kind": kind, "remedy": suggest(kind, known)},
        )
    return _only_spec(importlib.import_module(f"{base.__module__}.{kind}"), base)


def example(model: type[Spec]) -> str:
    """Return the YAML example of a model: the indented block after ``Example::`` in its docstring."""
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
    if isinstance(value, str):
        return value, {}
    if isinstance(value, Mapping) and isinstance(value.get("kind"), str):
        return value["kind"], {key: entry for key, entry in value.items() if key != "kind"}
    raise PydanticCustomError(
        "family",
        "one {family} is wanted: its kind, or a mapping with 'kind'",
        {"family": family_of(base), "remedy": f"kinds: {', '.join(list_kinds(base))}"},
    )


def _find_plugin(base: type[Spec], kind: str) -> type[Spec]:
    try:
        model = import_plugin(kind)
    except PluginError as error:
        raise PydanticCustomError(
            "kind", "'{kind}' {problem}", {"kind": kind, "problem": error.problem, "remedy": error.remedy}
        ) from error
    if not (inspect.isclass(model) and issubclass(model, base)) or inspect.isabstract(model):
        raise PydanticCustomError(
            "kind",
            "'{kind}' is no {base}, or not a complete one",
            {"kind": kind, "base": base.__name__, "remedy": f"derive it from {base.__module__}.{base.__name__}"},
        )
    return model


def _only_spec(module: Any, base: type[Spec]) -> type[Spec]:
    """Return the one public model of *base*'s family that *module* defines."""
    models = [
        model
        for name, model in vars(module).items()
        if inspect.isclass(model)
        and issubclass(model, base)
        and model is not base
        and model.__module__ == module.__name__
        and not name.startswith("_")
    ]
    if base is not Spec:
        models = [model for model in models if not inspect.isabstract(model)]
    if len(models) != 1:
        raise TypeError(f"{module.__name__} must define exactly one public {base.__name__}, it defines {len(models)}")
    return models[0]


def find_plugins(part: object) -> Iterator[tuple[str, Spec]]:
    """Yield the models from outside netfl at and below *part*, each with its dotted key."""
    if isinstance(part, Spec):
        if ":" in kind_of(type(part)):
            yield "", part
        for name in type(part).model_fields:
            below = find_plugins(getattr(part, name))
            yield from ((f"{name}.{key}" if key else name, model) for key, model in below)


CLOSED = "NETFL_NO_PLUGINS"
"""Environment variable that, set to any value, disables models from outside netfl."""


@contextmanager
def plugins_disabled() -> Iterator[None]:
    """Refuse models from outside netfl inside this context, also in processes that it starts.

    >>> with plugins_disabled():
    ...     import_plugin("some.package:Class")
    Traceback (most recent call last):
    netfl.registry.PluginError: is not imported: code besides netfl's own is refused
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


class PluginError(Exception):
    """A model from outside netfl cannot be used.

    Args:
        problem: the problem in words.
        remedy: what to do.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(problem)


def import_plugin(name: str) -> Any:
    """Import the object that ``package.module:Class`` names; the current folder is searched last.

    Raises:
        PluginError: the module is missing or broken, it has no such name, or plug-ins are disabled.
    """
    package, _, called = name.partition(":")
    if os.environ.get(CLOSED):
        remedy = f"read what it does; if you trust it, leave out --no-plugins, or unset {CLOSED}"
        raise PluginError("is not imported: code besides netfl's own is refused", remedy)
    if not (package and called):
        raise PluginError("cannot be imported: it is no package.module:Class", "name the module and the class")
    if "" not in sys.path:
        sys.path.append("")
    try:
        module = importlib.import_module(package)
    except Exception as error:  # whatever the user's module does when it is imported
        if isinstance(error, ModuleNotFoundError) and f"{package}.".startswith(f"{error.name}."):
            remedy = "is it in this folder, or its package installed, or on PYTHONPATH?"
            raise PluginError(f"cannot be imported: there is no module '{error.name}'", remedy) from error
        problem = f"cannot be imported: '{package}' is there, but is broken: {one_line(error)}{_place(error)}"
        raise PluginError(problem, "mend it") from error
    if not hasattr(module, called):
        classes = [key for key, item in vars(module).items() if inspect.isclass(item) and item.__module__ == package]
        problem = f"cannot be imported: '{package}' is there, but has no class '{called}'"
        raise PluginError(problem, suggest(called, classes))
    return getattr(module, called)


def one_line(error: Exception) -> str:
    """Return an error as one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _place(error: Exception) -> str:
    """Return the file and line of the error."""
    _, _, *frames = traceback.extract_tb(error.__traceback__)
    plugin_frames = [frame for frame in frames if not frame.filename.startswith("<frozen")]
    return f" ({Path(plugin_frames[-1].filename).name}, line {plugin_frames[-1].lineno})" if plugin_frames else ""


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
"""Problem and remedy for pydantic's kinds of errors."""


@dataclass(frozen=True, slots=True)
class LiteralOr:
    """Annotation of a field that holds one of the words of its type, or a value of type *value*.

    A mapping is validated as *fields*, if that is given.
    """

    value: Any
    fields: Any = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Choose by the form of the value, so that one mistake is one fault."""
        words = [word for part in get_args(source) if get_origin(part) is Literal for word in get_args(part)]
        values: TypeAdapter[Any] = TypeAdapter(self.value)
        fields: TypeAdapter[Any] = values if self.fields is None else TypeAdapter(self.fields)

        def choose(value: object, info: ValidationInfo) -> object:
            if not isinstance(value, str):
                is_mapping = isinstance(value, Mapping | BaseModel)
                return (fields if is_mapping else values).validate_python(value, context=info.context)
            if value not in words:
                raise PydanticCustomError("word", "no such word", {"remedy": suggest(value, words)})
            return value

        return core_schema.with_info_before_validator_function(choose, handler(source))


def validation_details(model: type[BaseModel], value: object, error: ValidationError | None) -> list[InitErrorDetails]:
    """Return all errors of *value* as a *model*: pydantic's own, and booleans in place of numbers."""
    errors = [] if error is None else error.errors(include_url=False)
    details = [_detail(model, entry) for entry in errors if not _follows(entry, errors)]
    known = {detail["loc"][0] for detail in details if detail["loc"]}
    return details + [detail for detail in _booleans(model, value) if detail["loc"][0] not in known]


def faults_of(error: ValidationError) -> list[Fault]:
    """Return the faults that pydantic found, each with its dotted key, value and remedy."""
    return [
        Fault(
            key=".".join(str(part) for part in entry["loc"] if part != "[key]"),
            problem=entry["msg"],
            value=None if _needs_no_value(entry) else entry["input"],
            remedy=str(entry.get("ctx", {}).get("remedy", "")),
        )
        for entry in error.errors(include_url=False)
    ]


def to_line_error(fault: Fault) -> InitErrorDetails:
    """Return a fault as pydantic's error details."""
    problem = fault.problem.replace("{remedy}", "")
    return InitErrorDetails(
        type=PydanticCustomError("inconsistent", cast(Any, problem), {"remedy": fault.remedy}),
        loc=tuple(int(part) if part.isdecimal() else part for part in fault.key.split(".")),
        input=fault.value,
    )


def _needs_no_value(error: Any) -> bool:
    """Return whether the value adds nothing: it is missing, part of the message, or a whole mapping."""
    return error["type"] in {"missing", "unknown_key", "kind"} or isinstance(error["input"], Mapping | BaseModel)


def _detail(model: type[BaseModel], error: Any) -> InitErrorDetails:
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
    elif kind in _BOUNDED and (bounds := _out_of_bounds(model, error)):
        kind, (message, remedy) = "bounds", bounds
    elif kind == "value_error":
        kind, message = "wrong", str(ctx["error"])
    custom = PydanticCustomError(kind, message.replace("{remedy}", ""), {"remedy": remedy})
    return InitErrorDetails(type=custom, loc=loc, input=error["input"])


def _out_of_bounds(model: type[BaseModel], error: Any) -> tuple[str, str] | None:
    """Return the problem and the remedy for a quantity out of bounds, if its unit can explain them."""
    if len(error["loc"]) != 1 or error["loc"][0] not in model.model_fields:
        return None
    field = model.model_fields[error["loc"][0]]
    marks = [*_marks(field.annotation), *field.metadata]
    low = max((getattr(mark, sign) for mark in marks for sign in ("ge", "gt") if hasattr(mark, sign)), default=-inf)
    high = min((getattr(mark, sign) for mark in marks for sign in ("le", "lt") if hasattr(mark, sign)), default=inf)
    return next((mark.outside(error["input"], low, high) for mark in marks if hasattr(mark, "outside")), None)


def _marks(annotation: Any) -> Iterator[Any]:
    """Yield the units and bounds that annotate a type or a part of it."""
    args = get_args(annotation)
    if get_origin(annotation) is Annotated:
        for mark in args[1:]:
            yield from mark.metadata if isinstance(mark, FieldInfo) else (mark,)
    for part in args[:1] if get_origin(annotation) is Annotated else args:
        yield from _marks(part)


def _for_key(key: str, known: Sequence[str]) -> str:
    """Return the remedy for an unknown *key*; ``{power:14 dBm}`` is a single key in YAML."""
    name, colon, value = key.partition(":")
    return f"write a space after the colon: '{name}: {value}'" if colon and name in known else suggest(key, known)


def _follows(error: Any, errors: Sequence[Any]) -> bool:
    """Return whether a list is too short only because of wrong entries, which have errors of their own."""
    loc = error["loc"]
    return error["type"] == "too_short" and any(other["loc"][: len(loc)] == loc != other["loc"] for other in errors)


def _booleans(model: type[BaseModel], value: object) -> list[InitErrorDetails]:
    """Return errors for booleans in place of numbers, which Python would take for 1 or 0."""
    if not isinstance(value, Mapping):
        return []
    custom = PydanticCustomError("boolean", "not a number", {"remedy": "write a number"})
    return [
        InitErrorDetails(type=custom, loc=(name,), input=value[name])
        for name, field in model.model_fields.items()
        if isinstance(value.get(name), bool) and _is_numeric(field.annotation)
    ]


def _is_numeric(annotation: Any) -> bool:
    parts = get_args(annotation) or (annotation,)
    return {getattr(part, "__origin__", part) for part in parts} <= {int, float, NoneType}
