"""Terminal view of the families, their models with keys and properties, and the data sets."""

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

from netfl.core.descriptions import example, key_descriptions
from netfl.core.family_members import base_of, find_model
from netfl.core.kinds import FAMILIES, family_of, kind_of, kinds_in
from netfl.core.screen import open_console
from netfl.core.spec import Spec
from netfl.errors import Fault, ScenarioError, find_meant, suggest
from netfl.testing.laws import law_problem
from netfl.types import Law
from netfl.units import WRITTEN

_WIDEST = 100
"""The largest width of prose in characters."""


def show_catalogue(family: str | None, name: str | None) -> None:
    """Print all families, one family's models, or one model.

    Raises:
        ScenarioError: there is no such family or model.
    """
    console = open_console()
    if family == "scenario":
        if name is not None:
            problem, remedy = "the keys of a scenario are always listed together", "write: netfl list scenario"
            raise ScenarioError([Fault("", problem, name, remedy)])
        from netfl.scenario.scenario import Scenario  # no other list needs all contracts

        _show_keys(console, Scenario)
        return
    if family is None:
        table = _table("family", "what it is", "models")
        for each in FAMILIES:
            base = base_of(each)
            table.add_row(each, summary_of(inspect.getmodule(base)), ", ".join(kinds_in(each)))
        console.print(table)
        console.print("\none model: netfl list FAMILY NAME, where NAME is a kind or package.module:Class")
        console.print("the keys around models: netfl list scenario")
        return
    if not is_family(family) and find_meant(family, ["scenario"]):
        raise ScenarioError([Fault("", "no such family", family, "did you mean 'scenario'?")])
    if name is None and not is_family(family) and (homes := families_with(family)):
        if len(homes) > 1:
            remedy = " or ".join(f"netfl list {home.rpartition('/')[2]} {family}" for home in homes)
            raise ScenarioError([Fault("", "several families have this model", family, f"write {remedy}")])
        name = family
        family = homes[0]
    path = family_named(family)
    base = base_of(path)
    if name is None:
        console.print(path, style="bold")
        table = _table("kind", "what it is")
        for kind in kinds_in(path):
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
    """Print the data sets that are read from files, and their state."""
    from netfl.learning.data import _download

    console = open_console()
    for name, state, folder, source in _download.list_datasets():
        console.print(f"{name}: {state}", style="bold")
        for line in (f"folder: {folder}", f"source: {source}"):
            console.print(f"    {line}", soft_wrap=True)  # a broken line could not be copied


def family_named(word: str) -> str:
    """Return the family whose path, or its last part, is *word*.

    Raises:
        ScenarioError: there is no such family.
    """
    matches = [family for family in FAMILIES if word in {family, family.rpartition("/")[2]}]
    if not matches:
        known = [family.rpartition("/")[2] for family in FAMILIES]
        remedy = suggest(word, known)
        if remedy.startswith("known"):
            kinds: dict[str, str] = {}
            for family in FAMILIES:  # the first family of a kind is the likeliest: mac before theory
                for kind in kinds_in(family):
                    kinds.setdefault(kind, family)
            if meant := find_meant(word, [*kinds]):
                remedy = f"did you mean the model '{meant}' of {kinds[meant].rpartition('/')[2]}?"
        raise ScenarioError([Fault("", "no such family", word, remedy)])
    return matches[0]


def is_family(word: str) -> bool:
    """Return whether *word* is the path of a family, or its last part."""
    return any(word in {family, family.rpartition("/")[2]} for family in FAMILIES)


def families_with(kind: str) -> list[str]:
    """Return the families that have a model of this *kind*."""
    return [family for family in FAMILIES if kind in kinds_in(family)]


def summary_of(item: Any) -> str:
    """Return the first line of a docstring; of a module, the part after its colon."""
    first = (inspect.getdoc(item) or "").partition("\n")[0]
    return first.partition(": ")[2] or first if inspect.ismodule(item) else first


def _show_model(console: Console, model: type[Spec], kind: str) -> None:
    text = example(model)
    lacks_example = not text and any(field.is_required() for field in model.model_fields.values())
    laws = () if lacks_example else laws_of(model, kind)
    console.print(kind, style="bold")
    prose = (inspect.getdoc(model) or "").partition("Example::")[0].strip()
    console.print(_wrap_docstring(prose, min(console.width, _WIDEST)))
    if text:
        console.print("\nExample", style="bold")
        console.print(_indented(text, 2))
    if model.model_fields:
        console.print("\nKeys", style="bold")
        _show_keys(console, model)
    if laws:
        console.print("\nStated properties, for the example", style="bold")
        for law in laws:
            _show_law(console, law)
    if lacks_example:
        console.print("\nTo list its properties, add an Example:: to its docstring.")


def _show_keys(console: Console, model: type[Spec]) -> None:
    """Print the keys of *model* as a list, in which no key is broken on a narrow terminal."""
    width = min(console.width, _WIDEST)
    for key, kind, default, meaning in keys_of(model, ""):
        requirement = "required" if default == "required" else f"default {default}"
        line = Text(_fill(f"{key}: {kind}; {requirement}", width, "  ", "      "))
        line.stylize("cyan", 2, 2 + len(key))
        console.print(line)
        console.print(_fill(meaning, width, "      ", "      "))


def _show_law(console: Console, law: Law) -> None:
    indent = 2
    if law.quantity != Law.none("").quantity:  # otherwise it only gives the reason why the model has no laws
        indent = 4
        console.print(_indented(law.quantity, 2), style="cyan")
        console.print(_indented(_fill(law.statement, min(console.width, _WIDEST) - 4), 4))
    claims = Table.grid(padding=(0, 2))
    for row in law.claims():
        claims.add_row(*row)
    console.print(_indented(claims, indent))


def _indented(content: RenderableType, by: int) -> Padding:
    return Padding(content, (0, 0, 0, by), expand=False)


def _table(*columns: str) -> Table:
    return Table(*columns, box=box.SIMPLE_HEAD, show_edge=False, header_style="", pad_edge=True)


def _wrap_docstring(text: str, width: int) -> str:
    """Wrap the paragraphs and lists of a docstring to *width*; keep indented blocks."""
    blocks = []
    for block in text.replace("``", "").split("\n\n"):
        if block.startswith("- "):
            items = [" ".join(item.split()) for item in block.removeprefix("- ").split("\n- ")]
            blocks.append("\n".join(_fill(item, width, "- ", "  ") for item in items))
        else:
            blocks.append(block if block.startswith(" ") else _fill(" ".join(block.split()), width))
    return "\n\n".join(blocks)


def _fill(text: str, width: int, first: str = "", later: str = "") -> str:
    """Wrap *text* to *width* without breaking formulas and names."""
    wrapper = textwrap.TextWrapper(width, first, later, break_on_hyphens=False, break_long_words=False)
    return wrapper.fill(text)


def keys_of(model: type[Spec], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, default and meaning of each key, with those of nested mappings but not of other models."""
    descriptions = key_descriptions(model)
    for name, field in model.model_fields.items():
        description = " ".join(descriptions.get(name, "").replace("``", "").split())
        units = [entry.symbol for entry in field.metadata if hasattr(entry, "symbol")]
        bounds = [_bound(entry) for entry in field.metadata if _bound(entry)]
        kind = ", ".join([units[0] if units else _word(field.annotation), *bounds])
        yield prefix + name, kind, _default(field), description
        for part in _mappings(field.annotation):
            yield from keys_of(part, f"{prefix}{name}{'.NAME' if get_origin(field.annotation) is dict else ''}.")


def _mappings(annotation: Any) -> Iterator[type[Spec]]:
    """Yield the mappings of fixed keys that a type allows, without families of models."""
    if inspect.isclass(annotation) and issubclass(annotation, Spec):
        if not inspect.isabstract(annotation) and family_of(annotation) not in FAMILIES:
            yield annotation
        return
    for part in get_args(annotation):
        yield from _mappings(part)


def laws_of(model: type[Spec], kind: str) -> tuple[Law, ...]:
    """Return the stated properties of the model in the docstring's example.

    Raises:
        ScenarioError: the example is invalid.
    """
    from netfl.scenario.yaml_document import parse

    spec = parse(text, f"the example of {kind}") if (text := example(model)) else {}
    fields = {key: value for key, value in spec.items() if key != "kind"} if isinstance(spec, dict) else spec
    try:
        given = model.model_validate(fields, context=WRITTEN)
    except ValidationError as error:
        where = f"the example of {kind}" if text else f"{kind} without an Example:: in its docstring"
        remedy = "correct the example, or the fields of the class"
        faults = [
            Fault(".".join(map(str, item["loc"])), item["msg"], remedy=remedy, where=where) for item in error.errors()
        ]
        raise ScenarioError(faults) from None
    if (laws := given.laws()) and (problem := law_problem(given)):
        raise ScenarioError([Fault("", f"{kind} {problem}", remedy="correct its laws()")])
    return laws


def _word(annotation: Any) -> str:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        units = [entry.symbol for entry in args[1:] if hasattr(entry, "symbol")]
        return units[0] if units else _word(args[0])
    if origin is Literal:
        return " | ".join(map(str, args))
    if origin is tuple:
        return f"list of {_word(args[0])}"
    if origin in {types.UnionType, Union}:
        return " | ".join(_word(arg) for arg in args)
    if annotation is type(None):
        return "null"
    names = {float: "number", int: "whole number", str: "text", bool: "true | false", dict: "mapping"}
    return names.get(origin or annotation, getattr(annotation, "__name__", str(annotation)))


def _bound(entry: object) -> str:
    signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
    limits = ((sign, getattr(entry, name)) for name, sign in signs.items() if hasattr(entry, name))
    return ", ".join(f"{sign} {value:g}" if isinstance(value, float) else f"{sign} {value}" for sign, value in limits)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Spec):
        return kind_of(type(value)) if family_of(type(value).__mro__[1]) in FAMILIES else "defaults of its keys"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if value in ((), "", {}):
        return "empty"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) if all(isinstance(part, str) for part in value) else f"{len(value)} entries"
    return f"{value:g}" if isinstance(value, float) else str(value)
