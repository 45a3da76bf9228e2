"""Plug-ins, models from outside netfl: how they are imported, and how failures of their code are reported.

`import_plugin` imports the class that ``package.module:Class`` names.  What such a class overrides raises a
`PluginCallError`, which names the class, whoever calls it: `Overridable` sees to that.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, wraps
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import pydantic
from pydantic import PydanticUserError

from netfl.core.environment import variable_set
from netfl.core.kinds import is_built_in, kind_of
from netfl.core.remedies import argument, is_command_line
from netfl.errors import NetflError, PluginCallError, lacks_memory, suggest

_Result = TypeVar("_Result")

CLOSED = "NETFL_NO_PLUGINS"
"""Environment variable that, set to any value, disables models from outside netfl."""
SESSION = "netfl_session"
"""Name of a module that only `sys.modules` has: the objects of this process that no module has under their names."""
_FROZEN = "<frozen"
"""Beginning of the file names of Python's own import machinery in a traceback."""


class PluginError(Exception):
    """A model from outside netfl cannot be used.

    Args:
        problem: the problem in words.
        remedy: what to do.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(problem)


def is_plugin(model: object) -> bool:
    """Return whether *model* is from outside netfl."""
    return not is_built_in(type(model))


@contextmanager
def plugins_disabled() -> Iterator[None]:
    """Refuse models from outside netfl inside this context, also in processes that it starts.

    >>> with plugins_disabled():
    ...     import_plugin("some.package:Class")
    Traceback (most recent call last):
    netfl.core.plugins.PluginError: is not imported: only netfl's own code is allowed
    """
    with variable_set(CLOSED):
        yield


def name_object(value: Any) -> str:
    """Return a name by which `import_plugin` finds a function; one of a notebook or a lambda only in this process.

    >>> import_plugin(name_object(lambda x: 2 * x))(3)
    6
    """
    package = value.__module__
    name = value.__qualname__
    if getattr(sys.modules.get(package), name, None) is value:
        return f"{package}:{name}"
    name = f"{value.__name__.strip('<>')}_{id(value):x}"  # unique, as the module keeps the object
    session = sys.modules.setdefault(SESSION, ModuleType(SESSION))
    setattr(session, name, value)
    return f"{SESSION}:{name}"


def import_plugin(name: str) -> Any:
    """Import the object that ``package.module:Class`` names; the current folder is searched last.

    Raises:
        PluginError: the module is missing or broken, it has no such name, or plug-ins are disabled.
    """
    package, _, called = name.partition(":")
    _check_allowed()
    if not (package and called):
        raise PluginError(
            "cannot be imported: it is not of the form package.module:Class", "give the module and the class"
        )
    if "" not in sys.path:
        sys.path.append("")  # the current folder
    if package in {"__main__", SESSION} and not hasattr(sys.modules.get(package), called):
        problem = "cannot be imported: only the notebook or script that made the scenario has it"
        raise PluginError(problem, "define it in a file, and import it from there")
    module = _import_module(package)
    if not hasattr(module, called):
        classes = [key for key, item in vars(module).items() if inspect.isclass(item) and item.__module__ == package]
        problem = f"cannot be imported: '{package}' exists, but has no '{called}'"
        raise PluginError(problem, suggest(called, classes))
    return getattr(module, called)


def _check_allowed() -> None:
    """Raise an error if plug-ins are disabled."""
    if not os.environ.get(CLOSED):
        return
    switch = ""
    if is_command_line():
        switch = f"leave out {argument('no_plugins')}, or "
    remedy = f"read its code; if you trust it, {switch}unset {CLOSED}"
    raise PluginError("is not imported: only netfl's own code is allowed", remedy)


def _import_module(package: str) -> ModuleType:
    """Import the module of a plug-in; whatever it raises is a `PluginError`."""
    try:
        return importlib.import_module(package)
    except Exception as error:  # whatever the user's module does when it is imported
        if isinstance(error, ModuleNotFoundError) and f"{package}.".startswith(f"{error.name}."):
            problem = f"cannot be imported: there is no module '{error.name}'"
            remedy = "run in its folder, install its package, or add its folder to PYTHONPATH"
        elif isinstance(error, PydanticUserError) and error.code == "model-field-missing-annotation":
            attribute = re.findall("`(.*?)`", str(error))[0]
            key, _, value = attribute.partition(" = ")
            problem = f"cannot be imported: in '{package}' the attribute '{attribute}' has no type{_place(error)}"
            remedy = f"write {key}: ClassVar = {value}, or a type in place of ClassVar for a key of the scenario"
        else:
            problem = f"cannot be imported: '{package}' exists, but fails: {one_line(error)}{_place(error)}"
            remedy = "fix it"
        raise PluginError(problem, remedy) from error


def _place(error: Exception) -> str:
    """Return the line at which the import of a plug-in failed, in parentheses; empty if it is not known."""
    _, _, *frames = traceback.extract_tb(error.__traceback__)  # without `_import_module` and what it calls
    class_machinery = (_FROZEN, str(Path(pydantic.__file__).parent), str(Path(__file__).parent))
    frames = [frame for frame in frames if not frame.filename.startswith(class_machinery)]
    if not frames:
        return ""
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"


class Overridable:
    """Base of the classes that users derive from: models, and what they open, such as `netfl.network.channel.LinkGain`.

    What a class from outside netfl overrides raises a `PluginCallError`, which names the class, whoever calls it.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if is_built_in(cls):
            return
        overridden = declared_names(cls.__bases__) & vars(cls).keys()
        for name in overridden:
            setattr(cls, name, _with_failures(vars(cls)[name], kind_of(cls), name))


def declared_names(bases: Iterable[type[Any]]) -> set[str]:
    """Return the names that classes of netfl among *bases* and theirs declare: those that a derived class overrides."""
    classes = {each for base in bases for each in base.__mro__ if is_built_in(each)}
    return {name for each in classes for name in vars(each) if not name.startswith("__")}


def _with_failures(member: Any, kind: str, name: str, what: str = "method") -> Any:
    """Return a *member* of a class from outside netfl, *kind*, whose exceptions are raised as a `PluginCallError`."""
    if isinstance(member, property):
        return member.getter(_with_failures(member.fget, kind, name, "property"))
    if isinstance(member, cached_property):
        cached = cached_property(_with_failures(member.func, kind, name, "property"))
        cached.__set_name__(Overridable, name)
        return cached
    if isinstance(member, classmethod | staticmethod):
        return type(member)(_with_failures(member.__func__, kind, name))
    if not inspect.isfunction(member):
        return member

    def failure(error: Exception, args: tuple[object, ...]) -> Exception:
        """Return the error to raise; the traceback of its cause begins in the member."""
        if isinstance(error, NetflError) or lacks_memory(error):
            return error
        assert error.__traceback__ is not None
        error.__traceback__ = error.__traceback__.tb_next  # without the frame of `call` or `generate`
        caller_kind = kind
        if args and isinstance(args[0], Overridable):
            caller_kind = kind_of(type(args[0]))  # a class that is derived from the plug-in's
        problem = f"its {what} '{name}'{PluginCallError.FAILS}{_line_in(error, member)}"
        located = PluginCallError(caller_kind, problem)
        located.__cause__ = error
        return located

    if inspect.isgeneratorfunction(member):

        @wraps(member)
        def generate(*args: Any, **options: Any) -> Any:
            try:
                return (yield from member(*args, **options))
            except Exception as error:
                raise failure(error, args)  # noqa: B904 - it has its cause

        return generate

    @wraps(member)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return member(*args, **options)
        except Exception as error:
            raise failure(error, args)  # noqa: B904 - it has its cause

    return call


def try_call(model: object, call: Callable[[], _Result]) -> tuple[_Result | None, str]:
    """Call a method of a model from outside netfl, which may raise anything.

    Returns:
        The result, and an empty text; or ``None``, and the error as one line.
    """
    try:
        return call(), ""
    except Exception as error:
        return None, one_line_of(error, model)


def one_line(error: Exception) -> str:
    """Return an error as one line; a `PluginCallError` stands for its cause."""
    if isinstance(error, PluginCallError):
        return error.cause
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def one_line_of(error: Exception, model: object) -> str:
    """Return an error as one line, with the last line of the module of *model* that was running."""
    if isinstance(error, PluginCallError):
        return error.cause
    return _line_in(error, type(model))


def _line_in(error: Exception, part: type | Callable[..., object]) -> str:
    """Return an error as one line, with the last line of the module of a class or function that was running."""
    file = getattr(sys.modules.get(part.__module__), "__file__", None)
    if file is None:  # a notebook has none
        return one_line(error)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if not lines:
        return one_line(error)
    return f"{one_line(error)} ({Path(file).name}, line {lines[-1]})"
