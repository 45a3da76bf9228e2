"""The command that runs a scenario at many points."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netfl.cli.app import Device, Named, Quiet, ScenarioFile, Seed, Sets, app
from netfl.errors import Fault, ScenarioError, suggest
from netfl.guard import check_device, guarded, load

if TYPE_CHECKING:
    from netfl.sweeping import Engine

_ENGINES = ("local", "ray")


@app.command()
@guarded
def sweep(  # noqa: PLR0913, PLR0917 - the options
    scenario: ScenarioFile,
    sets: Sets = None,
    override: Named = None,
    seed: Seed = None,
    out: Annotated[
        Path | None, typer.Option(help="The sweep's folder, new or to go on with; by default runs/NAME-sweep.")
    ] = None,
    engine: Annotated[str, typer.Option(help="local, for processes of this machine, or ray, for a cluster.")] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="How many tasks at a time; by default as many as there are cores.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Of --engine ray: the cluster's address, or auto; by default Ray starts here.")
    ] = None,
    gpus: Annotated[
        float | None, typer.Option(min=0.0, help="Of --engine ray: what share of a GPU a task is given, 0 by default.")
    ] = None,
    retries: Annotated[
        int | None, typer.Option(min=0, help="How often a task is begun again whose process or node has died.")
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="The network alone: no learning.")] = False,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Run a scenario at all points of its sweep, but for what is done already."""
    from rich.console import Console  # noqa: PLC0415 - each command imports what it needs, so that --help is fast

    from netfl.console import heeding  # noqa: PLC0415
    from netfl.sweepboard import SweepWatcher, show_sweep  # noqa: PLC0415
    from netfl.sweeping import sweep as swept  # noqa: PLC0415

    loaded = load(scenario, sets, override, seed)
    check_device(device)
    chosen = _engine(engine, workers, device, retries, {"--address": address, "--gpus": gpus})
    with SweepWatcher(Console(markup=False), quiet=quiet) as watch, heeding(watch.ask_to_stop):
        done = swept(loaded, out, engine=chosen, learning=not trace, watch=watch)
    if not quiet:
        show_sweep(done)
    if done.status != "done":
        typer.echo("not all points are done; the same command goes on", err=True)
        raise typer.Exit(1)


def _engine(
    name: str, workers: int | None, device: str, retries: int | None, said: dict[str, str | float | None]
) -> Engine:
    """The engine that is asked for.

    Raises:
        ScenarioError: there is no such engine, or it does not heed what is said of it.
    """
    if name not in _ENGINES:
        raise ScenarioError([Fault("--engine", "no such engine", name, suggest(name, _ENGINES))])
    tries = {} if retries is None else {"retries": retries}
    if name == "local":
        from netfl.sweeping import Local  # noqa: PLC0415

        idle = [option for option, value in said.items() if value is not None]
        if idle:
            raise ScenarioError([Fault(one, "has no effect", said[one], "add --engine ray") for one in idle])
        return Local(workers, device, **tries)
    from netfl.sweeping.cluster import Ray  # noqa: PLC0415

    address, gpus = said["--address"], said["--gpus"]
    return Ray(None if address is None else str(address), workers, device, float(gpus or 0.0), **tries)
