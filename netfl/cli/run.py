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
    from netfl.simulation import run as simulation

    loaded = load(scenario, sets, override, seed)
    warn_ignored_sweep(loaded, quiet)
    warn_large_run(loaded, quiet, learning=True)
    check_device(device)
    cluster = select_cluster(engine, address, gpus)
    with progress_display(quiet=quiet) as watch:
        done = simulation.run(loaded, out, device=device, workers=workers, cluster=cluster, watch=watch)
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
    """Run the network of a scenario without learning."""
    from netfl.cli.progress import progress_display
    from netfl.simulation import run as simulation

    loaded = load(scenario, sets, override, seed)
    warn_ignored_sweep(loaded, quiet)
    warn_large_run(loaded, quiet, learning=False)
    with progress_display(quiet=quiet) as watch:
        done = simulation.trace(loaded, out, watch=watch)
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
    """Continue a run after a stop or a crash, and update its report if it has one."""
    from netfl.cli.progress import progress_display
    from netfl.simulation import run as simulation

    check_device(device)
    cluster, needs_report = select_cluster(engine, address, gpus), report or _has_report(folder)
    with progress_display(quiet=quiet) as watch:
        done = simulation.resume(folder, device=device, workers=workers, cluster=cluster, watch=watch)
    report_outcome(done, quiet, report=needs_report)


@app.command()
@handle_errors
def extend(
    folder: Folder,
    replicas: Annotated[int, typer.Option(min=1, help="Total number of replicas.", show_default=False)],
    device: Device = "auto",
    quiet: Quiet = False,
    no_plugins: NoPlugins = False,
    report: Report = False,
) -> None:
    """Add replicas to a finished run without repeating the others, and update its report if it has one."""
    from netfl.cli.progress import progress_display
    from netfl.simulation.extend import extend as extend_run

    check_device(device)
    needs_report = report or _has_report(folder)
    with progress_display(quiet=quiet) as watch:
        done = extend_run(folder, replicas, device=device, watch=watch)
    is_complete = done.manifest["replicas"] == replicas
    report_outcome(
        done, quiet, report=needs_report, again=None if is_complete else f"netfl extend {folder} --replicas {replicas}"
    )


def _has_report(folder: Path) -> bool:
    return (folder / "report.html").exists()
