"""Members of families: the model that a ``kind`` names, and the fields of a scenario that hold one.

`find_model` returns the class of a kind, from a file of the family's package or from outside netfl.  `FamilyMember`
annotates a field that holds one model of a family; `find_plugins` finds the models from outside netfl in a scenario.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from types import ModuleType
from typing import Any

from pydantic import GetCoreSchemaHandler, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

from netfl.core.kinds import FAMILIES, family_of, is_built_in, kind_of, kinds_in, list_kinds
from netfl.core.plugins import PluginError, declared_names, import_plugin, is_plugin, try_call
from netfl.core.spec import Spec
from netfl.core.spec_errors import invalid, key_remedy, name_remedy
from netfl.core.synonyms import meanings
from netfl.errors import find_meant


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """Annotation of a field that holds one model of the family of its type.

    >>> from netfl.core.family_members import FamilyMember
    >>> FamilyMember()
    FamilyMember()
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:

        def pick(value: object, info: ValidationInfo) -> Spec:
            if isinstance(value, Spec) and isinstance(value, source):
                _check_members(value)
                return value
            fields = _with_kind(source, value)
            kind = fields["kind"]
            try:
                model = find_model(source, kind)
            except PydanticCustomError as error:
                if isinstance(value, str):
                    raise
                detail = InitErrorDetails(type=error, loc=("kind",), input=kind)
                raise ValidationError.from_exception_data(source.__name__, [detail]) from error
            keys = {key: entry for key, entry in fields.items() if key != "kind"}
            spec = model.model_validate(keys, context=info.context)
            if ":" in kind:  # from outside netfl
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


def _with_kind(base: type[Spec], value: object) -> Mapping[str, Any]:
    """Return a value of a field as a mapping with the kind of the model: a kind alone, a mapping, or an object.

    Raises:
        PydanticCustomError: it states no kind.
    """
    fields: object
    if isinstance(value, str):
        fields = {"kind": value}
    else:
        fields = _long_form(base, value)
    if not isinstance(fields, Mapping) or "kind" not in fields:
        fields = base.from_object(value)
    if isinstance(fields, Mapping) and isinstance(fields.get("kind"), str):
        return fields
    problem = f"a model of {_name_of(family_of(base))} is needed: its kind, or a mapping with 'kind'"
    remedy = f"kinds: {', '.join(list_kinds(base))}"
    if isinstance(value, Mapping):
        for name in map(str, value):
            if name.startswith(("kind ", "kind:")):  # a colon or a blank is missing
                remedy = key_remedy(name, None, ["kind"])
                break
    raise invalid(problem, remedy)


def _long_form(base: type[Spec], value: object) -> object:
    """Return a mapping in the form ``{KIND: VALUE}`` with all its keys, and anything else as it is."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    ((kind, setting),) = value.items()
    if kind not in list_kinds(base):
        return value
    short_key = find_model(base, kind).short_key
    if not short_key:
        return value
    return {"kind": kind, short_key: setting}


def base_of(family: str) -> type[Spec]:
    """Return the contract of *family*: the one `Spec` that its package defines.

    >>> base_of("network/channel").__name__
    'Channel'
    """
    return _only_spec(importlib.import_module("netfl." + family.replace("/", ".")), Spec)


def find_model(base: type[Spec], kind: str) -> type[Spec]:
    """Return the model of *base*'s family that *kind* names.

    Raises:
        PydanticCustomError: there is none; the remedy names the nearest kind.
    """
    if ":" in kind:
        return _import_model(base, kind)
    if kind not in list_kinds(base):
        problem = f"no such {_name_of(family_of(base))}: '{kind}'"
        raise invalid(problem, _unknown_kind_remedy(kind, list_kinds(base)), "kind")
    return _only_spec(importlib.import_module(f"{base.__module__}.{kind}"), base)


def _import_model(base: type[Spec], kind: str) -> type[Spec]:
    """Return the model from outside netfl that *kind* names, of *base*'s family."""
    try:
        model = import_plugin(kind)
    except PluginError as error:
        raise invalid(f"'{kind}' {error.problem}", error.remedy, "kind") from error
    if not (inspect.isclass(model) and issubclass(model, base)):
        remedy = f"derive it from {base.__module__}.{base.__name__}"
        raise invalid(f"'{kind}' is no subclass of {base.__name__}", remedy, "kind")
    if inspect.isabstract(model):
        missing = ", ".join(sorted(model.__abstractmethods__))
        raise invalid(f"'{kind}' is not complete: {missing} missing", "define it in the class", "kind")
    return model


def _unknown_kind_remedy(kind: str, known: list[str]) -> str:
    """Return the remedy for a *kind* that is none of *known*: another word for it, or the family that has it."""
    if not find_meant(kind, known):
        family = _family_with(kind)
        if family:
            return family
    remedy = name_remedy(kind, known)
    if remedy.startswith("known"):
        remedy += ", or package.module:Class of your own"
    return remedy


def _family_with(kind: str) -> str:
    """Return the family that has *kind* or its synonym, as a remedy; empty if none has."""
    for word in meanings(kind):
        for family in FAMILIES:
            if word in kinds_in(family):
                return f"'{word}' is a model of {_name_of(family)}; write it there"
    return ""


def _name_of(family: str) -> str:
    """Return the name of a family as users write it, such as ``channel``."""
    return family.rpartition("/")[2]


def _only_spec(module: ModuleType, base: type[Spec]) -> type[Spec]:
    """Return the one public model of *base*'s family that *module* defines; its contract, if *base* is `Spec`."""
    models = []
    for name, model in inspect.getmembers(module, inspect.isclass):
        is_imported = model.__module__ != module.__name__
        if is_imported or name.startswith("_") or not issubclass(model, base) or model is base:
            continue
        if base is Spec or not inspect.isabstract(model):
            models.append(model)
    if len(models) != 1:
        raise TypeError(f"{module.__name__} must define exactly one public {base.__name__}, it defines {len(models)}")
    return models[0]


def find_plugins(part: object) -> Iterator[tuple[str, Spec]]:
    """Yield the models from outside netfl at and below *part*, each with its dotted key."""
    if isinstance(part, Spec) and is_plugin(part):
        yield "", part
    for name, below in _parts_of(part).items():
        for key, model in find_plugins(below):
            yield f"{name}.{key}" if key else str(name), model


def _parts_of(part: object) -> Mapping[Any, object]:
    """Return what a spec, a mapping or a tuple holds, by key or place; anything else holds nothing."""
    if isinstance(part, Spec):
        return {name: getattr(part, name) for name in type(part).model_fields}
    if isinstance(part, Mapping):
        return part
    if isinstance(part, tuple):
        return dict(enumerate(part))
    return {}


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
    for name in sorted(declared_names([type(spec)])):
        owners = [each for each in type(spec).__mro__ if name in vars(each)]  # the last to override it comes first
        if name.startswith("_") or is_built_in(owners[0]):
            continue
        contract = next(each for each in reversed(owners) if is_built_in(each))
        declared = vars(contract)[name]
        member = vars(owners[0])[name]
        if isinstance(declared, property) and inspect.isfunction(member):
            raise invalid(f"'{kind}': its property '{name}' is a method", "write @property in the line above it")
        read: Callable[[], object]
        if isinstance(member, property | cached_property):
            what = "property"
            read = partial(getattr, spec, name)
        elif inspect.isfunction(declared) and len(inspect.signature(declared).parameters) == 1:
            what = "method"
            read = getattr(spec, name)
        else:
            continue  # it needs arguments
        _, failure = try_call(spec, read)
        if failure:
            raise invalid(f"'{kind}': its {what} '{name}' fails: {failure}", "correct it")
