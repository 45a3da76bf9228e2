"""Commands that run scenarios and sweeps; the run itself is in `netfl.simulation.run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from netfl.cli.app import (
    Device,
    Folder,
    NoPlugins,
    Out,
    Quiet,
    Report,
    ScenarioFile,
    app,
    echo,
    number_option,
    path_option,
)
from netfl.cli.common import (
    exit_interrupted,
    handle_errors,
    printed_warnings,
    report_outcome,
    warn_of_sweep,
    write_report,
)
from netfl.cli.options import EngineOptions, ScenarioOptions, SweepEngineOptions, with_options
from netfl.learning.devices import check_device

if TYPE_CHECKING:
    from netfl.sweeps import LocalEngine, Sweep
    from netfl.sweeps.ray_engine import RayEngine
    from netfl.sweeps.slurm_engine import SlurmEngine


@app.command()
@handle_errors
@with_options
def run(
    scenario: ScenarioFile,
    changes: ScenarioOptions,
    processes: EngineOptions,
    out: Out = None,
    device: Device = "auto",
    quiet: Quiet = False,
    no_plugins: NoPlugins = False,
    report: Report = False,
) -> None:
    """Run a scenario: network and learners."""
    from netfl.core.screen import open_console
    from netfl.simulation import run as simulation
    from netfl.simulation.progress import ProgressDisplay

    loaded = changes.load(scenario)
    warn_of_sweep(loaded, quiet)
    check_device(device)
    workers = processes.open()
    with printed_warnings(quiet), ProgressDisplay(open_console(), quiet=quiet) as observer:
        done = simulation.run(loaded, out, device=device, workers=workers, observer=observer)
    report_outcome(done, quiet, report=report)


@app.command()
@handle_errors
@with_options
def trace(
    scenario: ScenarioFile,
    changes: ScenarioOptions,
    out: Out = None,
    quiet: Quiet = False,
    no_plugins: NoPlugins = False,
) -> None:
    """Run the network of a scenario without learning."""
    from netfl.core.screen import open_console
    from netfl.simulation import run as simulation
    from netfl.simulation.progress import ProgressDisplay

    loaded = changes.load(scenario)
    warn_of_sweep(loaded, quiet)
    with printed_warnings(quiet), ProgressDisplay(open_console(), quiet=quiet) as observer:
        done = simulation.trace(loaded, out, observer=observer)
    report_outcome(done, quiet)


@app.command()
@handle_errors
@with_options
def resume(
    folder: Folder,
    processes: EngineOptions,
    device: Device = "auto",
    quiet: Quiet = False,
    no_plugins: NoPlugins = False,
    report: Report = False,
) -> None:
    """Continue a run after a stop or a crash, and update its report if it has one."""
    from netfl.core.screen import open_console
    from netfl.files import is_present
    from netfl.simulation import run as simulation
    from netfl.simulation.progress import ProgressDisplay

    check_device(device)
    workers = processes.open()
    needs_report = report or is_present(folder / "report.html")
    with ProgressDisplay(open_console(), quiet=quiet) as observer:
        done = simulation.resume(folder, device=device, workers=workers, observer=observer)
    report_outcome(done, quiet, report=needs_report)


@app.command()
@handle_errors
def extend(
    folder: Folder,
    replicas: Annotated[int, number_option(minimum=1, help="Total number of replicas.", show_default=False)],
    device: Device = "auto",
    quiet: Quiet = False,
    no_plugins: NoPlugins = False,
    report: Report = False,
) -> None:
    """Add replicas to a finished run without repeating the others, and update its report if it has one."""
    from netfl.core.screen import open_console
    from netfl.files import is_present
    from netfl.simulation.extend import extend as extend_run
    from netfl.simulation.progress import ProgressDisplay
    from netfl.simulation.run import note_continuation

    check_device(device)
    needs_report = report or is_present(folder / "report.html")
    command = f"netfl extend {folder} --replicas {replicas}"
    with note_continuation(folder, command):
        with ProgressDisplay(open_console(), quiet=quiet) as observer:
            done = extend_run(folder, replicas, device=device, observer=observer)
        if done.manifest["replicas"] != replicas:
            progress = f"with {done.manifest['replicas']} of {replicas} replicas"
            exit_interrupted(f"continue with: {command}", progress)
    report_outcome(done, quiet, report=needs_report)


@app.command()
@handle_errors
@with_options
def sweep(
    scenario: ScenarioFile,
    changes: ScenarioOptions,
    engine: SweepEngineOptions,
    out: Annotated[
        Path | None, path_option("PATH", "The sweep's folder, new or to continue. Default: runs/NAME-sweep.")
    ] = None,
    retries: Annotated[
        int | None, number_option(minimum=0, help="Number of times to restart a task whose process or node died.")
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Run the network without learning.")] = False,
    device: Device = "auto",
    quiet: Quiet = False,
    no_plugins: NoPlugins = False,
    report: Report = False,
) -> None:
    """Run a scenario at all points of its sweep that are not done yet."""
    from netfl.cli.views.sweep import show_sweep
    from netfl.core.screen import open_console
    from netfl.sweeps import note_continuation
    from netfl.sweeps import sweep as run_sweep
    from netfl.sweeps.display import SweepDisplay

    loaded = changes.load(scenario)
    check_device(device)
    executor = _open_engine(engine, device, retries)
    with printed_warnings(quiet), SweepDisplay(open_console(), quiet=quiet) as display:
        done = run_sweep(loaded, out, engine=executor, learning=not trace, observer=display)
    with note_continuation():
        if not quiet:
            show_sweep(done)
        if report:
            write_report(done, None)
    if done.status != "done":
        _exit_unfinished(done, is_interrupted=display.stop)


def _open_engine(
    options: SweepEngineOptions, device: str, retries: int | None
) -> LocalEngine | RayEngine | SlurmEngine:
    """Return the engine of a sweep: processes on this machine, a Ray cluster, or Slurm jobs."""
    from netfl.simulation.workers.ray_cluster import Cluster
    from netfl.sweeps import LocalEngine
    from netfl.sweeps.ray_engine import RayEngine
    from netfl.sweeps.slurm_engine import SlurmEngine

    settings: dict[str, Any] = {}
    if retries is not None:  # otherwise each engine has its own default
        settings["retries"] = retries
    resources = options.open()
    if resources is None:
        return LocalEngine(options.workers, device, **settings)
    if isinstance(resources, Cluster):
        return RayEngine(resources, device, **settings)
    return SlurmEngine(resources, device, **settings)


def _exit_unfinished(sweep: Sweep, *, is_interrupted: bool) -> NoReturn:
    """Print why points or trials of *sweep* are not done, with the remedy, and exit."""
    remedy = "repeat the command to continue"
    if sweep.search is None:
        unit = "points"
        count = len(sweep.points)
    else:
        unit = "trials"
        count = sweep.search.trials
    if is_interrupted:
        done_count = (sweep.points["status"] == "done").sum()
        exit_interrupted(remedy, f"with {done_count} of {count} {unit} done")
    if sweep.search is not None and sweep.search.is_over:  # nothing is left to continue
        echo("no trial is done: see their errors", err=True)
        raise typer.Exit(1)
    problem = f"not all {unit} of {sweep.folder} are done"
    errors = [error for error in sweep.tasks["error"] if error]
    if errors:
        problem += f": {errors[0].splitlines()[0]}"
    echo(f"{problem}; {remedy}", err=True)
    raise typer.Exit(1)
