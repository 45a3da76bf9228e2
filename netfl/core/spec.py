"""Specs: the sections and models of a scenario, their fields, and the rules by which values of fields are read.

`Spec` is the base of all of them.  Annotations of a field state its rules: `OnlyWith` and `NotWith` when a key has an
effect, and `ByForm` how a value of several types is read.  `netfl.core.family_members.FamilyMember` marks a field that
holds one model of a family, and `netfl.core.spec_errors` explains what is wrong in a value.
"""

from __future__ import annotations

import importlib
import inspect
import re
from abc import ABC
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import core_schema

from netfl.core.descriptions import key_descriptions
from netfl.core.plugins import Overridable
from netfl.core.spec_errors import explain, faults_of, invalid, key_remedy, to_line_error
from netfl.core.strict_scalars import StrictScalars
from netfl.errors import Fault, ScenarioError

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
    from pydantic.json_schema import JsonSchemaValue

    from netfl.types import Law, ScenarioFacts
else:
    ModelMetaclass = type(BaseModel)

_NUMBER_START = re.compile(r"\s*[+-]?\.?\d")


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
            first_keys = ", ".join(f"{name}=…" for name in islice(names, 2))
            remedy = f"write {self.__name__}({first_keys}); netfl.load reads files and mappings"
            raise ScenarioError([Fault(self.__name__, problem, None, remedy)])
        try:
            return super().__call__(*args, **fields)
        except ValidationError as error:
            raise ScenarioError([fault.under(self.__name__) for fault in faults_of(error)]) from None


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
        """Add a remedy to each error, and check the conditions of keys if there is none."""
        try:
            spec = handler(value)
        except ValidationError as error:
            raise ValidationError.from_exception_data(cls.__name__, explain(cls, error)) from None
        unmet = [*_unmet_conditions(spec)]
        if unmet:
            raise ValidationError.from_exception_data(cls.__name__, [to_line_error(fault) for fault in unmet])
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
        self.key = key
        self.values = values
        self.needed = needed
        self.condition = f"{key}: {' or '.join(map(str, values))}" if values else key

    def applies(self, spec: Spec) -> bool:
        """Return whether the other key of *spec* is set, or has one of the values."""
        if self.values:
            return getattr(spec, self.key) in self.values
        return is_set(spec, self.key)

    def fault(self, spec: Spec, name: str) -> Fault | None:
        """Return the error if *spec* does not meet the condition of its field *name*."""
        applies = self.applies(spec)
        value = getattr(spec, name)
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


def _unmet_conditions(spec: Spec) -> Iterator[Fault]:
    """Yield the errors of keys of *spec* that are set against their `OnlyWith` or `NotWith`."""
    for name, field in type(spec).model_fields.items():
        for mark in field.metadata:
            if isinstance(mark, OnlyWith):
                fault = mark.fault(spec, name)
                if fault is not None:
                    yield fault


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
            if isinstance(value, Spec | Mapping | tuple):
                value = None  # too long for a message
            yield Fault(prefix + key, f"has no effect {reason}", value, remedy)


class ByForm:
    """Annotation of a field of a union type: the form of a value chooses its part, so that one mistake is one error.

    A text is a word of the ``Literal``, a mapping the ``Mapping`` or a model with its keys, a list the tuple, true and
    false the ``bool``, anything else the number; so is a text that begins as a number does, such as ``10%``.

    Example::

        batch_size: Annotated[Annotated[int, Field(ge=1)] | Literal["full"], ByForm()]
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        models = [part for part in get_args(source) if _form_of_part(part) == "model"]
        parts: dict[str, TypeAdapter[Any]] = {
            _form_of_part(part): TypeAdapter(cast(Any, Annotated[part, StrictScalars()])) for part in get_args(source)
        }

        def choose(value: object, check: core_schema.ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
            if isinstance(value, BaseModel):
                return check(value)
            if isinstance(value, Mapping) and models:
                model = _model_with_keys(models, value)
                return model.model_validate(value, context=info.context)
            form = _form_of_value(value, has_number="number" in parts)
            part = next(parts[key] for key in (form, "number", "list", "model") if key in parts)
            return part.validate_python(value, context=info.context)

        return core_schema.with_info_wrap_validator_function(choose, handler(source))


def _form_of_part(part: Any) -> str:
    """Return the form of the values of a part of a union."""
    bare = get_args(part)[0] if get_origin(part) is Annotated else part
    if inspect.isclass(bare) and issubclass(bare, BaseModel):
        return "model"
    if bare is bool:
        return "boolean"
    return {tuple: "list", Literal: "text", Mapping: "mapping"}.get(get_origin(bare), "number")


def _form_of_value(value: object, *, has_number: bool) -> str:
    """Return the form of a value, in whose place there may be a number if *has_number*."""
    if isinstance(value, Mapping):
        return "mapping"
    if isinstance(value, list | tuple):
        return "list"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        is_meant_as_number = has_number and _NUMBER_START.match(value) is not None
        return "number" if is_meant_as_number else "text"
    return "number"


def _model_with_keys(models: list[type[BaseModel]], value: Mapping[Any, Any]) -> type[BaseModel]:
    """Return the first of *models* that has a key of *value*, or the first of all.

    Raises:
        ValidationError: there are several models, and none of them has a key of *value*.
    """
    for model in models:
        if value.keys() & model.model_fields.keys():
            return model
    if len(models) > 1 and value:
        known = [name for model in models for name in model.model_fields]
        unknown = []
        for key, written in value.items():
            fault = Fault(str(key), "unknown key", None, key_remedy(str(key), written, known))
            unknown.append(to_line_error(fault))
        raise ValidationError.from_exception_data("", unknown)
    return models[0]
