"""What every command does around its work: reads the scenario, catches netfl's errors, says how the run ended."""

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
"""Who has work done."""
Arguments = ParamSpec("Arguments")


def handle_errors(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """End *command* with a message and the right exit code when it meets an error of netfl's."""

    @wraps(command)
    def guarding(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
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

    return guarding


def load(path: Path, sets: list[str] | None, named: list[str] | None, seed: int | None) -> Scenario:
    """The scenario file with the command line's changes."""
    from netfl.scenario import scenario as scenarios
    from netfl.scenario.yaml_document import parse, plain_value

    overrides: dict[str, Any] = {}
    for one in sets or []:
        key, equals, text = one.partition("=")
        if not (equals and key):
            raise ScenarioError([Fault("--set", "not of the form PATH=VALUE", one, "write for example --set users=10")])
        overrides[key] = plain_value(parse(text, f"--set {key}"))
    if seed is not None:
        overrides["seed"] = seed
    return scenarios.load(path, overrides, named or [])


def check_device(device: str) -> None:
    """Refuse what is no device."""
    if device not in {"auto", "cpu", "cuda"}:
        raise ScenarioError([Fault("--device", "no such device", device, "write auto, cpu or cuda")])


def select_cluster(engine: str, address: str | None, gpus: float | None) -> Cluster | None:
    """The cluster that is asked for; ``None`` for this machine's own processes.

    Raises:
        ScenarioError: there is no such engine, or it does not heed what is said of it.
    """
    from netfl.learning.workers.ray_cluster import Cluster

    if engine not in _ENGINES:
        raise ScenarioError([Fault("--engine", "no such engine", engine, suggest(engine, _ENGINES))])
    if engine == "ray":
        return Cluster(address, gpus or 0.0)
    said = {"--address": address, "--gpus": gpus}
    idle = [Fault(one, "has no effect", value, "add --engine ray") for one, value in said.items() if value is not None]
    if idle:
        raise ScenarioError(idle)
    return None


def warn_ignored_sweep(scenario: Scenario, quiet: bool) -> None:
    """Say that the scenario's sweep is left out, if it has one."""
    if scenario.sweep is not None and not quiet:
        typer.echo("one run, of the scenario as it stands; its sweep is run by: netfl sweep", err=True)


def warn_large_run(scenario: Scenario, quiet: bool, *, learning: bool) -> None:
    """Say that a run will take long, or much room, if it will, and what else there is to say of it."""
    from netfl.simulation import cost_estimate
    from netfl.simulation.setup import warnings

    if quiet:
        return
    work = cost_estimate.estimate_workload(scenario, learning=learning)
    for warning in ([cost_estimate.warning(work)] if work.is_large else []) + [*warnings(scenario)]:
        typer.echo(warning, err=True)


def report_outcome(done: Run, quiet: bool, *, report: bool = False, again: str | None = None) -> None:
    """Say how the run ended, and write its report if that is wanted.

    Args:
        done: the run.
        quiet: say nothing of it, unless it was stopped.
        report: write its report.
        again: the command that goes on with what was stopped; by default that of a run that is not done.
    """
    from netfl.cli.progress import show_report
    from netfl.cli.views.run_summary import show_run

    if not quiet:
        show_run(done)
    for one in done.diverged:
        typer.echo(f"diverged: {one}", err=True)
    if report:
        show_report(done, None)
    if again is None and done.status != "done":
        again = f"netfl resume {done.folder}"
    if again is not None:
        typer.echo(f"interrupted; go on with: {again}", err=True)
        sys.exit(1)
