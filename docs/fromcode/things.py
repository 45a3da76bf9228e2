"""Reference pages of the keys of a scenario, of units, and of the tables of a run."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Sequence
from itertools import pairwise
from typing import get_args

import pyarrow as pa

import netfl
import netfl.units
from fromcode import families, words
from netfl.core.columns import Column
from netfl.files.schema import FileSchema
from netfl.results.metrics import CATALOGUE, Metric, find_metric
from netfl.results.tables import SCHEMAS, TABLES
from netfl.scenario.scenario import Scenario
from netfl.types import KINDS, OUTCOMES
from netfl.units import Unit, units_of

_PACKAGES_WITH_READERS = ("netfl.access", "netfl.diagnosis", "netfl.learning.data", "netfl.network")


def scenario() -> str:
    """Return the page of the keys of a scenario, without those of models."""
    return words.page(
        "Keys of a scenario",
        "All keys of a scenario.  The keys of models are on the pages of their families.  `netfl list scenario` prints "
        "this table; [scenario files](../../scenarios.md) explains how the keys work together.",
        families.keys(Scenario),
    )


def units() -> str:
    """Return the page of types and units."""
    rows = [
        (unit.symbol, words.line(meaning), unit.doubted, words.line(unit.remedy), f"`netfl.units.{name}`")
        for name, meaning in _documented(netfl.units)
        for unit in get_args(getattr(netfl.units, name))[1:]
        if isinstance(unit, Unit)
    ]
    symbols = dict.fromkeys(symbol for symbol, *_ in rows)
    return words.page(
        "Types and units",
        "A quantity is a plain number in the unit of its key, or a string with a unit, such as `5 Mbps`.  A gain needs "
        "the unit `dB`, a power in dBm needs `dBm`, `dBW` or watts.  A quantity of another dimension is an error.",
        words.table(
            (
                "type in the tables",
                "meaning",
                "values that `netfl check` doubts",
                "text in errors",
                "a field's type in Python",
            ),
            rows,
        ),
        "These are all units.  Upper and lower case differ: `b` is a bit, `B` a byte of 8 bits; `M` is 10⁶ and `Mi` "
        "is 2²⁰.  A unit that is not in the list is an error, which names what is probably meant.  There are no "
        "thousandths of a bit or of a hertz, since `mbps` and `mHz` are mistakes for `Mbps` and `MHz`.",
        words.table(("type in the tables", "units"), [(symbol, " ".join(units_of(symbol))) for symbol in symbols]),
        "The other types:",
        words.table(
            ("type in the tables", "notation in YAML"),
            [
                (
                    "number, whole number",
                    "a number without quotes, `_` or blanks; the type includes bounds such as `>= 0`. "
                    "`1e3` and `2000.0` are whole numbers",
                ),
                ("text", "a string"),
                ("true | false", "one of the two"),
                ("a | b", "one of these words"),
                ("list of …", "a YAML list; a single entry often needs no list"),
                ("mapping", "a YAML mapping; its keys are the rows `key.NAME` or `key.other`"),
                ("null", "`null`; if this is the default, the key can be omitted"),
                (
                    "the name of a contract, such as [Channel](network-channel.md)",
                    "one model of that family: its `kind` and its keys, or the kind alone",
                ),
            ],
        ),
    )


def columns() -> str:
    """Return the page of the columns of all tables, with their types in Parquet."""
    parts = []
    for name, declared in TABLES.items():
        parts.append(f"## {name}")
        parts.append(column_table(declared, SCHEMAS[name]))
    steps = [kind for kind in KINDS if kind not in OUTCOMES]
    return words.page(
        "Columns and their types",
        "Columns of the tables in a run directory.  [Tables](../../tables.md) explains the tables.  The tables "
        "`users`, `nodes`, `energy`, `regions` and `points` have columns that depend on the scenario.",
        *parts,
        "## Kinds of events",
        "Outcomes, exactly one for each update: " + ", ".join(map(words.literal, OUTCOMES)) + ".",
        "Steps of an update: " + ", ".join(map(words.literal, steps)) + ".",
    )


def column_table(columns: Sequence[Column], schema: pa.Schema) -> str:
    """Return a table of *columns*, with their types in *schema*."""
    rows = [
        (words.literal(column.name), _type(str(schema.field(column.name).type)), words.line(column.meaning))
        for column in columns
    ]
    return words.table(("column", "type", "meaning"), rows)


def file_column_table() -> str:
    """Return a table of the declared columns of all files that scenarios read, with their ranges."""
    rows = [
        (
            words.line(schema.reader) if number == 0 else "",
            ", ".join(map(words.literal, (column.name, *column.other_names))),
            column.quantity.name + ("" if column.is_needed else ", optional"),
            column.quantity.range,
            column.empty,
        )
        for schema in file_schemas()
        for number, column in enumerate(schema)
    ]
    return words.table(("read by", "column", "holds", "range", "an empty cell, if allowed"), rows)


def file_schemas() -> list[FileSchema]:
    """Return all schemas that modules of netfl declare, in the order of their names."""
    found: dict[str, FileSchema] = {}
    for module in pkgutil.walk_packages(netfl.__path__, "netfl."):
        if not module.name.startswith(_PACKAGES_WITH_READERS):
            continue
        for value in [*vars(importlib.import_module(module.name)).values()]:
            parts = [value, getattr(value, "file_schema", None)]
            if isinstance(value, dict):
                parts += value.values()
            found |= {part.reader: part for part in parts if isinstance(part, FileSchema)}
    return [found[reader] for reader in sorted(found)]


def metrics() -> str:
    """Return the page of the metrics of learners and of the access, as tables and plots show them."""
    head = ("metric", "label", "unit", "best")
    best = {False: "highest", True: "lowest", None: ""}
    of_learners = [
        (words.literal(metric.name), words.line(metric.label), words.line(_unit(metric)), best[metric.low_is_good])
        for metric in (find_metric(metric.name) for metric in CATALOGUE if metric.is_learned)
    ]
    of_access = [
        (words.literal(metric.name), words.line(metric.label), words.line(_unit(metric)))
        for metric in (find_metric(metric.name) for metric in CATALOGUE if not metric.is_learned)
    ]
    return words.page(
        "Metrics and their display",
        "Labels and units of metrics in tables, plots and sentences.  [Metrics of learners](../../metrics.md) defines "
        "the former, [tables](../../tables.md) the latter.  `*` stands for any characters.  A metric of your own has "
        "its name without the unit as label, and the unit at the end of its name.",
        "## Metrics of learners",
        words.table(head, of_learners),
        "## Metrics of the access",
        words.table(head[:3], of_access),
    )


def _unit(metric: Metric) -> str:
    """Return the units in which a metric is displayed."""
    if metric.unit.startswith("%"):
        return metric.unit
    return ", ".join(name for _, name in metric.steps)


def _type(text: str) -> str:
    """Return the type of a column in words."""
    return "text" if text.startswith("dictionary") else text


def _documented(module: object) -> list[tuple[str, str]]:
    """Return the documented names that a module assigns, with their docstrings, in order."""
    body = ast.parse(inspect.getsource(module)).body  # type: ignore[arg-type]
    found = []
    for statement, below in pairwise(body):
        if isinstance(statement, ast.Assign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found.append((ast.unparse(statement.targets[0]), str(below.value.value)))
    return [(name, text) for name, text in found if not name.startswith("_")]
