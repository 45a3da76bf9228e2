"""Models are files: a family is a package, a model's ``kind`` is the name of its file.

`Spec` is the base of everything that a scenario can say.  `Member` marks a field that holds one model of a
family; which one is read from its ``kind``: a file of the family's package, or ``package.module:Class`` for a
model of the user's own.  Nothing is registered anywhere.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import textwrap
from abc import ABC
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

from netfl.errors import Fault, suggest
from netfl.outside import OutsideError, named
from netfl.wording import details

if TYPE_CHECKING:
    from netfl.types import Facts, Law

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

    def faults(self, facts: Facts) -> Iterator[Fault]:
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
        wrong = details(cls, value, error)
        if made is None or wrong:
            raise ValidationError.from_exception_data(cls.__name__, wrong)
        return made


@dataclass(frozen=True, slots=True)
class Member:
    """Marks a field that holds one model of the family of its type.

    >>> from netfl.registry import Member
    >>> Member()
    Member()
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Validate by the class that ``kind`` names; dump with the kind first."""

        def pick(value: object, info: ValidationInfo) -> Spec:
            if isinstance(value, Spec) and isinstance(value, source):
                return value
            kind, fields = _kind_and_fields(source, value)
            try:
                model = find(source, kind)
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


def kinds(base: type[Spec]) -> list[str]:
    """The kinds that netfl brings of a family, in alphabetical order."""
    return [*_files(base.__module__)]


@cache
def _files(package: str) -> tuple[str, ...]:
    """The models in a package, in alphabetical order; looked up once, as a scenario asks for each that it names."""
    found = pkgutil.iter_modules(importlib.import_module(package).__path__)
    return tuple(sorted(name for _, name, folder in found if not (folder or name.startswith("_"))))


def find(base: type[Spec], kind: str) -> type[Spec]:
    """The model of *base*'s family that *kind* names.

    Raises:
        PydanticCustomError: there is none; the message names the near ones.
    """
    if ":" in kind:
        return _outside(base, kind)
    known = kinds(base)
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
        {"family": family_of(base), "remedy": f"kinds: {', '.join(kinds(base))}"},
    )


def _outside(base: type[Spec], kind: str) -> type[Spec]:
    """The user's own model ``package.module:Class``."""
    try:
        found = named(kind)
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


def outsiders(part: object) -> Iterator[tuple[str, Spec]]:
    """The models of the user's own at and below *part*, each with its dotted key."""
    if isinstance(part, Spec):
        if ":" in kind_of(type(part)):
            yield "", part
        for name in type(part).model_fields:
            below = outsiders(getattr(part, name))
            yield from ((f"{name}.{key}" if key else name, own) for key, own in below)
