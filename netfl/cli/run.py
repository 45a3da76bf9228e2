"""Commands that run scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from netfl.cli.app import (
    Address,
    Device,
    Engine,
    Folder,
    Gpus,
    Named,
    NoPlugins,
    Out,
    Quiet,
    Report,
    ScenarioFile,
    Seed,
    Sets,
    Workers,
    app,
)
from netfl.cli.common import (
    check_device,
    handle_errors,
    load,
    report_outcome,
    select_cluster,
    warn_ignored_sweep,
    warn_large_run,
)


@app.command()
@handle_errors
def run(
    scenario: ScenarioFile,
    sets: Sets = None,
    override: Named = None,
    seed: Seed = None,
    out: Out = None,
    device: Device = "auto",
    workers: Workers = 1,
    engine: Engine = "local",
    address: Address = None,
    gpus: Gpus = None,
    quiet: Quiet = False,
    no_plugins: NoPlugins = False,
    report: Report = False,
) -> None:
    """Run a scenario: network and learners."""
    from netfl.cli.progress import progress_display
    from netfl.simulation import run as coupling

    loaded = load(scenario, sets, override, seed)
    warn_ignored_sweep(loaded, quiet)
    warn_large_run(loaded, quiet, learning=True)
    check_device(device)
    cluster = select_cluster(engine, address, gpus)
    with progress_display(quiet=quiet) as watch:
        done = coupling.run(loaded, out, device=device, workers=workers, cluster=cluster, watch=watch)
    report_outcome(done, quiet, report=report)


@app.command()
@handle_errors
def trace(
    scenario: ScenarioFile,
    sets: Sets = None,
    override: Named = None,
    seed: Seed = None,
    out: Out = None,
    quiet: Quiet = False,
    no_plugins: NoPlugins = False,
) -> None:
    """Run the network alone: no learning."""
    from netfl.cli.progress import progress_display
    from netfl.simulation import run as coupling

    loaded = load(scenario, sets, override, seed)
    warn_ignored_sweep(loaded, quiet)
    warn_large_run(loaded, quiet, learning=False)
    with progress_display(quiet=quiet) as watch:
        done = coupling.trace(loaded, out, watch=watch)
    report_outcome(done, quiet)


@app.command()
@handle_errors
def resume(
    folder: Folder,
    device: Device = "auto",
    workers: Workers = 1,
    engine: Engine = "local",
    address: Address = None,
    gpus: Gpus = None,
    quiet: Quiet = False,
    no_plugins: NoPlugins = False,
    report: Report = False,
) -> None:
    """Go on with a run after a stop or a crash; a report that it has is written anew."""
    from netfl.cli.progress import progress_display
    from netfl.simulation import run as coupling

    check_device(device)
    cluster, wanted = select_cluster(engine, address, gpus), report or _reported(folder)
    with progress_display(quiet=quiet) as watch:
        done = coupling.resume(folder, device=device, workers=workers, cluster=cluster, watch=watch)
    report_outcome(done, quiet, report=wanted)


@app.command()
@handle_errors
def extend(
    folder: Folder,
    replicas: Annotated[int, typer.Option(min=1, help="How many it shall have, in all.", show_default=False)],
    device: Device = "auto",
    quiet: Quiet = False,
    no_plugins: NoPlugins = False,
    report: Report = False,
) -> None:
    """Give a finished run more replicas, without doing those again that it has; its report is written anew, if any."""
    from netfl.cli.progress import progress_display
    from netfl.simulation.extend import extend as extended

    check_device(device)
    wanted = report or _reported(folder)
    with progress_display(quiet=quiet) as watch:
        done = extended(folder, replicas, device=device, watch=watch)
    whole = done.manifest["replicas"] == replicas
    report_outcome(done, quiet, report=wanted, again=None if whole else f"netfl extend {folder} --replicas {replicas}")


def _reported(folder: Path) -> bool:
    """Whether the run has a report, which goes out of date as it goes on."""
    return (folder / "report.html").exists()
