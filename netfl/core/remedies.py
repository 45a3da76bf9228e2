"""Words of messages for their reader: those of the command line, or those of Python.

A library function does not know who reads its errors.  It names an argument, a change of the scenario or a further
command by the functions of this module, which return the option or the argument, `netfl resume runs/a` or
`netfl.resume('runs/a')`.  `command_line` selects the words; by default they are those of Python.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from netfl.core.environment import variable_set

COMMAND_LINE = "NETFL_COMMAND_LINE"
"""Environment variable that, set to any value, selects the words of the command line, also in processes that a command
starts."""

_FUNCTIONS = ("extend", "open_run", "open_sweep", "resume", "run", "sweep", "trace")
"""Functions of `netfl` that a remedy may name; those that open a folder have no command."""

_SHELL_ONLY = "in a shell, "
"""Words before a command that Python has no function for."""


@contextmanager
def command_line() -> Iterator[None]:
    """Use the words of the command line inside this context.

    >>> with command_line():
    ...     call("resume", "runs/a"), argument("max_update_bits")
    ('netfl resume runs/a', '--max-update-bits')
    """
    with variable_set(COMMAND_LINE):
        yield


def is_command_line() -> bool:
    """Return whether messages have the words of the command line."""
    return bool(os.environ.get(COMMAND_LINE))


def argument(name: str, option: str = "") -> str:
    """Return the *name* of an argument of Python, or its *option*, which by default has the same name.

    >>> argument("max_update_bits"), argument("alphas", "--alpha")
    ('max_update_bits', 'alphas')
    """
    if not is_command_line():
        return name
    return option or f"--{name.replace('_', '-')}"


def given(name: str, value: object) -> str:
    """Return how a user gives the argument *name* a value.

    >>> given("level", 0.05)
    'level=0.05'
    """
    if not is_command_line():
        return f"{name}={value!r}"
    if value is True:
        return argument(name)
    return f"{argument(name)} {_quoted(value)}"


def changed(key: str, value: object) -> str:
    """Return how a user changes the dotted *key* of a scenario to a value.

    >>> changed("access.mac.probability", 0.1)
    "overrides={'access.mac.probability': 0.1}"
    >>> with command_line():
    ...     changed("tuning", None)
    '--set tuning=null'
    >>> with command_line():
    ...     changed("learners.FedAvg 2.lr", 0.1)
    "--set 'learners.FedAvg 2.lr=0.1'"
    """
    if not is_command_line():
        return f"overrides={{{key!r}: {'…' if value == '…' else repr(value)}}}"
    if value is None:
        value = "null"
    if isinstance(value, bool):
        value = str(value).lower()
    setting = f"{key}={value}"
    if _quoted(setting.replace("…", "")) != setting.replace("…", ""):  # a blank in the name of a learner, for example
        setting = _quoted(setting)
    return f"--set {setting}"


def function(command: str) -> str:
    """Return the name of a command, or of the function of `netfl` that does the same.

    >>> function("run"), function("ram")
    ('netfl.run', 'in a shell, netfl ram')
    """
    if is_command_line():
        return f"netfl {command}"
    if command in _FUNCTIONS:
        return f"netfl.{command}"
    return f"{_SHELL_ONLY}netfl {command}"


def call(command: str, *arguments: str | Path, **options: object) -> str:
    """Return a command with its arguments, or the call of the function of `netfl` that does the same.

    A command without such a function is one for a shell.

    >>> call("extend", "runs/a", replicas=3), call("data fetch", "mnist")
    ("netfl.extend('runs/a', replicas=3)", 'in a shell, netfl data fetch mnist')
    >>> with command_line():
    ...     call("extend", "my runs/a", replicas=3)
    "netfl extend 'my runs/a' --replicas 3"
    """
    if not is_command_line() and command in _FUNCTIONS:
        parts = [repr(str(part)) for part in arguments]
        parts += [f"{name}={value!r}" for name, value in options.items()]
        return f"netfl.{command}({', '.join(parts)})"
    with command_line():  # the options of a command for a shell are written as there
        options_given = [given(name, value) for name, value in options.items()]
    return " ".join([function(command), *map(_quoted, arguments), *options_given])


def _quoted(value: object) -> str:
    """Return *value* as one word of a shell."""
    return shlex.quote(str(value))
