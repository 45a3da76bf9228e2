"""What there is: the families, their models, each model's fields and laws; and the data sets."""

from __future__ import annotations

import inspect
import textwrap
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError
from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from netfl.errors import Fault, ScenarioError, suggest
from netfl.registry import FAMILIES, Spec, base_of, example, family_of, find_model, kind_of, list_kinds
from netfl.scenario.scenario import Scenario
from netfl.types import Law
from netfl.units import WRITTEN

_WIDEST = 100
"""Columns that prose is set in at most."""


def show_catalogue(family: str | None, name: str | None) -> None:
    """All families, one family's models, or one model.

    Raises:
        ScenarioError: there is no such family or model.
    """
    console = Console(markup=False)
    if family == "scenario":
        if name is not None:
            problem, remedy = "the keys of a scenario are listed together", "write: netfl list scenario"
            raise ScenarioError([Fault("", problem, name, remedy)])
        _show_keys(console, Scenario)
        return
    if family is None:
        table = _table("family", "what it is", "models")
        for each in FAMILIES:
            base = base_of(each)
            table.add_row(each, summary_of(inspect.getmodule(base)), ", ".join(list_kinds(base)))
        console.print(table)
        console.print("\none model: netfl list FAMILY NAME, NAME being a kind or package.module:Class", highlight=False)
        console.print("the keys around models: netfl list scenario", highlight=False)
        return
    path = family_named(family)
    base = base_of(path)
    if name is None:
        console.print(path, style="bold")
        table = _table("kind", "what it is")
        for kind in list_kinds(base):
            table.add_row(kind, summary_of(find_model(base, kind)))
        console.print(table)
        return
    try:
        model = find_model(base, name)
    except PydanticCustomError as error:
        remedy = str((error.context or {}).get("remedy", ""))
        raise ScenarioError([Fault("", error.message(), remedy=remedy)]) from None
    _show_model(console, model, name)


def show_data() -> None:
    """The data sets that come as files, and whether they are here."""
    from netfl.learning.data import _download

    console = Console(markup=False, highlight=False)
    for name, state, folder, source in _download.list_datasets():
        console.print(f"{name}: {state}", style="bold")
        for told in (f"folder: {folder}", f"to be had from: {source}"):
            console.print(f"    {told}", soft_wrap=True)  # what is broken cannot be copied


def family_named(word: str) -> str:
    """The family that *word* means: its path or the last part of it.

    Raises:
        ScenarioError: there is no such family.
    """
    found = [family for family in FAMILIES if word in {family, family.rpartition("/")[2]}]
    if not found:
        known = [family.rpartition("/")[2] for family in FAMILIES]
        raise ScenarioError([Fault("", "no such family", word, suggest(word, known))])
    return found[0]


def summary_of(thing: Any) -> str:
    """The first line of a docstring, without its name."""
    first = (inspect.getdoc(thing) or "").partition("\n")[0]
    return first.partition(": ")[2] or first if inspect.ismodule(thing) else first


def _show_model(console: Console, model: type[Spec], kind: str) -> None:
    """A model's docstring, fields and laws."""
    laws = laws_of(model, kind)
    console.print(kind, style="bold")
    prose = (inspect.getdoc(model) or "").partition("Example::")[0].strip()
    console.print(_set(prose, min(console.width, _WIDEST)), highlight=False)
    console.print("\nExample", style="bold")
    console.print(_indented(example(model), 2), highlight=False)
    if model.model_fields:
        console.print("\nKeys", style="bold")
        _show_keys(console, model)
    if laws:
        console.print("\nLaws, as of the example", style="bold")
        for law in laws:
            _show_law(console, law)


def _show_keys(console: Console, model: type[Spec]) -> None:
    """The keys of *model*, one below the other: however narrow the screen, none is broken, and each can be copied."""
    width = min(console.width, _WIDEST)
    for key, kind, default, meaning in keys_of(model, ""):
        begins = "required" if default == "required" else f"default {default}"
        told = _fill(f"{key}: {kind}; {begins}", width, "  ", "      ")
        line = Text(told)
        line.stylize("cyan", 2, 2 + len(key))
        console.print(line)
        console.print(_fill(meaning, width, "      ", "      "), highlight=False)


def _show_law(console: Console, law: Law) -> None:
    """What is claimed, in words and then claim by claim."""
    claims = Table.grid(padding=(0, 2))
    if not _nothing(law):
        console.print(_indented(law.quantity, 2), style="cyan", highlight=False)
        statement = _fill(law.statement, min(console.width, _WIDEST) - 4)
        console.print(_indented(statement, 4), highlight=False)
    for row in law.claims():
        claims.add_row(*row)
    console.print(_indented(claims, 2 if _nothing(law) else 4), highlight=False)


def _indented(what: RenderableType, by: int) -> Padding:
    """*what*, moved to the right."""
    return Padding(what, (0, 0, 0, by), expand=False)


def _nothing(law: Law) -> bool:
    """Whether *law* says that there is none, and why."""
    return law.quantity == Law.none("").quantity


def _table(*columns: str) -> Table:
    """A table with a rule below its head and no other lines."""
    return Table(*columns, box=box.SIMPLE_HEAD, show_edge=False, header_style="", pad_edge=True)


def _set(text: str, width: int) -> str:
    """A docstring's paragraphs and lists, each set anew to *width*; what is indented stays as it is."""
    return "\n\n".join(_set_block(block, width) for block in text.replace("``", "").split("\n\n"))


def _set_block(block: str, width: int) -> str:
    """One paragraph, or one list."""
    if block.startswith("- "):
        items = [" ".join(item.split()) for item in block.removeprefix("- ").split("\n- ")]
        return "\n".join(_fill(item, width, "- ", "  ") for item in items)
    return block if block.startswith(" ") else _fill(" ".join(block.split()), width)


def _fill(text: str, width: int, first: str = "", later: str = "") -> str:
    """*text* in lines of *width* at most; formulas and names are never cut."""
    wrapper = textwrap.TextWrapper(width, first, later, break_on_hyphens=False, break_long_words=False)
    return wrapper.fill(text)


def keys_of(model: type[Spec], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    """Name, type, default and meaning of each key, those of the mappings in it included; not of other models."""
    for name, field in model.model_fields.items():
        description = " ".join((field.description or "").replace("``", "").split())
        yield prefix + name, _type(field), _default(field), description
        for part in _mappings(field.annotation):
            yield from keys_of(part, f"{prefix}{name}{'.NAME' if get_origin(field.annotation) is dict else ''}.")


def _mappings(annotation: Any) -> Iterator[type[Spec]]:
    """The mappings of fixed keys that a type allows; families of models are listed by themselves."""
    if inspect.isclass(annotation) and issubclass(annotation, Spec):
        if not inspect.isabstract(annotation) and family_of(annotation) not in FAMILIES:
            yield annotation
        return
    for part in get_args(annotation):
        yield from _mappings(part)


def laws_of(model: type[Spec], kind: str) -> tuple[Law, ...]:
    """What the model of the example claims.

    Raises:
        ScenarioError: the example of a model of the user's own is none.
    """
    from netfl.scenario.yaml_document import parse, plain_value

    said = plain_value(parse(text, f"the example of {kind}")) if (text := example(model)) else {}
    fields = {key: value for key, value in said.items() if key != "kind"} if isinstance(said, dict) else said
    try:
        return model.model_validate(fields, context=WRITTEN).laws()
    except ValidationError as error:
        where = f"the example of {kind}" if text else f"{kind} without an Example:: in its docstring"
        faults = [Fault(".".join(map(str, one["loc"])), one["msg"], where=where) for one in error.errors()]
        raise ScenarioError(faults) from None


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
    told = ((sign, getattr(entry, name)) for name, sign in signs.items() if hasattr(entry, name))
    return ", ".join(f"{sign} {value:g}" if isinstance(value, float) else f"{sign} {value}" for sign, value in told)


def _default(field: FieldInfo) -> str:
    """A field's default."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Spec):
        return kind_of(type(value)) if family_of(type(value).__mro__[1]) in FAMILIES else "as its own keys say"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if value in ((), "", {}):
        return "empty"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) if all(isinstance(one, str) for one in value) else f"{len(value)} of its own"
    return f"{value:g}" if isinstance(value, float) else str(value)
