"""Arrays of the user: NumPy files, and arrays that hold numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.errors import Fault, ScenarioError, suggest
from netfl.files import open_file, refuse_special_file

_MANY_STEPS = 65_536
"""Steps of a number of 32 bits across the span of a column with which only few values can coincide."""


def read_arrays(path: Path, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
    """Return the arrays of a NumPy file ``.npz``: *names*, and those *optional* ones that it has.

    Pickles are never read.

    Raises:
        ScenarioError: it is no such file, or has other arrays; the keys are empty.
        Exception: the file is damaged.
    """
    refuse_special_file(path)
    if not is_zipfile(path):  # NumPy would propose to load a pickle
        problem = "cannot be read: it is damaged, or not a NumPy file .npz"
        raise ScenarioError([Fault("", problem, str(path), "write it with numpy.savez")])
    with open_file(path) as file, np.load(file, allow_pickle=False) as stored:
        faults = [
            Fault("", f"has no array {name}", str(path), f"it has {', '.join(stored.files)}")
            for name in names
            if name not in stored
        ]
        faults += [
            Fault("", f"has {stored.files.count(name)} arrays {name}", str(path), "leave all but one out")
            for name in sorted({*stored.files})
            if stored.files.count(name) > 1
        ]
        known = [*names, *optional]
        faults += [
            Fault("", f"has an array {name}, which is not read", str(path), f"leave it out; {suggest(name, known)}")
            for name in stored.files
            if name not in known
        ]
        if faults:
            raise ScenarioError(faults)
        return {name: _load(stored, name, path) for name in stored.files}


def _load(stored: Any, name: str, path: Path) -> NDArray[Any]:
    try:
        return np.asarray(stored[name])
    except ValueError as error:
        if "pickle" not in str(error):
            raise
        problem = f"the array {name} holds Python objects, a pickle, which netfl never reads"
        raise ScenarioError([Fault("", problem, str(path), "store numbers or text")]) from error


def as_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array of numbers; spans of time become seconds.

    Raises:
        ValueError: *values* are booleans, complex numbers, dates or no numbers at all.
    """
    if values.dtype.kind == "m":
        return np.asarray(values / np.timedelta64(1, "s"))
    if values.dtype.kind not in "iuf":
        raise ValueError(f"values of type {values.dtype} instead of numbers")
    return values


def nested_numbers(values: object) -> NDArray[Any]:
    """Return nested lists of JSON as an array of numbers.

    Raises:
        ValueError: the lists differ in length, or hold something else than numbers.
    """
    objects = np.asarray(values, object)
    others = {*map(type, objects.flat)} - {int, float}
    if others:
        names = ", ".join(sorted(kind.__name__ for kind in others))
        raise ValueError(f"values of type {names} instead of numbers, or lists of different lengths")
    return np.asarray(objects.astype(float))


def as_single(values: ArrayLike) -> NDArray[np.float32]:
    """Return numbers with 32 bits; those beyond are infinite, without a warning.

    >>> as_single([1.5, -1e300]).tolist()
    [1.5, -inf]
    """
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float32)


def lossy_columns(values: NDArray[Any], kept: NDArray[np.float32]) -> list[int]:
    """Return the columns in which numbers of 32 bits keep less than half of the different values.

    Args:
        values: numbers, ``[rows, columns]``.
        kept: the same numbers with 32 bits.
    """
    if values.dtype.itemsize <= 2 or values.dtype == np.float32 or not values.size:
        return []
    span = values.max(axis=0).astype(float) - values.min(axis=0)
    step = np.spacing(np.abs(kept).max(axis=0)).astype(float)
    narrow = np.flatnonzero((span > 0.0) & (span < _MANY_STEPS * step))
    return [int(column) for column in narrow if 2 * len(np.unique(kept[:, column])) < len(np.unique(values[:, column]))]
