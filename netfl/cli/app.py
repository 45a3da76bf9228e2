"""The command-line application, and single arguments and options that commands share; `options` has groups."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from netfl.cli.usage_errors import Commands
from netfl.core.remedies import COMMAND_LINE
from netfl.errors import __version__, printable

app = typer.Typer(
    name="netfl",
    cls=Commands,
    help="A discrete-event network simulator coupled to federated learning.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print *text*, which may have names from files, on the standard output or error."""
    typer.echo(printable(text), err=err, nl=nl)


def local(text: str) -> Path:
    """Parse a path argument.

    Raises:
        BadParameter: the path is not a local one.
    """
    from netfl.errors import ScenarioError
    from netfl.files import local_path

    try:
        return local_path(text)
    except ScenarioError as error:
        fault = error.faults[0]
        raise typer.BadParameter(f"{fault.problem} ('{text}'); {fault.remedy}") from None


def path_argument(metavar: str, meaning: str) -> Any:
    """Return an argument that is a local path."""
    return typer.Argument(parser=local, metavar=metavar, help=meaning, show_default=False)


def path_option(metavar: str, meaning: str) -> Any:
    """Return an option that is a local path."""
    return typer.Option(parser=local, metavar=metavar, help=meaning)


def number_option(
    *names: str, kind: type[int] | type[float] = int, minimum: float | None = None, **settings: Any
) -> Any:
    """Return an option that is a number, written as in a scenario.

    Args:
        names: of the option; by default that of its parameter.
        kind: whole numbers or all.
        minimum: the smallest value; by default there is none.
        settings: other settings of `typer.Option`.
    """
    metavar = "INTEGER" if kind is int else "FLOAT"
    return typer.Option(*names, parser=_number_parser(kind, minimum), metavar=metavar, **settings)


def _number_parser(kind: type[int] | type[float], minimum: float | None) -> Callable[[str | int | float], int | float]:
    """Return a parser that refuses what Python accepts beside plain numbers, such as ``1_0``, ``+8`` and ``nan``."""
    if kind is int:
        pattern = r"-?[0-9]{1,4000}"  # Python refuses to read longer ones
        meaning = "a whole number, such as 8"
    else:
        pattern = r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?"
        meaning = "a number, such as 0.5"

    def parse(given: str | int | float) -> int | float:
        text = str(given)  # a default is a number
        if not re.fullmatch(pattern, text):
            raise typer.BadParameter(f"{text!r} is not {meaning}")
        value = kind(text)
        if minimum is not None and value < minimum:
            raise typer.BadParameter(f"{text} is less than {minimum}; write {minimum} or more")
        return value

    return parse


ScenarioFile = Annotated[Path, path_argument("SCENARIO", "A scenario file.")]
Folder = Annotated[Path, path_argument("DIR", "A run directory.")]
Out = Annotated[Path | None, path_option("DIR", "The run directory. Default: the next free one below runs/.")]
Device = Annotated[str, typer.Option(help="The device for training: auto, cpu, cuda or cuda:N.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")]
Report = Annotated[bool, typer.Option("--report", help="Write a report at the end.")]


def _close(context: typer.Context, asked: bool) -> bool:
    """Refuse the user's own models until the command ends."""
    if asked:
        from netfl.core.plugins import plugins_disabled

        context.with_resource(plugins_disabled())
    return asked


NoPlugins = Annotated[
    bool,
    typer.Option(
        "--no-plugins",
        callback=_close,
        help="Refuse models written as package.module:Class, so only netfl's own code runs.",
    ),
]


def _version(asked: bool) -> None:
    if asked:
        echo(f"netfl {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """A discrete-event network simulator coupled to federated learning."""
    os.environ[COMMAND_LINE] = "1"
    # no function of netfl, in which Ctrl-C would leave a command that has said everything without its last line
    context.call_on_close(partial(os.environ.pop, COMMAND_LINE, None))
