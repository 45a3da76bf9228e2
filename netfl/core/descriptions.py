"""Descriptions of models and of their keys: the docstrings, read from the source when they are asked for.

Python forgets a docstring of a field.  To read all of them costs as much as all the rest of the start, and only pages,
schemas and some messages need them.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise

from pydantic import BaseModel


@cache
def key_descriptions(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the description of each key of *model* that has one, also of those that it inherits.

    A model whose source is not there, such as one that was typed in at a prompt, has those of its bases alone.

    >>> from netfl.network.channel.constant import Constant
    >>> key_descriptions(Constant)["gain"]
    'G; negative for a loss.'
    """
    descriptions: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel):
            descriptions |= _own_docstrings(base)
    for name, field in model.model_fields.items():
        if field.description:
            descriptions[name] = field.description
    return {name: text for name, text in descriptions.items() if name in model.model_fields}


def key_meaning(model: type[BaseModel], key: str) -> str:
    """Return the first clause of the description of a key."""
    text = " ".join(key_descriptions(model).get(key, "").split())
    return re.split(r"[.;] ", f"{text} ")[0].replace("``", "")


def example(model: type) -> str:
    """Return the YAML example of a model: the indented block after ``Example::`` in its docstring."""
    block = re.search(r"Example::\n((?:\n| .*\n?)+)", inspect.cleandoc(model.__doc__ or ""))
    if block is None:
        return ""
    return textwrap.dedent(block[1]).strip()


def _own_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings below the fields that the class itself states."""
    statement = _classes_of(model.__module__).get(model.__qualname__)
    if statement is None:
        return {}
    docstrings = {}
    for field, below in pairwise(statement.body):
        text = _text_of(below)
        if text is not None and isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            docstrings[field.target.id] = inspect.cleandoc(text)
    return docstrings


@cache
def _classes_of(module: str) -> Mapping[str, ast.ClassDef]:
    """Return the classes in the source of a module by their qualified names."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):
        return {}
    return dict(_classes_in(ast.parse(source), ""))


def _classes_in(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield prefix + child.name, child
            yield from _classes_in(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef):
            yield from _classes_in(child, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.stmt):
            yield from _classes_in(child, prefix)


def _text_of(statement: ast.stmt) -> str | None:
    """Return the text of a statement that is nothing else."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return value if isinstance(value, str) else None
    return None
