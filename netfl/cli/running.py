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
from netfl.guard import check_device, cluster_of, finish, guarded, load, note_sweep, note_work


@app.command()
@guarded
def run(  # noqa: PLR0913, PLR0917 - the options
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
    from netfl import coupling  # noqa: PLC0415 - each command imports what it needs, so that --help is fast
    from netfl.console import watching  # noqa: PLC0415

    loaded = load(scenario, sets, override, seed)
    note_sweep(loaded, quiet)
    note_work(loaded, quiet, learning=True)
    check_device(device)
    cluster = cluster_of(engine, address, gpus)
    with watching(quiet=quiet) as watch:
        done = coupling.run(loaded, out, device=device, workers=workers, cluster=cluster, watch=watch)
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
    no_plugins: NoPlugins = False,
) -> None:
    """Run the network alone: no learning."""
    from netfl import coupling  # noqa: PLC0415
    from netfl.console import watching  # noqa: PLC0415

    loaded = load(scenario, sets, override, seed)
    note_sweep(loaded, quiet)
    note_work(loaded, quiet, learning=False)
    with watching(quiet=quiet) as watch:
        done = coupling.trace(loaded, out, watch=watch)
    finish(done, quiet)


@app.command()
@guarded
def resume(  # noqa: PLR0913, PLR0917 - the options
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
    from netfl import coupling  # noqa: PLC0415
    from netfl.console import watching  # noqa: PLC0415

    check_device(device)
    cluster, wanted = cluster_of(engine, address, gpus), report or _reported(folder)
    with watching(quiet=quiet) as watch:
        done = coupling.resume(folder, device=device, workers=workers, cluster=cluster, watch=watch)
    finish(done, quiet, report=wanted)


@app.command()
@guarded
def extend(  # noqa: PLR0913, PLR0917 - the options
    folder: Folder,
    replicas: Annotated[int, typer.Option(min=1, help="How many it shall have, in all.", show_default=False)],
    device: Device = "auto",
    quiet: Quiet = False,
    no_plugins: NoPlugins = False,
    report: Report = False,
) -> None:
    """Give a finished run more replicas, without doing those again that it has; its report is written anew, if any."""
    from netfl.console import watching  # noqa: PLC0415
    from netfl.extending import extend as extended  # noqa: PLC0415

    check_device(device)
    wanted = report or _reported(folder)
    with watching(quiet=quiet) as watch:
        done = extended(folder, replicas, device=device, watch=watch)
    whole = done.manifest["replicas"] == replicas
    finish(done, quiet, report=wanted, again=None if whole else f"netfl extend {folder} --replicas {replicas}")


def _reported(folder: Path) -> bool:
    """Whether the run has a report, which goes out of date as it goes on."""
    return (folder / "report.html").exists()
