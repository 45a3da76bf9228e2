"""Steps that commands share: load a scenario, handle errors, report the outcome of a run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from traceback import format_exception
from typing import TYPE_CHECKING, Any, ParamSpec

import typer

from netfl.errors import Fault, ModelError, NetflError, ScenarioError, suggest

if TYPE_CHECKING:
    from netfl.learning.workers.ray_cluster import Cluster
    from netfl.results.run_reader import Run
    from netfl.scenario.scenario import Scenario

_ENGINES = ("local", "ray")
Arguments = ParamSpec("Arguments")


def handle_errors(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Print the errors of *command* as messages and exit with their code."""

    @wraps(command)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except NetflError as error:
            if isinstance(error, ModelError) and error.__cause__ is not None:
                typer.echo("".join(format_exception(error.__cause__)), err=True)  # for the author of the model
            message, code = str(error), error.exit_code
        except MemoryError as error:
            message, code = f"more memory is asked for than there is: {error}", 1
        except KeyboardInterrupt:
            message, code = "stopped at once; a run that had begun can go on with: netfl resume DIR", 1
        else:
            return
        typer.echo(message, err=True)
        raise typer.Exit(code)

    return guarded


def load(path: Path, sets: list[str] | None, named: list[str] | None, seed: int | None) -> Scenario:
    """Load a scenario file and apply the changes of the command line."""
    from netfl.scenario import scenario as scenarios
    from netfl.scenario.yaml_document import parse, plain_value

    overrides: dict[str, Any] = {}
    for assignment in sets or []:
        key, equals, text = assignment.partition("=")
        if not (equals and key):
            remedy = "write for example --set users=10"
            raise ScenarioError([Fault("--set", "not of the form PATH=VALUE", assignment, remedy)])
        overrides[key] = plain_value(parse(text, f"--set {key}"))
    if seed is not None:
        overrides["seed"] = seed
    return scenarios.load(path, overrides, named or [])


def check_device(device: str) -> None:
    """Raise a `ScenarioError` if *device* is no device."""
    if device not in {"auto", "cpu", "cuda"}:
        raise ScenarioError([Fault("--device", "no such device", device, "write auto, cpu or cuda")])


def select_cluster(engine: str, address: str | None, gpus: float | None) -> Cluster | None:
    """Return the cluster to use, or ``None`` for processes on this machine.

    Raises:
        ScenarioError: there is no such engine, or it ignores an option that is given.
    """
    from netfl.learning.workers.ray_cluster import Cluster

    if engine not in _ENGINES:
        raise ScenarioError([Fault("--engine", "no such engine", engine, suggest(engine, _ENGINES))])
    if engine == "ray":
        return Cluster(address, gpus or 0.0)
    options = {"--address": address, "--gpus": gpus}
    given = {name: value for name, value in options.items() if value is not None}
    if given:
        raise ScenarioError([Fault(name, "has no effect", value, "add --engine ray") for name, value in given.items()])
    return None


def warn_ignored_sweep(scenario: Scenario, quiet: bool) -> None:
    """Warn that the command ignores the scenario's sweep, if it has one."""
    if scenario.sweep is not None and not quiet:
        typer.echo("one run, of the scenario as it stands; its sweep is run by: netfl sweep", err=True)


def warn_large_run(scenario: Scenario, quiet: bool, *, learning: bool) -> None:
    """Print the warnings about a scenario, among them that its run takes long or needs much memory."""
    from netfl.simulation import cost_estimate
    from netfl.simulation.setup import warnings

    if quiet:
        return
    work = cost_estimate.estimate_workload(scenario, learning=learning)
    for warning in ([cost_estimate.warning(work)] if work.is_large else []) + [*warnings(scenario)]:
        typer.echo(warning, err=True)


def report_outcome(done: Run, quiet: bool, *, report: bool = False, again: str | None = None) -> None:
    """Print how a run ended, and write its report on request.

    Args:
        done: the run.
        quiet: print nothing unless the run was stopped or diverged.
        report: write its report.
        again: the command that continues the run; by default ``netfl resume`` if it is not done.
    """
    from netfl.cli.progress import show_report
    from netfl.cli.views.run_summary import show_run

    if not quiet:
        show_run(done)
    for name in done.diverged:
        typer.echo(f"diverged: {name}", err=True)
    if report:
        show_report(done, None)
    if again is None and done.status != "done":
        again = f"netfl resume {done.folder}"
    if again is not None:
        typer.echo(f"interrupted; go on with: {again}", err=True)
        sys.exit(1)
