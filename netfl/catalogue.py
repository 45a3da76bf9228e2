"""What there is: the families, their models, each model's fields and laws; and the data sets."""

from __future__ import annotations

import inspect
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError
from rich.console import Console
from rich.table import Table

from netfl.errors import Fault, ScenarioError, suggest
from netfl.registry import FAMILIES, Spec, base_of, example, find, kinds


def show_catalogue(family: str | None, name: str | None) -> None:
    """All families, one family's models, or one model.

    Raises:
        ScenarioError: there is no such family or model.
    """
    console = Console(markup=False)
    if family is None:
        table = Table("family", "what it is", "models", title="netfl list FAMILY NAME shows one model")
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
        table = Table("key", "type", "default", "meaning", title="keys", title_justify="left")
        for name, field in model.model_fields.items():
            table.add_row(name, _type(field), _default(field), field.description or "")
        console.print(table)
    laws = _laws(model)
    if laws:
        table = Table("quantity", "law", title="laws, as of the example", title_justify="left")
        for law in laws:
            table.add_row(law.quantity, law.statement)
        console.print(table)


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
    return "null" if value is None else str(value)
