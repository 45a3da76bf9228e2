"""Commands that check scenarios, list models and data, verify runs and write starter files."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path
from shutil import get_terminal_size
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated

import typer

from netfl.cli.app import NoPlugins, app, echo, path_argument, path_option
from netfl.cli.common import handle_errors
from netfl.cli.options import ScenarioOptions, with_options
from netfl.cli.usage_errors import Commands
from netfl.errors import NetflError, __version__

if TYPE_CHECKING:
    from netfl.scenario.scenario import Scenario

_EXTRAS = {"mlflow": "mlflow-skinny", "ray": "ray", "tensorboard": "tensorboard"}
"""The package that each extra ``netfl-sim[NAME]`` installs."""

data_app = typer.Typer(cls=Commands, help="List and download real data sets.", no_args_is_help=True)
app.add_typer(data_app, name="data")


def complete_family(incomplete: str) -> list[str]:
    """Complete the name of a family."""
    from netfl.core.kinds import FAMILIES

    names = [family.rpartition("/")[2] for family in FAMILIES]
    return [name for name in names if name.startswith(incomplete)]


def complete_model(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the kind of a model of the family in the previous argument."""
    from netfl.cli.views.model_list import family_named
    from netfl.core.kinds import kinds_in

    try:
        family = family_named(str(ctx.params.get("family")))
    except NetflError:
        return []
    return [kind for kind in kinds_in(family) if kind.startswith(incomplete)]


def complete_scenario(incomplete: str) -> list[str]:
    """Complete the name of a scenario that netfl contains."""
    from netfl.scenario.examples import example_names

    return [name for name in example_names() if name.startswith(incomplete)]


_FAMILY = typer.Argument(help="A family, such as channel.", show_default=False, autocompletion=complete_family)


@app.command()
@handle_errors
@with_options
def check(
    scenarios: Annotated[list[Path], path_argument("SCENARIO...", "Scenario files.")],
    changes: ScenarioOptions,
    no_plugins: NoPlugins = False,
) -> None:
    """Check scenario files and report all errors."""
    exit_code = 0
    for path in scenarios:
        try:
            scenario = changes.load(path)
            for name in scenario.overrides:
                changes.load(path, [name])
            _print_facts(path, scenario)
            _print_dry_run(scenario)
        except NetflError as error:
            echo(str(error), err=True)
            exit_code = max(exit_code, error.exit_code)
    raise typer.Exit(exit_code)


def _print_facts(path: Path, scenario: Scenario) -> None:
    """Print what is known of a scenario without a simulation, which takes its time.

    Raises:
        NetflError: an error that shows without it.
    """
    from netfl.diagnosis.cvar_lift import stated_lifts
    from netfl.results.payload import cost_notes
    from netfl.simulation.setup import check_without_data

    checked_points = _check_points(scenario)
    check_without_data(scenario)
    echo(f"{path}: valid keys{checked_points}")
    for note in cost_notes(scenario):
        echo(f"  {note}")
    for lift in stated_lifts(scenario):
        echo(f"  {lift.sentence}")


def _check_points(scenario: Scenario) -> str:
    """Check the scenario at all points of its sweep, and return in words which they are; empty without a sweep."""
    from netfl.scenario.sweep_axes import SearchSpec
    from netfl.sweeps.plan import points_of

    if scenario.sweep is None:
        return ""
    if isinstance(scenario.sweep, SearchSpec):
        source = "of the space to search"
    else:
        source = "of its sweep"
    points = points_of(scenario)
    if len(points) > 1:
        return f", at all {len(points)} points {source}"
    return f", at the only point {source}"


def _print_dry_run(scenario: Scenario) -> None:
    """Print what the first rounds show.

    Raises:
        NetflError: an error of these rounds.
    """
    from netfl.core.family_members import find_plugins
    from netfl.core.kinds import kind_of
    from netfl.results.formatting import clock
    from netfl.simulation.dry_run import run_dry
    from netfl.simulation.setup import notes, warnings
    from netfl.testing.laws import law_problem

    dry_run = run_dry(scenario)
    echo(f"  {dry_run}")
    if scenario.stop_s is not None:
        length = f", after about {dry_run.expected:.3g} rounds" if dry_run.expected else ""
        echo(f"  ends by {clock(scenario.stop_s)} of simulated time{length}")
    if dry_run.training:
        echo(f"  training: {dry_run.training}")
    if scenario.reports_lost:
        echo(f"  on_loss: keep trains {dry_run.in_vain:.3g} updates in vain for each that arrives")
    if dry_run.tuning:
        echo(f"  tuning: {dry_run.tuning}")
    texts = [*dry_run.warnings()]
    if dry_run.is_set_up:  # the notes and the warnings need the network
        for note in notes(scenario):
            echo(f"  {note}")
        texts += warnings(scenario)
    for text in texts:
        echo(f"  {text}", err=True)
    for key, model in find_plugins(scenario):
        if problem := law_problem(model):
            echo(f"  {key}: {kind_of(type(model))} {problem}", err=True)


@app.command("list")
@handle_errors
def list_models(
    family: Annotated[str | None, _FAMILY] = None,
    name: Annotated[
        str | None,
        typer.Argument(
            help="A model of this family, such as rayleigh.", show_default=False, autocompletion=complete_model
        ),
    ] = None,
) -> None:
    """List the models; or show one model's keys, defaults, properties and example."""
    from netfl.cli.views.model_list import show_catalogue

    show_catalogue(family, name)


@app.command("schema")
@handle_errors
def print_schema() -> None:
    """Print the JSON Schema of scenarios, which editors use for completion and checks."""
    from netfl.scenario.json_schema import schema_text

    echo(schema_text(), nl=False)


@app.command("scenarios")
@handle_errors
def copy_scenarios(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Scenarios or folders to copy, or all. Without a name: list all scenarios.",
            show_default=False,
            autocompletion=complete_scenario,
        ),
    ] = None,
) -> None:
    """List the scenarios that netfl contains, or copy some, with the files they read, into ./scenarios/."""
    from netfl.scenario import examples

    if not names:
        width = get_terminal_size().columns
        for name in examples.installed_names():
            echo(shorten(f"{name}: {examples.description(name)}", width, placeholder=" …"))
    for name in names or ():
        for path in examples.copy(name):
            echo(f"{path}")


def environment_info() -> Iterator[tuple[str, str]]:
    """Yield names and values for a bug report."""
    from importlib.metadata import PackageNotFoundError, version

    from netfl.results.manifest import versions

    yield "netfl", __version__
    yield "python", platform.python_version()
    yield "system", f"{platform.platform()}, {platform.machine()}"
    usable = os.cpu_count()
    if hasattr(os, "sched_getaffinity"):  # Linux
        usable = len(os.sched_getaffinity(0))
    yield "cores", f"{os.cpu_count()}, usable {usable}"
    for name, text in versions().items():
        if name not in {"netfl", "python"}:
            yield name, text
    try:
        from netfl.learning.tensors import devices

        yield "devices", ", ".join(devices())
    except (ImportError, OSError) as error:
        yield "devices", f"torch cannot be imported: {error}"
    from netfl.learning.data._download import cache_folder

    source = "NETFL_DATA" if os.environ.get("NETFL_DATA") else "the default"
    yield "data", f"{cache_folder()} ({source})"
    for extra, package in _EXTRAS.items():
        try:
            text = f"{package} {version(package)}"
        except PackageNotFoundError:
            text = "not installed"
        yield f"netfl-sim[{extra}]", text


@app.command("version")
@handle_errors
def show_version() -> None:
    """Show versions, machine, devices, data folder and installed extras for a bug report."""
    for name, text in environment_info():
        if name == "netfl":
            echo(f"netfl {text}")  # as --version prints it
        else:
            echo(f"{name}: {text}")


@app.command()
@handle_errors
def new(
    family: Annotated[str, _FAMILY],
    name: Annotated[str, typer.Argument(help="The module's name, such as my_fading.", show_default=False)],
    out: Annotated[Path, path_option("DIR", "The output folder.")] = Path(),
) -> None:
    """Write a starter file for your own model, and its test."""
    from netfl.cli.scaffold import write_starter
    from netfl.cli.views.model_list import family_named

    echo(write_starter(family_named(family), name, out))


@app.command()
@handle_errors
def verify(
    folders: Annotated[list[Path], path_argument("DIR...", "Run directories.")],
) -> None:
    """Check the files of finished runs against their manifests, and compare several runs with the first."""
    from netfl.results.digests import verify_runs

    total = 0
    bad = 0
    for folder in folders:
        for verdict in verify_runs(folder, folders[0]):
            echo(str(verdict))
            total += 1
            if not verdict.good:
                bad += 1
    if bad:
        echo(f"files that do not agree: {bad} of {total}")
        raise typer.Exit(1)
    echo(f"all {total} files agree")


@data_app.command("list")
@handle_errors
def data_list() -> None:
    """List the data sets, and the folders in which netfl looks for them."""
    from netfl.cli.views.model_list import show_data

    show_data()


@data_app.command("fetch")
@handle_errors
def data_fetch(name: Annotated[str, typer.Argument(help="A data set, such as mnist.")]) -> None:
    """Download a data set into the cache and check it."""
    from netfl.learning.data import _download

    echo(f"{_download.fetch_dataset(name)}")
