"""Reference page of each family: its purpose, its models with keys and properties, and its contract."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping

from fromcode import words
from netfl.cli.views.model_list import keys_of, laws_of, summary_of
from netfl.core.descriptions import example
from netfl.core.family_members import base_of, find_model
from netfl.core.kinds import FAMILIES, list_kinds
from netfl.core.spec import Spec
from netfl.types import Law

HEAD = ("key", "type", "default", "meaning")
"""Columns of a table of keys."""
_TITLES = {"mac": "MAC", "round": "Round rule", "trains_when": "When users train", "rate_adaptation": "Rate adaptation"}
"""Titles of pages that are not the capitalised name of the family."""
_QUIET = (":members:", ":member-order: bysource", ":exclude-members: model_config")


def pages() -> Mapping[str, str]:
    """Return the page of each family, by its name."""
    return {name_of(family): _page(family) for family in FAMILIES}


def name_of(family: str) -> str:
    """Return the name of the page of a family."""
    return family.replace("/", "-")


def keys(model: type[Spec]) -> str:
    """Return the table of the keys of *model*, including those of nested mappings."""
    rows = (
        (words.literal(name), _linked(kind), *_cells(default, meaning)) for name, kind, default, meaning in _rows(model)
    )
    return words.table(HEAD, rows)


def _rows(model: type[Spec]) -> Iterator[tuple[str, str, str, str]]:
    """Return key, type, default and meaning of each key."""
    return keys_of(model, "")


def _cells(default: str, meaning: str) -> tuple[str, str]:
    """Return the default and the meaning of a key as cells."""
    shown = default if default in {"required", "empty"} or default.endswith(" entries") else words.literal(default)
    return shown, words.line(meaning)


def _linked(kind: str) -> str:
    """Return a type in words, with links to the families in it."""
    contracts = {base_of(family).__name__: name_of(family) for family in FAMILIES}
    pieces = re.split(r"(\w+)", words.line(kind))
    return "".join(f"[{piece}]({contracts[piece]}.md)" if piece in contracts else piece for piece in pieces)


def _page(family: str) -> str:
    """Return the page of a family."""
    base = base_of(family)
    module = inspect.getmodule(base)
    found = {kind: find_model(base, kind) for kind in list_kinds(base)}
    index = [(f"[`{kind}`](#{_slug(kind)})", words.line(summary_of(model))) for kind, model in found.items()]
    parts = [part for kind, model in found.items() for part in _model(kind, model)]
    name = family.rpartition("/")[2]
    return words.page(
        f"{_TITLES.get(name, words.capital(name))} (`{family}`)",
        words.capital(words.line(summary_of(module))),
        f"`netfl list {name} KIND` prints the section of one kind.  [Types and units](units.md) explains the notation.",
        words.table(("kind", "meaning"), index),
        *parts,
        "## Contract",
        "Base classes of a model of your own, and the objects that it uses.",
        words.rst(f".. automodule:: {base.__module__}", *(f"   {option}" for option in _QUIET)),
    )


def _slug(kind: str) -> str:
    """Return the anchor of a heading."""
    return kind.replace("`", "").lower()


def _model(kind: str, model: type[Spec]) -> Iterator[str]:
    """Yield the parts of the section of a kind."""
    text = inspect.getdoc(model) or ""
    before, _, after = text.partition("Example::\n")
    rest = re.sub(r"\A(?:[ \t]+.*\n?|\n)*", "", after)
    yield f"## {kind}"
    yield words.prose(before)
    yield words.code(example(model), "yaml")
    yield words.prose(rest) if rest else ""
    yield keys(model) if model.model_fields else "It has no keys."
    laws = laws_of(model, kind)
    if laws:
        yield "**Properties, for the example**"
        yield "\n".join(f"- {_law(law)}" for law in laws)


def _law(law: Law) -> str:
    """Return the claims of a property."""
    if law.quantity == Law.none("").quantity:
        return f"none: {words.line(law.statement)}"
    new = [(name, formula) for name, formula in law.claims() if formula != law.statement]
    claims = "; ".join(f"{name} {words.literal(formula)}" for name, formula in new)
    return f"*{words.line(law.quantity)}*: {words.line(law.statement)}.  {claims}".rstrip()
