"""Model families: a family is a package, and the name of a model's file is its ``kind``.

`Spec` is the base of every section and model of a scenario.  `FamilyMember` annotates a field that holds one model of a
family.  Its ``kind`` is a file of the family's package, or ``package.module:Class`` for a model from outside netfl
(`import_plugin`).  Nothing is registered.  `OnlyWith` and `NotWith` state when a key has an effect.  The last part
adds remedies to pydantic's errors.
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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property, partial, wraps
from itertools import islice
from pathlib import Path
from types import ModuleType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, cast, get_args, get_origin

import numpy as np
import pydantic
from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

from netfl.descriptions import key_descriptions
from netfl.errors import Fault, NetflError, PluginCallError, ScenarioError, find_meant, lacks_memory, suggest
from netfl.remedies import argument, is_command_line
from netfl.synonyms import meanings, normalised

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
    from pydantic.json_schema import JsonSchemaValue

    from netfl.types import Law, ScenarioFacts
else:
    ModelMetaclass = type(BaseModel)

_Result = TypeVar("_Result")
_MAX_DIGITS = 4000
"""Largest number of digits of a number in a scenario; Python converts up to 4,300."""
_COUNT_WORDS = {"n", "num", "number", "of", "the", "count", "total", ""}
"""Words of a key that say nothing of what it is about, in the singular."""
_LETTERS = re.compile(r"\w+")
_MAX_ENTRIES, _MAX_CHARACTERS = 4, 40
"""Number of entries of a list, and of characters of each, that a remedy shows."""


FAMILIES = (
    "access",
    "access/selection",
    "network/topology",
    "network/placement",
    "network/motion",
    "network/association",
    "network/channel",
    "network/reception",
    "network/interference",
    "network/power_control",
    "network/mac",
    "network/rate_adaptation",
    "network/allocation",
    "network/queue",
    "network/routing",
    "network/outage",
    "network/trains_when",
    "network/traffic",
    "network/round",
    "network/theory",
    "learning/data",
    "learning/partition",
    "learning/model",
    "learning/objective",
    "learning/schedule",
    "learning/aggregation",
    "learning/device",
    "learning/codec",
    "tracker",
)
"""All families, as paths of their packages below ``netfl``."""


_SUBSCHEMAS = ("schema", "items_schema", "values_schema", "choices", "fields")
"""Keys below which a schema of pydantic has the schemas of its parts."""
_PLAIN_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
"""A number, without unit, blanks or digit separators."""


_WHOLE = "a whole number"
_MAX_INT = 10**12
"""Largest whole number of a key that states no maximum of its own."""


class StrictScalars:
    """Annotation of a type whose numbers are read from numbers alone, and whose booleans from booleans alone.

    pydantic also reads ``true`` as 1, and ``"8.0"``, ``" 8 "``, ``"+8"`` and ``"1_0"`` as numbers.  A number with an
    integral value, such as ``1e3`` or ``2000.0``, remains a whole number.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        schema = handler(source)
        resolved = handler.resolve_ref_schema(schema)
        strict: core_schema.CoreSchema = _strict_schema(resolved)
        if strict is resolved:
            return schema  # its parts are changed in place
        return strict


def _strict_schema(schema: Any) -> Any:
    """Return *schema* with a check before each number and boolean at or below it; parts are replaced in place."""
    check = _SCALAR_CHECKS.get(schema["type"])
    if check is _check_int and schema.keys().isdisjoint({"le", "lt"}):
        check = _check_unbounded_int
    if check is not None:
        return core_schema.no_info_before_validator_function(check, schema)
    if schema["type"] == "function-before" and schema["function"]["function"] in _CHECKS:
        return schema  # a model inside this one has done it
    if schema.get("keys_schema", {}).get("type") == "int":
        schema["keys_schema"] = core_schema.no_info_before_validator_function(_check_key, schema["keys_schema"])
    for key in _SUBSCHEMAS:
        part = schema.get(key)
        if isinstance(part, list):
            schema[key] = [_strict_schema(entry) if isinstance(entry, dict) else entry for entry in part]
        elif isinstance(part, dict) and isinstance(part.get("type"), str):
            schema[key] = _strict_schema(part)
        elif isinstance(part, dict):  # by name
            schema[key] = {name: _strict_schema(entry) for name, entry in part.items()}
    return schema


def _check_float(value: Any) -> Any:
    if isinstance(value, bool | np.bool_ | str | bytes):
        raise invalid("not a number", _number_remedy(value))
    return value


def _check_int(value: Any) -> Any:
    if isinstance(value, bool | np.bool_ | str | bytes):
        raise invalid("not a whole number", _number_remedy(value, _WHOLE))
    if isinstance(value, float) and value.is_integer():  # pydantic converts those of 64 bits only
        return int(value)
    return value


def _check_unbounded_int(value: Any) -> Any:
    """Check a number whose key states no maximum; beyond `_MAX_INT` it would overflow in arrays."""
    value = _check_int(value)
    if isinstance(value, int) and abs(value) > _MAX_INT:
        raise invalid("too large a number", f"write at most {_MAX_INT}")
    return value


def _check_key(value: Any) -> Any:
    """Check a key of a mapping by whole numbers, which a file has as text."""
    if isinstance(value, str) and re.fullmatch(r"0|-?[1-9][0-9]{0,18}", value):
        return int(value)
    return _check_int(value)


def _check_bool(value: Any) -> Any:
    if not isinstance(value, bool | np.bool_):
        raise invalid("neither true nor false", "write true or false")
    return value


_SCALAR_CHECKS: Mapping[str, Callable[[Any], Any]] = {"float": _check_float, "int": _check_int, "bool": _check_bool}
"""Checks of values before pydantic reads them, by pydantic's name of the type."""
_CHECKS = (*_SCALAR_CHECKS.values(), _check_unbounded_int)


def _number_remedy(value: object, wanted: str = "a number") -> str:
    """Return the number that a text probably stands for, as the remedy.

    >>> _number_remedy("8.0"), _number_remedy("1_000"), _number_remedy("10 %"), _number_remedy("0,5")
    ('write 8.0 without quotes', 'write 1000', 'write 0.1', 'write 0.5')
    >>> _number_remedy(True), _number_remedy("10%", _WHOLE), _number_remedy("9" * 5000)
    ('write a number', 'write a whole number', 'write a number of fewer digits')
    """
    if not isinstance(value, str):
        return f"write {wanted}"
    if len(value) > _MAX_DIGITS:
        return f"write {wanted} of fewer digits"
    text = re.sub(r"[\s_]", "", value)
    bare = text.removesuffix("%")
    if re.fullmatch(r"[-+]?[0-9]+,[0-9]{1,2}", bare):  # three digits after a comma may be thousands
        bare = bare.replace(",", ".")
    if not _PLAIN_NUMBER.fullmatch(bare):
        return f"write {wanted}"
    number = bare.removeprefix("+")
    if text.endswith("%"):
        number = f"{float(bare) / 100:.12g}"
    if wanted == _WHOLE and not float(number).is_integer():
        return f"write {wanted}"
    if number == value.removeprefix("+"):
        number += " without quotes"
    return f"write {number}"


def _length_of(model: type[Spec], loc: Sequence[int | str]) -> int:
    """Return the number of entries that the list at *loc* in *model* has; 1 if it may have any number."""
    field = model.model_fields.get(str(loc[0]))
    if field is None or len(loc) > 1:
        return 1
    for part in (field.annotation, *get_args(field.annotation)):
        if get_origin(part) is tuple and Ellipsis not in get_args(part):
            return len(get_args(part))
    return 1


def _per_user(model: type[Spec], loc: Sequence[int | str]) -> PerUser | None:
    """Return the mark of a list with an entry for each user at *loc* in *model*; ``None`` if there is none."""
    field = model.model_fields.get(str(loc[0]))
    if field is None or len(loc) > 1:
        return None
    return next((mark for mark in field.metadata if isinstance(mark, PerUser)), None)


def _remedy_for_list(model: type[Spec], loc: Sequence[int | str], value: object) -> str:
    """Return the remedy for a *value* at *loc* in *model*, where a list is expected."""
    per_user = _per_user(model, loc)
    if per_user is not None and _is_single(value):
        return per_user.remedy
    return _list_remedy(value, _length_of(model, loc))


def _is_single(value: object) -> bool:
    """Return whether a *value* in place of a list is one number or one word."""
    return isinstance(value, int | float) or (isinstance(value, str) and "," not in value)


def _list_remedy(value: object, length: int = 1) -> str:
    """Return the list that *value* probably stands for, as the remedy; a number stands for *length* equal ones.

    >>> _list_remedy("0,1"), _list_remedy(5), _list_remedy({"kind": "rayleigh", "coherence": 1})
    ('write [0, 1]', 'write [5]', 'write [{kind: rayleigh, …}]')
    >>> _list_remedy(5, 2), _list_remedy("5 km/h", 2)
    ('write [5, 5]', 'write [5 km/h, 5 km/h]')
    >>> _list_remedy({"a": 1, "b": 2}), _list_remedy({"a": {"b": 2}}), _list_remedy(None)
    ('write [1, 2]', 'write [{b: 2}]', 'write a list, such as [1, 2]')
    """
    if isinstance(value, str):
        entries = [_shown_entry(part.strip()) for part in value.split(",")]
        if len(entries) == 1:
            entries *= length
        return f"write [{', '.join(entries)}]"
    if isinstance(value, int | float):
        return f"write [{', '.join([_shown_entry(value)] * length)}]"
    if isinstance(value, Mapping) and value and "kind" not in value:
        return f"write [{', '.join(_shown_entry(entry) for entry in islice(value.values(), _MAX_ENTRIES))}]"
    if isinstance(value, Mapping) and value:
        return f"write [{_shown_entry(value)}]"
    return "write a list, such as [1, 2]"


def _shown_entry(value: object) -> str:
    """Return an entry of a list as a remedy shows it, in YAML; the rest of a long one is left out."""
    if isinstance(value, Mapping):
        key, entry = next(iter(value.items()), ("", "…"))
        key, entry = ("kind", value["kind"]) if "kind" in value else (key, entry)
        return f"{{{key}: {_shown_entry(entry)}{', …' if len(value) > 1 else ''}}}"
    if isinstance(value, list | tuple):
        return "[…]"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"


def _annotated_names(namespace: Mapping[str, Any]) -> set[str]:
    """Return the names that the body of a class annotates."""
    names = {*namespace.get("__annotations__", {})}
    annotate = namespace.get("__annotate_func__")  # from Python 3.14 on, without a future import
    if annotate is not None:
        library = importlib.import_module("annotationlib")
        names |= {*library.call_annotate_function(annotate, library.Format.FORWARDREF)}
    return names


def _constant(value: object) -> property:
    return property(lambda self: value)


def _contract(bases: Iterable[type[Any]]) -> set[str]:
    """Return the names that classes of netfl among *bases* and theirs declare: those that a derived class overrides."""
    classes = {each for base in bases for each in base.__mro__ if each.__module__.startswith("netfl.")}
    return {name for each in classes for name in vars(each) if not name.startswith("__")}


class Overridable:
    """Base of the classes that users derive from: models, and what they open, such as `netfl.network.channel.LinkGain`.

    What a class from outside netfl overrides raises a `PluginCallError`, which names the class, whoever calls it.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not cls.__module__.startswith("netfl."):
            for name in _contract(cls.__bases__) & vars(cls).keys():
                setattr(cls, name, _with_failures(vars(cls)[name], kind_of(cls), name))


def _with_failures(member: Any, kind: str, name: str, what: str = "method") -> Any:
    """Return a *member* of a class from outside netfl, *kind*, whose exceptions are raised as a `PluginCallError`."""
    if isinstance(member, property):
        return member.getter(_with_failures(member.fget, kind, name, "property"))
    if isinstance(member, cached_property):
        cached = cached_property(_with_failures(member.func, kind, name, "property"))
        cached.__set_name__(Overridable, name)
        return cached
    if isinstance(member, classmethod | staticmethod):
        return type(member)(_with_failures(member.__func__, kind, name))
    if not inspect.isfunction(member):
        return member

    def failure(error: Exception, args: tuple[object, ...]) -> Exception:
        """Return the error to raise; the traceback of its cause begins in the member."""
        if isinstance(error, NetflError) or lacks_memory(error):
            return error
        assert error.__traceback__ is not None
        error.__traceback__ = error.__traceback__.tb_next
        called = kind_of(type(args[0])) if args and isinstance(args[0], Overridable) else kind
        located = PluginCallError(called, f"its {what} '{name}'{PluginCallError.FAILS}{_line_in(error, member)}")
        located.__cause__ = error
        return located

    if inspect.isgeneratorfunction(member):

        @wraps(member)
        def generate(*args: Any, **options: Any) -> Any:
            try:
                return (yield from member(*args, **options))
            except Exception as error:
                raise failure(error, args)  # noqa: B904 - it has its cause

        return generate

    @wraps(member)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return member(*args, **options)
        except Exception as error:
            raise failure(error, args)  # noqa: B904 - it has its cause

    return call


class _SpecClass(ModelMetaclass):
    """Class of all models: wrong arguments of a model that Python creates are a `ScenarioError`, as in a file.

    A model may replace a property of its contract by a value without an annotation, such as ``accepts_parts = True``.
    """

    def __new__(mcs, name: str, bases: tuple[type[Any], ...], namespace: dict[str, Any], **settings: Any) -> type:
        for key in namespace.keys() - _annotated_names(namespace):
            value = namespace[key]
            is_property = any(isinstance(getattr(base, key, None), property) for base in bases)
            if is_property and not (isinstance(value, property) or callable(value)):
                namespace[key] = _constant(value)
        return super().__new__(mcs, name, bases, namespace, **settings)

    def __call__(self, *args: Any, **fields: Any) -> Any:
        has_keys_only = self.__init__ is BaseModel.__init__  # type: ignore[misc]  # of the class that is called
        if args and has_keys_only:
            problem = f"takes keys and no positional value, but is given {type(args[0]).__name__}"
            names = vars(self)["__pydantic_fields__"]
            known = ", ".join(f"{name}=…" for name in islice(names, 2))
            remedy = f"write {self.__name__}({known}); netfl.load reads files and mappings"
            raise ScenarioError([Fault(self.__name__, problem, None, remedy)])
        try:
            return super().__call__(*args, **fields)
        except ValidationError as error:
            raise ScenarioError([fault.under(self.__name__) for fault in faults_of(error)]) from None


class Spec(Overridable, BaseModel, ABC, metaclass=_SpecClass):
    """Base of the sections and models of a scenario: frozen, without unknown keys, with documented fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    short_key: ClassVar[str] = ""
    """Key of a model of a family whose value may stand for all of them, as in ``{KIND: VALUE}``; empty for none."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield the errors of this model in the scenario that *facts* describes; keys are relative to this model."""
        yield from ()

    def laws(self) -> tuple[Law, ...]:
        """Return the distributions and properties that this model claims; a generic test verifies them."""
        return ()

    @classmethod
    def from_object(cls, value: object) -> Mapping[str, Any] | None:
        """Return the model that represents a Python object in a scenario, as a mapping; ``None`` if there is none.

        A contract overrides this for objects that its users have, such as a `torch.nn.Module` for a model.
        """
        return None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Read numbers and booleans by `StrictScalars` in all fields."""
        return StrictScalars().__get_pydantic_core_schema__(source, handler)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe the keys."""
        resolved = handler.resolve_ref_schema(handler(schema))
        for name, text in key_descriptions(cls).items():
            resolved["properties"][name].setdefault("description", text)
        return resolved

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Add a remedy to each error, with the nearest name for an unknown key."""
        try:
            spec = handler(value)
        except ValidationError as error:
            errors = error.errors(include_url=False)
            shown, unknown = _limit_unknown_keys(errors)
            details = [_detail(cls, entry) for entry in shown if not _follows(cls, entry, shown)]
            if unknown:
                details.append(_more_unknown_keys(unknown))
            raise ValidationError.from_exception_data(cls.__name__, details) from None
        details = [
            to_line_error(fault)
            for name, field in cls.model_fields.items()
            for mark in field.metadata
            if isinstance(mark, OnlyWith) and (fault := mark.fault(spec, name))
        ]
        if details:
            raise ValidationError.from_exception_data(cls.__name__, details)
        return spec


class OnlyWith:
    """Annotation of a field that has an effect only if another key of its model is set, or has one of *values*.

    A key is set if its value is not the default.

    Args:
        key: the other key.
        values: values of the other key; none for any but the default.
        needed: the other key in turn needs this one.

    Example::

        mtu: Annotated[Annotated[Bits, Field(gt=0)] | None, OnlyWith("grain", "packet")] = None
    """

    def __init__(self, key: str, *values: object, needed: bool = False) -> None:
        self.key, self.values, self.needed = key, values, needed
        self.condition = f"{key}: {' or '.join(map(str, values))}" if values else key

    def applies(self, spec: Spec) -> bool:
        """Return whether the other key of *spec* is set, or has one of the values."""
        return getattr(spec, self.key) in self.values if self.values else is_set(spec, self.key)

    def fault(self, spec: Spec, name: str) -> Fault | None:
        """Return the error if *spec* does not meet the condition of its field *name*."""
        applies, value = self.applies(spec), getattr(spec, name)
        if not applies and is_set(spec, name):
            remedy = f"leave it out, or set {self.condition}"
            return Fault(name, f"has no effect without {self.condition}", value, remedy)
        if applies and self.needed and value is None:
            return Fault(name, f"missing; {self.key}: {getattr(spec, self.key)} needs it", None, "give it")
        return None


class NotWith(OnlyWith):
    """Annotation of a field that has no effect if another key of its model is set, or has one of *values*."""

    def fault(self, spec: Spec, name: str) -> Fault | None:
        if self.applies(spec) and is_set(spec, name):
            return Fault(name, f"has no effect with {self.condition}", getattr(spec, name), "leave one of them out")
        return None


def is_set(spec: Spec, key: str) -> bool:
    """Return whether a key of *spec* has a value other than its default."""
    default = type(spec).model_fields[key].get_default(call_default_factory=True)
    return bool(getattr(spec, key) != default)


def check_one_of(spec: Spec, *keys: str) -> None:
    """Raise an error unless exactly one of *keys* is given: all others are ``None``.

    Raises:
        PydanticCustomError: none is given, or several are.
    """
    given = [key for key in keys if getattr(spec, key) is not None]
    if len(given) == 1:
        return
    names = f"{', '.join(keys[:-1])} and {keys[-1]}"
    problem = f"{' and '.join(given)} are given together" if given else f"none of {names} is given"
    raise invalid(problem, f"give exactly one of {names}", "wrong")


def no_effect(
    spec: Spec, keys: Iterable[str], reason: str, remedy: str = "leave it out", prefix: str = ""
) -> Iterator[Fault]:
    """Yield an error for each of *keys* that is set, although it has no effect in this scenario for this *reason*.

    Conditions on other keys of the same model are stated by `OnlyWith` and `NotWith`.
    """
    for key in keys:
        if is_set(spec, key):
            value = getattr(spec, key)
            shown = None if isinstance(value, Spec | Mapping | tuple) else value
            yield Fault(prefix + key, f"has no effect {reason}", shown, remedy)


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """Annotation of a field that holds one model of the family of its type.

    >>> from netfl.registry import FamilyMember
    >>> FamilyMember()
    FamilyMember()
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:

        def pick(value: object, info: ValidationInfo) -> Spec:
            if isinstance(value, Spec) and isinstance(value, source):
                _check_members(value)
                return value
            fields: Any = {"kind": value} if isinstance(value, str) else _long_form(source, value)
            if not isinstance(fields, Mapping) or "kind" not in fields:
                fields = source.from_object(value)
            kind = fields.get("kind") if isinstance(fields, Mapping) else None
            if not isinstance(kind, str):
                problem = f"a model of {_last_part(family_of(source))} is needed: its kind, or a mapping with 'kind'"
                remedy = f"kinds: {', '.join(list_kinds(source))}"
                names = [*map(str, value)] if isinstance(value, Mapping) else []
                written = [name for name in names if name.startswith(("kind ", "kind:"))]
                raise invalid(problem, _for_key(written[0], None, ["kind"]) if written else remedy)
            try:
                model = find_model(source, kind)
            except PydanticCustomError as error:
                if isinstance(value, str):
                    raise
                detail = InitErrorDetails(type=error, loc=("kind",), input=kind)
                raise ValidationError.from_exception_data(source.__name__, [detail]) from error
            keys = {key: entry for key, entry in fields.items() if key != "kind"}
            spec = model.model_validate(keys, context=info.context)
            if ":" in kind:
                _check_defaults(spec)
                _check_members(spec)
            return spec

        def dump(value: Spec) -> dict[str, Any]:
            return {"kind": kind_of(type(value)), **value.model_dump(mode="json")}

        return core_schema.with_info_plain_validator_function(
            pick,
            metadata={"family": family_of(source)},
            serialization=core_schema.plain_serializer_function_ser_schema(dump),
        )


def _long_form(base: type[Spec], value: object) -> object:
    """Return a mapping in the form ``{KIND: VALUE}`` with all its keys, and anything else as it is."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    ((kind, setting),) = value.items()
    if kind not in list_kinds(base):
        return value
    short_key = find_model(base, kind).short_key
    return {"kind": kind, short_key: setting} if short_key else value


def _check_defaults(spec: Spec) -> None:
    """Raise a ValidationError if a default, which has no unit to read, is not of its field's type."""
    try:
        type(spec).model_validate({name: getattr(spec, name) for name in type(spec).model_fields})
    except ValidationError as error:
        if any(entry["loc"] and entry["loc"][0] not in spec.model_fields_set for entry in error.errors()):
            raise


def _check_members(spec: Spec) -> None:
    """Try what a model from outside netfl overrides and gives without arguments: properties, and such as `Spec.laws`.

    Raises:
        PydanticCustomError: one of them fails.
    """
    if not is_plugin(spec):
        return
    kind = kind_of(type(spec))
    for name in sorted(name for name in _contract([type(spec)]) if not name.startswith("_")):
        owners = [each for each in type(spec).__mro__ if name in vars(each)]
        if owners[0].__module__.startswith("netfl."):
            continue
        member = vars(owners[0])[name]
        declared = vars(next(each for each in reversed(owners) if each.__module__.startswith("netfl.")))[name]
        if isinstance(declared, property) and inspect.isfunction(member):
            raise invalid(f"'{kind}': its property '{name}' is a method", "write @property in the line above it")
        if isinstance(member, property | cached_property):
            what, read = "property", partial(getattr, spec, name)
        elif inspect.isfunction(declared) and len(inspect.signature(declared).parameters) == 1:
            what, read = "method", getattr(spec, name)
        else:
            continue
        _, failure = try_call(spec, read)
        if failure:
            raise invalid(f"'{kind}': its {what} '{name}' fails: {failure}", "correct it")


def family_of(base: type[Spec]) -> str:
    """Return the family whose contract is *base*, such as ``network/channel``."""
    return base.__module__.removeprefix("netfl.").replace(".", "/")


def base_of(family: str) -> type[Spec]:
    """Return the contract of *family*: the one `Spec` that its package defines.

    >>> base_of("network/channel").__name__
    'Channel'
    """
    return _only_spec(importlib.import_module("netfl." + family.replace("/", ".")), Spec)


def kind_of(model: type[Overridable]) -> str:
    """Return the ``kind`` of *model* in a scenario."""
    if model.__module__.startswith("netfl."):
        return model.__module__.rpartition(".")[2]
    return f"{model.__module__}:{model.__qualname__}"


def is_plugin(model: Spec) -> bool:
    """Return whether *model* is from outside netfl."""
    return ":" in kind_of(type(model))


def stream_keys(models: Iterable[Spec]) -> list[tuple[int, str]]:
    """Return keys of random streams for a list of models: each model's number among those of its kind, and its kind.

    A model keeps its key when models of other kinds are added, removed or moved.
    """
    kinds = Counter[str]()
    keys = []
    for kind in (kind_of(type(model)) for model in models):
        keys.append((kinds[kind], kind))
        kinds[kind] += 1
    return keys


def exported_models(package: str) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for the *package* of a family, which imports the class of each model at its first use.

    >>> from netfl.network.channel import Rayleigh
    >>> Rayleigh(coherence=10.0).coherence
    10.0
    """

    def import_model(name: str) -> Any:
        for kind in kinds_in(package.removeprefix("netfl.").replace(".", "/")):
            if name.lower().startswith(kind.replace("_", "")):
                module = importlib.import_module(f"{package}.{kind}")
                if hasattr(module, name):
                    return getattr(module, name)
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    return import_model


def list_kinds(base: type[Spec]) -> list[str]:
    """Return the kinds of a family that netfl has, in alphabetical order."""
    return [*kinds_in(family_of(base))]


@cache
def kinds_in(family: str) -> tuple[str, ...]:
    """Return the kinds of *family* that netfl has, in alphabetical order: the names of its files, not imported.

    >>> kinds_in("network/routing")
    ('shortest_path', 'static')
    """
    modules = pkgutil.iter_modules([str(Path(__file__).parent / family)])
    return tuple(sorted(name for _, name, is_package in modules if not (is_package or name.startswith("_"))))


def find_model(base: type[Spec], kind: str) -> type[Spec]:
    """Return the model of *base*'s family that *kind* names.

    Raises:
        PydanticCustomError: there is none; the remedy names the nearest kind.
    """
    if ":" in kind:
        try:
            model = import_plugin(kind)
        except PluginError as error:
            raise invalid(f"'{kind}' {error.problem}", error.remedy, "kind") from error
        if inspect.isclass(model) and issubclass(model, base) and not inspect.isabstract(model):
            return model
        if inspect.isclass(model) and issubclass(model, base):
            missing = ", ".join(sorted(model.__abstractmethods__))
            raise invalid(f"'{kind}' is not complete: {missing} missing", "define it in the class", "kind")
        raise invalid(
            f"'{kind}' is no subclass of {base.__name__}", f"derive it from {base.__module__}.{base.__name__}", "kind"
        )
    known = list_kinds(base)
    if kind not in known:
        remedy = _name_remedy(kind, known)
        if not find_meant(kind, known) and (place := _place_of_kind(kind)):
            remedy = place
        elif remedy.startswith("known"):
            remedy += ", or package.module:Class of your own"
        raise invalid(f"no such {_last_part(family_of(base))}: '{kind}'", remedy, "kind")
    return _only_spec(importlib.import_module(f"{base.__module__}.{kind}"), base)


def _place_of_kind(kind: str) -> str:
    """Return the family that has *kind* or its synonym, as a remedy; empty if none has."""
    for word in meanings(kind):
        for family in FAMILIES:
            if word in kinds_in(family):
                return f"'{word}' is a model of {_last_part(family)}; write it there"
    return ""


def _last_part(family: str) -> str:
    """Return the name of a family as users write it, such as ``channel``."""
    return family.rpartition("/")[2]


def example(model: type[Spec]) -> str:
    """Return the YAML example of a model: the indented block after ``Example::`` in its docstring."""
    block = re.search(r"Example::\n((?:\n| .*\n?)+)", inspect.cleandoc(model.__doc__ or ""))
    return textwrap.dedent(block[1]).strip() if block else ""


def _only_spec(module: Any, base: type[Spec]) -> type[Spec]:
    """Return the one public model of *base*'s family that *module* defines."""
    models = [
        model
        for name, model in inspect.getmembers(module, inspect.isclass)
        if issubclass(model, base) and model is not base and model.__module__ == module.__name__
        if not name.startswith("_") and (base is Spec or not inspect.isabstract(model))
    ]
    if len(models) != 1:
        raise TypeError(f"{module.__name__} must define exactly one public {base.__name__}, it defines {len(models)}")
    return models[0]


def find_plugins(part: object) -> Iterator[tuple[str, Spec]]:
    """Yield the models from outside netfl at and below *part*, each with its dotted key."""
    if isinstance(part, Spec):
        if is_plugin(part):
            yield "", part
        part = {name: getattr(part, name) for name in type(part).model_fields}
    for name, entry in (
        part.items() if isinstance(part, Mapping) else enumerate(part if isinstance(part, tuple) else ())
    ):
        yield from ((f"{name}.{key}" if key else str(name), model) for key, model in find_plugins(entry))


CLOSED = "NETFL_NO_PLUGINS"
"""Environment variable that, set to any value, disables models from outside netfl."""


@contextmanager
def plugins_disabled() -> Iterator[None]:
    """Refuse models from outside netfl inside this context, also in processes that it starts.

    >>> with plugins_disabled():
    ...     import_plugin("some.package:Class")
    Traceback (most recent call last):
    netfl.registry.PluginError: is not imported: only netfl's own code is allowed
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


SESSION = "netfl_session"
"""Name of a module that only `sys.modules` has: the objects of this process that no module has under their names."""


def name_object(value: Any) -> str:
    """Return a name by which `import_plugin` finds a function; one of a notebook or a lambda only in this process.

    >>> import_plugin(name_object(lambda x: 2 * x))(3)
    6
    """
    package, name = value.__module__, value.__qualname__
    if getattr(sys.modules.get(package), name, None) is value:
        return f"{package}:{name}"
    name = f"{value.__name__.strip('<>')}_{id(value):x}"  # unique, as the module keeps the object
    setattr(sys.modules.setdefault(SESSION, ModuleType(SESSION)), name, value)
    return f"{SESSION}:{name}"


def import_plugin(name: str) -> Any:
    """Import the object that ``package.module:Class`` names; the current folder is searched last.

    Raises:
        PluginError: the module is missing or broken, it has no such name, or plug-ins are disabled.
    """
    package, _, called = name.partition(":")
    if os.environ.get(CLOSED):
        switch = f"leave out {argument('no_plugins')}, or " if is_command_line() else ""
        remedy = f"read its code; if you trust it, {switch}unset {CLOSED}"
        raise PluginError("is not imported: only netfl's own code is allowed", remedy)
    if not (package and called):
        raise PluginError(
            "cannot be imported: it is not of the form package.module:Class", "give the module and the class"
        )
    if "" not in sys.path:
        sys.path.append("")
    if package in {"__main__", SESSION} and not hasattr(sys.modules.get(package), called):
        problem = "cannot be imported: only the notebook or script that made the scenario has it"
        raise PluginError(problem, "define it in a file, and import it from there")
    try:
        module = importlib.import_module(package)
    except Exception as error:  # whatever the user's module does when it is imported
        if isinstance(error, ModuleNotFoundError) and f"{package}.".startswith(f"{error.name}."):
            remedy = "run in its folder, install its package, or add its folder to PYTHONPATH"
            raise PluginError(f"cannot be imported: there is no module '{error.name}'", remedy) from error
        problem = f"cannot be imported: '{package}' exists, but fails: {one_line(error)}{_place(error)}"
        remedy = "fix it"
        if isinstance(error, PydanticUserError) and error.code == "model-field-missing-annotation":
            attribute = re.findall("`(.*?)`", str(error))[0]
            key, _, value = attribute.partition(" = ")
            problem = f"cannot be imported: in '{package}' the attribute '{attribute}' has no type{_place(error)}"
            remedy = f"write {key}: ClassVar = {value}, or a type in place of ClassVar for a key of the scenario"
        raise PluginError(problem, remedy) from error
    if not hasattr(module, called):
        classes = [key for key, item in vars(module).items() if inspect.isclass(item) and item.__module__ == package]
        problem = f"cannot be imported: '{package}' exists, but has no '{called}'"
        raise PluginError(problem, suggest(called, classes))
    return getattr(module, called)


def one_line(error: Exception) -> str:
    """Return an error as one line; a `PluginCallError` stands for its cause."""
    if isinstance(error, PluginCallError):
        return error.cause
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def one_line_of(error: Exception, model: object) -> str:
    """Return an error as one line, with the last line of the module of *model* that was running."""
    if isinstance(error, PluginCallError):
        return error.cause
    return _line_in(error, type(model))


def _line_in(error: Exception, part: type | Callable[..., object]) -> str:
    """Return an error as one line, with the last line of the module of a class or function that was running."""
    file = getattr(sys.modules.get(part.__module__), "__file__", None)  # a notebook has none
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return one_line(error) + (f" ({Path(file).name}, line {lines[-1]})" if file and lines else "")


def try_call(model: Spec, call: Callable[[], _Result]) -> tuple[_Result | None, str]:
    """Call a method of a model from outside netfl, which may raise anything.

    Returns:
        The result, and an empty text; or ``None``, and the error as one line.
    """
    try:
        return call(), ""
    except Exception as error:
        return None, one_line_of(error, model)


def _place(error: Exception) -> str:
    _, _, *frames = traceback.extract_tb(error.__traceback__)
    called = ("<frozen", str(Path(pydantic.__file__).parent), __file__)  # packages that the module calls
    plugin_frames = [frame for frame in frames if not frame.filename.startswith(called)]
    return f" ({Path(plugin_frames[-1].filename).name}, line {plugin_frames[-1].lineno})" if plugin_frames else ""


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
    "tuple_type": ("not a list", ""),
    "list_type": ("not a list", ""),
    "string_type": ("not a string", "put it in quotes"),
    "path_type": ("not a path", "write the name of a file or of a folder"),
    "string_pattern_mismatch": ("not usable as a name", "begin it with a letter, and use no '/'"),
}
"""Problem and remedy for pydantic's kinds of errors."""
_MAX_UNKNOWN_KEYS = 20
"""Unknown keys of a section that are reported one by one."""
_REMEDIES = {
    "greater_than": "write more than {limit}",
    "greater_than_equal": "write {limit} or more",
    "less_than": "write less than {limit}",
    "less_than_equal": "write {limit} or less",
    "too_short": "give {min_length} or more",
    "too_long": "give {max_length} or fewer",
    "string_too_long": "write at most {max_length} characters",
    "string_too_short": "write at least {min_length} characters",
}
"""Remedy for pydantic's kinds of errors about a limit, by pydantic's names of the limits."""


_NUMBER_START = re.compile(r"\s*[+-]?\.?\d")


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


class ByForm:
    """Annotation of a field of a union type: the form of a value chooses its part, so that one mistake is one error.

    A text is a word of the ``Literal``, a mapping the ``Mapping`` or a model with its keys, a list the tuple, true and
    false the ``bool``, anything else the number; so is a text that begins as a number does, such as ``10%``.

    Example::

        batch_size: Annotated[Annotated[int, Field(ge=1)] | Literal["full"], ByForm()]
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        models = [part for part in get_args(source) if _form_of(part) == "model"]
        parts: dict[str, TypeAdapter[Any]] = {
            _form_of(part): TypeAdapter(cast(Any, Annotated[part, StrictScalars()])) for part in get_args(source)
        }

        def choose(value: object, check: core_schema.ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
            if isinstance(value, BaseModel):
                return check(value)
            if isinstance(value, Mapping) and models:
                fitting = [model for model in models if value.keys() & model.model_fields.keys()]
                if len(models) > 1 and value and not fitting:
                    known = [name for model in models for name in model.model_fields]
                    faults = [
                        Fault(str(key), "unknown key", None, _for_key(str(key), entry, known))
                        for key, entry in value.items()
                    ]
                    raise ValidationError.from_exception_data("", [to_line_error(fault) for fault in faults])
                return (fitting or models)[0].model_validate(value, context=info.context)
            form = "number"
            if isinstance(value, Mapping):
                form = "mapping"
            elif isinstance(value, list | tuple):
                form = "list"
            elif isinstance(value, str):
                is_meant_as_number = "number" in parts and _NUMBER_START.match(value) is not None
                form = "number" if is_meant_as_number else "text"
            elif isinstance(value, bool):
                form = "boolean"
            part = next(parts[key] for key in (form, "number", "list", "model") if key in parts)
            return part.validate_python(value, context=info.context)

        return core_schema.with_info_wrap_validator_function(choose, handler(source))


def _form_of(part: Any) -> str:
    """Return the form of the values of a part of a union."""
    bare = get_args(part)[0] if get_origin(part) is Annotated else part
    if inspect.isclass(bare) and issubclass(bare, BaseModel):
        return "model"
    if bare is bool:
        return "boolean"
    return {tuple: "list", Literal: "text", Mapping: "mapping"}.get(get_origin(bare), "number")


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
    for entry in error.errors(include_url=False):
        key = ".".join(str(part) for part in entry["loc"] if part != "[key]")
        adds_nothing = entry["type"] in {"missing", "unknown_key", "misspelt_key", "kind"}  # or part of the message
        value = None if adds_nothing or isinstance(entry["input"], Mapping | BaseModel) else entry["input"]
        remedy = str(entry.get("ctx", {}).get("remedy", ""))
        if entry["type"] == "unknown_key":
            remedy = place_remedy(key, entry["input"]) or remedy
        faults.append(Fault(key, entry["msg"].removeprefix("Value error, "), value, remedy))
    return faults


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


def _limit_unknown_keys(errors: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the *errors* that are explained, and those of further unknown keys, whose search takes long."""
    shown = []
    more = []
    unknown = 0
    for error in errors:
        if error["type"] == "extra_forbidden":
            unknown += 1
        if error["type"] == "extra_forbidden" and unknown > _MAX_UNKNOWN_KEYS:
            more.append(error)
        else:
            shown.append(error)
    return shown, more


def _more_unknown_keys(errors: Sequence[Any]) -> InitErrorDetails:
    """Return the error that stands for the *errors* of further unknown keys."""
    problem = f"unknown key, and {len(errors) - 1:,} more"
    return InitErrorDetails(
        type=invalid(problem, "fix the unknown keys above first", "more_unknown_keys"),
        loc=errors[0]["loc"],
        input=None,
    )


def _detail(model: type[Spec], error: Any) -> InitErrorDetails:
    kind, loc, ctx = error["type"], error["loc"], error.get("ctx", {})
    if "remedy" in ctx:  # a model inside this one has explained it
        return InitErrorDetails(type=invalid(error["msg"], ctx["remedy"], kind), loc=loc, input=error["input"])
    if kind == "float_type" and isinstance(error["input"], int):
        kind = "finite_number"  # a float cannot hold it
    message, remedy = _WORDS.get(kind, (re.sub("^(Input|String|Tuple|List) should", "should", error["msg"]), ""))
    if error["input"] is None and kind in _WORDS and kind != "missing":
        message = "has no value"
        remedy = _empty_remedy(model, loc, remedy)
    if kind in _REMEDIES:
        remedy = _REMEDIES[kind].format(limit=message.rpartition(" ")[2], **ctx)
    if message == "not a list":
        remedy = _remedy_for_list(model, loc, error["input"])
    elif kind == "extra_forbidden":
        message = "unknown key"
        kind, remedy = _for_unknown_key(model, str(loc[-1]), error["input"])
    elif kind == "missing":
        remedy = _missing_remedy(model, loc)
    elif kind == "literal_error":
        known = [word or number for word, number in re.findall(r"'(.*?)'|(-?\d+)", ctx["expected"])]
        kind, message, remedy = "word", "unknown value", _word_remedy(str(error["input"]), known)
    elif kind == "too_short":
        kind, message = "few", "has too few entries"
    elif kind == "too_long":
        kind, message = "many", "has too many entries"
    elif kind == "value_error":
        kind, (message, _, remedy) = "wrong", str(ctx["error"]).partition("; ")
    return InitErrorDetails(type=invalid(message, remedy, kind), loc=loc, input=error["input"])


def _empty_remedy(model: type[Spec], loc: Sequence[int | str], remedy: str) -> str:
    """Return the remedy for a key without a value: the usual *remedy*, and how to do without the key."""
    field = model.model_fields.get(str(loc[0])) if len(loc) == 1 else None
    if field is None or field.is_required():
        return remedy
    default = field.get_default(call_default_factory=True)
    if isinstance(default, Mapping) and not default:
        return f"{remedy}, or {{}} for none"
    return f"{remedy or 'write a list'}, or leave it out"


def _missing_remedy(model: type[Spec], loc: Sequence[int | str]) -> str:
    """Return what a missing key may be, as the remedy: one of its words, or that of the example of *model*."""
    field = model.model_fields.get(str(loc[0]))
    if field is not None and len(loc) == 1:
        is_member = any(isinstance(mark, FamilyMember) for mark in field.metadata)
        if is_member or get_origin(field.annotation) is Literal:
            return f"give one of {', '.join(value_words(field.annotation, field.metadata))}"
    remedy = "give it a value"
    if line := re.search(rf"^{loc[0]}: .+", example(model), re.MULTILINE):
        remedy += f", such as {line[0]}"
    return remedy


def _word_remedy(word: str, known: Sequence[str]) -> str:
    """Return the remedy for a *word* that is none of *known*: what it may mean, and all of them.

    >>> print(_word_remedy("user", ["users", "rounds"]))
    did you mean 'users'? (known: users, rounds)
    """
    remedy = suggest(word, known)
    if remedy.startswith("known: "):
        return remedy
    return f"{remedy} (known: {', '.join(known)})"


def _name_remedy(name: str, known: Sequence[str]) -> str:
    """Return the remedy for a *name* that is none of *known*: the one that is meant, or a guess and all of them.

    >>> print(_name_remedy("user", ["users", "rounds"]))
    did you mean 'users'?
    >>> print(_name_remedy("cycle", ["cyclic", "markov"]))
    did you mean 'cyclic'? (known: cyclic, markov)
    """
    if find_meant(name, known):
        return suggest(name, known)
    return _word_remedy(name, known)


def value_words(annotation: Any, metadata: Sequence[Any] = ()) -> Sequence[str]:
    """Return the words that a field of a type takes: the kinds of a family, or those of a ``Literal``."""
    if any(isinstance(mark, FamilyMember) for mark in metadata):
        return list_kinds(annotation)
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return value_words(parts[0], parts[1:])
    if origin is Literal:
        return [part for part in parts if isinstance(part, str)]
    if origin in {Union, UnionType, tuple}:
        return [word for part in parts for word in value_words(part)]
    return []


def keys_described_by(model: type[Spec], key: str) -> list[str]:
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


def key_meaning(model: type[Spec], key: str) -> str:
    """Return the first clause of the description of a key."""
    text = " ".join(key_descriptions(model).get(key, "").split())
    return re.split(r"[.;] ", f"{text} ")[0].replace("``", "")


def _singular(word: str) -> str:
    return word.lower().removesuffix("s")


def _is_after_comma(key: str, value: object) -> bool:
    """Return whether an unknown *key* is the end of a number: in ``{lr: 0,1}`` there is a key 1 without a value."""
    return key.isdecimal() and value is None


def _for_unknown_key(model: type[Spec], key: str, value: object) -> tuple[str, str]:
    """Return the kind of the error of an unknown *key* of *model*, and its remedy."""
    known = [*model.model_fields]
    kind = "unknown_key"
    if get_close_matches(key, known, cutoff=0.8) or _is_after_comma(key, value):
        kind = "misspelt_key"
    return kind, _for_key(key, value, known)


def _for_key(key: str, value: object, known: Sequence[str]) -> str:
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
    return _name_remedy(key, known)


def _follows(model: type[Spec], error: Any, errors: Sequence[Any]) -> bool:
    """Return whether an error follows from another one, which tells the user enough.

    A list is too short because of wrong entries; a key is missing because another name of it is given; keys are missing
    and unknown because a word states another form of the model, such as that of a distribution.
    """
    loc = error["loc"]
    kinds = {other["type"] for other in errors if len(other["loc"]) == 1}
    if error["type"] in {"missing", "extra_forbidden"} and {"literal_error", "missing", "extra_forbidden"} <= kinds:
        return True
    if error["type"] == "too_short":
        return any(other["loc"][: len(loc)] == loc != other["loc"] for other in errors)
    if error["type"] == "missing" and len(loc) == 1:
        unknown = [str(other["loc"][0]) for other in errors if other["type"] == "extra_forbidden"]
        return any(
            find_meant(key, [*model.model_fields]) == loc[0] or keys_described_by(model, key) == [loc[0]]
            for key in unknown
        )
    return False
