"""Usage errors of the command line, such as an unknown option: one line each, with a remedy, as all other errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from netfl.errors import printable, suggest

_UsageError: Any = typer.BadParameter.__base__
"""The usage error of the click that typer is built on."""

_COMMANDS_MEANT = {
    "simulate": ("run", "trace"), "start": ("run",), "train": ("run",), "execute": ("run",), "continue": ("resume",),
    "restart": ("resume",), "validate": ("check",), "lint": ("check",), "test": ("check",), "diagnose": ("ram",),
    "analyse": ("ram",), "analyze": ("ram",), "explain": ("ram",), "plot": ("report",), "show": ("report",),
    "compare": ("report",), "init": ("new",), "create": ("new",), "add": ("new",), "scaffold": ("new",),
    "models": ("list",), "kinds": ("list",), "ls": ("list",), "examples": ("scenarios",), "datasets": ("data",),
    "download": ("data",), "grid": ("sweep",), "tune": ("sweep",), "optimize": ("sweep",), "csv": ("export",),
    "replicas": ("extend",), "info": ("version",), "get": ("fetch",),
}  # fmt: skip
"""Word of other programs → the commands for the same."""

_EXAMPLES = {
    "SCENARIO": "rural_outage", "SCENARIO...": "rural_outage", "DIR": "runs/rural_outage-001",
    "DIR...": "runs/rural_outage-001", "DIR_OR_TABLE": "runs/rural_outage-001", "family": "channel",
    "data set": "mnist", "INTEGER": "5", "MODULE[:SERVER,CLIENT]": "my_app",
    "FILE": "orbits.yaml", "LOG": "network.log", "LOG...": "network.log", "FOLDER": "runs/recorded",
    "TABLE": "table.csv",
}  # fmt: skip
"""Example of each required argument and option, by its metavar."""


class Commands(TyperGroup):
    """A group of commands whose usage errors are one line each, with a remedy, as all other errors are."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Read the options before the command."""
        with _usage_errors_as_lines():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with _usage_errors_as_lines():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the first of *args* names; an unknown one gets a suggestion."""
        if args:
            word = args[0]
            if self.get_command(ctx, word) is None and not word.startswith("-"):
                raise _UsageError(f"no such command ('{word}'); {self._command_remedy(word)}", ctx)
        return super().resolve_command(ctx, args)

    def _command_remedy(self, word: str) -> str:
        known = [*self.commands]
        meant = [name for name in _COMMANDS_MEANT.get(word.lower(), ()) if name in known]
        if meant:
            return f"did you mean {' or '.join(map(repr, meant))}?"
        return suggest(word, known)


@contextmanager
def _usage_errors_as_lines() -> Iterator[None]:
    """Print a usage error as one line and exit; a group without a command prints its help."""
    try:
        yield
    except _UsageError as error:
        if not error.format_message():
            raise
        command = "netfl" if error.ctx is None else error.ctx.command_path
        typer.echo(printable(f"{command}: {_usage_problem(error, command)}", is_line=True), err=True)
        raise typer.Exit(error.exit_code) from None


def _usage_problem(error: Any, command: str) -> str:
    """Return the problem and the remedy of a usage error."""
    parameter: Any = getattr(error, "param", None)
    if hasattr(error, "param_type"):  # a missing argument or option
        return f"{_parameter_name(parameter)}: missing; write for example: {_example(command, error.ctx)}"
    if parameter is not None:
        problem = str(error.message).rstrip(".")
        return f"{_parameter_name(parameter)}: {problem}{_help_remedy(problem, command)}"
    if hasattr(error, "possibilities"):  # an unknown option
        remedy = _option_remedy(error) or f"see {command} --help"
        return f"no such option: {error.option_name}; {remedy}"
    message: str = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    if message.endswith("requires an argument"):
        return f"{message}; write its value after it"
    return f"{message}{_help_remedy(message, command)}"


def _help_remedy(message: str, command: str) -> str:
    """Return the remedy of a usage error that has none of its own."""
    if "; " in message:
        return ""
    return f"; see {command} --help"


def _parameter_name(parameter: Any) -> str:
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.name.upper())


def _example(command: str, context: Any) -> str:
    """Return an example of a command with its required arguments and options, of which *context* has those given."""
    words = [command]
    options = []
    for parameter in context.command.params:
        if not parameter.required:
            continue
        name = str(parameter.metavar or parameter.name)
        if command == "netfl data fetch":
            name = "data set"
        if parameter.param_type_name == "option":
            options.append(f"{parameter.opts[0]} {_EXAMPLES[name]}")
            continue
        value = context.params.get(parameter.name)
        if isinstance(value, str | Path):
            words.append(str(value))
        elif name == "name":
            words.append(f"my_{context.params.get('family', 'channel')}")
        else:
            words.append(_EXAMPLES[name])
    return " ".join([*words, *options])


def _option_remedy(error: Any) -> str:
    """Return what a user may mean that writes an unknown option: another option, or a key of the scenario."""
    options: list[str] = []
    if error.ctx is not None:
        for parameter in error.ctx.command.params:
            options += parameter.opts
    words = [name.lstrip("-") for name in options]
    word = error.option_name.lstrip("-")
    if "set" in words:
        from netfl.scenario.scenario import Scenario

        near = get_close_matches(word, [*Scenario.model_fields, *words], n=1, cutoff=0.8)
        if near and near[0] not in words:
            return f"did you mean --set {near[0]}=VALUE?"
    near_options = get_close_matches(f"--{word}", options, n=1, cutoff=0.7)
    if near_options:
        return f"did you mean {near_options[0]}?"
    return ""
