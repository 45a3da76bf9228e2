"""Further test sets of a run: the test examples of the same data with other options.  This module is without torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import ValidationError

from netfl.core.spec_errors import faults_of
from netfl.errors import Fault, ScenarioError
from netfl.learning.data import Data, Dataset, Examples
from netfl.streams import Streams

Sets = Mapping[str, Mapping[str, Any]]
"""Options of the data by the name of the test set."""


def vary_data(data: Data, options: Mapping[str, Any]) -> Data:
    """Return *data* with other values of some of its keys.

    Raises:
        ValidationError: there is no such key, or a value is wrong.
    """
    fields = {name: getattr(data, name) for name in type(data).model_fields}
    return type(data).model_validate(fields | dict(options))


def set_faults(data: Data, sets: Sets) -> Iterator[Fault]:
    """Yield the errors of test sets, with keys relative to ``evaluate.sets``."""
    for name, options in sets.items():
        if not options:
            yield Fault(name, "has no option, so that it is the test set of the data", None, "give a key of data")
            continue
        try:
            varied = vary_data(data, options)
        except ValidationError as error:
            yield from (fault.under(name) for fault in faults_of(error))
            continue
        for attribute in ("classes", "shape", "tokens"):
            before = getattr(data, attribute)
            after = getattr(varied, attribute)
            if before != after:
                problem = f"changes the {attribute} of the examples from {before} to {after}, but the model is the same"
                yield Fault(name, problem, None, "leave out the key that does this")


def load_test_sets(data: Data, sets: Sets, dataset: Dataset, streams: Streams) -> Dataset:
    """Return *dataset*, the examples of *data*, with the examples of further test sets.

    Args:
        data: the data.
        sets: the options of each set.
        dataset: the loaded data.
        streams: the streams with which they were loaded.

    Raises:
        ScenarioError: a set equals the test set of the data, as its options change no test example.
    """
    test_sets = {}
    for name, options in sets.items():
        other = vary_data(data, options).load(streams)
        if np.array_equal(other.test_x, dataset.test_x) and np.array_equal(other.test_y, dataset.test_y):
            problem = "has no effect: its test examples are those of the data"
            raise ScenarioError([Fault(f"sets.{name}", problem, None, "give a key that changes them, or remove it")])
        test_sets[name] = Examples(other.test_x, other.test_y, other.test_user)
    if not test_sets:
        return dataset
    return replace(dataset, test_sets=test_sets)


def of_test_set(dataset: Dataset, name: str) -> Dataset:
    """Return *dataset* with the test set *name* in place of its test examples."""
    examples = dataset.test_sets[name]
    return replace(dataset, test_x=examples.x, test_y=examples.y, test_user=examples.user, test_sets={})


def on_validation(dataset: Dataset, validation: Examples) -> Dataset:
    """Return *dataset* with *validation* examples, as they are in the data, in place of its test examples."""
    x = validation.x if validation.data_x is None else validation.data_x
    y = validation.y if validation.data_y is None else validation.data_y
    return replace(dataset, test_x=x, test_y=y, test_user=validation.user, test_sets={})


def thin_tests(dataset: Dataset, stride: int) -> Dataset:
    """Return *dataset* with one of *stride* examples of each test set."""
    tests = _thinned(Examples(dataset.test_x, dataset.test_y, dataset.test_user), stride)
    test_sets = {name: _thinned(examples, stride) for name, examples in dataset.test_sets.items()}
    return replace(dataset, test_x=tests.x, test_y=tests.y, test_user=tests.user, test_sets=test_sets)


def _thinned(examples: Examples, stride: int) -> Examples:
    user = None if examples.user is None else examples.user[::stride]
    return Examples(examples.x[::stride], examples.y[::stride], user)
