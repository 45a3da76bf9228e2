"""What there is: the families, their models, each model's fields and laws; and the data sets."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError
from rich.console import Console
from rich.table import Table

from netfl.errors import Fault, ScenarioError, suggest
from netfl.registry import FAMILIES, Spec, base_of, example, family_of, find, kinds
from netfl.scenario import Scenario


def show_catalogue(family: str | None, name: str | None) -> None:
    """All families, one family's models, or one model.

    Raises:
        ScenarioError: there is no such family or model.
    """
    console = Console(markup=False)
    if family == "scenario":
        _show_keys(console, Scenario)
        return
    if family is None:
        table = Table(
            "family",
            "what it is",
            "models",
            title="one model: netfl list FAMILY NAME; the keys around models: netfl list scenario",
        )
        for each in FAMILIES:
            base = base_of(each)
            table.add_row(each, _summary(inspect.getmodule(base)), ", ".join(kinds(base)))
        console.print(table)
        return
    base = base_of(_family(family))
    if name is None:
        table = Table("kind", "what it is", title=_family(family))
        for kind in kinds(base):
            table.add_row(kind, _summary(find(base, kind)))
        console.print(table)
        return
    try:
        model = find(base, name)
    except PydanticCustomError as error:
        remedy = str((error.context or {}).get("remedy", ""))
        raise ScenarioError([Fault("", error.message(), remedy=remedy)]) from None
    _show_model(console, model, name)


def show_data() -> None:
    """The data sets that come as files, and whether they are here."""
    from netfl.learning.data import _cache  # noqa: PLC0415

    table = Table("data set", "state", "folder")
    for row in _cache.listing():
        table.add_row(*map(str, row))
    Console().print(table)


def _family(word: str) -> str:
    """The family that *word* means: its path or the last part of it."""
    found = [family for family in FAMILIES if word in {family, family.rpartition("/")[2]}]
    if not found:
        known = [family.rpartition("/")[2] for family in FAMILIES]
        raise ScenarioError([Fault("", "no such family", word, suggest(word, known))])
    return found[0]


def _summary(thing: Any) -> str:
    """The first line of a docstring, without its name."""
    first = (inspect.getdoc(thing) or "").partition("\n")[0]
    return first.partition(": ")[2] or first if inspect.ismodule(thing) else first


def _show_model(console: Console, model: type[Spec], kind: str) -> None:
    """A model's docstring, fields and laws."""
    text = inspect.getdoc(model) or ""
    console.print(kind, style="bold")
    console.print(text.partition("Example::")[0].strip(), highlight=False)
    console.print("\nExample", style="bold")
    console.print(example(model), highlight=False)
    if model.model_fields:
        _show_keys(console, model)
    laws = _laws(model)
    if laws:
        table = Table("quantity", "law", title="laws, as of the example", title_justify="left")
        for law in laws:
            table.add_row(law.quantity, law.statement)
        console.print(table)


def _show_keys(console: Console, model: type[Spec]) -> None:
    """A table of the keys of *model*."""
    table = Table("key", "type", "default", "meaning", title="keys", title_justify="left")
    for row in _keys(model, ""):
        table.add_row(*row)
    console.print(table)


def _keys(model: type[Spec], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    """Name, type, default and meaning of each key, those of the mappings in it included; not of other models."""
    for name, field in model.model_fields.items():
        description = " ".join((field.description or "").replace("``", "").split())
        yield prefix + name, _type(field), _default(field), description
        for part in _mappings(field.annotation):
            yield from _keys(part, f"{prefix}{name}{'.NAME' if get_origin(field.annotation) is dict else ''}.")


def _mappings(annotation: Any) -> Iterator[type[Spec]]:
    """The mappings of fixed keys that a type allows; families of models are listed by themselves."""
    if inspect.isclass(annotation) and issubclass(annotation, Spec):
        if not inspect.isabstract(annotation) and family_of(annotation) not in FAMILIES:
            yield annotation
        return
    for part in get_args(annotation):
        yield from _mappings(part)


def _laws(model: type[Spec]) -> tuple[Any, ...]:
    """What the model of the example claims."""
    from netfl.document import parse, plain  # noqa: PLC0415

    said = plain(parse(example(model), "example"))
    return model.model_validate({key: value for key, value in said.items() if key != "kind"}).laws()


def _type(field: FieldInfo) -> str:
    """A field's type and bounds, in words."""
    units = [entry.symbol for entry in field.metadata if hasattr(entry, "symbol")]
    bounds = [_bound(entry) for entry in field.metadata if _bound(entry)]
    return ", ".join([units[0] if units else _word(field.annotation), *bounds])


def _word(annotation: Any) -> str:
    """A type in words."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        units = [entry.symbol for entry in args[1:] if hasattr(entry, "symbol")]
        return units[0] if units else _word(args[0])
    if origin is Literal:
        return " | ".join(map(str, args))
    if origin is tuple:
        return f"list of {_word(args[0])}"
    if origin in {types.UnionType, Union}:
        return " | ".join(_word(one) for one in args)
    if annotation is type(None):
        return "null"
    names = {float: "number", int: "whole number", str: "text", bool: "true | false", dict: "mapping"}
    return names.get(origin or annotation, getattr(annotation, "__name__", str(annotation)))


def _bound(entry: object) -> str:
    """A constraint such as ``>= 0``."""
    signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
    return ", ".join(f"{sign} {getattr(entry, name)}" for name, sign in signs.items() if hasattr(entry, name))


def _default(field: FieldInfo) -> str:
    """A field's default."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Spec):
        return type(value).__module__.rpartition(".")[2]
    return "null" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
