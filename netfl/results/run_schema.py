"""Contents of the files of a run directory, checked by every reader: tables, manifest, summary and scenario.

A file that differs from what netfl writes is an error that names the file and the column or key, before any value of it
is used.  Extra columns and keys are accepted: those of models of other packages, and of later versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from netfl.core.columns import REPLICA, ROUND, USER, missing_defaults
from netfl.files import is_file_name, unreadable_file
from netfl.files.parquet import open_parquet
from netfl.results.tables import CHUNK, TABLES

_KINDS = {"int32": "whole numbers", "int64": "whole numbers", "double": "numbers", "word": "text"}
"""Content of a column, by its declared type."""
DTYPES = {"int32": "int32", "int64": "int64", "double": "float64", "word": "object"}
"""Type of a column in pandas, by its declared type."""
OTHER_TABLES: Mapping[str, Mapping[str, str]] = {
    "users": {"replica": "int32", "user": "int64"},
    "nodes": {"replica": "int32", "node": "word", "role": "word", "x_m": "double", "y_m": "double"},
    "energy": {"replica": "int32", "user": "int64", "energy_J": "double"},
    "regions": {"replica": "int32", "learner": "word", "x": "double", "y": "double", "label": "int64"},
    "points": {"x": "double", "y": "double", "label": "int64"},
}
"""Types of the columns that tables besides `TABLES` always have."""
_OPTIONAL: Mapping[str, Mapping[str, str]] = {
    "users": {"x_m": "double", "y_m": "double", "distance_m": "double", "tower": "int64", "rank": "int64"}
    | {"node": "word", "device": "word", "name": "word", "block": "word", "speed": "double", "samples": "int64"}
    | {"power_dBm": "double", "bandwidth_Hz": "double", "noise_figure_dB": "double", "antenna_gain_dB": "double"},
}
"""Types of the columns that these tables have in some scenarios."""
_MAY_BE_INFINITE = {
    ("events", "value"),
    ("attempts", "snr_db"),
    ("metrics", "value"),
    ("final_metrics", "value"),
    ("users", "distance_m"),
    ("users", "speed"),
}
"""Tables and columns whose values may be infinite or NaN."""
_MAY_BE_NONE = {("events", "user"), ("attempts", "base")}
"""Tables and columns of whole numbers in which -1 stands for none."""

_LONG_KEY = 60
"""Length of a key of which an error shows the begin."""
_Words = dict[str, str]


def _check_name(name: str) -> str:
    """Refuse the name of a file that is not in the folder of the run."""
    if not all(is_file_name(part) for part in name.split("/")):
        raise ValueError("is not the name of a file in the folder of a run")
    return name


_FileName = Annotated[str, AfterValidator(_check_name)]
_Count = Annotated[int, Field(ge=1)]


class _Entries(BaseModel):
    """Entries of a document that readers use, where it has them; others are accepted."""

    model_config = ConfigDict(extra="allow", strict=True)


class _Lane(_Entries):
    learner: str
    replica: int
    round: int
    user: int | None
    problem: str


class _Reported(_Entries):
    name: str
    label: str
    unit: str = ""
    low_is_good: bool | None = None
    is_learned: bool = False


class _Tuning(_Entries):
    state: str = ""
    is_tuned: bool = False
    by: str = ""
    per: Literal["run", "replica"] = "run"
    trials: int = 0
    candidates: int | list[int] = 0
    problems: str | list[str] = ""
    evaluations: int = 0
    replicas: int = 0
    passes: int | list[int] = 0
    chosen: dict[str, dict[str, Any]] = {}


class _Manifest(_Entries):
    status: Literal["running", "done", "interrupted", "failed"] = "running"
    format: int = 1
    scenario: str = ""
    seed: int = 0
    users: _Count = 1
    replicas: _Count = 1
    first: Annotated[int, Field(ge=0)] = 0
    rounds: _Count = 1
    duration_s: FiniteFloat = 0.0
    stop_s: FiniteFloat = 0.0
    events_thinned: dict[str, int] = {}
    learning: bool = False
    learners: list[str] = []
    reported: list[_Reported] = []
    started: str = ""
    warnings: list[str] = []
    training: str = ""
    tuning: _Tuning | None = None
    validation_examples: list[int] = []
    steps: dict[str, FiniteFloat | list[FiniteFloat | None] | None] = {}
    error: str = ""
    payload: _Words = {}
    flower: dict[str, Any] = {}
    app_calls: int = 0
    app_errors: Annotated[list[str | int], Field(min_length=3, max_length=3)] = ["", 0, 0]
    app_notes: list[str] = []
    versions: _Words = {}
    versions_before: list[_Words] = []
    machine: dict[str, str | int | None] = {}
    rounds_done: Annotated[int, Field(ge=0)] = 0
    diverged: list[_Lane] = []
    timings: dict[str, FiniteFloat] = {}
    digests: dict[_FileName, str] = {}
    files: dict[_FileName, str] = {}
    digest: str = ""
    extensions: list[dict[str, Any]] = []


class _Summary(_Entries):
    __pydantic_extra__: dict[str, FiniteFloat | None]
    replicas: _Count = 1
    rounds: FiniteFloat = 1
    duration_s: FiniteFloat = 0.0
    stop_s: FiniteFloat = 0.0
    warmup_s: FiniteFloat = 0.0
    simulated_s: FiniteFloat = 0.0


class _Evaluation(_Entries):
    choose: dict[str, dict[str, Any]] | None = None
    sets: dict[str, Any] | None = None
    rare_classes: list[int] | None = None


class _Model(_Entries):
    kind: str = ""


class _Partition(_Model):
    classes: Any = None
    blocks: Any = None

    @field_validator("classes")
    @classmethod
    def _check_rare_classes(cls, classes: Any, info: ValidationInfo) -> Any:
        """Refuse anything but numbers of labels in `rare_classes`; other partitions have other keys of this name."""
        if info.data.get("kind") == "rare_classes" and not _is_list_of_labels(classes):
            raise ValueError("should be a list of whole numbers")
        return classes

    @model_validator(mode="after")
    def _check_blocks(self) -> _Partition:
        """Refuse anything but blocks with their labels in `blocks`; other partitions have other keys of this name."""
        if self.kind != "blocks":
            return self
        if not isinstance(self.blocks, dict) or not all(isinstance(block, dict) for block in self.blocks.values()):
            raise ValueError("blocks should be a mapping of blocks")
        for block in self.blocks.values():
            if block.get("classes") is not None and not _is_list_of_labels(block["classes"]):
                raise ValueError("the classes of a block should be a list of whole numbers")
        return self


def _is_list_of_labels(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(label, int) for label in value)


class _Recording(_Entries):
    events: Literal["all", "none"] | list[str] = "all"


class _Scenario(_Entries):
    """Of these `netfl.load` checks all and more."""

    name: str = ""
    description: str = ""
    seed: int = 0
    users: _Count = 1
    replicas: _Count = 1
    rounds: _Count | None = None
    duration: FiniteFloat | None = None
    warmup: FiniteFloat = 0.0
    access: _Model | None = None
    learners: dict[str, dict[str, Any]] = {}
    partition: _Partition | None = None
    evaluate: _Evaluation | None = None
    record: _Recording | Literal["all", "none"] | list[str] = "all"


_DOCUMENTS: Mapping[str, TypeAdapter[Any]] = {
    "manifest.json": TypeAdapter(_Manifest),
    "summary.json": TypeAdapter(_Summary),
    "scenario.yaml": TypeAdapter(_Scenario),
}


def check_document(path: Path, content: object) -> dict[str, Any]:
    """Return the *content* of a manifest, a summary or a scenario.

    Raises:
        MachineError: a key has another type.
    """
    try:
        _DOCUMENTS[path.name].validate_python(content)
    except ValidationError as error:
        reason = ValueError(first_problem(error))
        raise unreadable_file(path, reason) from reason
    assert isinstance(content, dict)
    return content


def first_problem(error: ValidationError) -> str:
    """Return the first problem of a document in words, after its dotted key."""
    problem = error.errors()[0]
    key = ".".join(_short_key(part) for part in problem["loc"] if part != "[key]")
    reason = problem["msg"].removeprefix("Input ").removeprefix("Value error, ")
    if problem["type"] == "model_type":
        reason = "should be a mapping"
    if not key:  # it is one of the whole document
        return reason
    return f"{key}: {reason}"


def _short_key(key: str | int) -> str:
    """Return a key without its end, if it is as long as no key of netfl."""
    text = str(key)
    if len(text) <= _LONG_KEY:
        return text
    return f"{text[:_LONG_KEY]}…"


def read_rows(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table, some thousands at once.  Errors of the caller are not those of the file.

    Raises:
        MachineError: the file is missing or damaged, or its columns are not those of the table.
        ScenarioError: a newer netfl wrote the file.
    """
    with open_parquet(path) as file:
        _check_columns(path, file.schema_arrow)
        for batch in file.iter_batches(CHUNK):
            _check_values(path, batch)
            yield batch


def read_table(path: Path) -> pa.Table:
    """Return a table; columns that earlier versions of netfl did not have have their defaults.

    Raises:
        MachineError: see `read_rows`.
        ScenarioError: a newer netfl wrote the file.
    """
    with open_parquet(path) as file:
        schema = file.schema_arrow
        _check_columns(path, schema)
        rows = file.read().replace_schema_metadata()  # that of pandas may be damaged, and is not used
    _check_values(path, rows)
    for name, default in missing_defaults(TABLES.get(path.stem, ()), schema.names).items():
        rows = rows.append_column(name, pa.array([default] * len(rows)))
    return rows


def check_numbering(path: Path, rows: pa.Table, limits: Mapping[str, int]) -> None:
    """Check that rounds and users are numbered without gaps, and that no number is too large.

    Args:
        path: the table.
        rows: its rows.
        limits: numbers of replicas and users, by column, where they are known.

    Raises:
        MachineError: rows are missing, or a number is too large.
    """
    for name, limit in limits.items():
        if name in rows.column_names and len(rows) and pc.max(rows[name]).as_py() >= limit:
            _refuse(path, name, f"has {pc.max(rows[name]).as_py()}, but there are {limit}")
    first = {"rounds": (ROUND.name, 1), "users": (USER.name, 0)}.get(path.stem)
    if first is None or not len(rows):
        return
    name, begin = first
    replicas = rows[REPLICA.name].to_numpy()
    numbers = rows[name].to_numpy()
    order = np.lexsort((numbers, replicas))
    is_first = np.diff(replicas[order], prepend=-1) != 0
    expected = np.where(is_first, begin, np.append(0, numbers[order][:-1]) + 1)
    gaps = np.flatnonzero(numbers[order] != expected)
    if gaps.size:
        place = order[gaps[0]]
        _refuse(path, name, f"has {numbers[place]} in place of {expected[gaps[0]]} in replica {replicas[place]}")


def _check_columns(path: Path, schema: pa.Schema) -> None:
    """Refuse a table without one of its columns, or with a column of another type."""
    columns = TABLES.get(path.stem, ())
    types = {column.name: column.arrow_type for column in columns} | {**OTHER_TABLES.get(path.stem, {})}
    required = [column.name for column in columns if column.default is None] or types
    if len(set(schema.names)) < len(schema.names):
        name = next(name for name in schema.names if schema.names.count(name) > 1)
        _refuse(path, name, "occurs twice")
    for name in required:
        if name not in schema.names:
            _refuse(path, name, "is missing")
    types |= {**_OPTIONAL.get(path.stem, {})}
    for field in schema:
        declared = types.get(field.name)
        if declared is not None and not _has_type(field.type, declared):
            _refuse(path, field.name, f"holds {field.type}, not {_KINDS[declared]}")


def _has_type(kind: pa.DataType, declared: str) -> bool:
    """Return whether a column of the type *kind* holds what its declared type holds, or nothing."""
    if pa.types.is_null(kind):
        return True
    if declared == "word":
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
    is_whole = bool(pa.types.is_signed_integer(kind))
    if declared == "double":
        return is_whole or pa.types.is_float32(kind) or pa.types.is_float64(kind)
    return is_whole


def _check_values(path: Path, rows: pa.Table | pa.RecordBatch) -> None:
    """Refuse empty cells, numbers that are not finite, and negative whole numbers, where a table has none."""
    declared = {column.name: column for column in TABLES.get(path.stem, ())}
    optional = _OPTIONAL.get(path.stem, {})
    names = {*declared, *OTHER_TABLES.get(path.stem, {}), *optional}
    for name in names.intersection(rows.schema.names):
        column = rows.column(name)
        can_be_infinite = (path.stem, name) in _MAY_BE_INFINITE
        can_be_empty = can_be_infinite or name in optional or (name in declared and declared[name].can_be_empty)
        if column.null_count and not can_be_empty:
            _refuse(path, name, "has empty cells")
        if pa.types.is_floating(column.type) and not can_be_infinite:
            is_number = pc.is_finite(column)
            if can_be_empty:
                is_number = pc.or_(is_number, pc.is_nan(column))
            if not pc.all(is_number, min_count=0).as_py():
                _refuse(path, name, "has values that are not finite")
        elif pa.types.is_integer(column.type) and len(column) > column.null_count:
            lowest = -1 if (path.stem, name) in _MAY_BE_NONE else 0
            if pc.min(column).as_py() < lowest:
                _refuse(path, name, f"has {pc.min(column).as_py()}")


def _refuse(path: Path, column: str, problem: str) -> NoReturn:
    reason = ValueError(f"column '{column}' {problem}")
    raise unreadable_file(path, reason) from reason
