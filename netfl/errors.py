"""Errors that netfl raises, each with what the user can do.

`NetflError` is the base.  `ScenarioError` holds all errors of a scenario, `ModelError` names the model, user and
simulated time of a failure, and `MachineError` is a failure of the machine, such as a full disk.  `NetflWarning` is no
error: Python gives it as a warning.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path, PurePath

from netfl.core.synonyms import meanings

__version__ = "0.2.0"
"""The version of netfl, by semantic versioning.  It is stated here alone, in a module that imports nothing slow."""


CONTROLS = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
"""Characters that a name must not have, for a class of a regular expression: control characters, among them those of
terminals (C0, C1), marks that reorder text, and separators of lines."""
_UNSAFE = re.compile(f"[{CONTROLS}\ud800-\udfff]")
_UNSAFE_IN_LINES = re.compile(f"(?![\t\n])[{CONTROLS}\ud800-\udfff]")


def printable(text: str, *, is_line: bool = False) -> str:
    r"""Return *text* with escapes such as ``\x1b`` in place of characters that change what a screen shows.

    All text from files that netfl shows passes through here: `Fault` and `netfl.core.screen`.

    Args:
        text: any text.
        is_line: escape ends of lines and tabs, too.

    >>> printable("name\x1b[31m\n"), printable("a\nb", is_line=True)
    ('name\\x1b[31m\n', 'a\\nb')
    """
    unsafe = _UNSAFE if is_line else _UNSAFE_IN_LINES
    return unsafe.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


class NetflError(Exception):
    """Base of all errors that netfl raises on purpose; ``exit_code`` is the exit code of the command line."""

    exit_code = 1


class NetflWarning(UserWarning):
    """Warning about a valid scenario: a value that is probably not intended, with what to check."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One error in a scenario.

    Args:
        key: dotted key, such as ``access.mac.probability``; relative to the model that reports it.
        problem: the problem in words.
        value: the wrong value; ``None`` if a value is missing.
        remedy: what to do.
        where: ``file:line`` or the option that set the key; filled in by the scenario loader.
    """

    key: str
    problem: str
    value: object = None
    remedy: str = ""
    where: str = ""

    def under(self, prefix: str) -> Fault:
        """Return the error with *prefix* before its key."""
        return replace(self, key=".".join(part for part in (prefix, self.key) if part))

    def __str__(self) -> str:
        shown = "" if self.value is None else f" ({_short(self.value)})"
        head = ": ".join(part for part in (self.where, self.key) if part)
        tail = f"; {self.remedy}" if self.remedy else ""
        text = f"{self.problem}{shown}{tail}"
        if head:
            text = f"{head}: {text}"
        return printable(text, is_line=True)


class ScenarioError(NetflError):
    """Unusable scenario, option or folder; ``faults`` holds all errors."""

    exit_code = 2

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__(self.faults)  # what pickle, and SimPy for the error of a process, makes a copy from

    def __str__(self) -> str:
        return "\n".join(map(str, self.faults))


class ModelError(NetflError):
    """Failure of a model during a run; the cause is chained.

    Args:
        model: the model's kind or the learner's name.
        problem: what happened.
        user: the user concerned, if any.
        time_s: the simulated time in seconds, if known.
    """

    def __init__(self, model: str, problem: str, user: int | None = None, time_s: float | None = None) -> None:
        self.model = model
        self.problem = problem
        self.user = user
        self.time_s = time_s
        super().__init__(model, problem, user, time_s)  # what pickle, and SimPy, makes a copy from

    def __str__(self) -> str:
        whom = "" if self.user is None else f", user {self.user}"
        when = "" if self.time_s is None else f", at {self.time_s:.6g} s of simulated time"
        return f"{self.model}{whom}{when}: {self.problem}"


class PluginCallError(ModelError):
    """Failure of a method or a property of a model from outside netfl; the chained cause has no frames of netfl above.

    It is raised where the model is called, so that no caller blames itself; see `netfl.core.plugins.Overridable`.
    """

    FAILS = " fails: "
    """What is between the member and its error in the problem."""

    @property
    def cause(self) -> str:
        """The error of the member as one line, with its file and line."""
        return self.problem.partition(self.FAILS)[2]

    def at(self, time_s: float) -> PluginCallError:
        """Return the failure with its simulated time, unless it has one."""
        if self.time_s is not None:
            return self
        located = PluginCallError(self.model, self.problem, self.user, time_s)
        located.__cause__ = self.__cause__
        return located


def is_explained(error: Exception) -> bool:
    """Return whether an *error* of a model tells its user enough.

    A caller knows more than a `PluginCallError`: the key of the model, and what it was asked for.
    """
    return isinstance(error, NetflError) and not isinstance(error, PluginCallError)


class MachineError(NetflError):
    """Failure of the machine: no space, no permission, an unreadable file."""


def describe_os_error(error: OSError, path: object) -> str:
    """Return the file that an *error* of the system names, or else *path*, and the reason.

    A folder that refuses access to a file is named in its place.

    >>> describe_os_error(PermissionError(13, "Permission denied", "a.csv"), "folder")
    'a.csv: Permission denied'
    """
    return f"{refusing_path(error, error.filename or path)}: {error.strerror or str(error) or type(error).__name__}"


def refusing_path(error: Exception, path: object) -> object:
    """Return the outermost folder of *path* that refuses the access whose *error* is given, or *path* itself."""
    if isinstance(error, PermissionError) and isinstance(path, str | os.PathLike):
        for folder in reversed(Path(path).parents):
            if folder.is_dir() and not os.access(folder, os.X_OK):
                return folder
    return path


def cannot_write(error: OSError, path: object) -> MachineError:
    """Return the error that a file or a folder at *path* cannot be written: *error* is the reason."""
    return MachineError(f"cannot write {describe_os_error(error, path)}; {os_error_remedy(error)}")


def os_error_remedy(error: OSError) -> str:
    """Return what helps against an *error* of the system at a file that netfl writes or reads."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "free some space on this disk, or choose a folder on another one"
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return "check its permissions, or choose another folder"
    if error.errno == errno.ENAMETOOLONG:
        return "choose a shorter name"
    return "check the path, or choose another one"


def suggest(word: str, known: Sequence[str]) -> str:
    """Return a hint for a misspelt *word*: the one of *known* that is meant, or all of them."""
    near = find_meant(word, known) or next(iter(get_close_matches(word, known, n=1, cutoff=0.6)), "")
    return f"did you mean '{near}'?" if near else f"known: {', '.join(known) or 'none'}"


def find_meant(word: str, known: Sequence[str]) -> str:
    """Return the one of *known* that *word* surely means: a synonym, or a word that is almost equal; or nothing.

    >>> find_meant("FedAvg", ["average", "relay"]), find_meant("user", ["users"]), find_meant("mac", ["name"])
    ('average', 'users', '')
    """
    for meaning in meanings(word):
        if meaning in known:
            return meaning
    return next(iter(get_close_matches(word, known, n=1, cutoff=0.8)), "")


@contextmanager
def model_errors(model: str, time_s: float) -> Iterator[None]:
    """Raise a `ModelError` that names the model and the time, with the original exception as its cause.

    A lack of memory, which is no error of the model, is a `MachineError`.
    """
    try:
        yield
    except PluginCallError as failure:
        raise failure.at(time_s) from failure.__cause__
    except (NetflError, OSError):
        raise
    except Exception as error:
        located = ModelError(model, f"{type(error).__name__}: {error}", time_s=time_s)
        if lacks_memory(error):
            raise MachineError(f"not enough memory: {located}; use fewer users, replicas or learners") from error
        raise located from error


def lacks_memory(error: Exception) -> bool:
    """Return whether *error* is a lack of memory, for which torch raises errors of its own: on CPUs a RuntimeError."""
    is_of_torch = isinstance(error, RuntimeError) and re.search(r"out of memory|can't allocate memory", str(error))
    return isinstance(error, MemoryError) or bool(is_of_torch)


@contextmanager
def prefix_faults(key: str) -> Iterator[None]:
    """Put *key* before the keys of all errors raised inside."""
    try:
        yield
    except ScenarioError as error:
        raise ScenarioError([fault.under(key) for fault in error.faults]) from error


def _short(value: object) -> str:
    """Return *value* in one short line; a path keeps its end, which names the file."""
    limit = 80
    if isinstance(value, str | PurePath) and os.sep in str(value):
        limit = 400
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        text = "too long to print"
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
