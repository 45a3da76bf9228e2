"""The command that runs a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from netfl.cli.app import (
    Address,
    Device,
    Engine,
    Gpus,
    Named,
    NoPlugins,
    Quiet,
    Report,
    ScenarioFile,
    Seed,
    Sets,
    app,
    local,
)
from netfl.cli.common import check_device, handle_errors, load, select_cluster


@app.command()
@handle_errors
def sweep(
    scenario: ScenarioFile,
    sets: Sets = None,
    override: Named = None,
    seed: Seed = None,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=local, metavar="PATH", help="The sweep's folder, new or to continue. Default: runs/NAME-sweep."
        ),
    ] = None,
    engine: Engine = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of parallel tasks. Default: the number of cores.")
    ] = None,
    address: Address = None,
    gpus: Gpus = None,
    retries: Annotated[
        int | None, typer.Option(min=0, help="Number of times to restart a task whose process or node died.")
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Run the network without learning.")] = False,
    device: Device = "auto",
    quiet: Quiet = False,
    no_plugins: NoPlugins = False,
    report: Report = False,
) -> None:
    """Run a scenario at all points of its sweep that are not done yet."""
    from rich.console import Console

    from netfl.cli.progress import handle_signals
    from netfl.cli.views.sweep import SweepDisplay, show_sweep, show_sweep_report
    from netfl.sweeps import LocalEngine
    from netfl.sweeps import sweep as run_sweep
    from netfl.sweeps.ray_engine import RayEngine

    loaded = load(scenario, sets, override, seed)
    check_device(device)
    cluster, options = select_cluster(engine, address, gpus), {} if retries is None else {"retries": retries}
    executor = (
        LocalEngine(workers, device, **options) if cluster is None else RayEngine(cluster, workers, device, **options)
    )
    with SweepDisplay(Console(markup=False), quiet=quiet) as display, handle_signals(display.ask_to_stop):
        done = run_sweep(loaded, out, engine=executor, learning=not trace, observer=display)
    if not quiet:
        show_sweep(done)
    if report:
        show_sweep_report(done, None)
    if done.status != "done":
        typer.echo("not all points are done; the same command goes on", err=True)
        raise typer.Exit(1)
