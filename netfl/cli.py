"""The command line: reads what the user says, shows what happens, ends with 0 (done), 1 (failed) or 2 (bad input)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from traceback import format_exception
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

import typer

from netfl import __version__
from netfl.errors import Fault, ModelError, NetflError, ScenarioError

if TYPE_CHECKING:
    from netfl.reading import Run
    from netfl.scenario import Scenario

Arguments = ParamSpec("Arguments")
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


def _guarded(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """End *command* with a message and the right exit code when it meets an error of netfl's."""

    @wraps(command)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except NetflError as error:
            if isinstance(error, ModelError) and error.__cause__ is not None:
                typer.echo("".join(format_exception(error.__cause__)), err=True)  # for whoever writes the model
            told, code = str(error), error.exit_code
        except MemoryError as error:
            told, code = f"more memory is asked for than there is: {error}", 1
        except KeyboardInterrupt:
            told, code = "stopped at once; a run that had begun can go on with: netfl resume DIR", 1
        else:
            return
        typer.echo(told, err=True)
        raise typer.Exit(code)

    return guarded


@app.command()
@_guarded
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

    loaded = _load(scenario, sets, override, seed)
    _check_device(device)
    with watching(quiet=quiet) as watch:
        done = coupling.run(loaded, out, device=device, watch=watch)
    _finish(done, quiet, report=report)


@app.command()
@_guarded
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

    loaded = _load(scenario, sets, override, seed)
    with watching(quiet=quiet) as watch:
        done = coupling.trace(loaded, out, watch=watch)
    _finish(done, quiet)


@app.command()
@_guarded
def resume(folder: Folder, device: Device = "auto", quiet: Quiet = False) -> None:
    """Go on with a run after a stop or a crash."""
    from netfl import coupling  # noqa: PLC0415
    from netfl.console import watching  # noqa: PLC0415

    _check_device(device)
    with watching(quiet=quiet) as watch:
        done = coupling.resume(folder, device=device, watch=watch)
    _finish(done, quiet)


@app.command()
@_guarded
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
            scenario = _load(path, sets, override, seed)
            for name in scenario.overrides:
                _load(path, sets, [*(override or []), name], seed)
            rehearse(scenario)
            typer.echo(f"{path}: good")
        except NetflError as error:
            typer.echo(str(error), err=True)
            failed = max(failed, error.exit_code)
    raise typer.Exit(failed)


@app.command("list")
@_guarded
def list_models(
    family: Annotated[str | None, typer.Argument(help="A family, such as channel.", show_default=False)] = None,
    name: Annotated[str | None, typer.Argument(help="A model of it, such as rayleigh.", show_default=False)] = None,
) -> None:
    """Show what models there are; one model's fields, defaults, laws and example."""
    from netfl.catalogue import show_catalogue  # noqa: PLC0415

    show_catalogue(family, name)


@app.command("report")
@_guarded
def write_report(
    folder: Folder,
    out: Annotated[Path | None, typer.Option(help="Where to write; by default report.html in DIR.")] = None,
) -> None:
    """Write one self-contained page of a run: pictures and words."""
    from netfl.console import show_report  # noqa: PLC0415
    from netfl.reading import open_run  # noqa: PLC0415

    show_report(open_run(folder), out)


@data_app.command("list")
@_guarded
def data_list() -> None:
    """Show which data sets are there, and where they are looked for."""
    from netfl.catalogue import show_data  # noqa: PLC0415

    show_data()


@data_app.command("fetch")
@_guarded
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
    """The console script."""
    app()


def _load(path: Path, sets: list[str] | None, named: list[str] | None, seed: int | None) -> Scenario:
    """The scenario file with the command line's changes."""
    from netfl.document import parse, plain  # noqa: PLC0415
    from netfl.scenario import load  # noqa: PLC0415

    overrides: dict[str, Any] = {}
    for one in sets or []:
        key, equals, text = one.partition("=")
        if not (equals and key):
            raise ScenarioError([Fault("--set", "not of the form PATH=VALUE", one, "write --set access.first=1")])
        overrides[key] = plain(parse(text, f"--set {key}"))
    if seed is not None:
        overrides["seed"] = seed
    return load(path, overrides, named or [])


def _check_device(device: str) -> None:
    """Refuse what is no device."""
    if device not in {"auto", "cpu", "cuda"}:
        raise ScenarioError([Fault("--device", "no such device", device, "write auto, cpu or cuda")])


def _finish(done: Run, quiet: bool, *, report: bool = False) -> None:
    """Say how the run ended, and write its report if that is wanted."""
    from netfl.console import show_report, show_run  # noqa: PLC0415

    if not quiet:
        show_run(done)
    if report:
        show_report(done, None)
    if done.status != "done":
        typer.echo(f"interrupted; go on with: netfl resume {done.folder}", err=True)
        sys.exit(1)
