"""Reference page of the command line, generated from the commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand

from fromcode import words
from netfl.cli import app

_FLAG = re.compile(r"(?<![`\w-])(--[a-z][\w-]*)(?!`)")
"""An option in the text of another one."""


def page() -> str:
    """Return the page of all commands with their arguments and options."""
    parts = [part for name, command in commands() for part in _section(name, command)]
    return words.page(
        "Commands",
        "The exit code is 0 after success, 1 if a run or the machine failed, 2 for bad input, and 130 after an "
        "interruption, such as Ctrl-C.  All errors of the input are reported.  `-h` prints the help of a command, "
        "`netfl --version` the version.",
        *parts,
    )


def commands() -> Iterator[tuple[str, TyperCommand]]:
    """Yield each command with its full name, such as ``netfl data fetch``."""
    yield from _below("netfl", typer.main.get_command(app))


def _below(name: str, command: object) -> Iterator[tuple[str, TyperCommand]]:
    """Yield the commands of a group, or the command itself."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command  # type: ignore[misc]
        return
    for word, one in inner.items():
        yield from _below(f"{name} {word}", one)


def _section(name: str, command: TyperCommand) -> Iterator[str]:
    """Yield the parts of the section of a command."""
    arguments = [one for one in command.params if isinstance(one, TyperArgument)]
    options = [one for one in command.params if not isinstance(one, TyperArgument)]
    yield f"## {name}"
    yield words.prose(command.help or "")
    yield words.code(" ".join([name, *map(_place, arguments), *(["[OPTION]..."] if options else [])]), "text")
    if arguments:
        yield words.table(
            ("argument", "meaning"), [(words.literal(_place(one)), words.line(one.help or "")) for one in arguments]
        )
    if options:
        rows = [_option(option) for option in options]
        if any(default for _, default, _ in rows):
            yield words.table(("option", "default", "meaning"), rows)
        else:
            yield words.table(("option", "meaning"), [(option, meaning) for option, _, meaning in rows])


def _place(argument: TyperArgument) -> str:
    """Return an argument as a usage line shows it."""
    shown = argument.metavar or (argument.name or "").upper()
    return shown if argument.required else f"[{shown}]"


def _option(option: Any) -> tuple[str, str, str]:
    """Return the table row of an option."""
    flag = option.is_flag
    shown = ", ".join(option.opts) + ("" if flag else f" {option.metavar or _kind(option)}")
    repeated = ", may be repeated" if option.multiple else ""
    default = "" if flag or option.default is None else words.literal(str(option.default))
    return words.literal(shown) + repeated, default, _FLAG.sub(r"`\1`", words.line(option.help or ""))


def _kind(option: Any) -> str:
    """Return the type of an option; its attribute depends on the version of typer."""
    descriptor = getattr(option, "type_descriptor", None)
    name = descriptor.annotation.__name__ if descriptor is not None else option.type.name.replace(" range", "")
    return {"int": "INTEGER", "str": "TEXT"}.get(name, name.upper())
