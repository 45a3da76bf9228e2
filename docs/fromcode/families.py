"""One page for each family: what it is, every model with its keys and laws, and the contract."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping

from fromcode import words
from netfl.cli.views.model_list import keys_of, laws_of, summary_of
from netfl.registry import FAMILIES, Spec, base_of, example, find_model, list_kinds
from netfl.types import Law

HEAD = ("key", "type", "default", "meaning")
"""The columns of a table of keys."""
_QUIET = (":members:", ":member-order: bysource", ":exclude-members: model_config")


def pages() -> Mapping[str, str]:
    """The page of each family, by its name."""
    return {name_of(family): _page(family) for family in FAMILIES}


def name_of(family: str) -> str:
    """What the page of a family is called."""
    return family.replace("/", "-")


def keys(model: type[Spec]) -> str:
    """The table of the keys of *model*, those of the mappings in it included."""
    rows = (
        (words.literal(name), _linked(kind), *_told(default, meaning)) for name, kind, default, meaning in _rows(model)
    )
    return words.table(HEAD, rows)


def _rows(model: type[Spec]) -> Iterator[tuple[str, str, str, str]]:
    """Key, type, default and meaning."""
    return keys_of(model, "")


def _told(default: str, meaning: str) -> tuple[str, str]:
    """A default and what a key means, as cells."""
    shown = default if default in {"required", "empty"} or default.endswith(" of its own") else words.literal(default)
    return shown, words.line(meaning)


def _linked(kind: str) -> str:
    """A type in words, with the families in it linked."""
    contracts = {base_of(family).__name__: name_of(family) for family in FAMILIES}
    pieces = re.split(r"(\w+)", words.line(kind))
    return "".join(f"[{piece}]({contracts[piece]}.md)" if piece in contracts else piece for piece in pieces)


def _page(family: str) -> str:
    """The page of one family."""
    base = base_of(family)
    module = inspect.getmodule(base)
    found = {kind: find_model(base, kind) for kind in list_kinds(base)}
    index = [(f"[`{kind}`](#{_slug(kind)})", words.line(summary_of(model))) for kind, model in found.items()]
    parts = [part for kind, model in found.items() for part in _model(kind, model)]
    return words.page(
        family,
        words.capital(words.line(summary_of(module))),
        f"`netfl list {family.rpartition('/')[2]} KIND` prints the same of one kind. "
        "[How types and units are written](units.md).",
        words.table(("kind", "what it is"), index),
        *parts,
        "## The contract",
        "What a model of your own is derived from, and what it works with.",
        words.rst(f".. automodule:: {base.__module__}", *(f"   {option}" for option in _QUIET)),
    )


def _slug(kind: str) -> str:
    """The anchor of a heading."""
    return kind.replace("`", "").lower()


def _model(kind: str, model: type[Spec]) -> Iterator[str]:
    """The section of one kind."""
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
        yield "**Laws, as of the example**"
        yield "\n".join(f"- {_law(law)}" for law in laws)


def _law(law: Law) -> str:
    """What is claimed."""
    if law.quantity == Law.none("").quantity:
        return f"none: {words.line(law.statement)}"
    claims = "; ".join(f"{name} {words.literal(formula)}" for name, formula in law.claims())
    return f"*{words.line(law.quantity)}*: {words.line(law.statement)}.  {claims}"
