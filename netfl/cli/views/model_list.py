"""Terminal view of the families, their models with keys and properties, and the data sets."""

from __future__ import annotations

import inspect
import textwrap
import types
from collections.abc import Iterable, Iterator
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
            problem = "the keys of a scenario are always listed together"
            raise ScenarioError([Fault("", problem, name, "write: netfl list scenario")])
        from netfl.scenario.scenario import Scenario  # no other list needs all contracts

        _show_keys(console, Scenario)
        return
    if family is None:
        _show_families(console)
        return
    if not is_family(family):
        if find_meant(family, ["scenario"]):
            raise ScenarioError([Fault("", "no such family", family, "did you mean 'scenario'?")])
        if name is None:  # the word may be the kind of a model
            family, name = _find_kind(family)
    path = family_named(family)
    if name is None:
        _show_models(console, path)
        return
    try:
        model = find_model(base_of(path), name)
    except PydanticCustomError as error:
        remedy = str((error.context or {}).get("remedy", ""))
        raise ScenarioError([Fault("", error.message(), remedy=remedy)]) from None
    _show_model(console, model, name)


def _find_kind(word: str) -> tuple[str, str | None]:
    """Return family and kind of the model that *word* names; *word* and ``None`` if no model has this name.

    Raises:
        ScenarioError: several families have such a model.
    """
    homes = families_with(word)
    if not homes:
        return word, None
    if len(homes) > 1:
        remedy = " or ".join(f"netfl list {home.rpartition('/')[2]} {word}" for home in homes)
        raise ScenarioError([Fault("", "several families have this model", word, f"write {remedy}")])
    return homes[0], word


def _show_families(console: Console) -> None:
    table = _table("family", "what it is", "models")
    for family in FAMILIES:
        module = inspect.getmodule(base_of(family))
        table.add_row(family, summary_of(module), ", ".join(kinds_in(family)))
    console.print(table)
    console.print("\none model: netfl list FAMILY NAME, where NAME is a kind or package.module:Class")
    console.print("the keys around models: netfl list scenario")


def _show_models(console: Console, family: str) -> None:
    console.print(family, style="bold")
    table = _table("kind", "what it is")
    for kind in kinds_in(family):
        table.add_row(kind, summary_of(find_model(base_of(family), kind)))
    console.print(table)


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
    for family in FAMILIES:
        if word in {family, family.rpartition("/")[2]}:
            return family
    raise ScenarioError([Fault("", "no such family", word, _family_remedy(word))])


def _family_remedy(word: str) -> str:
    """Suggest the family, or else the model, whose name is the most similar to *word*."""
    remedy = suggest(word, [family.rpartition("/")[2] for family in FAMILIES])
    if not remedy.startswith("known"):
        return remedy
    families: dict[str, str] = {}
    for family in FAMILIES:  # the first family of a kind is the likeliest: mac before theory
        for kind in kinds_in(family):
            families.setdefault(kind, family)
    meant = find_meant(word, list(families))
    if meant:
        return f"did you mean the model '{meant}' of {families[meant].rpartition('/')[2]}?"
    return remedy


def is_family(word: str) -> bool:
    """Return whether *word* is the path of a family, or its last part."""
    return any(word in {family, family.rpartition("/")[2]} for family in FAMILIES)


def families_with(kind: str) -> list[str]:
    """Return the families that have a model of this *kind*."""
    return [family for family in FAMILIES if kind in kinds_in(family)]


def summary_of(item: Any) -> str:
    """Return the first line of a docstring; of a module, the part after its colon."""
    first = (inspect.getdoc(item) or "").partition("\n")[0]
    if inspect.ismodule(item):
        return first.partition(": ")[2] or first
    return first


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
        elif block.startswith(" "):
            blocks.append(block)
        else:
            blocks.append(_fill(" ".join(block.split()), width))
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
        bounds = [bound for entry in field.metadata if (bound := _bound(entry))]
        kind = ", ".join([_unit(field.metadata) or _word(field.annotation), *bounds])
        yield prefix + name, kind, _default(field), description
        inner_prefix = f"{prefix}{name}."
        if get_origin(field.annotation) is dict:  # each of its keys is a name that the user chooses
            inner_prefix += "NAME."
        for part in _mappings(field.annotation):
            yield from keys_of(part, inner_prefix)


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

    text = example(model)
    fields: Any = {}
    if text:
        fields = parse(text, f"the example of {kind}")
    if isinstance(fields, dict):  # otherwise the model refuses it below
        fields = {key: value for key, value in fields.items() if key != "kind"}
    try:
        given = model.model_validate(fields, context=WRITTEN)
    except ValidationError as error:
        where = f"{kind} without an Example:: in its docstring"
        if text:
            where = f"the example of {kind}"
        remedy = "correct the example, or the fields of the class"
        faults = [
            Fault(".".join(map(str, item["loc"])), item["msg"], remedy=remedy, where=where) for item in error.errors()
        ]
        raise ScenarioError(faults) from None
    laws = given.laws()
    if laws:  # an unfinished model may state nothing yet
        problem = law_problem(given)
        if problem:
            raise ScenarioError([Fault("", f"{kind} {problem}", remedy="correct its laws()")])
    return laws


def _unit(metadata: Iterable[object]) -> str:
    """Return the unit of a quantity, or an empty text."""
    for entry in metadata:
        symbol = getattr(entry, "symbol", None)
        if symbol is not None:
            return str(symbol)
    return ""


def _word(annotation: Any) -> str:
    """Return the type of a key in words."""
    origin = get_origin(annotation)
    args = get_args(annotation)
    if origin is Annotated:
        return _unit(args[1:]) or _word(args[0])
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
    """Return the limits of a number, such as ``> 0, <= 1``, or an empty text."""
    limits = []
    for name, sign in (("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<=")):
        if hasattr(entry, name):
            limits.append(f"{sign} {_value(getattr(entry, name))}")
    return ", ".join(limits)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Spec):
        if family_of(type(value).__mro__[1]) in FAMILIES:
            return kind_of(type(value))
        return "defaults of its keys"
    if isinstance(value, tuple) and value:
        if all(isinstance(part, str) for part in value):
            return ", ".join(value)
        return f"{len(value)} entries"
    return _value(value)


def _value(value: object) -> str:
    """Return a value as in YAML, or ``empty``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if value in ((), "", {}):
        return "empty"
    return str(value)
