"""The pages of the keys around models, of units, and of the tables of a run."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from typing import get_args

import netfl.units
from fromcode import families, words
from netfl.results.tables import SCHEMAS
from netfl.scenario.scenario import Scenario
from netfl.types import FATES, KINDS
from netfl.units import Unit


def scenario() -> str:
    """Every key of a scenario that is not a model's own."""
    return words.page(
        "The keys of a scenario",
        "All keys but those of models, which stand on the pages of their families.  `netfl list scenario` prints them; "
        "[scenario files](../../scenarios.md) says how they work together.",
        families.keys(Scenario),
    )


def units() -> str:
    """What may be written for a quantity."""
    rows = [
        (unit.symbol, words.line(meaning), words.line(unit.remedy), f"`netfl.units.{name}`")
        for name, meaning in _documented(netfl.units)
        for unit in get_args(getattr(netfl.units, name))[1:]
        if isinstance(unit, Unit)
    ]
    return words.page(
        "Types and units",
        "A quantity is a plain number, taken in the unit of its key, or a string with a unit, such as `5 Mbps`: any "
        "unit and prefix that [Pint](https://pint.readthedocs.io) knows, `KiB` and `MiB` too.  Where dB are wanted "
        "only `dB` will do, where dBm are wanted `dBm` or watts.  A quantity of another dimension is a fault.",
        words.table(("type in the tables", "meaning", "a fault says", "a field's type in Python"), rows),
        "The other types:",
        words.table(
            ("type in the tables", "what is written"),
            [
                ("number, whole number", "a number; bounds such as `>= 0` stand behind it"),
                ("text", "a string"),
                ("true | false", "one of the two"),
                ("a | b", "one of these words"),
                ("list of …", "a YAML list; where it has one entry, that alone will often do"),
                ("mapping", "a YAML mapping, whose keys follow as `key.NAME` or `key.other`"),
                ("null", "`null`, or the key left out where it is the default"),
                (
                    "the name of a contract, such as [Channel](network-channel.md)",
                    "one model of that family: its `kind` and its keys, or the kind alone",
                ),
            ],
        ),
    )


def columns() -> str:
    """The columns of the tables, with the types that they have in Parquet."""
    parts = []
    for name, schema in SCHEMAS.items():
        parts.append(f"## {name}")
        parts.append(
            words.table(("column", "type"), [(words.literal(one.name), _type(str(one.type))) for one in schema])
        )
    steps = [kind for kind in KINDS if kind not in FATES]
    return words.page(
        "Columns and their types",
        "What `netfl.results.tables` writes.  [Run directories and their tables](../../tables.md) says what each "
        "column means; `users`, `nodes`, `spent`, `regions` and `points` have columns that depend on the scenario.",
        *parts,
        "## Kinds of events",
        "Fates, one for each update: " + ", ".join(map(words.literal, FATES)) + ".",
        "Steps on the way: " + ", ".join(map(words.literal, steps)) + ".",
    )


def _type(text: str) -> str:
    """A column's type in words."""
    return "text" if text.startswith("dictionary") else text


def _documented(module: object) -> list[tuple[str, str]]:
    """The names that a module assigns with a docstring below, in their order."""
    body = ast.parse(inspect.getsource(module)).body  # type: ignore[arg-type]
    found = []
    for statement, below in pairwise(body):
        if isinstance(statement, ast.Assign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found.append((ast.unparse(statement.targets[0]), str(below.value.value)))
    return [(name, text) for name, text in found if not name.startswith("_")]
