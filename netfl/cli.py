"""The command line: reads what the user says, shows what happens, ends with 0 (done), 1 (failed) or 2 (bad input)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from netfl import __version__
from netfl.errors import NetflError
from netfl.guard import check_device, finish, guarded, load

app = typer.Typer(
    name="netfl",
    help="A discrete-event network simulator coupled to federated learning.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Real data sets: what is there, and how to get it.", no_args_is_help=True)
app.add_typer(data_app, name="data")

ScenarioFile = Annotated[Path, typer.Argument(metavar="SCENARIO", help="A scenario file.", show_default=False)]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Replace one key; the value is read as YAML.")
]
Named = Annotated[list[str] | None, typer.Option("--override", metavar="NAME", help="Apply a block of `overrides`.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Replace the scenario's seed.")]
Out = Annotated[Path | None, typer.Option(help="The run directory; by default the next free one below runs/.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but faults.")]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.", show_default=False)]


@app.command()
@guarded
def run(  # noqa: PLR0913, PLR0917 - the options
    scenario: ScenarioFile,
    sets: Sets = None,
    override: Named = None,
    seed: Seed = None,
    out: Out = None,
    device: Device = "auto",
    quiet: Quiet = False,
    report: Annotated[bool, typer.Option("--report", help="Write the report and its picture at the end.")] = False,
) -> None:
    """Run a scenario: network and learners."""
    from netfl import coupling  # noqa: PLC0415 - each command imports what it needs, so that --help is fast
    from netfl.console import watching  # noqa: PLC0415

    loaded = load(scenario, sets, override, seed)
    check_device(device)
    with watching(quiet=quiet) as watch:
        done = coupling.run(loaded, out, device=device, watch=watch)
    finish(done, quiet, report=report)


@app.command()
@guarded
def trace(  # noqa: PLR0913, PLR0917 - the options
    scenario: ScenarioFile,
    sets: Sets = None,
    override: Named = None,
    seed: Seed = None,
    out: Out = None,
    quiet: Quiet = False,
) -> None:
    """Run the network alone: no learning."""
    from netfl import coupling  # noqa: PLC0415
    from netfl.console import watching  # noqa: PLC0415

    loaded = load(scenario, sets, override, seed)
    with watching(quiet=quiet) as watch:
        done = coupling.trace(loaded, out, watch=watch)
    finish(done, quiet)


@app.command()
@guarded
def resume(folder: Folder, device: Device = "auto", quiet: Quiet = False) -> None:
    """Go on with a run after a stop or a crash."""
    from netfl import coupling  # noqa: PLC0415
    from netfl.console import watching  # noqa: PLC0415

    check_device(device)
    with watching(quiet=quiet) as watch:
        done = coupling.resume(folder, device=device, watch=watch)
    finish(done, quiet)


@app.command()
@guarded
def extend(
    folder: Folder,
    replicas: Annotated[int, typer.Option(min=1, help="How many it shall have, in all.", show_default=False)],
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Give a finished run more replicas, without doing those again that it has."""
    from netfl.console import watching  # noqa: PLC0415
    from netfl.extending import extend as extended  # noqa: PLC0415

    check_device(device)
    with watching(quiet=quiet) as watch:
        done = extended(folder, replicas, device=device, watch=watch)
    whole = done.manifest["replicas"] == replicas
    finish(done, quiet, again=None if whole else f"netfl extend {folder} --replicas {replicas}")


@app.command()
@guarded
def check(
    scenarios: Annotated[list[Path], typer.Argument(metavar="SCENARIO...", help="Scenario files.", show_default=False)],
    sets: Sets = None,
    override: Named = None,
    seed: Seed = None,
) -> None:
    """Say everything that is wrong with scenario files."""
    from netfl.staging import rehearse  # noqa: PLC0415

    failed = 0
    for path in scenarios:
        try:
            scenario = load(path, sets, override, seed)
            for name in scenario.overrides:
                load(path, sets, [*(override or []), name], seed)
            rehearse(scenario)
            typer.echo(f"{path}: good")
        except NetflError as error:
            typer.echo(str(error), err=True)
            failed = max(failed, error.exit_code)
    raise typer.Exit(failed)


@app.command("list")
@guarded
def list_models(
    family: Annotated[str | None, typer.Argument(help="A family, such as channel.", show_default=False)] = None,
    name: Annotated[str | None, typer.Argument(help="A model of it, such as rayleigh.", show_default=False)] = None,
) -> None:
    """Show what models there are; one model's fields, defaults, laws and example."""
    from netfl.catalogue import show_catalogue  # noqa: PLC0415

    show_catalogue(family, name)


@app.command()
@guarded
def new(
    family: Annotated[str, typer.Argument(help="A family, such as channel.", show_default=False)],
    name: Annotated[str, typer.Argument(help="The module's name, such as my_fading.", show_default=False)],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write.")] = Path(),
) -> None:
    """Write a starter file for a model of your own, and its test."""
    from netfl.catalogue import family_named  # noqa: PLC0415
    from netfl.scaffold import write_starter  # noqa: PLC0415

    typer.echo(write_starter(family_named(family), name, out))


@app.command("report")
@guarded
def write_report(
    folder: Folder,
    out: Annotated[Path | None, typer.Option(help="Where to write; by default report.html in DIR.")] = None,
) -> None:
    """Write one self-contained page of a run: pictures and words."""
    from netfl.console import show_report  # noqa: PLC0415
    from netfl.reading import open_run  # noqa: PLC0415

    show_report(open_run(folder), out)


@data_app.command("list")
@guarded
def data_list() -> None:
    """Show which data sets are there, and where they are looked for."""
    from netfl.catalogue import show_data  # noqa: PLC0415

    show_data()


@data_app.command("fetch")
@guarded
def data_fetch(name: Annotated[str, typer.Argument(help="A data set, such as mnist.")]) -> None:
    """Fetch a data set into the cache and check it."""
    from netfl.learning.data import _cache  # noqa: PLC0415

    typer.echo(f"{_cache.fetch(name)}")


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


def main() -> None:
    """The console script; models of the user's own may lie in the folder that it is called in."""
    sys.path.append("")
    app()
