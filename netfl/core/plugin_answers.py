"""Answers of plug-ins: what a method of a model from outside netfl gives is checked before it is used.

A method may fail in any round, or at some distances only.  An answer of another shape would be stretched to all users
silently, and a value that is not a number would only change the results.  Errors name the method, what it gave, and
what to return.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.core.kinds import kind_of
from netfl.core.plugins import one_line_of
from netfl.errors import Fault, ScenarioError, is_explained

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class PluginMethod:
    """A method of a model from outside netfl that is about to be called.

    Args:
        model: the model.
        name: the name of the method.
        remedy: what it should return.
        key: key of the model below the part of the scenario whose errors the caller reports; empty for that part.
        circumstance: when or for what it is called, such as ``", at 3 s of simulated time,"``.
    """

    model: object
    name: str
    remedy: str
    key: str = ""
    circumstance: str = ""

    def answer(self, call: Callable[[], _Result]) -> _Result:
        """Return what *call*, which calls the method, gives.

        Raises:
            ScenarioError: it fails.
        """
        try:
            return call()
        except Exception as error:  # whatever the user's class does
            if is_explained(error):
                raise
            raise self.error(f"fails: {one_line_of(error, self.model)}") from error

    def instance(self, call: Callable[[], object], expected: type[Any]) -> Any:
        """Return what *call* gives.

        Raises:
            ScenarioError: it fails, or does not give an instance of *expected*.
        """
        given = self.answer(call)
        if isinstance(given, expected):
            return given
        raise self.error(f"gives {'None' if given is None else type(given).__name__}")

    def value_of_each(self, call: Callable[[], ArrayLike], count: int, item: str = "users") -> NDArray[Any]:
        """Return what *call* gives as an array.

        Raises:
            ScenarioError: it fails, or does not give one value for each of *count* items, whose name is *item*.
        """
        values: NDArray[Any] = self.answer(lambda: np.asarray(call()))
        if values.shape == (count,):
            return values
        if values.ndim == 0:
            given = "a single number"
        elif values.ndim == 1:
            given = f"{values.size} values"
        else:
            given = f"the shape {[*values.shape]}"
        raise self.error(f"gives {given} for {count} {item}")

    def number_of_each(self, call: Callable[[], ArrayLike], count: int, item: str = "users") -> NDArray[np.float64]:
        """Return what *call* gives as numbers, as `value_of_each` does."""
        return self.value_of_each(lambda: np.asarray(call(), float), count, item)

    def error(self, problem: str, remedy: str | None = None) -> ScenarioError:
        """Return the error of the method: what it did, and what to do if that is not the usual remedy."""
        where = f"{self.name}() of {kind_of(type(self.model))}{self.circumstance}"
        return ScenarioError([Fault(self.key, f"{where} {problem}", None, remedy or self.remedy)])
