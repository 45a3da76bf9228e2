"""Commands that check scenarios, list models, verify runs and write starter files."""

from __future__ import annotations

from pathlib import Path
from shutil import get_terminal_size
from textwrap import shorten
from typing import Annotated

import typer

from netfl.cli.app import Named, NoPlugins, Seed, Sets, app, local
from netfl.cli.common import handle_errors, load
from netfl.cli.completion import families, models, shipped_scenarios
from netfl.errors import NetflError


@app.command()
@handle_errors
def check(
    scenarios: Annotated[
        list[Path], typer.Argument(parser=local, metavar="SCENARIO...", help="Scenario files.", show_default=False)
    ],
    sets: Sets = None,
    override: Named = None,
    seed: Seed = None,
    no_plugins: NoPlugins = False,
) -> None:
    """Check scenario files and report all errors."""
    from netfl.simulation import cost_estimate
    from netfl.simulation.dry_run import run_dry, warning
    from netfl.simulation.setup import warnings
    from netfl.sweeps.plan import points_of

    failed = 0
    for path in scenarios:
        try:
            scenario = load(path, sets, override, seed)
            for name in scenario.overrides:
                load(path, sets, [*(override or []), name], seed)
            points = len(points_of(scenario)) if scenario.sweep is not None else 0
            rehearsed = run_dry(scenario)
            work = cost_estimate.check(scenario, learning=True, played=rehearsed)
            typer.echo(f"{path}: good" + (f", at all {points} points of its sweep too" if points else ""))
            typer.echo(f"  {work}")
            if rehearsed.cut is not None:
                typer.echo(f"  {warning(rehearsed)}", err=True)
            for text in warnings(scenario):
                typer.echo(f"  {text}", err=True)
        except NetflError as error:
            typer.echo(str(error), err=True)
            failed = max(failed, error.exit_code)
    raise typer.Exit(failed)


@app.command("list")
@handle_errors
def list_models(
    family: Annotated[
        str | None, typer.Argument(help="A family, such as channel.", show_default=False, autocompletion=families)
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(help="A model of this family, such as rayleigh.", show_default=False, autocompletion=models),
    ] = None,
) -> None:
    """List the models; or show one model's keys, defaults, laws and example."""
    from netfl.cli.views.model_list import show_catalogue

    show_catalogue(family, name)


@app.command("schema")
@handle_errors
def print_schema() -> None:
    """Print the JSON Schema of scenarios, which editors use for completion and checks."""
    from netfl.scenario.json_schema import schema_text

    typer.echo(schema_text(), nl=False)


@app.command("scenarios")
@handle_errors
def copy_scenarios(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Scenarios or folders to copy, or all. Without a name: list all scenarios.",
            show_default=False,
            autocompletion=shipped_scenarios,
        ),
    ] = None,
) -> None:
    """List the scenarios that netfl contains, or copy some, with the files they read, into ./scenarios/."""
    from netfl.scenario import examples

    if not names:
        width = get_terminal_size().columns
        for name in examples.example_names():
            typer.echo(shorten(f"{name}: {examples.description(name)}", width, placeholder=" …"))
    for name in names or ():
        for path in examples.copy(name):
            typer.echo(f"{path}")


@app.command("version")
@handle_errors
def show_version() -> None:
    """Show versions, machine, devices, data folder and installed extras for a bug report."""
    from netfl.cli.version_info import environment_info

    for name, text in environment_info():
        typer.echo(f"{name} {text}" if name == "netfl" else f"{name}: {text}")


@app.command()
@handle_errors
def new(
    family: Annotated[
        str, typer.Argument(help="A family, such as channel.", show_default=False, autocompletion=families)
    ],
    name: Annotated[str, typer.Argument(help="The module's name, such as my_fading.", show_default=False)],
    out: Annotated[Path, typer.Option(parser=local, metavar="DIR", help="The output folder.")] = Path(),
) -> None:
    """Write a starter file for your own model, and its test."""
    from netfl.cli.scaffold import write_starter
    from netfl.cli.views.model_list import family_named

    typer.echo(write_starter(family_named(family), name, out))


@app.command()
@handle_errors
def verify(
    folders: Annotated[
        list[Path], typer.Argument(parser=local, metavar="DIR...", help="Run directories.", show_default=False)
    ],
) -> None:
    """Check the tables of finished runs against their manifests, and compare several runs with the first."""
    from netfl.results.verify import verify_runs

    is_good = True
    for folder in folders:
        for verdict in verify_runs(folder, folders[0]):
            typer.echo(str(verdict))
            is_good = is_good and verdict.good
    raise typer.Exit(0 if is_good else 1)
