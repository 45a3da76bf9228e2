"""Data of Hugging Face `datasets`: local files and folders, or the cache."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.core.plugins import one_line
from netfl.core.spec import ByForm
from netfl.errors import Fault, ScenarioError
from netfl.files.tables import read_table
from netfl.learning.data._in_memory import stack_values
from netfl.learning.data._user_files import (
    FileColumns,
    UserExamples,
    check_label_columns,
    check_token_rows,
    raise_fault,
)

_READERS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".arrow": "arrow"}
_Columns = Annotated[Annotated[str, Field()] | Annotated[tuple[str, ...], Field(min_length=1)], ByForm()]


class Huggingface(UserExamples):
    """A data set of the package Hugging Face `datasets`, from local files or its cache; nothing is downloaded.

    ``path`` is a folder of ``save_to_disk``, a file (.parquet, .csv, .json, .jsonl, .arrow), a folder of such files, or
    the name of a set that the package has in its cache, such as ``ylecun/mnist``.  Images become ``[channels, rows,
    columns]`` with pixels from 0 to 1; lists of numbers and columns of numbers are used as they are.  Needs
    ``pip install 'netfl-sim[huggingface]'``.

    Example::

        kind: huggingface
        path: my_letters
        x: image
        label: label
        user: writer
        features: [1, 8, 8]
        labels: 10
    """

    main_key: ClassVar[str] = "path"
    packages: ClassVar[tuple[str, ...]] = ("datasets",)
    path: str
    """Folder, file, or name in the cache; a relative path starts at the current directory."""
    config: str | None = None
    """Configuration of a set in the cache that has several."""
    split: str = "train"
    """The split with the training examples; examples without splits count as ``train``."""
    test: str | None = None
    """The split with the test examples, such as ``test``; without it a part of ``split`` is kept for testing."""
    x: _Columns
    """The column of the features, or several columns of numbers."""
    label: _Columns = "label"
    """The column of the labels; in a regression the column, or columns, of the targets."""
    user: str | None = None
    """The column of the users; none by default."""
    features: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    """The shape of one example: ``[columns]``, or ``[channels, rows, columns]`` of an image."""
    tokens: Annotated[int, Field(ge=2, le=2**24)] | None = None
    """The number of different tokens, if an example is a row of tokens such as words."""

    @model_validator(mode="after")
    def _check_columns(self) -> Huggingface:
        check_token_rows(self.tokens, self.features)
        check_label_columns(self.label, self.targets)
        twice = {*_names(self.label)} & {*_names(self.x)}
        if twice:
            raise ValueError(f"the column '{min(twice)}' cannot be both feature and label; use another column")
        if self.test == self.split:
            raise ValueError("split and test are the same split; use different ones")
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return self.features

    def read_part(self, key: str) -> FileColumns:
        split = self.split if key == "path" else self.test or ""
        names = [*_names(self.x), *_names(self.label)]
        if self.user is not None:
            names.append(self.user)
        with tempfile.TemporaryDirectory() as folder, _offline() as datasets:
            rows = self._open(datasets, split, folder)
            missing = [name for name in names if name not in rows.column_names]
            if missing:
                problem = f"has no column {', '.join(missing)}"
                raise_fault("", problem, self.path, f"its columns: {', '.join(rows.column_names[:20])}")
            if not len(rows):
                raise_fault("", f"has no examples in the split {split}", self.path, "use another split")
            user = None if self.user is None else np.asarray(rows[self.user][:])
            return FileColumns(_column(rows, self.x), _column(rows, self.label), user)

    def _open(self, datasets: Any, split: str, folder: str) -> Any:
        """Return the rows of *split*; caches of local files are written to *folder*."""
        local = Path(self.path)
        try:
            if (local / "state.json").is_file() or (local / "dataset_dict.json").is_file():
                splits = datasets.load_from_disk(self.path)
            elif local.is_file():
                reader = _READERS.get(local.suffix)
                if reader is None:
                    raise_fault("", f"has the suffix '{local.suffix}'", self.path, f"known: {', '.join(_READERS)}")
                options = self._text_options(local)
                splits = datasets.load_dataset(reader, data_files=self.path, cache_dir=folder, **options)
            elif local.is_dir():
                splits = datasets.load_dataset(self.path, cache_dir=folder, **self._text_options(local))
            else:  # a name in the cache
                splits = datasets.load_dataset(self.path, self.config)
        except ScenarioError:
            raise
        except Exception as error:  # the package can raise anything
            remedy = "load it once by datasets.load_dataset while you are online, or name local files"
            if local.exists():
                remedy = "check that it is complete"
            raise_fault("", f"cannot be opened: {one_line(error)[:300]}", self.path, remedy)
        if not isinstance(splits, datasets.DatasetDict):
            splits = {"train": splits}
        if split not in splits:
            raise_fault("", f"has no split '{split}'", self.path, f"its splits: {', '.join(splits)}")
        return splits[split]

    def _text_options(self, local: Path) -> dict[str, Any]:
        """Check the CSV files at *local*, if any, and return options by which their users stay text.

        Raises:
            ScenarioError: a row has more or fewer cells than the heading, or a column occurs twice.
        """
        files = [local] if local.is_file() else sorted(local.rglob("*"))
        tables = [read_table(file, is_limited=False) for file in files if file.suffix == ".csv"]
        for table in tables:
            table.check()
        if not tables:
            return {}
        converters = None if self.user is None else {self.user: str}
        return {"converters": converters, "keep_default_na": False, "na_values": []}

    def _source(self, key: str) -> str:
        return self.path if key == "path" else f"{self.path}, split {self.test}"

    @property
    def _reading_remedy(self) -> str:
        return "check the columns x, label and user"


def _names(columns: str | tuple[str, ...]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else columns


def _column(rows: Any, columns: str | tuple[str, ...]) -> NDArray[Any]:
    """Return a column, ``[rows, …]``, or several columns of numbers, ``[rows, columns]``."""
    if isinstance(columns, str):
        return stack_values(rows[columns][:])
    return np.stack([np.asarray(rows[name][:]) for name in columns], axis=1)


@contextmanager
def _offline() -> Iterator[Any]:
    """Yield the package `datasets`, which reaches no network and shows no progress inside this context."""
    try:
        datasets = importlib.import_module("datasets")
        hub = importlib.import_module("huggingface_hub.constants")
    except ImportError as error:
        problem = f"the package datasets is missing, or cannot be imported: {one_line(error)}"
        raise ScenarioError([Fault("", problem, None, "pip install 'netfl-sim[huggingface]'")]) from error
    switches = [
        (datasets.config, "HF_HUB_OFFLINE"),
        (hub, "HF_HUB_OFFLINE"),
        (datasets.config, "HF_DATASETS_OFFLINE"),
    ]
    before = [getattr(module, name) for module, name in switches]
    had_bars = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    for module, name in switches:
        setattr(module, name, True)
    try:
        yield datasets
    finally:
        for (module, name), value in zip(switches, before, strict=True):
            setattr(module, name, value)
        if had_bars:
            datasets.enable_progress_bars()
