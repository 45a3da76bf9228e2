"""The application that commands are added to, and the arguments and options that they share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from netfl.outside import refused
from netfl.version import __version__

app = typer.Typer(
    name="netfl",
    help="A discrete-event network simulator coupled to federated learning.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ScenarioFile = Annotated[Path, typer.Argument(metavar="SCENARIO", help="A scenario file.", show_default=False)]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Replace one key; the value is read as YAML.")
]
Named = Annotated[list[str] | None, typer.Option("--override", metavar="NAME", help="Apply a block of `overrides`.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Replace the scenario's seed.")]
Out = Annotated[Path | None, typer.Option(help="The run directory; by default the next free one below runs/.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Workers = Annotated[
    int, typer.Option(min=1, help="Processes, of one thread each, that share out the learners and replicas.")
]
Engine = Annotated[str, typer.Option(help="local, for processes of this machine, or ray, for a cluster.")]
Address = Annotated[
    str | None, typer.Option(help="Of --engine ray: the cluster's address, or auto; by default Ray starts here.")
]
Gpus = Annotated[
    float | None, typer.Option(min=0.0, help="Of --engine ray: what share of a GPU a worker is given, 0 by default.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but faults.")]
Report = Annotated[bool, typer.Option("--report", help="Write the report and its picture at the end.")]


def _close(context: typer.Context, asked: bool) -> bool:
    """Refuse models of the user's own until the command ends."""
    if asked:
        context.with_resource(refused())
    return asked


NoPlugins = Annotated[
    bool,
    typer.Option(
        "--no-plugins", callback=_close, help="Refuse models named package.module:Class, so that no other code runs."
    ),
]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.", show_default=False)]


def _version(asked: bool) -> None:
    """Print the version and leave."""
    if asked:
        typer.echo(f"netfl {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """A discrete-event network simulator coupled to federated learning."""
