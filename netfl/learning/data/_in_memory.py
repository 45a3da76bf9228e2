"""Examples in memory, which a scenario in Python has: their arrays, the problems of these, and their file."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netfl.errors import Fault, ScenarioError
from netfl.files import store_object
from netfl.files.cells import parse_identifiers

_ROLES = {
    "x": ("x", "image", "img", "pixel_values", "features", "input_ids"),
    "label": ("label", "labels", "y", "target"),
    "user": ("user",),
}
"""Keys under which items of a data set have their parts; the first that exists is used."""


def store_examples(options: dict[str, Any]) -> Mapping[str, Any]:
    """Store examples in memory as files, and return the data of kind ``arrays`` that reads them.

    Args:
        options: the examples under the key ``examples``, others under ``test``, and keys of the data.

    Raises:
        ScenarioError: the arrays are not examples.
    """
    parts = {"file": stack(options.pop("examples"))}
    if "test" in options:
        parts["test"] = stack(options.pop("test"))
    for key, part in parts.items():
        for problem, remedy in _find_problems(part, parts["file"], options):
            dotted_key = "data.test" if key == "test" else "data"
            raise ScenarioError([Fault(dotted_key, problem, None, remedy)])
    files: dict[str, Any] = {key: _store(part) for key, part in parts.items()}
    if options.get("targets") is None:
        files["labels"] = 1 + max(int(part["label"].max(initial=1)) for part in parts.values())
    return {"kind": "arrays", **files, "features": [*parts["file"]["x"].shape[1:]], **options}


def stack(examples: Any) -> dict[str, NDArray[Any]]:
    """Return examples in memory as arrays by name: arrays in a tuple or mapping, or items that are tuples or mappings.

    Images of Pillow become ``[channels, rows, columns]`` with pixels from 0 to 1.
    """
    try:
        if isinstance(examples, Mapping):
            arrays = {role: np.asarray(examples[key]) for role, key in _keys_by_role(examples).items()}
        elif _is_arrays(examples):
            arrays = dict(zip(_ROLES, map(np.asarray, examples), strict=False))
        else:
            values_by_role = _split_items(_read_items(examples))
            arrays = {role: stack_values(values) for role, values in values_by_role.items()}
        if arrays["label"].size == len(arrays["label"]):  # a column [examples, 1]
            arrays["label"] = arrays["label"].reshape(-1)
    except (TypeError, ValueError, KeyError, IndexError) as error:
        problem = f"examples of type {type(examples).__name__} cannot be stacked: {' '.join(str(error).split())}"
        raise ScenarioError(
            [Fault("data", problem, None, "give (x, label), or a Dataset of pairs (x, label)")]
        ) from error
    return arrays


def _is_arrays(examples: Any) -> bool:
    """Return whether *examples* are the arrays ``(x, label)`` or ``(x, label, user)``, not two or three items."""
    if not isinstance(examples, tuple | list) or len(examples) not in {2, 3}:
        return False
    return hasattr(examples[0], "__len__") and not isinstance(examples[0], tuple | Mapping)


def _read_items(examples: Any) -> list[Any]:
    if not hasattr(examples, "__getitem__"):
        raise TypeError("it has no items by number; a DataLoader has the data set as loader.dataset")
    return [examples[index] for index in range(len(examples))]


def _split_items(items: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the parts of all *items* by role."""
    first = items[0]
    if isinstance(first, Mapping):
        return {role: [item[key] for item in items] for role, key in _keys_by_role(first).items()}
    if not isinstance(first, tuple | list):
        raise TypeError(f"an item is a {type(first).__name__}, not (x, label)")
    if len(first) not in {2, 3}:
        raise ValueError(f"an item has {len(first)} parts, which are not (x, label) or (x, label, user)")
    parts = map(list, zip(*items, strict=True))
    return dict(zip(_ROLES, parts, strict=False))


def _keys_by_role(parts: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the key of each role that a mapping has."""
    keys = {}
    for role, names in _ROLES.items():
        present = [name for name in names if name in parts]
        if present:
            keys[role] = present[0]
        elif role != "user":
            stated = ", ".join(map(str, parts))
            raise ValueError(f"it has the keys {stated}, none of which is the {role} ({', '.join(names)})")
    return keys


def stack_values(values: Sequence[Any]) -> NDArray[Any]:
    """Return one array of values: numbers, arrays, tensors, or images of Pillow.

    >>> stack_values([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    return np.stack([_as_array(value) for value in values])


def _as_array(value: Any) -> NDArray[Any]:
    if hasattr(value, "detach"):  # a tensor, which may lie on a GPU
        return np.asarray(value.detach().cpu())
    if isinstance(value, Mapping) or (isinstance(value, tuple | list) and len({np.shape(part) for part in value}) > 1):
        problem = f"x or label is a {type(value).__name__} of {len(value)} parts, and models get one array"
        raise ValueError(f"{problem}: join the parts, such as by torch.cat, and let forward split them")
    if not hasattr(value, "getbands"):
        return np.asarray(value)
    pixels = np.asarray(value, np.float32) / 255  # an image of Pillow
    if pixels.ndim == 2:  # of one channel
        return pixels[None]
    return np.moveaxis(pixels, 2, 0)


def _find_problems(
    arrays: Mapping[str, NDArray[Any]], training: Mapping[str, NDArray[Any]], options: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield the problems of examples in memory, with remedies.  Only the first is taken: what follows it may fail."""
    x = arrays["x"]
    label = arrays["label"]
    labels = options.get("labels")
    tokens = options.get("tokens")
    is_regression = options.get("targets") is not None
    if x.ndim < 2 or not x.size or x.dtype.kind not in "biuf":
        yield f"x is an array {[*x.shape]} of {x.dtype}", "give numbers [examples, *features], such as x[:, None]"
    if x.shape[1:] != training["x"].shape[1:]:
        problem = f"x has examples of shape {[*x.shape[1:]]}, but those for training have {[*training['x'].shape[1:]]}"
        yield problem, "give both the same shape"
    if label.ndim != 1 and not is_regression:
        remedy = (
            "give one label for each example; for one-hot rows that is label.argmax(1); "
            "for a regression, give the number of values under the key 'targets'"
        )
        yield f"label is an array {[*label.shape]}", remedy
    for name, array in arrays.items():
        if array.shape[:1] != x.shape[:1] or (name == "user" and array.ndim != 1):
            remedy = f"give each example one {name}, [{len(x)}]"
            yield f"{name} is an array {[*array.shape]}, but x has {len(x)} examples", remedy
    if label.dtype.kind not in "biuf":
        remedy = "number the labels from 0, such as by numpy.unique(label, return_inverse=True)[1]"
        yield f"label has the type {label.dtype}", remedy
    if problem := _user_problem(arrays.get("user")):
        yield problem, "give each example the number or the name of its user; the third part of an item is the user"
    if problem := value_problem(x, tokens if isinstance(tokens, int) else None):
        yield f"x: {problem}", "correct the value, or remove the example"
    if not is_regression:
        yield from _label_problems(label, labels, is_training=arrays is training)


def _label_problems(label: NDArray[Any], labels: Any, *, is_training: bool) -> Iterator[tuple[str, str]]:
    """Yield the problems of the values of labels, with remedies; *labels* is their number, if it is given."""
    highest = labels - 1 if isinstance(labels, int) else max(1, label.max())
    wrong = label[~_is_whole(label, highest + 1)]
    if wrong.size:
        remedy = "number the labels from 0"
        if label.dtype.kind == "f":
            remedy += "; for a regression, give the number of values of an example under the key 'targets'"
        yield f"label has the value {wrong[0]}, which is none of 0 to {highest}", remedy
    if labels is None and is_training and label.min() > 0:
        remedy = "labels count from 0: subtract 1, or give the number of labels under the key 'labels'"
        yield f"label begins at {label.min()}", remedy


def _user_problem(user: NDArray[Any] | None) -> str:
    """Return the problem of users that are neither whole numbers nor names; empty if there is none."""
    try:
        if user is not None:
            parse_identifiers(user)
    except ValueError as error:
        return str(error)
    return ""


def value_problem(x: NDArray[Any], tokens: int | None) -> str:
    """Return the problem of the first example with a value that no example can have; empty if there is none.

    Args:
        x: numbers, ``[examples, *shape]``.
        tokens: the number of tokens, if examples are rows of tokens.
    """
    if tokens is None:
        is_right = np.abs(x) <= np.finfo(np.float32).max  # also false of NaN
    else:
        is_right = _is_whole(x, tokens)
    wrong = np.argwhere(~is_right)
    if not len(wrong):
        return ""
    first = tuple(wrong[0])
    if tokens is None:
        return f"example {first[0]} (from 0) holds a feature that is no finite number of 32 bits"
    return f"example {first[0]} (from 0) holds {x[first]:g}, which is none of the tokens 0 to {tokens - 1}"


def _is_whole(values: NDArray[Any], count: int) -> NDArray[np.bool_]:
    """Return which *values* are among 0 … count-1."""
    return np.asarray((values >= 0) & (values < count) & (values == np.floor(values)))


def _store(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Store *arrays* as a file by their content, and return its name for a scenario.

    Booleans of Python are stored as 0 and 1, as files have no booleans for numbers.
    """
    numbers = {}
    for name, array in arrays.items():
        numbers[name] = array.astype(np.uint8) if array.dtype == bool else array
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **numbers)
    return str(store_object(content.getvalue(), ".npz"))
