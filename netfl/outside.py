"""Classes of the user's own, by the name ``package.module:Class``: the one way in which a scenario runs other code.

Who sets the environment variable ``NETFL_NO_PLUGINS`` has every such name refused before anything is imported;
processes and clusters that a command starts are told.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from netfl.errors import suggest

CLOSED = "NETFL_NO_PLUGINS"
"""The environment variable that, set to anything, has models of the user's own refused."""


@contextmanager
def refused() -> Iterator[None]:
    """Refuse models of the user's own as long as this lasts, in processes that are started too.

    >>> with refused():
    ...     named("some.package:Class")
    Traceback (most recent call last):
    netfl.outside.OutsideError: is not imported: code besides netfl's own is refused
    """
    before = os.environ.get(CLOSED)
    os.environ[CLOSED] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[CLOSED]
        else:
            os.environ[CLOSED] = before


class OutsideError(Exception):
    """Something of the user's own cannot be used.

    Args:
        problem: what is wrong with it.
        remedy: what would do.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(problem)


def named(name: str) -> Any:
    """What *name* names; its module may lie in the current folder, which is looked through last, and only from here.

    Raises:
        OutsideError: there is no such module, it cannot be imported, or holds nothing of that name; or all are refused.
    """
    package, _, called = name.partition(":")
    if os.environ.get(CLOSED):
        remedy = f"read what it does; if you trust it, leave out --no-plugins, or unset {CLOSED}"
        raise OutsideError("is not imported: code besides netfl's own is refused", remedy)
    if not (package and called):
        raise OutsideError("cannot be imported: it is no package.module:Class", "name the module and the class")
    if "" not in sys.path:
        sys.path.append("")
    try:
        module = importlib.import_module(package)
    except Exception as error:  # whatever the user's module does when it is imported
        if isinstance(error, ModuleNotFoundError) and f"{package}.".startswith(f"{error.name}."):
            remedy = "is it in this folder, or its package installed, or on PYTHONPATH?"
            raise OutsideError(f"cannot be imported: there is no module '{error.name}'", remedy) from error
        problem = f"cannot be imported: '{package}' is there, but is broken: {told(error)}{_place(error)}"
        raise OutsideError(problem, "mend it") from error
    if not hasattr(module, called):
        there = [one for one, found in vars(module).items() if inspect.isclass(found) and found.__module__ == package]
        problem = f"cannot be imported: '{package}' is there, but has no class '{called}'"
        raise OutsideError(problem, suggest(called, there))
    return getattr(module, called)


def told(error: Exception) -> str:
    """An error on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _place(error: Exception) -> str:
    """Where in the user's files it happened, if the error does not say so itself."""
    _, _, *frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith("<frozen")]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
